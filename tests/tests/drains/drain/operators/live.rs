//! Drains beside a stand-in for an operator, which does what the operator does.

use http::Method;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{DynamicObject, Patch, PatchParams};
use kube::discovery::ApiResource;
use nodelife_tests::kubectl::Kubectl;
use nodelife_tests::proxy::{Fault, FaultRule, Proxy};
use nodelife_tests::{ControlPlane, Identity, TestNamespace};
use serde_json::{Value, json};

use super::super::support::{
    Stderr, TestEnvironment, end, end_plane, own_plane, start, wait_for_cordon,
};
use super::scene::{create_nodes, set_up};
use super::{cnpg, install_crds, kubevirt};

fn api(ns: &TestNamespace, api_version: &str, kind: &str) -> Api<DynamicObject> {
    let (group, version) = api_version.split_once('/').unwrap();
    let gvk = kube::core::GroupVersionKind::gvk(group, version, kind);
    Api::namespaced_with(ns.client().clone(), &ns.name, &ApiResource::from_gvk(&gvk))
}

/// The operator sees the cordon, moves the primary, and relabels the pods.
#[tokio::test]
pub(crate) async fn a_switchover_is_waited_for_and_told() {
    let plane = own_plane().await;
    install_crds(plane).await;
    let env = TestEnvironment::new(plane, "switchover").await;
    let ns = &env.namespace;
    create_nodes(ns, &[]).await;
    let instances = [("pg-1", "a", true), ("pg-2", "b", true)];
    set_up(ns, &cnpg::cluster(json!({}), &instances)).await;
    let node = env.node("a");
    let mut drain = start(&env, &[&node, "--timeout=5m"]);
    let mut stderr = Stderr::of(&env, &mut drain);
    wait_for_cordon(&env, &node).await;
    let clusters = api(ns, "postgresql.cnpg.io/v1", "Cluster");
    let params = PatchParams::default();
    let status = async |status: Value| {
        let patch = Patch::Merge(json!({"status": status}));
        clusters.patch_status("pg", &params, &patch).await.unwrap();
    };
    status(json!({"targetPrimary": "pg-2", "phase": "Switchover in progress"})).await;
    let switches = format!(
        "\n{0}/pg-1: Cluster {0}/pg switches over from pg-1 to pg-2\n",
        ns.name
    );
    stderr.wait_for(&[&switches]).await;
    status(json!({"currentPrimary": "pg-2", "phase": "Cluster in healthy state"})).await;
    let pods: Api<Pod> = ns.api();
    for (pod, role) in [("pg-2", "primary"), ("pg-1", "replica")] {
        let labels = json!({"metadata": {"labels": {"cnpg.io/instanceRole": role}}});
        pods.patch(pod, &params, &Patch::Merge(labels))
            .await
            .unwrap();
    }
    let ((status, _), ()) = tokio::join!(end(&env, drain), stderr.read_to_end());
    assert_eq!(status, Some(0), "{}", stderr.text);
    assert!(pods.get_opt("pg-1").await.unwrap().is_none());
    assert!(pods.get_opt("pg-2").await.unwrap().is_some());
    drop(env);
    end_plane(plane).await;
}

/// KubeVirt's aggregated API is the proxy's.
#[tokio::test]
async fn undo_takes_back_evacuations() {
    let plane = ControlPlane::options().start().await.unwrap();
    install_crds(&plane).await;
    for status in [200, 404] {
        let ns = TestNamespace::create(&plane, "undo").await.unwrap();
        create_nodes(&ns, &[]).await;
        let node = format!("{}-b", ns.name);
        let mut migration = kubevirt::migration("Running");
        migration["metadata"]["annotations"] = json!({"kubevirt.io/evacuationMigration": node});
        let marked = kubevirt::marked("$b$");
        set_up(&ns, &kubevirt::machine("LiveMigrate", marked, &[migration])).await;
        let kubectl = Kubectl::new(&plane, &Identity::Admin).unwrap();
        let drained = kubectl.run(["nodelife", "drain", &node]).await.unwrap();
        assert_eq!(drained.status, Some(0), "{}", drained.stderr);

        let proxy = Proxy::start(&plane, &Identity::Admin).unwrap();
        let answer = Fault::Answer {
            status,
            headers: vec![("content-type", "application/json".to_owned())],
            body: json!({"kind": "Status", "apiVersion": "v1", "code": status}).to_string(),
        };
        proxy.fault(
            FaultRule::new(answer)
                .method(Method::PUT)
                .path("/evacuate/cancel"),
        );
        let kubeconfig = proxy.kubeconfig_file().unwrap();
        let kubectl = Kubectl::with_kubeconfig(kubeconfig, proxy.folder()).unwrap();
        let undone = kubectl
            .run(["nodelife", "drain", "--undo", &node])
            .await
            .unwrap();
        assert_eq!(undone.status, Some(0), "{}", undone.stderr);
        let path = format!(
            "/namespaces/{}/virtualmachineinstances/vm/evacuate/cancel",
            ns.name
        );
        assert_eq!(proxy.count(&Method::PUT, &path), 1);
        let migrations = api(&ns, "kubevirt.io/v1", "VirtualMachineInstanceMigration");
        let left = migrations.get_opt("kubevirt-evacuation-x").await.unwrap();
        let what = format!("VirtualMachineInstance {}/vm", ns.name);
        if status == 200 {
            assert!(left.is_none());
            let text = format!("{what}: stays on node {node}");
            assert!(undone.stderr.contains(&text), "{}", undone.stderr);
        } else {
            assert!(left.is_some());
            let text = format!("{what} may still leave node {node}: its evacuation cannot");
            assert!(undone.stderr.contains(&text), "{}", undone.stderr);
        }
    }
}
