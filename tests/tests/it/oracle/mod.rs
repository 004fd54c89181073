//! Comparisons with Kubernetes' own code, and a test of the oracle itself.

pub(crate) mod admission;
mod agreement;
pub(crate) mod allocatable;
mod budget;
mod eviction_threshold;
pub(crate) mod kubelet_start;
mod placement;
mod quantity;
pub(crate) mod scale;
mod zone;

use nodelife_tests::oracle::{self, AdmissionAnswer};
use serde_json::{Value, json};

#[test]
fn a_forbidden_creation_is_refused_in_the_plugins_words() {
    let case = json!({
        "plugin": "noderestriction",
        "operation": "CREATE",
        "resource": {"group": "", "version": "v1", "resource": "nodes"},
        "name": "b",
        "user": {"name": "system:node:a", "groups": ["system:nodes"]},
        "object": {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "b"}},
    });
    let answers: Vec<AdmissionAnswer> = oracle::ask("admission", &[case]).unwrap();
    assert!(!answers[0].allowed);
    assert_eq!(answers[0].code, 403);
    assert_eq!(
        answers[0].message,
        r#"nodes "b" is forbidden: node "a" is not allowed to modify node "b""#
    );
}

#[test]
fn gives_a_pod_the_tolerations_of_the_flags() {
    let case = json!({
        "plugin": "defaulttolerationseconds",
        "operation": "CREATE",
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "user": {"name": "anybody"},
        "object": {"apiVersion": "v1", "kind": "Pod", "spec": {"containers": []}},
        "notReadySeconds": 5,
    });
    let answers: Vec<AdmissionAnswer> = oracle::ask("admission", &[case]).unwrap();
    let object = answers[0].object.as_ref().unwrap();
    let seconds: Vec<&Value> = object["spec"]["tolerations"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| &one["tolerationSeconds"])
        .collect();
    assert_eq!(seconds, [5, 300]);
}

#[test]
fn an_unknown_kind_of_case_is_an_error() {
    let error = oracle::ask::<_, Value>("weather", &[json!({})]).unwrap_err();
    assert!(
        format!("{error:#}").contains(r#"no kind \"weather\""#),
        "{error:#}"
    );
}
