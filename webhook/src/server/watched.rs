//! [`Watched`]: budgets, autoscalers and workloads of the cluster as watches show them, for scales: lists
//! take longer than the rest of one.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nodelife_admission::{Listed, LookupResult, MOST_LISTED};
use nodelife_cluster::list::ListFilter;
use nodelife_cluster::listing::{AUTOSCALERS, BUDGETS, DECLARED, Declared, Listing, Object};
use nodelife_cluster::watch::Update;
use nodelife_cluster::{Cluster, Known};
use nodelife_core::object::{Autoscaler, Budget};
use tokio::task::JoinSet;

/// After a failure, until a watch begins anew.
const PAUSE: Duration = Duration::from_mins(1);

type Shown<T> = Arc<Mutex<Known<T>>>;

#[derive(Default)]
pub(super) struct Watched {
    budgets: Shown<Budget>,
    autoscalers: Shown<Autoscaler>,
    workloads: [Shown<Declared>; 3],
    tasks: JoinSet<()>,
}

impl Watched {
    pub(super) fn of(cluster: &Cluster) -> Self {
        let mut this = Self::default();
        let tasks = &mut this.tasks;
        tasks.spawn(keep(cluster.clone(), &BUDGETS, Arc::clone(&this.budgets)));
        let autoscalers = Arc::clone(&this.autoscalers);
        tasks.spawn(keep(cluster.clone(), &AUTOSCALERS, autoscalers));
        for (listing, shown) in DECLARED.iter().zip(&this.workloads) {
            tasks.spawn(keep(cluster.clone(), listing, Arc::clone(shown)));
        }
        this
    }

    /// The objects of the namespace; none while they are not known.
    pub(super) fn list(&self, listed: Listed, namespace: &str) -> Option<LookupResult> {
        Some(match listed {
            Listed::Budgets => LookupResult::Budgets(all(&self.budgets, namespace)?),
            Listed::Autoscalers => LookupResult::Autoscalers(all(&self.autoscalers, namespace)?),
            Listed::Workloads(kind) => {
                let mut shown = DECLARED.iter().zip(&self.workloads);
                let (_, shown) = shown.find(|(listing, _)| listing.kind == kind.as_str())?;
                let all = all(shown, namespace)?.into_iter().map(|one| one.0);
                LookupResult::Workloads(all.collect())
            }
        })
    }
}

fn all<T: Object>(shown: &Shown<T>, namespace: &str) -> Option<Vec<T>> {
    let known = lock(shown);
    let is_here = |one: &&T| *one.metadata().namespace == *namespace;
    let all = known.is_listed().then(|| known.all().filter(is_here));
    let all: Vec<T> = all?.take(MOST_LISTED + 1).cloned().collect();
    // The list itself says that they are too many.
    (all.len() <= MOST_LISTED).then_some(all)
}

/// Follows the watch. What it has shown is forgotten when it fails, or does not read an object.
async fn keep<T: Object>(cluster: Cluster, listing: &'static Listing<T>, shown: Shown<T>) {
    loop {
        let mut watch = cluster.watch(listing, ListFilter::default());
        let reason = loop {
            match watch.next().await {
                Some(Update::Failed { error, .. }) => break error.to_string(),
                Some(Update::Unreadable(outline)) => break outline.to_string(),
                Some(update) => lock(&shown).take_in(update),
                None => return,
            }
        };
        *lock(&shown) = Known::default();
        tracing::warn!(
            kind = listing.kind,
            reason,
            "a watch failed: scales need lookups"
        );
        tokio::time::sleep(PAUSE).await;
    }
}

fn lock<T>(shown: &Shown<T>) -> MutexGuard<'_, Known<T>> {
    shown.lock().unwrap_or_else(PoisonError::into_inner)
}
