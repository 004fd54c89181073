//! Executor of a drain: runs the state machine against the cluster.

pub(crate) mod blocked;
mod diagnose;
mod effects;
mod finish;
mod operators;
mod pace;
mod requests;
mod result;
mod start;

use std::time::Duration;

use anyhow::Context as _;
use futures::FutureExt as _;
use jiff::Timestamp;
use nodelife_cluster::Cluster;
use nodelife_core::node_marks::CordonOwner;
use nodelife_core::object::Node;
use nodelife_core::text::Str;
use nodelife_drain_plan::{DrainEvent, DrainMachine, Effect};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::drain::{Drain, Refusals};
use crate::events::Events;
use crate::gate::{GateEvent, Gates};
use crate::identity::DrainIdentity;
use crate::node::conditions::Conditions;
use crate::node::cordon::{self, CordonOutcome};
use crate::node::lock::{DrainLock, RELEASE_TIMEOUT};
use crate::node::uncordon::undo;
use crate::node::waiting::forget_waiting;
use crate::reporter::{DrainStatus, Interrupts, Progress, Reporter};
use crate::settings::DrainRequest;
use crate::surge::Surges;
use crate::view::ClusterView;
use crate::view::watches::{WatchEvent, Watches};
use blocked::BlockedBudgets;
use operators::OperatorReader;
use pace::Pace;
pub(crate) use requests::scheduling_messages;

/// How long the last events, and giving the lock back, may take each after `--timeout`.
const FINAL_TIMEOUT: Duration = Duration::from_millis(400);

pub(crate) struct Executor<'a> {
    cluster: Cluster,
    machine: DrainMachine,
    request: DrainRequest,
    surges: Surges,
    refusals: Refusals,
    view: ClusterView,
    reporter: &'a mut dyn Reporter,
    reported: bool,
    identity: DrainIdentity,
    started_at: Timestamp,
    cordon_owner: CordonOwner,
    cordoned: Vec<Str>,
    /// Those that got the taint of a node that waits.
    marked: Vec<Str>,
    events: Events,
    conditions: Conditions,
    /// The requests that are on their way; dropped, and so cancelled, with the drain.
    requests: JoinSet<DrainEvent>,
    cordons: JoinSet<(Str, anyhow::Result<CordonOutcome>)>,
    failed: DrainStatus,
    /// Answers in a row to watches that the credentials are not accepted.
    unauthorized: u32,
    nodes_forbidden: bool,
    cordon_each: bool,
    blocked: BlockedBudgets,
    /// When it is looked next for budgets that let nothing go for long.
    report_at: Timestamp,
    operators: OperatorReader,
    gates: Gates,
    queue: Vec<DrainEvent>,
    pace: Pace,
}

impl<'a> Executor<'a> {
    pub(crate) fn new(
        drain: Drain,
        mut identity: DrainIdentity,
        reporter: &'a mut dyn Reporter,
    ) -> (Self, Watches) {
        let Drain {
            cluster,
            request,
            plan: _,
            machine,
            mut view,
            watches,
            surges,
            refusals,
        } = drain;
        let places: Vec<Str> = match view.namespace {
            Some(_) => view.pods.keys().cloned().collect(),
            None => view.nodes.iter().map(|n| n.metadata.name.clone()).collect(),
        };
        let store = std::mem::take(&mut view.store);
        view.forget_others();
        let now = cluster.clock().now();
        let started_at = *identity.since.get_or_insert(now);
        let executor = Self {
            started_at,
            cordon_owner: identity.cordon_owner(now),
            cordoned: Vec::new(),
            marked: Vec::new(),
            cordon_each: machine.cordon_each,
            machine: DrainMachine::new(machine, places, store),
            reporter,
            reported: false,
            events: Events::new(&cluster, &view.nodes, &identity.instance),
            conditions: Conditions::new(&cluster, &view.nodes, request.settings.node_conditions),
            identity,
            view,
            requests: JoinSet::new(),
            cordons: JoinSet::new(),
            failed: DrainStatus::Done,
            unauthorized: 0,
            nodes_forbidden: false,
            request,
            surges,
            refusals,
            blocked: BlockedBudgets::default(),
            report_at: Timestamp::UNIX_EPOCH,
            operators: OperatorReader::default(),
            gates: Gates::new(),
            queue: Vec::new(),
            pace: Pace::default(),
            cluster,
        };
        (executor, watches)
    }

    pub(crate) async fn run(
        mut self,
        watches: Watches,
        interrupts: &mut dyn Interrupts,
    ) -> anyhow::Result<DrainStatus> {
        let breaks = self.request.break_lock;
        let mut lock = DrainLock::new(&self.cluster, &self.identity, &self.view.nodes, breaks);
        let taken = tokio::select! {
            taken = lock.acquire(self.reporter) => taken,
            () = interrupts.next() => Ok(Some(self.interrupted())),
            () = deadline(self.request.end) => Ok(Some(self.timed_out())),
        };
        let ended = match taken {
            Ok(None) => match self.drive(watches, interrupts, &lock).await {
                // The pods that are left, and the result of the others, are reported all the same.
                Err(error) => self.fail(&error),
                ended => ended,
            },
            Ok(Some(status)) => Ok(status),
            Err(error) => Err(error),
        };
        self.give_report(ended.as_ref().err())?;
        let timeout = self.final_timeout();
        let surges = self.surges.finish(self.reporter);
        if tokio::time::timeout(timeout, surges).await.is_err() {
            tracing::debug!("the answers to restarts were not waited for");
        }
        let to_uncordon = self.to_uncordon();
        if !to_uncordon.is_empty() && !matches!(ended, Ok(DrainStatus::Done)) {
            let owner = Some(&self.cordon_owner);
            tokio::select! {
                _ = undo(&self.cluster, &to_uncordon, owner, false, self.reporter) => {}
                () = interrupts.next() => {}
            }
        }
        tokio::join!(
            async {
                self.conditions.finish(timeout, self.reporter).await;
                self.events.finish(timeout, self.reporter).await;
            },
            async {
                let forgotten = forget_waiting(&self.cluster, &self.marked);
                let forgotten = tokio::time::timeout(timeout, forgotten).await;
                // By the lock of a maintenance the controller sees that something is left.
                if forgotten.is_ok() || self.request.journal.is_none() {
                    lock.release(timeout).await;
                }
            },
        );
        ended
    }

    /// Whether the cordon of a node is this drain's: to come, or made by an earlier process of it.
    fn cordons(&self, node: &Node) -> bool {
        !node.spec.unschedulable || cordon::is_cordon_of(node, &self.cordon_owner)
    }

    fn final_timeout(&self) -> Duration {
        match self.request.end {
            Some(end) if end <= Instant::now() => FINAL_TIMEOUT,
            _ => RELEASE_TIMEOUT,
        }
    }

    fn timed_out(&mut self) -> DrainStatus {
        self.not_started("timed out (--timeout)", DrainStatus::Failed)
    }

    fn interrupted(&mut self) -> DrainStatus {
        self.not_started("interrupted", DrainStatus::Interrupted)
    }

    fn not_started(&mut self, why: &str, status: DrainStatus) -> DrainStatus {
        let nodes: Vec<&str> = self.cordoned.iter().map(Str::as_str).collect();
        let cordoned = if nodes.is_empty() {
            "nothing was changed".to_owned()
        } else {
            format!(
                "nothing was evicted; possibly cordoned: {}",
                nodes.join(" ")
            )
        };
        let text = format!("{why} before the drain began: {cordoned}");
        self.reporter.note(text);
        status
    }

    async fn drive(
        &mut self,
        mut watches: Watches,
        interrupts: &mut dyn Interrupts,
        lock: &DrainLock,
    ) -> anyhow::Result<DrainStatus> {
        let lost = lock.keep_renewed();
        tokio::pin!(lost);
        let end = self.request.end;
        let cordoned = tokio::select! {
            cordoned = self.cordon_nodes() => cordoned,
            why = &mut lost => anyhow::bail!("{why}; nothing was evicted"),
            () = interrupts.next() => return Ok(self.interrupted()),
            () = deadline(end) => return Ok(self.timed_out()),
        };
        cordoned?;
        let shared = self.request.shared.as_ref();
        let mut shared = shared.map(|shared| shared.changes());
        self.start_machine()?;
        while !self.machine.is_finished() {
            let now = self.now();
            let wake = self.queue.is_empty().then(|| self.wake_at(now)).flatten();
            let event = tokio::select! {
                biased;
                () = interrupts.next() => {
                    if self.machine.stopped().is_some() {
                        // The second time: whatever is on its way is left to itself.
                        break;
                    }
                    self.step(DrainEvent::Interrupted)?;
                    self.reporter.interrupted(!self.machine.is_finished());
                    continue;
                }
                // Before what a busy cluster always has: renewals go on only while this is polled.
                why = &mut lost => {
                    // The nodes are another drain's now, and so are their cordons.
                    self.cordoned.clear();
                    anyhow::bail!("{why}; no more pods are evicted")
                }
                () = self.pace.wait(), if !self.queue.is_empty() => {
                    // What the watches show by now.
                    while let Some(shown) = watches.next().now_or_never() {
                        self.take(shown)?;
                    }
                    self.decide()?;
                    continue;
                }
                Some(answer) = self.requests.join_next() => {
                    self.pace.answered();
                    answer?
                }
                Some(done) = self.cordons.join_next() => {
                    let (node, done) = done?;
                    self.cordon_ended(node, done)
                }
                Some((text, pods)) = self.surges.next_failed() => {
                    self.reporter.warn(text);
                    for (uid, why) in pods {
                        self.step(DrainEvent::SurgeFailed { uid, why })?;
                    }
                    continue;
                }
                Some(event) = self.gates.next() => match event {
                    GateEvent::Line(line) => {
                        self.reporter.note(format_args!("gate: {line}"));
                        continue;
                    }
                    GateEvent::Ended { node, result } => self.gate_ended(node, result),
                },
                Some(objects) = self.operators.next() => DrainEvent::Operators(Box::new(objects)),
                Some(pending) = self.blocked.next() => {
                    self.report_unhealthy(pending);
                    continue;
                }
                // Until the next decision, changes wait where they arrive.
                shown = watches.next(), if self.queue.is_empty() => {
                    self.take(shown)?;
                    continue;
                }
                () = changed(&mut shared) => DrainEvent::Tick,
                () = sleep_until(wake, now) => DrainEvent::Tick,
            };
            // A node is said to be done while the list that shows it is fresh.
            let is_urgent = matches!(event, DrainEvent::Confirmed { .. });
            self.queue.push(event);
            if is_urgent {
                self.decide()?;
            }
        }
        self.check_reachable().await;
        self.finish()
    }

    fn take(&mut self, shown: Option<WatchEvent>) -> anyhow::Result<()> {
        match shown.context("failed to watch the cluster")? {
            WatchEvent::Event(event) => {
                self.unauthorized = 0;
                self.queue.push(event);
            }
            WatchEvent::BudgetsForbidden(error) => self.budgets_unreadable(&error)?,
            WatchEvent::NodesForbidden(error) => self.nodes_forbidden(&error),
            WatchEvent::Failed {
                what,
                essential,
                error,
                wait,
            } => self.watch_failed((&what, essential), error, wait)?,
        }
        Ok(())
    }

    fn wake_at(&self, now: Timestamp) -> Option<Timestamp> {
        let (machine, reporter) = (self.machine.wake_at(now), self.reporter.wake_at(now));
        let all = [machine, Some(self.report_at), self.operators.due, reporter];
        all.into_iter().flatten().min()
    }

    /// Has the machine take in an event at once, after those that came before it.
    fn step(&mut self, event: DrainEvent) -> anyhow::Result<()> {
        self.queue.push(event);
        self.decide()
    }

    fn decide(&mut self) -> anyhow::Result<()> {
        let begun = Instant::now();
        let now = self.now();
        let effects = self.effects(now);
        let is_begin = |effect: &Effect| matches!(effect, Effect::Cordon { .. });
        if effects.iter().any(is_begin) {
            self.show(now, |reporter, progress| reporter.begins(&progress));
        }
        for effect in effects {
            self.carry_out(effect, now)?;
        }
        self.report_blocked(now);
        self.operators
            .read_if_due(&self.cluster, &self.machine, now);
        self.show(now, |reporter, progress| reporter.progress(&progress));
        self.pace.decided(begun);
        Ok(())
    }

    fn show(&mut self, now: Timestamp, tell: impl FnOnce(&mut dyn Reporter, Progress<'_>)) {
        let progress = Progress {
            machine: &self.machine,
            nodes: &self.view.nodes,
            has_pods: self.view.pods.is_empty(),
            started_at: self.started_at,
            now,
            unscheduled: &self.blocked.unscheduled,
        };
        tell(self.reporter, progress);
    }

    fn effects(&mut self, now: Timestamp) -> Vec<Effect> {
        let Some(shared) = self.request.shared.clone() else {
            return self.machine.step_all(self.queue.drain(..), now);
        };
        let mut effects = Vec::new();
        shared.decide(&mut |share| {
            self.machine.set_share(share);
            effects = self.machine.step_all(self.queue.drain(..), now);
            self.machine.in_use()
        });
        effects
    }

    fn now(&self) -> Timestamp {
        self.cluster.clock().now()
    }
}

/// Waits until the time is over; for ever where there is no end.
pub async fn deadline(end: Option<Instant>) {
    match end {
        Some(end) => tokio::time::sleep_until(end).await,
        None => std::future::pending().await,
    }
}

/// Waits until other drains leave more or less.
async fn changed(shared: &mut Option<watch::Receiver<()>>) {
    let open = match shared {
        Some(shared) => shared.changed().await.is_ok(),
        None => false,
    };
    if !open {
        std::future::pending::<()>().await;
    }
}

/// Waits for a time of the server's clock; for ever if there is none.
pub async fn sleep_until(wake: Option<Timestamp>, now: Timestamp) {
    match wake.map(|at| std::time::Duration::try_from(at.duration_since(now))) {
        Some(wait) => tokio::time::sleep(wait.unwrap_or_default()).await,
        None => std::future::pending().await,
    }
}
