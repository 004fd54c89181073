//! `--all-contexts`: several clusters in one command.

use clap::Args;

/// Which clusters, beside kubectl's own flags.
#[derive(Clone, Copy, Debug, Default, Args)]
pub(crate) struct ContextsArgs {
    /// Read the clusters of all contexts in the kubeconfig; --context a,b reads some of them
    #[arg(long, conflicts_with = "files")]
    pub(crate) all_contexts: bool,
}
