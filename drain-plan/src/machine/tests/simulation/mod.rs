//! Property test: the machine against a simulated cluster, with random schedules of events,
//! responses, lost responses, crashes and clock jumps.
//!
//! The world keeps the truth (up to three nodes, their pods, two budgets over all of them, what the
//! API server would answer) and lets the machine see it late. A schedule is drawn from its seed, so a failure is replayed by its number.

mod api_server;
mod cluster;
mod disruption_controller;
mod invariants;
mod nodes;
mod random;

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};

use crate::fixtures::workload;
use crate::{
    Bypass, Consent, DrainEvent, DrainMachine, DrainOptions, NodeLoss, NodePhase, Outcome,
    PodPolicy, Store,
};
use cluster::World;
use nodelife_core::disruption::ImplicitBudget;
use nodelife_core::object::{Budget, WorkloadKind};
use nodelife_core::text::Str;
use nodelife_core::workload::Workloads;
use random::Random;

/// Steps of chaos in each, before the world behaves.
const CHAOS: u32 = 25;

/// Steps within which a drain in a world that behaves has to end.
const PATIENCE: u32 = 1000;

struct Run {
    random: Random,
    world: World,
    machine: DrainMachine,
    now: Timestamp,
    /// How long each node has had its turn, up to the last step.
    spent: BTreeMap<Str, SignedDuration>,
    stepped: Timestamp,
    /// The settings of the drain, drawn from the seed.
    features: u64,
    /// Events that the machine takes in with the next one.
    queue: Vec<DrainEvent>,
}

impl Run {
    fn new(seed: u64) -> Self {
        let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        let world = World::new(&mut random);
        let now = Timestamp::UNIX_EPOCH + SignedDuration::from_hours(1);
        let mut run = Self {
            machine: machine(&world, seed),
            world,
            random,
            now,
            spent: BTreeMap::new(),
            stepped: now,
            features: seed,
            queue: Vec::new(),
        };
        run.world.set_budgets_unreadable(seed % 9 == 2);
        run.world.nodes_there.change = seed % 6 == 1;
        run.world.brings_back = match seed % 10 {
            6 => Some(false),
            8 => Some(true),
            _ => None,
        };
        run.begin();
        run
    }

    /// A new process: it knows nothing but what it lists.
    fn begin(&mut self) {
        self.machine = machine(&self.world, self.features);
        self.queue.clear();
        self.world.reconnect();
        self.spent.clear();
        for seen in self.world.nodes_there.read(&self.world.nodes) {
            self.step(seen);
        }
        if !self.machine.settings.cordon_each {
            for node in &self.world.nodes.clone() {
                let cordoned = self.world.nodes_there.cordon(node);
                self.step(cordoned);
            }
        }
        let attachments = self.world.attachments();
        self.step(attachments);
        if self.world.budgets_unreadable {
            self.step(DrainEvent::BudgetsUnreadable);
        } else {
            self.step(DrainEvent::Budgets(self.world.budgets()));
        }
        for node in self.world.nodes.clone() {
            let listed = self.world.list(&node);
            self.step(listed);
        }
    }

    /// The right to see budgets is taken, or given back.
    fn set_budgets_unreadable(&mut self, unreadable: bool) {
        self.world.set_budgets_unreadable(unreadable);
        self.step(if unreadable {
            DrainEvent::BudgetsUnreadable
        } else {
            DrainEvent::Budgets(self.world.budgets())
        });
    }

    fn step(&mut self, event: DrainEvent) {
        let mut waited = self.in_phase(NodePhase::Waiting);
        waited.extend(self.in_phase(NodePhase::Yielded));
        let passed = self
            .now
            .duration_since(std::mem::replace(&mut self.stepped, self.now));
        for (node, _) in self.machine.nodes().filter(|(_, phase)| phase.has_turn()) {
            *self.spent.entry(node.clone()).or_default() += passed;
        }
        self.world.draining = self.in_phase(NodePhase::Draining);
        let may_wait = self.features % 5 == 3
            && !matches!(event, DrainEvent::Tick | DrainEvent::Confirmed { .. });
        self.queue.push(event);
        if may_wait && self.random.below(3) > 0 {
            return;
        }
        for effect in self.machine.step_all(self.queue.drain(..), self.now) {
            self.world.accept(effect, &self.machine, self.now);
        }
        self.world.check_turns(&waited, &self.machine);
        self.world.check_node_timeout(&self.spent, &self.machine);
    }

    fn in_phase(&self, wanted: NodePhase) -> BTreeSet<Str> {
        let nodes = self.machine.nodes();
        nodes
            .filter(|(_, phase)| *phase == wanted)
            .map(|(node, _)| node.clone())
            .collect()
    }

    fn chaos(&mut self) {
        match self.random.below(24) {
            0 => {
                // kill -9: what was on its way was carried out, or never will be.
                self.world.drop_requests(&mut self.random, self.now);
                self.begin();
            }
            1 => {
                let listed = self.world.relist(&mut self.random);
                self.step(listed);
            }
            2 => self.world.bind_late(&mut self.random),
            3 => self.world.delete_one(&mut self.random, self.now),
            4 => self.now += SignedDuration::from_secs(i64::from(self.random.below(200))),
            5 | 6 => self.world.kubelet(&mut self.random, self.now),
            7 | 8 => self.world.controller(self.now),
            9 => self.world.heal(&mut self.random),
            10 => self.world.break_one(&mut self.random),
            11..=14 => {
                self.deliver();
            }
            22 | 23 if self.world.nodes_there.change => self.change_node(),
            20 => self.set_budgets_unreadable(true),
            21 => self.set_budgets_unreadable(false),
            15 | 16 => {
                self.answer(true);
            }
            _ => {
                self.now += SignedDuration::from_millis(i64::from(self.random.below(3000)));
                self.step(DrainEvent::Tick);
            }
        }
    }

    fn change_node(&mut self) {
        let node = self.world.node(&mut self.random);
        let phase = self.machine.nodes.phase(&node).unwrap();
        if self.random.chance(50) {
            self.world.delete_or_recreate_node(&node, self.now);
        } else if !matches!(phase, NodePhase::Waiting | NodePhase::Cordoning) {
            self.world.nodes_there.uncordon(&node);
        }
    }

    fn deliver(&mut self) -> bool {
        let event = self.world.next_sight(&mut self.random);
        let any = event.is_some();
        if let Some(event) = event {
            self.step(event);
        }
        any
    }

    fn answer(&mut self, faults: bool) -> bool {
        let event = self.world.next_answer(&mut self.random, faults, self.now);
        let any = event.is_some();
        if let Some(event) = event {
            self.step(event);
        }
        any
    }

    /// The world behaves from now on: the drain has to end.
    fn end(&mut self) {
        for _ in 0..PATIENCE {
            if self.machine.is_finished() {
                return;
            }
            self.world.kubelet(&mut self.random, self.now);
            self.world.heal(&mut self.random);
            self.world.controller(self.now);
            self.world.nodes_there.bring_back(&self.machine);
            let busy = self.deliver() | self.answer(false);
            if !busy {
                self.now = match self.machine.wake_at(self.now) {
                    Some(at) => at,
                    None => self.now + SignedDuration::from_secs(1),
                };
                self.step(DrainEvent::Tick);
            }
        }
        let states: Vec<_> = self
            .machine
            .pods()
            .map(|t| (t.pod.metadata.name.clone(), t.state.clone()))
            .collect();
        panic!("it did not end: {states:?}, {:?}", self.world);
    }
}

fn machine(world: &World, features: u64) -> DrainMachine {
    let settings = DrainOptions {
        once: is_once(features),
        wait_ready: features.is_multiple_of(2),
        wait_volumes: features.is_multiple_of(3),
        claims: world.claims(),
        cordon_each: features.is_multiple_of(5),
        concurrency: usize::try_from(1 + features % 3).unwrap(),
        max_per_zone: (features % 8 == 1).then_some(1),
        zones: world.zones(),
        by_priority: features % 17 == 4,
        node_timeout: (features % 19 == 7).then(|| SignedDuration::from_secs(90)),
        soak: SignedDuration::from_secs(if features % 23 == 9 { 45 } else { 0 }),
        gate: features % 21 == 8,
        max_unavailable: (features % 15 == 4).then_some(1),
        implicit: (features % 4 == 3).then(ImplicitBudget::default),
        pod_timeout: is_impatient(features).then(|| SignedDuration::from_secs(20)),
        blocked_timeout: is_impatient(features).then(|| SignedDuration::from_secs(40)),
        force: (features % 11 == 5).then(|| Bypass {
            wait: SignedDuration::from_secs(60),
            // The other one is not to be passed by.
            budgets: world
                .budgets()
                .first()
                .map(Budget::key)
                .into_iter()
                .collect(),
        }),
        policy: PodPolicy {
            consent: Consent {
                force: true,
                ..Consent::default()
            },
            ..PodPolicy::default()
        },
        ..DrainOptions::default()
    };
    let mut web = workload(WorkloadKind::ReplicaSet, "web", 1000);
    web.status.ready_replicas = Some(world.ready());
    let mut workloads = Workloads::default();
    workloads.add_listed([WorkloadKind::ReplicaSet], [web]);
    DrainMachine::new(
        settings,
        world.nodes.clone(),
        Store {
            workloads,
            ..Store::default()
        },
    )
}

fn is_once(features: u64) -> bool {
    features % 7 == 3
}

/// Whether it leaves pods behind that take too long.
fn is_impatient(features: u64) -> bool {
    features % 13 == 6
}

#[test]
fn every_schedule_keeps_the_invariants_and_ends() {
    let is_thorough = std::env::var_os("NODELIFE_THOROUGH").is_some();
    let schedules = if is_thorough { 100_000 } else { 5_000 };
    let threads: u64 = 2;
    std::thread::scope(|scope| {
        for thread in 0..threads {
            scope.spawn(move || {
                for seed in (thread..schedules).step_by(2) {
                    let mut run = Run::new(seed);
                    run.world.seed = seed;
                    for _ in 0..CHAOS {
                        if !run.machine.is_finished() {
                            run.chaos();
                        }
                    }
                    run.end();
                    let stopped = run
                        .machine
                        .nodes()
                        .any(|(_, phase)| phase == NodePhase::Left(NodeLoss::GateFailed));
                    if !stopped && !is_once(seed) && !is_impatient(seed) {
                        run.world.check_drained(&run.machine);
                    }
                }
            });
        }
    });
}

/// A drain that may not go on names the budget that it waits for.
#[test]
fn a_stalled_drain_reports_what_it_waits_for() {
    for seed in 0..200 {
        let mut run = Run::new(seed);
        // Nothing but the drain itself: it waits for as long as it takes.
        run.features = 1;
        run.world.set_budgets_unreadable(false);
        run.world.freeze();
        run.begin();
        for _ in 0..50 {
            if !(run.deliver() | run.answer(false)) {
                run.now += SignedDuration::from_secs(1);
                run.step(DrainEvent::Tick);
            }
        }
        while run.deliver() | run.answer(false) {}
        assert!(!run.machine.is_finished());
        for tracked in run.machine.pods() {
            assert_eq!(tracked.outcome(), Outcome::Blocked, "{:?}", tracked.state);
            assert!(tracked.state.to_string().contains("default/web"));
        }
    }
}
