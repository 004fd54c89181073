//! The rights that a drain needs, asked for before it changes anything.

use std::collections::BTreeMap;

use nodelife_cluster::{ApiError, Cluster, ConnectError, Permission};
use nodelife_drain_plan::{Action, DrainPlan};

use crate::removal::RemovalMethod;
use crate::settings::DrainRequest;

/// The sentence for a user who lacks a right that a drain would miss only after the cordon: it reads pods and
/// budgets by watches, and is refused there before. Where the API server does not answer, nothing is
/// missing.
pub(super) async fn missing_permission(
    cluster: &Cluster,
    request: &DrainRequest,
) -> Option<String> {
    let volumes = (
        request.settings.wait_volumes,
        "storage.k8s.io",
        "volumeattachments",
    );
    let nodes = (request.max_unavailable.is_some(), "", "nodes");
    for (verb, (is_needed, group, resource)) in
        [("watch", nodes), ("list", volumes), ("watch", volumes)]
    {
        if request.dry_run || !is_needed {
            continue;
        }
        let permission = Permission {
            verb,
            group,
            resource,
            ..Permission::default()
        };
        if let Ok(false) = cluster.is_allowed(&permission).await {
            let dot = if group.is_empty() { "" } else { "." };
            let missing = format!("{verb} {resource}{dot}{group}");
            return Some(format!(
                "refused: not allowed to {missing} in all namespaces; nothing was changed; check \
                 with: kubectl auth can-i {missing} --all-namespaces"
            ));
        }
    }
    None
}

/// Whether the user may evict (or delete) this pod, all of a namespace, or all. Where the API server
/// does not answer, the evictions will show it.
pub(super) async fn may_remove_pods(
    cluster: &Cluster,
    method: RemovalMethod,
    (namespace, name): (&str, &str),
) -> bool {
    let (verb, subresource) = if method.delete {
        ("delete", "")
    } else {
        ("create", "eviction")
    };
    let permission = Permission {
        verb,
        resource: "pods",
        subresource,
        namespace,
        name,
        ..Permission::default()
    };
    cluster.is_allowed(&permission).await.unwrap_or(true)
}

/// The sentence for a user who may not evict any of the pods of one of their namespaces. A role may name some.
pub(super) async fn forbidden_namespace(
    cluster: &Cluster,
    method: RemovalMethod,
    plan: &DrainPlan,
) -> Option<String> {
    let leaving = plan.with(Action::Evict).chain(plan.with(Action::Delete));
    let mut namespaces: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for pod in leaving {
        let names = namespaces.entry(&pod.namespace).or_default();
        names.push(&pod.name);
    }
    for (namespace, names) in namespaces {
        let mut allowed = false;
        for name in [""].into_iter().chain(names) {
            allowed = allowed || may_remove_pods(cluster, method, (namespace, name)).await;
        }
        if !allowed {
            let (right, flags) = method.permission();
            return Some(format!(
                "refused: not allowed to {right} in namespace {namespace}; nothing was changed; \
                 check with: kubectl auth can-i {flags} -n {namespace}"
            ));
        }
    }
    None
}

pub fn is_forbidden(error: &anyhow::Error) -> bool {
    let api = match error.downcast_ref::<ConnectError>() {
        Some(ConnectError::Api(error)) => Some(error),
        _ => error.downcast_ref::<ApiError>(),
    };
    matches!(api, Some(ApiError::Forbidden(_)))
}
