//! Property test of the rotation over random schedules, a million of them with `NODELIFE_THOROUGH`: no leaf
//! is served whose CA has not been in every caBundle for the propagation time.
//!
//! The world has two writers that may pause or crash between any two requests, wall
//! clocks that jump in half of the schedules, API servers and servers that learn of every
//! change late, a kubelet that hangs for days in others, and, in half of them, someone who
//! deletes Secrets and overwrites caBundles.
#![allow(clippy::indexing_slicing, clippy::panic, clippy::unwrap_used)]

mod random;
mod world;
mod writer;

use std::num::NonZero;
use std::thread;

use random::Random;
use world::World;

#[test]
fn no_leaf_is_served_before_its_ca_is_trusted_everywhere() {
    let is_thorough = std::env::var_os("NODELIFE_THOROUGH").is_some();
    let schedules: u64 = if is_thorough { 1_000_000 } else { 100_000 };
    let workers = thread::available_parallelism().map_or(1, NonZero::get) as u64;
    let totals: Vec<Tally> = thread::scope(|scope| {
        let running: Vec<_> = (0..workers)
            .map(|worker| {
                scope.spawn(move || {
                    let mut tally = Tally::default();
                    for seed in (worker..schedules).step_by(usize::try_from(workers).unwrap()) {
                        schedule(seed, &mut tally);
                    }
                    tally
                })
            })
            .collect();
        running.into_iter().map(|one| one.join().unwrap()).collect()
    });
    let sum = |field: fn(&Tally) -> u64| totals.iter().map(field).sum::<u64>();
    // Schedules in which nothing happens would prove nothing.
    for (what, count) in [
        ("promotions", sum(|one| one.promoted)),
        (
            "leaves of a new CA over working ones",
            sum(|one| one.crossed),
        ),
        ("retirements", sum(|one| one.retired)),
        ("lost races", sum(|one| one.conflicts)),
        ("crashes between two requests", sum(|one| one.crashes)),
        ("repairs of the CA's Secret", sum(|one| one.founded)),
        ("adoptions", sum(|one| one.adopted)),
        ("looks at a leaf of a former CA", sum(|one| one.stuck)),
        (
            "looks after the CA's Secret was lost",
            sum(|one| one.robbed),
        ),
    ] {
        println!("{what}: {count}");
        assert!(
            count > schedules / 100,
            "only {count} {what} in {schedules} schedules"
        );
    }
}

/// What happened in the schedules.
#[derive(Default)]
pub(crate) struct Tally {
    pub(crate) promoted: u64,
    pub(crate) crossed: u64,
    pub(crate) retired: u64,
    pub(crate) conflicts: u64,
    pub(crate) crashes: u64,
    pub(crate) founded: u64,
    pub(crate) adopted: u64,
    /// Looks at a replica whose kubelet hangs, and whose living leaf is of a former CA.
    pub(crate) stuck: u64,
    /// Looks at all after the CA's Secret was deleted or set back.
    pub(crate) robbed: u64,
}

/// One schedule: a world at a random point of its rotation, and eighty random events.
fn schedule(seed: u64, tally: &mut Tally) {
    let mut random = Random::new(seed);
    let hostile = random.one_in(2);
    let jumpy = random.one_in(2);
    let mut world = World::installed(seed, &mut random);
    let mut writer = 0;
    for _ in 0..80 {
        match random.below(20) {
            0..13 => {
                // Mostly the same one for a while: a writer that hangs in the middle of a
                // pass, while the other goes through half a rotation, is the worst case.
                if random.one_in(20) {
                    writer = 1 - writer;
                }
                world.advance_writer(writer, tally);
            }
            13 if random.one_in(2) => {
                let writer = random.below(2);
                world.crash(writer, tally);
            }
            14 if jumpy && random.one_in(2) => world.jump_clock(&mut random),
            15 if hostile && random.one_in(3) => world.attack(&mut random),
            _ => world.pass_time(&mut random),
        }
        world.check_trust(tally);
    }
    // Whatever happened, one undisturbed writer brings everything in order. It takes
    // longer than the schedule itself, so not every one is followed to this end.
    if random.one_in(8) {
        world.recover(tally);
    }
}
