//! The watches of a drain, as one stream.

use std::collections::{BTreeMap, BTreeSet};
use std::slice;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use futures::stream::{self, BoxStream, SelectAll};
use nodelife_cluster::list::ListFilter;
use nodelife_cluster::listing::Listing;
use nodelife_cluster::watch::Update;
use nodelife_cluster::{ApiError, Cluster, listing};
use nodelife_core::object::{Node, Pod, Workload, WorkloadKind};
use nodelife_core::text::Str;
use nodelife_drain_plan::DrainEvent;

use crate::shared_state::SharedState;

pub(crate) enum WatchEvent {
    Event(DrainEvent),
    /// The right to see budgets is missing; the watch goes on trying.
    BudgetsForbidden(ApiError),
    /// The right to watch nodes is missing; the watch goes on trying.
    NodesForbidden(ApiError),
    Failed {
        what: String,
        /// Whether the drain cannot do without.
        essential: bool,
        error: ApiError,
        /// Until it tries again: longer with each failure in a row.
        wait: Duration,
    },
}

/// More nodes are not asked for one by one: each change of a node goes to every watch of nodes.
const MAX_NAMED: usize = 10;

/// How many times as many nodes as are drained the cluster may have, for all its pods to be watched.
const MAX_OTHERS: usize = 4;

/// Watches on the pods of the nodes, one on all budgets, and others where they matter.
pub(crate) struct Watches {
    cluster: Cluster,
    streams: SelectAll<BoxStream<'static, WatchEvent>>,
    /// Follows what other drains follow, too.
    process: Arc<SharedState>,
}

impl Watches {
    /// `all`: how many nodes the cluster has, if that is known.
    pub(crate) fn open(
        cluster: &Cluster,
        process: &Arc<SharedState>,
        nodes: &[Str],
        all: Option<usize>,
    ) -> Self {
        let mut watches = Self::new(cluster, process);
        let most = nodes.len().saturating_mul(MAX_OTHERS);
        if nodes.len() > MAX_NAMED && all.is_some_and(|all| all <= most) {
            let what = format!("the pods of {} nodes", nodes.len());
            watches.follow_pods(nodes, (ListFilter::default(), what));
        } else {
            for node in nodes {
                let what = format!("the pods of node {node}");
                let of_node = (ListFilter::on_node(node), what);
                watches.follow_pods(slice::from_ref(node), of_node);
            }
        }
        watches.follow_budgets(None);
        watches
    }

    fn new(cluster: &Cluster, process: &Arc<SharedState>) -> Self {
        Self {
            cluster: cluster.clone(),
            streams: SelectAll::new(),
            process: Arc::clone(process),
        }
    }

    /// Whether nothing is gained by knowing first how many nodes there are.
    pub(crate) fn can_open_at_once(nodes: &[Str]) -> bool {
        nodes.len() <= MAX_NAMED
    }

    pub(crate) fn of_pods(
        cluster: &Cluster,
        process: &Arc<SharedState>,
        pods: &[Str],
        namespace: &str,
    ) -> Self {
        let mut watches = Self::new(cluster, process);
        for pod in pods {
            let name = pod.clone();
            watches.streams.push(events(
                cluster
                    .watch(&listing::PODS, pod_filter(pod, Some(namespace)))
                    .into_stream(),
                (format!("pod {pod}"), true, |_| true),
                move |pods| {
                    let node = name.clone();
                    vec![DrainEvent::Listed { node, pods }]
                },
                |pod| Some(DrainEvent::Pod(pod)),
                |pod| Some(DrainEvent::PodGone(pod.metadata.uid)),
            ));
        }
        watches.follow_budgets(Some(namespace));
        watches
    }

    /// Watches those of the selected pods that are on these nodes.
    fn follow_pods(&mut self, nodes: &[Str], (filter, what): (ListFilter, String)) {
        let nodes: Arc<BTreeSet<Str>> = Arc::new(nodes.iter().cloned().collect());
        let of = Arc::clone(&nodes);
        let is_on_them = move |pod: &Pod| of.contains(&pod.spec.node_name);
        let is_gone_from_them = is_on_them.clone();
        let of = Arc::clone(&nodes);
        self.streams.push(events(
            self.cluster.watch(&listing::PODS, filter).into_stream(),
            (what, true, move |node: &Str| {
                node.is_empty() || of.contains(node)
            }),
            move |pods| {
                let by_node = nodes.iter().map(|node| (node.clone(), Vec::new()));
                let mut by_node: BTreeMap<Str, Vec<Pod>> = by_node.collect();
                for pod in pods {
                    if let Some(pods) = by_node.get_mut(&pod.spec.node_name) {
                        pods.push(pod);
                    }
                }
                let listed = by_node.into_iter();
                listed
                    .map(|(node, pods)| DrainEvent::Listed { node, pods })
                    .collect()
            },
            move |pod| is_on_them(&pod).then_some(DrainEvent::Pod(pod)),
            move |pod| {
                let is_theirs = pod.spec.node_name.is_empty() || is_gone_from_them(&pod);
                is_theirs.then_some(DrainEvent::PodGone(pod.metadata.uid))
            },
        ));
    }

    fn follow_budgets(&mut self, namespace: Option<&str>) {
        let shared = &self.process.watches;
        let filter = namespace.map_or_else(ListFilter::default, ListFilter::in_namespace);
        let budgets = events(
            shared.follow(&self.cluster, &listing::BUDGETS, filter),
            ("PodDisruptionBudgets".to_owned(), true, |_| false),
            |budgets| vec![DrainEvent::Budgets(budgets)],
            |budget| Some(DrainEvent::Budget(budget)),
            |budget| Some(DrainEvent::BudgetGone(budget.key())),
        );
        self.streams
            .push(if_forbidden(budgets, WatchEvent::BudgetsForbidden));
    }

    pub(crate) fn follow_nodes(&mut self, nodes: &[Node]) {
        let names: Vec<Str> = nodes.iter().map(|n| n.metadata.name.clone()).collect();
        if names.len() > MAX_NAMED {
            let what = format!("{} nodes", names.len());
            return self.follow_named(&names, (ListFilter::default(), what));
        }
        for name in &names {
            let of_node = (ListFilter::named(name), format!("node {name}"));
            self.follow_named(slice::from_ref(name), of_node);
        }
    }

    fn follow_named(&mut self, names: &[Str], (filter, what): (ListFilter, String)) {
        let names: Arc<BTreeSet<Str>> = Arc::new(names.iter().cloned().collect());
        let (applied, deleted) = (Arc::clone(&names), Arc::clone(&names));
        let seen = events(
            self.cluster.watch(&listing::NODES, filter).into_stream(),
            (what, false, |_| false),
            move |nodes| {
                let by_name = nodes
                    .into_iter()
                    .map(|node| (node.metadata.name.clone(), node));
                let mut found: BTreeMap<Str, Node> = by_name.collect();
                let each = names.iter().map(|name| DrainEvent::NodeSeen {
                    node: name.clone(),
                    found: found.remove(name).map(Box::new),
                });
                each.collect()
            },
            move |node| {
                let name = node.metadata.name.clone();
                applied.contains(&name).then_some(DrainEvent::NodeSeen {
                    node: name,
                    found: Some(node),
                })
            },
            move |node| {
                let name = node.metadata.name;
                deleted.contains(&name).then_some(DrainEvent::NodeSeen {
                    node: name,
                    found: None,
                })
            },
        );
        self.streams
            .push(if_forbidden(seen, WatchEvent::NodesForbidden));
    }

    pub(crate) fn follow(
        &mut self,
        kind: WorkloadKind,
        listing: &'static Listing<Workload>,
        filter: ListFilter,
    ) {
        let workloads = self.process.watches.follow(&self.cluster, listing, filter);
        self.streams.push(events(
            workloads,
            (format!("{kind}s"), false, |_| false),
            move |workloads| vec![DrainEvent::Workloads { kind, workloads }],
            |workload| Some(DrainEvent::Workload(workload)),
            |workload| Some(DrainEvent::WorkloadGone(workload.metadata.uid)),
        ));
    }

    pub(crate) fn follow_attachments(&mut self) {
        let all = ListFilter::default();
        let shared = &self.process.watches;
        let attachments = shared.follow(&self.cluster, &listing::VOLUME_ATTACHMENTS, all);
        self.streams.push(events(
            attachments,
            ("VolumeAttachments".to_owned(), true, |_| false),
            |attachments| vec![DrainEvent::Attachments(attachments)],
            |attachment| Some(DrainEvent::Attachment(attachment)),
            |attachment| Some(DrainEvent::AttachmentGone(attachment.metadata.name)),
        ));
    }

    /// The next event; none only while the program ends.
    pub(crate) async fn next(&mut self) -> Option<WatchEvent> {
        self.streams.next().await
    }
}

/// The pod of this name in the namespace, or else the pods of the node.
pub(crate) fn pod_filter(name: &str, namespace: Option<&str>) -> ListFilter {
    match namespace {
        Some(_) => ListFilter {
            namespace: namespace.map(str::to_owned),
            ..ListFilter::named(name)
        },
        None => ListFilter::on_node(name),
    }
}

/// The events of a watch; `what`: what is not seen while it fails, whether that is essential, and on which
/// nodes an object must not be passed by that cannot be read.
fn events<T: Send + 'static>(
    updates: BoxStream<'static, Update<T>>,
    (what, essential, matters): (String, bool, impl Fn(&Str) -> bool + Send + 'static),
    listed: impl Fn(Vec<T>) -> Vec<DrainEvent> + Send + 'static,
    applied: impl Fn(Box<T>) -> Option<DrainEvent> + Send + 'static,
    deleted: impl Fn(T) -> Option<DrainEvent> + Send + 'static,
) -> BoxStream<'static, WatchEvent> {
    let events = move |update| {
        let failed = |error, wait| WatchEvent::Failed {
            what: what.clone(),
            essential,
            error,
            wait,
        };
        let events = match update {
            Update::Listed(objects) => listed(objects),
            Update::Applied(object) => applied(Box::new(object)).into_iter().collect(),
            Update::Deleted(object) => deleted(object).into_iter().collect(),
            Update::Unreadable(outline) if !matters(&outline.spec.node_name) => Vec::new(),
            Update::Unreadable(outline) => {
                let error = ApiError::Malformed {
                    path: what.clone(),
                    reason: outline.to_string(),
                };
                return stream::iter(vec![failed(error, Duration::ZERO)]);
            }
            Update::Failed { error, wait } => return stream::iter(vec![failed(error, wait)]),
        };
        let events: Vec<_> = events.into_iter().map(WatchEvent::Event).collect();
        stream::iter(events)
    };
    updates.flat_map(events).boxed()
}

/// The same, with an event of its own where the right to watch is missing.
fn if_forbidden(
    events: BoxStream<'static, WatchEvent>,
    forbidden: fn(ApiError) -> WatchEvent,
) -> BoxStream<'static, WatchEvent> {
    let events = events.map(move |event| match event {
        WatchEvent::Failed {
            error: error @ ApiError::Forbidden(_),
            ..
        } => forbidden(error),
        event => event,
    });
    events.boxed()
}
