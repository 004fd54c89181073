//! Sends the request of each effect, and turns the response into an event.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use nodelife_cluster::list::ListFilter;
use nodelife_cluster::request::Call;
use nodelife_cluster::{ApiError, ApiResult, Cluster, listing, resource};
use nodelife_core::disruption::BudgetKey;
use nodelife_core::object::{Meta, OwnerReference, Pod, WorkloadKind};
use nodelife_core::text::Str;
use nodelife_core::workload::{GROUP_INDEX, Presence};
use nodelife_drain_plan::{DrainEvent, ReplicaCount};
use serde_json::Value;

use crate::removal::{RemovalMethod, remove};
use crate::shared_state::SharedState;
use crate::view::watches::pod_filter;
use crate::view::{text, values};

pub(super) async fn send_removal(
    cluster: Cluster,
    method: RemovalMethod,
    (namespace, name, uid): (Str, Str, Str),
    (process, budget): (Arc<SharedState>, Option<BudgetKey>),
) -> DrainEvent {
    let send = remove(&cluster, method, (&namespace, &name, &uid), false);
    let result = process.in_turn(budget, send).await;
    DrainEvent::Answered { uid, result }
}

/// Reads a pod. Only the API server's own 404 is believed: a proxy on the way says so as well.
pub(super) async fn get_pod(cluster: Cluster, namespace: Str, name: Str, uid: Str) -> DrainEvent {
    let call = Call::get(resource::PODS.all().in_namespace(&namespace).named(&name));
    let found = match cluster.read(&call).await {
        Ok(answer) => answer.json::<Pod>(&call).map(|pod| Some(Box::new(pod))),
        Err(ApiError::NotFound(answer)) if answer.status.is_some() => Ok(None),
        // Who may list and not get finds it in a list.
        Err(ApiError::Forbidden(_)) => list_pod(&cluster, &namespace, &name).await,
        Err(error) => Err(error),
    };
    match found {
        Ok(found) => DrainEvent::PodFetched { uid, found },
        Err(error) => DrainEvent::PodFetchFailed {
            uid,
            message: error.to_string(),
        },
    }
}

async fn list_pod(cluster: &Cluster, namespace: &Str, name: &str) -> ApiResult<Option<Box<Pod>>> {
    let filter = pod_filter(name, Some(namespace));
    let mut listed = cluster.items(&listing::PODS, &filter).await?;
    Ok(listed.pop().map(Box::new))
}

pub(super) async fn look_up_owner(
    cluster: Cluster,
    namespace: Str,
    owner: OwnerReference,
) -> DrainEvent {
    let presence = presence(&cluster, &namespace, &owner).await;
    let uid = owner.uid;
    DrainEvent::Owner { uid, presence }
}

async fn presence(cluster: &Cluster, namespace: &str, owner: &OwnerReference) -> Presence {
    #[derive(serde::Deserialize)]
    struct Object {
        metadata: Meta,
    }

    let Some(listing) = WorkloadKind::of(owner).and_then(listing::workloads) else {
        return Presence::Unknown;
    };
    let target = listing.resource.all().in_namespace(namespace);
    match cluster.get::<Object>(target.named(&owner.name)).await {
        Ok(Some(object)) if object.metadata.uid == owner.uid => Presence::Present,
        Ok(_) => Presence::Absent,
        Err(_) => Presence::Unknown,
    }
}

/// How many pods that wait for a node are reported with the scheduler's words.
const MAX_PENDING_MESSAGES: usize = 3;

/// Counts the selected pods of a workload that are Ready, and asks after those that wait for a node.
pub(super) async fn count(
    cluster: Cluster,
    filter: ListFilter,
    workload: Str,
    groups: bool,
) -> DrainEvent {
    let count = recount(&cluster, &filter, &workload, groups).await;
    if let Err(error) = &count {
        tracing::debug!(?filter, %error, "failed to count pods");
    }
    let count = count.ok();
    DrainEvent::Counted { workload, count }
}

async fn recount(
    cluster: &Cluster,
    filter: &ListFilter,
    workload: &Str,
    groups: bool,
) -> ApiResult<ReplicaCount> {
    let mut pods = cluster.items(&listing::PODS, filter).await?;
    pods.retain(|pod| {
        let controller = pod.metadata.controller();
        let is_own = controller.is_some_and(|controller| controller.uid == *workload);
        (groups || is_own) && !pod.is_terminating()
    });
    let (ready, made) = if groups {
        count_groups(&pods)
    } else {
        let ready = pods.iter().filter(|pod| pod.is_ready());
        (ready.count(), pods.len())
    };
    let mut pending = Vec::from_iter(creation_failure(cluster, &pods).await);
    for (pod, words) in scheduling_messages(cluster, &pods, MAX_PENDING_MESSAGES).await? {
        pending.push(format!("{} is Pending: {words}", pod.full_name()));
    }
    Ok(ReplicaCount {
        ready: i32::try_from(ready).unwrap_or(i32::MAX),
        made: i32::try_from(made).unwrap_or(i32::MAX),
        pending,
    })
}

/// How many groups of a `LeaderWorkerSet` are as large as the largest and all Ready, and how many there are.
fn count_groups(pods: &[Pod]) -> (usize, usize) {
    let mut groups: BTreeMap<Option<&Str>, Vec<bool>> = BTreeMap::new();
    for pod in pods {
        let group = pod.metadata.labels.get(GROUP_INDEX);
        groups.entry(group).or_default().push(pod.is_ready());
    }
    let size = groups.values().map(Vec::len).max();
    let is_complete = |ready: &&Vec<bool>| Some(ready.len()) == size && !ready.contains(&false);
    (groups.values().filter(is_complete).count(), groups.len())
}

/// Why a `StatefulSet` made no pod after these, in its own words: it has Events for that and no condition
/// (`recordPodEvent` of `pkg/controller/statefulset/stateful_pod_control.go`, v1.36.3). None for who may
/// not read Events.
async fn creation_failure(cluster: &Cluster, pods: &[Pod]) -> Option<String> {
    let meta = &pods.first()?.metadata;
    let set = meta.controller().filter(|set| set.kind == "StatefulSet")?;
    let fields = format!("involvedObject.uid={},reason=FailedCreate", set.uid);
    let events = resource::EVENTS.all().in_namespace(&meta.namespace);
    let call = Call::get(events).with_query("fieldSelector", fields);
    let events: Value = cluster.read(&call).await.ok()?.json(&call).ok()?;
    let time = |event: &&Value| text(event, "/lastTimestamp").parse::<Timestamp>().ok();
    let last = values(&events, "items").max_by_key(time)?;
    let mut made = pods.iter().map(|pod| pod.metadata.creation_timestamp);
    let (namespace, name, words) = (&meta.namespace, &set.name, text(last, "/message"));
    let fails = made.all(|made| made < time(&last));
    fails.then(|| format!("{namespace}/StatefulSet/{name} cannot create pods: {words}"))
}

/// The messages of the condition `PodScheduled` of so many pods that wait for a node. One that has just
/// been created has none yet.
pub(crate) async fn scheduling_messages<'a>(
    cluster: &Cluster,
    pods: &'a [Pod],
    most: usize,
) -> ApiResult<Vec<(&'a Meta, String)>> {
    let waits = |pod: &&Pod| pod.spec.node_name.is_empty() && pod.status.phase == "Pending";
    let mut messages = Vec::new();
    for Pod { metadata, .. } in pods.iter().filter(waits).take(most) {
        let target = resource::PODS.all().in_namespace(&metadata.namespace);
        let pod: Option<Value> = cluster.get(target.named(&metadata.name)).await?;
        let status = pod.as_ref().and_then(|pod| pod.get("status"));
        let mut conditions = status
            .into_iter()
            .flat_map(|status| values(status, "conditions"));
        let scheduled = conditions.find(|condition| text(condition, "/type") == "PodScheduled");
        let words = scheduled.map_or("", |condition| text(condition, "/message"));
        if !words.is_empty() {
            messages.push((metadata, words.to_owned()));
        }
    }
    Ok(messages)
}

/// Lists the pods of a node consistently.
pub(super) async fn confirm(
    cluster: Cluster,
    node: Str,
    filter: ListFilter,
    request: u64,
) -> DrainEvent {
    let listed = cluster.list(&listing::PODS, &filter, |_| {}).await;
    match listed.inspect_err(|error| tracing::debug!(%node, %error, "failed to confirm")) {
        Ok(listed) if listed.consistent && listed.unreadable.is_empty() => DrainEvent::Confirmed {
            node,
            request,
            pods: listed.items,
        },
        _ => DrainEvent::ConfirmFailed { node },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The other pods of a group end soon after the first, and its leader may be on another node.
    #[test]
    fn a_group_that_lacks_a_pod_is_not_ready() {
        let pod = |group: &str, ready: bool| {
            let status = if ready { "True" } else { "False" };
            let pod = serde_json::json!({
                "metadata": {"name": "a", "labels": {GROUP_INDEX: group}},
                "status": {"conditions": [{"type": "Ready", "status": status}]},
            });
            serde_json::from_value::<Pod>(pod).unwrap()
        };
        let mut pods = vec![pod("0", true), pod("0", true), pod("1", true)];
        assert_eq!(count_groups(&pods), (1, 2));
        pods.push(pod("1", false));
        assert_eq!(count_groups(&pods), (1, 2));
        pods[3] = pod("1", true);
        assert_eq!(count_groups(&pods), (2, 2));
    }
}
