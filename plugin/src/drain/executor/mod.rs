//! Carries out what the machine decides.

mod blocked;
mod diagnose;
mod finish;
mod requests;
mod start;

use std::time::Duration;

use jiff::Timestamp;
use nodelife_cluster::Cluster;
use nodelife_cluster::list::Selection;
use nodelife_cluster::node::NodePatch;
use nodelife_core::drain::{
    CordonOwner, DrainEvent, DrainOptions, Effect, Machine, with_waiting_taint,
};
use nodelife_core::object::Node;
use nodelife_core::text::Str;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::node::lock::{Locks, PARTING};
use super::node::uncordon::undo;
use super::node::{cordon, process};
use super::output::events::Events;
use super::output::log::{Narrator, Telling};
use super::removal::{Manner, remove};
use super::surge::Surges;
use super::view::Scene;
use super::view::watches::{Sight, Watches};
use blocked::Stalls;

use crate::exit::ExitStatus;
use crate::output::Printer;
use crate::signals::{self, Interrupts};

/// How long the last events, and giving the locks back, may take each after `--timeout`.
const OVERTIME: Duration = Duration::from_millis(400);

/// A drain under way.
pub(crate) struct Executor<'a> {
    cluster: Cluster,
    machine: Machine,
    manner: Manner,
    scene: Scene,
    narrator: Narrator<'a>,
    started_at: Timestamp,
    /// What the nodes bear that this run cordons.
    mark: CordonOwner,
    cordoned: Vec<Str>,
    events: Events,
    /// The requests that are on their way; dropped, and so cancelled, with the drain.
    requests: JoinSet<DrainEvent>,
    /// The cordons that are on their way, and whether they changed something.
    cordons: JoinSet<(Str, anyhow::Result<bool>)>,
    /// Whether each node is cordoned when its turn comes.
    cordon_each: bool,
    /// When `--timeout` is over.
    end: Option<Instant>,
    /// Whether what was not drained is uncordoned again.
    undo_on_failure: bool,
    surges: Surges,
    stalls: Stalls,
    /// Nodes that are cordoned and left alone.
    quarantine: Vec<Str>,
}

/// What a drain does beside evicting.
pub(crate) struct Beside {
    /// When `--timeout` is over.
    pub(crate) end: Option<Instant>,
    /// Whether what was not drained is uncordoned again.
    pub(crate) undo_on_failure: bool,
    /// Deployments that get another pod.
    pub(crate) surges: Surges,
    /// Nodes that are cordoned and left alone.
    pub(crate) quarantine: Vec<Str>,
}

impl<'a> Executor<'a> {
    /// A drain of what the scene shows.
    pub(crate) fn new(
        cluster: Cluster,
        settings: DrainOptions,
        manner: Manner,
        mut scene: Scene,
        beside: Beside,
        telling: Telling,
        printer: &'a mut Printer,
    ) -> Self {
        let nodes = scene.nodes.iter().map(|n| n.metadata.name.clone());
        let owners = std::mem::take(&mut scene.owners);
        let started_at = cluster.clock().now();
        let who = std::env::var("USER").unwrap_or_else(|_| "nodelife".to_owned());
        Self {
            started_at,
            mark: CordonOwner::new(&who, started_at),
            cordoned: Vec::new(),
            cordon_each: settings.cordon_each,
            machine: Machine::new(settings, nodes.collect(), owners),
            manner,
            narrator: Narrator::new(printer, telling, &scene.nodes),
            events: Events::new(&cluster, &scene.nodes, &process::name()),
            scene,
            requests: JoinSet::new(),
            cordons: JoinSet::new(),
            end: beside.end,
            undo_on_failure: beside.undo_on_failure,
            surges: beside.surges,
            stalls: Stalls::default(),
            quarantine: beside.quarantine,
            cluster,
        }
    }

    /// Locks, cordons, evicts, waits.
    pub(crate) async fn run(mut self, watches: Watches) -> anyhow::Result<ExitStatus> {
        let mut interrupts = signals::listen()?;
        let mut locks = Locks::new(&self.cluster);
        let alone = self.scene.nodes.len() == 1;
        if let [only] = self.scene.nodes.as_slice()
            && !only.spec.unschedulable
        {
            self.cordoned.push(only.metadata.name.clone());
        }
        let (mark, each) = (self.mark.clone(), self.cordon_each);
        let beside = |node: &Node| {
            if alone {
                // One write for both.
                cordon::patch_of(node, &mark)
            } else {
                NodePatch {
                    taints: with_waiting_taint(node).filter(|_| each),
                    ..NodePatch::default()
                }
            }
        };
        let taken = tokio::select! {
            taken = locks.take(&self.scene.nodes, beside, self.narrator.printer()) => taken,
            () = interrupts.next() => Ok(Some(self.too_early())),
            () = over(self.end) => Ok(Some(self.too_late())),
        };
        let ended = match taken {
            Ok(None) => self.drive(watches, &mut interrupts, &mut locks).await,
            Ok(Some(status)) => {
                if status == ExitStatus::Refused {
                    self.cordoned.clear();
                }
                Ok(status)
            }
            Err(error) => Err(error),
        };
        let patience = self.patience();
        let restore = self.surges.restore(&self.cluster, self.narrator.printer());
        if tokio::time::timeout(patience * 5, restore).await.is_err() {
            self.surges.say_left(self.narrator.printer());
        }
        let returned = self.returned();
        if !returned.is_empty() && !matches!(ended, Ok(ExitStatus::Done)) {
            tokio::select! {
                () = self.undo(returned) => {}
                () = interrupts.next() => {}
            }
        }
        tokio::join!(
            self.events.finish(patience, self.narrator.printer()),
            locks.release(patience),
        );
        ended
    }

    /// How long each of the last requests may take.
    fn patience(&self) -> Duration {
        match self.end {
            Some(end) if end <= Instant::now() => OVERTIME,
            _ => PARTING,
        }
    }

    fn too_late(&mut self) -> ExitStatus {
        self.not_begun("the time of --timeout is over");
        ExitStatus::Failed
    }

    fn too_early(&mut self) -> ExitStatus {
        self.not_begun("interrupted");
        ExitStatus::Interrupted
    }

    fn not_begun(&mut self, why: &str) {
        let nodes: Vec<&str> = self.cordoned.iter().map(Str::as_str).collect();
        let cordoned = if nodes.is_empty() {
            "nothing was changed".to_owned()
        } else {
            format!("nothing was evicted; perhaps cordoned: {}", nodes.join(" "))
        };
        let text = format!("{why} before the drain began: {cordoned}");
        self.narrator.printer().note(text);
    }

    async fn undo(&mut self, nodes: Vec<Str>) {
        let printer = self.narrator.printer();
        if let Err(error) = undo(&self.cluster, &nodes, Some(&self.mark), false, printer).await {
            printer.warn(format_args!("failed to take the cordon back: {error}"));
        }
    }

    async fn drive(
        &mut self,
        mut watches: Watches,
        interrupts: &mut Interrupts,
        locks: &mut Locks,
    ) -> anyhow::Result<ExitStatus> {
        let locked = match self.scene.nodes.as_slice() {
            [only] => locks.locked(&only.metadata.name).cloned(),
            _ => None,
        };
        let lost = locks.keep();
        tokio::pin!(lost);
        let end = self.end;
        let cordoned = tokio::select! {
            cordoned = self.cordon_first(locked) => cordoned,
            () = interrupts.next() => return Ok(self.too_early()),
            () = over(end) => return Ok(self.too_late()),
        };
        if let Some(status) = cordoned? {
            return Ok(status);
        }
        self.begin()?;
        while !self.machine.is_finished() {
            let now = self.now();
            let wake = self
                .machine
                .wake_at(now)
                .into_iter()
                .chain(self.stalls_at(now));
            let wake = self.narrator.wake_at(wake.min(), now);
            let event = tokio::select! {
                biased;
                () = interrupts.next() => {
                    if self.machine.stopped().is_some() {
                        // The second time: whatever is on its way is left to itself.
                        break;
                    }
                    self.step(DrainEvent::Interrupted)?;
                    self.narrator.interrupted(!self.machine.is_finished());
                    continue;
                }
                Some(answer) = self.requests.join_next() => answer?,
                Some(done) = self.cordons.join_next() => {
                    let (node, done) = done?;
                    match done {
                        Ok(changed) => self.begun(&node, changed),
                        Err(error) => return self.give_up(error),
                    }
                    DrainEvent::Cordoned { node }
                }
                Some(asked) = self.stalls.next() => {
                    self.tell_absentees(asked);
                    continue;
                }
                sight = watches.next() => match sight {
                    Some(Sight::Event(event)) => event,
                    Some(Sight::BudgetsUnseen(error)) => {
                        self.lose_budgets(&error)?;
                        continue;
                    }
                    Some(Sight::Trouble { what, essential, error }) => {
                        self.trouble(&what, essential, error)?;
                        continue;
                    }
                    None => anyhow::bail!("failed to watch the cluster"),
                },
                why = &mut lost => {
                    // The nodes are another drain's now, and so are their cordons.
                    self.cordoned.clear();
                    anyhow::bail!("{why}; no more evictions are sent")
                }
                () = sleep_until(wake, now) => DrainEvent::Tick,
            };
            self.step(event)?;
        }
        self.end()
    }

    fn step(&mut self, event: DrainEvent) -> anyhow::Result<()> {
        let now = self.now();
        for effect in self.machine.step(event, now) {
            self.carry_out(effect, now)?;
        }
        self.tell_stalls(now);
        self.narrator.paint(&self.machine, now);
        Ok(())
    }

    fn carry_out(&mut self, effect: Effect, now: Timestamp) -> anyhow::Result<()> {
        let cluster = self.cluster.clone();
        let manner = self.manner;
        match effect {
            Effect::Evict {
                namespace,
                name,
                uid,
            } => {
                self.requests.spawn(async move {
                    let which = (&namespace, &name, &uid);
                    let reply = remove(&cluster, manner, which, false).await;
                    DrainEvent::Answered { uid, result: reply }
                });
            }
            Effect::Bypass {
                namespace,
                name,
                uid,
                budget,
                at_least,
            } => {
                self.narrator.printer().warn(format_args!(
                    "{namespace}/{name}: deleted past budget {budget} \
                     (--force-after, --bypass-pdb)"
                ));
                let manner = manner.past_budgets(at_least);
                self.requests.spawn(async move {
                    let which = (&namespace, &name, &uid);
                    let reply = remove(&cluster, manner, which, false).await;
                    DrainEvent::Answered { uid, result: reply }
                });
            }
            Effect::Count {
                namespace,
                workload,
                labels,
                with_pending,
            } => {
                let selection = Selection {
                    namespace: Some(namespace.to_string()),
                    labels: Some(labels).filter(|labels| !labels.is_empty()),
                    ..Selection::default()
                };
                self.requests.spawn(async move {
                    requests::count(&cluster, &selection, workload, with_pending).await
                });
            }
            Effect::Get {
                namespace,
                name,
                uid,
            } => {
                self.requests
                    .spawn(async move { requests::look(&cluster, namespace, name, uid).await });
            }
            Effect::GetOwner { namespace, owner } => {
                self.requests.spawn(async move {
                    requests::look_up_owner(&cluster, namespace, owner).await
                });
            }
            Effect::Confirm { node } => {
                self.requests
                    .spawn(async move { requests::confirm(&cluster, node).await });
            }
            Effect::Changed { uid } => {
                if let Some(tracked) = self.machine.pod(&uid) {
                    self.narrator.pod(tracked, now)?;
                }
            }
            Effect::Cordon { node } => {
                let before = |known: &Node| known.metadata.name == node && known.spec.unschedulable;
                if !self.scene.nodes.iter().any(before) {
                    self.cordoned.push(node.clone());
                }
                let mark = self.mark.clone();
                self.cordons.spawn(async move {
                    let done = cordon::cordon(&cluster, &node, &mark, false).await;
                    (node, done)
                });
            }
            Effect::Awaits { node } => self.say_awaited(&node),
            Effect::Done { node } => {
                let (what, text) = self.narrator.done(&node, &self.machine);
                self.events.record(&node, what, "", &text);
            }
        }
        Ok(())
    }

    fn now(&self) -> Timestamp {
        self.cluster.clock().now()
    }
}

/// Waits until the time is over; for ever where there is no end.
async fn over(end: Option<Instant>) {
    match end {
        Some(end) => tokio::time::sleep_until(end).await,
        None => std::future::pending().await,
    }
}

/// Waits for a time of the server's clock; for ever if there is none.
async fn sleep_until(wake: Option<Timestamp>, now: Timestamp) {
    match wake.map(|at| std::time::Duration::try_from(at.duration_since(now))) {
        Some(wait) => tokio::time::sleep(wait.unwrap_or_default()).await,
        None => std::future::pending().await,
    }
}
