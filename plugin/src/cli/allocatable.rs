//! `explain allocatable`

use clap::Args;
use nodelife_core::allocatable::Amounts;
use nodelife_core::allocatable::provider::Provider;
use nodelife_core::quantity::Quantity;

use super::format::OutputParser;
use super::{EvictionArgs, ExplainFormat, InputArgs, KubeletArgs, NodeArgs, Output};

/// Shows how Capacity becomes Allocatable, line by line, as the kubelet computes it.
#[derive(Debug, Args)]
#[command(before_help = "\
Examples:
  # A node of a snapshot, whose kubelet configuration is in the snapshot
  kubectl nodelife explain allocatable worker-1 -f snapshot.json.gz

  # A machine that does not exist yet
  kubectl nodelife explain allocatable --capacity cpu=16,memory=32Gi,ephemeral-storage=100Gi \\
    --kubelet-config kubelet.yaml --eviction-hard 'memory.available<500Mi,nodefs.available<10%'

  # Compare the nodes' reservations with their provider's formula
  kubectl nodelife explain allocatable --provider eks

  # What EKS would reserve on a machine
  kubectl nodelife explain allocatable --capacity cpu=4,memory=16Gi --provider eks --max-pods 58
")]
pub(crate) struct AllocatableArgs {
    /// Which nodes.
    #[command(flatten)]
    pub(crate) node: NodeArgs,
    /// Where the nodes come from.
    #[command(flatten)]
    pub(crate) input: InputArgs,
    /// Capacity of a machine, cpu=16,memory=32Gi,…; contacts no cluster
    #[arg(long, value_name = "RESOURCES", value_parser = capacity, conflicts_with_all = ["files", "configz", "nodes", "selector"])]
    pub(crate) capacity: Option<Capacity>,
    /// How the kubelets run.
    #[command(flatten)]
    pub(crate) kubelet: KubeletArgs,
    /// Flags of the kubelets.
    #[command(flatten)]
    pub(crate) eviction: EvictionArgs,
    /// Reserve what this provider's formula says: eks, gke, aks, openshift or k3s
    #[arg(long, value_name = "PROVIDER", value_parser = provider, conflicts_with_all = ["kubelet_config", "kubelet_config_dir", "configz"])]
    pub(crate) provider: Option<Provider>,
    /// Maximum number of pods on the machine, also for the provider's formula
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i64).range(0..))]
    pub(crate) max_pods: Option<i64>,
    /// Format
    #[arg(long, short, value_name = "FORMAT", value_parser = OutputParser::<ExplainFormat>::new(), default_value = "table")]
    pub(crate) output: Output<ExplainFormat>,
}

/// Amounts by resource name; a type of its own, since clap reads it from one word.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Capacity(pub(crate) Amounts);

fn capacity(text: &str) -> Result<Capacity, String> {
    let mut amounts = Amounts::new();
    for pair in text.split(',') {
        let (name, amount) = pair
            .split_once('=')
            .ok_or("expected RESOURCE=AMOUNT, such as memory=32Gi")?;
        let quantity =
            Quantity::parse_strict(amount).map_err(|error| format!("{name}={amount}: {error}"))?;
        if quantity.is_negative() {
            return Err(format!("{name}={amount} is negative"));
        }
        amounts.insert(name.into(), quantity);
    }
    Ok(Capacity(amounts))
}

fn provider(text: &str) -> Result<Provider, String> {
    Provider::parse(text).ok_or_else(|| "expected eks, gke, aks, openshift, k3s or rke2".to_owned())
}
