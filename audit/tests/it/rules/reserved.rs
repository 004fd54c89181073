use nodelife_core::quantity::Quantity;
use nodelife_core::snapshot::Snapshot;

use super::cluster::{configure, each_node, healthy};
use super::finds;
use super::fixture::Fixture;

fn no_disk_threshold(snapshot: &mut Snapshot) {
    each_node(snapshot, |node| {
        let disk = node.status.capacity["ephemeral-storage"].clone();
        let allocatable = &mut node.status.allocatable;
        allocatable.insert("ephemeral-storage".into(), disk);
    });
}

pub(super) const FIXTURES: &[Fixture] = &[
    Fixture {
        rule: "NL-RES-001",
        fires: |s| {
            let status = &mut s.nodes[0].status;
            status.allocatable.insert("cpu".into(), "4".into());
            status
                .allocatable
                .insert("memory".into(), "15975624Ki".into());
        },
        silent: |s| {
            // CPU is reserved, memory is not.
            let status = &mut s.nodes[0].status;
            status
                .allocatable
                .insert("memory".into(), "15975624Ki".into());
        },
    },
    Fixture {
        rule: "NL-RES-025",
        fires: |s| {
            s.kubelet_configs.clear();
            no_disk_threshold(s);
        },
        // NL-RES-013 reports the configuration.
        silent: |s| {
            configure(s, |config| {
                config.eviction_hard.remove("nodefs.available");
            });
            no_disk_threshold(s);
        },
    },
    Fixture {
        rule: "NL-RES-002",
        fires: |s| {
            s.nodes[0]
                .status
                .allocatable
                .insert("memory".into(), "15000000Ki".into());
        },
        silent: |s| {
            // The same amount, written in another way.
            let text = &s.nodes[0].status.allocatable["cpu"];
            assert_eq!(*text, *"3920m");
            s.nodes[0]
                .status
                .allocatable
                .insert("cpu".into(), "3.92".into());
        },
    },
    Fixture {
        rule: "NL-RES-003",
        fires: |s| {
            s.nodes[0]
                .status
                .allocatable
                .insert("cpu".into(), "1900m".into());
        },
        silent: |s| {
            s.nodes[0]
                .status
                .allocatable
                .insert("cpu".into(), "2".into());
        },
    },
    Fixture {
        rule: "NL-RES-004",
        fires: |s| {
            configure(s, |c| {
                drop(c.kube_reserved.insert("memory".into(), "893".into()))
            });
        },
        silent: |s| {
            configure(s, |c| {
                drop(c.kube_reserved.insert("memory".into(), "0".into()))
            });
        },
    },
    Fixture {
        rule: "NL-RES-005",
        fires: |s| {
            configure(s, |c| {
                c.enforce_node_allocatable = Some(vec!["pods".into(), "kube-reserved".into()])
            });
        },
        silent: |s| {
            configure(s, |c| {
                c.enforce_node_allocatable =
                    Some(vec!["pods".into(), "kube-reserved-compressible".into()])
            });
        },
    },
    Fixture {
        rule: "NL-RES-006",
        fires: |s| {
            configure(s, |c| {
                c.enforce_node_allocatable = Some(vec!["none".into()])
            })
        },
        silent: |s| configure(s, |c| c.enforce_node_allocatable = None),
    },
    Fixture {
        rule: "NL-RES-008",
        fires: |s| configure(s, |c| c.cpu_manager_policy = "static".into()),
        silent: |s| {
            configure(s, |c| {
                c.cpu_manager_policy = "static".into();
                drop(c.kube_reserved.insert("cpu".into(), "1".into()));
            });
        },
    },
    Fixture {
        rule: "NL-RES-010",
        fires: |s| {
            configure(s, |c| {
                drop(
                    c.eviction_hard
                        .insert("memory.available".into(), "0%".into()),
                )
            });
        },
        silent: |s| {
            configure(s, |c| {
                drop(
                    c.eviction_hard
                        .insert("memory.available".into(), "1%".into()),
                )
            });
        },
    },
    Fixture {
        rule: "NL-RES-011",
        fires: |s| {
            s.nodes[0]
                .status
                .allocatable
                .insert("cpu".into(), "3900m".into());
        },
        silent: |s| {
            // Nobody's formula.
            each_node(s, |node| {
                node.metadata.labels.clear();
                node.status.node_info.kubelet_version = "v1.36.3".into();
                node.status.allocatable.insert("cpu".into(), "3900m".into());
            });
        },
    },
    Fixture {
        rule: "NL-RES-013",
        fires: |s| {
            configure(s, |c| drop(c.eviction_hard.remove("imagefs.available")));
        },
        silent: |s| {
            configure(s, |c| drop(c.eviction_hard.remove("pid.available")));
        },
    },
    Fixture {
        rule: "NL-RES-015",
        fires: |s| configure(s, |c| c.image_gc_high_threshold_percent = Some(95)),
        silent: |s| configure(s, |c| c.image_gc_high_threshold_percent = Some(90)),
    },
    Fixture {
        rule: "NL-RES-016",
        fires: |s| {
            s.nodes[0]
                .status
                .allocatable
                .insert("cpu".into(), "3800m".into());
        },
        silent: |s| {
            // More memory, and nearly the same kept back.
            s.nodes[0]
                .status
                .capacity
                .insert("memory".into(), "16178024Ki".into());
            s.nodes[0]
                .status
                .allocatable
                .insert("memory".into(), "15161180Ki".into());
        },
    },
    Fixture {
        rule: "NL-RES-020",
        fires: |s| {
            s.nodes[0]
                .status
                .capacity
                .insert("nvidia.com/gpu".into(), "4".into());
            s.nodes[0]
                .status
                .allocatable
                .insert("nvidia.com/gpu".into(), "3".into());
        },
        silent: |s| {
            s.nodes[0]
                .status
                .capacity
                .insert("nvidia.com/gpu".into(), "0".into());
            s.nodes[0]
                .status
                .allocatable
                .insert("nvidia.com/gpu".into(), "0".into());
        },
    },
];

/// The kubelet's own threshold is no reservation, however large it is.
#[test]
fn a_larger_eviction_threshold_reserves_nothing() {
    let mut snapshot = healthy();
    configure(&mut snapshot, |config| {
        let threshold = ("memory.available".into(), "750Mi".into());
        config.eviction_hard.extend([threshold]);
    });
    let status = &mut snapshot.nodes[0].status;
    let cpu = status.capacity["cpu"].clone();
    let memory = Quantity::parse(&status.capacity["memory"]).unwrap();
    let threshold = Quantity::parse("750Mi").unwrap();
    let left = (memory - threshold).to_string();
    status.allocatable.insert("cpu".into(), cpu);
    status.allocatable.insert("memory".into(), left.into());
    assert!(finds(&snapshot, "NL-RES-001"));
    // Without the configuration it might be a reservation.
    snapshot.kubelet_configs.clear();
    assert!(!finds(&snapshot, "NL-RES-001"));
}

/// The formula of EKS counts maxPods: too many of them leave next to nothing of a small machine.
#[test]
fn a_formula_that_leaves_next_to_nothing_is_no_excuse() {
    let fix = |memory: &str, allocatable: &str, pods: &str| {
        let mut snapshot = healthy();
        let node = &mut snapshot.nodes[0];
        node.status.node_info.kubelet_version = "v1.31.4-eks-a1b2c3d".into();
        for (list, memory) in [
            (&mut node.status.capacity, memory),
            (&mut node.status.allocatable, allocatable),
        ] {
            list.insert("memory".into(), memory.into());
            list.insert("pods".into(), pods.into());
        }
        let found = super::findings(&snapshot, &["NL-RES-003"]);
        found.into_iter().next().map(|found| found.fix)
    };
    // 11 Mi × 110 + 255 Mi + 100 Mi of a t4g.small, and 11 Mi × 250 + 355 Mi of a t3.medium.
    for (memory, allocatable, pods) in [
        ("1899824Ki", "297264Ki", "110"),
        ("3967480Ki", "787960Ki", "250"),
    ] {
        let fix = fix(memory, allocatable, pods).unwrap();
        assert!(fix.contains("Lower maxPods"), "{pods}: {fix}");
    }
    assert_eq!(fix("1899824Ki", "1000000Ki", "110"), None);
    // The image has computed for 110 pods, and the kubelet takes 11.
    let computed = fix("1899824Ki", "297264Ki", "11").unwrap();
    assert!(
        computed.contains("for more pods than maxPods"),
        "{computed}"
    );
    let other = fix("1899824Ki", "297265Ki", "11").unwrap();
    assert!(!other.contains("maxPods"), "{other}");
}

#[test]
fn a_disk_threshold_of_zero_is_none() {
    let mut snapshot = healthy();
    configure(&mut snapshot, |config| {
        let disk = "nodefs.available".into();
        config.eviction_hard.insert(disk, "0%".into());
    });
    no_disk_threshold(&mut snapshot);
    assert!(finds(&snapshot, "NL-RES-025"));
}

/// In the kubelet's 32 bits, 15 % are a little more.
#[test]
fn a_threshold_is_told_as_it_is_configured() {
    for threshold in ["15%", "30%", "12.5%"] {
        let mut snapshot = healthy();
        for config in snapshot.kubelet_configs.values_mut() {
            let signal = "imagefs.available".into();
            config.eviction_hard.insert(signal, threshold.into());
            config.image_gc_high_threshold_percent = Some(95);
        }
        let found = super::findings(&snapshot, &["NL-RES-015"]);
        let told = format!("imagefs.available<{threshold} evicts");
        assert!(found[0].message.contains(&told), "{}", found[0].message);
    }
}
