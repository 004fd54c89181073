//! Strimzi, without and with its drain cleaner.

use kube::api::{Api, DynamicObject};
use kube::discovery::ApiResource;
use nodelife_tests::ControlPlane;
use serde_json::{Value, json};

use super::cnpg::json_patch;
use super::create;
use super::scene::{Expect, Scene, exhausted, owner, pod};

/// A Kafka with its changes, its brokers as (name, node, whether Ready) with changes of the first,
/// and how many of them its budget wants, if that allows nothing.
fn kafka(
    changes: Value,
    brokers: &[(&str, &str, bool)],
    mut first: Value,
    refused: Option<i32>,
) -> Vec<Value> {
    let mut kafka = json!({
        "apiVersion": "kafka.strimzi.io/v1", "kind": "Kafka", "metadata": {"name": "k"},
        "spec": {"kafka": {"listeners": [
            {"name": "plain", "port": 9092, "type": "internal", "tls": false},
        ]}},
    });
    json_patch(&mut kafka, changes);
    let mut objects = vec![kafka];
    let labels = json!({
        "strimzi.io/cluster": "k", "strimzi.io/kind": "Kafka", "strimzi.io/name": "k-kafka",
        "strimzi.io/broker-role": "true",
    });
    for (i, (name, node, ready)) in brokers.iter().enumerate() {
        let mut set = owner("core.strimzi.io/v1", "StrimziPodSet", "k-pool");
        set[0]["uid"] = "00000000-0000-0000-0000-000000000001".into();
        let mut broker = pod(name, node, &labels, &set, *ready);
        if i == 0 {
            json_patch(&mut broker, first.take());
        }
        objects.push(broker);
    }
    if let Some(wanted) = refused {
        let selected = json!({"strimzi.io/cluster": "k", "strimzi.io/name": "k-kafka"});
        let spec = json!({"minAvailable": wanted});
        objects.push(exhausted("k-kafka", &selected, spec, wanted));
    }
    objects
}

const THREE: [(&str, &str, bool); 3] = [("k-0", "a", true), ("k-1", "b", true), ("k-2", "c", true)];
const ONE_UNREADY: [(&str, &str, bool); 2] = [("k-0", "a", true), ("k-1", "b", false)];

fn none_unavailable() -> Value {
    json!({"spec": {"kafka": {"template": {"podDisruptionBudget": {"maxUnavailable": 0}}}}})
}

fn paused() -> Value {
    json!({"metadata": {"annotations": {"strimzi.io/pause-reconciliation": "true"}}})
}

fn marked() -> Value {
    json!({"metadata": {"annotations": {"strimzi.io/manual-rolling-update": "true"}}})
}

const ROLLS: &str = "the operator of Kafka $ns/k rolls the pod itself, within its interval of 2 \
                     minutes and one broker at a time";
const PAUSED: &str = "Kafka $ns/k is paused, so its operator rolls no pod: remove its annotation \
                      strimzi.io/pause-reconciliation";
const IN_SYNC: &str =
    "Kafka $ns/k: pod k-1 is not Ready, and the operator keeps enough replicas in sync";

pub(super) fn scenes() -> Vec<Scene> {
    let unschedulable = {
        let mut objects = kafka(json!({}), &[THREE[0]], json!({}), Some(1));
        let mut waiting = kafka(json!({}), &ONE_UNREADY, json!({}), None).remove(2);
        waiting["status"] = json!({"phase": "Pending", "conditions": [
            {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"},
        ]});
        objects.push(waiting);
        objects
    };
    let mut paused_and_held = none_unavailable();
    json_patch(&mut paused_and_held, paused());
    vec![
        Scene::new(
            "a budget of zero, and nobody rolls",
            kafka(none_unavailable(), &THREE, json!({}), Some(3)),
            Expect::Never(
                "Kafka $ns/k sets spec.kafka.template.podDisruptionBudget.maxUnavailable to 0, and \
                 the Strimzi drain cleaner is not installed: set it to 1, or annotate the pod with \
                 strimzi.io/manual-rolling-update=true",
            ),
        ),
        Scene::new(
            "a budget of zero, and the pod is marked",
            kafka(none_unavailable(), &THREE, marked(), Some(3)),
            Expect::Lifts(ROLLS),
        ),
        Scene::new(
            "paused, with a budget of zero",
            kafka(paused_and_held, &THREE, json!({}), Some(3)),
            Expect::Never(PAUSED),
        ),
        Scene::new(
            "paused, with a budget that allows one",
            kafka(paused(), &THREE, json!({}), None),
            Expect::Goes,
        ),
        Scene::new(
            "another broker is not Ready",
            kafka(json!({}), &ONE_UNREADY, json!({}), Some(1)),
            Expect::Lifts("Kafka $ns/k waits for pod k-1 to be Ready"),
        ),
        Scene::new(
            "another broker has no place",
            unschedulable,
            Expect::Stays(
                "Kafka $ns/k: pod k-1 cannot be scheduled, and until it runs no other may go",
            ),
        ),
        Scene::new(
            "one broker and no block",
            kafka(json!({}), &[THREE[0]], json!({}), None),
            Expect::Goes,
        ),
    ]
}

pub(super) fn scenes_with_drain_cleaner() -> Vec<Scene> {
    let scenes = vec![
        Scene::new(
            "a budget of zero is how the drain cleaner was installed once",
            kafka(none_unavailable(), &THREE, json!({}), Some(3)),
            Expect::Lifts(ROLLS),
        ),
        Scene::new(
            "the webhook denies at any budget",
            kafka(json!({}), &THREE, json!({}), None),
            Expect::Lifts(ROLLS),
        ),
        Scene::new(
            "one broker is rolled as well",
            kafka(json!({}), &[THREE[0]], json!({}), None),
            Expect::Lifts(ROLLS),
        ),
        Scene::new(
            "paused",
            kafka(paused(), &THREE, json!({}), None),
            Expect::Never(PAUSED),
        ),
        Scene::new(
            "another broker is not Ready",
            kafka(none_unavailable(), &ONE_UNREADY, json!({}), Some(2)),
            Expect::Lifts(IN_SYNC),
        ),
        Scene::new(
            "marked, and another broker is not Ready",
            kafka(json!({}), &ONE_UNREADY, marked(), None),
            Expect::Lifts(IN_SYNC),
        ),
    ];
    scenes.into_iter().map(Scene::denied).collect()
}

/// Registers the drain cleaner's webhook, which nobody answers: failures are ignored.
pub(super) async fn install_drain_cleaner(plane: &ControlPlane) {
    let resource = ApiResource::erase::<
        k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration,
    >(&());
    let api: Api<DynamicObject> = Api::all_with(plane.admin().await.unwrap(), &resource);
    let configuration = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "strimzi-drain-cleaner"},
        "webhooks": [{
            "name": "strimzi-drain-cleaner.strimzi.io", "admissionReviewVersions": ["v1"],
            "sideEffects": "NoneOnDryRun", "failurePolicy": "Ignore",
            "clientConfig": {"url": "https://127.0.0.1:1/drainer"},
            "rules": [{
                "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods/eviction"],
                "operations": ["CREATE"],
            }],
        }],
    });
    create(&api, &configuration).await;
}
