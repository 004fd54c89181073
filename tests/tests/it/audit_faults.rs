//! Tests of `kubectl nodelife audit` with failing requests: the report is complete, or it says
//! what is missing.

use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD};
use http::Method;
use nodelife_tests::fixture::NodeFixture;
use nodelife_tests::kubectl::{Kubectl, Output};
use nodelife_tests::large_cluster::{Size, fill};
use nodelife_tests::proxy::{Fault, FaultRule, Proxy};
use nodelife_tests::{ControlPlane, Identity, until};
use serde_json::{Value, json};

/// Pods for five pages.
const PODS: usize = 1200;
const NODES: usize = 20;

/// The findings of an audit that ended as audits with findings end.
fn findings(output: &Output) -> Value {
    assert!(
        matches!(output.status, Some(0 | 3)),
        "{:?}: {}",
        output.status,
        output.stderr
    );
    let report: Value = serde_json::from_str(&output.stdout).unwrap();
    report["findings"].clone()
}

#[tokio::test]
async fn a_list_broken_midway_changes_no_finding() {
    let plane = ControlPlane::options().start().await.unwrap();
    let size = Size {
        nodes: NODES,
        pods: PODS,
    };
    fill(&plane, size).await.unwrap();
    let proxy = Proxy::start(&plane, &Identity::Admin).unwrap();
    let kubectl = Kubectl::with_kubeconfig(proxy.kubeconfig_file().unwrap(), proxy.folder());
    let kubectl = kubectl.unwrap();
    // Rules about every pod, so that one that is not here is missed, and none that looks at
    // the time: no controller takes taints away here, and they grow old.
    let words = [
        "nodelife",
        "audit",
        "-o",
        "json",
        "--rule",
        "CAP,RES,PDB,TOL,POD",
    ];
    let audit = async || kubectl.run(words).await.unwrap();
    let whole = findings(&audit().await);
    let names_pods = |finding: &Value| finding["message"].as_str().unwrap().contains("pod");
    assert!(
        whole.as_array().unwrap().iter().any(names_pods),
        "{whole:#}"
    );

    let admin = Kubectl::new(&plane, &Identity::Admin).unwrap();
    let first = admin
        .run(["get", "--raw", "/api/v1/pods?limit=250"])
        .await
        .unwrap();
    let first: Value = serde_json::from_str(&first.success().unwrap()).unwrap();
    let last = &first["items"][249]["metadata"];
    let expired = || expired(&last["namespace"], &last["name"]);

    // A page is gone: the list starts over, and nobody has to know.
    proxy.fault(
        FaultRule::new(expired())
            .path("/pods")
            .query("continue=")
            .times(1),
    );
    let once = audit().await;
    assert_eq!(findings(&once), whole);
    assert!(!once.stderr.contains("the list of pods"), "{}", once.stderr);
    assert_eq!(proxy.struck(), 1);

    // It is gone again: the list goes on at a later version, and says so.
    proxy.fault(
        FaultRule::new(expired())
            .path("/pods")
            .query("continue=")
            .times(2),
    );
    let twice = audit().await;
    assert_eq!(findings(&twice), whole);
    assert!(
        twice.stderr.contains("listing pods took longer"),
        "the list is of two versions, and nobody says so: {}",
        twice.stderr
    );
    assert_eq!(proxy.struck(), 3);
}

#[tokio::test]
async fn audits_read_no_secret_and_ask_no_kubelet() {
    let plane = ControlPlane::shared().await;
    let admin = plane.admin().await.unwrap();
    NodeFixture::new("asked").create(&admin).await.unwrap();
    let proxy = Proxy::start(plane, &Identity::Admin).unwrap();
    let kubectl = Kubectl::with_kubeconfig(proxy.kubeconfig_file().unwrap(), proxy.folder());
    let kubectl = kubectl.unwrap();
    let asked = |part: &str| proxy.count(&Method::GET, part);
    let file = proxy.folder().join("snapshot.json");
    let snapshot = ["nodelife", "snapshot", "-o", file.to_str().unwrap()];
    for words in [&["nodelife", "audit"][..], &snapshot] {
        kubectl.run(words).await.unwrap();
        assert!(asked("/nodes") > 0);
        assert_eq!(asked("/secrets") + asked("/proxy/"), 0, "{words:?}");
    }
    let words = ["nodelife", "audit", "--configz"];
    kubectl.run(words).await.unwrap();
    assert!(asked("/proxy/configz") > 0);
}

/// What an API server answers when a list takes longer than it keeps versions. The token says:
/// go on behind this pod at any version (k8s.io/apiserver v0.36.3, `pkg/storage/continue.go`).
fn expired(namespace: &Value, name: &Value) -> Fault {
    let behind = format!(
        "{}/{}\0",
        namespace.as_str().unwrap(),
        name.as_str().unwrap()
    );
    let token = json!({"v": "meta.k8s.io/v1", "rv": -1, "start": behind}).to_string();
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Expired",
        "message": "The provided continue parameter is too old", "code": 410,
        "metadata": {"continue": BASE64_URL_SAFE_NO_PAD.encode(token)},
    });
    Fault::Answer {
        status: 410,
        headers: Vec::new(),
        body: status.to_string(),
    }
}

#[tokio::test]
async fn forbidden_lists_are_named_and_the_rest_is_checked() {
    let plane = ControlPlane::options().start().await.unwrap();
    let size = Size { nodes: 2, pods: 20 };
    fill(&plane, size).await.unwrap();
    let admin = Kubectl::new(&plane, &Identity::Admin).unwrap();
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": {"name": "sees-nodes"},
        "rules": [{"apiGroups": [""], "resources": ["nodes"], "verbs": ["list"]}],
    });
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
        "metadata": {"name": "sees-nodes"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "sees-nodes"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "anna"}],
    });
    let list = json!({"apiVersion": "v1", "kind": "List", "items": [role, binding]});
    admin.apply(&list.to_string()).await.unwrap();
    let anna = Identity::User {
        name: "anna".to_owned(),
        groups: Vec::new(),
    };
    let anna = Kubectl::new(&plane, &anna).unwrap();
    let audit = async || anna.run(["nodelife", "audit", "-o", "json"]).await.unwrap();
    // The authorizer sees a new binding a moment later.
    let output = until("anna may list nodes", async || {
        let output = audit().await;
        let may = !output.stderr.contains("not allowed to list nodes");
        Ok(may.then_some(output))
    })
    .await;
    assert_eq!(output.status, Some(1), "{}", output.stderr);
    assert!(
        output
            .stderr
            .contains("error: could not read leases of kube-node-lease, pods, ")
    );
    assert!(
        output
            .stderr
            .contains(" rules not checked for want of pods: not allowed to list")
    );
    assert!(!output.stderr.contains("NL-CAP-"), "{}", output.stderr);
    // No budget was read, so none is judged.
    let of_scale = output.stderr.contains("at the present scale alone");
    assert!(!of_scale, "{}", output.stderr);
    for enough in ["--rule=VER", "--fail-on=never"] {
        let output = anna.run(["nodelife", "audit", enough]).await.unwrap();
        assert!(matches!(output.status, Some(0 | 3)), "{}", output.stderr);
    }
    let report: Value = serde_json::from_str(&output.stdout).unwrap();
    assert_eq!(report["summary"]["nodes"], 2);
    assert!(
        report["summary"]["checked"].as_u64().unwrap() > 10,
        "{report:#}"
    );
    for (right, everywhere) in [
        ("leases.coordination.k8s.io", "--namespace kube-node-lease"),
        ("pods", "--all-namespaces"),
        ("poddisruptionbudgets.policy", "--all-namespaces"),
        ("csinodes.storage.k8s.io", "--all-namespaces"),
    ] {
        let named = format!("not allowed to list {right}");
        let check = format!("kubectl auth can-i list {right}");
        assert!(output.stderr.contains(&named), "{named}: {}", output.stderr);
        assert!(
            output.stderr.contains(&check),
            "{check} {everywhere}: {}",
            output.stderr
        );
        // A rule that is not checked says the same to programs.
        let skipped = report["skipped"].as_array().unwrap();
        assert!(
            skipped
                .iter()
                .any(|one| one["reason"].as_str().unwrap().contains(&named)),
            "{named}"
        );
    }
}

#[tokio::test]
async fn who_may_not_list_nodes_is_told_so_by_every_command() {
    let plane = ControlPlane::options().start().await.unwrap();
    let nobody = Identity::User {
        name: "nobody".to_owned(),
        groups: Vec::new(),
    };
    let nobody = Kubectl::new(&plane, &nobody).unwrap();
    for words in [
        "nodes",
        "audit",
        "audit worker-1",
        "explain zones",
        "explain allocatable",
        "explain allocatable worker-1",
        "explain shutdown",
        "explain failure worker-1",
        "snapshot -o -",
    ] {
        let command = std::iter::once("nodelife").chain(words.split(' '));
        let output = nobody.run(command).await.unwrap();
        assert_eq!(output.status, Some(1), "{words}: {}", output.stderr);
        let check = "kubectl auth can-i list nodes";
        assert!(output.stderr.contains(check), "{words}: {}", output.stderr);
        assert!(
            !output.stderr.contains("not found"),
            "{words}: {}",
            output.stderr
        );
    }
}
