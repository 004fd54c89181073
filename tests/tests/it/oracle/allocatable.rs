//! Compares Allocatable with the kubelet's own code.

use nodelife_core::allocatable::{self, Allocatable, KubeletConfiguration};
use nodelife_tests::oracle::{self, AllocatableAnswer};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use nodelife_tests::seed;

#[test]
fn allocatable_equals_what_the_kubelet_publishes() {
    let count = seed::cases(10_000);
    let cases = seed::draw(count, &case());
    let answers: Vec<AllocatableAnswer> = oracle::ask("allocatable", &cases).unwrap();
    seed::agree(&cases, &answers, compare);
    let accepted = answers.iter().filter(|a| a.refusal().is_none()).count();
    assert!(
        (count / 10..count * 9 / 10).contains(&accepted),
        "the kubelet accepts {accepted} of {count}"
    );
}

fn compare(case: &Value, kubelet: &AllocatableAnswer) -> Result<(), String> {
    let refusal = kubelet.refusal();
    let configuration =
        match KubeletConfiguration::from_files(Some(case["configuration"].clone()), []) {
            Ok(configuration) => configuration,
            Err(_) if refusal.is_some() => return Ok(()),
            Err(error) => return Err(format!("ours does not read it: {error}")),
        };
    let cores = case["cpu"].as_i64().unwrap();
    let capacity = capacity(case, configuration.pod_limit(cores));
    let computed = allocatable::compute(&capacity, &configuration);
    if computed.accepted != refusal.is_none() {
        return Err(format!(
            "ours says accepted: {}, {:?}",
            computed.accepted, computed.refusals
        ));
    }
    if !computed.accepted {
        return Ok(());
    }
    let ours = published(&computed);
    if ours != kubelet.allocatable {
        return Err(format!("ours is {ours:?}"));
    }
    Ok(())
}

fn published(computed: &Allocatable) -> Map<String, Value> {
    computed
        .resources
        .iter()
        .map(|(name, line)| (name.to_string(), line.allocatable.to_string().into()))
        .collect()
}

/// The machine as its node's status would have it.
fn capacity(case: &Value, pods: i64) -> allocatable::Amounts {
    let mut list = vec![
        ("cpu".to_owned(), case["cpu"].to_string()),
        (
            "memory".to_owned(),
            format!("{}Ki", case["memory"].as_u64().unwrap() / 1024),
        ),
        (
            "ephemeral-storage".to_owned(),
            format!("{}Ki", case["ephemeralStorage"].as_u64().unwrap() / 1024),
        ),
        ("pods".to_owned(), pods.to_string()),
    ];
    for (kib, pages) in case["hugePages"].as_object().unwrap() {
        let kib: u64 = kib.parse().unwrap();
        list.push((
            format!("hugepages-{}Mi", kib / 1024),
            format!("{}Ki", kib * pages.as_u64().unwrap()),
        ));
    }
    allocatable::amounts(
        &list
            .into_iter()
            .map(|(name, text)| (name.into(), text.into()))
            .collect(),
    )
}

fn case() -> impl Strategy<Value = Value> {
    let machine = (
        1_u64..=128,
        1_u64..=512 << 20,
        1_u64..=2 << 30,
        prop::option::weighted(0.2, 0_u64..2000),
    );
    (machine, configuration()).prop_map(|((cpu, memory, storage, pages), configuration)| {
        let pages: Map<String, Value> = pages
            .map(|pages| ("2048".to_owned(), pages.into()))
            .into_iter()
            .collect();
        json!({
            "cpu": cpu,
            // What a machine tells is a whole number of KiB.
            "memory": memory * 1024,
            "ephemeralStorage": storage * 1024,
            "hugePages": pages,
            "configuration": configuration,
        })
    })
}

/// What a configuration may hold that decides over Allocatable or over the start; some of it the
/// kubelet refuses.
pub(crate) fn configuration() -> impl Strategy<Value = Value> {
    (reservations(), others(), memory_manager()).prop_map(|(mut document, others, memory)| {
        for (name, value) in others.into_iter().chain(memory) {
            document[name] = value;
        }
        document
    })
}

/// Fields that change nothing but whether the kubelet starts, each seldom given.
fn others() -> impl Strategy<Value = Vec<(&'static str, Value)>> {
    let enforced = prop::sample::select(vec![
        "pods",
        "pods",
        "pods",
        "system-reserved",
        "kube-reserved",
        "system-reserved-compressible",
        "kube-reserved-compressible",
        "none",
        "nodes",
    ]);
    let duration = || prop::sample::select(vec!["0s", "10s", "30s", "500ms", "-1s", "1m30s"]);
    let priority = prop::sample::select(vec![-5, 0, 1000, 2_000_000_000]);
    let groups = (priority, 0..100).prop_map(
        |(priority, seconds)| json!({"priority": priority, "shutdownGracePeriodSeconds": seconds}),
    );
    let fields: Vec<(&'static str, BoxedStrategy<Value>)> = vec![
        (
            "enforceNodeAllocatable",
            prop::collection::vec(enforced, 0..3)
                .prop_map(|list| json!(list))
                .boxed(),
        ),
        ("systemReservedCgroup", Just(json!("/system")).boxed()),
        ("kubeReservedCgroup", Just(json!("/kube")).boxed()),
        (
            "cgroupsPerQOS",
            any::<bool>().prop_map(|on| json!(on)).boxed(),
        ),
        (
            "shutdownGracePeriod",
            duration().prop_map(|text| json!(text)).boxed(),
        ),
        (
            "shutdownGracePeriodCriticalPods",
            duration().prop_map(|text| json!(text)).boxed(),
        ),
        (
            "shutdownGracePeriodByPodPriority",
            prop::collection::vec(groups, 0..3)
                .prop_map(|list| json!(list))
                .boxed(),
        ),
        (
            "imageGCHighThresholdPercent",
            (-1..=101).prop_map(|percent| json!(percent)).boxed(),
        ),
        (
            "imageGCLowThresholdPercent",
            (-1..=101).prop_map(|percent| json!(percent)).boxed(),
        ),
        (
            "nodeLeaseDurationSeconds",
            (-1..60).prop_map(|seconds| json!(seconds)).boxed(),
        ),
        ("maxPods", (-1..300).prop_map(|pods| json!(pods)).boxed()),
        ("podsPerCore", (-1..20).prop_map(|pods| json!(pods)).boxed()),
    ];
    let fields: Vec<_> = fields
        .into_iter()
        .map(|(name, value)| {
            let named = value.prop_map(move |value| (name, value));
            prop::option::weighted(0.06, named)
        })
        .collect();
    fields.prop_map(|given| given.into_iter().flatten().collect())
}

/// Memory by NUMA node: half of the time what the static policy wants of the configuration beside
/// it, down to the default threshold of 100Mi, and else something.
fn memory_manager() -> impl Strategy<Value = Vec<(&'static str, Value)>> {
    let policy = prop::sample::select(vec![
        "Static",
        "Static",
        "Static",
        "None",
        "BestEffort",
        "x",
    ]);
    let name = prop_oneof![
        20 => Just("memory"), 2 => Just("hugepages-2Mi"), 1 => Just("cpu"),
    ];
    let amount = prop_oneof![
        20 => "[1-9][0-9]{0,2}Mi", 1 => "0|1\\.5|x|-1Mi|1e30",
    ];
    let wild = prop::collection::vec((0..2, name, amount), 0..3).prop_map(|limits| {
        let limits = limits
            .into_iter()
            .map(|(node, name, amount)| json!({"numaNode": node, "limits": {name: amount}}));
        vec![("reservedMemory", limits.collect::<Value>())]
    });
    let fitting = (1_u32..2000, 1_u32..100).prop_map(|(reserved, on_second)| {
        let on_first = reserved + 100 - on_second;
        vec![
            ("kubeReserved", json!({"memory": format!("{reserved}Mi")})),
            ("systemReserved", json!({})),
            ("evictionHard", json!({"memory.available": "100Mi"})),
            (
                "reservedMemory",
                json!([
                    {"numaNode": 0, "limits": {"memory": format!("{on_first}Mi")}},
                    {"numaNode": 1, "limits": {"memory": format!("{on_second}Mi")}},
                ]),
            ),
        ]
    });
    let given = (policy, prop_oneof![1 => wild.boxed(), 1 => fitting.boxed()]).prop_map(
        |(policy, mut fields)| {
            fields.push(("memoryManagerPolicy", json!(policy)));
            fields
        },
    );
    prop::option::weighted(0.15, given).prop_map(Option::unwrap_or_default)
}

/// Reservations and thresholds.
fn reservations() -> impl Strategy<Value = Value> {
    let sparse = |strategy: BoxedStrategy<Value>| prop::option::weighted(0.7, strategy);
    (
        sparse(reservation()),
        sparse(reservation()),
        sparse(thresholds()),
        any::<bool>(),
        prop::option::weighted(
            0.1,
            prop::sample::select(vec!["0", "0-1", "0,3", "5-4", "x", "0-300"]),
        ),
    )
        .prop_map(|(kube, system, hard, merge, cpus)| {
            let mut document = json!({
                "apiVersion": "kubelet.config.k8s.io/v1beta1",
                "kind": "KubeletConfiguration",
                // Whether the test's machine has cgroup v1 is no part of the question.
                "failCgroupV1": false,
            });
            let fields = [
                ("kubeReserved", kube),
                ("systemReserved", system),
                ("evictionHard", hard),
            ];
            for (name, value) in fields {
                if let Some(value) = value {
                    document[name] = value;
                }
            }
            if merge {
                document["mergeDefaultEvictionSettings"] = json!(true);
            }
            if let Some(cpus) = cpus {
                document["reservedSystemCPUs"] = json!(cpus);
            }
            document
        })
}

fn reservation() -> BoxedStrategy<Value> {
    let cpu =
        prop_oneof![9 => "[1-9][0-9]{0,3}m", 2 => "[0-2]", 1 => "0\\.[0-9]{1,4}", 1 => "-1|x|1 "];
    let bytes = prop_oneof![
        9 => "[1-9][0-9]{0,2}Mi", 2 => "[0-3](\\.[0-9])?Gi", 1 => "[1-9]e8", 1 => "[0-9]{3,10}", 1 => "-1Mi|1GB|Gi"
    ];
    let names = prop_oneof![
        40 => Just(None),
        1 => Just(Some("nvidia.com/gpu")),
        1 => Just(Some("pid")),
        1 => Just(Some("hugepages-2Mi")),
    ];
    (
        prop::option::of(cpu),
        prop::option::of(bytes.clone()),
        prop::option::of(bytes),
        names,
    )
        .prop_map(|(cpu, memory, storage, other)| {
            let mut list = Map::new();
            for (name, amount) in [
                ("cpu", cpu),
                ("memory", memory),
                ("ephemeral-storage", storage),
            ] {
                if let Some(amount) = amount {
                    list.insert(name.to_owned(), amount.into());
                }
            }
            if let Some(other) = other {
                list.insert(other.to_owned(), "1000".into());
            }
            list.into()
        })
        .boxed()
}

fn thresholds() -> BoxedStrategy<Value> {
    let amount = prop_oneof![
        6 => "[1-9][0-9]{0,2}Mi", 6 => "[0-9]{1,2}%", 3 => "[0-9]{1,2}\\.[0-9]{1,3}%", 1 => "0|0%|100%|101%|-5%|-1Mi|x|%"
    ];
    let signal = prop::sample::select(vec![
        "memory.available",
        "nodefs.available",
        "nodefs.inodesFree",
        "imagefs.available",
        "pid.available",
    ]);
    let signal = prop_oneof![40 => signal, 1 => Just("memory.free"), 1 => Just("allocatableMemory.available")];
    prop::collection::btree_map(signal.prop_map(str::to_owned), amount, 0..4)
        .prop_map(|map| json!(map))
        .boxed()
}
