//! Denials and answers of an API server that does not accept the credentials.

use super::super::respond::WEBHOOK_DENIALS;
use super::*;

#[test]
fn refusals_of_a_budget_are_no_denials() {
    let allows = budget("web", 1, 2, 1);
    let (mut drain, _) = Drain::new(DrainOptions::default(), vec![pod("a", NODE)], vec![allows]);
    for _ in 0..5 {
        let message = "The disruption budget web needs 1 healthy pods".to_owned();
        drain.answer("a", EvictionResult::BudgetExhausted { message });
        assert_eq!(evicted(&drain.after(60)), ["a"]);
    }
    let denied = || EvictionResult::Denied {
        message: "admission webhook \"w\" denied the request: not yet".to_owned(),
        later: false,
        retry_after: None,
    };
    for _ in 1..WEBHOOK_DENIALS {
        drain.answer("a", denied());
        assert_eq!(evicted(&drain.after(60)), ["a"]);
    }
    drain.answer("a", denied());
    assert!(matches!(drain.state("a"), PodState::Impossible(_)));
}

/// How often the pod is tried within an hour that every eviction is answered so.
fn tries(options: DrainOptions, answer: &EvictionResult) -> (usize, bool) {
    let (mut drain, _) = Drain::new(options, vec![pod("a", NODE)], Vec::new());
    let mut tries = 1;
    drain.answer("a", answer.clone());
    for _ in 0..3600 {
        if !evicted(&drain.after(1)).is_empty() {
            tries += 1;
            drain.answer("a", answer.clone());
        }
    }
    (tries, matches!(drain.state("a"), PodState::Impossible(_)))
}

#[test]
fn what_may_pass_is_tried_until_the_end() {
    let denied = |by: &str| EvictionResult::Denied {
        message: format!("{by} denied the request: not yet"),
        later: false,
        retry_after: None,
    };
    let webhook = denied("admission webhook \"w\"");
    let policy = denied("ValidatingAdmissionPolicy 'p'");
    let forbidden = EvictionResult::Forbidden("pods is forbidden".to_owned());
    let terminal = DrainOptions::default;
    let timed = || DrainOptions {
        deadline: Some(Timestamp::UNIX_EPOCH + SignedDuration::from_hours(3)),
        ..terminal()
    };
    let maintenance = || DrainOptions {
        wait_for_rights: true,
        ..terminal()
    };
    let waits = || DrainOptions {
        wait_for_impossible: true,
        ..terminal()
    };
    for (options, answer, is_final) in [
        (terminal(), &webhook, true),
        (terminal(), &policy, true),
        (terminal(), &forbidden, true),
        (timed(), &webhook, false),
        (timed(), &policy, true),
        (timed(), &forbidden, true),
        (maintenance(), &webhook, false),
        (maintenance(), &policy, true),
        (maintenance(), &forbidden, false),
        (waits(), &webhook, false),
        (waits(), &policy, false),
        (waits(), &forbidden, false),
    ] {
        let (tries, ended) = tries(options, answer);
        assert_eq!(ended, is_final, "{answer:?}");
        // Every half minute in the end.
        let few = if is_final { 3..=6 } else { 95..=125 };
        assert!(few.contains(&tries), "{tries}: {answer:?}");
    }
}

#[test]
fn retries_after_a_401() {
    let (mut drain, _) = Drain::new(DrainOptions::default(), vec![pod("a", NODE)], Vec::new());
    let message = "Unauthorized".to_owned();
    drain.answer("a", EvictionResult::Unauthorized(message));
    assert!(drain.machine.pod("u-a").unwrap().is_unclear());
    assert_eq!(evicted(&drain.after(2)), ["a"]);
}
