//! Seed of all generated cases: fixed, or `NODELIFE_SEED`. Tests print it, to reproduce a failure.
// Tests' code, as where it is called.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::missing_panics_doc,
    clippy::print_stdout
)]

use std::fmt::{Debug, Display};

use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

pub fn runner() -> TestRunner {
    let seed: u64 = std::env::var("NODELIFE_SEED")
        .ok()
        .and_then(|seed| seed.parse().ok())
        .unwrap_or(20_260_101);
    println!("NODELIFE_SEED={seed}");
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_be_bytes());
    let random = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
    TestRunner::new_with_rng(Config::default(), random)
}

pub fn draw<T: Debug>(count: usize, strategy: &impl Strategy<Value = T>) -> Vec<T> {
    let mut runner = runner();
    (0..count)
        .map(|_| strategy.new_tree(&mut runner).unwrap().current())
        .collect()
}

/// Fails with the first of the cases on which Kubernetes' own code answers otherwise.
pub fn agree<C: Display, A: Debug>(
    cases: &[C],
    answers: &[A],
    compare: impl Fn(&C, &A) -> Result<(), String>,
) {
    assert_eq!(cases.len(), answers.len());
    let differences: Vec<String> = cases
        .iter()
        .zip(answers)
        .filter_map(|(case, theirs)| {
            let difference = compare(case, theirs).err()?;
            Some(format!(
                "{difference}\n  theirs: {theirs:?}\n  case: {case}"
            ))
        })
        .collect();
    assert!(
        differences.is_empty(),
        "{} differ, the first of them:\n{}",
        differences.len(),
        differences[..differences.len().min(5)].join("\n")
    );
}
