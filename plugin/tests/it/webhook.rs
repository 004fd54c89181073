//! `webhook test`, offline.

use std::fs;

use serde_json::{Value, json};

use crate::schema::conforms;
use crate::{run, stdout};

fn review(name: &str, subresource: &str, user: &str) -> Value {
    json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
        "uid": "u", "operation": "CREATE", "name": name, "namespace": "d",
        "subResource": subresource, "object": {"metadata": {"name": name}, "spec": {}},
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "userInfo": {"username": user, "groups": ["system:nodes"]}}})
}

#[test]
fn reviews_are_answered_with_rule_and_remedy() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let reviews = [
        review("own", "eviction", "system:node:n1"),
        review("theirs", "eviction", "system:node:n1"),
        review("any", "", "someone"),
    ];
    let text: Vec<String> = reviews.iter().map(|one| format!("{one:#}")).collect();
    fs::write(path("reviews.json"), text.join("\n")).unwrap();
    let pod = |name: &str, node: &str| {
        json!({"kind": "Pod", "metadata": {"name": name, "namespace": "d"},
            "spec": {"nodeName": node}})
    };
    let list = json!({"kind": "List", "items": [pod("own", "n1"), pod("theirs", "n2")]});
    fs::write(path("objects.json"), list.to_string()).unwrap();
    let (reviews, objects) = (path("reviews.json"), path("objects.json"));
    let words = ["webhook", "test", "-f", &reviews, "--objects", &objects];
    let report = stdout(&[&words[..], &["-o", "json"]].concat(), 3);
    let report: Value = serde_json::from_str(&report).unwrap();
    conforms(&report, "WebhookTest");
    let said: Vec<[&str; 2]> = report["verdicts"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| {
            [
                one["verdict"].as_str().unwrap(),
                one["rule"].as_str().unwrap(),
            ]
        })
        .collect();
    assert_eq!(said, [["allow", ""], ["deny", "evictions"], ["patch", ""]]);
    assert_eq!(report["verdicts"][1]["code"], 403);
    assert_eq!(
        report["verdicts"][2]["patch"][0]["path"],
        "/spec/tolerations"
    );
    let table = stdout(&words, 3);
    let (_, steps) = table.rsplit_once("\nd/any: ").unwrap();
    let steps: Value = serde_json::from_str(steps).unwrap();
    assert_eq!(steps, report["verdicts"][2]["patch"]);
    assert!(
        table.contains("node n1 can only evict pods with spec.nodeName set to itself"),
        "{table}"
    );
    let warned = [&words[..], &["--set", "nodeRestriction.mode=warn"]].concat();
    assert!(stdout(&warned, 0).contains("evictions"));
}

#[test]
fn unreadable_input_is_one_sentence() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("in").to_str().unwrap().to_owned();
    for (text, sentence) in [
        (
            "{}",
            "document 1: expected admission.k8s.io/v1 AdmissionReview",
        ),
        ("{", "document 1"),
        ("", "holds no AdmissionReview"),
    ] {
        fs::write(&path, text).unwrap();
        let said = run(&["webhook", "test", "-f", &path]);
        assert!(
            said.starts_with("status: 1\n") && said.contains(sentence),
            "{said}"
        );
    }
}
