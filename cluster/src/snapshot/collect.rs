//! Collects a snapshot from a live cluster, all lists at the same time.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use futures::StreamExt as _;
use nodelife_core::allocatable::KubeletConfiguration;
use nodelife_core::object::Workload;
use nodelife_core::snapshot::{Snapshot, Source};
use nodelife_core::text::Str;

use super::access;
use crate::client::Cluster;
use crate::error::ApiError;
use crate::kubelet::{self, Configz, Kubelets};
use crate::list::ListFilter;
use crate::listing::{self, Listing, Object};
use crate::request::Call;
use crate::resource::NODES;

/// Kubelets that are asked at the same time.
const CONFIGZ_AT_ONCE: usize = 10;

/// How long one kubelet may take.
const CONFIGZ_TIMEOUT: Duration = Duration::from_secs(5);

/// A page of one list has arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SourceProgress {
    pub source: Source,
    /// How many objects it had. Several lists may belong to one source.
    pub added: usize,
    /// Whether all pages so far come from one resource version.
    pub consistent: bool,
}

/// Reads these sources, the configurations of kubelets by `configz`. One that cannot be read, because a right is missing or the
/// server does not know the resource, is named in [`Snapshot::missing`], and the rest
/// is read all the same; so is one that not requested.
///
/// # Errors
///
/// [`ApiError`] when the server itself is lost: then no snapshot would be true.
pub async fn collect(
    cluster: &Cluster,
    sources: &BTreeSet<Source>,
    configz: Configz,
    note: impl Fn(SourceProgress) + Send + Sync,
) -> Result<Snapshot, ApiError> {
    let mut snapshot = Snapshot {
        taken_at: Some(cluster.clock().now()),
        server_version: cluster
            .server_version()
            .map(|version| Str::from(version.git_version.as_str())),
        ..Snapshot::default()
    };
    for source in Source::ALL {
        // Of what is asked for apart core itself says which flag does so.
        if !sources.contains(&source) && !source.is_asked_for_apart() && source != Source::Clock {
            snapshot.missing.insert(source, Str::from("not requested"));
        }
    }
    let lists = Lists {
        cluster,
        sources,
        note: &note,
    };
    // The pods take longest; the rest comes in beside them.
    let about_nodes = ListFilter {
        fields: Some("involvedObject.kind=Node".to_owned()),
        ..ListFilter::default()
    };
    let (
        pods,
        nodes,
        leases,
        budgets,
        workloads,
        volumes,
        attachments,
        csi_nodes,
        requests,
        roles,
        bindings,
        events,
    ) = futures::join!(
        lists.one(Source::Pods, &listing::PODS),
        lists.one(Source::Nodes, &listing::NODES),
        lists.one(Source::Leases, &listing::LEASES),
        lists.one(Source::Budgets, &listing::BUDGETS),
        lists.workloads(),
        lists.one(Source::Volumes, &listing::VOLUMES),
        lists.one(Source::VolumeAttachments, &listing::VOLUME_ATTACHMENTS),
        lists.one(Source::CsiNodes, &listing::CSI_NODES),
        lists.one(Source::SigningRequests, &listing::SIGNING_REQUESTS),
        lists.one(Source::ClusterRoles, &listing::CLUSTER_ROLES),
        lists.one(Source::ClusterRoleBindings, &listing::CLUSTER_ROLE_BINDINGS),
        lists.select(Source::Events, &listing::EVENTS, about_nodes),
    );
    let missing = &mut snapshot.missing;
    snapshot.pods = or_missing(pods, Source::Pods, missing)?.unwrap_or_default();
    snapshot.nodes = or_missing(nodes, Source::Nodes, missing)?.unwrap_or_default();
    snapshot.leases = or_missing(leases, Source::Leases, missing)?.unwrap_or_default();
    snapshot.budgets = or_missing(budgets, Source::Budgets, missing)?.unwrap_or_default();
    snapshot.workloads = or_missing(workloads, Source::Workloads, missing)?.unwrap_or_default();
    snapshot.volumes = or_missing(volumes, Source::Volumes, missing)?;
    snapshot.volume_attachments = or_missing(attachments, Source::VolumeAttachments, missing)?;
    snapshot.csi_nodes = or_missing(csi_nodes, Source::CsiNodes, missing)?;
    snapshot.signing_requests = or_missing(requests, Source::SigningRequests, missing)?;
    snapshot.cluster_roles = or_missing(roles, Source::ClusterRoles, missing)?;
    snapshot.cluster_role_bindings = or_missing(bindings, Source::ClusterRoleBindings, missing)?;
    snapshot.events = or_missing(events, Source::Events, missing)?;
    if sources.contains(&Source::KubeletConfigs) {
        configurations(cluster, configz, &mut snapshot, &note).await;
    }
    node_permissions(cluster, sources, &mut snapshot).await?;
    Ok(snapshot)
}

async fn node_permissions(
    cluster: &Cluster,
    sources: &BTreeSet<Source>,
    snapshot: &mut Snapshot,
) -> Result<(), ApiError> {
    if sources.contains(&Source::NodeAuthorizer) {
        let asked = access::node_authorizer(cluster).await.map(Some);
        snapshot.node_authorizer =
            or_missing(asked, Source::NodeAuthorizer, &mut snapshot.missing)?;
    }
    if sources.contains(&Source::NodeRestriction) {
        match access::node_restriction(cluster).await? {
            Ok(restriction) => snapshot.node_restriction = Some(restriction),
            Err(reason) => {
                let reason = Str::from(reason);
                snapshot.missing.insert(Source::NodeRestriction, reason);
            }
        }
    }
    Ok(())
}

/// Asks every kubelet for its configuration. A node that does not answer (the silent ones are what
/// an audit is for) does not hold up the others.
async fn configurations(
    cluster: &Cluster,
    configz: Configz,
    snapshot: &mut Snapshot,
    note: &impl Fn(SourceProgress),
) {
    let kubelets = match configz {
        Configz::Proxy => None,
        Configz::Direct => match Kubelets::of(cluster) {
            Ok(kubelets) => Some(kubelets),
            Err(reason) => {
                let reason = Str::from(reason);
                snapshot.missing.insert(Source::KubeletConfigs, reason);
                return;
            }
        },
    };
    let nodes = snapshot.nodes.iter();
    let nodes: Vec<_> = nodes
        .map(|node| (node.metadata.name.clone(), kubelet::url(node)))
        .collect();
    let total = nodes.len();
    let mut answers = futures::stream::iter(nodes)
        .map(|(name, url)| async {
            let read = async {
                match &kubelets {
                    None => proxied(cluster, &name).await,
                    Some(kubelets) => kubelets.configuration(&url?).await,
                }
            };
            let late = || format!("no answer within {} s", CONFIGZ_TIMEOUT.as_secs());
            let read = tokio::time::timeout(CONFIGZ_TIMEOUT, read).await;
            (name, read.unwrap_or_else(|_elapsed| Err(late())))
        })
        .buffer_unordered(CONFIGZ_AT_ONCE);
    let mut failures = Vec::new();
    while let Some((name, result)) = answers.next().await {
        match result {
            Ok(configuration) => {
                snapshot.kubelet_configs.insert(name, configuration);
            }
            Err(reason) => failures.push(format!("{name}: {reason}")),
        }
        note(SourceProgress {
            source: Source::KubeletConfigs,
            added: 1,
            consistent: true,
        });
    }
    // In whatever order they came, the same one is named.
    if let Some(first) = failures.iter().min() {
        let reason = format!(
            "{} of {total} nodes did not give theirs; {first}",
            failures.len()
        );
        snapshot
            .missing
            .insert(Source::KubeletConfigs, Str::from(reason));
    }
}

/// The configuration of a node's kubelet, through the API server.
async fn proxied(cluster: &Cluster, node: &str) -> Result<KubeletConfiguration, String> {
    let call = Call::get(NODES.all().named(node).at("proxy/configz"));
    let answer = cluster.call(&call).await;
    let document = answer
        .and_then(|answer| answer.json(&call))
        .map_err(|error| error.to_string())?;
    KubeletConfiguration::from_configz(document).map_err(|error| error.to_string())
}

/// Takes what was read; notes why something was not.
fn or_missing<T>(
    result: Result<Option<T>, ApiError>,
    source: Source,
    missing: &mut BTreeMap<Source, Str>,
) -> Result<Option<T>, ApiError> {
    match result {
        Ok(items) => Ok(items),
        Err(
            error @ (ApiError::Forbidden(_)
            | ApiError::NotFound(_)
            | ApiError::Refused(_)
            | ApiError::TooLarge { .. }
            | ApiError::Malformed { .. }),
        ) => {
            missing.insert(source, Str::from(error.to_string()));
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

struct Lists<'a, N> {
    cluster: &'a Cluster,
    sources: &'a BTreeSet<Source>,
    note: &'a N,
}

/// What a list came to; none if it not requested.
type Outcome<T> = Result<Option<Vec<T>>, ApiError>;

impl<N: Fn(SourceProgress) + Sync> Lists<'_, N> {
    async fn one<T: Object>(&self, source: Source, listing: &'static Listing<T>) -> Outcome<T> {
        self.select(source, listing, ListFilter::default()).await
    }

    async fn select<T: Object>(
        &self,
        source: Source,
        listing: &'static Listing<T>,
        filter: ListFilter,
    ) -> Outcome<T> {
        if !self.sources.contains(&source) {
            return Ok(None);
        }
        let listed = AtomicUsize::new(0);
        let list = self.cluster.list(listing, &filter, |progress| {
            let before = listed.swap(progress.listed, Relaxed);
            (self.note)(SourceProgress {
                source,
                added: progress.listed.saturating_sub(before),
                consistent: progress.consistent,
            });
        });
        // Boxed: thirteen of these side by side are too much for a stack.
        let listed = Box::pin(list).await?;
        Ok(Some(listed.items))
    }

    /// All kinds or none: an owner that is not in a list is taken for gone.
    async fn workloads(&self) -> Outcome<Workload> {
        let lists = listing::WORKLOADS
            .iter()
            .map(|listing| self.one(Source::Workloads, listing));
        let lists = futures::future::try_join_all(lists).await?;
        let lists = lists.into_iter().collect::<Option<Vec<_>>>();
        // Not `concat`, which copies every object.
        Ok(lists.map(|lists| lists.into_iter().flatten().collect()))
    }
}
