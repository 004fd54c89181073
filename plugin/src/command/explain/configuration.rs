//! Reads the kubelet configuration that the flags describe.

use anyhow::Result;
use nodelife_audit::kubelet_start;
use nodelife_audit::kubelet_start::{Cgroups, Document, Target};
use nodelife_core::allocatable::KubeletConfiguration;
use nodelife_core::allocatable::provider::{NodeSize, Provider};
use nodelife_core::format::join;
use nodelife_core::quantity::{Format, Quantity};
use serde_json::{Map, Value};

use crate::cli::KubeletArgs;
use crate::command::kubelet_files;
use crate::exit::KubeletRefuses;

/// The configuration in the files; none when no flag names one.
/// Fails for a file that cannot be read or is no kubelet configuration, or with which no kubelet starts.
pub(super) fn of_files(args: &KubeletArgs) -> Result<Option<KubeletConfiguration>> {
    let folder = args.kubelet_config_dir.as_deref();
    let files = kubelet_files::read(args.kubelet_config.as_deref(), folder)?;
    if files.file.is_none() && files.drop_ins.is_empty() {
        return Ok(None);
    }
    let document = Document::of(&files);
    check(&document)?;
    Ok(Some(KubeletConfiguration::from_merged(
        document.fields.into(),
    )?))
}

/// Refuses what a kubelet of every known version refuses: nobody says of which version these are.
fn check(document: &Document) -> Result<(), KubeletRefuses> {
    let mut refusals = Vec::new();
    for version in Target::all() {
        refusals = kubelet_start::judge_files(document, version, Cgroups::V2).refusals;
        if refusals.is_empty() {
            return Ok(());
        }
    }
    let (oldest, newest) = Target::RANGE;
    Err(KubeletRefuses(format!(
        "kubelets of {oldest} to {newest} refuse to start with this configuration: {}",
        join(refusals, "; ")
    )))
}

/// The defaults of a kubelet with an empty configuration file.
pub(super) fn of_defaults() -> Result<KubeletConfiguration> {
    let empty = Value::Object(Map::new());
    Ok(KubeletConfiguration::from_files(Some(empty), [])?)
}

pub(super) fn of_provider(provider: Provider, machine: NodeSize) -> Result<KubeletConfiguration> {
    let mut configuration = of_defaults()?;
    let reserved = provider.formula(machine);
    let bytes = |amount| Quantity::new(amount, Format::BinarySi).to_string();
    let cpu = Quantity::from_milli(reserved.cpu_milli, Format::DecimalSi);
    configuration.kube_reserved = [
        ("cpu", cpu.to_string()),
        ("memory", bytes(reserved.memory)),
        ("ephemeral-storage", bytes(reserved.ephemeral_storage)),
    ]
    .into_iter()
    .map(|(name, amount)| (name.into(), amount.into()))
    .collect();
    if provider.is_k3s() {
        let flag = "imagefs.available<5%,nodefs.available<5%";
        configuration.set_eviction_hard(flag)?;
    } else if reserved.memory_eviction == 0 {
        configuration.eviction_hard.clear();
    } else {
        let threshold = bytes(reserved.memory_eviction);
        configuration
            .eviction_hard
            .insert("memory.available".into(), threshold.into());
    }
    Ok(configuration)
}
