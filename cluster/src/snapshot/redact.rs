//! Redacts a snapshot: replaces names, keeps the values that rules read.
//!
//! The rule is safe by default: every text becomes a pseudonym unless its field is
//! known to hold none of the owner's words. Equal texts get equal pseudonyms, so a
//! pod still stands on its node and a budget still selects its pods.

use std::collections::{BTreeMap, HashMap};

use nodelife_core::go_duration::GoDuration;
use nodelife_core::node_access::{NodeAuthorizer, NodeRestriction};
use nodelife_core::quantity::Quantity;
use nodelife_core::snapshot::Snapshot;
use nodelife_core::text::Str;
use serde_json::{Map, Value};

use super::kinds::{Kind, Visitor, each_kind};
use crate::listing::Object;

/// Fields whose texts come from Kubernetes or from the machine's maker.
const PLAIN: [&str; 44] = [
    "kind",
    "apiVersion",
    "type",
    "status",
    "reason",
    "effect",
    "operator",
    "phase",
    "qosClass",
    "restartPolicy",
    "medium",
    "kubeletVersion",
    "imageVersion",
    "kernelVersion",
    "osImage",
    "containerRuntimeVersion",
    "kubeProxyVersion",
    "operatingSystem",
    "architecture",
    "key",
    "creationTimestamp",
    "deletionTimestamp",
    "lastHeartbeatTime",
    "lastTransitionTime",
    "lastTimestamp",
    "eventTime",
    "startTime",
    "renewTime",
    "acquireTime",
    "timeAdded",
    "time",
    "uid",
    "resourceVersion",
    "minAvailable",
    "maxUnavailable",
    "unhealthyPodEvictionPolicy",
    "signerName",
    "verbs",
    "apiGroups",
    "resources",
    "accessModes",
    "topologyKey",
    "finalizers",
    "priorityClassName",
];

/// Fields of a kubelet's configuration whose texts the kubelet defines.
const OPTIONS: [&str; 9] = [
    "configMapAndSecretChangeDetectionStrategy",
    "contentType",
    "format",
    "hairpinMode",
    "imagePullCredentialsVerificationPolicy",
    "memoryReservationPolicy",
    "tlsMinVersion",
    "topologyManagerPolicy",
    "topologyManagerScope",
];

/// Fields of a kubelet's configuration that no pseudonym can stand for.
const SECRET_OPTIONS: [&str; 2] = ["preloadedImagesVerificationAllowlist", "staticPodURLHeader"];

/// Fields that hold amounts by resource name.
const AMOUNTS: [&str; 5] = ["capacity", "allocatable", "requests", "limits", "overhead"];

/// Fields that hold labels.
const LABELS: [&str; 3] = ["labels", "matchLabels", "nodeSelector"];

/// Label keys whose values Kubernetes defines.
const PLAIN_LABELS: [&str; 6] = [
    "topology.kubernetes.io/",
    "failure-domain.beta.kubernetes.io/",
    "node.kubernetes.io/",
    "node-role.kubernetes.io/",
    "kubernetes.io/",
    "beta.kubernetes.io/",
];

/// Begins with the prefix of a plain key, and yet holds a name.
const HOSTNAME: &str = "kubernetes.io/hostname";

/// Names that every cluster has.
const COMMON: [&str; 5] = [
    "",
    "default",
    "kube-system",
    "kube-public",
    "kube-node-lease",
];

/// How the node authorizer calls a kubelet.
const NODE_USER: &str = "system:node:";

/// The longest value of an annotation that stays: `true`, `skip`, `300`.
const LONGEST_SWITCH: usize = 5;

/// Replaces the names of nodes, namespaces, pods and all else that its owner wrote.
///
/// # Errors
///
/// Core's types do not come back from JSON: a fault of ours.
pub fn redact(snapshot: &mut Snapshot) -> Result<(), serde_json::Error> {
    let mut pseudonyms = Pseudonyms::default();
    let mut lists = Lists {
        snapshot,
        pseudonyms: &mut pseudonyms,
        result: Ok(()),
    };
    each_kind(&mut lists);
    lists.result?;
    snapshot.kubelet_configs = std::mem::take(&mut snapshot.kubelet_configs)
        .into_iter()
        .map(|(node, mut config)| {
            (config.others).retain(|field, _| !SECRET_OPTIONS.contains(&field.as_str()));
            for (field, value) in &mut config.others {
                pseudonyms.option(field, value);
            }
            (Str::from(pseudonyms.of(&node)), config)
        })
        .collect();
    let missing: BTreeMap<_, _> = std::mem::take(&mut snapshot.missing);
    // The reasons quote the server, and the server quotes users.
    snapshot.missing = missing
        .into_keys()
        .map(|source| (source, Str::from("was not read (the reason is redacted)")))
        .collect();
    // Users choose the names of webhooks, policies and role bindings.
    if let Some(NodeAuthorizer::Unknown { allowed_by }) = &mut snapshot.node_authorizer {
        *allowed_by = Str::from("another authorizer (its reason is redacted)");
    }
    if let Some(NodeRestriction::Off {
        denied_by: Some(denied_by),
    }) = &mut snapshot.node_restriction
    {
        *denied_by = Str::from("a webhook or policy (its name is redacted)");
    }
    Ok(())
}

/// Redacts every list.
struct Lists<'a> {
    snapshot: &'a mut Snapshot,
    pseudonyms: &'a mut Pseudonyms,
    result: Result<(), serde_json::Error>,
}

impl Visitor for Lists<'_> {
    fn visit<T: Object>(&mut self, kind: &'static Kind<T>) {
        let Some(mut list) = kind
            .is_first()
            .then(|| (kind.take)(self.snapshot))
            .flatten()
        else {
            return;
        };
        let result = self.pseudonyms.list(&mut list);
        *(kind.list)(self.snapshot) = list;
        if self.result.is_ok() {
            self.result = result;
        }
    }
}

#[derive(Default)]
struct Pseudonyms {
    known: HashMap<String, String>,
}

impl Pseudonyms {
    /// One object at a time, so that no tree of the whole list is held.
    fn list<T: Object>(&mut self, objects: &mut [T]) -> Result<(), serde_json::Error> {
        for object in objects {
            let mut value = serde_json::to_value(&*object)?;
            self.value("", &mut value);
            // By way of text: one more reader of each kind would be a lot of code.
            *object = serde_json::from_str(&value.to_string())?;
        }
        Ok(())
    }

    fn of(&mut self, text: &str) -> String {
        if let Some(name) = text.strip_prefix(NODE_USER) {
            return format!("{NODE_USER}{}", self.of(name));
        }
        if COMMON.contains(&text) || text.starts_with("system:") {
            return text.to_owned();
        }
        let next = format!("x{}", self.known.len() + 1);
        self.known.entry(text.to_owned()).or_insert(next).clone()
    }

    /// Redacts what stands in `field` of a kubelet's configuration, but for durations and amounts.
    fn option(&mut self, field: &str, value: &mut Value) {
        match value {
            Value::String(_) if OPTIONS.contains(&field) => {}
            Value::String(text)
                if GoDuration::parse(text).is_some() || Quantity::parse(text).is_ok() => {}
            Value::Array(items) => {
                for item in items {
                    self.option(field, item);
                }
            }
            Value::Object(fields) => {
                for (name, value) in fields {
                    self.option(name, value);
                }
            }
            other => self.value(field, other),
        }
    }

    /// Redacts what stands in `field`.
    fn value(&mut self, field: &str, value: &mut Value) {
        match value {
            Value::String(_) if PLAIN.contains(&field) => {}
            Value::String(text) if field == "message" => text.clear(),
            Value::String(text) => *text = self.of(text),
            Value::Array(items) => {
                for item in items {
                    self.value(field, item);
                }
            }
            Value::Object(_) if AMOUNTS.contains(&field) => {}
            Value::Object(fields) if LABELS.contains(&field) => {
                for (key, value) in fields {
                    self.label(key, value);
                }
            }
            Value::Object(fields) if field == "annotations" => {
                for (_, value) in fields {
                    let is_switch = value.as_str().is_some_and(|v| v.len() <= LONGEST_SWITCH);
                    if !is_switch {
                        self.value("", value);
                    }
                }
            }
            // Its keys are the names of pods.
            Value::Object(fields) if field == "disruptedPods" => {
                let renamed: Map<String, Value> = std::mem::take(fields)
                    .into_iter()
                    .map(|(pod, time)| (self.of(&pod), time))
                    .collect();
                *fields = renamed;
            }
            Value::Object(fields) => {
                // A taint, a toleration or a requirement: the key says what the value is.
                let key = fields.get("key").and_then(Value::as_str).map(str::to_owned);
                for (name, value) in fields {
                    match (&key, name.as_str()) {
                        (Some(key), "value" | "values") => self.label(key, value),
                        _ => self.value(name, value),
                    }
                }
            }
            _ => {}
        }
    }

    fn label(&mut self, key: &str, value: &mut Value) {
        let is_plain = key != HOSTNAME && PLAIN_LABELS.iter().any(|plain| key.starts_with(plain));
        if !is_plain {
            self.value("", value);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn names_go_and_relations_stay() {
        let mut snapshot: Snapshot = serde_json::from_value(json!({
            "nodes": [{"metadata": {"name": "secret-node", "labels": {
                "kubernetes.io/hostname": "secret-node", "topology.kubernetes.io/zone": "a",
                "team": "secret-team"}, "annotations": {"x": "true", "y": "secret-note"}},
                "spec": {"providerID": "aws:///a/secret-id",
                         "taints": [{"key": "team", "value": "secret-team", "effect": "NoSchedule"}]},
                "status": {"capacity": {"cpu": "4"}, "conditions": [
                    {"type": "Ready", "status": "True", "message": "secret-message"}]}}],
            "pods": [{"metadata": {"name": "secret-pod", "namespace": "secret-space",
                "labels": {"app": "secret-app"}}, "spec": {"nodeName": "secret-node",
                "containers": [{"name": "secret-container",
                                "image": "secret.example.com/kube-proxy:v1.30.4-secret"}]}, "status": {"phase": "Running"}}],
            "budgets": [{"metadata": {"name": "secret-budget", "namespace": "secret-space"},
                "spec": {"maxUnavailable": "25%", "selector": {"matchLabels": {"app": "secret-app"}}},
                "status": {"disruptedPods": {"secret-pod": "2026-01-02T03:04:05Z"}}}],
            "missing": {"leases": "secret-user may not list leases"},
            "nodeAuthorizer": {"state": "unknown", "allowedBy": "RBAC: allowed by secret-binding"},
            "nodeRestriction": {"state": "off", "deniedBy": "webhook secret-webhook"},
        }))
        .unwrap();
        redact(&mut snapshot).unwrap();
        let text = serde_json::to_string(&snapshot).unwrap();
        assert!(!text.contains("secret"), "{text}");
        let (node, pod) = (&snapshot.nodes[0], &snapshot.pods[0]);
        assert_eq!(pod.spec.node_name, node.metadata.name);
        assert_eq!(node.metadata.labels[HOSTNAME], node.metadata.name);
        assert_eq!(node.metadata.labels["topology.kubernetes.io/zone"], "a");
        assert_eq!(node.spec.taints[0].value, node.metadata.labels["team"]);
        assert_eq!(node.status.capacity["cpu"], "4");
        let version = pod.spec.containers[0].image_version.unwrap();
        assert_eq!(version.to_string(), "1.30.4");
        assert_eq!(node.metadata.annotations["x"], "true");
        let budget = &snapshot.budgets[0];
        let selector = budget.spec.selector.as_ref().unwrap();
        assert!(selector.matches(&pod.metadata.labels));
        assert!(
            budget
                .status
                .disrupted_pods
                .contains_key(&pod.metadata.name)
        );
    }
}
