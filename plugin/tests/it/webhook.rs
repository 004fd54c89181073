//! `webhook test` and `webhook replay`: no cluster, no webhook.

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
    let added = |taint: &str| {
        format!(
            "{{\"effect\":\"NoExecute\",\"key\":\"node.kubernetes.io/{taint}\",\"operator\":\"Exists\",\"tolerationSeconds\":300}}"
        )
    };
    let diff = [
        format!("+ spec.tolerations[0]: {}", added("not-ready")),
        format!("+ spec.tolerations[1]: {}", added("unreachable")),
    ];
    assert_eq!(report["verdicts"][2]["diff"], json!(diff));
    let table = stdout(&words, 3);
    assert!(
        table.ends_with(&format!("\nd/any\n{}\n", diff.join("\n"))),
        "{table}"
    );
    assert!(
        table.contains("node n1 can only evict pods with spec.nodeName set to itself"),
        "{table}"
    );
    let warned = [&words[..], &["--set", "nodeRestriction.mode=warn"]].concat();
    assert!(stdout(&warned, 0).contains("evictions"));
}

#[test]
fn a_replay_lists_denied_requests() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.log").to_str().unwrap().to_owned();
    let event = |verb: &str, name: &str, user: &str, second: u8| {
        json!({"apiVersion": "audit.k8s.io/v1", "kind": "Event", "stage": "ResponseComplete",
            "verb": verb, "responseStatus": {"code": 200},
            "requestReceivedTimestamp": format!("2026-01-01T00:00:0{second}.000000Z"),
            "user": {"username": user, "groups": ["system:nodes"]},
            "objectRef": {"resource": "nodes", "name": name, "apiVersion": "v1"}})
    };
    let pod = |name: &str| {
        let mut pod = event("create", name, "admin", 6);
        pod["objectRef"] = json!({"resource": "pods", "namespace": "d", "apiVersion": "v1"});
        pod["requestObject"] = json!({"metadata": {"name": name}, "spec": {}});
        pod
    };
    let events = [
        pod("a"),
        pod("b"),
        event("patch", "n2", "system:node:n1", 1),
        event("patch", "n2", "system:node:n1", 2),
        event("patch", "n1", "system:node:n1", 3),
        event("get", "n1", "system:node:n1", 4),
        event("patch", "n1", "admin", 5),
    ];
    let text: Vec<String> = events.iter().map(Value::to_string).collect();
    fs::write(&path, text.join("\n") + "\n").unwrap();
    let report = stdout(&["webhook", "replay", &path, "-o", "json"], 3);
    let report: Value = serde_json::from_str(&report).unwrap();
    conforms(&report, "WebhookReplay");
    let numbers = ["requests", "denied", "allowed", "unknown"].map(|field| report[field].as_u64());
    assert_eq!(numbers, [6, 2, 3, 1].map(Some));
    let patched = &report["patched"];
    assert_eq!(patched.as_array().unwrap().len(), 1);
    assert_eq!(patched[0]["count"], 2);
    assert_eq!(patched[0]["name"], "a");
    let violation = &report["violations"][0];
    assert_eq!(violation["count"], 2);
    assert_eq!(violation["first"], "2026-01-01T00:00:01.000000Z");
    assert_eq!(violation["last"], "2026-01-01T00:00:02.000000Z");
    assert_eq!(
        violation["message"],
        r#"node "n1" is not allowed to modify node "n2""#
    );
    let table = run(&["webhook", "replay", &path]);
    assert!(
        table.contains("6 writes: 2 would be denied, 3 pass, 1 cannot be told"),
        "{table}"
    );
}

#[test]
fn unreadable_input_is_one_sentence() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("in").to_str().unwrap().to_owned();
    for (text, command, sentence) in [
        ("{}\n", "replay", "line 1: expected audit.k8s.io/v1 Event"),
        ("\n{", "replay", "line 2: failed to read the audit event"),
        (
            "{}",
            "test",
            "document 1: expected admission.k8s.io/v1 AdmissionReview",
        ),
        ("{", "test", "document 1"),
        ("", "test", "holds no AdmissionReview"),
    ] {
        fs::write(&path, text).unwrap();
        let words: &[&str] = match command {
            "test" => &["webhook", "test", "-f", &path],
            _ => &["webhook", "replay", &path],
        };
        let said = run(words);
        assert!(
            said.starts_with("status: 1\n") && said.contains(sentence),
            "{said}"
        );
    }
}
