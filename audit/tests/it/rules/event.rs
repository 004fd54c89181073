use super::cluster::event;
use super::fixture::Fixture;

pub(super) const FIXTURES: &[Fixture] = &[
    Fixture {
        rule: "NL-EVT-004",
        fires: |s| event(s, 0, "Rebooted", 2, 600),
        silent: |s| event(s, 0, "Rebooted", 1, 600),
    },
    Fixture {
        rule: "NL-EVT-005",
        fires: |s| event(s, 0, "FreeDiskSpaceFailed", 1, 600),
        silent: |s| event(s, 0, "FreeDiskSpaceFailed", 1, 1200),
    },
    Fixture {
        rule: "NL-EVT-006",
        fires: |s| event(s, 0, "SystemOOM", 7, 9000),
        // The detector's OOMKilling also tells of containers at their limit.
        silent: |s| event(s, 0, "OOMKilling", 7, 60),
    },
];
