//! One seed for everything that is generated: always the same cases, unless `NODELIFE_SEED`
//! gives another one. It is printed, so that a failure can be repeated.

use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

/// Generates.
pub(crate) fn runner() -> TestRunner {
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
