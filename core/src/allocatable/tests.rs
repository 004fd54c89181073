//! Tests with the documented example and nodes of cloud providers, exact to the byte.

use proptest::prelude::*;
use serde_json::json;

use super::*;

fn capacity(list: &[(&str, &str)]) -> Amounts {
    list.iter()
        .map(|(name, text)| ((*name).into(), Quantity::parse(text).unwrap()))
        .collect()
}

fn configured(document: serde_json::Value) -> KubeletConfiguration {
    KubeletConfiguration::from_files(Some(document), []).unwrap()
}

fn allocatable(computed: &Allocatable, name: &str) -> String {
    computed.resources[name].allocatable.to_string()
}

/// The example of "Reserve Compute Resources for System Daemons".
#[test]
fn the_documented_example() {
    let machine = capacity(&[
        ("cpu", "16"),
        ("memory", "32Gi"),
        ("ephemeral-storage", "100Gi"),
    ]);
    let configuration = configured(json!({
        "kubeReserved": {"cpu": "1", "memory": "2Gi", "ephemeral-storage": "1Gi"},
        "systemReserved": {"cpu": "500m", "memory": "1Gi", "ephemeral-storage": "1Gi"},
        "evictionHard": {"memory.available": "500Mi", "nodefs.available": "10%"},
    }));
    let computed = compute(&machine, &configuration);
    assert!(computed.accepted, "{:?}", computed.refusals);
    assert_eq!(allocatable(&computed, "cpu"), "14500m");
    assert_eq!(allocatable(&computed, "memory"), "29196Mi");
    assert_eq!(allocatable(&computed, "ephemeral-storage"), "94489280352");
    assert_eq!(computed.kubepods_memory_limit.unwrap().to_string(), "29Gi");
}

#[test]
fn the_kubelet_rounds_reserved_cpu_since_1_37() {
    let configuration = configured(json!({
        "kubeReserved": {"cpu": "0.5859"},
        "systemReserved": {"cpu": "500500n"},
    }));
    let mut node = Node::default();
    node.status.capacity.insert("cpu".into(), "29".into());
    for (version, expected) in [
        ("v1.36.3", "28413599500n"),
        ("v1.37.0", "28413m"),
        ("v1.37.2-eks-1", "28413m"),
        // Of no version, as a machine without a node: the newest.
        ("", "28413m"),
    ] {
        node.status.node_info.kubelet_version = version.into();
        let computed = of_node(&node, &configuration);
        assert_eq!(allocatable(&computed, "cpu"), expected, "{version}");
    }
}

/// The same machine without reservations.
#[test]
fn only_evictions() {
    let machine = capacity(&[("memory", "32Gi"), ("ephemeral-storage", "100Gi")]);
    let configuration = configured(json!({
        "evictionHard": {"memory.available": "500Mi", "nodefs.available": "10%"},
    }));
    let computed = compute(&machine, &configuration);
    assert_eq!(
        computed.resources["memory"].allocatable.value(),
        Some(33_835_450_368)
    );
    assert_eq!(allocatable(&computed, "ephemeral-storage"), "96636764000");
}

fn eks(cpu: &str, memory: &str) -> KubeletConfiguration {
    configured(json!({
        "kubeReserved": {"cpu": cpu, "memory": memory, "ephemeral-storage": "1Gi"},
        "evictionHard": {
            "memory.available": "100Mi",
            "nodefs.available": "10%",
            "nodefs.inodesFree": "5%",
        },
    }))
}

#[test]
fn an_eks_node_of_four_cpus() {
    let machine = capacity(&[
        ("cpu", "4"),
        ("memory", "16078024Ki"),
        ("ephemeral-storage", "52416492Ki"),
        ("pods", "20"),
    ]);
    let computed = compute(&machine, &eks("80m", "574Mi"));
    assert_eq!(allocatable(&computed, "cpu"), "3920m");
    assert_eq!(allocatable(&computed, "memory"), "15387848Ki");
    assert_eq!(allocatable(&computed, "ephemeral-storage"), "47233297124");
    assert_eq!(allocatable(&computed, "pods"), "20");
}

#[test]
fn an_eks_node_of_two_cpus() {
    let machine = capacity(&[
        ("cpu", "2"),
        ("memory", "7910356Ki"),
        ("ephemeral-storage", "83873772Ki"),
    ]);
    let computed = compute(&machine, &eks("70m", "574Mi"));
    assert_eq!(allocatable(&computed, "cpu"), "1930m");
    assert_eq!(allocatable(&computed, "memory"), "7220180Ki");
    assert_eq!(allocatable(&computed, "ephemeral-storage"), "76224326324");
}

/// aws/karpenter-provider-aws#7989: m7a.4xlarge with 234 pods.
#[test]
fn an_eks_node_of_sixteen_cpus() {
    let machine = capacity(&[
        ("cpu", "16"),
        ("memory", "64422252Ki"),
        ("ephemeral-storage", "104779756Ki"),
    ]);
    let computed = compute(&machine, &eks("110m", "2829Mi"));
    assert_eq!(allocatable(&computed, "cpu"), "15890m");
    assert_eq!(allocatable(&computed, "memory"), "61422956Ki");
    assert_eq!(allocatable(&computed, "ephemeral-storage"), "95491281146");
}

#[test]
fn a_kubeadm_node_by_defaults() {
    let machine = capacity(&[
        ("cpu", "2"),
        ("memory", "2035228Ki"),
        ("ephemeral-storage", "19475088Ki"),
    ]);
    let computed = compute(&machine, &configured(json!({})));
    assert_eq!(allocatable(&computed, "cpu"), "2");
    assert_eq!(allocatable(&computed, "memory"), "1932828Ki");
    assert_eq!(allocatable(&computed, "ephemeral-storage"), "17948241072");
}

#[test]
fn huge_pages_come_off_the_memory_and_never_below_nothing() {
    let machine = capacity(&[
        ("memory", "4Gi"),
        ("hugepages-2Mi", "1Gi"),
        ("hugepages-1Gi", "4Gi"),
    ]);
    let computed = compute(&machine, &configured(json!({"evictionHard": {}})));
    assert_eq!(allocatable(&computed, "memory"), "0");
    assert_eq!(allocatable(&computed, "hugepages-2Mi"), "1Gi");
    assert!(
        computed.accepted,
        "the check at the start does not know them"
    );
}

#[test]
fn reserved_cpus_replace_both_reservations() {
    let machine = capacity(&[("cpu", "8")]);
    let configuration = configured(json!({
        "reservedSystemCPUs": "0-1,5",
        "kubeReserved": {"cpu": "500m"},
        "systemReserved": {"cpu": "500m"},
    }));
    assert_eq!(allocatable(&compute(&machine, &configuration), "cpu"), "5");
}

#[test]
fn what_the_kubelet_refuses_at_its_start() {
    let machine = capacity(&[("cpu", "2"), ("memory", "4Gi")]);
    for (document, expected) in [
        (
            json!({"kubeReserved": {"memory": "5Gi"}}),
            "has a reservation of",
        ),
        (json!({"kubeReserved": {"pods": "5"}}), "cannot reserve"),
        (
            json!({"systemReserved": {"cpu": "-1"}}),
            "cannot be negative",
        ),
        (json!({"systemReserved": {"cpu": "1core"}}), "suffix"),
        (
            json!({"evictionHard": {"memory.available": "0"}}),
            "must be positive",
        ),
        (
            json!({"evictionSoft": {"memory.available": "1Gi"}}),
            "grace period",
        ),
        (
            json!({"enforceNodeAllocatable": ["none", "pods"]}),
            "cannot be combined",
        ),
        (
            json!({"enforceNodeAllocatable": ["kube-reserved"]}),
            "kubeReservedCgroup",
        ),
        (json!({"cpuManagerPolicy": "static"}), "greater than zero"),
        (
            json!({"memoryManagerPolicy": "Static", "reservedMemory": [
                {"numaNode": 0, "limits": {"memory": "1Gi"}}]}),
            "not equal",
        ),
        (json!({"reservedSystemCPUs": "3-1"}), "unable to parse"),
        (
            json!({"shutdownGracePeriod": "10s", "shutdownGracePeriodCriticalPods": "20s"}),
            "must be <=",
        ),
        (
            json!({"imageGCHighThresholdPercent": 70}),
            "must be less than",
        ),
        (json!({"nodeLeaseDurationSeconds": -1}), "greater than 0"),
    ] {
        let computed = compute(&machine, &configured(document.clone()));
        assert!(!computed.accepted, "{document}");
        let said = computed.refusals.join("\n");
        assert!(said.contains(expected), "{document}: {said}");
    }
    assert!(compute(&machine, &configured(json!({}))).accepted);
}

#[test]
fn files_alone_decide_on_some_refusals() {
    let reserved = json!({"cpu": "100m"});
    let options = |policy: &str, name: &str, value: &str| {
        json!({"cpuManagerPolicy": policy, "cpuManagerPolicyOptions": {name: value},
               "kubeReserved": reserved})
    };
    for (document, expected) in [
        (json!({"kubeReserved": {"memory": "500MB"}}), "suffix"),
        (
            json!({"evictionHard": {"memory.available": "100MB"}}),
            "suffix",
        ),
        (
            json!({"evictionHard": {"memory.availble": "1Gi"}}),
            "unsupported",
        ),
        (
            json!({"evictionSoft": {"memory.available": "1Gi"}}),
            "grace",
        ),
        (
            json!({"evictionMinimumReclaim": {"memory.available": "x"}}),
            "x",
        ),
        (json!({"cpuManagerPolicy": "static"}), "greater than zero"),
        (json!({"cpuManagerPolicy": "Static"}), "unknown policy"),
        (
            json!({"memoryManagerPolicy": "Static"}),
            "requires reservedMemory",
        ),
        (
            json!({"containerLogMaxSize": "10MB"}),
            "containerLogMaxSize",
        ),
        (options("", "full-pcpus-only", "true"), "does not take"),
        (options("static", "bogus", "true"), "does not take bogus"),
        (
            options("static", "full-pcpus-only", "yes"),
            "does not take full",
        ),
    ] {
        let said = refusals_of_files(&configured(document.clone())).join("\n");
        assert!(said.contains(expected), "{document}: {said}");
    }
    for document in [
        json!({"cpuManagerPolicy": "static", "reservedSystemCPUs": "0-1"}),
        options("static", "full-pcpus-only", "T"),
        json!({"memoryManagerPolicy": "BestEffort"}),
    ] {
        assert!(refusals_of_files(&configured(document)).is_empty());
    }
}

#[test]
fn zero_in_a_file_is_the_default_and_in_configz_it_is_zero() {
    let document = json!({"maxPods": 0, "nodeLeaseDurationSeconds": 0});
    let of_file = KubeletConfiguration::from_files(Some(document.clone()), []).unwrap();
    assert_eq!(of_file.pod_limit(4), DEFAULT_MAX_PODS);
    assert_eq!(of_file.node_lease_duration_seconds, None);
    let of_configz = KubeletConfiguration::from_configz(document).unwrap();
    assert_eq!(of_configz.pod_limit(4), 0);
}

#[test]
fn reserved_memory_is_judged_whatever_the_policy() {
    let machine = capacity(&[("memory", "4Gi")]);
    let refused = |policy: &str, limits: serde_json::Value| {
        let configuration = configured(json!({
            "memoryManagerPolicy": policy, "reservedMemory": limits,
        }));
        compute(&machine, &configuration).refusals.join("\n")
    };
    let one = json!([{"numaNode": 0, "limits": {"memory": "1Gi"}}]);
    assert_eq!(refused("None", one.clone()), "");
    let twice = json!([one[0], one[0]]);
    assert!(refused("None", twice).contains("twice"));
    let cpu = json!([{"numaNode": 0, "limits": {"cpu": "1"}}]);
    assert!(refused("", cpu).contains("neither memory nor hugepages"));
    let none = json!([{"numaNode": 0, "limits": {"memory": "0"}}]);
    assert!(refused("None", none).contains("may not be zero"));
    let huge = json!([{"numaNode": 0, "limits": {"memory": "1e30"}}]);
    assert_eq!(refused("None", huge.clone()), "");
    assert!(refused("Static", huge).contains("out of range"));
    assert!(refused("BestEffort", one.clone()).contains("not available"));
    assert!(refused("static", one).contains("unknown policy"));
    assert!(refused("Static", json!([])).contains("requires reservedMemory"));
}

#[test]
fn the_memory_manager_is_content_when_the_sums_agree() {
    let machine = capacity(&[("memory", "4Gi")]);
    let configuration = configured(json!({
        "memoryManagerPolicy": "Static",
        "systemReserved": {"memory": "924Mi"},
        "reservedMemory": [{"numaNode": 0, "limits": {"memory": "1Gi"}}],
    }));
    let computed = compute(&machine, &configuration);
    assert!(computed.accepted, "{:?}", computed.refusals);
}

proptest! {
    /// Allocatable is never below nothing nor above the capacity, and what an accepted
    /// configuration keeps back is exactly the difference.
    #[test]
    fn the_lines_add_up(
        memory in 1_i64..1 << 50,
        kube in 0_i64..1 << 50,
        system in 0_i64..1 << 50,
        percent in 0_u8..=100,
    ) {
        let machine = capacity(&[("memory", &memory.to_string())]);
        let computed = compute(&machine, &configured(json!({
            "kubeReserved": {"memory": kube.to_string()},
            "systemReserved": {"memory": system.to_string()},
            "evictionHard": {"memory.available": format!("{percent}%")},
        })));
        let line = computed.resources["memory"];
        prop_assert!(!line.allocatable.is_negative());
        prop_assert!(line.allocatable <= line.capacity);
        if computed.accepted {
            let mut sum = line.allocatable;
            sum += line.reserved();
            prop_assert_eq!(sum, line.capacity);
        }
    }
}

/// Without the configuration, huge pages are known all the same.
#[test]
fn huge_pages_are_told_apart_from_what_is_held_back() {
    let mut node = Node::default();
    let held_back = |node: &Node| {
        let unexplained = Unexplained::of(node, String::new());
        let memory = unexplained.reserved["memory"];
        (memory.to_string(), unexplained.hugepages.to_string())
    };
    for (name, capacity, allocatable) in [
        ("memory", "376Gi", "215Gi"),
        ("hugepages-1Gi", "160Gi", "160Gi"),
        ("hugepages-2Mi", "0", "0"),
    ] {
        node.status.capacity.insert(name.into(), capacity.into());
        (node.status.allocatable).insert(name.into(), allocatable.into());
    }
    assert_eq!(held_back(&node), ("1Gi".to_owned(), "160Gi".to_owned()));
    (node.status.allocatable).insert("memory".into(), "376Gi".into());
    assert_eq!(held_back(&node), ("0".to_owned(), "0".to_owned()));
}
