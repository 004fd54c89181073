//! Completion candidates: names of nodes, pods and maintenances, and rule ids.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{ArgMatches, CommandFactory as _, FromArgMatches as _};
use clap_complete::engine::CompletionCandidate;
use nodelife_cluster::list::ListFilter;
use nodelife_cluster::{Cluster, Configz, listing, snapshot};
use nodelife_core::snapshot::Source;

use super::files;
use crate::cli::{Cli, ClusterArgs};

/// The names that kubectl looks for on PATH
/// (`k8s.io/kubectl/pkg/cmd/plugin_completion.go`, `SetupPluginCompletion`, v0.36.3).
pub(super) const KUBECTL_PROGRAM: &str = "kubectl_complete-nodelife";

/// A shell that waits longer for a TAB seems broken.
const PATIENCE: Duration = Duration::from_secs(2);

/// Ids of rules, with their titles.
pub(super) fn rules() -> Vec<CompletionCandidate> {
    nodelife_audit::all()
        .map(|rule| CompletionCandidate::new(rule.id).help(Some(rule.title.into())))
        .collect()
}

/// Ids and group codes.
pub(super) fn rules_and_groups() -> Vec<CompletionCandidate> {
    let groups = nodelife_audit::GROUPS.iter();
    let groups =
        groups.map(|group| CompletionCandidate::new(group.code).help(Some(group.title.into())));
    groups.chain(rules()).collect()
}

/// Names of the nodes of the cluster, or of the files, that the words so far choose. No
/// answer is an empty one: a shell has no place for an error.
pub(super) fn nodes() -> Vec<CompletionCandidate> {
    let names = words_so_far().and_then(|matches| node_names(&matches));
    let names = names.unwrap_or_default();
    names.into_iter().map(CompletionCandidate::new).collect()
}

/// Names of the pods of the namespace that the words so far choose.
pub(super) fn pods() -> Vec<CompletionCandidate> {
    let listed = words_so_far().and_then(|matches| {
        let options = ClusterArgs::from_arg_matches(&matches).ok()?;
        answer_of(async {
            let cluster = Cluster::connect(&options).await.ok()?;
            let filter = ListFilter {
                namespace: Some(cluster.namespace().to_owned()),
                ..ListFilter::default()
            };
            let listed = cluster.list(&listing::PODS, &filter, |_| {}).await.ok()?;
            Some(listed.items)
        })
    });
    let pods = listed.unwrap_or_default().into_iter();
    pods.map(|pod| CompletionCandidate::new(pod.metadata.name.as_str()))
        .collect()
}

/// Names of the maintenances of the cluster that the words so far choose.
pub(super) fn maintenances() -> Vec<CompletionCandidate> {
    let listed = words_so_far().and_then(|matches| {
        let options = ClusterArgs::from_arg_matches(&matches).ok()?;
        answer_of(async {
            let cluster = Cluster::connect(&options).await.ok()?;
            let all = ListFilter::default();
            let listed = cluster.list(&listing::NODE_MAINTENANCES, &all, |_| {});
            Some(listed.await.ok()?.items)
        })
    });
    let maintenances = listed.unwrap_or_default().into_iter();
    maintenances
        .map(|one| CompletionCandidate::new(one.metadata.name.as_str()))
        .collect()
}

/// The names that a cluster answers in time.
fn answer_of<T>(ask: impl Future<Output = Option<T>>) -> Option<T> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .ok()?;
    runtime.block_on(async { tokio::time::timeout(PATIENCE, ask).await.ok().flatten() })
}

/// The flags that stand on the line that is being typed, unfinished as it is.
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

fn node_names(matches: &ArgMatches) -> Option<BTreeSet<String>> {
    let files: Vec<PathBuf> = matches
        .try_get_many("files")
        .ok()
        .flatten()
        .map(|files| files.cloned().collect())
        .unwrap_or_default();
    let snapshot = if files.is_empty() {
        let options = ClusterArgs::from_arg_matches(matches).ok()?;
        answer_of(async {
            let cluster = Cluster::connect(&options).await.ok()?;
            let sources = BTreeSet::from([Source::Nodes]);
            Box::pin(snapshot::collect(
                &cluster,
                &sources,
                Configz::Proxy,
                |_| {},
            ))
            .await
            .ok()
        })?
    } else {
        let files = files::expand(&files).ok()?;
        snapshot::read(&files).ok()?.snapshot
    };
    let names = snapshot
        .nodes
        .iter()
        .map(|node| node.metadata.name.to_string());
    Some(names.collect())
}
