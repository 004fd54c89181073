//! Redaction takes the owner's words out, wherever they stand, and leaves what is wrong.

use std::collections::BTreeMap;

use nodelife_audit::Selection;
use nodelife_cluster::snapshot::redact;
use nodelife_core::snapshot::Snapshot;
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use serde_json::{Value, json};

use super::{cluster, fixtures, with_target};

fn redacted(snapshot: &Snapshot) -> Snapshot {
    let mut redacted = snapshot.clone();
    redact(&mut redacted).unwrap();
    redacted
}

/// A rule that needs a word of Kubernetes or of a provider has it in `cluster/src/snapshot/redact/words.txt`.
#[test]
fn every_rule_finds_the_same_in_a_redacted_snapshot() {
    let mut differences = String::new();
    for fixture in fixtures() {
        for change in [fixture.fires, fixture.silent] {
            let mut snapshot = cluster::healthy();
            change(&mut snapshot);
            let found = |snapshot: &Snapshot| {
                let selection = Selection {
                    rules: vec![fixture.rule.into()],
                    ..with_target()
                };
                let now = snapshot.taken_at.unwrap();
                let audit = nodelife_audit::audit(snapshot, &selection, now);
                let findings = audit.findings.into_iter();
                let mut found: Vec<_> = findings
                    .map(|finding| (finding.severity, finding.subject.kind))
                    .collect();
                found.sort();
                found
            };
            let (was, is) = (found(&snapshot), found(&redacted(&snapshot)));
            if was != is {
                let line = format!("{}: {was:?}, redacted {is:?}\n", fixture.rule);
                differences.push_str(&line);
            }
        }
    }
    assert!(differences.is_empty(), "{differences}");
}

/// An object of a snapshot, and a text in it or a key.
#[derive(Clone)]
struct Place {
    list: String,
    object: Value,
    pointer: String,
    is_key: bool,
}

impl Place {
    /// The redacted snapshot of this object alone with another word there; none if no decoder takes
    /// it.
    fn with(&self, word: &str) -> Option<String> {
        let mut object = self.object.clone();
        if self.is_key {
            let (parent, key) = self.pointer.rsplit_once('/')?;
            let parent = object.pointer_mut(parent)?.as_object_mut()?;
            let value = parent.remove(&key.replace("~1", "/").replace("~0", "~"))?;
            parent.insert(word.to_owned(), value);
        } else {
            *object.pointer_mut(&self.pointer)? = word.into();
        }
        let document = match self.list.as_str() {
            "kubeletConfigs" => json!({"kubeletConfigs": {"node": object}}),
            list => json!({list: [object]}),
        };
        let snapshot: Snapshot = serde_json::from_value(document).ok()?;
        serde_json::to_string(&snapshot)
            .unwrap()
            .contains(word)
            .then_some(())?;
        Some(serde_json::to_string(&redacted(&snapshot)).unwrap())
    }
}

/// The places of texts and keys in a tree, as pointers.
fn visit(value: &Value, pointer: &str, found: &mut impl FnMut(String, bool)) {
    match value {
        Value::String(_) => found(pointer.to_owned(), false),
        Value::Array(items) => {
            for (i, item) in items.iter().enumerate() {
                visit(item, &format!("{pointer}/{i}"), found);
            }
        }
        Value::Object(fields) => {
            for (key, value) in fields {
                let key = key.replace('~', "~0").replace('/', "~1");
                let pointer = format!("{pointer}/{key}");
                found(pointer.clone(), true);
                visit(value, &pointer, found);
            }
        }
        _ => {}
    }
}

/// Fields that no fixture needs.
fn rich() -> Value {
    let selector = json!({"matchLabels": {"a": "b"}, "matchExpressions":
        [{"key": "a", "operator": "In", "values": ["b"]}]});
    let spec = json!({
        "nodeName": "n", "nodeSelector": {"a": "b"}, "overhead": {"a.example.com/b": "1"},
        "hostNetwork": true, "serviceAccountName": "s",
        "affinity": {
            "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{
                "matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}],
                "matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]}]}},
            "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
                {"labelSelector": selector, "namespaces": ["a"], "topologyKey": "t"}]}},
        "topologySpreadConstraints": [{"topologyKey": "t", "labelSelector": selector}],
        "tolerations": [{"key": "a", "operator": "Equal", "value": "b", "effect": "NoExecute"}],
        "containers": [{"name": "c", "image": "registry.example.com/a/b:v1.2.3-c",
            "resources": {"requests": {"a.example.com/b": "1"}}}],
        "volumes": [{"name": "v", "emptyDir": {"medium": "m"}}, {"name": "w", "hostPath": {"path": "/p"}}],
    });
    let meta = json!({"name": "n", "namespace": "s", "labels": {"a": "b"},
        "annotations": {"nodelife.dev/drain": "c"}, "finalizers": ["f.example.com/a"],
        "ownerReferences": [{"apiVersion": "a.example.com/v1", "kind": "K", "name": "o", "uid": "u",
            "controller": true}]});
    json!({
        "nodes": [{"metadata": meta, "spec": {"podCIDR": "10.0.0.0/24", "podCIDRs": ["10.0.0.0/24"],
            "taints": [{"key": "a", "value": "b", "effect": "NoSchedule"}]},
            "status": {"images": [{"names": ["registry.example.com/a/b:v1"], "sizeBytes": 1}],
                "capacity": {"a.example.com/b": "1"}, "allocatable": {"a.example.com/b": "1"}}}],
        "pods": [{"metadata": meta, "spec": spec}],
        "workloads": [{"kind": "StatefulSet", "metadata": meta,
            "spec": {"selector": selector, "template": {"spec": spec}}}],
        "budgets": [{"metadata": meta, "spec": {"minAvailable": "1", "selector": selector},
            "status": {"disruptedPods": {"p": "2026-01-01T00:00:00Z"}}}],
        "events": [{"metadata": meta, "reason": "r", "message": "m", "type": "t",
            "involvedObject": {"kind": "Node", "name": "n"}}],
        "kubeletConfigs": {"n": {"others": null, "clusterDomain": "a.example.com", "staticPodPath": "/p",
            "registerWithTaints": [{"key": "a", "value": "b", "effect": "NoSchedule"}],
            "featureGates": {"G": true}, "clusterDNS": ["10.0.0.10"],
            "staticPodURLHeader": {"h": ["v"]}, "kubeReserved": {"a.example.com/b": "1"}}},
    })
}

/// One place of each kind that any fixture has, in which some word of an owner can stand.
fn places() -> Vec<Place> {
    let healthy = serde_json::to_value(cluster::healthy()).unwrap();
    let empty = Snapshot::default();
    let empty = serde_json::to_value(empty).unwrap();
    let mut places = new_places(&healthy, &empty);
    places.extend(new_places(&rich(), &empty));
    for fixture in fixtures() {
        let mut snapshot = cluster::healthy();
        (fixture.fires)(&mut snapshot);
        let snapshot = serde_json::to_value(&snapshot).unwrap();
        for (kind, place) in new_places(&snapshot, &healthy) {
            places.entry(kind).or_insert(place);
        }
    }
    let takes = |place: &Place| place.with("canary").is_some();
    places.into_values().filter(takes).collect()
}

/// The places in the objects of a snapshot that are not in the other.
fn new_places(snapshot: &Value, other: &Value) -> BTreeMap<(String, bool), Place> {
    let mut places = BTreeMap::new();
    for (list, objects) in snapshot.as_object().unwrap() {
        let known = |object: &Value| {
            let known = other.get(list).and_then(Value::as_array);
            known.is_some_and(|known| known.contains(object))
        };
        let objects: Vec<&Value> = match objects {
            Value::Array(objects) => objects.iter().filter(|object| !known(object)).collect(),
            Value::Object(by_node) if list == "kubeletConfigs" => by_node.values().collect(),
            _ => continue,
        };
        for object in objects {
            visit(object, "", &mut |pointer, is_key| {
                let steps = pointer.split('/');
                let kind: Vec<_> = steps
                    .map(|step| step.parse::<usize>().map_or(step, |_| "*"))
                    .collect();
                let kind = format!("{list}{}", kind.join("/"));
                places.entry((kind, is_key)).or_insert_with(|| Place {
                    list: list.clone(),
                    object: object.clone(),
                    pointer,
                    is_key,
                });
            });
        }
    }
    places
}

/// A word as an owner could write it, also where it looks like one of Kubernetes.
fn disguises(word: &str) -> [String; 12] {
    [
        word.to_owned(),
        format!("{word}.example.com/{word}"),
        format!("node.kubernetes.io/{word}"),
        format!("node-role.kubernetes.io/{word}"),
        format!("{word}.kubernetes.io/name"),
        format!("system:{word}"),
        format!("system:serviceaccount:default:{word}"),
        format!("v1.30.1-{word}"),
        format!("Ubuntu 24.04 {word}"),
        format!("{word}Problem"),
        format!("aws:///{word}/i-{word}"),
        format!("hugepages-{word}"),
    ]
}

#[test]
fn no_word_of_a_random_cluster_survives_redaction() {
    let places = places();
    // The canaries of a review had 48 places; there are more.
    assert!(places.len() > 200, "{}", places.len());
    for place in &places {
        for text in disguises("canary") {
            let left = place.with(&text).unwrap_or_default();
            assert!(
                !left.contains("canary"),
                "{}{}: {left}",
                place.list,
                place.pointer
            );
        }
    }
    let mut runner = TestRunner::default();
    let words = "[a-z]{5,9}[0-9]{0,2}|[A-Z][a-z]{5,9}[A-Z][a-z]{4,6}|[a-z]{4}-[a-z]{5}\\.[a-z]{3}";
    let cases = (
        0..places.len(),
        words.prop_filter("known", |word| {
            let known = concat!(
                include_str!("../../../../cluster/src/snapshot/redact/words.txt"),
                include_str!("../../../../cluster/src/snapshot/redact/version_words.txt")
            );
            !known.contains(word.as_str())
        }),
    );
    let checked = runner.run(&cases, |(at, word)| {
        for text in disguises(&word) {
            let left = places[at].with(&text).unwrap_or_default();
            prop_assert!(!left.contains(&word), "{}: {left}", places[at].pointer);
        }
        Ok(())
    });
    checked.unwrap();
}
