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

#[test]
fn retries_after_a_401() {
    let (mut drain, _) = Drain::new(DrainOptions::default(), vec![pod("a", NODE)], Vec::new());
    let message = "Unauthorized".to_owned();
    drain.answer("a", EvictionResult::Unauthorized(message));
    assert!(drain.machine.pod("u-a").unwrap().is_unclear());
    assert_eq!(evicted(&drain.after(2)), ["a"]);
}
