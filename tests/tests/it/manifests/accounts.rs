//! What the token of each account is worth: docs/threats.md says it, and no account may write more.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use nodelife_tests::installation::{NAMESPACE, manifests};
use nodelife_tests::{ControlPlane, Installation, TIMEOUT, wait_until};
use serde_json::{Value, json};

use super::render;

/// Every folder that makes an account or gives one rights, with the optional ones.
const FOLDERS: [&str; 6] = [
    ".",
    "audit",
    "controller",
    "controller/configz",
    "controller/delete-pods",
    "controller/surge",
];

fn words<'v>(value: &'v Value, field: &str) -> impl Iterator<Item = &'v str> {
    let all = value[field].as_array().into_iter().flatten();
    all.filter_map(Value::as_str)
}

/// What the accounts may write, as `verb resource`, with the names that a rule is limited to.
fn writes() -> BTreeMap<String, BTreeSet<String>> {
    let mut all: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for folder in FOLDERS {
        let text = render(folder);
        let objects: Vec<Value> = text
            .split("\n---\n")
            .map(|one| serde_saphyr::from_str(one).unwrap())
            .collect();
        let of = |kinds: [&str; 2]| {
            let kinds = kinds.map(str::to_owned);
            let kind = move |one: &&Value| kinds.iter().any(|kind| one["kind"] == **kind);
            objects.iter().filter(kind)
        };
        for account in of(["ServiceAccount", ""]) {
            let name = account["metadata"]["name"].as_str().unwrap();
            all.entry(name.to_owned()).or_default();
        }
        for binding in of(["RoleBinding", "ClusterRoleBinding"]) {
            let mut roles = of(["Role", "ClusterRole"]);
            let role = roles.find(|role| {
                role["kind"] == binding["roleRef"]["kind"]
                    && role["metadata"]["name"] == binding["roleRef"]["name"]
            });
            let granted = role.unwrap()["rules"].as_array().unwrap();
            for subject in binding["subjects"].as_array().unwrap() {
                let account = all.entry(subject["name"].as_str().unwrap().to_owned());
                let rights = account.or_default();
                for rule in granted {
                    let names: Vec<&str> = words(rule, "resourceNames").collect();
                    let names = names.iter().map(|name| format!(" {name}"));
                    let names: String = names.collect();
                    for resource in words(rule, "resources") {
                        let verbs = words(rule, "verbs");
                        let verbs = verbs.filter(|verb| !matches!(*verb, "get" | "list" | "watch"));
                        rights.extend(verbs.map(|verb| format!("{verb} {resource}{names}")));
                    }
                }
            }
        }
    }
    all
}

/// The rows of the table, by account: what is in backticks in its second column.
fn documented() -> BTreeMap<String, BTreeSet<String>> {
    let text = fs::read_to_string(manifests().join("../docs/threats.md")).unwrap();
    let (_, section) = text.split_once("## Accounts\n").unwrap();
    let section = section.split("\n## ").next().unwrap();
    let mut all = BTreeMap::new();
    for row in section.lines().filter(|line| line.starts_with("| `")) {
        let cells: Vec<&str> = row.split('|').collect();
        let quoted = |cell: &str| {
            let pieces = cell.split('`').skip(1).step_by(2);
            pieces.map(str::to_owned).collect::<BTreeSet<String>>()
        };
        let account = quoted(cells[1]).pop_first().unwrap();
        all.insert(account, quoted(cells[2]));
    }
    all
}

#[test]
fn the_threat_model_says_what_each_token_may_write() {
    assert_eq!(documented(), writes());
}

/// RBAC cannot say so: a policy does.
#[tokio::test]
async fn certs_may_write_nothing_but_a_ca_bundle() {
    let plane = ControlPlane::options().start().await.unwrap();
    let installation = Installation::prepare(&plane, ".").await.unwrap();
    installation.apply().await.unwrap();
    installation.granted().await.unwrap();
    let user = format!("system:serviceaccount:{NAMESPACE}:nodelife-certs");
    let patch = async |kind: &str, patch: Value| {
        let object = format!("{kind}webhookconfiguration/nodelife-webhook");
        let patch = patch.to_string();
        let words = ["patch", &object, "--type=json", "-p", &patch, "--as", &user];
        installation.kubectl.run(words).await
    };
    let one = |operation: &str, path: &str, value: Value| json!([{"op": operation, "path": path, "value": value}]);
    let refusal = "may only change the caBundle";
    wait_until("the policy", TIMEOUT, async || {
        let label = one("add", "/metadata/labels/a", json!("b"));
        let output = patch("mutating", label).await?;
        Ok(output.stderr.contains(refusal).then_some(()))
    })
    .await
    .unwrap();
    let secrets = json!({"apiGroups": [""], "apiVersions": ["v1"], "resources": ["secrets"],
        "operations": ["CREATE", "UPDATE"]});
    for kind in ["mutating", "validating"] {
        let get = [
            "get",
            &format!("{kind}webhookconfiguration/nodelife-webhook"),
            "-o",
            "json",
        ];
        let stored = installation
            .kubectl
            .run(get)
            .await
            .unwrap()
            .success()
            .unwrap();
        let stored: Value = serde_json::from_str(&stored).unwrap();
        let mut second = stored["webhooks"][0].clone();
        second["name"] = json!("more.nodelife.dev");
        for (operation, path, value) in [
            ("add", "/webhooks/0/rules/-", secrets.clone()),
            ("replace", "/webhooks/0/matchConditions", json!([])),
            ("replace", "/webhooks/0/failurePolicy", json!("Fail")),
            (
                "replace",
                "/webhooks/0/namespaceSelector",
                json!({"matchLabels": {"a": "b"}}),
            ),
            (
                "replace",
                "/webhooks/0/objectSelector",
                json!({"matchLabels": {"a": "b"}}),
            ),
            ("replace", "/webhooks/0/timeoutSeconds", json!(30)),
            (
                "replace",
                "/webhooks/0/clientConfig",
                json!({"url": "https://evil.example.com/"}),
            ),
            (
                "replace",
                "/webhooks/0/clientConfig/service/namespace",
                json!("evil"),
            ),
            ("replace", "/webhooks/0/name", json!("other.nodelife.dev")),
            ("add", "/webhooks/-", second),
            ("replace", "/webhooks", json!([])),
            ("add", "/metadata/finalizers", json!(["a.b/c"])),
        ] {
            let output = patch(kind, one(operation, path, value)).await.unwrap();
            assert!(output.stderr.contains(refusal), "{kind} {path}: {output:?}");
        }
        let bundle = one("add", "/webhooks/0/clientConfig/caBundle", json!(""));
        patch(kind, bundle).await.unwrap().success().unwrap();
    }
}
