use nodelife_audit::{Selection, Severity};
use nodelife_core::snapshot::Snapshot;

use super::cluster::{ago, condition, each_node, taint};
use super::fixture::Fixture;

pub(super) const FIXTURES: &[Fixture] = &[
    Fixture {
        rule: "NL-REG-001",
        fires: |s| {
            let id = s.nodes[0].status.node_info.machine_id.clone();
            s.nodes[1].status.node_info.machine_id = id;
        },
        silent: |s| {
            s.nodes[0].status.node_info.machine_id = "".into();
            s.nodes[1].status.node_info.machine_id = "".into();
        },
    },
    Fixture {
        rule: "NL-REG-003",
        fires: |s| s.nodes[1].spec.provider_id = s.nodes[0].spec.provider_id.clone(),
        silent: |s| {
            s.nodes[0].spec.provider_id = "aws:///a/i-1".into();
            s.nodes[1].spec.provider_id = "aws:///b/i-1".into();
            // Redacted.
            for node in &mut s.nodes[2..] {
                node.spec.provider_id = "***HIDDEN***".into();
            }
        },
    },
    Fixture {
        rule: "NL-REG-004",
        fires: |s| s.nodes[1].status.addresses = s.nodes[0].status.addresses.clone(),
        silent: |s| {
            // The address of a load balancer may well be shared.
            let mut address = s.nodes[0].status.addresses[0].clone();
            address.kind = "ExternalIP".into();
            s.nodes[0].status.addresses.push(address.clone());
            s.nodes[1].status.addresses.push(address);
        },
    },
    Fixture {
        rule: "NL-REG-002",
        fires: |s| {
            s.nodes[1].status.node_info.system_uuid = s.nodes[0]
                .status
                .node_info
                .system_uuid
                .to_uppercase()
                .into();
        },
        silent: |s| {
            for node in &mut s.nodes[..2] {
                node.status.node_info.system_uuid = "03000200-0400-0500-0006-000700080009".into();
            }
        },
    },
    Fixture {
        rule: "NL-REG-008",
        fires: |s| {
            taint(
                s,
                0,
                "node.cloudprovider.kubernetes.io/uninitialized",
                "NoSchedule",
                600,
            )
        },
        silent: |s| {
            // Nobody has a cloud.
            each_node(s, |node| node.spec.provider_id = "".into());
        },
    },
    Fixture {
        rule: "NL-REG-009",
        fires: |s| {
            s.nodes.remove(0);
        },
        silent: |s| {
            s.nodes.remove(0);
            s.leases[0].spec.renew_time = Some(ago(s, 90));
        },
    },
    Fixture {
        rule: "NL-REG-013",
        fires: |s| {
            condition(s, 0, "Ready", "Unknown", 60);
            let ready = s.nodes[0]
                .status
                .conditions
                .iter_mut()
                .find(|c| c.kind == *"Ready")
                .unwrap();
            ready.reason = "NodeStatusNeverUpdated".into();
        },
        silent: |s| {
            s.nodes[0].status.conditions.clear();
            s.nodes[0].metadata.creation_timestamp = Some(ago(s, 60));
        },
    },
];

#[test]
fn a_redacted_hostname_differs_from_no_name() {
    for host in ["xx-xx-xxxxx-xxxxxx-x.x.xxxxxxxxx", "***HIDDEN***"] {
        let mut snapshot = super::cluster::healthy();
        for own in &mut snapshot.nodes[0].status.addresses {
            if own.kind == *"Hostname" {
                own.address = host.into();
            }
        }
        let now = snapshot.taken_at.unwrap();
        let audit = nodelife_audit::audit(&snapshot, &nodelife_audit::Selection::default(), now);
        assert!(audit.findings.is_empty(), "{host}: {:?}", audit.findings);
    }
}

#[test]
fn addresses_that_are_cut_out_of_all_nodes_are_not_missing() {
    let mut snapshot = super::cluster::healthy();
    for node in &mut snapshot.nodes {
        node.status.addresses.retain(|a| a.kind == *"Hostname");
    }
    let now = snapshot.taken_at.unwrap();
    let audit = nodelife_audit::audit(&snapshot, &nodelife_audit::Selection::default(), now);
    assert!(audit.findings.is_empty(), "{:?}", audit.findings);
}

/// Support bundles hide identities by one text for all.
#[test]
fn hidden_values_are_no_identities() {
    let rules = ["NL-REG-001", "NL-REG-002", "NL-REG-004"];
    for (id, address) in [
        ("xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx", "xx.x.x.x"),
        ("***HIDDEN***", "***HIDDEN***"),
        ("", ""),
    ] {
        let mut snapshot = super::cluster::healthy();
        for node in &mut snapshot.nodes {
            let info = &mut node.status.node_info;
            info.machine_id = id.into();
            info.system_uuid = id.into();
            for own in &mut node.status.addresses {
                own.address = address.into();
            }
        }
        let selection = nodelife_audit::Selection {
            rules: rules.map(String::from).to_vec(),
            ..Default::default()
        };
        let now = snapshot.taken_at.unwrap();
        let audit = nodelife_audit::audit(&snapshot, &selection, now);
        assert!(audit.findings.is_empty(), "{id}: {:?}", audit.findings);
    }
}

#[test]
fn a_machine_that_was_renamed_is_one_finding() {
    let mut snapshot = super::cluster::healthy();
    for name in ["localhost.localdomain", "localhost"] {
        let mut old = snapshot.nodes[0].clone();
        old.metadata.name = name.into();
        let labels = &mut old.metadata.labels;
        labels.insert("kubernetes.io/hostname".into(), name.into());
        snapshot.nodes.push(old);
        let index = snapshot.nodes.len() - 1;
        condition(&mut snapshot, index, "Ready", "Unknown", 3600);
        is_one_finding(&snapshot);
    }
}

fn is_one_finding(snapshot: &Snapshot) {
    let selection = nodelife_audit::Selection {
        rules: vec!["REG".into(), "NL-HB-002".into()],
        ..Default::default()
    };
    let now = snapshot.taken_at.unwrap();
    let audit = nodelife_audit::audit(snapshot, &selection, now);
    let found = audit.findings.iter();
    let found: Vec<_> = found.map(|f| (f.rule.as_str(), &*f.message)).collect();
    assert_eq!(found.len(), 1, "{found:?}");
    let (rule, message) = found[0];
    assert_eq!(rule, "NL-REG-004");
    let end = match snapshot.nodes.len() {
        10 => "delete localhost.localdomain",
        _ => "delete localhost.localdomain, localhost",
    };
    let end = format!(": one machine that was renamed; {end}");
    assert!(message.ends_with(&end), "{message}");
}

#[test]
fn a_provider_id_of_another_provider_is_found() {
    let odd = |snapshot: &mut Snapshot, scheme: &str, count| {
        for (index, node) in snapshot.nodes.iter_mut().enumerate() {
            let scheme = if index < count { scheme } else { "hcloud" };
            node.spec.provider_id = format!("{scheme}://{index}").into();
        }
    };
    let says = |scheme, count| {
        let mut snapshot = super::cluster::healthy();
        odd(&mut snapshot, scheme, count);
        let now = snapshot.taken_at.unwrap();
        let audit = nodelife_audit::audit(&snapshot, &Selection::default(), now);
        let found = audit.findings.into_iter();
        found.map(|f| (f.severity, f.message)).collect::<Vec<_>>()
    };
    let message = "its providerID is of k3s, that of most nodes of hcloud";
    let found = |severity| (severity, message.to_owned());
    assert_eq!(says("k3s", 1), [found(Severity::Warning)]);
    let two = [found(Severity::Info), found(Severity::Info)];
    assert_eq!(says("k3s", 2), two, "it may be a hybrid cluster");
    assert_eq!(says("hcloud", 1), []);
    assert_eq!(says("eks-hybrid", 1), []);
    assert_eq!(says("hrobot", 1), [], "Hetzner's controller manages both");
}

/// The cloud controller that gives the node its zone has not looked at it.
#[test]
fn a_node_that_waits_for_its_cloud_controller_is_one_finding() {
    let mut snapshot = super::cluster::healthy();
    super::cluster::taint(
        &mut snapshot,
        0,
        "node.cloudprovider.kubernetes.io/uninitialized",
        "NoSchedule",
        3600,
    );
    super::cluster::unlabel(&mut snapshot, 0, "topology.kubernetes.io/zone");
    super::cluster::unlabel(&mut snapshot, 0, "topology.kubernetes.io/region");
    let now = snapshot.taken_at.unwrap();
    let audit = nodelife_audit::audit(&snapshot, &Selection::default(), now);
    let found: Vec<_> = audit.findings.iter().map(|found| &*found.rule).collect();
    assert_eq!(found, ["NL-REG-008"]);
}

/// All containers of a machine see its firmware and its operating system.
#[test]
fn nodes_in_containers_share_a_machine() {
    let found = |image: &str| {
        let mut snapshot = super::cluster::healthy();
        for node in &mut snapshot.nodes {
            let info = &mut node.status.node_info;
            info.os_image = image.into();
            info.system_uuid = "5c4f8d1e-0b6a-4d3c-9e2f-7a1b2c3d4e5f".into();
            info.machine_id = "5c4f8d1e0b6a4d3c9e2f7a1b2c3d4e60".into();
        }
        let now = snapshot.taken_at.unwrap();
        let audit = nodelife_audit::audit(&snapshot, &Selection::default(), now);
        audit
            .findings
            .into_iter()
            .map(|found| found.rule)
            .collect::<Vec<_>>()
    };
    assert_eq!(
        found("Debian GNU/Linux 12 (bookworm)"),
        ["NL-REG-002", "NL-REG-001"]
    );
    assert!(found("K3s v1.36.3+k3s1").is_empty());
}

/// The control plane cannot lose contact that it never had.
#[test]
fn a_kubelet_that_never_came_is_told_once() {
    let mut snapshot = super::cluster::healthy();
    condition(&mut snapshot, 0, "Ready", "Unknown", 3600);
    let conditions = &mut snapshot.nodes[0].status.conditions;
    let ready = conditions.iter_mut().find(|c| c.kind == *"Ready").unwrap();
    ready.reason = "NodeStatusNeverUpdated".into();
    let now = snapshot.taken_at.unwrap();
    let audit = nodelife_audit::audit(&snapshot, &Selection::default(), now);
    let rules: Vec<_> = audit.findings.iter().map(|found| &*found.rule).collect();
    assert!(rules.contains(&"NL-REG-013"), "{rules:?}");
    assert!(!rules.contains(&"NL-HB-002"), "{rules:?}");
}

/// Without labels its zone is that of this node alone: no fault of a zone, and no other of labels.
#[test]
fn a_dead_node_without_cloud_controller_is_told_with_its_cause() {
    for tainted in [true, false] {
        let mut snapshot = super::cluster::healthy();
        condition(&mut snapshot, 0, "Ready", "Unknown", 3600);
        snapshot.nodes[0].spec.provider_id = "".into();
        for key in [
            "topology.kubernetes.io/zone",
            "topology.kubernetes.io/region",
        ] {
            super::cluster::unlabel(&mut snapshot, 0, key);
        }
        if tainted {
            let key = "node.cloudprovider.kubernetes.io/uninitialized";
            taint(&mut snapshot, 0, key, "NoSchedule", 3600);
        }
        let found = super::findings(&snapshot, &["HB", "ZON", "LBL", "REG"]);
        assert_eq!(super::ids(&found), ["NL-HB-002", "NL-REG-008"], "{tainted}");
        let message = &found[0].message;
        assert!(message.contains("no cloud controller deletes"), "{message}");
    }
}
