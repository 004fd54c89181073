//! The watches of a drain, as one stream.

use std::time::Duration;

use futures::StreamExt as _;
use futures::future::ready;
use futures::stream::{self, BoxStream, SelectAll};
use nodelife_cluster::list::ListFilter;
use nodelife_cluster::listing::Listing;
use nodelife_cluster::watch::{Update, Watch};
use nodelife_cluster::{ApiError, Cluster, listing};
use nodelife_core::drain::DrainEvent;
use nodelife_core::object::{Node, Workload, WorkloadKind};
use nodelife_core::text::Str;

pub(crate) enum WatchEvent {
    /// Something for the machine.
    Event(DrainEvent),
    /// The right to see budgets is missing; the watch goes on trying.
    BudgetsForbidden(ApiError),
    /// The right to watch nodes is missing; the watch goes on trying.
    NodesForbidden(ApiError),
    /// A watch has trouble and tries again by itself.
    Failed {
        /// What is not seen meanwhile.
        what: String,
        /// Whether the drain cannot do without.
        essential: bool,
        error: ApiError,
        /// Until it tries again: longer with each failure in a row.
        wait: Duration,
    },
}

/// A watch on the pods of each node, one on all budgets, and others where they matter.
pub(crate) struct Watches(SelectAll<BoxStream<'static, WatchEvent>>);

impl Watches {
    pub(crate) fn open(cluster: &Cluster, nodes: &[Str]) -> Self {
        Self::open_in(cluster, nodes, None)
    }

    /// `names`: of pods in the namespace, or else of nodes.
    pub(crate) fn open_in(cluster: &Cluster, names: &[Str], namespace: Option<&str>) -> Self {
        let mut streams = SelectAll::new();
        for node in names {
            let node = node.clone();
            let what = match namespace {
                Some(_) => format!("pod {node}"),
                None => format!("the pods of node {node}"),
            };
            streams.push(events(
                cluster.watch(&listing::PODS, pod_filter(&node, namespace)),
                (what, true),
                move |pods| DrainEvent::Listed {
                    node: node.clone(),
                    pods,
                },
                DrainEvent::Pod,
                |pod| {
                    let uid = pod.metadata.uid;
                    Some(DrainEvent::PodGone { uid })
                },
            ));
        }
        let budgets = events(
            cluster.watch(&listing::BUDGETS, in_namespace(namespace)),
            ("PodDisruptionBudgets".to_owned(), true),
            DrainEvent::Budgets,
            DrainEvent::Budget,
            |budget| Some(DrainEvent::BudgetGone(budget.key())),
        );
        let budgets = budgets.map(|event| match event {
            WatchEvent::Failed {
                error: error @ ApiError::Forbidden(_),
                ..
            } => WatchEvent::BudgetsForbidden(error),
            event => event,
        });
        streams.push(budgets.boxed());
        Self(streams)
    }

    /// Watches the nodes themselves as well.
    pub(crate) fn follow_nodes(&mut self, cluster: &Cluster, nodes: &[Node]) {
        for node in nodes {
            let node = node.metadata.name.clone();
            let name = node.clone();
            let seen = events(
                cluster.watch(&listing::NODES, ListFilter::named(&node)),
                (format!("node {node}"), false),
                move |mut nodes| DrainEvent::NodeSeen {
                    node: name.clone(),
                    found: nodes.pop().map(Box::new),
                },
                |node| DrainEvent::NodeSeen {
                    node: node.metadata.name.clone(),
                    found: Some(node),
                },
                |node| {
                    Some(DrainEvent::NodeSeen {
                        node: node.metadata.name,
                        found: None,
                    })
                },
            );
            let seen = seen.map(|event| match event {
                WatchEvent::Failed {
                    error: error @ ApiError::Forbidden(_),
                    ..
                } => WatchEvent::NodesForbidden(error),
                event => event,
            });
            self.0.push(seen.boxed());
        }
    }

    /// Watches the controllers of a kind as well.
    pub(crate) fn follow(
        &mut self,
        cluster: &Cluster,
        kind: WorkloadKind,
        listing: &'static Listing<Workload>,
        filter: ListFilter,
    ) {
        self.0.push(events(
            cluster.watch(listing, filter),
            (format!("{kind}s"), false),
            move |workloads| DrainEvent::Workloads { kind, workloads },
            DrainEvent::Workload,
            |workload| {
                let uid = workload.metadata.uid;
                Some(DrainEvent::WorkloadGone { uid })
            },
        ));
    }

    /// Watches what is attached to the nodes as well.
    pub(crate) fn follow_attachments(&mut self, cluster: &Cluster) {
        self.0.push(events(
            cluster.watch(&listing::VOLUME_ATTACHMENTS, ListFilter::default()),
            ("VolumeAttachments".to_owned(), true),
            DrainEvent::Attachments,
            DrainEvent::Attachment,
            |attachment| {
                let name = attachment.metadata.name;
                Some(DrainEvent::AttachmentGone { name })
            },
        ));
    }

    /// What is seen next; none only while the program ends.
    pub(crate) async fn next(&mut self) -> Option<WatchEvent> {
        self.0.next().await
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

fn in_namespace(namespace: Option<&str>) -> ListFilter {
    ListFilter {
        namespace: namespace.map(str::to_owned),
        ..ListFilter::default()
    }
}

/// The events of a watch; `what`: what is not seen while it fails, and whether that is essential.
fn events<T: Send + 'static>(
    watch: Watch<T>,
    (what, essential): (String, bool),
    listed: impl Fn(Vec<T>) -> DrainEvent + Send + 'static,
    applied: fn(Box<T>) -> DrainEvent,
    deleted: fn(T) -> Option<DrainEvent>,
) -> BoxStream<'static, WatchEvent> {
    let updates = stream::unfold(watch, |mut watch| async move {
        watch.next().await.map(|update| (update, watch))
    });
    let event = move |update| match update {
        Update::Listed(objects) => Some(WatchEvent::Event(listed(objects))),
        Update::Applied(object) => Some(WatchEvent::Event(applied(Box::new(object)))),
        Update::Deleted(object) => deleted(object).map(WatchEvent::Event),
        Update::Failed { error, wait } => Some(WatchEvent::Failed {
            what: what.clone(),
            essential,
            error,
            wait,
        }),
    };
    updates
        .filter_map(move |update| ready(event(update)))
        .boxed()
}
