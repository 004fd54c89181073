//! Tests of audits that ask the kubelets themselves for their configuration.

use std::fs;

use anyhow::Context as _;
use k8s_openapi::api::authentication::v1::TokenRequest;
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::api::{Api, PostParams};
use nodelife_tests::installation::{NAMESPACE, manifests};
use nodelife_tests::kubectl::{Kubectl, Output, plugin_path};
use nodelife_tests::real_nodes::{NodeOptions, RealNode, RealNodes};
use nodelife_tests::supervise::Spec;
use nodelife_tests::{Identity, TIMEOUT, TestNamespace, needs_kubernetes, program, until};
use serde_json::{Value, json};

use super::support::{approve_serving_certificate, document, kubectl};

/// Fires for a kubelet that manages cgroups beside systemd, which only its configuration tells.
const RULE: &str = "NL-VER-010";

/// The account whose tokens kubelets get.
const ACCOUNT: &str = "nodelife-controller-configz";

/// Applies files of `manifests/`.
async fn apply(kubectl: &Kubectl, files: &[&str]) {
    for file in files {
        let file = manifests().join(file);
        let words = ["apply", "--server-side", "-f", file.to_str().unwrap()];
        kubectl.run(words).await.unwrap().success().unwrap();
    }
}

/// A ServiceAccount that may read nodes and get tokens of the account for kubelets, and nothing else; its
/// token.
async fn reader(namespace: &TestNamespace, kubectl: &Kubectl) -> String {
    let name = &namespace.name;
    namespace.service_account(name).await.unwrap();
    let rules = json!([
        {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "list"]},
        {
            "apiGroups": [""], "resources": ["serviceaccounts/token"], "verbs": ["create"],
            "resourceNames": [ACCOUNT],
        },
    ]);
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": name},
        "rules": rules,
    });
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": name}],
    });
    kubectl.apply(&role.to_string()).await.unwrap();
    kubectl.apply(&binding.to_string()).await.unwrap();
    token(&namespace.api(), name).await
}

async fn token(accounts: &Api<ServiceAccount>, name: &str) -> String {
    let (options, request) = (PostParams::default(), TokenRequest::default());
    let issued = accounts.create_token_request(name, &options, &request);
    let status = issued.await.unwrap().status;
    status.and_then(|status| status.token).unwrap()
}

/// Runs kubectl with this kubeconfig on a node, which reaches the kubelets as a pod does.
async fn run_on(node: &RealNode, kubeconfig: &str, words: &[&str]) -> Output {
    let path = plugin_path().unwrap();
    let path = format!("PATH={}", path.to_str().unwrap());
    let kubeconfig = format!("KUBECONFIG={kubeconfig}");
    let command = [&["env", &path, &kubeconfig, "NO_COLOR=1"], words].concat();
    node.run(&command).await.unwrap()
}

/// A node whose kubelet has a serving certificate that the cluster's certificate authority signed;
/// none where the machine has no real nodes, or Kubernetes is too old.
async fn node_with_certificate() -> Option<(&'static RealNodes, RealNode)> {
    let why = "kubelets always tell nodes/configz from nodes/proxy";
    if !needs_kubernetes("1.36", why).unwrap() {
        return None;
    }
    let cluster = RealNodes::shared().await?;
    cluster.allow_bootstrap().await.unwrap();
    let options = NodeOptions::default().zone("a").bootstrap();
    let node = cluster.power_on(options).await.unwrap();
    approve_serving_certificate(cluster, &node).await;
    Some((cluster, node))
}

/// The controller with the rights of its manifests, on a node: its reports have what only the
/// configuration of a kubelet tells, and say which kubelets it could not ask.
#[tokio::test]
async fn the_controller_audits_configurations_of_kubelets() {
    let Some((cluster, node)) = node_with_certificate().await else {
        return;
    };
    let kubectl = kubectl(cluster);
    let reports = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/crds/reports.openreports.io.json"
    );
    let files = [
        reports,
        "base/namespace.yaml",
        "controller/account.yaml",
        "controller/rbac-audit.yaml",
        "controller/configz/rbac.yaml",
    ];
    apply(&kubectl, &files).await;
    let admin = cluster.plane.admin().await.unwrap();
    let token = token(&Api::namespaced(admin, NAMESPACE), "nodelife-controller").await;
    let folder = tempfile::tempdir().unwrap();
    let kubeconfig = folder.path().join("kubeconfig");
    let text = cluster.kubeconfig(&Identity::Token(token)).unwrap();
    fs::write(&kubeconfig, text).unwrap();

    let log = folder.path().join("log");
    let controller = Spec::new(program::controller().unwrap(), &log).args([
        &format!("--kubeconfig={}", kubeconfig.display()),
        "--leader-elect-resource-namespace=nodelife-system",
        "--health-listen=127.0.0.1:0",
        "--maintenance=false",
        "--audit-configz=true",
    ]);
    let controller = node.spawn(controller).await.unwrap();
    let about_rule = async || {
        let words = ["get", "clusterreports", "-o", "json"];
        let text = kubectl.run(words).await?.success()?;
        let reports: Value = serde_json::from_str(&text)?;
        let reports = reports["items"].as_array().unwrap().iter();
        let results = reports.filter_map(|report| report["results"].as_array());
        let results = results.flatten().filter(|result| result["rule"] == RULE);
        anyhow::Ok(results.cloned().collect::<Vec<_>>())
    };
    // Kubelets that signed their certificate themselves get no token, and hide no other.
    until("the kubelet's configuration in a report", async || {
        let log = fs::read_to_string(&log)?;
        let results = about_rule().await.context(log)?;
        let text =
            |result: &Value, name: &str| result[name].as_str().unwrap_or_default().to_owned();
        let found = results.iter().any(|result| {
            let nodes = text(&result["properties"], "nodes");
            result["result"] == "warn" && nodes.contains(&format!("\"{}\"", node.name))
        });
        let skipped = results.iter().any(|result| {
            let why = text(result, "message");
            result["result"] == "skip" && why.contains("got no credentials")
        });
        anyhow::ensure!(found && skipped, "{results:#?}");
        Ok(Some(()))
    })
    .await;
    controller.terminate(TIMEOUT).await.unwrap();
}

#[tokio::test]
async fn a_kubelet_gives_its_configuration_and_nothing_else() {
    let Some((cluster, node)) = node_with_certificate().await else {
        return;
    };
    let namespace = TestNamespace::create(&cluster.plane, "configz")
        .await
        .unwrap();
    let kubectl = kubectl(cluster);
    apply(
        &kubectl,
        &["base/namespace.yaml", "controller/configz/rbac.yaml"],
    )
    .await;
    let token = reader(&namespace, &kubectl).await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("kubeconfig");
    let text = cluster.kubeconfig(&Identity::Token(token)).unwrap();
    fs::write(&file, text).unwrap();
    let file = file.to_str().unwrap();

    let words = ["explain", "allocatable", &node.name, "-o", "json"];
    let direct = [&["kubectl-nodelife"], &words[..], &["--configz=direct"]].concat();
    let output = run_on(&node, file, &direct).await;
    let report: Value = serde_json::from_str(&output.stdout)
        .unwrap_or_else(|_| panic!("{}\n{}", output.stdout, output.stderr));
    assert_eq!(report["items"][0]["accepted"], true, "{report:#}");
    let words = ["explain", "allocatable", &node.name, "--configz"];
    assert_eq!(report["items"], document(cluster, &words).await["items"]);

    // Through the API server it takes more than the account has.
    let proxied = ["kubectl-nodelife", "audit", &node.name, "--configz"];
    let output = run_on(&node, file, &proxied).await;
    assert!(output.stderr.contains("nodes/proxy"), "{}", output.stderr);

    // The kubelet keeps everything else from the account whose token it gets.
    let admin = cluster.plane.admin().await.unwrap();
    let token = self::token(&Api::namespaced(admin, NAMESPACE), ACCOUNT).await;
    let kubelet = format!("https://{}:10250", node.address);
    let token = format!("--token={token}");
    let raw = async |path: &str| {
        let insecure = "--insecure-skip-tls-verify";
        let words = [
            "kubectl", "--server", &kubelet, &token, insecure, "get", "--raw", path,
        ];
        run_on(&node, "/dev/null", &words).await
    };
    assert_eq!(raw("/configz").await.status, Some(0));
    for path in ["/pods", "/runningpods/", "/logs/", "/run/a/b/c"] {
        let output = raw(path).await;
        let forbidden = output.stderr.to_lowercase().contains("forbidden");
        assert!(
            forbidden && output.status != Some(0),
            "{path}: {}",
            output.stderr
        );
    }

    // A kubelet that signed its certificate itself gets no token.
    let [other, ..] = cluster.nodes() else {
        panic!("no node")
    };
    let direct = ["kubectl-nodelife", "audit", &other.name, "--configz=direct"];
    let output = run_on(&node, file, &direct).await;
    let refused = output.stderr.contains("got no credentials");
    assert!(refused, "{}", output.stderr);
}
