use super::cluster::{ago, attachments};
use super::fixture::Fixture;

pub(super) const FIXTURES: &[Fixture] = &[
    Fixture {
        rule: "NL-VOL-001",
        fires: |s| attachments(s)[0].spec.node_name = "ip-10-0-99-1".into(),
        silent: |s| {
            attachments(s).remove(0);
        },
    },
    Fixture {
        rule: "NL-VOL-002",
        fires: |s| {
            let then = ago(s, 600);
            attachments(s)[0].metadata.deletion_timestamp = Some(then);
        },
        silent: |s| {
            let then = ago(s, 60);
            attachments(s)[0].metadata.deletion_timestamp = Some(then);
        },
    },
    Fixture {
        rule: "NL-VOL-005",
        fires: |s| {
            let mut second = attachments(s)[0].clone();
            second.spec.node_name = s.nodes[1].metadata.name.clone();
            attachments(s).push(second);
        },
        silent: |s| {
            let mut second = attachments(s)[0].clone();
            second.spec.node_name = s.nodes[1].metadata.name.clone();
            second.status.attached = false;
            attachments(s).push(second);
        },
    },
];
