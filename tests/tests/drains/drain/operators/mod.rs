//! Tests of drains of pods that operators guard: scenes of objects that the real CRDs accept, and
//! what a drain says of them.

mod cnpg;
mod kubevirt;
pub(crate) mod live;
mod longhorn;
mod rook;
mod scene;
mod strimzi;
mod stub;

use futures::future::ready;
use futures::stream::{self, StreamExt as _};
use kube::api::{Api, DynamicObject, PostParams};
use kube::discovery::ApiResource;
use nodelife_core::operator::{self, OperatorResource};
use nodelife_tests::{ControlPlane, TIMEOUT, until, wait_until};
use scene::Scene;
use serde_json::Value;

use super::support::{end_plane, own_plane, proxy_of};

/// The definitions of the operators' resources that Kubernetes does not bring along.
fn crds() -> impl Iterator<Item = Value> {
    let is_theirs = |resource: &OperatorResource| {
        let group = resource.group;
        !group.is_empty() && group != "apps" && !group.ends_with(".k8s.io")
    };
    operator::resources().filter(is_theirs).map(|resource| {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/crds");
        let file = format!("{folder}/{}.{}.json", resource.plural, resource.group);
        let text = std::fs::read_to_string(&file).expect(&file);
        serde_json::from_str(&text).unwrap()
    })
}

/// Creates an object of any kind, of all namespaces or of none.
async fn create(api: &Api<DynamicObject>, object: &Value) -> DynamicObject {
    let object: DynamicObject = serde_json::from_value(object.clone()).unwrap();
    let created = wait_until("the object", TIMEOUT, async || {
        match api.create(&PostParams::default(), &object).await {
            // The API server serves a new CRD a moment after it says so.
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
            created => Ok(Some(created?)),
        }
    });
    created.await.unwrap()
}

async fn install_crds(plane: &ControlPlane) {
    let resource = ApiResource::erase::<
        k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
    >(&());
    let api: Api<DynamicObject> = Api::all_with(plane.admin().await.unwrap(), &resource);
    for crd in crds() {
        let name = crd["metadata"]["name"].as_str().unwrap();
        create(&api, &crd).await;
        until("the CRD", async || {
            let status = &api.get(name).await?.data["status"];
            let mut conditions = status["conditions"].as_array().into_iter().flatten();
            let established =
                conditions.any(|c| c["type"] == "Established" && c["status"] == "True");
            Ok(established.then_some(()))
        })
        .await;
    }
}

/// How many scenes are played at a time.
const AT_ONCE: usize = 8;

#[tokio::test]
pub(crate) async fn each_scene_has_its_verdict_and_its_end() {
    let plane = own_plane().await;
    install_crds(plane).await;
    let proxy = proxy_of(plane).await;
    let mut wrong = Vec::new();
    let mut check = async |operator: &str, scenes: Vec<Scene>| {
        assert!(scenes.len() >= 6, "{operator}");
        let played = scenes.into_iter().map(|scene| scene.check(plane, &proxy));
        let played = stream::iter(played).buffer_unordered(AT_ONCE);
        wrong.extend(played.filter_map(ready).collect::<Vec<String>>().await);
    };
    check("CloudNativePG", cnpg::scenes()).await;
    check("KubeVirt", kubevirt::scenes()).await;
    check("Rook", rook::scenes()).await;
    check("Longhorn", longhorn::scenes()).await;
    check("Strimzi", strimzi::scenes()).await;
    strimzi::install_drain_cleaner(plane).await;
    check(
        "Strimzi's drain cleaner",
        strimzi::scenes_with_drain_cleaner(),
    )
    .await;
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
    end_plane(plane).await;
}
