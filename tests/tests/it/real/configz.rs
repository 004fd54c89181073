//! Tests of audits that ask the kubelets themselves for their configuration.

use std::fs;

use k8s_openapi::api::authentication::v1::TokenRequest;
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::api::{Api, PostParams};
use nodelife_tests::kubectl::{Kubectl, Output, plugin_path};
use nodelife_tests::real_nodes::{NodeOptions, RealNode, RealNodes};
use nodelife_tests::{Identity, TestNamespace, needs_kubernetes};
use serde_json::{Value, json};

use super::support::{approve_serving_certificate, document, kubectl};

/// A ServiceAccount that may read nodes and get `nodes/configz`, and nothing else; its token.
async fn reader(namespace: &TestNamespace, kubectl: &Kubectl) -> String {
    let name = &namespace.name;
    namespace.service_account(name).await.unwrap();
    let rules = json!([
        {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "list"]},
        {"apiGroups": [""], "resources": ["nodes/configz"], "verbs": ["get"]},
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
    let accounts: Api<ServiceAccount> = namespace.api();
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

#[tokio::test]
async fn a_kubelet_gives_its_configuration_and_nothing_else() {
    if !needs_kubernetes(
        "1.36",
        "kubelets always tell nodes/configz from nodes/proxy",
    )
    .unwrap()
    {
        return;
    }
    let Some(cluster) = RealNodes::shared().await else {
        return;
    };
    cluster.allow_bootstrap().await.unwrap();
    let options = NodeOptions::default().zone("a").bootstrap();
    let node = cluster.power_on(options).await.unwrap();
    approve_serving_certificate(cluster, &node).await;
    let namespace = TestNamespace::create(&cluster.plane, "configz")
        .await
        .unwrap();
    let token = reader(&namespace, &kubectl(cluster)).await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("kubeconfig");
    let text = cluster.kubeconfig(&Identity::Token(token.clone())).unwrap();
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

    // The kubelet keeps everything else from it.
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
