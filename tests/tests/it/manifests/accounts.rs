//! What the token of each account is worth: docs/threats.md says it, and no account may write more.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use futures::StreamExt as _;
use k8s_openapi::api::authentication::v1::TokenRequest;
use k8s_openapi::api::authorization::v1::SelfSubjectAccessReview;
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::Client;
use kube::api::{Api, ListParams, PostParams};
use nodelife_tests::installation::{NAMESPACE, NODE_RESTRICTION, manifests};
use nodelife_tests::kubectl::Kubectl;
use nodelife_tests::{ControlPlane, Identity, Installation, Parts, PlaneLease, until};
use serde_json::{Value, json};

use super::render;

/// Every folder that makes an account or gives one rights, with the optional ones.
const FOLDERS: [&str; 6] = [
    NODE_RESTRICTION,
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
                let (meta, kind) = (&role["metadata"], &binding["roleRef"]["kind"]);
                role["kind"] == *kind
                    && meta["name"] == binding["roleRef"]["name"]
                    && (kind == "ClusterRole"
                        || meta["namespace"] == binding["metadata"]["namespace"])
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

/// What can be done with a resource beside reading it, and with what no resource is served for.
const VERBS: [&str; 5] = ["create", "update", "patch", "delete", "deletecollection"];
const OTHERS: [(&str, &str, &str); 12] = [
    ("impersonate", "", "users"),
    ("impersonate", "", "groups"),
    ("impersonate", "", "serviceaccounts"),
    ("impersonate", "authentication.k8s.io", "uids"),
    ("impersonate", "authentication.k8s.io", "userextras/scopes"),
    ("escalate", "rbac.authorization.k8s.io", "roles"),
    ("escalate", "rbac.authorization.k8s.io", "clusterroles"),
    ("bind", "rbac.authorization.k8s.io", "roles"),
    ("bind", "rbac.authorization.k8s.io", "clusterroles"),
    ("approve", "certificates.k8s.io", "signers"),
    ("sign", "certificates.k8s.io", "signers"),
    ("attest", "certificates.k8s.io", "signers"),
];
/// Reading them runs commands.
const CONNECTIONS: [&str; 4] = ["/exec", "/attach", "/portforward", "/proxy"];
/// Served by KubeVirt, which the test does not run.
const NOT_SERVED: [&str; 2] = [
    "virtualmachineinstances/evacuate",
    "virtualmachineinstances/evacuate/cancel",
];
/// The resources that an account may write in its own namespace alone.
const AT_HOME: [&str; 3] = ["leases", "secrets", "serviceaccounts/token"];

/// A verb with a group and a resource, for every one that the API server serves.
async fn deeds(client: &Client) -> BTreeSet<(String, String, String)> {
    let mut served = vec![client.list_core_api_resources("v1").await.unwrap()];
    for group in client.list_api_groups().await.unwrap().groups {
        for version in group.versions {
            let resources = client.list_api_group_resources(&version.group_version);
            served.push(resources.await.unwrap());
        }
    }
    let others =
        OTHERS.map(|(verb, group, resource)| (verb, group.to_owned(), resource.to_owned()));
    let mut deeds = Vec::from(others);
    let mut add = |group: &str, resource: &str| {
        let connects = CONNECTIONS.iter().any(|end| resource.ends_with(end));
        let verbs = VERBS.into_iter().chain(connects.then_some("get"));
        deeds.extend(verbs.map(|verb| (verb, group.to_owned(), resource.to_owned())));
    };
    for list in served {
        let group = list.group_version.rsplit_once('/');
        let group = group.map_or("", |(group, _)| group);
        for resource in &list.resources {
            add(group, &resource.name);
        }
    }
    for resource in NOT_SERVED {
        add("subresources.kubevirt.io", resource);
    }
    let deeds = deeds.into_iter();
    deeds
        .map(|(verb, group, resource)| (verb.to_owned(), group, resource))
        .collect()
}

/// Whether the API server lets whoever has this token do it.
async fn may(
    client: &Client,
    (verb, group, resource): &(String, String, String),
    (namespace, name): (&str, &str),
) -> bool {
    let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
    let attributes = json!({"verb": verb, "group": group, "version": "*", "resource": resource,
        "subresource": subresource, "namespace": namespace, "name": name});
    let review = json!({"spec": {"resourceAttributes": attributes}});
    let review: SelfSubjectAccessReview = serde_json::from_value(review).unwrap();
    let reviews = Api::all(client.clone());
    let review = reviews
        .create(&PostParams::default(), &review)
        .await
        .unwrap();
    review.status.unwrap().allowed
}

/// What may be done with a token in a namespace, in the words of the table; `names`: those that it has.
async fn tried(
    client: &Client,
    deeds: &BTreeSet<(String, String, String)>,
    (namespace, names): (&str, &BTreeSet<(String, String)>),
) -> BTreeSet<String> {
    let tries = deeds.iter().map(|deed| async move {
        let (verb, _, resource) = deed;
        if may(client, deed, (namespace, "")).await {
            return Some(format!("{verb} {resource}"));
        }
        let mut right = format!("{verb} {resource}");
        let mut is_allowed = false;
        for (_, name) in names.iter().filter(|(of, _)| of == resource) {
            if may(client, deed, (namespace, name)).await {
                is_allowed = true;
                right = format!("{right} {name}");
            }
        }
        is_allowed.then_some(right)
    });
    let all = futures::stream::iter(tries).buffer_unordered(10);
    let all: Vec<Option<String>> = all.collect().await;
    // What everybody may.
    let all = all.into_iter().flatten();
    all.filter(|right| !right.starts_with("create selfsubject"))
        .collect()
}

/// Whether a right of the table is to this.
fn is_of((verb, _, resource): &(String, String, String), right: &str) -> bool {
    let words: Vec<&str> = right.split(' ').collect();
    words.starts_with(&[verb, resource])
}

/// The same rights with the names of each in alphabetical order, without those to one name that come
/// with the right to every name.
fn sorted(rights: &BTreeSet<String>) -> BTreeSet<String> {
    let is_wider = |right: &&String| {
        let mut words = right.splitn(3, ' ');
        let general = [words.next(), words.next()].map(Option::unwrap).join(" ");
        **right == general || !rights.contains(&general)
    };
    let sort = |right: &String| {
        let mut words: Vec<&str> = right.split(' ').collect();
        words[2..].sort_unstable();
        words.join(" ")
    };
    rights.iter().filter(is_wider).map(sort).collect()
}

/// Applies every folder, and the definitions that they need.
async fn install(plane: &ControlPlane) {
    let kubectl = Kubectl::new(plane, &Identity::Admin).unwrap();
    for file in [
        "reports.openreports.io",
        "virtualmachineinstancemigrations.kubevirt.io",
    ] {
        let file = format!("{}/crds/{file}.json", env!("CARGO_MANIFEST_DIR"));
        let apply = ["apply", "--server-side", "-f", &file];
        kubectl.run(apply).await.unwrap().success().unwrap();
    }
    for folder in FOLDERS {
        let folder = manifests().join(folder).display().to_string();
        // The API server makes kube-node-lease by itself, but not at once.
        until("the manifests", async || {
            let apply = kubectl.run(["apply", "-k", &folder]).await?;
            apply.success().map(Some)
        })
        .await;
    }
}

/// Each token, asked for every verb of every resource that the API server serves.
#[tokio::test]
async fn each_token_may_write_what_the_threat_model_says() {
    let plane = PlaneLease::take(Parts::Api).await.unwrap();
    install(&plane).await;
    let documented = documented();
    let rights = || documented.values().flatten();
    let names: BTreeSet<(String, String)> = rights()
        .flat_map(|right| {
            let mut words = right.split(' ').skip(1).map(str::to_owned);
            let resource = words.next().unwrap();
            words.map(move |name| (resource.clone(), name))
        })
        .collect();
    let admin = plane.admin().await.unwrap();
    // A resource is served a moment after it is defined, and a right is in force a moment after its role.
    let deeds = until("every resource", async || {
        let deeds = deeds(&admin).await;
        let is_served = |right: &&String| deeds.iter().any(|deed| is_of(deed, right));
        let missing = rights().find(|right| !is_served(right));
        anyhow::ensure!(missing.is_none(), "{missing:?}");
        Ok(Some(deeds))
    })
    .await;
    let accounts: Api<ServiceAccount> = Api::all(admin.clone());
    let accounts = accounts.list(&ListParams::default()).await.unwrap().items;
    let mut found = BTreeSet::new();
    for account in accounts {
        let (name, home) = (
            account.metadata.name.unwrap(),
            account.metadata.namespace.unwrap(),
        );
        let Some(row) = documented.get(&name) else {
            assert_eq!(
                name, "default",
                "an account without a row in docs/threats.md"
            );
            continue;
        };
        let of_home: Api<ServiceAccount> = Api::namespaced(admin.clone(), &home);
        let (options, request) = (PostParams::default(), TokenRequest::default());
        let issued = of_home
            .create_token_request(&name, &options, &request)
            .await;
        let token = issued.unwrap().status.unwrap().token.unwrap();
        let client = plane.client(&Identity::Token(token)).await.unwrap();
        let own = deeds
            .iter()
            .filter(|deed| row.iter().any(|right| is_of(deed, right)));
        let own: BTreeSet<_> = own.cloned().collect();
        let row = sorted(row);
        until("the rights of the account", async || {
            let tried = tried(&client, &own, (&home, &names)).await;
            let missing: Vec<_> = row.difference(&tried).collect();
            anyhow::ensure!(missing.is_empty(), "{name} may not {missing:?}");
            Ok(Some(()))
        })
        .await;
        let tried_at_home = tried(&client, &deeds, (&home, &names)).await;
        assert_eq!(tried_at_home, row, "{name}");
        let is_everywhere = |right: &&String| {
            let resource = right.split(' ').nth(1).unwrap();
            !AT_HOME.contains(&resource)
        };
        let everywhere = row
            .iter()
            .filter(is_everywhere)
            .cloned()
            .collect::<BTreeSet<_>>();
        assert_eq!(
            tried(&client, &deeds, ("default", &names)).await,
            everywhere,
            "{name}"
        );
        found.insert(name);
    }
    assert_eq!(found, documented.keys().cloned().collect());

    // What a node has may write nothing that is ours.
    let node = plane.node("evil").await.unwrap();
    let tried = tried(&node, &deeds, (NAMESPACE, &names)).await;
    assert!(tried.contains("patch nodes/status"), "{tried:?}");
    let ours = tried.iter().filter(|right| {
        let resource = right.split(' ').nth(1).unwrap();
        let ours = [
            "nodelife",
            "clusterreports",
            "reports.openreports.io",
            "nodemaintenances",
            "webhookconfigurations",
            "policies",
        ];
        AT_HOME.contains(&resource) || ours.iter().any(|part| right.contains(part))
    });
    assert_eq!(ours.collect::<Vec<_>>(), [""; 0]);
}

/// RBAC cannot say so: a policy does.
#[tokio::test]
async fn certs_may_write_nothing_but_a_ca_bundle() {
    let plane = ControlPlane::options().start().await.unwrap();
    let installation = Installation::prepare(&plane, NODE_RESTRICTION)
        .await
        .unwrap();
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
    until("the policy", async || {
        let label = one("add", "/metadata/labels/a", json!("b"));
        let output = patch("mutating", label).await?;
        Ok(output.stderr.contains(refusal).then_some(()))
    })
    .await;
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
