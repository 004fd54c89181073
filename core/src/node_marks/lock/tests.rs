//! Tests of the lock. The last ones try every order in which drains can meet.

use super::*;

fn at(seconds: i64) -> Timestamp {
    Timestamp::UNIX_EPOCH + SignedDuration::from_secs(seconds)
}

fn lock() -> Lock {
    Lock {
        name: "drain-7".into(),
        uid: "u-7".into(),
        resource_version: "7".into(),
        holder: "ann@desk, process 7".into(),
        since: at(100),
        renewed_at: at(160),
        lease: LOCK_LEASE,
        nodes: BTreeSet::from(["a".into(), "b".into()]),
        is_held: true,
    }
}

#[test]
fn a_lease_is_a_lock() {
    let lease = r#"{
        "metadata": {"name": "drain-7", "uid": "u-7", "resourceVersion": "7",
            "creationTimestamp": "1970-01-01T00:01:40Z",
            "labels": {"nodelife.dev/drain-lock": "held"}, "annotations": {"nodelife.dev/nodes": "a,b"}},
        "spec": {"holderIdentity": "ann@desk, process 7", "renewTime": "1970-01-01T00:02:40.000000Z"}
    }"#;
    assert_eq!(Lock::of(serde_json::from_str(lease).unwrap()), lock());
    let empty = Lock::of(Lease::default());
    assert!(empty.has_expired(at(160)) && empty.nodes.is_empty());
}

#[test]
fn silence_and_a_wrong_clock_both_end_a_lock() {
    assert!(!lock().has_expired(at(160)));
    assert!(!lock().has_expired(at(220)));
    assert!(lock().has_expired(at(221)));
    assert!(lock().has_expired(at(99)), "from the future");
    let of = |seconds: i32| {
        let mut lease = Lease::default();
        lease.spec.lease_duration_seconds = Some(seconds);
        Lock::of(lease).lease
    };
    assert_eq!(of(240), MAINTENANCE_LOCK_LEASE);
    assert_eq!(of(240) / 4, SignedDuration::from_mins(1));
    assert_eq!(of(i32::MAX), MAINTENANCE_LOCK_LEASE);
    assert_eq!(of(-1), LOCK_LEASE);
}

#[test]
fn describes_the_holder_and_the_time_to_expiry() {
    assert_eq!(
        lock().describe(at(164)),
        "ann@desk, process 7 has been draining it since 1970-01-01T00:01:40Z, last renewed \
         4 s ago; if that drain is dead, its lock expires in 56 s"
    );
}

#[test]
fn only_what_names_a_node_or_is_long_dead_is_in_the_way() {
    let own = Lock {
        uid: "own".into(),
        resource_version: "9".into(),
        is_held: false,
        ..lock()
    };
    let elsewhere = Lock {
        nodes: BTreeSet::from(["c".into()]),
        ..lock()
    };
    let of = |other: &Lock, renewed: i64| {
        let now = at(renewed);
        let own = Lock {
            renewed_at: now,
            ..own.clone()
        };
        match Claim::of("own", &[own, other.clone()], now) {
            Claim::Held => "held",
            Claim::Yields(_) => "yields",
            Claim::Expired(_) => "expired",
            Claim::Lost => "lost",
        }
    };
    assert_eq!((of(&lock(), 160), of(&lock(), 221)), ("yields", "expired"));
    let day = 24 * 60 * 60;
    assert_eq!(
        (of(&elsewhere, 221), of(&elsewhere, day + 200)),
        ("held", "expired")
    );
    assert_eq!(Claim::of("none", &[lock()], at(160)), Claim::Lost);
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Next {
    Create,
    Decide,
    /// Removes what had expired in the list that it has read.
    Remove,
    /// Says that it holds its nodes.
    Hold,
    Holds,
    Yielded,
    Lost,
}

/// The API server's Leases and some drains that ask for nodes at the same time.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct World {
    now: i64,
    revision: u64,
    /// By drain: the revision, the time of the last renewal, and whether it is held.
    leases: BTreeSet<(usize, u64, i64, bool)>,
    drains: Vec<(Next, Vec<(usize, u64)>)>,
    /// How often all may still sleep for longer than a lock lasts.
    sleeps: usize,
}

impl World {
    fn locks(&self, nodes: &[&[&str]]) -> Vec<Lock> {
        let leases = self.leases.iter();
        let locks = leases.map(|&(drain, version, renewed, is_held)| Lock {
            uid: drain.to_string().into(),
            resource_version: version.to_string().into(),
            renewed_at: at(renewed),
            nodes: nodes[drain].iter().map(|node| Str::from(*node)).collect(),
            is_held,
            ..lock()
        });
        locks.collect()
    }

    fn lease(&self, drain: usize) -> Option<(usize, u64, i64, bool)> {
        self.leases.iter().find(|lease| lease.0 == drain).copied()
    }

    fn step(&mut self, drain: usize, nodes: &[&[&str]]) {
        self.revision += 1;
        let version_of = |lock: &&Lock| {
            let version = lock.resource_version.parse().unwrap();
            (lock.uid.parse().unwrap(), version)
        };
        let (next, expired) = self.drains[drain].clone();
        self.drains[drain] = match next {
            Next::Create => {
                self.leases.insert((drain, self.revision, self.now, false));
                (Next::Decide, Vec::new())
            }
            Next::Decide => {
                let locks = self.locks(nodes);
                match Claim::of(&drain.to_string(), &locks, at(self.now)) {
                    Claim::Held => (Next::Hold, Vec::new()),
                    Claim::Yields(_) => {
                        self.leases.retain(|lease| lease.0 != drain);
                        (Next::Yielded, Vec::new())
                    }
                    Claim::Expired(locks) => (Next::Remove, locks.iter().map(version_of).collect()),
                    Claim::Lost => (Next::Lost, Vec::new()),
                }
            }
            Next::Remove => {
                // Only as they were read.
                let is_read =
                    |lease: &(usize, u64, i64, bool)| expired.contains(&(lease.0, lease.1));
                self.leases.retain(|lease| !is_read(lease));
                (Next::Decide, Vec::new())
            }
            // It renews then, and learns whether its Lease is still there.
            Next::Hold | Next::Holds => match self.lease(drain) {
                Some(lease) => {
                    self.leases.remove(&lease);
                    self.leases.insert((drain, self.revision, self.now, true));
                    (Next::Holds, Vec::new())
                }
                None => (Next::Lost, Vec::new()),
            },
            Next::Yielded | Next::Lost => return,
        };
    }

    /// Two that share nodes never have their Leases at the same time; without sleep, they never both believe
    /// to hold.
    fn check(&self, nodes: &[&[&str]], slept: bool) {
        let holds = |drain: &usize| {
            self.drains[*drain].0 == Next::Holds && (!slept || self.lease(*drain).is_some())
        };
        let holders: Vec<usize> = (0..self.drains.len()).filter(holds).collect();
        for (index, one) in holders.iter().enumerate() {
            for other in &holders[index + 1..] {
                let shared = nodes[*one].iter().any(|node| nodes[*other].contains(node));
                assert!(!shared, "{one} and {other} hold: {:?}", self.drains);
            }
        }
        let is_over =
            |drain: &(Next, _)| matches!(drain.0, Next::Holds | Next::Yielded | Next::Lost);
        if !slept && self.drains.iter().all(is_over) {
            assert!(!holders.is_empty(), "nobody holds: {:?}", self.drains);
        }
    }
}

/// Tries every order of the steps of these drains.
fn try_all(nodes: &[&[&str]], sleeps: usize) -> usize {
    let start = World {
        now: 0,
        revision: 0,
        leases: BTreeSet::new(),
        drains: vec![(Next::Create, Vec::new()); nodes.len()],
        sleeps,
    };
    let mut seen = BTreeSet::new();
    let mut open = vec![start];
    while let Some(world) = open.pop() {
        world.check(nodes, world.sleeps < sleeps);
        if world.revision > 14 || !seen.insert(world.clone()) {
            continue;
        }
        for drain in 0..nodes.len() {
            let mut after = world.clone();
            after.step(drain, nodes);
            open.push(after);
        }
        if world.sleeps > 0 {
            let mut after = world.clone();
            after.now += LOCK_LEASE.as_secs() + 1;
            after.sleeps -= 1;
            open.push(after);
        }
    }
    seen.len()
}

#[test]
fn one_of_two_drains_holds_in_every_order() {
    assert!(try_all(&[&["a"], &["a", "b"]], 0) > 20);
}

#[test]
fn no_two_of_three_drains_hold_one_node_in_any_order() {
    assert!(try_all(&[&["a", "b"], &["b", "c"], &["c", "a"]], 0) > 1000);
}

#[test]
fn a_drain_that_slept_holds_nothing_that_another_has() {
    assert!(try_all(&[&["a"], &["a"]], 2) > 1000);
}
