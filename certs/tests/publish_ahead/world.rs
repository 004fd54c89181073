//! Simulated cluster: objects with resource versions, and observers that see them late.

use std::collections::VecDeque;

use jiff::{SignedDuration, Timestamp};
use nodelife_certs::{Certificate, Fingerprint, Lifetimes, Rotation, Serving};

use crate::Tally;
use crate::random::Random;
use crate::writer::Writer;

pub(crate) const DAY: i64 = 24 * 3600;
/// Nobody lags longer than this, which is less than the propagation.
const LAG: i64 = 290;
const START: i64 = 1_800_000_000;

/// An object with optimistic locking. A version is never used twice, deletion included.
#[derive(Clone)]
pub(crate) struct Object<T> {
    pub(crate) version: u64,
    pub(crate) value: Option<T>,
}

impl<T> Object<T> {
    fn new(value: T) -> Self {
        Self {
            version: 1,
            value: Some(value),
        }
    }

    /// Writes if nobody else did since `read`; creating needs that there is none.
    pub(crate) fn write(&mut self, read: u64, value: T) -> bool {
        let same = self.version == read;
        if same {
            self.set(Some(value));
        }
        same
    }

    fn set(&mut self, value: Option<T>) {
        self.value = value;
        self.version += 1;
    }
}

/// Someone who learns of changes late, but in order.
struct Late<T> {
    view: T,
    /// What is on its way, each with its last possible arrival.
    coming: VecDeque<(i64, T)>,
}

impl<T> Late<T> {
    fn new(view: T) -> Self {
        Self {
            view,
            coming: VecDeque::new(),
        }
    }

    /// Learns of what is due, and of more by chance: one in `luck` looks.
    fn catch_up(&mut self, time: i64, luck: usize, random: &mut Random) {
        while let Some((due, _)) = self.coming.front() {
            if *due > time && !random.one_in(luck) {
                break;
            }
            if let Some((_, new)) = self.coming.pop_front() {
                self.view = new;
            }
        }
    }
}

/// What was done by someone who is not one of the writers.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Harm {
    None,
    /// The CA's Secret was once deleted or set back, which must cost no call.
    Robbed,
    Worse,
}

pub(crate) struct World {
    pub(crate) seed: u64,
    /// Real time in seconds.
    pub(crate) time: i64,
    pub(crate) lifetimes: Lifetimes,
    pub(crate) chain: Object<Rotation>,
    pub(crate) leaf: Object<Serving>,
    pub(crate) configurations: [Object<Vec<Certificate>>; 2],
    /// Since when each CA has been in both configurations without a break.
    pub(crate) everywhere: Vec<(Fingerprint, i64)>,
    /// Two API servers, each with its view of both configurations.
    api_servers: [[Late<Vec<Certificate>>; 2]; 2],
    /// Two replicas and the leaf that each serves.
    replicas: [Late<Serving>; 2],
    /// Whether the kubelet of the second replica hangs: what it mounts may be old for as
    /// long as it likes, and its leaf has to be accepted until that leaf is dead.
    stuck: bool,
    /// Whether the life of a leaf can be told: no wall clock was ever wrong, and no pass
    /// that took longer than the propagation has written when its CA began to sign.
    pub(crate) punctual: bool,
    writers: [Writer; 2],
    pub(crate) harm: Harm,
    made: u64,
}

impl World {
    /// An installation at a random point of its life.
    pub(crate) fn installed(seed: u64, random: &mut Random) -> Self {
        let lifetimes = Lifetimes::default();
        let mut made = 0;
        // CAs turn at half their life; a writer may have been dead for long, too.
        let age = random.pick(&[0, 10, 31, 180, 183, 190, 300, 364, 366]) * DAY;
        let signer = certificate(&mut made, START - age, lifetimes.ca);
        let mut bundle = vec![signer];
        if random.one_in(2) {
            bundle.push(certificate(
                &mut made,
                START - age - 200 * DAY,
                lifetimes.ca,
            ));
        }
        let next = random
            .one_in(3)
            .then(|| certificate(&mut made, START - DAY, lifetimes.ca));
        bundle.extend(next);
        let promoted_age = age.min(20 * DAY);
        let issuer = random.pick(&bundle[..bundle.len() - next.iter().count()]);
        let mut leaf_age = random.pick(&[0, 10, 19, 21, 29, 31]).min(age / DAY + 1) * DAY;
        if issuer.id != signer.id {
            // Its CA signs no more since then.
            leaf_age = leaf_age.max(promoted_age);
        }
        let leaf = certificate(&mut made, START - leaf_age, lifetimes.leaf);
        let rotation = Rotation {
            signer,
            next,
            bundle: bundle.clone(),
            promoted: at(START - promoted_age),
        };
        let serving = Serving { leaf, issuer };
        let mut leaf = Object::new(serving);
        leaf.version = 7;
        Self {
            seed,
            time: START,
            lifetimes,
            chain: Object::new(rotation),
            leaf,
            everywhere: bundle.iter().map(|one| (one.id, START)).collect(),
            configurations: [0, 1].map(|_| Object::new(bundle.clone())),
            api_servers: [0, 1].map(|_| [0, 1].map(|_| Late::new(bundle.clone()))),
            replicas: [0, 1].map(|_| Late::new(serving)),
            stuck: random.one_in(4),
            punctual: true,
            writers: [0, 1].map(|_| Writer::new(START)),
            harm: Harm::None,
            made,
        }
    }

    pub(crate) fn make(&mut self, wall: Timestamp, life: SignedDuration) -> Certificate {
        let from = wall.as_second() - self.lifetimes.backdate.as_secs();
        certificate(&mut self.made, from, life + self.lifetimes.backdate)
    }

    pub(crate) fn advance_writer(&mut self, index: usize, tally: &mut Tally) {
        let mut writer = std::mem::replace(&mut self.writers[index], Writer::new(self.time));
        writer.advance(self, tally);
        self.writers[index] = writer;
    }

    pub(crate) fn crash(&mut self, index: usize, tally: &mut Tally) {
        if self.writers[index].busy() {
            tally.crashes += 1;
        }
        let offset = self.writers[index].offset;
        self.writers[index] = Writer::new(self.time);
        self.writers[index].offset = offset;
    }

    pub(crate) fn jump_clock(&mut self, random: &mut Random) {
        let by = random.pick(&[
            -400 * DAY,
            -DAY,
            -3600,
            -30,
            30,
            3600,
            DAY,
            40 * DAY,
            400 * DAY,
        ]);
        let writer = random.below(2);
        self.punctual = false;
        // It is set right again as often as it is set wrong.
        let offset = &mut self.writers[writer].offset;
        *offset = if *offset == 0 { by } else { 0 };
    }

    pub(crate) fn pass_time(&mut self, random: &mut Random) {
        self.time += random.pick(&[
            1,
            5,
            60,
            100,
            200,
            299,
            300,
            301,
            3600,
            DAY,
            11 * DAY,
            31 * DAY,
        ]);
        let time = self.time;
        for view in self.api_servers.iter_mut().flatten() {
            view.catch_up(time, 3, random);
        }
        let [first, second] = &mut self.replicas;
        first.catch_up(time, 3, random);
        second.catch_up(time, if self.stuck { 12 } else { 3 }, random);
    }

    /// Someone with the right to, who is not one of the writers.
    pub(crate) fn attack(&mut self, random: &mut Random) {
        let kind = random.below(5);
        // Before everybody serves the leaf that is in its Secret, the CA's Secret alone
        // knows what else has to be trusted; and a pass that has begun may sign with a CA
        // that the older state does not know.
        let settled = !self.stuck
            && self.replicas.iter().all(|one| one.coming.is_empty())
            && !self.writers.iter().any(Writer::busy);
        let harmless = kind == 0 || (kind == 2 && settled);
        self.harm = if harmless && self.harm == Harm::None {
            Harm::Robbed
        } else {
            Harm::Worse
        };
        match kind {
            0 => self.chain.set(None),
            1 => self.leaf.set(None),
            2 => {
                // A backup of the CA's Secret, from before the last promotion.
                let older = self.chain.value.as_ref().and_then(|now| {
                    let signer = *now.bundle.iter().find(|one| one.id != now.signer.id)?;
                    Some(Rotation {
                        signer,
                        next: None,
                        bundle: vec![signer],
                        promoted: now.promoted,
                    })
                });
                self.chain.set(older);
            }
            3 => self.set_configuration(random.below(2), Vec::new()),
            _ => {
                let mut foreign = certificate(&mut self.made, self.time, self.lifetimes.ca);
                foreign.own = false;
                self.set_configuration(random.below(2), vec![foreign]);
            }
        }
    }

    pub(crate) fn write_configuration(
        &mut self,
        index: usize,
        read: u64,
        bundle: Vec<Certificate>,
    ) -> bool {
        let same = self.configurations[index].version == read;
        if same {
            self.set_configuration(index, bundle);
        }
        same
    }

    fn set_configuration(&mut self, index: usize, bundle: Vec<Certificate>) {
        for server in &mut self.api_servers {
            server[index]
                .coming
                .push_back((self.time + LAG, bundle.clone()));
        }
        self.configurations[index].set(Some(bundle));
        let [first, second] = &self.configurations;
        let both = |id| {
            let has = |one: &Object<Vec<Certificate>>| {
                one.value.iter().flatten().any(|held| held.id == id)
            };
            has(first) && has(second)
        };
        self.everywhere.retain(|(id, _)| both(*id));
        for held in first.value.iter().flatten() {
            if both(held.id) && !self.everywhere.iter().any(|(id, _)| *id == held.id) {
                self.everywhere.push((held.id, self.time));
            }
        }
    }

    pub(crate) fn write_leaf(&mut self, read: u64, serving: Serving) -> bool {
        let written = self.leaf.write(read, serving);
        if written {
            let [first, second] = &mut self.replicas;
            first.coming.push_back((self.time + LAG, serving));
            let due = if self.stuck {
                i64::MAX
            } else {
                self.time + LAG
            };
            second.coming.push_back((due, serving));
        }
        written
    }

    /// Every API server accepts what every replica serves. Of a replica that does not get
    /// its new leaf that is promised as long as its old one lives, and where that can be
    /// told.
    pub(crate) fn check_trust(&self, tally: &mut Tally) {
        // With a wrong clock a new CA may take what has to be kept for dead.
        if self.harm == Harm::Worse || self.harm == Harm::Robbed && !self.punctual {
            return;
        }
        tally.robbed += u64::from(self.harm == Harm::Robbed);
        for (replica, served) in self.replicas.iter().enumerate() {
            if !served.view.issuer.valid(at(self.time)) {
                continue;
            }
            if replica == 1 && self.stuck {
                let current = self.leaf.value.map(|one| one.issuer.id);
                if !self.punctual || !served.view.leaf.valid(at(self.time)) {
                    continue;
                }
                tally.stuck += u64::from(current != Some(served.view.issuer.id));
            }
            for (server, views) in self.api_servers.iter().enumerate() {
                for view in views {
                    let trusted = view.view.iter().any(|one| one.id == served.view.issuer.id);
                    assert!(
                        trusted,
                        "seed {}: API server {server} does not trust what replica {replica} serves",
                        self.seed
                    );
                }
            }
        }
    }

    /// One writer with a right clock, undisturbed for an hour, brings all in order.
    pub(crate) fn recover(&mut self, tally: &mut Tally) {
        self.writers[0] = Writer::new(self.time);
        for _ in 0..40 {
            self.time += 90;
            self.writers[0].start_pass();
            while self.writers[0].busy() {
                self.advance_writer(0, tally);
            }
        }
        let seed = self.seed;
        let chain = self.chain.value.as_ref();
        let chain = chain.unwrap_or_else(|| panic!("seed {seed}: no CA"));
        let leaf = self.leaf.value;
        let leaf = leaf.unwrap_or_else(|| panic!("seed {seed}: no leaf"));
        let wall = at(self.time);
        assert_eq!(leaf.issuer.id, chain.signer.id, "seed {seed}: an old leaf");
        assert!(leaf.leaf.valid(wall), "seed {seed}: a dead leaf");
        for one in &self.configurations {
            let held: Vec<_> = one.value.iter().flatten().collect();
            assert_eq!(
                held.len(),
                chain.bundle.len(),
                "seed {seed}: a wrong bundle"
            );
            assert!(
                chain.bundle.iter().all(|one| held.contains(&one)),
                "seed {seed}: a wrong bundle"
            );
        }
    }
}

pub(crate) fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn certificate(made: &mut u64, from: i64, life: SignedDuration) -> Certificate {
    *made += 1;
    let mut id = [0; 32];
    id[..8].copy_from_slice(&made.to_be_bytes());
    Certificate {
        id: Fingerprint(id),
        not_before: at(from),
        not_after: at(from) + life,
        own: true,
    }
}
