//! Compares the eviction thresholds from configuration file, drop-ins and flags with the kubelet's
//! own code.

use std::collections::BTreeMap;

use nodelife_core::allocatable::{
    self, Amounts, KubeletConfiguration, Threshold, parse_thresholds,
};
use nodelife_core::quantity::Quantity;
use nodelife_tests::oracle::{self, EvictionAnswer};
use proptest::prelude::*;
use serde_json::{Value, json};

use nodelife_tests::seed;

#[test]
fn eviction_thresholds_equal_the_kubelets() {
    let count = seed::cases(10_000);
    let cases = seed::draw(count, &case());
    let answers: Vec<EvictionAnswer> = oracle::ask("eviction", &cases).unwrap();
    seed::agree(&cases, &answers, compare);
    let accepted = answers.iter().filter(|a| a.refusal().is_none()).count();
    assert!(
        (count / 4..count * 9 / 10).contains(&accepted),
        "the kubelet accepts {accepted} of {count}"
    );
}

fn compare(case: &Value, kubelet: &EvictionAnswer) -> Result<(), String> {
    let configuration = match effective(case) {
        Ok(configuration) => configuration,
        Err(_) if !kubelet.load.is_empty() => return Ok(()),
        Err(error) => return Err(format!("ours does not read it: {error}")),
    };
    if !kubelet.load.is_empty() {
        return Err("ours reads it".to_owned());
    }
    let maps = [
        ("hard", &configuration.eviction_hard, &kubelet.hard),
        ("soft", &configuration.eviction_soft, &kubelet.soft),
        (
            "grace periods",
            &configuration.eviction_soft_grace_period,
            &kubelet.grace_period,
        ),
        (
            "minimum reclaim",
            &configuration.eviction_minimum_reclaim,
            &kubelet.minimum_reclaim,
        ),
    ];
    for (name, ours, theirs) in maps {
        let ours: BTreeMap<&str, &str> = ours.iter().map(|(k, v)| (&**k, &**v)).collect();
        let theirs: BTreeMap<&str, &str> = theirs.iter().map(|(k, v)| (&**k, &**v)).collect();
        if ours != theirs {
            return Err(format!("{name}: ours is {ours:?}"));
        }
    }
    // A machine on which every threshold fits: what is refused is refused for itself.
    let large: Amounts = [
        ("cpu".into(), Quantity::parse("64").unwrap()),
        ("memory".into(), Quantity::parse("64Ti").unwrap()),
        ("ephemeral-storage".into(), Quantity::parse("64Ti").unwrap()),
    ]
    .into();
    let computed = allocatable::compute(&large, &configuration);
    if computed.accepted != kubelet.refusal().is_none() {
        return Err(format!("ours refuses: {:?}", computed.refusals));
    }
    if computed.accepted {
        let (ours, _) = parse_thresholds(&configuration.eviction_hard);
        let same = ours.len() == kubelet.thresholds.len()
            && ours.iter().all(|(signal, ours)| {
                let theirs = kubelet.thresholds.get(*signal);
                theirs.is_some_and(|theirs| match ours {
                    Threshold::Amount(amount) => {
                        Quantity::parse(&theirs.quantity).is_ok_and(|theirs| theirs == *amount)
                    }
                    Threshold::Share(share) => {
                        theirs.quantity.is_empty() && share.to_bits() == theirs.percentage.to_bits()
                    }
                })
            });
        if !same {
            return Err(format!("the thresholds: ours are {ours:?}"));
        }
    }
    Ok(())
}

fn effective(case: &Value) -> Result<KubeletConfiguration, String> {
    let file = Some(case["file"].clone()).filter(|file| !file.is_null());
    let drop_ins = case["dropIns"].as_array().unwrap().iter().cloned();
    let mut configuration =
        KubeletConfiguration::from_files(file, drop_ins).map_err(|error| error.to_string())?;
    for flag in case["flags"].as_array().unwrap() {
        let (name, text) = flag.as_str().unwrap().split_once('=').unwrap();
        assert_eq!(name, "--eviction-hard");
        configuration
            .set_eviction_hard(text)
            .map_err(|error| error.to_string())?;
    }
    Ok(configuration)
}

fn case() -> impl Strategy<Value = Value> {
    let flags = flag().prop_map(|flag| flag.into_iter().collect::<Vec<_>>());
    (
        prop::option::weighted(0.9, document()),
        prop::collection::vec(document(), 0..3),
        flags,
    )
        .prop_map(
            |(file, drop_ins, flags)| json!({"file": file, "dropIns": drop_ins, "flags": flags}),
        )
}

/// A file or a drop-in.
fn document() -> impl Strategy<Value = Value> {
    (
        map(amount(true).boxed()),
        map(amount(true).boxed()),
        map(period().boxed()),
        map(amount(true).boxed()),
        prop::option::weighted(0.3, any::<bool>()),
    )
        .prop_map(|(hard, soft, grace, reclaim, merge)| {
            let mut document = json!({
                "apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration",
            });
            let fields = [
                ("evictionHard", hard),
                ("evictionSoft", soft),
                ("evictionSoftGracePeriod", grace),
                ("evictionMinimumReclaim", reclaim),
            ];
            for (name, value) in fields {
                if let Some(value) = value {
                    document[name] = value;
                }
            }
            if let Some(merge) = merge {
                document["mergeDefaultEvictionSettings"] = json!(merge);
            }
            document
        })
}

/// Absent, null, empty, or a few signals.
fn map(value: BoxedStrategy<Value>) -> impl Strategy<Value = Option<Value>> {
    let few = prop::collection::btree_map(signal(), value, 0..4);
    prop_oneof![
        8 => Just(None),
        1 => Just(Some(Value::Null)),
        8 => few.prop_map(|map| Some(json!(map))),
    ]
}

/// The kubelet's flag, seldom given.
fn flag() -> impl Strategy<Value = Option<String>> {
    let pair = (
        signal(),
        amount(false),
        prop_oneof![20 => Just('<'), 1 => Just('~')],
    )
        .prop_map(|(signal, value, sign)| format!("{signal}{sign}{}", value.as_str().unwrap()));
    let pairs = prop::collection::vec(pair, 0..3);
    let spaced = (pairs, prop::sample::select(vec![",", " , ", ",,"]));
    let flag = spaced.prop_map(|(pairs, comma)| format!("--eviction-hard={}", pairs.join(comma)));
    prop::option::weighted(0.3, flag)
}

fn signal() -> impl Strategy<Value = String> {
    // Few signals, so that the maps of a case meet on them.
    prop_oneof![
        40 => prop::sample::select(vec!["memory.available", "nodefs.available", "imagefs.available"]),
        4 => prop::sample::select(vec!["nodefs.inodesFree", "imagefs.inodesFree", "pid.available"]),
        1 => prop::sample::select(vec!["memory.free", "allocatableMemory.available", "containerfs.available"]),
    ]
    .prop_map(str::to_owned)
}

fn amount(nullable: bool) -> impl Strategy<Value = Value> {
    let text = prop_oneof![
        20 => "[1-9][0-9]{0,2}(Mi|Gi)",
        20 => "[1-9][0-9]?%",
        4 => "[0-9]{1,2}\\.[0-9]{1,3}%",
        1 => "0|0%|100%|101%|-5%|-1Mi|x|%|1GB|",
    ];
    let null = if nullable { 3 } else { 0 };
    prop_oneof![45 => text.prop_map(Value::from), null => Just(Value::Null)]
}

fn period() -> impl Strategy<Value = Value> {
    let text =
        prop_oneof![20 => "[1-9][0-9]?(s|m|h)", 2 => "1m30s|500ms|1\\.5h", 1 => "0|-1s|5|x|"];
    text.prop_map(Value::from)
}
