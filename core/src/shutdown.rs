//! Graceful node shutdown: the time of each pod, and the pods that get less than they need.
//!
//! Mirrors Kubernetes v1.36.3: `migrateConfig`, `groupByPriority` and
//! `processShutdownEvent` (`pkg/kubelet/nodeshutdown/nodeshutdown_manager.go`).
//! PodDisruptionBudgets are not asked. preStop hooks run inside a pod's own grace.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::allocatable::KubeletConfiguration;
use crate::object::{Node, Pod, SYSTEM_CRITICAL};
use crate::text::Str;

/// `terminationGracePeriodSeconds` of a pod that does not say (`pkg/apis/core/v1/defaults.go`).
const DEFAULT_GRACE: i64 = 30;

/// Pods from a priority on, and the seconds that they get together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[schemars(rename = "Group")]
#[serde(rename_all = "camelCase")]
pub struct PriorityGroup {
    /// The least priority.
    pub priority: i32,
    /// Seconds.
    pub seconds: i64,
}

/// The groups of a configuration in the order in which they stop; empty: no graceful shutdown.
pub fn groups(config: &KubeletConfiguration) -> Vec<PriorityGroup> {
    let total = config.shutdown_grace_period.unwrap_or_default();
    let critical = config
        .shutdown_grace_period_critical_pods
        .unwrap_or_default();
    let group = |priority, seconds| PriorityGroup { priority, seconds };
    let by_priority = config.shutdown_grace_period_by_pod_priority.iter();
    let mut groups: Vec<_> = by_priority
        .map(|given| group(given.priority, given.shutdown_grace_period_seconds))
        .collect();
    // More for critical pods than there is: the kubelet refuses to start.
    if groups.is_empty() && total.nanoseconds() > 0 && critical <= total {
        let ordinary = total.nanoseconds().saturating_sub(critical.nanoseconds());
        let ordinary = ordinary / 1_000_000_000;
        groups.push(group(0, ordinary));
        groups.push(group(SYSTEM_CRITICAL, critical.seconds()));
    }
    groups.sort_by_key(|group| group.priority);
    groups
}

/// The index of the group of a pod with this priority: the highest that it reaches, or the lowest.
pub fn group_of(groups: &[PriorityGroup], priority: i32) -> Option<usize> {
    if groups.is_empty() {
        return None;
    }
    // Of several with the very priority the kubelet's binary search finds the first.
    let same = groups.iter().position(|group| group.priority == priority);
    let reached = || groups.iter().rposition(|group| group.priority < priority);
    Some(same.or_else(reached).unwrap_or(0))
}

pub fn grace(pod: &Pod) -> i64 {
    let seconds = pod.spec.termination_grace_period_seconds;
    seconds.unwrap_or(DEFAULT_GRACE).max(0)
}

/// One pod in a shutdown.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PodShutdown {
    /// Namespace.
    pub namespace: Str,
    /// Name.
    pub name: Str,
    /// Priority.
    pub priority: i32,
    /// Its own grace period (`terminationGracePeriodSeconds`).
    pub grace_period_seconds: i64,
    /// The grace period of its group.
    pub allowed_seconds: i64,
    /// By how much it is cut.
    pub short_by_seconds: i64,
}

/// One group in a shutdown.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GroupShutdown {
    /// Priority and seconds.
    #[serde(flatten)]
    pub group: PriorityGroup,
    /// The longest that its pods can take to end: the lesser of its seconds and the longest grace
    /// in it. What is left of its seconds the kubelet waits for their volumes.
    pub max_seconds: i64,
    /// Its pods, those that are cut first.
    pub pods: Vec<PodShutdown>,
}

/// The shutdown of one node: an item of the JSON document of `explain shutdown`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeShutdown {
    /// Name of the node.
    pub node: Str,
    /// Whether the kubelet delays a shutdown at all.
    pub graceful: bool,
    /// The delay that the kubelet asks systemd-logind for (`InhibitDelayMaxSec`): the sum of all groups.
    pub requested_seconds: i64,
    /// The longest that this node's pods can take to end, their volumes left aside.
    pub max_seconds: i64,
    /// In the order in which they are stopped.
    pub groups: Vec<GroupShutdown>,
}

/// The JSON document of `explain shutdown`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ShutdownReport {
    /// By node name.
    pub items: Vec<NodeShutdown>,
}

pub fn of_node<'a>(
    node: &Node,
    config: &KubeletConfiguration,
    pods: impl IntoIterator<Item = &'a Pod>,
) -> NodeShutdown {
    let groups = groups(config);
    let mut members: BTreeMap<usize, Vec<PodShutdown>> = BTreeMap::new();
    for pod in pods {
        let priority = pod.spec.priority.unwrap_or_default();
        let index = group_of(&groups, priority);
        let Some((index, group)) = index.and_then(|i| Some((i, groups.get(i)?))) else {
            continue;
        };
        let wanted = grace(pod);
        members.entry(index).or_default().push(PodShutdown {
            namespace: pod.metadata.namespace.clone(),
            name: pod.metadata.name.clone(),
            priority,
            grace_period_seconds: wanted,
            allowed_seconds: group.seconds,
            short_by_seconds: wanted.saturating_sub(group.seconds).max(0),
        });
    }
    let requested_seconds = total(groups.iter().map(|group| group.seconds));
    let groups: Vec<_> = groups
        .into_iter()
        .enumerate()
        .map(|(index, group)| stop(group, members.remove(&index).unwrap_or_default()))
        .collect();
    NodeShutdown {
        node: node.metadata.name.clone(),
        graceful: !groups.is_empty(),
        requested_seconds,
        max_seconds: total(groups.iter().map(|group| group.max_seconds)),
        groups,
    }
}

/// A sum of seconds that anybody may have written.
fn total(seconds: impl Iterator<Item = i64>) -> i64 {
    seconds.fold(0, i64::saturating_add)
}

fn stop(group: PriorityGroup, mut pods: Vec<PodShutdown>) -> GroupShutdown {
    pods.sort_by(|a, b| {
        (b.short_by_seconds.cmp(&a.short_by_seconds))
            .then_with(|| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)))
    });
    let longest = pods.iter().map(|pod| pod.grace_period_seconds).max();
    GroupShutdown {
        group,
        max_seconds: longest.unwrap_or(0).min(group.seconds),
        pods,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn configured(document: serde_json::Value) -> KubeletConfiguration {
        KubeletConfiguration::from_configz(document).unwrap()
    }

    fn pod(priority: i32, grace: i64) -> Pod {
        let mut pod = Pod::default();
        pod.spec.priority = Some(priority);
        pod.spec.termination_grace_period_seconds = Some(grace);
        pod
    }

    #[test]
    fn two_periods_make_two_groups() {
        let configuration = configured(json!({
            "shutdownGracePeriod": "30s",
            "shutdownGracePeriodCriticalPods": "10s",
        }));
        let groups = groups(&configuration);
        assert_eq!(groups.len(), 2);
        // A PriorityClass of a million is high, but not critical.
        assert_eq!(group_of(&groups, 1_000_000), Some(0));
        assert_eq!(group_of(&groups, SYSTEM_CRITICAL), Some(1));
        let pods = [pod(0, 60), pod(2_000_001_000, 5)];
        let shutdown = of_node(&Node::default(), &configuration, &pods);
        assert_eq!(shutdown.groups[0].pods[0].short_by_seconds, 40);
        assert_eq!(shutdown.requested_seconds, 30);
        assert_eq!(shutdown.max_seconds, 25);
    }

    #[test]
    fn below_the_lowest_is_the_lowest() {
        let configuration = configured(json!({"shutdownGracePeriodByPodPriority": [
            {"priority": 100_000, "shutdownGracePeriodSeconds": 10},
            {"priority": 10_000, "shutdownGracePeriodSeconds": 180},
        ]}));
        let groups = groups(&configuration);
        assert_eq!(groups[0].priority, 10_000);
        assert_eq!(group_of(&groups, 0), Some(0));
        assert_eq!(group_of(&groups, 99_999), Some(0));
        assert_eq!(group_of(&groups, 100_000), Some(1));
    }

    #[test]
    fn without_periods_it_is_off() {
        let configuration = configured(json!({}));
        let shutdown = of_node(&Node::default(), &configuration, &[pod(0, 30)]);
        assert!(!shutdown.graceful);
        assert_eq!(shutdown.max_seconds, 0);
    }
}
