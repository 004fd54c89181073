//! `audit`

mod audit_run;

use super::config::ConfigFile;
use crate::cli::{AuditArgs, AuditOutput, ClusterArgs};
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

/// Checks that no two reports go to one place.
pub(super) fn check_outputs(outputs: &[AuditOutput]) -> Result<(), UsageError> {
    for (i, output) in outputs.iter().enumerate() {
        let mut earlier = outputs.iter().take(i);
        if !earlier.any(|other| other.file == output.file) {
            continue;
        }
        return Err(UsageError(match &output.file {
            Some(file) => format!(
                "two reports for {}: give each -o its own file",
                file.display()
            ),
            None => "two reports for stdout: give all but one of the -o a file, as in -o \
                     sarif=FILE"
                .to_owned(),
        }));
    }
    Ok(())
}
