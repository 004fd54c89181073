//! The plan of a drain against what then happens.

mod cluster;

use nodelife_drain_plan::Action;

use cluster::{Cluster, Stops};

const CLUSTERS: u64 = 100;

#[test]
fn a_plan_comes_true() {
    let (mut estimates, mut wrong, mut impossible, mut waiting) = (0, Vec::new(), 0, 0);
    for seed in 0..CLUSTERS {
        let mut cluster = Cluster::new(seed);
        let plan = cluster.plan();
        let ended = cluster.drain();
        for pod in plan.with(Action::Impossible) {
            impossible += 1;
            assert_eq!(cluster.accepted.get(&pod.uid), None, "seed {seed}: {pod:?}");
        }
        for pod in plan.with(Action::Evict) {
            if !pod.reason.starts_with("waits for budget") {
                continue;
            }
            waiting += 1;
            let (_, budget) = pod.budget.as_ref().unwrap().split_once('/').unwrap();
            let accepted = cluster.accepted.get(&pod.uid);
            // It goes when the budget has what it lacks, and not before.
            let since = cluster.healed.get(budget);
            assert_eq!(accepted.is_some(), since.is_some(), "seed {seed}: {pod:?}");
            assert!(
                accepted.is_none_or(|at| at >= since.unwrap()),
                "seed {seed}: {pod:?}"
            );
        }
        let Some(estimate) = &plan.estimate else {
            assert!(!plan.no_estimate.is_empty(), "seed {seed}");
            continue;
        };
        estimates += 1;
        let ended = ended.unwrap_or_else(|| panic!("seed {seed}: it never ends: {plan:#?}"));
        let estimate = serde_json::to_value(estimate).unwrap();
        let key = match cluster.stops {
            Stops::AtOnce => "minSeconds",
            Stops::AfterGrace => "maxSeconds",
        };
        let expected = estimate[key].as_f64().unwrap();
        #[expect(clippy::cast_precision_loss, reason = "less than an hour")]
        let took = ended as f64 / 1000.0;
        // What takes no time cannot be right within a share of it.
        if (took - expected).abs() > (0.25 * took).max(0.5) {
            wrong.push((seed, took, expected));
        }
    }
    assert!(
        estimates >= 50 && impossible >= 10 && waiting >= 10,
        "{estimates} {impossible} {waiting}"
    );
    assert!(
        wrong.len() * 10 <= estimates,
        "{} of {estimates}: {wrong:?}",
        wrong.len()
    );
}
