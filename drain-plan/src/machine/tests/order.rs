use super::*;

fn with_priority(name: &str, priority: i32) -> Pod {
    let mut pod = pod(name, NODE);
    pod.spec.priority = Some(priority);
    pod
}

#[test]
fn starts_the_next_priority_when_the_lower_is_gone() {
    for order in [EvictionOrder::Priority, EvictionOrder::Strict] {
        let settings = DrainOptions {
            order,
            ..DrainOptions::default()
        };
        let pods = vec![with_priority("high", 10), with_priority("low", 1)];
        let (mut drain, effects) = Drain::new(settings, pods, Vec::new());
        assert_eq!(evicted(&effects), ["low"]);
        assert!(evicted(&drain.answer("low", EvictionResult::Accepted)).is_empty());
        assert_eq!(evicted(&drain.gone("low")), ["high"]);
    }
}

#[test]
fn a_blocked_lower_priority_delays_only_a_strict_order() {
    for (order, passes) in [
        (EvictionOrder::Priority, true),
        (EvictionOrder::Strict, false),
    ] {
        let settings = DrainOptions {
            order,
            ..DrainOptions::default()
        };
        let mut high = with_priority("high", 10);
        high.metadata.labels = [("app".into(), "other".into())].into();
        let pods = vec![high, with_priority("low", 1)];
        let (mut drain, mut effects) = Drain::new(settings, pods, vec![budget("web", 0, 2, 2)]);
        effects.extend(drain.step(DrainEvent::Tick));
        assert_eq!(evicted(&effects) == ["high"], passes, "{order:?}");
    }
}

#[test]
fn a_strict_order_keeps_all_pods_after_one_that_stays() {
    for (order, passes) in [
        (EvictionOrder::Priority, true),
        (EvictionOrder::Strict, false),
    ] {
        let settings = DrainOptions {
            order,
            blocked_timeout: Some(SignedDuration::from_secs(20)),
            ..DrainOptions::default()
        };
        let mut high = with_priority("high", 10);
        high.metadata.labels.clear();
        let pods = vec![high, with_priority("low", 1)];
        let (mut drain, mut effects) = Drain::new(settings, pods, vec![budget("web", 0, 2, 2)]);
        effects.extend(drain.after(25));
        assert_eq!(evicted(&effects) == ["high"], passes, "{order:?}");
        if passes {
            continue;
        }
        assert!(matches!(drain.state("low"), PodState::GivenUp(_)));
        let said = drain.state("high").to_string();
        assert!(said.contains("blocked by default/low"), "{said}");
        // And that is the end of it.
        assert!(matches!(effects.last(), Some(Effect::Confirm { .. })));
        let left = vec![with_priority("low", 1)];
        drain.step(confirmed(&drain.machine, NODE, left));
        assert!(drain.machine.is_finished());
    }
}

#[test]
fn a_blocked_lower_order_delays_higher_ones() {
    let ordered = |name: &str, order: &str| {
        let mut pod = pod(name, NODE);
        let annotations = &mut pod.metadata.annotations;
        annotations.insert("nodelife.dev/drain".into(), order.into());
        pod
    };
    let mut held = ordered("b", "order=-1");
    held.metadata.labels.clear();
    held.metadata.labels.insert("app".into(), "held".into());
    let mut closed = budget("held", 0, 1, 1);
    closed.spec.selector = Some(nodelife_core::object::LabelSelector {
        match_labels: [("app".into(), "held".into())].into_iter().collect(),
        ..nodelife_core::object::LabelSelector::default()
    });
    let pods = vec![ordered("a", "order=1"), held, pod("c", NODE)];
    let (mut drain, effects) = Drain::new(DrainOptions::default(), pods, vec![closed.clone()]);
    assert!(evicted(&effects).is_empty());
    closed.status.disruptions_allowed = 1;
    closed.metadata.resource_version = "2".into();
    assert_eq!(
        evicted(&drain.step(DrainEvent::Budget(Box::new(closed)))),
        ["b"]
    );
    drain.answer("b", EvictionResult::Accepted);
    assert_eq!(evicted(&drain.gone("b")), ["c"]);
    drain.answer("c", EvictionResult::Accepted);
    assert_eq!(evicted(&drain.gone("c")), ["a"]);
}
