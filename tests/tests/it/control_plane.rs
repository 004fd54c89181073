//! Tests of the control plane itself.

use k8s_openapi::api::core::v1::{Node, Pod};
use kube::Api;
use kube::api::ListParams;
use nodelife_tests::{ControlPlane, Part, TestNamespace};

#[tokio::test]
async fn a_shared_api_server_answers_the_admin() {
    let plane = ControlPlane::shared_api().await;
    let namespace = TestNamespace::create(plane, "admin").await.unwrap();
    let pods: Api<Pod> = namespace.api();
    assert!(
        pods.list(&ListParams::default())
            .await
            .unwrap()
            .items
            .is_empty()
    );
    namespace.delete().await.unwrap();
}

#[tokio::test]
async fn a_node_user_reads_what_the_node_authorizer_allows() {
    let plane = ControlPlane::shared_api().await;
    let nodes: Api<Node> = Api::all(plane.node("stranger").await.unwrap());
    let error = nodes.get("another").await.unwrap_err();
    assert!(
        error.to_string().contains("system:node:stranger"),
        "{error}"
    );
}

#[tokio::test]
async fn every_component_survives_a_kill_of_the_api_server() {
    let plane = ControlPlane::options()
        .with_everything()
        .start()
        .await
        .unwrap();
    let before = TestNamespace::create(&plane, "before").await.unwrap();
    plane.kill(Part::ApiServer).await.unwrap();
    assert!(
        plane
            .admin()
            .await
            .unwrap()
            .apiserver_version()
            .await
            .is_err()
    );
    plane.start(Part::ApiServer).await.unwrap();
    let version = plane
        .admin()
        .await
        .unwrap()
        .apiserver_version()
        .await
        .unwrap();
    assert_eq!(
        version.git_version,
        nodelife_tests::Kubernetes::current().unwrap().git_version()
    );
    before.delete().await.unwrap();
}
