//! Carries out what the machine decides.

use jiff::Timestamp;
use nodelife_cluster::{ApiError, Cluster};
use nodelife_core::drain::{
    Awaited, Block, Blocked, Effect, Event, Machine, Mark, Outcome, Phase, Settings, State, Stop,
};
use nodelife_core::text::Str;
use tokio::task::JoinSet;

use super::cordon::cordon;
use super::events::{Events, Happening};
use super::interrupt::Interrupts;
use super::locks::Locks;
use super::narrator::Narrator;
use super::undo::undo;
use super::watches::{Sight, Watches};
use super::{Manner, Scene, Telling, holder, interrupt, requests};
use crate::exit::ExitStatus;
use crate::output::Printer;

/// A drain under way.
pub(crate) struct Executor<'a> {
    cluster: Cluster,
    machine: Machine,
    manner: Manner,
    scene: Scene,
    narrator: Narrator<'a>,
    started_at: Timestamp,
    /// What the nodes bear that this run cordons.
    mark: Mark,
    cordoned: Vec<Str>,
    events: Events,
    /// The requests that are on their way; dropped, and so cancelled, with the drain.
    requests: JoinSet<Event>,
}

impl<'a> Executor<'a> {
    /// A drain of what the scene shows.
    pub(crate) fn new(
        cluster: Cluster,
        settings: Settings,
        manner: Manner,
        mut scene: Scene,
        telling: Telling,
        printer: &'a mut Printer,
    ) -> Self {
        let nodes = scene.nodes.iter().map(|n| n.metadata.name.clone());
        let owners = std::mem::take(&mut scene.owners);
        let started_at = cluster.clock().now();
        let who = std::env::var("USER").unwrap_or_else(|_| "nodelife".to_owned());
        Self {
            started_at,
            mark: Mark::new(&who, started_at),
            cordoned: Vec::new(),
            machine: Machine::new(settings, nodes.collect(), owners),
            manner,
            narrator: Narrator::new(printer, telling, &scene.nodes),
            events: Events::new(&cluster, &scene.nodes, &holder::name()),
            scene,
            requests: JoinSet::new(),
            cluster,
        }
    }

    /// Locks, cordons, evicts, waits; `undo_on_failure`: what was not drained is uncordoned
    /// again.
    pub(crate) async fn run(
        mut self,
        watches: Watches,
        undo_on_failure: bool,
    ) -> anyhow::Result<ExitStatus> {
        let mut interrupts = interrupt::listen()?;
        let mut locks = Locks::new(&self.cluster);
        let taken = tokio::select! {
            taken = locks.take(&self.scene.nodes, self.narrator.printer()) => taken,
            () = interrupts.next() => Ok(Some(ExitStatus::Interrupted)),
        };
        let ended = match taken {
            Ok(None) => self.drive(watches, &mut interrupts, &mut locks).await,
            Ok(Some(status)) => Ok(status),
            Err(error) => Err(error),
        };
        if undo_on_failure && !matches!(ended, Ok(ExitStatus::Done)) {
            tokio::select! {
                () = self.undo() => {}
                () = interrupts.next() => {}
            }
        }
        locks.release().await;
        ended
    }

    async fn undo(&mut self) {
        let mut nodes = std::mem::take(&mut self.cordoned);
        nodes.retain(|node| !self.machine.is_drained(node));
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
        let lost = locks.keep();
        tokio::pin!(lost);
        let cordon = cordon(
            &self.cluster,
            &self.scene.nodes,
            &self.mark,
            &mut self.cordoned,
            self.narrator.printer(),
        );
        let cordoned = tokio::select! {
            cordoned = cordon => cordoned?,
            () = interrupts.next() => return Ok(ExitStatus::Interrupted),
        };
        if let Some(status) = cordoned {
            return Ok(status);
        }
        for node in &self.scene.nodes {
            let text = format!("{} empties the node", self.events.instance());
            self.events
                .record(&node.metadata.name, Happening::Started, "", &text);
        }
        self.begin()?;
        while !self.machine.is_finished() {
            let now = self.now();
            let wake = self.narrator.wake_at(self.machine.wake_at(now), now);
            let event = tokio::select! {
                biased;
                () = interrupts.next() => {
                    if self.machine.stopped().is_some() {
                        // The second time: whatever is on its way is left to itself.
                        break;
                    }
                    Event::Interrupted
                }
                Some(answer) = self.requests.join_next() => answer?,
                sight = watches.next() => match sight {
                    Some(Sight::Event(event)) => event,
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
                () = sleep_until(wake, now) => Event::Tick,
            };
            self.step(event)?;
        }
        self.end().await
    }

    /// What was read before the cordon is where the machine starts.
    fn begin(&mut self) -> anyhow::Result<()> {
        let budgets = std::mem::take(&mut self.scene.budgets);
        self.step(Event::Budgets(budgets))?;
        for (node, pods) in std::mem::take(&mut self.scene.pods) {
            self.step(Event::Listed { node, pods })?;
        }
        Ok(())
    }

    fn step(&mut self, event: Event) -> anyhow::Result<()> {
        let now = self.now();
        for effect in self.machine.step(event, now) {
            self.carry_out(effect, now)?;
        }
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
                    let reply = requests::remove(&cluster, manner, which, false).await;
                    Event::Answered { uid, reply }
                });
            }
            Effect::Force {
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
                    let reply = requests::remove(&cluster, manner, which, false).await;
                    Event::Answered { uid, reply }
                });
            }
            Effect::Count {
                namespace,
                workload,
            } => {
                self.requests
                    .spawn(async move { requests::count(&cluster, namespace, workload).await });
            }
            Effect::Look {
                namespace,
                name,
                uid,
            } => {
                self.requests
                    .spawn(async move { requests::look(&cluster, namespace, name, uid).await });
            }
            Effect::LookUpOwner { namespace, owner } => {
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
                    if let State::Blocked(Blocked {
                        block: Block::Budget { budget, .. },
                        ..
                    }) = &tracked.state
                    {
                        let meta = &tracked.pod.metadata;
                        let text = format!("{}/{}: {}", meta.namespace, meta.name, tracked.state);
                        let node = &tracked.pod.spec.node_name;
                        let about = budget.to_string();
                        self.events.record(node, Happening::Blocked, &about, &text);
                    }
                }
            }
            Effect::Awaits { node } => self.say_awaited(&node),
            Effect::Done { node } => {
                let (what, text) = self.narrator.done(&node, &self.machine);
                self.events.record(&node, what, "", &text);
            }
        }
        Ok(())
    }

    /// Trouble that passes is told and waited out; a right that is missing does not come back.
    fn trouble(&mut self, what: &str, essential: bool, error: ApiError) -> anyhow::Result<()> {
        if !essential {
            tracing::debug!(what, %error, "lost sight");
            return Ok(());
        }
        if matches!(
            error,
            ApiError::Forbidden(_) | ApiError::Unauthorized { .. } | ApiError::Untrusted { .. }
        ) {
            return Err(anyhow::Error::from(error).context(format!("failed to watch {what}")));
        }
        self.narrator.trouble(what, &error);
        Ok(())
    }

    async fn end(&mut self) -> anyhow::Result<ExitStatus> {
        let now = self.now();
        let status = self.status();
        for node in self.settling() {
            self.say_awaited(&node);
        }
        for (node, _) in self.machine.nodes() {
            if !self.machine.is_drained(node) {
                self.events
                    .record(node, Happening::Stopped, "", "not drained");
            }
        }
        let report = self.machine.report(self.started_at, now);
        self.narrator.end(&self.machine, &report, status, now)?;
        self.events.finish(self.narrator.printer()).await;
        Ok(status)
    }

    /// The nodes that are empty and wait for something.
    fn settling(&self) -> Vec<Str> {
        let nodes = self.machine.nodes();
        nodes
            .filter(|(_, phase)| *phase == Phase::Settling)
            .map(|(node, _)| node.clone())
            .collect()
    }

    fn say_awaited(&mut self, node: &str) {
        for awaited in self.machine.awaited(node) {
            let text = format_args!("node/{node}: empty, and waits: {awaited}");
            self.narrator.printer().note(text);
        }
    }

    fn status(&self) -> ExitStatus {
        if self.machine.stopped() == Some(Stop::Interrupted) {
            return ExitStatus::Interrupted;
        }
        self.machine
            .pods()
            .map(|tracked| match tracked.outcome() {
                _ if tracked.is_unclear() => ExitStatus::Failed,
                Outcome::Evicted | Outcome::Skipped => ExitStatus::Done,
                Outcome::Pending | Outcome::Blocked => ExitStatus::Blocked,
                Outcome::Stuck => ExitStatus::Stuck,
                Outcome::Impossible => ExitStatus::Impossible,
            })
            .fold(self.unfinished(), ExitStatus::and)
    }

    /// Time ran out before a node was seen to be empty.
    fn unfinished(&self) -> ExitStatus {
        let awaited = self
            .settling()
            .iter()
            .flat_map(|node| self.machine.awaited(node))
            .map(|awaited| match awaited {
                Awaited::Replacements { .. } => ExitStatus::Blocked,
                Awaited::Volume(_) => ExitStatus::Stuck,
            })
            .fold(ExitStatus::Done, ExitStatus::and);
        let settled = self
            .machine
            .pods()
            .all(|tracked| tracked.state.is_settled());
        let unseen = self
            .machine
            .nodes()
            .any(|(_, phase)| !matches!(phase, Phase::Settling | Phase::Done));
        if settled && unseen && self.machine.stopped().is_some() {
            ExitStatus::Failed
        } else {
            awaited
        }
    }

    fn now(&self) -> Timestamp {
        self.cluster.clock().now()
    }
}

/// Waits for a time of the server's clock; for ever if there is none.
async fn sleep_until(wake: Option<Timestamp>, now: Timestamp) {
    match wake.map(|at| std::time::Duration::try_from(at.duration_since(now))) {
        Some(wait) => tokio::time::sleep(wait.unwrap_or_default()).await,
        None => std::future::pending().await,
    }
}
