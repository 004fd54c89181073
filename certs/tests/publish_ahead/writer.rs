//! A writer, one request at a time.

use std::collections::VecDeque;
use std::time::Duration;

use nodelife_certs::{
    Certificate, Configuration, Fingerprint, History, Now, Observed, Rotation, RotationAction,
    Serving, Situation, step,
};

use crate::Tally;
use crate::world::{Harm, World, at};

/// What a reading brought, with the versions that guard the writes.
#[derive(Clone, Default)]
struct Reading {
    observed: Observed,
    leaf: u64,
    configurations: [u64; 2],
    chain: u64,
}

enum Phase {
    Idle,
    /// The next request reads the object of this number.
    Reading(usize),
    Writing(VecDeque<RotationAction>),
}

pub(crate) struct Writer {
    started: i64,
    /// How wrong its wall clock is, in seconds.
    pub(crate) offset: i64,
    history: History,
    phase: Phase,
    now: Now,
    reading: Reading,
    /// The CAs that were everywhere in each of its readings: when the reading began and
    /// ended. The check looks here, and not into the memory that it checks.
    log: Vec<(i64, i64, Vec<Fingerprint>)>,
    began: i64,
}

impl Writer {
    pub(crate) fn new(time: i64) -> Self {
        Self {
            started: time,
            offset: 0,
            history: History::default(),
            phase: Phase::Idle,
            now: Now {
                wall: at(time),
                steady: Duration::ZERO,
            },
            reading: Reading::default(),
            log: Vec::new(),
            began: time,
        }
    }

    pub(crate) fn busy(&self) -> bool {
        !matches!(self.phase, Phase::Idle)
    }

    pub(crate) fn start_pass(&mut self) {
        self.phase = Phase::Reading(0);
        self.reading = Reading::default();
        self.began = i64::MIN;
    }

    fn steady(&self, time: i64) -> Duration {
        Duration::from_secs(u64::try_from(time - self.started).unwrap())
    }

    /// Makes one request.
    pub(crate) fn advance(&mut self, world: &mut World, tally: &mut Tally) {
        match &mut self.phase {
            Phase::Idle => self.start_pass(),
            Phase::Reading(object) => {
                let object = *object;
                self.read(object, world);
            }
            Phase::Writing(actions) => match actions.pop_front() {
                Some(action) => {
                    if !self.write(&action, world, tally) {
                        tally.conflicts += 1;
                    }
                }
                None => self.phase = Phase::Idle,
            },
        }
    }

    /// In the order that [`Observed`] asks for.
    fn read(&mut self, object: usize, world: &World) {
        if self.began == i64::MIN {
            self.began = world.time;
            self.now = Now {
                wall: at(world.time + self.offset),
                steady: self.steady(world.time),
            };
        }
        let reading = &mut self.reading;
        match object {
            0 => {
                reading.leaf = world.leaf.version;
                reading.observed.serving = world.leaf.value;
            }
            1 | 2 => {
                let one = &world.configurations[object - 1];
                reading.configurations[object - 1] = one.version;
                reading.observed.configurations.push(Configuration {
                    bundles: vec![one.value.clone()],
                });
            }
            _ => {
                reading.chain = world.chain.version;
                reading.observed.rotation.clone_from(&world.chain.value);
                self.decide(world);
                return;
            }
        }
        self.phase = Phase::Reading(object + 1);
    }

    fn decide(&mut self, world: &World) {
        let observed = &self.reading.observed;
        let everywhere = observed.configurations[0]
            .bundles
            .iter()
            .flatten()
            .flatten()
            .map(|one| one.id)
            .filter(|id| observed.everywhere(*id))
            .collect();
        self.log.push((self.began, world.time, everywhere));
        self.history.note(observed, self.steady(world.time));
        let actions = step(&Situation {
            observed,
            history: &self.history,
            now: self.now,
            lifetimes: &world.lifetimes,
        });
        self.phase = Phase::Writing(actions.into());
    }

    fn write(&mut self, action: &RotationAction, world: &mut World, tally: &mut Tally) -> bool {
        let chain = self.reading.observed.rotation.clone();
        match (action, chain) {
            (RotationAction::Found(kept), _) => {
                let signer = world.make(self.now.wall, world.lifetimes.ca);
                let mut bundle = vec![signer];
                bundle.extend(self.known(kept));
                tally.founded += 1;
                self.note_slowness(world);
                self.write_chain(world, signer, None, bundle, self.now.wall)
            }
            (RotationAction::Publish(index), Some(chain)) => {
                let read = self.reading.configurations[*index];
                world.write_configuration(*index, read, chain.bundle)
            }
            (RotationAction::Issue, Some(chain)) => {
                let leaf = world.make(self.now.wall, world.lifetimes.leaf);
                let issuer = chain.signer;
                let old = self.reading.observed.serving;
                let written = world.write_leaf(self.reading.leaf, Serving { leaf, issuer });
                // Over a dead leaf a new one is served at once: there is nothing to lose.
                let now = at(world.time);
                let dead = |old: Serving| !old.leaf.valid(now) || !old.issuer.valid(now);
                if written && world.harm == Harm::Robbed && old.is_some_and(dead) {
                    world.harm = Harm::Worse;
                }
                // A leaf that works is replaced by one of another CA.
                if written
                    && old.is_some_and(|old| {
                        old.issuer.id != issuer.id && chain.trusts(old.issuer.id)
                    })
                {
                    tally.crossed += 1;
                    self.check_published(issuer.id, world);
                }
                written
            }
            (RotationAction::Stage, Some(mut chain)) => {
                if let Some(old) = chain.next {
                    chain.bundle.retain(|one| one.id != old.id);
                }
                let next = world.make(self.now.wall, world.lifetimes.ca);
                chain.bundle.push(next);
                self.write_chain(
                    world,
                    chain.signer,
                    Some(next),
                    chain.bundle,
                    chain.promoted,
                )
            }
            (RotationAction::Promote, Some(chain)) => {
                tally.promoted += 1;
                self.note_slowness(world);
                let signer = chain.next.unwrap();
                let written = self.write_chain(world, signer, None, chain.bundle, self.now.wall);
                // From now on the old CA cannot renew the leaf, so the new one has to.
                if written {
                    self.check_published(signer.id, world);
                }
                written
            }
            (RotationAction::Adopt(id), Some(mut chain)) => {
                tally.adopted += 1;
                self.note_slowness(world);
                chain.bundle.extend(self.known(&[*id]));
                self.write_chain(world, chain.signer, chain.next, chain.bundle, self.now.wall)
            }
            (RotationAction::Retire(ids), Some(mut chain)) => {
                tally.retired += 1;
                chain.bundle.retain(|one| !ids.contains(&one.id));
                self.write_chain(
                    world,
                    chain.signer,
                    chain.next,
                    chain.bundle,
                    chain.promoted,
                )
            }
            (_, None) => panic!("seed {}: {action:?} without a CA", world.seed),
        }
    }

    /// When a CA began to sign is the time of the pass, and a real one ends after 20 s.
    fn note_slowness(&self, world: &mut World) {
        let took = world.time - self.began;
        world.punctual &= took <= world.lifetimes.propagation.as_secs();
    }

    fn write_chain(
        &self,
        world: &mut World,
        signer: Certificate,
        next: Option<Certificate>,
        bundle: Vec<Certificate>,
        promoted: jiff::Timestamp,
    ) -> bool {
        let rotation = Rotation {
            signer,
            next,
            bundle,
            promoted,
        };
        world.chain.write(self.reading.chain, rotation)
    }

    fn known(&self, ids: &[Fingerprint]) -> Vec<Certificate> {
        let observed = &self.reading.observed;
        let trusted = observed
            .configurations
            .iter()
            .flat_map(|one| one.bundles.iter().flatten().flatten());
        let all: Vec<_> = observed
            .serving
            .iter()
            .map(|one| &one.issuer)
            .chain(trusted)
            .collect();
        ids.iter()
            .map(|id| **all.iter().find(|one| one.id == *id).unwrap())
            .collect()
    }

    /// The promise, for a CA that was just made the signer, or whose leaf was just written
    /// over a working one.
    fn check_published(&self, ca: Fingerprint, world: &World) {
        let propagation = world.lifetimes.propagation.as_secs();
        let seed = world.seed;
        // By what this writer has seen: it was everywhere in all readings of that long.
        let last = self.log.iter().rev();
        let unbroken: Vec<_> = last.take_while(|(_, _, all)| all.contains(&ca)).collect();
        let (newest, oldest) = (unbroken.first(), unbroken.last());
        let observed = match (newest, oldest) {
            (Some((began, _, _)), Some((_, ended, _))) => began - ended,
            _ => -1,
        };
        assert!(
            observed >= propagation,
            "seed {seed}: seen everywhere for {observed} s only"
        );
        // And in truth, unless somebody emptied a caBundle between two readings.
        if world.harm != Harm::Worse {
            let since = world.everywhere.iter().find(|(id, _)| *id == ca);
            let real = since.map_or(-1, |(_, since)| world.time - since);
            assert!(
                real >= propagation,
                "seed {seed}: everywhere for {real} s only"
            );
        }
    }
}
