//! `--context a,b` and `--all-contexts`: reads several clusters at the same time.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::Context as _;
use nodelife_core::text::Str;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::cli::{ClusterArgs, ContextsArgs, InputArgs};
use crate::exit::UsageError;
use crate::output::Printer;

/// How many clusters are read at the same time. Each takes as much memory as a command on it alone,
/// until its report is done.
const AT_ONCE: usize = 8;

/// The clusters of several contexts, in the order in which they were named.
pub(crate) struct Contexts(Vec<(Str, ClusterArgs)>);

impl Contexts {
    /// The contexts of these flags; none if they mean one cluster, or files.
    ///
    /// # Errors
    ///
    /// A context is not in the kubeconfig, or another flag has no meaning for several.
    pub(crate) fn of(
        args: ContextsArgs,
        input: &InputArgs,
        cluster: &ClusterArgs,
    ) -> Result<Option<Self>, UsageError> {
        let context = cluster.context.as_deref();
        let is_list = context.is_some_and(|name| name.contains(','));
        if !(args.all_contexts || is_list && input.files.is_empty()) {
            return Ok(None);
        }
        let known = cluster.options().contexts();
        let known = known.map_err(|error| UsageError(error.to_string()))?;
        let names = match context {
            Some(_) if args.all_contexts => {
                let message = "--context and --all-contexts exclude each other";
                return Err(UsageError(message.to_owned()));
            }
            // A context may have a comma in its name.
            Some(name) if known.iter().any(|one| one == name) => return Ok(None),
            Some(list) => split(list, &known)?,
            None => known,
        };
        if names.is_empty() {
            let message = "the kubeconfig has no contexts (--all-contexts)";
            return Err(UsageError(message.to_owned()));
        }
        check_flags(cluster)?;
        let of_context = |name: String| {
            let context = Str::from(name.as_str());
            let mut cluster = cluster.clone();
            cluster.context = Some(name);
            (context, cluster)
        };
        Ok(Some(Self(names.into_iter().map(of_context).collect())))
    }

    /// Does `work` on all clusters, a few at a time. One that fails stops no other.
    pub(crate) async fn each<T, F>(
        &self,
        printer: &mut Printer,
        work: impl Fn(ClusterArgs) -> F,
    ) -> anyhow::Result<Vec<(Str, anyhow::Result<T>)>>
    where
        T: Send + 'static,
        F: Future<Output = anyhow::Result<T>> + Send + 'static,
    {
        let slots = Arc::new(Semaphore::new(AT_ONCE));
        let mut tasks = JoinSet::new();
        for (place, (_, cluster)) in self.0.iter().enumerate() {
            let work = work(cluster.clone());
            let slots = Arc::clone(&slots);
            tasks.spawn(async move {
                let _slot = slots.acquire_owned().await;
                (place, work.await)
            });
        }
        let all = self.0.len();
        printer.progress(&format!("reading {all} clusters"));
        let mut done = BTreeMap::new();
        while let Some(result) = tasks.join_next().await {
            let (place, result) = result.context("failed to read a cluster")?;
            done.insert(place, result);
            printer.progress(&format!("reading {all} clusters: {} done", done.len()));
        }
        let contexts = self.0.iter().map(|(context, _)| context.clone());
        Ok(contexts.zip(done.into_values()).collect())
    }
}

/// The names of a list, each once.
fn split(list: &str, known: &[String]) -> Result<Vec<String>, UsageError> {
    let mut names: Vec<String> = Vec::new();
    for name in list.split(',').map(str::trim) {
        if name.is_empty() {
            let message = format!("--context {list} has an empty name");
            return Err(UsageError(message));
        }
        if !known.iter().any(|one| one == name) {
            let known = known.join(", ");
            let message = format!("the kubeconfig has no context \"{name}\"; it has: {known}");
            return Err(UsageError(message));
        }
        if !names.iter().any(|one| one == name) {
            names.push(name.to_owned());
        }
    }
    Ok(names)
}

/// # Errors
///
/// A flag that belongs to one cluster: it would send the same credentials to all of them, or read
/// the same server again and again.
fn check_flags(cluster: &ClusterArgs) -> Result<(), UsageError> {
    let given = [
        ("--cluster", cluster.cluster.is_some()),
        ("--user", cluster.user.is_some()),
        ("--server", cluster.server.is_some()),
        ("--token", cluster.token.is_some()),
        (
            "--certificate-authority",
            cluster.certificate_authority.is_some(),
        ),
        ("--client-certificate", cluster.client_certificate.is_some()),
        ("--client-key", cluster.client_key.is_some()),
        ("--tls-server-name", cluster.tls_server_name.is_some()),
    ];
    match given.iter().find(|(_, is_given)| *is_given) {
        None => Ok(()),
        Some((flag, _)) => Err(UsageError(format!(
            "{flag} belongs to one cluster; with several contexts, set it in the kubeconfig"
        ))),
    }
}
