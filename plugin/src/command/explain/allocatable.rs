//! `explain allocatable`

use std::io::Write as _;

use clap::Args;
use nodelife_core::allocatable;
use nodelife_core::allocatable::provider::{NodeSize, Provider};
use nodelife_core::allocatable::{
    Allocatable, AllocatableReport, Amounts, DEFAULT_MAX_PODS, KubeletConfiguration, Line,
    Unexplained,
};
use nodelife_core::object::{Node, ResourceList};
use nodelife_core::quantity::{Format, Quantity};
use nodelife_core::snapshot::Source;

use super::{alike, configuration};
use crate::cli::{
    ClusterArgs, ExplainFormat, InputArgs, KubeletArgs, NodeArgs, Output, OutputParser,
};
use crate::command::input::{self, Wanted};
use crate::exit::{Exit, ExitStatus, UsageError};
use crate::output::{Cell, Printer, Table, style};

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
    #[command(flatten)]
    pub(crate) node: NodeArgs,
    #[command(flatten)]
    pub(crate) input: InputArgs,
    /// Capacity of a machine, cpu=16,memory=32Gi,…; contacts no cluster
    #[arg(long, value_name = "RESOURCES", value_parser = capacity, conflicts_with_all = ["files", "configz", "nodes", "selector"])]
    pub(crate) capacity: Option<Amounts>,
    #[command(flatten)]
    pub(crate) kubelet: KubeletArgs,
    #[command(flatten)]
    pub(crate) flags: KubeletFlags,
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

/// Flags that replace what the kubelet's configuration says.
#[derive(Debug, Default, PartialEq, Args)]
pub(crate) struct KubeletFlags {
    /// The kubelet's flag, which replaces all hard thresholds:
    /// memory.available<500Mi,nodefs.available<10%
    #[arg(long, value_name = "THRESHOLDS")]
    eviction_hard: Option<String>,
    /// The kubelet's flag, which replaces kubeReserved: cpu=100m,memory=1Gi
    #[arg(long, value_name = "RESOURCES", value_parser = reserved)]
    kube_reserved: Option<ResourceList>,
    /// The same of systemReserved
    #[arg(long, value_name = "RESOURCES", value_parser = reserved)]
    system_reserved: Option<ResourceList>,
}

impl KubeletFlags {
    fn apply(&self, configuration: &mut KubeletConfiguration) -> anyhow::Result<()> {
        if let Some(thresholds) = &self.eviction_hard {
            configuration.set_eviction_hard(thresholds)?;
        }
        if let Some(amounts) = &self.kube_reserved {
            configuration.kube_reserved.clone_from(amounts);
        }
        if let Some(amounts) = &self.system_reserved {
            configuration.system_reserved.clone_from(amounts);
        }
        Ok(())
    }
}

/// Amounts as they were written: whether a kubelet takes them is for it to say.
fn reserved(text: &str) -> Result<ResourceList, &'static str> {
    let pairs = text.split(',').filter(|pair| !pair.is_empty()).map(amount);
    let pairs = pairs.map(|pair| pair.map(|(name, amount)| (name.into(), amount.into())));
    pairs.collect()
}

fn amount(pair: &str) -> Result<(&str, &str), &'static str> {
    pair.split_once('=')
        .ok_or("expected RESOURCE=AMOUNT, such as memory=32Gi")
}

fn capacity(text: &str) -> Result<Amounts, String> {
    let mut amounts = Amounts::new();
    for pair in text.split(',') {
        let (name, amount) = amount(pair)?;
        let quantity =
            Quantity::parse_strict(amount).map_err(|error| format!("{name}={amount}: {error}"))?;
        if quantity.is_negative() {
            return Err(format!("{name}={amount} is negative"));
        }
        amounts.insert(name.into(), quantity);
    }
    Ok(amounts)
}

fn provider(text: &str) -> Result<Provider, String> {
    Provider::parse(text).ok_or_else(|| "expected eks, gke, aks, openshift, k3s or rke2".to_owned())
}

/// The document, and beside it the nodes of its `unexplained`.
#[derive(Default)]
struct Report {
    document: AllocatableReport,
    unexplained: Vec<Node>,
}

pub(super) async fn run(
    args: AllocatableArgs,
    cluster: &ClusterArgs,
    printer: &mut Printer,
) -> Exit {
    let report = match &args.capacity {
        Some(capacity) => {
            let mut report = Report::default();
            let machine = of_machine(&args, capacity.clone())?;
            report.document.items.push(machine);
            report
        }
        None => of_nodes(&args, cluster, printer).await?,
    };
    if !printer.document("AllocatableReport", &report.document, &args.output)? {
        print(&report, printer)?;
        if let (Some(provider), None) = (args.provider, &args.capacity) {
            writeln!(printer.data())?;
            printer.paragraph(format_args!(
                "Computed by {provider}'s formula, not by the kubelets' configurations: {}. A \
                 node that differs is not necessarily wrong.",
                provider.describe()
            ))?;
        }
    }
    let refused = report.document.items.iter().any(|item| !item.accepted);
    Ok(ExitStatus::of_findings(refused))
}

fn of_machine(args: &AllocatableArgs, mut capacity: Amounts) -> anyhow::Result<Allocatable> {
    let stated = |name: &str| capacity.get(name).and_then(|amount| amount.value());
    let pods = args.max_pods.or_else(|| stated("pods"));
    let mut configuration = match args.provider {
        Some(provider) => by_formula(provider, &capacity, None, args)?,
        None => match configuration::of_files(&args.kubelet)? {
            Some(of_files) => of_files,
            None => configuration::of_defaults()?,
        },
    };
    args.flags.apply(&mut configuration)?;
    if pods.is_some() {
        configuration.max_pods = pods;
    }
    let cores = stated("cpu").unwrap_or_default();
    let limit = Quantity::new(configuration.pod_limit(cores), Format::DecimalSi);
    capacity.insert("pods".into(), limit);
    Ok(allocatable::compute(&capacity, &configuration))
}

fn by_formula(
    provider: Provider,
    capacity: &Amounts,
    node: Option<&Node>,
    args: &AllocatableArgs,
) -> anyhow::Result<KubeletConfiguration> {
    let stated = |name: &str| capacity.get(name).and_then(|amount| amount.value());
    let milli = capacity.get("cpu").and_then(|cpu| cpu.milli_value());
    let machine = NodeSize {
        cpu: milli.unwrap_or_default(),
        memory: stated("memory").unwrap_or_default(),
        storage: stated("ephemeral-storage").unwrap_or_default(),
        pods: (args.max_pods.or_else(|| stated("pods"))).unwrap_or(DEFAULT_MAX_PODS),
        ..NodeSize::default()
    };
    let machine = node.map_or(machine, |node| machine.with(node));
    configuration::of_provider(provider, machine)
}

async fn of_nodes(
    args: &AllocatableArgs,
    cluster: &ClusterArgs,
    printer: &mut Printer,
) -> anyhow::Result<Report> {
    if args.max_pods.is_some() && args.provider.is_none() {
        // A node says itself how many pods it takes.
        let text = "--max-pods requires --capacity or --provider";
        return Err(UsageError(text.to_owned()).into());
    }
    let from_files = configuration::of_files(&args.kubelet)?;
    let defaults = configuration::of_defaults()?;
    let defaults = (args.flags != KubeletFlags::default()).then_some(&defaults);
    let wanted = Wanted::new([Source::Nodes], args.kubelet.configz);
    let snapshot = input::read(&args.input, &wanted, cluster, printer).await?;
    let nodes = input::select_nodes(&snapshot, &args.node, &args.input)?;
    let why = snapshot.why_missing(Source::KubeletConfigs);
    let why = why.unwrap_or("it was not read");
    let mut report = Report::default();
    for node in nodes {
        let known = if let Some(provider) = args.provider {
            let capacity = allocatable::amounts(&node.status.capacity);
            Some(by_formula(provider, &capacity, Some(node), args)?)
        } else {
            let own = snapshot.kubelet_configs.get(&node.metadata.name);
            from_files.as_ref().or(own).or(defaults).cloned()
        };
        let Some(mut known) = known else {
            let reason = format!("the kubelet's configuration is not available: {why}");
            let unexplained = Unexplained::of(node, reason);
            report.document.unexplained.push(unexplained);
            report.unexplained.push(node.clone());
            continue;
        };
        args.flags.apply(&mut known)?;
        let computed = allocatable::of_node(node, &known);
        report.document.items.push(computed);
    }
    Ok(report)
}

fn print(report: &Report, printer: &mut Printer) -> anyhow::Result<()> {
    let mut first = true;
    let items = report.document.items.iter();
    let items = items.map(|item| {
        let mut same = item.clone();
        let name = std::mem::take(&mut same.node);
        (item, name, format!("{same:?}"))
    });
    for (same, nodes) in alike(items) {
        let Some(item) = same.first() else { continue };
        if !std::mem::take(&mut first) {
            writeln!(printer.data())?;
        }
        print_item(item, &nodes, printer)?;
    }
    let unexplained = report.document.unexplained.iter().zip(&report.unexplained);
    let unexplained = unexplained.map(|(item, node)| {
        let mut same = item.clone();
        let name = std::mem::take(&mut same.node);
        let status = &node.status;
        let same = format!(
            "{same:?} {:?} {:?} {:?}",
            status.capacity,
            status.allocatable,
            Provider::of(node)
        );
        ((item, node), name, same)
    });
    for (same, nodes) in alike(unexplained) {
        let Some((item, node)) = same.first() else {
            continue;
        };
        if !std::mem::take(&mut first) {
            writeln!(printer.data())?;
        }
        print_unexplained(item, node, &nodes, printer)?;
    }
    Ok(())
}

fn print_item(item: &Allocatable, nodes: &str, printer: &mut Printer) -> anyhow::Result<()> {
    if !item.node.is_empty() {
        printer.paragraph(nodes)?;
        writeln!(printer.data())?;
    }
    let published = item.resources.values().any(|line| line.published.is_some());
    let mut header = vec![
        "RESOURCE",
        "CAPACITY",
        "− KUBE",
        "− SYSTEM",
        "− EVICTION",
        "− HUGEPAGES",
        "= ALLOCATABLE",
    ];
    if published {
        header.push("PUBLISHED");
    }
    let mut table = Table::new(header);
    for (name, line) in &item.resources {
        table.row(row(name, line, published));
    }
    printer.table(&table)?;
    if let Some(limit) = item.kubepods_memory_limit {
        writeln!(printer.data())?;
        printer.paragraph(format_args!(
            "Memory limit of all pods together (cgroup kubepods): {limit}"
        ))?;
    }
    let bad = style::ERROR;
    for refusal in &item.refusals {
        writeln!(
            printer.data(),
            "{bad}The kubelet refuses to start:{bad:#} {refusal}"
        )?;
    }
    Ok(())
}

fn row(name: &str, line: &Line, published: bool) -> Vec<Cell> {
    let mut cells: Vec<Cell> = vec![
        name.into(),
        line.capacity.to_string().into(),
        line.kube_reserved.to_string().into(),
        line.system_reserved.to_string().into(),
        line.eviction_hard.to_string().into(),
        line.hugepages.to_string().into(),
        line.allocatable.to_string().into(),
    ];
    if published {
        cells.push(match line.published {
            None => Cell::styled("absent", style::WARNING),
            Some(said) if said.nano() == line.allocatable.nano() => {
                Cell::styled(format!("{said} (equal)"), style::GOOD)
            }
            Some(said) => Cell::styled(format!("{said} (differs)"), style::ERROR),
        });
    }
    cells
}

fn print_unexplained(
    item: &Unexplained,
    node: &Node,
    nodes: &str,
    printer: &mut Printer,
) -> anyhow::Result<()> {
    printer.paragraph(nodes)?;
    writeln!(printer.data())?;
    let said = [&node.status.capacity, &node.status.allocatable].map(allocatable::amounts);
    let has_hugepages = !item.hugepages.is_zero();
    let mut header = vec!["RESOURCE", "CAPACITY", "− HELD BACK"];
    if has_hugepages {
        header.push("− HUGEPAGES");
    }
    header.push("= PUBLISHED");
    let mut table = Table::new(header);
    for (name, reserved) in &item.reserved {
        let [capacity, published] = said
            .each_ref()
            .map(|amounts| amounts.get(name).copied().unwrap_or_default());
        let mut amounts = vec![capacity, *reserved];
        if has_hugepages {
            let hugepages = (name == "memory").then_some(item.hugepages);
            amounts.push(hugepages.unwrap_or_default());
        }
        amounts.push(published);
        let cells = amounts.iter().map(|amount| amount.to_string().into());
        table.row(std::iter::once(name.as_str().into()).chain(cells));
    }
    printer.table(&table)?;
    writeln!(printer.data())?;
    printer.paragraph(format_args!(
        "What it is reserved for is unknown: {}.",
        item.reason
    ))?;
    if let Some(provider) = Provider::of(node) {
        printer.paragraph(format_args!(
            "{provider} reserves by formula: {}. --provider {provider} computes it.",
            provider.describe()
        ))?;
    }
    Ok(())
}
