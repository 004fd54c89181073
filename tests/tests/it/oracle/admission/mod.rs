//! Compares the admission engine with the in-tree plugins: the same verdict, code and message for
//! each case.
//!
//! The plugins are those of the control plane's version of Kubernetes; `NODELIFE_KUBERNETES` names
//! another one of `control-plane/kubernetes/`, which is then built (about 3 minutes):
//!
//! ```sh
//! for version in 1.33 1.34 1.35 1.36 1.37; do
//!   NODELIFE_KUBERNETES=$version NODELIFE_CASES=100000 \
//!     cargo test -p nodelife-tests --test it -- oracle::admission::the_ oracle::admission::certificate
//! done
//! ```

pub(crate) mod cases;
pub(crate) mod engine;
pub(crate) mod random;
mod response;

use std::collections::BTreeSet;

use nodelife_tests::oracle::{self, AdmissionAnswer};
use nodelife_tests::{Kubernetes, seed};
use serde_json::Value;

use engine::Decision;
use random::Random;

/// Requests to NodeRestriction, and to DefaultTolerationSeconds in the proportion of their rules.
const CASES: usize = 40_000;
/// Certificate requests alone.
const SIGNING_CASES: usize = 10_000;
/// Asked at once: a bound on what lies in memory.
const BATCH: usize = 5_000;

/// Differences that a failure shows.
const SHOWN: usize = 6;

/// A diff follows this, which differs by design.
const OPEN_ENDED: &str =
    "is not allowed to update fields other than status.quantity and status.conditions: ";

/// Sentences of the plugin before 1.37, and since.
const OLDER: [&str; 2] = [
    "is not authorized to request tokens for this audience",
    "to request tokens for this audience: ",
];
const NEWER: [&str; 8] = [
    "is not authorized to request tokens for audience",
    "to request tokens for audience",
    "does not mount a podCertificate projected volume for signer",
    "to request podcertificaterequests for signer",
    "cannot update node allocatable resource claim statuses",
    "CSIVolumeHealth feature gate is disabled",
    "is not allowed to modify CSINode spec via status",
    "unexpected operation \"CREATE\"",
];

/// Sentences that came with 1.34.
const SINCE_1_34: [&str; 11] = [
    "can not create pods that reference serviceaccounts",
    "unknown source for projected volume",
    "cannot update extended resource claim status",
    "PodCertificateRequest feature gate is disabled",
    "which is not the requesting node",
    "inconsistent with the running node",
    "which differs from running pod",
    "is not running on node",
    "is a mirror pod",
    "that differs from running pod",
    "which differs from the running service account",
];

/// A piece of every other sentence of the plugin: the generator has to reach each.
const SENTENCES: [&str; 39] = [
    "could not determine node from user",
    "unexpected pod subresource",
    "can only create and delete mirror pods",
    "pod does not have \"kubernetes.io/config.mirror\" annotation",
    "can only create pods with spec.nodeName set to itself",
    "can only create pods with a single owner reference set to itself",
    "can only create pods with an owner reference set to itself",
    "can only create pods with a controller owner reference set to itself",
    "must not set blockOwnerDeletion on an owner reference",
    "UID mismatch: expected",
    "node \"n1\" not found",
    "can not create pods that reference secrets",
    "can not create pods that reference configmaps",
    "can not create pods that reference resourceclaims",
    "can not create pods that reference persistentvolumeclaims",
    "can only delete pods with spec.nodeName set to itself",
    "can only update pod status for pods with spec.nodeName set to itself",
    "cannot update labels through pod status",
    "cannot update resource claim statues",
    "could not determine pod from request data",
    "can only evict pods with spec.nodeName set to itself",
    "is not allowed to modify node",
    "is not allowed to create pods with a non-nil configSource",
    "is not allowed to set the following labels",
    "is not allowed to update configSource to a new non-nil configSource",
    "is not allowed to modify taints",
    "is not allowed to modify ownerReferences",
    "is not allowed to modify labels",
    "may only update PVC status",
    "is not allowed to update fields other than status.quantity",
    "node requested token not bound to a pod",
    "node requested token with a pod binding without a uid",
    "the UID in the bound object reference",
    "node requested token bound to a pod scheduled on a different node",
    "node may only request 0 or 1 audiences",
    "error validating audience",
    "can only access leases in the \"kube-node-lease\" system namespace",
    "can only access CSINode with the same name as the requesting node",
    "can only create a node CSR with CN=system:node:",
];

#[test]
fn the_engine_decides_as_the_in_tree_plugins() {
    let seed = seed::seed();
    let mut random = Random::new(seed);
    let kubernetes = Kubernetes::current().unwrap();
    let has = |minor: &str| kubernetes.is_at_least(minor).unwrap();
    let mut of_version = if has("1.37") {
        NEWER.to_vec()
    } else {
        OLDER.to_vec()
    };
    if has("1.34") {
        of_version.extend(SINCE_1_34);
    }
    let sentences = || SENTENCES.iter().chain(&of_version);
    let count = seed::cases(CASES);
    let (mut all, mut of_node_restriction, mut allowed) = (0, 0, 0);
    let mut reached: BTreeSet<&str> = BTreeSet::new();
    while of_node_restriction < count {
        let cases: Vec<Value> = (0..BATCH).map(|_| cases::case(&mut random)).collect();
        let answers: Vec<AdmissionAnswer> = oracle::ask("admission", &cases).unwrap();
        let mut differences = Vec::new();
        for (case, answer) in cases.iter().zip(&answers) {
            if let Err(difference) = compare(case, answer)
                && (has("1.34") || !is_of_1_33(case, &difference))
            {
                differences.push((case, difference));
            }
            all += 1;
            of_node_restriction += usize::from(case["plugin"] == "noderestriction");
            allowed += usize::from(answer.allowed);
            reached.extend(
                sentences()
                    .filter(|part| answer.message.contains(**part))
                    .copied(),
            );
        }
        report(seed, differences);
    }
    let missed: Vec<_> = sentences()
        .filter(|part| !reached.contains(*part))
        .collect();
    assert!(
        missed.is_empty() || count < CASES,
        "the generator never led to {missed:?}"
    );
    assert!(
        (all / 5..all * 4 / 5).contains(&allowed),
        "{allowed} of {all} were allowed: the generator is one-sided"
    );
    println!(
        "Kubernetes {}: {all} cases agree, {of_node_restriction} of them of NodeRestriction; {allowed} are allowed",
        kubernetes.minor()
    );
}

#[test]
fn certificate_requests_are_decided_as_by_the_in_tree_plugin() {
    let seed = seed::seed();
    let mut random = Random::new(seed);
    let (count, mut allowed) = (seed::cases(SIGNING_CASES), 0);
    for first in (0..count).step_by(BATCH) {
        let cases: Vec<Value> = (first..count.min(first + BATCH))
            .map(|_| cases::certificate_request(&mut random))
            .collect();
        let answers: Vec<AdmissionAnswer> = oracle::ask("admission", &cases).unwrap();
        let mut differences = Vec::new();
        for (case, answer) in cases.iter().zip(&answers) {
            allowed += usize::from(answer.allowed);
            differences.extend(
                compare(case, answer)
                    .err()
                    .map(|difference| (case, difference)),
            );
        }
        report(seed, differences);
    }
    println!("{count} cases agree, {allowed} of them allowed");
    assert!((count / 2..count * 9 / 10).contains(&allowed), "{allowed}");
}

/// The engine refuses more than the plugin: what is not in canonical form. It must not find the
/// node's own name where the plugin, the reader of the API server and its signers, finds another.
/// The API server itself refuses what the plugin cannot read.
#[test]
fn changed_certificate_requests_never_get_another_name() {
    let mut random = Random::new(seed::seed());
    let (count, mut both, mut others) = (seed::cases(SIGNING_CASES), 0, 0);
    for first in (0..count).step_by(BATCH) {
        let cases: Vec<Value> = (first..count.min(first + BATCH))
            .map(|_| cases::changed_certificate_request(&mut random))
            .collect();
        let answers: Vec<AdmissionAnswer> = oracle::ask("admission", &cases).unwrap();
        for (case, answer) in cases.iter().zip(&answers) {
            let is_other = answer
                .message
                .contains("can only create a node CSR with CN=");
            let is_allowed = matches!(engine::ask(case), Decision::Allowed(_));
            assert!(!(is_allowed && is_other), "{answer:?} {case:#}");
            both += usize::from(is_allowed && answer.allowed);
            others += usize::from(is_other);
        }
    }
    println!("{count} cases: {both} allowed by both, {others} with another name");
    assert!(both.min(others) > count / 50, "{both} {others}");
}

/// Whether the plugin of 1.33 differs by design. The engine refuses each reference of a mirror pod,
/// in the words of 1.34, when the plugin began to; 1.33 looks at a volume of two sources twice, which
/// validation refuses; and a status that it does not know never reaches a webhook.
fn is_of_1_33(case: &Value, difference: &str) -> bool {
    const REFERENCES: &str = "can not create pods that reference ";
    let (ours, go) = difference.split_once("Go: ").unwrap();
    let sources = |volume: &Value| {
        volume.as_object().map_or(0, |fields| {
            fields.keys().filter(|key| *key != "name").count()
        })
    };
    let mut volumes = case["object"]["spec"]["volumes"]
        .as_array()
        .into_iter()
        .flatten();
    if ours.starts_with("allowed") {
        return go.contains(REFERENCES) && volumes.any(|volume| sources(volume) > 1);
    }
    let of_references = ours.contains(REFERENCES) || ours.contains("unknown source for projected");
    (of_references && (go.starts_with("true") || go.contains(REFERENCES)))
        || (ours.contains("cannot update extended resource claim status") && go.starts_with("true"))
}

/// Fails with the first differences of a batch, made small.
fn report(seed: u64, differences: Vec<(&Value, String)>) {
    let count = differences.len();
    let mut shown: BTreeSet<String> = BTreeSet::new();
    for (case, difference) in differences.into_iter().take(SHOWN) {
        let (case, difference) = shrink(case.clone(), difference);
        shown.insert(format!("{difference}\n{case:#}"));
    }
    let shown: Vec<String> = shown.into_iter().collect();
    assert!(
        count == 0,
        "seed {seed}: {count} differ in a batch\n{}",
        shown.join("\n")
    );
}

fn compare(case: &Value, go: &AdmissionAnswer) -> Result<(), String> {
    match engine::ask(case) {
        Decision::Allowed(object) => {
            if !go.allowed {
                return Err(format!("allowed; Go: {} {}", go.code, go.message));
            }
            if case["plugin"] == "defaulttolerationseconds"
                && let Some(theirs) = &go.object
                && tolerations(theirs) != tolerations(&object)
            {
                let (ours, theirs) = (tolerations(&object), tolerations(theirs));
                return Err(format!("tolerations {ours:?}; Go: {theirs:?}"));
            }
            Ok(())
        }
        Decision::Denied { code, sentence } => {
            let same = code == go.code && same_sentence(&sentence, go);
            if go.allowed || !same {
                return Err(format!(
                    "denied with {code} {sentence}; Go: {} {} {}",
                    go.allowed, go.code, go.message
                ));
            }
            Ok(())
        }
    }
}

/// The tolerations of a pod, without the empty fields that Go does not write.
pub(crate) fn tolerations(pod: &Value) -> Vec<Value> {
    let list = pod["spec"]["tolerations"].as_array();
    let mut list = list.cloned().unwrap_or_default();
    for toleration in list.iter_mut().filter_map(Value::as_object_mut) {
        toleration.retain(|_, value| value != "");
    }
    list
}

/// Go puts `nodes "n1" is forbidden: ` before a Forbidden.
fn same_sentence(sentence: &str, go: &AdmissionAnswer) -> bool {
    let theirs = match go.message.split_once(" is forbidden: ") {
        Some((_, rest)) if go.code == 403 => rest,
        _ => &go.message,
    };
    if sentence == theirs {
        return true;
    }
    let head = |text: &str| {
        let end = text.find(OPEN_ENDED)? + OPEN_ENDED.len();
        Some(text[..end].to_owned())
    };
    head(sentence).is_some() && head(sentence) == head(theirs)
}

/// Takes fields away as long as the two still differ.
fn shrink(mut case: Value, mut difference: String) -> (Value, String) {
    loop {
        let smaller = paths(&case, "").into_iter().find_map(|path| {
            let mut smaller = case.clone();
            remove(&mut smaller, &path);
            let answer: Vec<AdmissionAnswer> =
                oracle::ask("admission", std::slice::from_ref(&smaller)).ok()?;
            let difference = compare(&smaller, &answer[0]).err()?;
            Some((smaller, difference))
        });
        match smaller {
            Some(smaller) => (case, difference) = smaller,
            None => return (case, difference),
        }
    }
}

/// JSON pointers of all that can go, large parts first.
fn paths(value: &Value, at: &str) -> Vec<String> {
    const KEPT: [&str; 8] = [
        "/plugin",
        "/operation",
        "/resource",
        "/user",
        "/lookups",
        "/object/kind",
        "/object/apiVersion",
        "/object",
    ];
    let mut found = Vec::new();
    let mut add = |key: String, value: &Value| {
        let path = format!("{at}/{key}");
        if !KEPT.contains(&path.as_str())
            && !path.ends_with("/apiVersion")
            && !path.ends_with("/kind")
        {
            found.push(path.clone());
        }
        found.extend(paths(value, &path));
    };
    match value {
        Value::Object(fields) => fields
            .iter()
            .for_each(|(key, value)| add(key.replace('~', "~0").replace('/', "~1"), value)),
        Value::Array(items) => items
            .iter()
            .enumerate()
            .for_each(|(i, value)| add(i.to_string(), value)),
        _ => {}
    }
    found
}

fn remove(value: &mut Value, path: &str) {
    let (parent, key) = path.rsplit_once('/').unwrap();
    match value.pointer_mut(parent) {
        Some(Value::Object(fields)) => {
            fields.remove(&key.replace("~1", "/").replace("~0", "~"));
        }
        Some(Value::Array(items)) => {
            items.remove(key.parse().unwrap());
        }
        _ => {}
    }
}
