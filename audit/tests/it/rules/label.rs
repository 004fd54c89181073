use super::cluster::{cordon, each_node, label, unlabel};
use super::fixture::Fixture;

const ZONE: &str = "topology.kubernetes.io/zone";
const REGION: &str = "topology.kubernetes.io/region";

pub(super) const FIXTURES: &[Fixture] = &[
    Fixture {
        rule: "NL-LBL-001",
        fires: |s| unlabel(s, 0, ZONE),
        silent: |s| {
            // A cluster without zones is nobody's fault.
            each_node(s, |node| {
                node.metadata.labels.remove(ZONE);
                node.metadata.labels.remove(REGION);
            });
        },
    },
    Fixture {
        rule: "NL-LBL-002",
        fires: |s| {
            label(
                s,
                0,
                "failure-domain.beta.kubernetes.io/zone",
                "eu-central-1c",
            )
        },
        silent: |s| {
            label(
                s,
                0,
                "failure-domain.beta.kubernetes.io/zone",
                "eu-central-1a",
            )
        },
    },
    Fixture {
        rule: "NL-LBL-006",
        fires: |s| {
            label(
                s,
                0,
                "node.kubernetes.io/exclude-from-external-load-balancers",
                "",
            )
        },
        silent: |s| {
            label(
                s,
                0,
                "node.kubernetes.io/exclude-from-external-load-balancers",
                "",
            );
            cordon(s, 0, 60);
        },
    },
];
