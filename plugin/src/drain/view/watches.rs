//! The watches of a drain, as one stream.

use futures::StreamExt as _;
use futures::future::ready;
use futures::stream::{self, BoxStream, SelectAll};
use nodelife_cluster::list::Selection;
use nodelife_cluster::listing::Listing;
use nodelife_cluster::watch::{Update, Watch};
use nodelife_cluster::{ApiError, Cluster, listing};
use nodelife_core::drain::DrainEvent;
use nodelife_core::object::{Budget, Pod, VolumeAttachment, Workload, WorkloadKind};
use nodelife_core::text::Str;

/// What a watch showed.
pub(crate) enum Sight {
    /// Something for the machine.
    Event(DrainEvent),
    /// The right to see budgets is missing; the watch goes on trying.
    BudgetsUnseen(ApiError),
    /// A watch has trouble and tries again by itself.
    Trouble {
        /// What is not seen meanwhile.
        what: String,
        /// Whether the drain cannot do without.
        essential: bool,
        /// Why.
        error: ApiError,
    },
}

/// One watch on the pods of each node, and one on all budgets.
pub(crate) struct Watches(SelectAll<BoxStream<'static, Sight>>);

impl Watches {
    /// Begins to watch.
    pub(crate) fn open(cluster: &Cluster, nodes: &[Str]) -> Self {
        let mut sights = SelectAll::new();
        for node in nodes {
            let watch = cluster.watch(&listing::PODS, Selection::on_node(node));
            let node = node.clone();
            sights.push(
                updates(watch)
                    .map(move |update| of_pods(&node, update))
                    .boxed(),
            );
        }
        let budgets = cluster.watch(&listing::BUDGETS, Selection::default());
        sights.push(updates(budgets).map(of_budgets).boxed());
        Self(sights)
    }

    /// Watches the controllers of a kind as well.
    pub(crate) fn follow(
        &mut self,
        cluster: &Cluster,
        kind: WorkloadKind,
        listing: &'static Listing<Workload>,
        selection: Selection,
    ) {
        let watch = cluster.watch(listing, selection);
        self.0.push(
            updates(watch)
                .filter_map(move |update| ready(of_workloads(kind, update)))
                .boxed(),
        );
    }

    /// Watches what is attached to the nodes as well.
    pub(crate) fn follow_attachments(&mut self, cluster: &Cluster) {
        let watch = cluster.watch(&listing::VOLUME_ATTACHMENTS, Selection::default());
        self.0.push(updates(watch).map(of_attachments).boxed());
    }

    /// What is seen next; none only while the program ends.
    pub(crate) async fn next(&mut self) -> Option<Sight> {
        self.0.next().await
    }
}

fn updates<T: Send + 'static>(watch: Watch<T>) -> impl futures::Stream<Item = Update<T>> + Send {
    stream::unfold(watch, |mut watch| async move {
        watch.next().await.map(|update| (update, watch))
    })
}

fn of_pods(node: &Str, update: Update<Pod>) -> Sight {
    match update {
        Update::Listed(pods) => Sight::Event(DrainEvent::Listed {
            node: node.clone(),
            pods,
        }),
        Update::Applied(pod) => Sight::Event(DrainEvent::Pod(Box::new(pod))),
        Update::Deleted(pod) => Sight::Event(DrainEvent::PodGone {
            uid: pod.metadata.uid,
        }),
        Update::Trouble { error, .. } => Sight::Trouble {
            what: format!("the pods of node {node}"),
            essential: true,
            error,
        },
    }
}

fn of_workloads(kind: WorkloadKind, update: Update<Workload>) -> Option<Sight> {
    Some(match update {
        Update::Listed(workloads) => Sight::Event(DrainEvent::Workloads { kind, workloads }),
        Update::Applied(workload) => Sight::Event(DrainEvent::Workload(Box::new(workload))),
        // Whether a controller is gone is looked up where it matters.
        Update::Deleted(_) => return None,
        Update::Trouble { error, .. } => Sight::Trouble {
            what: format!("the {kind}s"),
            essential: false,
            error,
        },
    })
}

fn of_attachments(update: Update<VolumeAttachment>) -> Sight {
    match update {
        Update::Listed(attachments) => Sight::Event(DrainEvent::Attachments(attachments)),
        Update::Applied(attachment) => Sight::Event(DrainEvent::Attachment(Box::new(attachment))),
        Update::Deleted(attachment) => Sight::Event(DrainEvent::AttachmentGone {
            name: attachment.metadata.name,
        }),
        Update::Trouble { error, .. } => Sight::Trouble {
            what: "the volume attachments".to_owned(),
            essential: true,
            error,
        },
    }
}

fn of_budgets(update: Update<Budget>) -> Sight {
    match update {
        Update::Listed(budgets) => Sight::Event(DrainEvent::Budgets(budgets)),
        Update::Applied(budget) => Sight::Event(DrainEvent::Budget(Box::new(budget))),
        Update::Deleted(budget) => Sight::Event(DrainEvent::BudgetGone(budget.key())),
        Update::Trouble {
            error: error @ ApiError::Forbidden(_),
            ..
        } => Sight::BudgetsUnseen(error),
        Update::Trouble { error, .. } => Sight::Trouble {
            what: "the disruption budgets".to_owned(),
            essential: true,
            error,
        },
    }
}
