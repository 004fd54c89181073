//! Rules that the audit no longer has. Command lines and configuration files may still name them,
//! and no other rule gets their ids.

use crate::selection::Selection;

/// Ids, each with the reason for which the rule was removed.
const REMOVED: [&str; 62] = [
    "NL-CAP-002: a full node is no fault; NL-CAP-011, NL-CAP-013 and NL-POD-005 report missing room",
    "NL-CAP-003: limits above Allocatable are usual; `nodes -o wide` shows them, and NL-EVT-006 reports a machine without memory",
    "NL-CAP-008: replacement pods wait for a released address for seconds at most",
    "NL-CAP-010: podsPerCore is set on purpose; NL-CAP-005 reports a node without room for pods",
    "NL-CRT-007: benchmarks such as kube-bench check the CIS settings completely",
    "NL-EVT-002: the kubelet reports MissingClusterDNS in an event of each such pod",
    "NL-FLT-001: an audit reads one cluster; compare the reports of several with jq",
    "NL-FLT-002: an audit reads one cluster; compare the reports of several with jq",
    "NL-FLT-003: an audit reads one cluster; compare the reports of several with jq",
    "NL-FLT-004: an audit reads one cluster; compare the reports of several with jq",
    "NL-HB-008: NL-HB-001 and NL-HB-010 report a node that renews its lease too rarely",
    "NL-HB-009: a different lease duration has no effect until it exceeds the grace period; NL-HB-001 and NL-HB-010 report the node then",
    "NL-HB-014: a missing node-problem-detector is no fault of a node",
    "NL-HB-015: a condition that its agent no longer updates changes nothing on a Ready node",
    "NL-HB-018: NL-HB-013 reports the conditions of GKE's agent",
    "NL-HB-019: NL-HB-013 reports the pressure that an agent finds",
    "NL-LBL-003: NL-LBL-001 reports a missing region where other nodes have one",
    "NL-LBL-005: roles are only displayed",
    "NL-LBL-007: the label exclude-disruption is set on purpose",
    "NL-OPS-003: the kubelet deletes unused images itself; NL-EVT-005 reports when it cannot",
    "NL-OPS-006: what logs may fill is no fault; NL-HB-011 and NL-EVT-005 report a disk that is filling",
    "NL-OPS-007: serial image pulls delay pods but break nothing",
    "NL-OPS-008: whoever sets a condition of a drain takes it off, and nobody but people reads it",
    "NL-PDB-010: a long grace period is intended; the plan of a drain shows it",
    "NL-REG-005: NL-REG-001 and NL-REG-002 report cloned machines, and nodes that are containers share a boot",
    "NL-REG-006: NL-REG-001 to NL-REG-004 report cloned machines",
    "NL-REG-007: a name that differs from the hostname needs no action",
    "NL-REG-010: a lease that a deleted node left behind does no harm",
    "NL-REG-012: registerNode: false is set on purpose",
    "NL-REG-014: a node without an internal address is reachable by its other addresses",
    "NL-RES-007: a kubelet refuses such a reservedMemory when it starts; `explain allocatable` and NL-UPG-002 check a file",
    "NL-RES-009: reservedSystemCPUs replaces the cpu reservation, as Kubernetes documents; `explain allocatable` shows what comes of it",
    "NL-RES-012: NL-RES-011 reports reservations that differ from the provider's formula",
    "NL-RES-014: a kubelet refuses a soft threshold without a grace period, and a lower one than the hard threshold does no harm",
    "NL-RES-018: an unlimited number of processes is the kubelet's default",
    "NL-RES-019: no reserved ephemeral storage is the kubelet's default",
    "NL-RES-021: how much the kubelet reclaims, and for how long it reports pressure, is set on purpose",
    "NL-RES-022: the size of machines is a matter of cost; `nodes` shows what is left of each",
    "NL-RES-023: the order of two eviction thresholds changes only which one evicts first",
    "NL-RES-024: NL-RES-010 reports a kubelet without any threshold as well",
    "NL-SHD-002: a kubelet refuses such periods when it starts; `explain allocatable` and NL-UPG-002 check a file",
    "NL-SHD-004: NL-SHD-003 reports the pods that a group without time cuts short",
    "NL-SHD-010: failed pods of past shutdowns do no harm; NL-POD-003 reports many failed pods",
    "NL-SHD-011: ordinary pods use the lowest group then; NL-SHD-003 reports those that it cuts short",
    "NL-TNT-004: the controller replaces one of the two taints with the other in one write",
    "NL-TNT-007: the taint master keeps pods away as any other, and NL-POD-005 names it",
    "NL-TNT-010: a control plane that takes workloads is usually intended",
    "NL-TOL-002: NL-TOL-001 reports these pods as well",
    "NL-TOL-005: different times for not-ready and unreachable change little",
    "NL-TOL-008: a single replica is unavailable whenever its node fails",
    "NL-TOL-010: the first matching toleration counts, as Kubernetes documents",
    "NL-TOL-012: the feature gate of the operators Lt and Gt is off by default",
    "NL-VER-006: pools are updated node by node, so their images differ for a while",
    "NL-VER-009: the kubelet corrects these labels when it starts",
    "NL-VER-011: the age of a node is no fault; NL-VER-003 reports old versions",
    "NL-VER-012: AllAlpha is set on purpose; NL-UPG-001 reports the gates that a new version refuses",
    "NL-VER-013: swap matters only with the kubelet's configuration, and NL-VER-008 reads both",
    "NL-VER-014: different features follow from different versions or feature gates, which NL-VER-002 and NL-OPS-004 report",
    "NL-VOL-004: the attach-detach controller corrects its list itself; NL-VOL-002 and NL-VOL-005 report volumes that block",
    "NL-ZON-003: small zones need no action",
    "NL-ZON-005: zones of different sizes need no action; NL-CAP-013 reports a zone that the others cannot replace",
    "NL-ZON-007: a cluster in one zone is intended, and its constraints do no harm",
];

/// Why the rule with this id was removed; none for any other name.
pub fn removed(id: &str) -> Option<String> {
    let mut rows = REMOVED.iter().filter_map(|row| row.split_once(": "));
    let (id, reason) = rows.find(|(known, _)| known.eq_ignore_ascii_case(id.trim()))?;
    Some(format!("{id} was removed: {reason}"))
}

/// A sentence for each removed rule that the selection names.
pub fn removed_in(selection: &Selection) -> impl Iterator<Item = String> {
    let excluded = selection.excludes.iter().flat_map(|exclude| &exclude.rules);
    let excluded = excluded.map(String::as_str);
    let names = selection
        .names()
        .chain(excluded)
        .chain(selection.severities.names());
    names.filter_map(removed)
}
