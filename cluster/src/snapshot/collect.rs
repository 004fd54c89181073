//! Collects a snapshot from a live cluster, all lists at the same time.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures::future::BoxFuture;
use futures::{FutureExt as _, StreamExt as _};
use nodelife_core::allocatable::KubeletConfiguration;
use nodelife_core::object::Node;
use nodelife_core::snapshot::{Snapshot, Source};
use nodelife_core::text::Str;

use super::access;
use super::complete::note_undecodable;
use super::gathered::append;
use super::kinds::{Kind, Visitor, each_kind};
use crate::client::Cluster;
use crate::error::{ApiError, ApiResult};
use crate::kubelet::{self, Configz, Kubelets};
use crate::list::Progress;
use crate::listing::Object;
use crate::request::Call;
use crate::resource::NODES;

const CONFIGZ_AT_ONCE: usize = 10;

const CONFIGZ_TIMEOUT: Duration = Duration::from_secs(5);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SourceProgress {
    pub source: Source,
    /// How many objects it had. Several lists may belong to one source.
    pub added: usize,
    pub consistent: bool,
}

/// Reads these sources, the configurations of kubelets by `configz`. One that cannot be read, because a right is missing or the
/// server does not know the resource, is named in [`Snapshot::missing`], and the rest
/// is read all the same; so is one that not requested.
/// Fails when the server itself is lost: then no snapshot would be true.
pub async fn collect(
    cluster: &Cluster,
    sources: &BTreeSet<Source>,
    configz: Configz,
    note: impl Fn(SourceProgress) + Send + Sync,
) -> ApiResult<Snapshot> {
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
    let mut lists = Lists {
        cluster,
        sources,
        note: &note,
        reads: Vec::new(),
    };
    each_kind(&mut lists);
    for (source, read) in futures::future::join_all(lists.reads).await {
        if let Some(fill) = or_missing(read, source, &mut snapshot.missing)? {
            fill(&mut snapshot);
        }
    }
    // All kinds or none: an owner that is not in a list is taken for gone.
    if snapshot.missing.contains_key(&Source::Workloads) {
        snapshot.workloads.clear();
    }
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
) -> ApiResult<()> {
    if sources.contains(&Source::NodeAuthorizer) {
        let asked = access::node_authorizer(cluster).await;
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
        Configz::Direct => match Kubelets::of(cluster).await {
            Ok(kubelets) => Some(kubelets),
            Err(reason) => {
                let reason = Str::from(reason);
                snapshot.missing.insert(Source::KubeletConfigs, reason);
                return;
            }
        },
    };
    let total = snapshot.nodes.len();
    let ask = |node: &Node| {
        let (name, address) = (node.metadata.name.clone(), kubelet::address(node));
        let kubelets = &kubelets;
        async move {
            let read = async {
                match kubelets {
                    None => proxied(cluster, &name).await,
                    Some(kubelets) => kubelets.configuration(&name, address?).await,
                }
            };
            let late = || format!("no answer within {} s", CONFIGZ_TIMEOUT.as_secs());
            let read = tokio::time::timeout(CONFIGZ_TIMEOUT, read).await;
            let read = read.unwrap_or_else(|_elapsed| Err(late()));
            (name, read)
        }
    };
    let asked: Vec<_> = snapshot.nodes.iter().map(ask).collect();
    let mut answers = futures::stream::iter(asked).buffer_unordered(CONFIGZ_AT_ONCE);
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

async fn proxied(cluster: &Cluster, node: &str) -> Result<KubeletConfiguration, String> {
    let call = Call::get(NODES.all().named(node).at("proxy/configz"));
    let answer = cluster.call(&call).await;
    let document = answer
        .and_then(|answer| answer.json(&call))
        .map_err(|error| error.to_string())?;
    KubeletConfiguration::from_configz(document).map_err(|error| error.to_string())
}

fn or_missing<T>(
    result: ApiResult<T>,
    source: Source,
    missing: &mut BTreeMap<Source, Str>,
) -> ApiResult<Option<T>> {
    match result {
        Ok(items) => Ok(Some(items)),
        Err(
            error @ (ApiError::Forbidden(_)
            | ApiError::NotFound(_)
            | ApiError::Refused(_)
            | ApiError::TooLarge { .. }
            | ApiError::Malformed { .. }),
        ) => {
            let reason = || Str::from(error.to_string());
            missing.entry(source).or_insert_with(reason);
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

type Fill = Box<dyn FnOnce(&mut Snapshot) + Send>;

struct Lists<'a, N> {
    cluster: &'a Cluster,
    sources: &'a BTreeSet<Source>,
    note: &'a N,
    reads: Vec<BoxFuture<'a, (Source, ApiResult<Fill>)>>,
}

impl<N: Fn(SourceProgress) + Send + Sync> Visitor for Lists<'_, N> {
    fn visit<T: Object>(&mut self, kind: &'static Kind<T>) {
        let source = kind.source;
        if !self.sources.contains(&source) {
            return;
        }
        let (cluster, note) = (self.cluster, self.note);
        let read = async move {
            let mut before = 0;
            let progress = |progress: Progress| {
                note(SourceProgress {
                    source,
                    added: progress.listed.saturating_sub(before),
                    consistent: progress.consistent,
                });
                before = progress.listed;
            };
            let listed = cluster.list(kind.listing, &kind.filter(), progress).await;
            let fill = listed.map(|mut listed| -> Fill {
                let mut is_partial = !listed.unreadable.is_empty();
                if source == Source::Workloads {
                    // An owner that is not in a list is taken for gone.
                    is_partial = false;
                    let unreadable = listed.unreadable.into_iter();
                    let there =
                        unreadable.map(|one| T::of_metadata(one.metadata, kind.listing.kind));
                    listed.items.extend(there);
                }
                Box::new(move |snapshot| {
                    append((kind.list)(snapshot), listed.items);
                    if is_partial {
                        note_undecodable(snapshot, source);
                    }
                })
            });
            (source, fill)
        };
        self.reads.push(read.boxed());
    }
}
