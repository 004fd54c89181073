//! Sends the request of each effect, and turns the response into an event.

use nodelife_cluster::list::ListFilter;
use nodelife_cluster::request::Call;
use nodelife_cluster::{ApiError, Cluster, listing, resource};
use nodelife_core::object::{OwnerReference, Pod, WorkloadKind};
use nodelife_core::text::Str;
use nodelife_core::workload::Presence;
use nodelife_drain_plan::{DrainEvent, ReplicaCount};

use crate::removal::{RemovalMethod, remove};

pub(super) async fn send_removal(
    cluster: Cluster,
    method: RemovalMethod,
    namespace: Str,
    name: Str,
    uid: Str,
) -> DrainEvent {
    let result = remove(&cluster, method, (&namespace, &name, &uid), false).await;
    DrainEvent::Answered { uid, result }
}

/// Reads a pod. That it is gone is believed only of an answer that is the API server's
/// own: a proxy on the way says 404 as well.
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

/// The pod of this name, out of a list.
async fn list_pod(
    cluster: &Cluster,
    namespace: &Str,
    name: &str,
) -> Result<Option<Box<Pod>>, ApiError> {
    let filter = ListFilter {
        namespace: Some(namespace.to_string()),
        ..ListFilter::named(name)
    };
    let mut listed = cluster.list(&listing::PODS, &filter, |_| {}).await?;
    Ok(listed.items.pop().map(Box::new))
}

/// Whether a controller is still there.
pub(super) async fn look_up_owner(
    cluster: Cluster,
    namespace: Str,
    owner: OwnerReference,
) -> DrainEvent {
    let presence = presence(&cluster, &namespace, &owner).await;
    DrainEvent::Owner {
        uid: owner.uid,
        presence,
    }
}

async fn presence(cluster: &Cluster, namespace: &str, owner: &OwnerReference) -> Presence {
    #[derive(serde::Deserialize)]
    struct Object {
        metadata: nodelife_core::object::Meta,
    }

    let listing = WorkloadKind::of(owner).and_then(|kind| {
        listing::WORKLOADS
            .iter()
            .find(|listing| listing.kind == kind.as_str())
    });
    let Some(listing) = listing else {
        return Presence::Unknown;
    };
    let target = listing
        .resource
        .all()
        .in_namespace(namespace)
        .named(&owner.name);
    match cluster.get::<Object>(target).await {
        Ok(Some(object)) if object.metadata.uid == owner.uid => Presence::Present,
        Ok(_) => Presence::Absent,
        Err(_) => Presence::Unknown,
    }
}

/// How many pods that wait for a node are reported with the scheduler's words.
const MAX_PENDING_MESSAGES: usize = 3;

/// Counts those of the selected pods that a workload has and that are Ready, and asks after those
/// that wait for a node.
pub(super) async fn count(cluster: Cluster, filter: ListFilter, workload: Str) -> DrainEvent {
    let count = recount(&cluster, &filter, &workload).await;
    if let Err(error) = &count {
        tracing::debug!(?filter, %error, "failed to count pods");
    }
    DrainEvent::Counted {
        workload,
        count: count.ok(),
    }
}

async fn recount(
    cluster: &Cluster,
    filter: &ListFilter,
    workload: &Str,
) -> Result<ReplicaCount, ApiError> {
    let mut pods = cluster.list(&listing::PODS, filter, |_| {}).await?.items;
    pods.retain(|pod| {
        let controller = pod.metadata.controller();
        controller.is_some_and(|controller| controller.uid == *workload) && !pod.is_terminating()
    });
    let ready = pods.iter().filter(|pod| pod.is_ready()).count();
    let mut pending = Vec::new();
    for pod in pods
        .iter()
        .filter(|pod| is_unplaced(pod))
        .take(MAX_PENDING_MESSAGES)
    {
        let (namespace, name) = (&pod.metadata.namespace, &pod.metadata.name);
        // A pod that has just been created has no message yet.
        if let Some(words) = scheduling_message(cluster, namespace, name).await? {
            pending.push(format!("{namespace}/{name} is Pending: {words}"));
        }
    }
    Ok(ReplicaCount {
        ready: i32::try_from(ready).unwrap_or(i32::MAX),
        pending,
    })
}

/// Whether it waits for a node.
pub(super) fn is_unplaced(pod: &Pod) -> bool {
    pod.spec.node_name.is_empty() && pod.status.phase == "Pending"
}

/// The message of the condition `PodScheduled`.
pub(super) async fn scheduling_message(
    cluster: &Cluster,
    namespace: &str,
    name: &str,
) -> Result<Option<String>, ApiError> {
    let target = resource::PODS.all().in_namespace(namespace).named(name);
    let pod: Option<serde_json::Value> = cluster.get(target).await?;
    let conditions = pod
        .as_ref()
        .and_then(|pod| pod.pointer("/status/conditions"));
    let conditions = conditions.and_then(serde_json::Value::as_array);
    let scheduled = conditions.into_iter().flatten().find(|condition| {
        condition
            .get("type")
            .is_some_and(|kind| kind == "PodScheduled")
    });
    let message = scheduled.and_then(|condition| condition.get("message")?.as_str());
    Ok(message.map(str::to_owned))
}

/// Lists the pods of a node consistently.
pub(super) async fn confirm(
    cluster: Cluster,
    node: Str,
    filter: ListFilter,
    request: u64,
) -> DrainEvent {
    match cluster.list(&listing::PODS, &filter, |_| {}).await {
        Ok(listed) if listed.consistent && listed.unreadable.is_empty() => DrainEvent::Confirmed {
            node,
            request,
            pods: listed.items,
        },
        Ok(_) => DrainEvent::ConfirmFailed { node },
        Err(error) => {
            tracing::debug!(%node, %error, "failed to confirm");
            DrainEvent::ConfirmFailed { node }
        }
    }
}
