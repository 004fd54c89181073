//! Extreme amounts, counts and times: every rule and explanation handles them. (Overflow panics in
//! tests.)

use std::sync::LazyLock;

use jiff::Timestamp;
use nodelife_audit::kubelet_start::Target;
use nodelife_audit::{Context, Selection, failure};
use nodelife_core::allocatable;
use nodelife_core::allocatable::provider::{NodeSize, Provider};
use nodelife_core::go_duration::GoDuration;
use nodelife_core::quantity::Quantity;
use nodelife_core::shutdown;
use nodelife_core::snapshot::Snapshot;
use nodelife_core::zone::{Settings, ZoneReport};
use proptest::prelude::*;
use serde_json::{Value, json};

const AMOUNTS: [&str; 16] = [
    "-1",
    "0",
    "1n",
    "-1n",
    "1e29",
    "-1e29",
    "1e30",
    "9223372036854775807",
    "-9223372036854775808",
    "9e18",
    "9e15",
    "8Ei",
    "-8Ei",
    "Gi",
    "many",
    "",
];

const TIMES: [&str; 4] = [
    "9999-12-30T22:00:00Z",
    "-009999-01-02T01:59:59Z",
    "1970-01-01T00:00:00Z",
    "0001-01-01T00:00:00Z",
];

const DURATIONS: [&str; 5] = ["0s", "-1s", "2562047h47m16s", "-2562047h47m16s", "1ns"];

/// Those that most fields take come first.
const NUMBERS: [i64; 7] = [0, 2_147_483_647, -1, i64::MAX, 1, -2_147_483_648, i64::MIN];

/// A cluster that is whole, and one in which every second thing is wrong already.
static CLUSTERS: LazyLock<[Value; 2]> = LazyLock::new(|| {
    [
        include_str!("../../../examples/healthy-cluster.json"),
        include_str!("../../../examples/faulty-cluster.json"),
    ]
    .map(|text| serde_json::from_str(text).unwrap())
});

/// Replaces every scalar of the kinds above that `chosen` picks.
fn spoil(value: &mut Value, numbers: &[i64], chosen: &mut impl FnMut() -> Option<usize>) {
    let kind: &[&str] = match value {
        Value::Array(items) => {
            return items
                .iter_mut()
                .for_each(|item| spoil(item, numbers, chosen));
        }
        Value::Object(fields) => {
            return fields
                .values_mut()
                .for_each(|value| spoil(value, numbers, chosen));
        }
        Value::Number(_) => {
            if let Some(which) = chosen() {
                *value = json!(numbers.get(which % numbers.len()).unwrap());
            }
            return;
        }
        Value::String(text) if Quantity::parse(text).is_ok() => &AMOUNTS,
        Value::String(text) if text.parse::<Timestamp>().is_ok() => &TIMES,
        Value::String(text) if GoDuration::parse(text).is_some() => &DURATIONS,
        _ => return,
    };
    if let Some(which) = chosen() {
        *value = json!(kind.get(which % kind.len()).unwrap());
    }
}

/// Everything that core says of a snapshot.
fn look_at(snapshot: &Snapshot) {
    let selection = Selection {
        target: Target::all().last(),
        ..Selection::default()
    };
    let audit = nodelife_audit::audit(snapshot, &selection, Timestamp::UNIX_EPOCH);
    assert_eq!(
        audit.checked + audit.skipped.len(),
        nodelife_audit::all().count()
    );
    let settings = Settings::for_version(snapshot.server_version.as_deref());
    ZoneReport::of(&snapshot.nodes, &settings, snapshot.taken_at);
    let now = snapshot.taken_at.unwrap_or_default();
    let context = Context::new(snapshot, Some(settings), now);
    for node in &snapshot.nodes {
        let pods = || {
            let pods = snapshot.pods.iter();
            pods.filter(|pod| pod.spec.node_name == node.metadata.name)
        };
        failure::timeline(&context, node);
        if let Some(known) = snapshot.kubelet_configs.get(&node.metadata.name) {
            allocatable::of_node(node, known);
            shutdown::of_node(node, known, pods());
        }
    }
}

proptest! {
    #[test]
    fn absurd_values_end_no_audit(
        faulty in any::<bool>(),
        every in 1_usize..200,
        seed in any::<u64>(),
    ) {
        let [healthy, ill] = &*CLUSTERS;
        let cluster = if faulty { ill } else { healthy };
        let spoiled = |numbers: &[i64]| {
            let mut state = seed;
            let mut draw = || {
                // SplitMix64.
                state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
                let mut mixed = state;
                mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
                mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
                usize::try_from((mixed ^ (mixed >> 31)) >> 33).unwrap()
            };
            let mut document = cluster.clone();
            spoil(&mut document, numbers, &mut || (draw() % every == 0).then(&mut draw));
            serde_json::from_value::<Snapshot>(document)
        };
        // Not every field takes every number, but each takes some.
        let snapshot = spoiled(&NUMBERS)
            .or_else(|_| spoiled(&NUMBERS[..4]))
            .or_else(|_| spoiled(&NUMBERS[..3]))
            .or_else(|_| spoiled(&NUMBERS[..2]));
        look_at(&snapshot.unwrap());
    }
}

/// Each amount, everywhere at once, on nodes of every provider.
#[test]
fn absurd_machines_end_no_audit() {
    let [healthy, _] = &*CLUSTERS;
    for (which, amount) in AMOUNTS.iter().enumerate() {
        let mut snapshot: Snapshot = serde_json::from_value(healthy.clone()).unwrap();
        let versions = ["v1.33.1-eks-1", "v1.33.1-gke.1", "v1.33.1+k3s1", "v1.33.1"];
        for (node, version) in snapshot.nodes.iter_mut().zip(versions.iter().cycle()) {
            let status = &mut node.status;
            status.node_info.kubelet_version = (*version).into();
            for list in [&mut status.capacity, &mut status.allocatable] {
                for value in list.values_mut() {
                    *value = (*amount).into();
                }
            }
        }
        look_at(&snapshot);
        // Capacity and Allocatable that are far from each other.
        let other = AMOUNTS.get((which + 5) % AMOUNTS.len()).unwrap();
        for node in &mut snapshot.nodes {
            for value in node.status.allocatable.values_mut() {
                *value = (*other).into();
            }
        }
        look_at(&snapshot);
    }
    for name in ["eks", "gke", "aks", "openshift", "k3s"] {
        for cpu in NUMBERS {
            let machine = NodeSize {
                cpu,
                memory: cpu,
                storage: cpu,
                pods: cpu,
                ..NodeSize::default()
            };
            Provider::parse(name).unwrap().formula(machine);
        }
    }
}
