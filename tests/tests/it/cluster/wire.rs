//! Tests of both decoders on the lists of a real API server.

use std::fmt::Debug;

use http::Method;
use nodelife_cluster::list::ListFilter;
use nodelife_cluster::listing::{self, Listing, Object};
use nodelife_cluster::request::Call;
use nodelife_cluster::resource::Resource;
use nodelife_cluster::wire::Encoding;
use nodelife_cluster::{ClientOptions, Cluster};
use nodelife_tests::proxy::{Fault, FaultRule, Proxy};
use nodelife_tests::{ControlPlane, Identity, Parts, PlaneLease};
use serde::Serialize;
use serde_json::Value;

use super::objects::{Sample, samples};

async fn store(cluster: &Cluster, sample: &Sample) {
    let call = Call::create(sample.list.clone(), &sample.object).unwrap();
    cluster.call(&call).await.unwrap();
    let Some(status) = &sample.status else {
        return;
    };
    let name = sample.object["metadata"]["name"].as_str().unwrap();
    let target = sample.list.clone().named(name).at(sample.status_at);
    let call = Call::on(Method::PATCH, "patch", target)
        .with_json("application/merge-patch+json", status)
        .unwrap();
    cluster.call(&call).await.unwrap();
}

/// Lists in both encodings, compares, and gives the object of the sample as JSON.
async fn both<T>(cluster: &Cluster, listing: &'static Listing<T>) -> Value
where
    T: Object + Debug + PartialEq + Serialize,
{
    let all = ListFilter::default();
    let list = async |encoding| {
        let listed = cluster.list_as(encoding, listing, &all, |_| {}).await;
        listed.unwrap().items
    };
    let (json, protobuf) = (list(Encoding::Json).await, list(Encoding::Protobuf).await);
    assert_eq!(json, protobuf, "{}", listing.kind);
    let sample = protobuf
        .iter()
        .find(|object| object.metadata().name == "sample")
        .unwrap();
    serde_json::to_value(sample).unwrap()
}

/// Whether every field that core writes of a decoded sample stands in what was sent,
/// and every field that `expected` names is there.
fn holds(decoded: &Value, expected: &Value, path: &str) {
    match expected {
        Value::Object(fields) => {
            for (name, value) in fields {
                holds(&decoded[name], value, &format!("{path}.{name}"));
            }
        }
        Value::Array(items) => {
            for (index, value) in items.iter().enumerate() {
                holds(&decoded[index], value, &format!("{path}[{index}]"));
            }
        }
        value => assert_eq!(decoded, value, "{path}"),
    }
}

#[tokio::test]
async fn protobuf_and_json_decode_to_the_same_objects() {
    let plane = PlaneLease::take(Parts::Api).await.unwrap();
    let cluster = super::admin(&plane).await;
    // The controller-manager would make it.
    let account = serde_json::json!({"apiVersion": "v1", "kind": "ServiceAccount",
                                     "metadata": {"name": "default"}});
    let accounts = Resource::core("serviceaccounts")
        .all()
        .in_namespace("default");
    let call = Call::create(accounts, &account).unwrap();
    cluster.call(&call).await.unwrap();
    for sample in samples() {
        store(&cluster, &sample).await;
    }
    let mut decoded = vec![
        both(&cluster, &listing::NODES).await,
        both(&cluster, &listing::PODS).await,
        both(&cluster, &listing::LEASES).await,
        both(&cluster, &listing::BUDGETS).await,
        both(&cluster, &listing::VOLUMES).await,
        both(&cluster, &listing::VOLUME_ATTACHMENTS).await,
        both(&cluster, &listing::CSI_NODES).await,
        both(&cluster, &listing::SIGNING_REQUESTS).await,
        both(&cluster, &listing::CLUSTER_ROLES).await,
        both(&cluster, &listing::CLUSTER_ROLE_BINDINGS).await,
        both(&cluster, &listing::EVENTS).await,
        both(&cluster, &listing::AUTOSCALERS).await,
    ];
    for workloads in &listing::WORKLOADS {
        decoded.push(both(&cluster, workloads).await);
    }
    for (sample, decoded) in samples().iter().zip(&decoded) {
        holds(decoded, &sample.read, sample.list.resource.plural);
    }
}

#[tokio::test]
async fn a_paged_list_is_complete() {
    let plane = PlaneLease::take(Parts::Api).await.unwrap();
    let cluster = super::admin(&plane).await;
    let target = listing::LEASES
        .resource
        .all()
        .in_namespace("kube-node-lease");
    for number in 0..1100 {
        let lease = serde_json::json!({
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": format!("n{number}")},
        });
        let call = Call::create(target.clone(), &lease).unwrap();
        cluster.call(&call).await.unwrap();
    }
    let mut pages = Vec::new();
    let listed = cluster
        .list(&listing::LEASES, &ListFilter::default(), |progress| {
            pages.push((progress.listed, progress.remaining));
        })
        .await
        .unwrap();
    assert_eq!(listed.items.len(), 1100);
    assert!(listed.consistent);
    assert_eq!(
        pages,
        [
            (250, Some(850)),
            (500, Some(600)),
            (750, Some(350)),
            (1000, Some(100)),
            (1100, Some(0))
        ]
    );
    faults_in_the_middle(&plane).await;
}

/// What an API server answers when a list takes longer than it keeps versions. The token
/// says: go on after `n500` at any version (k8s.io/apiserver v0.36.3,
/// `pkg/storage/continue.go`).
fn expired() -> Fault {
    use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD};
    let token = r#"{"v":"meta.k8s.io/v1","rv":-1,"start":"n500\u0000"}"#;
    let status = serde_json::json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Expired",
        "message": "The provided continue parameter is too old", "code": 410,
        "metadata": {"continue": BASE64_URL_SAFE_NO_PAD.encode(token)},
    });
    Fault::Answer {
        status: 410,
        headers: vec![("content-type", "application/json".to_owned())],
        body: status.to_string(),
    }
}

async fn faults_in_the_middle(plane: &ControlPlane) {
    let proxy = Proxy::start(plane, &Identity::Admin).unwrap();
    let options = ClientOptions {
        kubeconfig: Some(proxy.kubeconfig_file().unwrap()),
        ..ClientOptions::default()
    };
    let cluster = Cluster::connect(&options).await.unwrap();
    let all = ListFilter::default();
    let list = async || cluster.list(&listing::LEASES, &all, |_| {}).await.unwrap();

    // One page is gone: the list starts over.
    proxy.fault(FaultRule::new(expired()).query("continue=").times(1));
    let listed = list().await;
    assert_eq!((listed.items.len(), listed.consistent), (1100, true));

    // Gone again: it goes on with what is there now, and says so.
    proxy.fault(FaultRule::new(expired()).query("continue=").times(2));
    let listed = list().await;
    assert!(!listed.consistent);
    assert!(listed.items.len() > 500);

    // A body that breaks off, an overloaded server, a lost answer: read again.
    let overloaded = Fault::Answer {
        status: 429,
        headers: vec![("retry-after", "1".to_owned())],
        body: "Too many requests, please try again later.".to_owned(),
    };
    for fault in [Fault::Truncate(1000), overloaded, Fault::DropAnswer] {
        proxy.fault(FaultRule::new(fault).path("/leases").times(1));
        assert_eq!(list().await.items.len(), 1100);
    }
}
