use super::*;

fn with_priority(name: &str, priority: i32) -> Pod {
    let mut pod = pod(name, NODE);
    pod.spec.priority = Some(priority);
    pod
}

fn by_priority() -> DrainOptions {
    DrainOptions {
        by_priority: true,
        ..DrainOptions::default()
    }
}

#[test]
fn starts_the_next_priority_when_the_lower_is_gone() {
    let pods = vec![with_priority("high", 10), with_priority("low", 1)];
    let (mut drain, effects) = Drain::new(by_priority(), pods, Vec::new());
    assert_eq!(evicted(&effects), ["low"]);
    assert!(evicted(&drain.answer("low", EvictionResult::Accepted)).is_empty());
    assert_eq!(evicted(&drain.gone("low")), ["high"]);
}

#[test]
fn a_blocked_lower_priority_delays_no_higher_one() {
    let mut high = with_priority("high", 10);
    high.metadata.labels = [("app".into(), "other".into())].into();
    let pods = vec![high, with_priority("low", 1)];
    let (mut drain, mut effects) = Drain::new(by_priority(), pods, vec![budget("web", 0, 2, 2)]);
    effects.extend(drain.step(DrainEvent::Tick));
    assert_eq!(evicted(&effects), ["high"]);
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

#[test]
fn a_budget_that_opens_lets_the_lower_priority_go_first() {
    let pods = vec![with_priority("a-high", 10), with_priority("b-low", 1)];
    let (mut drain, effects) = Drain::new(by_priority(), pods, vec![budget("web", 0, 2, 2)]);
    assert!(evicted(&effects).is_empty());
    let mut open = budget("web", 1, 2, 2);
    open.metadata.resource_version = "2".into();
    let effects = drain.step(DrainEvent::Budget(Box::new(open)));
    assert_eq!(evicted(&effects), ["b-low"]);
}
