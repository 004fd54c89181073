use nodelife_core::object::Toleration;

use super::cluster::{each_pod, toleration, wait};
use super::fixture::Fixture;

const NOT_READY: &str = "node.kubernetes.io/not-ready";
const UNREACHABLE: &str = "node.kubernetes.io/unreachable";

pub(super) const FIXTURES: &[Fixture] = &[
    Fixture {
        rule: "NL-TOL-001",
        fires: |s| {
            each_pod(s, "cart", |pod| {
                pod.spec.tolerations = [NOT_READY, UNREACHABLE]
                    .into_iter()
                    .map(|key| toleration(key, "Exists", None))
                    .collect();
            });
        },
        silent: |s| {
            // For every NoSchedule taint, but not for ever on a dead node.
            each_pod(s, "cart", |pod| {
                pod.spec.tolerations.push(Toleration {
                    operator: "Exists".into(),
                    effect: "NoSchedule".into(),
                    ..Toleration::default()
                });
            });
        },
    },
    Fixture {
        rule: "NL-TOL-006",
        fires: |s| {
            each_pod(s, "cart", |pod| {
                let mut odd = toleration(NOT_READY, "Equal", Some(300));
                odd.value = "true".into();
                pod.spec.tolerations = [odd, toleration(UNREACHABLE, "Exists", Some(300))]
                    .into_iter()
                    .collect();
            });
        },
        silent: |s| {
            // An empty value equals the taint's.
            each_pod(s, "cart", |pod| {
                pod.spec.tolerations = [NOT_READY, UNREACHABLE]
                    .into_iter()
                    .map(|key| toleration(key, "Equal", Some(300)))
                    .collect();
            });
        },
    },
    Fixture {
        rule: "NL-TOL-003",
        fires: |s| each_pod(s, "cart", |pod| pod.spec.tolerations.clear()),
        silent: |s| {
            each_pod(s, "cart", |pod| drop(pod.spec.tolerations.pop()));
        },
    },
    Fixture {
        rule: "NL-TOL-004",
        fires: |s| each_pod(s, "cart", |pod| wait(pod, 3600)),
        silent: |s| each_pod(s, "cart", |pod| wait(pod, 600)),
    },
    Fixture {
        rule: "NL-TOL-011",
        fires: |s| {
            each_pod(s, "cart", |pod| {
                pod.spec.tolerations.push(toleration(
                    "node.kubernetes.io/unschedulable",
                    "Exists",
                    None,
                ))
            });
        },
        silent: |s| {
            each_pod(s, "cart", |pod| {
                pod.spec
                    .tolerations
                    .push(toleration("example.com/unschedulable", "Exists", None))
            });
        },
    },
];

#[test]
fn pods_that_tolerate_every_taint_stay_on_a_dead_node() {
    let mut snapshot = super::cluster::healthy();
    each_pod(&mut snapshot, "cart", |pod| {
        let everything = Toleration {
            operator: "Exists".into(),
            ..Toleration::default()
        };
        pod.spec.tolerations = [everything].into_iter().collect();
    });
    assert!(super::finds(&snapshot, "NL-TOL-001"));
}
