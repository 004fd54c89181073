//! Fuzz target: configuration file, drop-ins and flags of a kubelet. Each input is refused, or
//! Allocatable and the kubelet's refusals are computed.
//!
//! An input is a stream of YAML documents: the machine and a flag as plain text, the file, and
//! drop-ins.

#![no_main]

use libfuzzer_sys::fuzz_target;
use nodelife_core::allocatable;
use nodelife_core::allocatable::{Amounts, KubeletConfiguration};
use nodelife_core::quantity::Quantity;
use nodelife_core::text::Str;
use serde_json::Value;

fuzz_target!(|text: &str| {
    let mut parts = text.split("\n---\n");
    let machine = capacity(parts.next().unwrap_or_default());
    let flag = parts.next().unwrap_or_default();
    let mut documents = parts.filter_map(|part| serde_saphyr::from_str::<Value>(part).ok());
    let file = documents.next();
    if let Some(file) = file.clone()
        && let Ok(configuration) = KubeletConfiguration::from_configz(file)
    {
        let _ = allocatable::compute(&machine, &configuration);
    }
    let Ok(mut configuration) = KubeletConfiguration::from_files(file, documents) else {
        return;
    };
    let _ = configuration.set_eviction_hard(flag);
    let _ = allocatable::compute(&machine, &configuration);
    let _ = configuration.pod_limit(machine.len().try_into().unwrap_or(i64::MAX));
});

/// `cpu=4,memory=16Gi`
fn capacity(text: &str) -> Amounts {
    text.split(',')
        .filter_map(|pair| pair.split_once('='))
        .filter_map(|(name, amount)| Some((Str::from(name), Quantity::parse(amount).ok()?)))
        .collect()
}
