use super::*;
use crate::fixtures::{node, pod};
use crate::object::{
    Affinity, ClaimRef, ClaimSource, Container, HostPort, LabelSelector, NodeSelector,
    NodeSelectorTerm, PodAffinity, PodAffinityTerm, Requirement, SpreadConstraint, Taint, Volume,
    VolumeNodeAffinity,
};

fn asking(name: &str, cpu: &str) -> Pod {
    let mut pod = pod(name, "old");
    let mut container = Container::default();
    container.resources.requests = [("cpu".into(), cpu.into())].into();
    pod.spec.containers = vec![container].into();
    pod
}

fn said(nodes: &[Node], there: &[Pod], volumes: &[PersistentVolume], go: &[Pod]) -> Vec<String> {
    let mut elsewhere = Placement::new(nodes, there, volumes, &["old".into()]);
    go.iter()
        .map(|pod| match elsewhere.place(pod) {
            Ok(_) => String::new(),
            Err(nowhere) => nowhere.to_string(),
        })
        .collect()
}

fn said_of(nodes: &[Node], pod: Pod) -> String {
    said(nodes, &[], &[], &[pod]).remove(0)
}

#[test]
fn each_obstacle_is_named_with_its_nodes() {
    let mut cordoned = node("b");
    cordoned.spec.unschedulable = true;
    let mut tainted = node("c");
    tainted.spec.taints.push(Taint {
        key: "gpu".into(),
        effect: NO_SCHEDULE.into(),
        ..Taint::default()
    });
    let mut lost = node("d");
    lost.status.conditions[0].status = "Unknown".into();
    let nodes = [node("old"), node("a"), cordoned, tainted, lost];
    assert_eq!(said_of(&nodes, asking("p", "2")), "");
    assert_eq!(
        said_of(&nodes, asking("p", "64")),
        "its replacement fits on none of the 4 other nodes: 1 cordoned, 1 not Ready, \
         1 with taint gpu, 1 with insufficient cpu"
    );
    assert_eq!(
        said_of(&[node("old")], asking("p", "1")),
        "no other node for its replacement"
    );
}

/// The taint of a node that is lost is all that keeps pods off it.
#[test]
fn a_pod_that_tolerates_everything_goes_to_a_lost_node() {
    let mut lost = node("a");
    lost.status.conditions[0].status = "Unknown".into();
    let mut blanket = asking("p", "1");
    blanket.spec.tolerations = vec![crate::object::Toleration {
        operator: "Exists".into(),
        ..crate::object::Toleration::default()
    }]
    .into();
    assert_eq!(said_of(&[lost], blanket), "");
}

#[test]
fn what_was_placed_before_takes_room() {
    let nodes = [node("old"), node("a")];
    let go = [asking("p", "3"), asking("q", "3")];
    let said_of_both = said(&nodes, &[], &[], &go);
    assert_eq!(
        said_of_both,
        [
            "",
            "its replacement does not fit on the only other node after the replacements of the \
             pods before it: 1 with insufficient cpu"
        ]
    );
    let mut there = asking("there", "2");
    there.spec.node_name = "a".into();
    let alone = said(&nodes, &[there.clone()], &[], &go[..1]);
    assert_eq!(
        alone,
        ["its replacement does not fit on the only other node: 1 with insufficient cpu"]
    );
    there.status.phase = "Succeeded".into();
    assert_eq!(said(&nodes, &[there], &[], &go[..1]), [""]);
}

#[test]
fn a_node_takes_so_many_pods() {
    let mut small = node("a");
    small.status.allocatable.insert("pods".into(), "1".into());
    let go = [asking("p", "1"), asking("q", "1")];
    let said = said(&[small], &[], &[], &go);
    assert_eq!(said[0], "");
    assert!(
        said[1].ends_with("1 with its maximum number of pods"),
        "{said:?}"
    );
}

#[test]
fn a_selector_and_an_affinity_have_to_hold() {
    let mut zoned = node("a");
    zoned.metadata.labels = [("zone".into(), "a".into())].into();
    let mut selecting = asking("p", "1");
    selecting.spec.node_selector = [("zone".into(), "a".into())].into();
    assert_eq!(said_of(std::slice::from_ref(&zoned), selecting.clone()), "");
    selecting.spec.node_selector = [("zone".into(), "b".into())].into();
    let text = said_of(&[zoned], selecting);
    assert!(
        text.ends_with("1 excluded by its node selector or affinity"),
        "{text}"
    );
}

#[test]
fn a_volume_binds_its_pod_to_the_nodes_that_reach_it() {
    let mut volume = PersistentVolume::default();
    volume.metadata.name = "disk".into();
    volume.spec.claim_ref = Some(ClaimRef {
        namespace: "default".into(),
        name: "data".into(),
    });
    volume.spec.node_affinity = Some(VolumeNodeAffinity {
        required: NodeSelector {
            node_selector_terms: vec![NodeSelectorTerm {
                match_expressions: vec![Requirement {
                    key: "kubernetes.io/hostname".into(),
                    operator: "In".into(),
                    values: vec!["old".into()],
                }],
                ..NodeSelectorTerm::default()
            }],
        },
    });
    let mut bound = asking("p", "1");
    bound.spec.volumes.push(Volume {
        persistent_volume_claim: Some(ClaimSource {
            claim_name: "data".into(),
        }),
        ..Volume::default()
    });
    let text = said(&[node("a")], &[], &[volume], &[bound]).remove(0);
    assert!(
        text.ends_with("1 out of reach of its volume disk"),
        "{text}"
    );
}

#[test]
fn one_pod_a_host_is_one_pod_a_host() {
    let mut nodes = [node("a"), node("b")];
    for node in &mut nodes {
        let name = node.metadata.name.clone();
        node.metadata.labels = [("kubernetes.io/hostname".into(), name)].into();
    }
    let apart = |name: &str, node: &str| {
        let mut pod = asking(name, "1");
        pod.spec.node_name = node.into();
        pod.spec.affinity = Some(
            Affinity {
                pod_anti_affinity: Some(PodAffinity {
                    required: vec![PodAffinityTerm {
                        label_selector: Some(LabelSelector {
                            match_labels: [("app".into(), "web".into())].into(),
                            ..LabelSelector::default()
                        }),
                        topology_key: "kubernetes.io/hostname".into(),
                        ..PodAffinityTerm::default()
                    }],
                }),
                ..Affinity::default()
            }
            .into(),
        );
        pod
    };
    let there = [apart("there", "a")];
    let go = [apart("p", "old"), apart("q", "old")];
    let said_of_both = said(&nodes, &there, &[], &go);
    assert_eq!(said_of_both[0], "");
    assert!(
        said_of_both[1].ends_with("2 excluded by anti-affinity"),
        "{said_of_both:?}"
    );
    // The others need not mind for those to mind.
    let text = said(&nodes[..1], &there, &[], &[asking("r", "1")]).remove(0);
    assert!(text.ends_with("1 excluded by anti-affinity"), "{text}");
    let mut other = asking("s", "1");
    other.metadata.namespace = "elsewhere".into();
    assert_eq!(said(&nodes[..1], &there, &[], &[other]), [""]);
}

/// kubernetes/kubernetes#66568.
#[test]
fn a_port_of_a_node_is_taken_once() {
    let at = |name: &str, node: &str, port: i32| {
        let mut pod = asking(name, "1");
        pod.spec.node_name = node.into();
        let mut container = pod.spec.containers[0].clone();
        container.ports.push(HostPort {
            host_port: port,
            ..HostPort::default()
        });
        pod.spec.containers = vec![container].into();
        pod
    };
    let nodes = [node("old"), node("a")];
    let there = [at("there", "a", 80)];
    let go = [at("p", "old", 80), at("q", "old", 443), at("r", "old", 443)];
    let said = said(&nodes, &there, &[], &go);
    let only = "its replacement does not fit on the only other node";
    assert_eq!(
        said,
        [
            format!("{only}: 1 with host port 80 in use"),
            String::new(),
            format!(
                "{only} after the replacements of the pods before it: 1 with host port 443 in use"
            ),
        ]
    );
}

/// kubernetes/autoscaler#5238.
#[test]
fn a_pod_goes_where_the_pods_are_that_it_needs_near() {
    let near = |name: &str, app: &str| {
        let mut pod = asking(name, "1");
        let affinity = Affinity {
            pod_affinity: Some(PodAffinity {
                required: vec![PodAffinityTerm {
                    label_selector: Some(LabelSelector {
                        match_labels: [("app".into(), app.into())].into(),
                        ..LabelSelector::default()
                    }),
                    topology_key: "zone".into(),
                    ..PodAffinityTerm::default()
                }],
            }),
            ..Affinity::default()
        };
        pod.spec.affinity = Some(affinity.into());
        pod
    };
    let zoned = |name: &str, zone: &str| {
        let mut node = node(name);
        node.metadata.labels.insert("zone".into(), zone.into());
        node
    };
    let there = |name: &str, node: &str| {
        let mut pod = asking(name, "1");
        pod.metadata.labels.insert("app".into(), "db".into());
        pod.spec.node_name = node.into();
        pod
    };
    let nodes = [zoned("old", "a"), zoned("a", "a"), zoned("b", "b")];
    let mut full = nodes.clone();
    let most = &mut full[1].status.allocatable;
    most.insert("pods".into(), "0".into());
    let (db, go) = ([there("db", "a")], [near("p", "db")]);
    assert_eq!(said(&nodes, &db, &[], &go), [""]);
    let text = said(&full, &db, &[], &go).remove(0);
    assert!(
        text.ends_with("1 with its maximum number of pods, 1 excluded by its affinity to pods"),
        "{text}"
    );
    // Where that pod goes is not known before it has left the drained node.
    assert_eq!(said(&full, &[there("db", "old")], &[], &go), [""]);
    // The first of its kind may go anywhere.
    assert_eq!(said(&full, &[], &[], &[near("q", "web")]), [""]);
    // One of its kind that stays holds it, also while another has not left the drained node.
    let peers = ["p", "q"].map(|name| near(name, "db"));
    let peers = peers.map(|mut pod| {
        pod.metadata.labels.insert("app".into(), "db".into());
        pod.metadata.uid = pod.metadata.name.clone();
        pod
    });
    let all = [&peers[..], &[there("r", "a")]].concat();
    let mut one_left = nodes.clone();
    let most = &mut one_left[1].status.allocatable;
    most.insert("pods".into(), "2".into());
    let both = said(&one_left, &all, &[], &peers);
    assert_eq!(both[0], "", "{both:?}");
    assert!(
        both[1].contains("1 excluded by its affinity to pods"),
        "{both:?}"
    );
}

/// A replacement is made while the pods that leave are still there, and is near them where a node takes it.
#[test]
fn a_pod_follows_those_of_its_kind_that_leave() {
    let zoned = |name: &str, zone: &str, most: &str| {
        let mut node = node(name);
        node.metadata.labels.insert("zone".into(), zone.into());
        let allocatable = &mut node.status.allocatable;
        allocatable.insert("pods".into(), most.into());
        node
    };
    let near = |name: &str| {
        let mut pod = asking(name, "1");
        let term = PodAffinityTerm {
            label_selector: Some(LabelSelector {
                match_labels: [("app".into(), "db".into())].into(),
                ..LabelSelector::default()
            }),
            topology_key: "zone".into(),
            ..PodAffinityTerm::default()
        };
        let required = vec![term];
        let affinity = Affinity {
            pod_affinity: Some(PodAffinity { required }),
            ..Affinity::default()
        };
        pod.spec.affinity = Some(affinity.into());
        pod.metadata.labels.insert("app".into(), "db".into());
        pod.metadata.uid = name.into();
        pod
    };
    let all = ["p", "q", "r"].map(near);
    // There is more room in the other zone, where one goes that finds none beside those that leave.
    for (room, refused) in [("3", [false, false, true]), ("1", [false; 3])] {
        let nodes = [
            zoned("old", "a", "9"),
            zoned("a", "a", room),
            zoned("b", "b", "9"),
        ];
        let mut there = all.to_vec();
        let mut other = asking("other", "1");
        other.spec.node_name = "a".into();
        there.push(other);
        let told = said(&nodes, &there, &[], &all);
        let is_refused = told.iter().map(|text| !text.is_empty());
        assert_eq!(is_refused.collect::<Vec<_>>(), refused, "{told:?}");
        let told = told.last().unwrap();
        assert!(
            !refused[2] || told.contains("after the replacements of the pods before it"),
            "{told}"
        );
    }
}

/// kubernetes/kubernetes#106127: the domain of the drained node remains, and has no pod any more.
#[test]
fn a_hard_spread_counts_the_domain_of_the_drained_node() {
    let spread = |pod: Pod, changes: fn(&mut SpreadConstraint)| {
        let mut constraint = SpreadConstraint {
            topology_key: "kubernetes.io/hostname".into(),
            max_skew: 1,
            when_unsatisfiable: "DoNotSchedule".into(),
            label_selector: Some(LabelSelector {
                match_labels: [("app".into(), "web".into())].into(),
                ..LabelSelector::default()
            }),
            ..SpreadConstraint::default()
        };
        changes(&mut constraint);
        let mut pod = pod;
        pod.spec.topology_spread_constraints = Some(vec![constraint].into());
        pod
    };
    let host = |name: &str| {
        let mut node = node(name);
        let key = "kubernetes.io/hostname".into();
        node.metadata.labels.insert(key, name.into());
        node
    };
    let nodes = ["old", "a", "b"].map(host);
    let on = |name: &str, node: &str| {
        let mut pod = asking(name, "1");
        pod.spec.node_name = node.into();
        pod
    };
    let there = [on("p", "old"), on("q", "a"), on("r", "b")];
    let said_with =
        |changes| said(&nodes, &there, &[], &[spread(on("p", "old"), changes)]).remove(0);
    assert_eq!(
        said_with(|_| ()),
        "its replacement fits on none of the 2 other nodes: 2 excluded by its topology spread \
         constraints"
    );
    assert_eq!(said_with(|one| one.max_skew = 2), "");
    assert_eq!(
        said_with(|one| one.when_unsatisfiable = "ScheduleAnyway".into()),
        ""
    );
    assert_eq!(said_with(|one| one.node_taints_policy = "Honor".into()), "");
    assert_eq!(said_with(|one| one.label_selector = None), "");
    let all = |one: &mut SpreadConstraint| one.label_selector = Some(LabelSelector::default());
    assert_eq!(said_with(all), "");
    // What tolerates the cordon counts the domain.
    let mut tolerant = spread(on("p", "old"), |one| {
        one.node_taints_policy = "Honor".into();
    });
    tolerant.spec.tolerations = vec![crate::object::Toleration {
        key: UNSCHEDULABLE.into(),
        operator: "Exists".into(),
        ..crate::object::Toleration::default()
    }]
    .into();
    let text = said(&nodes, &there, &[], &[tolerant]).remove(0);
    assert!(text.contains("2 excluded by its topology spread"), "{text}");
    // Nodes without the key are no domain, and no place.
    let said = said_with(|one| one.topology_key = "zone".into());
    assert!(
        said.ends_with("2 excluded by its topology spread constraints"),
        "{said}"
    );
    // A second pod on the node keeps its domain full enough for the first.
    let two = [on("p", "old"), on("s", "old"), on("q", "a"), on("r", "b")];
    let go = [on("p", "old"), on("s", "old")].map(|pod| spread(pod, |_| ()));
    let mut elsewhere = Placement::new(&nodes, &two, &[], &["old".into()]);
    let fit = go.each_ref().map(|pod| elsewhere.place(pod).is_ok());
    assert_eq!(fit, [true, false]);
}
