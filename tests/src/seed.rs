//! How tests draw cases: by a fixed seed, or `NODELIFE_SEED`, which they print to reproduce a failure;
//! and how many, all of them with `NODELIFE_THOROUGH`.
// Tests' code, as where it is called.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::missing_panics_doc,
    clippy::print_stdout
)]

use std::env;
use std::fmt::{Debug, Display};

use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

/// Cases that a comparison with Kubernetes' own code takes when nobody asks for more.
const FEW: usize = 2_000;

pub fn is_thorough() -> bool {
    env::var_os("NODELIFE_THOROUGH").is_some()
}

/// How many cases to compare: as many as `NODELIFE_CASES` says, else `all` if the run is thorough.
pub fn cases(all: usize) -> usize {
    number("NODELIFE_CASES", FEW.min(all), all)
}

/// The number in an environment variable, else `all` if the run is thorough, else `few`.
pub fn number(variable: &str, few: usize, all: usize) -> usize {
    let otherwise = if is_thorough() { all } else { few };
    env::var(variable).map_or(otherwise, |text| text.parse().unwrap())
}

pub fn seed() -> u64 {
    let seed = env::var("NODELIFE_SEED").map_or(20_260_101, |text| text.parse().unwrap());
    println!("NODELIFE_SEED={seed}");
    seed
}

pub fn runner() -> TestRunner {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed().to_be_bytes());
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
