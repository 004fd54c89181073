//! Checks each component between the API server and the webhook.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use jiff::Timestamp;
use nodelife_admission::{Policies, webhook_configurations};
use nodelife_certs::{Trust, trust};
use nodelife_core::format::join;
use nodelife_core::object::{LabelSelector, Labels};
use serde::{Deserialize as _, Serialize};
use serde_json::Value;

use super::registration;

/// The objects of an installation; `Err` has the reason if one could not be read.
pub(super) struct Installed {
    pub(super) namespace: String,
    pub(super) configuration: String,
    /// The mutating and the validating webhooks; `None` where there is no configuration.
    pub(super) webhooks: [Option<Vec<Value>>; 2],
    pub(super) policies: Result<Policies, String>,
    /// `tls.crt` of the serving Secret, decoded.
    pub(super) leaf: Result<Option<Vec<u8>>, String>,
    pub(super) endpoints: Result<Vec<Value>, String>,
}

impl Installed {
    pub(super) fn is_there(&self) -> bool {
        self.webhooks.iter().any(Option::is_some)
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &Value> {
        self.webhooks.iter().flatten().flatten()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Health {
    Ok,
    Warning,
    Broken,
    Unknown,
}

#[derive(Debug, PartialEq, Eq, Serialize)]
pub(super) struct Link {
    pub(super) name: &'static str,
    pub(super) health: Health,
    pub(super) message: String,
    #[serde(skip_serializing_if = "str::is_empty")]
    pub(super) fix: &'static str,
}

pub(super) fn link(
    name: &'static str,
    health: Health,
    message: impl Into<String>,
    fix: &'static str,
) -> Link {
    Link {
        name,
        health,
        message: message.into(),
        fix,
    }
}

pub(super) fn ok(name: &'static str, message: impl Into<String>) -> Link {
    link(name, Health::Ok, message, "")
}

const APPLY: &str = "apply the manifests again";
const CERTS: &str =
    "see the log of the Deployment nodelife-certs: it creates and repairs the certificates";

/// Every link, from the API server's side to the pods'.
pub(super) fn inspect(installed: &Installed, now: Timestamp) -> Vec<Link> {
    let mut links = vec![configurations(installed)];
    if installed.all().next().is_none() {
        return links;
    }
    links.push(bundles(installed));
    links.push(certificate(installed, now));
    links.push(exemption(installed));
    links.push(registration::inspect(installed));
    let (nodes, ready) = match &installed.endpoints {
        Ok(slices) => ready_nodes(slices),
        Err(reason) => {
            links.push(link("endpoints", Health::Unknown, reason, ""));
            return links;
        }
    };
    if ready == 0 {
        let message = "the Service has no ready endpoint: no replica is ready";
        let fix = "see the Deployment nodelife-webhook and its pods";
        links.push(link("endpoints", Health::Broken, message, fix));
        return links;
    }
    links.push(ok("endpoints", format!("{ready} ready")));
    links.push(if nodes < 2 {
        let message = format!("all {ready} ready replicas run on one node");
        let fix = "use the overlay ha, or more nodes";
        link("spread", Health::Warning, message, fix)
    } else {
        ok("spread", format!("{ready} ready on {nodes} nodes"))
    });
    links
}

fn configurations(installed: &Installed) -> Link {
    let kinds = [
        "MutatingWebhookConfiguration",
        "ValidatingWebhookConfiguration",
    ];
    let missing: Vec<&str> = kinds
        .into_iter()
        .zip(&installed.webhooks)
        .filter(|(kind, webhooks)| webhooks.is_none() && needs(installed, "/kind", kind))
        .map(|(kind, _)| kind)
        .collect();
    if missing.is_empty() {
        return ok("configurations", names(installed.all(), |_| true));
    }
    if !installed.is_there() {
        let message = "the webhook is not installed";
        let fix = "`kubectl apply -k manifests` installs it, if you need it";
        return link("configurations", Health::Broken, message, fix);
    }
    let message = format!(
        "there is no {} {}",
        missing.join(" and no "),
        installed.configuration
    );
    link("configurations", Health::Broken, message, APPLY)
}

/// Whether the webhook's configuration needs a registration with `value` at `path`, as far as it could
/// be read: the default installation has neither a mutating webhook nor one for nodes.
pub(super) fn needs(installed: &Installed, path: &str, value: &str) -> bool {
    let Ok(policies) = &installed.policies else {
        return true;
    };
    let needed = webhook_configurations(policies);
    needed.iter().any(|one| at(one, path) == value)
}

pub(super) fn at<'a>(value: &'a Value, path: &str) -> &'a Value {
    value.pointer(path).unwrap_or(&Value::Null)
}

pub(super) fn items<'v>(value: &'v Value, path: &str) -> impl Iterator<Item = &'v Value> + Clone {
    at(value, path).as_array().into_iter().flatten()
}

fn name(webhook: &Value) -> &str {
    at(webhook, "/name").as_str().unwrap_or("?")
}

/// What is there in base64.
pub(super) fn bytes(value: &Value, path: &str) -> Option<Vec<u8>> {
    BASE64_STANDARD.decode(at(value, path).as_str()?).ok()
}

fn bundle(webhook: &Value) -> Vec<u8> {
    bytes(webhook, "/clientConfig/caBundle").unwrap_or_default()
}

fn bundles(installed: &Installed) -> Link {
    let empty = names(installed.all(), |one| bundle(one).is_empty());
    if empty.is_empty() {
        return ok("caBundle", "in every webhook");
    }
    let message = format!("empty in {empty}: the API server accepts no certificate of the webhook");
    link("caBundle", Health::Broken, message, CERTS)
}

fn certificate(installed: &Installed, now: Timestamp) -> Link {
    let leaf = match &installed.leaf {
        Ok(Some(leaf)) => leaf,
        Ok(None) => {
            let message = "there is no Secret nodelife-webhook-tls with tls.crt";
            return link("certificate", Health::Broken, message, CERTS);
        }
        Err(reason) => return link("certificate", Health::Unknown, reason, ""),
    };
    let mut end = None;
    for webhook in installed.all() {
        let name = name(webhook);
        let message = match trust(leaf, &bundle(webhook), now) {
            Trust::Accepted(until) => {
                end = Some(until);
                continue;
            }
            Trust::NotValid(time) if time < now => format!("expired at {time}"),
            Trust::NotValid(time) => format!("not valid before {time}"),
            Trust::UnknownAuthority => format!("wrong CA: the caBundle of {name} did not sign it"),
            Trust::Unreadable(reason) => format!("unreadable: {reason}"),
        };
        return link("certificate", Health::Broken, message, CERTS);
    }
    let until = end.map_or_else(String::new, |end| format!("accepted until {end}"));
    ok("certificate", until)
}

/// Whether the webhook's own pods can start without the webhook.
fn exemption(installed: &Installed) -> Link {
    let namespace = installed.namespace.as_str();
    let caught = close_for(installed, namespace);
    if caught.is_empty() {
        return ok("exemption", format!("{namespace} is exempt from Fail"));
    }
    let message = format!(
        "own namespace not exempt: {caught} also fails closed in {namespace}, so the webhook's pods may wait for the webhook"
    );
    link("exemption", Health::Broken, message, APPLY)
}

/// The webhooks that refuse new pods of the namespace and their tokens if the call fails: the mutating
/// configurations have those.
pub(super) fn close_for(installed: &Installed, namespace: &str) -> String {
    let labels = Labels::from([("kubernetes.io/metadata.name".into(), namespace.into())]);
    names(installed.webhooks[0].iter().flatten(), |one| {
        is_closed(one) && !exempts(one, &labels)
    })
}

pub(super) fn exempts(webhook: &Value, labels: &Labels) -> bool {
    let selector = LabelSelector::deserialize(at(webhook, "/namespaceSelector"));
    selector.is_ok_and(|selector| !selector.matches(labels))
}

pub(super) fn names<'w>(
    webhooks: impl Iterator<Item = &'w Value>,
    choose: impl Fn(&Value) -> bool,
) -> String {
    join(webhooks.filter(|one| choose(one)).map(name), ", ")
}

pub(super) fn is_closed(webhook: &Value) -> bool {
    at(webhook, "/failurePolicy") != "Ignore"
}

/// Whether token requests are refused while the webhook is down, now or under the overlay fail-closed.
pub(super) fn may_close_tokens(webhook: &Value) -> bool {
    reviews_tokens(webhook) && (is_closed(webhook) || name(webhook) == "node-tokens.nodelife.dev")
}

pub(super) fn reviews_tokens(webhook: &Value) -> bool {
    let mut resources = items(webhook, "/rules").flat_map(|rule| items(rule, "/resources"));
    resources.any(|resource| resource == "serviceaccounts/token")
}

/// On how many nodes ready endpoints are, and how many there are.
fn ready_nodes(slices: &[Value]) -> (usize, usize) {
    let ready: Vec<&Value> = slices
        .iter()
        .flat_map(|slice| items(slice, "/endpoints"))
        // Absent means ready (discovery/v1).
        .filter(|endpoint| at(endpoint, "/conditions/ready") != false)
        .collect();
    let nodes: std::collections::BTreeSet<&str> = ready
        .iter()
        .filter_map(|one| at(one, "/nodeName").as_str())
        .collect();
    (nodes.len(), ready.len())
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use nodelife_certs::{Authority, Leaf, Lifetimes, ObjectNames};
    use serde_json::json;

    pub(crate) fn now() -> Timestamp {
        "2026-06-01T00:00:00Z".parse().unwrap()
    }

    pub(crate) fn sound() -> Installed {
        use base64::Engine as _;
        let names = ObjectNames::default();
        let life = jiff::SignedDuration::from_hours(24);
        let lifetimes = Lifetimes {
            ca: life,
            leaf: life,
            ..Lifetimes::default()
        };
        let ca = Authority::make(&names, &lifetimes, now()).unwrap();
        let leaf = Leaf::make(&ca, &names, &lifetimes, now()).unwrap();
        let ca = ca.certificate_pem();
        let bundle = base64::prelude::BASE64_STANDARD.encode(&ca);
        let policies = Policies::default();
        let webhooks = ["Mutating", "Validating"].map(|phase| {
            let all = webhook_configurations(&policies).into_iter();
            let all = all.filter(|one| one["kind"].as_str().unwrap().starts_with(phase));
            let webhooks = all.map(|one| {
                let mut webhook = one["webhooks"][0].clone();
                webhook["clientConfig"]["caBundle"] = json!(bundle);
                webhook
            });
            Some(webhooks.collect())
        });
        Installed {
            namespace: "nodelife-system".to_owned(),
            configuration: "nodelife-webhook".to_owned(),
            webhooks,
            policies: Ok(policies),
            leaf: Ok(Some(leaf.certificate_pem().into_bytes())),
            endpoints: Ok(vec![json!({"endpoints": [
                {"nodeName": "one", "conditions": {"ready": true}},
                {"nodeName": "two", "conditions": {"ready": true}},
            ]})]),
        }
    }

    fn trouble(installed: &Installed, now: Timestamp) -> Vec<(&'static str, String)> {
        inspect(installed, now)
            .into_iter()
            .filter(|one| one.health != Health::Ok)
            .map(|one| (one.name, one.message))
            .collect()
    }

    fn only(installed: &Installed, now: Timestamp, link: &str, words: &str) {
        let found = trouble(installed, now);
        let [(name, message)] = found.as_slice() else {
            panic!("expected one trouble: {found:?}");
        };
        assert_eq!(*name, link);
        assert!(message.contains(words), "{message}");
    }

    #[test]
    fn a_sound_installation_has_no_trouble() {
        assert_eq!(trouble(&sound(), now()), []);
    }

    #[test]
    fn each_fault_is_named() {
        let edit = |change: &dyn Fn(&mut Installed)| {
            let mut installed = sound();
            change(&mut installed);
            installed
        };
        let second = |installed: &mut Installed, key: &str, value: Value| {
            installed.webhooks[1].as_mut().unwrap()[0][key] = value;
        };
        let gone = edit(&|one| one.webhooks[1] = None);
        let found = trouble(&gone, now());
        assert_eq!(found[0].0, "configurations");
        assert!(
            found[0].1.contains("no ValidatingWebhookConfiguration"),
            "{found:?}"
        );
        // An installation of agents alone has nothing mutating.
        let agents = edit(&|one| {
            one.webhooks[0] = None;
            let policies =
                json!({"nodeRestriction": {"mode": "off"}, "tolerations": {"enabled": false}});
            one.policies = Ok(serde_json::from_value(policies).unwrap());
        });
        assert_eq!(trouble(&agents, now()), []);
        let none = edit(&|one| one.endpoints = Ok(Vec::new()));
        only(&none, now(), "endpoints", "no ready endpoint");
        let later = now() + jiff::SignedDuration::from_hours(48);
        only(&sound(), later, "certificate", "expired");
        let foreign = sound().leaf;
        let foreign = edit(&|one| one.leaf.clone_from(&foreign));
        only(&foreign, now(), "certificate", "wrong CA");
        let everywhere = edit(&|one| {
            let tokens = &mut one.webhooks[0].as_mut().unwrap()[0];
            tokens["namespaceSelector"] = json!({});
            tokens["failurePolicy"] = json!("Fail");
        });
        let [(_, message), (registration, _)] = &trouble(&everywhere, now())[..] else {
            panic!("expected two troubles");
        };
        assert_eq!(*registration, "registration");
        assert!(
            message.starts_with("own namespace not exempt: node-tokens."),
            "{message}"
        );
        let bare = edit(&|one| second(one, "matchConditions", json!([])));
        only(
            &bare,
            now(),
            "registration",
            "matchConditions lacks is-node",
        );
        let together = edit(&|one| {
            one.endpoints = Ok(vec![
                json!({"endpoints": [{"nodeName": "one"}, {"nodeName": "one"}]}),
            ]);
        });
        only(&together, now(), "spread", "on one node");
        let wiped = edit(&|one| second(one, "clientConfig", json!({})));
        let found = trouble(&wiped, now());
        assert_eq!(found[0].0, "caBundle");
        assert!(
            found[0].1.contains("empty in node-restriction"),
            "{found:?}"
        );
    }
}
