//! The watches of a drain, as one stream.

use futures::StreamExt as _;
use futures::future::ready;
use futures::stream::{self, BoxStream, SelectAll};
use nodelife_cluster::list::ListFilter;
use nodelife_cluster::listing::Listing;
use nodelife_cluster::watch::{Update, Watch};
use nodelife_cluster::{ApiError, Cluster, listing};
use nodelife_core::drain::DrainEvent;
use nodelife_core::object::{Budget, Pod, VolumeAttachment, Workload, WorkloadKind};
use nodelife_core::text::Str;

/// What a watch showed.
pub(crate) enum WatchEvent {
    /// Something for the machine.
    Event(DrainEvent),
    /// The right to see budgets is missing; the watch goes on trying.
    BudgetsForbidden(ApiError),
    /// A watch has trouble and tries again by itself.
    Failed {
        /// What is not seen meanwhile.
        what: String,
        /// Whether the drain cannot do without.
        essential: bool,
        error: ApiError,
    },
}

/// One watch on the pods of each node, and one on all budgets.
pub(crate) struct Watches(SelectAll<BoxStream<'static, WatchEvent>>);

impl Watches {
    pub(crate) fn open(cluster: &Cluster, nodes: &[Str]) -> Self {
        let mut streams = SelectAll::new();
        for node in nodes {
            let watch = cluster.watch(&listing::PODS, ListFilter::on_node(node));
            let node = node.clone();
            streams.push(
                updates(watch)
                    .map(move |update| of_pods(&node, update))
                    .boxed(),
            );
        }
        let budgets = cluster.watch(&listing::BUDGETS, ListFilter::default());
        streams.push(updates(budgets).map(of_budgets).boxed());
        Self(streams)
    }

    /// Watches the controllers of a kind as well.
    pub(crate) fn follow(
        &mut self,
        cluster: &Cluster,
        kind: WorkloadKind,
        listing: &'static Listing<Workload>,
        filter: ListFilter,
    ) {
        let watch = cluster.watch(listing, filter);
        self.0.push(
            updates(watch)
                .filter_map(move |update| ready(of_workloads(kind, update)))
                .boxed(),
        );
    }

    /// Watches what is attached to the nodes as well.
    pub(crate) fn follow_attachments(&mut self, cluster: &Cluster) {
        let watch = cluster.watch(&listing::VOLUME_ATTACHMENTS, ListFilter::default());
        self.0.push(updates(watch).map(of_attachments).boxed());
    }

    /// What is seen next; none only while the program ends.
    pub(crate) async fn next(&mut self) -> Option<WatchEvent> {
        self.0.next().await
    }
}

fn updates<T: Send + 'static>(watch: Watch<T>) -> impl futures::Stream<Item = Update<T>> + Send {
    stream::unfold(watch, |mut watch| async move {
        watch.next().await.map(|update| (update, watch))
    })
}

fn of_pods(node: &Str, update: Update<Pod>) -> WatchEvent {
    match update {
        Update::Listed(pods) => WatchEvent::Event(DrainEvent::Listed {
            node: node.clone(),
            pods,
        }),
        Update::Applied(pod) => WatchEvent::Event(DrainEvent::Pod(Box::new(pod))),
        Update::Deleted(pod) => WatchEvent::Event(DrainEvent::PodGone {
            uid: pod.metadata.uid,
        }),
        Update::Failed { error, .. } => WatchEvent::Failed {
            what: format!("the pods of node {node}"),
            essential: true,
            error,
        },
    }
}

fn of_workloads(kind: WorkloadKind, update: Update<Workload>) -> Option<WatchEvent> {
    Some(match update {
        Update::Listed(workloads) => WatchEvent::Event(DrainEvent::Workloads { kind, workloads }),
        Update::Applied(workload) => WatchEvent::Event(DrainEvent::Workload(Box::new(workload))),
        // Whether a controller is gone is looked up where it matters.
        Update::Deleted(_) => return None,
        Update::Failed { error, .. } => WatchEvent::Failed {
            what: format!("{kind}s"),
            essential: false,
            error,
        },
    })
}

fn of_attachments(update: Update<VolumeAttachment>) -> WatchEvent {
    match update {
        Update::Listed(attachments) => WatchEvent::Event(DrainEvent::Attachments(attachments)),
        Update::Applied(attachment) => {
            WatchEvent::Event(DrainEvent::Attachment(Box::new(attachment)))
        }
        Update::Deleted(attachment) => WatchEvent::Event(DrainEvent::AttachmentGone {
            name: attachment.metadata.name,
        }),
        Update::Failed { error, .. } => WatchEvent::Failed {
            what: "VolumeAttachments".to_owned(),
            essential: true,
            error,
        },
    }
}

fn of_budgets(update: Update<Budget>) -> WatchEvent {
    match update {
        Update::Listed(budgets) => WatchEvent::Event(DrainEvent::Budgets(budgets)),
        Update::Applied(budget) => WatchEvent::Event(DrainEvent::Budget(Box::new(budget))),
        Update::Deleted(budget) => WatchEvent::Event(DrainEvent::BudgetGone(budget.key())),
        Update::Failed {
            error: error @ ApiError::Forbidden(_),
            ..
        } => WatchEvent::BudgetsForbidden(error),
        Update::Failed { error, .. } => WatchEvent::Failed {
            what: "PodDisruptionBudgets".to_owned(),
            essential: true,
            error,
        },
    }
}
