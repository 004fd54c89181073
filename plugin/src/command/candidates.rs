//! Completion candidates: names of nodes, pods and maintenances, and rule ids.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{ArgMatches, CommandFactory as _, FromArgMatches as _};
use clap_complete::engine::CompletionCandidate;
use nodelife_cluster::list::ListFilter;
use nodelife_cluster::listing::{self, Listing, Object};
use nodelife_cluster::{Cluster, snapshot};

use super::files;
use crate::cli::{Cli, ClusterArgs};

/// The names that kubectl looks for on PATH
/// (`k8s.io/kubectl/pkg/cmd/plugin_completion.go`, `SetupPluginCompletion`, v0.36.3).
pub(super) const KUBECTL_PROGRAM: &str = "kubectl_complete-nodelife";

/// A shell that waits longer for a TAB seems broken.
const PATIENCE: Duration = Duration::from_secs(2);

pub(super) fn rules() -> Vec<CompletionCandidate> {
    nodelife_audit::all()
        .map(|rule| CompletionCandidate::new(rule.id).help(Some(rule.title().into())))
        .collect()
}

pub(super) fn rules_and_groups() -> Vec<CompletionCandidate> {
    let groups = nodelife_audit::GROUPS.iter();
    let groups =
        groups.map(|group| CompletionCandidate::new(group.code).help(Some(group.title.into())));
    groups.chain(rules()).collect()
}

/// Names of the nodes of the cluster, or of the files, that the words so far choose.
pub(super) fn nodes() -> Vec<CompletionCandidate> {
    names(|words| {
        let files = words.try_get_many::<PathBuf>("files").ok().flatten();
        let files: Vec<PathBuf> = files.into_iter().flatten().cloned().collect();
        if files.is_empty() {
            return listed(words, &listing::NODES, |_| ListFilter::default());
        }
        let read = snapshot::read(&files::expand(&files).ok()?).ok()?;
        let nodes = read.snapshot.nodes.iter();
        Some(nodes.map(|node| node.metadata.name.to_string()).collect())
    })
}

pub(super) fn pods() -> Vec<CompletionCandidate> {
    let of_namespace = |cluster: &Cluster| ListFilter::in_namespace(cluster.namespace());
    names(|words| listed(words, &listing::PODS, of_namespace))
}

pub(super) fn maintenances() -> Vec<CompletionCandidate> {
    let all = |_: &Cluster| ListFilter::default();
    names(|words| listed(words, &listing::NODE_MAINTENANCES, all))
}

/// The names that the words so far choose; none without an answer: a shell has no place for an error.
fn names(answer: impl FnOnce(&ArgMatches) -> Option<BTreeSet<String>>) -> Vec<CompletionCandidate> {
    let names = words_so_far().and_then(|words| answer(&words));
    let names = names.unwrap_or_default().into_iter();
    names.map(CompletionCandidate::new).collect()
}

/// The names of the objects of the cluster, if it answers in time.
fn listed<T: Object>(
    words: &ArgMatches,
    listing: &'static Listing<T>,
    filter: impl FnOnce(&Cluster) -> ListFilter,
) -> Option<BTreeSet<String>> {
    let options = ClusterArgs::from_arg_matches(words).ok()?;
    let names = async {
        let cluster = Cluster::connect(&options).await.ok()?;
        let items = cluster.items(listing, &filter(&cluster)).await.ok()?;
        let items = items.iter();
        Some(items.map(|one| one.metadata().name.to_string()).collect())
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .ok()?;
    runtime.block_on(async { tokio::time::timeout(PATIENCE, names).await.ok().flatten() })
}

fn words_so_far() -> Option<ArgMatches> {
    let mut words: Vec<OsString> = std::env::args_os().collect();
    let file = words.first().and_then(|path| Path::new(path).file_stem());
    if file != Some(OsStr::new(KUBECTL_PROGRAM)) {
        // The shells' scripts put the line behind `--`.
        let line = words.iter().position(|word| word == "--")?;
        words.drain(..=line);
    }
    let mut matches = Cli::command()
        .ignore_errors(true)
        .try_get_matches_from(words)
        .ok()?;
    while let Some((_, deeper)) = matches.remove_subcommand() {
        matches = deeper;
    }
    Some(matches)
}
