use super::cluster::{event, healthy, silence};
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

/// A node that fell silent, and one that lives, whose event is of the newer form.
#[test]
fn a_machine_without_memory_is_told_beside_its_silence() {
    for (is_silent, expected) in [
        (true, &["NL-HB-002", "NL-EVT-006"][..]),
        (false, &["NL-EVT-006"]),
    ] {
        let mut snapshot = healthy();
        event(&mut snapshot, 0, "SystemOOM", 7, 120);
        if is_silent {
            silence(&mut snapshot, 0..1);
        } else {
            let event = snapshot.events.as_mut().unwrap().last_mut().unwrap();
            event.count = None;
            event.event_time = event.last_timestamp.take();
        }
        let found = super::findings(&snapshot, &["HB", "EVT"]);
        assert_eq!(super::ids(&found), expected);
        let times = if is_silent { "7 times," } else { "1 time," };
        let message = &found.last().unwrap().message;
        assert!(message.contains(times), "{message}");
    }
}
