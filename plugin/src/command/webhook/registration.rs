//! Compares the registered webhooks with those that the webhook's configuration needs. Whoever narrows a
//! webhook, such as AKS' admissions enforcer, has the API server leave out requests without a word.

use std::collections::BTreeSet;

use nodelife_admission::{ConfigFile, Policies, webhook_configurations};
use nodelife_cluster::resource::Resource;
use nodelife_cluster::{ApiError, Cluster};
use nodelife_core::format::join;
use serde_json::{Value, json};

use super::chain::{Health, Installed, Link, at, items, link, ok};

const LINK: &str = "registration";
const DEPLOYMENTS: Resource = Resource::grouped("apps", "v1", "deployments");
const CONFIG_MAPS: Resource = Resource::core("configmaps");
const FIX: &str =
    "apply the manifests again; `nodelife-webhook export` prints what a configuration needs";
/// The labels of namespaces by which AKS' enforcer selects (Azure/AKS#1771).
const ENFORCER: [&str; 2] = ["control-plane", "kubernetes.azure.com/managedby"];
const ENFORCER_FIX: &str = "AKS' admissions enforcer adds such selectors unless the configuration has the label admissions.enforcer/disabled=true";

/// The policies of the installed webhook: as its Deployment's arguments say, or the built-in ones.
pub(super) async fn policies(cluster: &Cluster, namespace: &str) -> Result<Policies, String> {
    let text = |error: ApiError| error.to_string();
    let target = DEPLOYMENTS.all().in_namespace(namespace);
    let target = target.named("nodelife-webhook");
    let deployment: Value = cluster.get(target).await.map_err(text)?.unwrap_or_default();
    let pod = at(&deployment, "/spec/template/spec");
    let mut arguments = items(pod, "/containers/0/args").filter_map(Value::as_str);
    let mut file = ConfigFile::default();
    if let Some(path) = arguments.find_map(|one| one.strip_prefix("--config=")) {
        let (folder, key) = path.rsplit_once('/').unwrap_or_default();
        let mount =
            items(pod, "/containers/0/volumeMounts").find(|one| at(one, "/mountPath") == folder);
        let volume = items(pod, "/volumes")
            .find(|one| mount.is_some_and(|mount| at(mount, "/name") == at(one, "/name")));
        let name = volume.and_then(|one| at(one, "/configMap/name").as_str());
        let name = name.ok_or_else(|| format!("{path} comes from no ConfigMap"))?;
        let target = CONFIG_MAPS.all().in_namespace(namespace).named(name);
        let map: Value = cluster.get(target).await.map_err(text)?.unwrap_or_default();
        let content = at(&map, "/data").get(key).and_then(Value::as_str);
        let content = content.ok_or_else(|| format!("the ConfigMap {name} has no {key}"))?;
        file = ConfigFile::parse(content).map_err(|error| error.to_string())?;
    }
    file.policies(&[]).map_err(|error| error.to_string())
}

pub(super) fn inspect(installed: &Installed) -> Link {
    let policies = match &installed.policies {
        Ok(policies) => policies,
        Err(reason) => {
            let message = format!("failed to read the webhook's configuration: {reason}");
            return link(LINK, Health::Unknown, message, "");
        }
    };
    let mut health = Health::Ok;
    let mut found = Vec::new();
    for configuration in webhook_configurations(policies) {
        let mut expected = at(&configuration, "/webhooks/0").clone();
        if let Some(namespace) = expected.pointer_mut("/clientConfig/service/namespace") {
            *namespace = json!(installed.namespace);
        }
        let name = at(&expected, "/name");
        let Some(webhook) = installed.all().find(|one| at(one, "/name") == name) else {
            found.push(format!("{} is not registered", text_of(name)));
            health = Health::Broken;
            continue;
        };
        let differences = differences(&expected, webhook);
        if !differences.is_empty() {
            // A slow network may need more time.
            let is_harmless = differences
                .iter()
                .all(|one| one.starts_with("timeoutSeconds "));
            if !is_harmless {
                health = Health::Broken;
            } else if health == Health::Ok {
                health = Health::Warning;
            }
            found.push(format!("{}: {}", text_of(name), differences.join(", ")));
        }
    }
    if found.is_empty() {
        return ok(
            LINK,
            "rules, selectors, conditions and timeouts are those of the configuration",
        );
    }
    let message = found.join("; ");
    let is_enforced = ENFORCER
        .iter()
        .any(|key| message.contains(&format!("adds {key} ")));
    link(
        LINK,
        health,
        message,
        if is_enforced { ENFORCER_FIX } else { FIX },
    )
}

/// What `webhook` has otherwise or in addition, except what `certs` and the overlay fail-closed write.
fn differences(expected: &Value, webhook: &Value) -> Vec<String> {
    let mut found = Vec::new();
    for field in ["/timeoutSeconds", "/matchPolicy"] {
        let (is, wanted) = (at(webhook, field), at(expected, field));
        if is != wanted {
            let (field, is, wanted) = (field.trim_start_matches('/'), text_of(is), text_of(wanted));
            found.push(format!("{field} is {is} instead of {wanted}"));
        }
    }
    if at(webhook, "/clientConfig/service") != at(expected, "/clientConfig/service") {
        found.push("clientConfig calls another service".to_owned());
    }
    for list in [
        "/rules",
        "/matchConditions",
        "/namespaceSelector/matchExpressions",
        "/objectSelector/matchExpressions",
    ] {
        let names = |from: &Value, other: &Value| {
            let others: Vec<&Value> = items(other, list).collect();
            let own = items(from, list).filter(|one| !others.contains(one));
            own.map(describe).collect::<BTreeSet<String>>()
        };
        let (lacks, adds) = (names(expected, webhook), names(webhook, expected));
        let field = list.trim_start_matches('/').replace('/', ".");
        found.extend(lacks.union(&adds).map(|one| {
            let verb = match (lacks.contains(one), adds.contains(one)) {
                (true, true) => "changes",
                (true, false) => "lacks",
                _ => "adds",
            };
            format!("{field} {verb} {one}")
        }));
    }
    for labels in [
        "/namespaceSelector/matchLabels",
        "/objectSelector/matchLabels",
    ] {
        let added = at(webhook, labels);
        if added.as_object().is_some_and(|labels| !labels.is_empty()) {
            let field = labels.trim_start_matches('/').replace('/', ".");
            found.push(format!("{field} adds {added}"));
        }
    }
    found
}

/// A condition by its name, a rule by its resources, a requirement of a selector by its key.
fn describe(one: &Value) -> String {
    let words = |field: &str| {
        let path = format!("/{field}");
        join(items(one, &path).filter_map(Value::as_str), ",")
    };
    if let Some(name) = at(one, "/name").as_str() {
        return name.to_owned();
    }
    if let Some(key) = at(one, "/key").as_str() {
        let operator = text_of(at(one, "/operator"));
        return format!("{key} {operator} {}", words("values"))
            .trim_end()
            .to_owned();
    }
    format!("{} {}", words("operations"), words("resources"))
}

fn text_of(value: &Value) -> String {
    value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::super::chain::tests::sound;
    use super::*;

    fn changed(path: &str, value: Value) -> Link {
        let mut installed = sound();
        let webhook = &mut installed.webhooks[1].as_mut().unwrap()[0];
        assert_eq!(webhook["name"], "node-restriction.nodelife.dev");
        let (parent, field) = path.rsplit_once('/').unwrap();
        webhook.pointer_mut(parent).unwrap()[field] = value;
        inspect(&installed)
    }

    #[test]
    fn each_change_of_a_registration_is_named() {
        assert_eq!(inspect(&sound()).health, Health::Ok);
        let never = json!([{"name": "never", "expression": "false"}]);
        let plane =
            json!({"matchExpressions": [{"key": "control-plane", "operator": "DoesNotExist"}]});
        for (path, value, health, words) in [
            (
                "/matchConditions",
                never,
                Health::Broken,
                "matchConditions adds never",
            ),
            (
                "/matchConditions",
                json!([]),
                Health::Broken,
                "matchConditions lacks is-node",
            ),
            (
                "/matchConditions/0/expression",
                json!("false"),
                Health::Broken,
                "matchConditions changes is-node",
            ),
            (
                "/namespaceSelector",
                plane.clone(),
                Health::Broken,
                "namespaceSelector.matchExpressions adds control-plane DoesNotExist",
            ),
            (
                "/objectSelector",
                json!({"matchLabels": {"a": "b"}}),
                Health::Broken,
                r#"objectSelector.matchLabels adds {"a":"b"}"#,
            ),
            (
                "/rules/0/operations",
                json!(["CREATE"]),
                Health::Broken,
                "rules lacks CREATE,UPDATE,DELETE nodes,nodes/*",
            ),
            (
                "/clientConfig/service/name",
                json!("other"),
                Health::Broken,
                "clientConfig calls another service",
            ),
            (
                "/timeoutSeconds",
                json!(30),
                Health::Warning,
                "timeoutSeconds is 30 instead of 2",
            ),
            ("/failurePolicy", json!("Fail"), Health::Ok, "rules"),
        ] {
            let link = changed(path, value);
            assert_eq!(link.health, health, "{link:?}");
            assert!(link.message.contains(words), "{link:?}");
        }
        let enforced = changed("/namespaceSelector", plane);
        assert!(
            enforced.fix.contains("admissions.enforcer/disabled"),
            "{enforced:?}"
        );
        let mut installed = sound();
        installed.webhooks[0].as_mut().unwrap().clear();
        let gone = inspect(&installed);
        assert!(
            gone.message
                .contains("tolerations.nodelife.dev is not registered"),
            "{gone:?}"
        );
    }
}
