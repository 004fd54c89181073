//! Reads the input of a command, from a cluster or files.

use std::collections::BTreeSet;
use std::io::IsTerminal as _;
use std::sync::{Mutex, PoisonError};

use anyhow::Result;
use jiff::SignedDuration;
use nodelife_audit::Selection;
use nodelife_cluster::{Cluster, Configz, snapshot};
use nodelife_core::format::{self, count};
use nodelife_core::natural;
use nodelife_core::object::Node;
use nodelife_core::snapshot::{Clock, Snapshot, Source};
use nodelife_core::text::Str;

use super::connect::connect;
use super::files;
use crate::cli::{ClusterArgs, ConfigzArgs, InputArgs, NodeArgs};
use crate::output::Printer;

/// Why there is nothing of these sources, unless they were asked for.
const NOT_REQUESTED: [(Source, &str); 2] = [
    (
        Source::KubeletConfigs,
        "use --configz; it needs permission to get nodes/proxy",
    ),
    (
        Source::NodeRestriction,
        "use --probe; it needs permission to impersonate nodes",
    ),
];

pub(crate) struct Wanted {
    pub(crate) sources: BTreeSet<Source>,
    configz: Configz,
}

impl Wanted {
    /// These sources, and the configurations of kubelets if they are to be asked.
    pub(crate) fn new(sources: impl Into<BTreeSet<Source>>, configz: ConfigzArgs) -> Self {
        let mut sources = sources.into();
        let how = configz.configz;
        if how.is_some() {
            sources.insert(Source::KubeletConfigs);
        } else {
            sources.remove(&Source::KubeletConfigs);
        }
        let configz = how.unwrap_or_default();
        Self { sources, configz }
    }
}

/// Reads the files that the flags name, or else what is wanted of the cluster.
pub(crate) async fn read(
    input: &InputArgs,
    wanted: &Wanted,
    cluster: &ClusterArgs,
    printer: &mut Printer,
) -> Result<Snapshot> {
    let read = read_and_connect(input, wanted, cluster, printer).await;
    read.map(|(snapshot, _)| snapshot)
}

pub(crate) async fn read_and_connect(
    input: &InputArgs,
    wanted: &Wanted,
    cluster: &ClusterArgs,
    printer: &mut Printer,
) -> Result<(Snapshot, Option<Cluster>)> {
    if !input.files.is_empty() {
        return Ok((from_files(input, printer)?, None));
    }
    let progress = ReadProgress::new(cluster);
    printer.progress(&progress.line());
    let cluster = connect(cluster, printer).await?;
    if let Some(skew) = cluster.clock().skew() {
        note_clock_skew(skew, printer);
    }
    let noted = Mutex::new((&mut *printer, progress, BTreeSet::new()));
    let note = |note: snapshot::SourceProgress| {
        let mut noted = noted.lock().unwrap_or_else(PoisonError::into_inner);
        let (printer, progress, mixed) = &mut *noted;
        progress.add(note.source, note.added);
        printer.progress(&progress.line());
        if !note.consistent {
            mixed.insert(note.source);
        }
    };
    let sources = &wanted.sources;
    // All lists at once are too much state for the stack.
    let read = Box::pin(snapshot::collect(&cluster, sources, wanted.configz, note));
    let mut snapshot = read.await?;
    let (printer, _, mixed) = noted.into_inner().unwrap_or_else(PoisonError::into_inner);
    for source in mixed {
        printer.warn(format_args!(
            "listing {} took longer than the API server keeps old versions: the pages are from \
             different times",
            source.noun()
        ));
    }
    for (source, reason) in NOT_REQUESTED {
        if !sources.contains(&source) {
            snapshot.missing.insert(source, Str::from(reason));
        }
    }
    Ok((snapshot, Some(cluster)))
}

struct ReadProgress {
    cluster: String,
    /// Nodes, pods and others.
    counts: [usize; 3],
}

impl ReadProgress {
    fn new(cluster: &ClusterArgs) -> Self {
        // Without a readable kubeconfig the connection reports the error.
        let context = cluster.identity().ok().and_then(|id| id.context);
        Self {
            cluster: context.unwrap_or_else(|| "the cluster".to_owned()),
            counts: [0; 3],
        }
    }

    fn add(&mut self, source: Source, objects: usize) {
        let [nodes, pods, others] = &mut self.counts;
        let counter = match source {
            Source::Nodes => nodes,
            Source::Pods => pods,
            _ => others,
        };
        *counter += objects;
    }

    fn line(&self) -> String {
        let counted = self.counts.into_iter().zip(["node", "pod", "other object"]);
        let counted = counted.filter(|(number, _)| *number > 0);
        let counts: Vec<_> = counted.map(|(number, noun)| count(number, noun)).collect();
        let separator = if counts.is_empty() { "" } else { ": " };
        format!("reading {}{separator}{}", self.cluster, counts.join(", "))
    }
}

pub(crate) fn from_files(input: &InputArgs, printer: &mut Printer) -> Result<Snapshot> {
    let files = files::expand(&input.files)?;
    if files.iter().any(|file| file.as_os_str() == "-") && std::io::stdin().is_terminal() {
        printer.note("reading standard input; end it with Ctrl-D, or Ctrl-C to stop");
    }
    let mut read = snapshot::read(&files)?;
    read.snapshot.set_time(input.at);
    for (names, noun) in [
        (read.foreign, "foreign file"),
        (read.broken, "broken file"),
        (read.undecodable, "undecodable object"),
    ] {
        if !names.is_empty() {
            let first = format::first(3, &names);
            let left_out = format!("{} left out: {first}", count(names.len(), noun));
            match noun {
                "foreign file" => printer.note(left_out),
                _ => printer.warn(left_out),
            }
        }
    }
    let nodes = read.snapshot.nodes.iter();
    let stripped = nodes.filter(|node| node.lacks_conditions());
    let names: Vec<_> = stripped.map(|node| node.metadata.name.as_str()).collect();
    if !names.is_empty() {
        printer.note(format_args!(
            "the input has no status of {}, so whether they are ready is not known: {}",
            count(names.len(), "node"),
            format::list(names)
        ));
    }
    if let [first, ..] = read.contradictory_nodes.as_slice() {
        printer.warn(format_args!(
            "{} in the files more than once, with different UIDs (node/{first} …): the files may \
             be of several clusters or times; the first of each is used",
            count(read.contradictory_nodes.len(), "node")
        ));
    }
    Ok(read.snapshot)
}

/// Says which time ages refer to, where it is not the API server's.
pub(crate) fn note_clock(snapshot: &Snapshot, printer: &mut Printer) {
    match (snapshot.clock, snapshot.taken_at) {
        (Clock::ApiServer, Some(_)) => {}
        (Clock::Given, Some(time)) => printer.note(format_args!("ages refer to {time:.0} (--at)")),
        (_, Some(time)) => printer.note(format_args!(
            "the input does not say when it was read: ages refer to its newest heartbeat, {time:.0}"
        )),
        (_, None) => printer.note("the input has no time at all: ages use this machine's clock"),
    }
}

/// Says by how much two clocks differ, where that could mislead who reads times on this machine.
fn note_clock_skew(skew: SignedDuration, printer: &mut Printer) {
    /// Less is in the nature of clocks.
    const MIN_SECONDS: u64 = 2;
    let seconds = skew.as_secs();
    if seconds.unsigned_abs() < MIN_SECONDS {
        return;
    }
    let (by, direction) = (
        SignedDuration::from_secs(seconds).abs(),
        if seconds > 0 { "ahead of" } else { "behind" },
    );
    printer.note(format_args!(
        "this machine's clock is {by:#} {direction} the API server's; ages use the API server's \
         clock"
    ));
}

pub(crate) fn lists() -> BTreeSet<Source> {
    let all = Source::ALL.into_iter();
    all.filter(|source| !source.is_asked_for_apart()).collect()
}

/// The names in `node/NAME` or `NAME`.
pub(crate) fn node_names(words: &[String]) -> Vec<Str> {
    let names = words.iter().map(|word| match word.split_once('/') {
        Some(("node" | "nodes" | "no", name)) => name,
        _ => word,
    });
    names.map(Str::from).collect()
}

pub(crate) fn select_nodes<'a>(
    snapshot: &'a Snapshot,
    node: &NodeArgs,
    input: &InputArgs,
) -> Result<Vec<&'a Node>> {
    let selection = Selection {
        nodes: node_names(&node.nodes),
        selector: node.selector.clone(),
        ..Selection::default()
    };
    need_nodes(snapshot)?;
    check_nodes(snapshot, &selection.nodes, input)?;
    let nodes = snapshot.nodes.iter();
    let mut nodes: Vec<&Node> = nodes.filter(|node| selection.wants_node(node)).collect();
    nodes.sort_by(|a, b| natural::compare(&a.metadata.name, &b.metadata.name));
    Ok(nodes)
}

pub(crate) fn warn_of_parts(snapshot: &Snapshot, printer: &mut Printer) {
    for source in [Source::AllNodes, Source::AllPods] {
        if let Some(why) = snapshot.why_missing(source) {
            printer.warn(why);
        }
    }
}

pub(crate) fn need_nodes(snapshot: &Snapshot) -> Result<()> {
    match snapshot.why_missing(Source::Nodes) {
        Some(reason) => anyhow::bail!("failed to read the nodes: {reason}"),
        None => Ok(()),
    }
}

pub(crate) fn check_nodes(snapshot: &Snapshot, names: &[Str], input: &InputArgs) -> Result<()> {
    let known = |name: &&Str| {
        let mut nodes = snapshot.nodes.iter();
        nodes.any(|node| node.metadata.name == **name)
    };
    match names.iter().find(|name| !known(name)) {
        None => Ok(()),
        Some(name) => {
            need_nodes(snapshot)?;
            let is_live = input.files.is_empty();
            let place = if is_live { "" } else { " in the files of -f" };
            anyhow::bail!(format::node_not_found(name, place, &snapshot.nodes))
        }
    }
}
