//! `audit`

mod audit_run;

use super::config::ConfigFile;
use super::outputs::check_outputs;
use crate::cli::{AuditArgs, ClusterArgs};
use crate::exit::{ExitStatus, UsageError};
use crate::output::Printer;
use audit_run::AuditRun;

pub(crate) async fn run(
    mut args: AuditArgs,
    cluster: &ClusterArgs,
    printer: &mut Printer,
) -> anyhow::Result<ExitStatus> {
    let config = ConfigFile::find(&args.config, printer)?;
    config.fill(&mut args);
    check_outputs(&args.outputs)?;
    if cluster.namespace.is_some() {
        let message = "audit has no use of -n (--namespace): it audits nodes, with the pods and \
                       budgets of all namespaces; name nodes, or select them with -l";
        return Err(UsageError(message.to_owned()).into());
    }
    let run = AuditRun::new(args, config, cluster, printer)?;
    run.one(cluster, printer).await
}
