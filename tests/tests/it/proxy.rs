//! Tests of the fault-injecting proxy.

use std::time::{Duration, Instant};

use futures::TryStreamExt;
use http::Method;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Node};
use kube::api::{Api, ListParams, PostParams, WatchEvent, WatchParams};
use nodelife_tests::proxy::{Fault, FaultRule, Proxy};
use nodelife_tests::{ControlPlane, Identity, TestNamespace};
use serde_json::json;

#[tokio::test]
async fn passes_watches_and_counts_requests() {
    let plane = ControlPlane::shared_api().await;
    let namespace = TestNamespace::create(plane, "watched").await.unwrap();
    let proxy = Proxy::start(plane, &Identity::Admin).unwrap();
    let maps: Api<ConfigMap> = Api::namespaced(proxy.client().await.unwrap(), &namespace.name);
    let version = maps
        .list(&ListParams::default())
        .await
        .unwrap()
        .metadata
        .resource_version
        .unwrap();
    let mut events = Box::pin(maps.watch(&WatchParams::default(), &version).await.unwrap());
    let map = serde_json::from_value(json!({"metadata": {"name": "one"}})).unwrap();
    namespace
        .api::<ConfigMap>()
        .create(&PostParams::default(), &map)
        .await
        .unwrap();
    let event = tokio::time::timeout(nodelife_tests::TIMEOUT, events.try_next())
        .await
        .unwrap()
        .unwrap();
    assert!(
        matches!(event, Some(WatchEvent::Added(map)) if map.metadata.name.as_deref() == Some("one"))
    );
    assert_eq!(proxy.count(&Method::GET, "/configmaps"), 2);
    assert_eq!(proxy.count(&Method::POST, ""), 0);
}

#[tokio::test]
async fn a_watch_that_is_cut_ends_before_its_first_event() {
    let plane = ControlPlane::shared_api().await;
    let proxy = Proxy::start(plane, &Identity::Admin).unwrap();
    proxy.fault(FaultRule::new(Fault::Truncate(10)).query("watch="));
    let namespaces: Api<Namespace> = Api::all(proxy.client().await.unwrap());
    // The cut may arrive before the head of the answer has been read, or after it.
    let events: Result<Vec<_>, kube::Error> = async {
        let watch = namespaces.watch(&WatchParams::default(), "0").await?;
        watch.try_collect().await
    }
    .await;
    // kube takes a cut for the end of the watch.
    assert!(
        events.as_ref().is_ok_and(Vec::is_empty) || events.is_err(),
        "{events:?}"
    );
}

#[tokio::test]
async fn injects_each_fault_as_often_as_requested() {
    let plane = ControlPlane::shared_api().await;
    let proxy = Proxy::start(plane, &Identity::Admin).unwrap();
    let client = proxy.client().await.unwrap();
    let nodes: Api<Node> = Api::all(client);
    let list = async || nodes.list(&ListParams::default()).await;

    let body = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Throttled", "message": "slow down", "code": 429});
    let headers = vec![("retry-after", "1".to_owned())];
    proxy.fault(
        FaultRule::new(Fault::Answer {
            status: 429,
            headers,
            body: body.to_string(),
        })
        .path("/nodes")
        .times(1),
    );
    assert!(list().await.unwrap_err().to_string().contains("slow down"));
    list().await.unwrap();

    proxy.fault(
        FaultRule::new(Fault::Drop)
            .method(Method::GET)
            .after(1)
            .times(1),
    );
    list().await.unwrap();
    list().await.unwrap_err();
    list().await.unwrap();

    proxy.fault(FaultRule::new(Fault::DropAnswer).times(1));
    list().await.unwrap_err();

    proxy.fault(FaultRule::new(Fault::Truncate(20)).times(1));
    list().await.unwrap_err();

    let delay = Duration::from_millis(300);
    proxy.fault(FaultRule::new(Fault::Delay(delay)).times(1));
    let start = Instant::now();
    list().await.unwrap();
    assert!(start.elapsed() >= delay);

    proxy.fault(FaultRule::new(Fault::Throttle(1000)).times(1));
    list().await.unwrap();

    proxy.fault(FaultRule::new(Fault::Drop));
    list().await.unwrap_err();
    proxy.heal();
    list().await.unwrap();
}
