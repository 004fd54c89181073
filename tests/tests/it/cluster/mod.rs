//! Tests of the API client against a real API server.

mod objects;
mod wire;

use std::time::Duration;

use nodelife_cluster::evict::Removal;
use nodelife_cluster::list::ListFilter;
use nodelife_cluster::watch::{Update, Watch};
use nodelife_cluster::{ApiError, ClientOptions, Cluster, ConnectError, listing};
use nodelife_core::object::Pod;
use nodelife_tests::fixture::PodFixture;
use nodelife_tests::{ControlPlane, Identity, Part, Parts, PlaneLease, TIMEOUT, TestNamespace};
use serde_json::json;

fn options(plane: &ControlPlane, identity: &Identity) -> ClientOptions {
    ClientOptions {
        kubeconfig: Some(plane.kubeconfig_file(identity).unwrap()),
        ..ClientOptions::default()
    }
}

async fn admin(plane: &ControlPlane) -> Cluster {
    Cluster::connect(&options(plane, &Identity::Admin))
        .await
        .unwrap()
}

#[tokio::test]
async fn connecting_learns_the_version_and_the_time() {
    let plane = ControlPlane::shared_api().await;
    let cluster = admin(plane).await;
    assert_eq!(cluster.server(), plane.url());
    assert_eq!(
        cluster.server_version().unwrap().git_version,
        nodelife_tests::Kubernetes::current().unwrap().git_version()
    );
    // One machine, one clock; the header is cut to whole seconds.
    let skew = cluster.clock().skew().unwrap();
    assert!(skew.abs() < Duration::from_secs(3).try_into().unwrap());
}

#[tokio::test]
async fn a_connection_error_is_one_clear_message() {
    let plane = ControlPlane::shared_api().await;
    let good = options(plane, &Identity::Admin);
    let url = plane.url();
    let cases = [
        (
            ClientOptions {
                context: Some("prod".to_owned()),
                ..good.clone()
            },
            "the kubeconfig has no context \"prod\"; it has: test".to_owned(),
        ),
        (
            ClientOptions {
                server: Some("https://127.0.0.1:1".to_owned()),
                ..good.clone()
            },
            "failed to reach the API server https://127.0.0.1:1: Connection refused".to_owned(),
        ),
        (
            ClientOptions {
                tls_server_name: Some("elsewhere.test".to_owned()),
                ..good.clone()
            },
            format!(
                "failed to verify the certificate of the API server {url}: invalid peer certificate"
            ),
        ),
        (
            ClientOptions {
                kubeconfig: Some("/nowhere".into()),
                ..good.clone()
            },
            "failed to read the kubeconfig: /nowhere: No such file".to_owned(),
        ),
        (
            ClientOptions {
                token: Some("wrong".to_owned()),
                ..options(plane, &Identity::Anonymous)
            },
            format!("the API server {url} rejected the credentials (401)"),
        ),
        (
            ClientOptions {
                request_timeout: Some(Duration::from_nanos(1)),
                ..good
            },
            format!("the API server {url} did not answer within"),
        ),
    ];
    for (options, expected) in cases {
        let error = Cluster::connect(&options).await.err().unwrap().to_string();
        assert!(error.starts_with(&expected), "{error}");
        assert!(!error.contains('\n'), "{error}");
    }
}

#[tokio::test]
async fn insecure_skip_tls_verify_accepts_any_certificate() {
    let plane = ControlPlane::shared_api().await;
    let options = ClientOptions {
        tls_server_name: Some("elsewhere.test".to_owned()),
        insecure_skip_tls_verify: Some(true),
        ..options(plane, &Identity::Admin)
    };
    let connected = Cluster::connect(&options).await;
    assert!(!matches!(connected, Err(ConnectError::Api(_))));
}

fn removal(pod: &k8s_openapi::api::core::v1::Pod) -> Removal {
    Removal {
        namespace: pod.metadata.namespace.clone().unwrap(),
        name: pod.metadata.name.clone().unwrap(),
        uid: pod.metadata.uid.clone().unwrap(),
        grace_period_seconds: Some(0),
        dry_run: false,
    }
}

#[tokio::test]
async fn eviction_responses_keep_what_distinguishes_refusals() {
    let plane = ControlPlane::shared_api().await;
    let namespace = TestNamespace::create(plane, "evict").await.unwrap();
    let cluster = admin(plane).await;
    let pod = PodFixture::new("web")
        .spec(json!({"nodeName": "n1"}))
        .create(&namespace)
        .await
        .unwrap();
    let removal = removal(&pod);
    let wrong = Removal {
        uid: "another".to_owned(),
        ..removal.clone()
    };
    let answer = cluster.evict(&wrong).await.unwrap();
    assert_eq!(
        (answer.code, answer.status.unwrap().reason.as_str()),
        (409, "Conflict")
    );

    let dry = Removal {
        dry_run: true,
        ..removal.clone()
    };
    assert_eq!(cluster.evict(&dry).await.unwrap().code, 201);
    assert_eq!(cluster.evict(&removal).await.unwrap().code, 201);
    let answer = cluster.evict(&removal).await.unwrap();
    assert_eq!((answer.code, answer.text), (404, None));
    let answer = cluster.delete_pod(&removal).await.unwrap();
    assert_eq!(answer.code, 404);
    namespace.delete().await.unwrap();
}

/// The next update of the watch that is no trouble.
async fn update(watch: &mut Watch<Pod>) -> Update<Pod> {
    let quiet = async {
        loop {
            match watch.next().await.unwrap() {
                Update::Failed { .. } => {}
                other => return other,
            }
        }
    };
    tokio::time::timeout(TIMEOUT, quiet).await.unwrap()
}

#[tokio::test]
async fn a_watch_and_a_list_survive_a_restart_of_the_api_server() {
    let plane = PlaneLease::take(Parts::Api).await.unwrap();
    let namespace = TestNamespace::create(&plane, "watch").await.unwrap();
    let cluster = admin(&plane).await;
    let selection = ListFilter {
        namespace: Some(namespace.name.clone()),
        ..ListFilter::on_node("n1")
    };
    let pod = async |name: &str| {
        PodFixture::new(name)
            .spec(json!({"nodeName": "n1"}))
            .create(&namespace)
            .await
            .unwrap()
    };
    pod("one").await;
    let mut watch = cluster.watch(&listing::PODS, selection.clone());
    assert!(matches!(update(&mut watch).await, Update::Listed(pods) if pods.len() == 1));
    let two = pod("two").await;
    assert!(matches!(update(&mut watch).await, Update::Applied(pod) if pod.metadata.name == "two"));

    plane.kill(Part::ApiServer).await.unwrap();
    let listing = cluster.list(&listing::PODS, &selection, |_| {});
    let (listed, started) = futures::join!(listing, plane.start(Part::ApiServer));
    started.unwrap();
    assert_eq!(listed.unwrap().items.len(), 2);

    cluster.delete_pod(&removal(&two)).await.unwrap();
    let gone = async {
        loop {
            match update(&mut watch).await {
                Update::Deleted(pod) if pod.metadata.name == "two" => return,
                Update::Listed(pods) if pods.len() == 1 => return,
                _ => {}
            }
        }
    };
    tokio::time::timeout(TIMEOUT, gone).await.unwrap();
    let error = cluster
        .list(
            &listing::PODS,
            &ListFilter {
                fields: Some("x=y".to_owned()),
                ..selection
            },
            |_| {},
        )
        .await
        .unwrap_err();
    assert!(matches!(error, ApiError::Refused(answer) if answer.code == 400));
}
