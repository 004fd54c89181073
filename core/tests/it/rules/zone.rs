use super::cluster::{cordon, silence, spread, widen};
use super::fixture::Fixture;

pub(super) const FIXTURES: &[Fixture] = &[
    Fixture {
        rule: "NL-ZON-001",
        fires: |s| silence(s, 0..3),
        silent: |s| silence(s, 0..2),
    },
    Fixture {
        rule: "NL-ZON-002",
        fires: |s| {
            silence(s, 0..9);
        },
        silent: |s| {
            silence(s, 0..8);
        },
    },
    Fixture {
        rule: "NL-ZON-003",
        fires: |s| {
            s.nodes.remove(0);
        },
        silent: |s| {
            s.nodes.truncate(2);
        },
    },
    Fixture {
        rule: "NL-ZON-004",
        fires: |s| {
            widen(s);
            silence(s, 0..4);
        },
        silent: |s| {
            widen(s);
            silence(s, 0..3);
        },
    },
    Fixture {
        rule: "NL-ZON-005",
        fires: |s| {
            s.nodes.truncate(7);
        },
        silent: |s| {
            s.nodes.truncate(8);
        },
    },
    Fixture {
        rule: "NL-ZON-006",
        fires: |s| {
            for index in 0..3 {
                cordon(s, index, 60);
            }
        },
        silent: |s| {
            for index in 0..2 {
                cordon(s, index, 60);
            }
        },
    },
    Fixture {
        rule: "NL-ZON-007",
        fires: |s| {
            spread(s, "cart", "topology.kubernetes.io/zone");
            widen(s);
        },
        silent: |s| {
            spread(s, "cart", "kubernetes.io/hostname");
            widen(s);
        },
    },
];
