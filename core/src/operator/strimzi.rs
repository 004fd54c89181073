//! Strimzi (1.2.0) and its drain cleaner (1.6.0): `PodDisruptionBudgetUtils.java`,
//! `KafkaReconciler.manualRollingUpdate`, `KafkaRoller.canRoll`; `ValidatingWebhook.java`.
//!
//! The operator alone acts on no drain. The drain cleaner's webhook denies the eviction, or lets the
//! budget do so, and annotates the pod; the operator then deletes the pod itself.

use serde::Deserialize;
use serde::de::IgnoredAny;

use super::around::{Around, Outlook, named};
use super::{Object, Operator, OperatorResource, objects};
use crate::object::{Condition, Pod, nullable};
use crate::text::Str;

const ROLL: &str = "strimzi.io/manual-rolling-update";

objects!(Strimzi {
    kafkas: Kafka = OperatorResource::new("kafka.strimzi.io", &["v1", "v1beta2"], "kafkas"),
    drain_cleaners: IgnoredAny = OperatorResource::new(
        "admissionregistration.k8s.io",
        &["v1"],
        "validatingwebhookconfigurations",
    )
    .named("strimzi-drain-cleaner")
    .everywhere(),
});

type Kafka = Object<Spec, Status>;

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
struct Spec {
    kafka: Brokers,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
struct Brokers {
    #[serde(deserialize_with = "nullable")]
    template: Template,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Template {
    #[serde(deserialize_with = "nullable")]
    pod_disruption_budget: BudgetTemplate,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct BudgetTemplate {
    max_unavailable: Option<i32>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
struct Status {
    #[serde(deserialize_with = "nullable")]
    conditions: Vec<Condition>,
}

impl Kafka {
    fn is_paused(&self) -> bool {
        let asked = self
            .metadata
            .annotations
            .get("strimzi.io/pause-reconciliation");
        asked.is_some_and(|value| value == "true")
            || self
                .status
                .conditions
                .iter()
                .any(|c| c.kind == "ReconciliationPaused" && c.status == "True")
    }

    fn allows_none(&self) -> bool {
        let budget = &self.spec.kafka.template.pod_disruption_budget;
        budget.max_unavailable == Some(0)
    }
}

impl Operator for Strimzi {
    fn guards(&self, pod: &Pod) -> bool {
        is_broker(pod)
    }

    fn pod_annotations(&self) -> &'static [&'static str] {
        &[ROLL]
    }

    fn outlook(&self, around: &Around, pod: &Pod, refused: bool) -> Option<Outlook> {
        let cluster = pod.metadata.labels.get("strimzi.io/cluster")?;
        let kafka = self.kafkas.iter().find(|kafka| {
            kafka.metadata.name == *cluster && kafka.metadata.namespace == pod.metadata.namespace
        })?;
        let name = named("Kafka", pod, cluster);
        let marked = pod
            .metadata
            .annotations
            .get(ROLL)
            .is_some_and(|v| v == "true");
        let rolled = marked || !self.drain_cleaners.is_empty();
        let held = refused && kafka.allows_none();
        if kafka.is_paused() && (rolled || held) {
            return Some(Outlook::Never(format!(
                "{name} is paused, so its operator rolls no pod: remove its annotation \
                 strimzi.io/pause-reconciliation"
            )));
        }
        if held && !rolled {
            return Some(Outlook::Never(format!(
                "{name} sets spec.kafka.template.podDisruptionBudget.maxUnavailable to 0, and the \
                 Strimzi drain cleaner is not installed: set it to 1, or annotate the pod with \
                 {ROLL}=true"
            )));
        }
        if !refused && !rolled {
            return None;
        }
        if let Some(other) = unready_broker(around, pod, cluster) {
            let broker = &other.metadata.name;
            return Some(if other.is_unschedulable() {
                Outlook::NeedsFirst(format!(
                    "{name}: pod {broker} cannot be scheduled, and until it runs no other may go"
                ))
            } else if rolled {
                Outlook::NeedsFirst(format!(
                    "{name}: pod {broker} is not Ready, and the operator keeps enough replicas in \
                     sync"
                ))
            } else {
                Outlook::WillLift(format!("{name} waits for pod {broker} to be Ready"))
            });
        }
        rolled.then(|| {
            Outlook::WillLift(format!(
                "the operator of {name} rolls the pod itself, within its interval of 2 minutes and \
                 one broker at a time"
            ))
        })
    }
}

fn is_broker(pod: &Pod) -> bool {
    let labels = &pod.metadata.labels;
    let kind = labels.get("strimzi.io/kind");
    kind.is_some_and(|kind| kind == "Kafka") && labels.contains_key("strimzi.io/broker-role")
}

fn unready_broker<'a>(around: &'a Around, pod: &Pod, cluster: &Str) -> Option<&'a Pod> {
    around.pods.iter().find(|other| {
        is_broker(other)
            && other.metadata.labels.get("strimzi.io/cluster") == Some(cluster)
            && other.metadata.namespace == pod.metadata.namespace
            && other.metadata.uid != pod.metadata.uid
            && !other.is_ready()
    })
}
