//! The plan of a drain against what then happens.

mod cluster;

use nodelife_drain_plan::{Action, Answer, AnswerReason};

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

/// A drain of the node alone does what was answered.
#[test]
fn an_answer_comes_true() {
    let mut counts = [0; 4];
    for seed in 0..3 * CLUSTERS {
        let mut cluster = Cluster::new(seed).with_one_node();
        let answer = cluster.answer();
        counts[answer.answer as usize] += 1;
        let plan = cluster.plan();
        let refused = plan
            .with(Action::Impossible)
            .chain(plan.with(Action::Refuse));
        let refused = refused.count() > 0;
        let heals = !cluster.healed.is_empty();
        let ended = cluster.drain();
        match answer.answer {
            Answer::Yes => assert!(!refused && ended.is_some(), "seed {seed}: {answer:#?}"),
            Answer::Waits => {
                assert!(!refused, "seed {seed}: {answer:#?}");
                assert_eq!(ended.is_some(), heals, "seed {seed}: {answer:#?}");
            }
            Answer::Needs => panic!("seed {seed}: {answer:#?}"),
            Answer::Never => assert!(refused && ended.is_none(), "seed {seed}: {answer:#?}"),
        }
        // The same, where the pods of a workload have something to lose.
        let mut cluster = Cluster::new(seed).with_one_node();
        cluster.add_scratch();
        let with_scratch = cluster.answer();
        let needs = |one: &&AnswerReason| one.answer == Answer::Needs;
        let mut reasons = with_scratch.reasons.clone();
        reasons.retain(|reason| !needs(&reason));
        assert_eq!(
            (reasons, with_scratch.pods),
            (answer.reasons, answer.pods),
            "seed {seed}"
        );
        let lost = with_scratch.reasons.iter().filter(needs).count();
        let flags: Vec<&str> = with_scratch.flags.iter().copied().collect();
        if lost > 0 {
            assert_eq!(flags, ["--delete-emptydir-data"], "seed {seed}");
            assert_eq!(
                with_scratch.answer,
                answer.answer.max(Answer::Needs),
                "seed {seed}"
            );
            counts[Answer::Needs as usize] += 1;
        } else {
            assert_eq!(
                (with_scratch.answer, flags.len()),
                (answer.answer, 0),
                "seed {seed}"
            );
        }
    }
    assert!(counts.iter().all(|count| *count >= 20), "{counts:?}");
}
