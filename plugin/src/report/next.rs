//! The next command to type after a report: about its worst rule.

use nodelife_audit::{AuditReport, Finding, group_of};

use super::by_rule;
use super::command_line::quoted;
use super::table::NAMES;
use crate::cli::{AuditArgs, ClusterArgs, InputArgs};

/// A longer command is not worth repeating.
const LONGEST: usize = 200;

/// A command that tells more of the worst rule than its lines in the table.
///
/// `command` is the command line of the report.
pub(super) fn command(
    report: &AuditReport,
    args: &AuditArgs,
    cluster: &ClusterArgs,
    command: &str,
) -> Option<String> {
    let worst = by_rule::counts(&report.findings).pop()?;
    let rule = &worst.first.rule;
    if let Some(arithmetic) = arithmetic(worst.first, args, cluster) {
        return Some(arithmetic);
    }
    if worst.number > NAMES && args.is_grouped() && command.len() < LONGEST {
        let rule = if args.rules.is_empty() {
            format!(" --rule {rule}")
        } else {
            String::new()
        };
        return Some(format!("{command}{rule} --ungrouped"));
    }
    Some(format!("kubectl nodelife explain {rule}"))
}

fn arithmetic(finding: &Finding, args: &AuditArgs, cluster: &ClusterArgs) -> Option<String> {
    let node = quoted(finding.subject.name.to_string());
    let topic = match (group_of(&finding.rule), finding.subject.kind.as_str()) {
        ("RES", "Node") => format!("allocatable {node}"),
        // Whose clock is wrong has not failed.
        ("HB", "Node") if finding.rule != *"NL-HB-004" => format!("failure {node}"),
        ("ZON", "Zone") => "zones".to_owned(),
        _ => return None,
    };
    let input = input_flags(&args.input, cluster)?;
    Some(format!("kubectl nodelife explain {topic}{input}"))
}

/// The flags that lead to the same cluster or files; none if these cannot be read again.
pub(crate) fn input_flags(input: &InputArgs, cluster: &ClusterArgs) -> Option<String> {
    let files = input.files.iter();
    let files = files.map(|file| ("-f", Some(file.to_string_lossy().into_owned())));
    let kubeconfig = cluster.kubeconfig.as_ref();
    let kubeconfig = kubeconfig.map(|file| file.to_string_lossy().into_owned());
    let flags = files.chain([
        ("--kubeconfig", kubeconfig),
        ("--context", cluster.context.clone()),
        ("--cluster", cluster.cluster.clone()),
        ("--user", cluster.user.clone()),
        ("--server", cluster.server.clone()),
        ("--as", cluster.impersonate.clone()),
    ]);
    let mut words = String::new();
    for (flag, value) in flags {
        match value {
            Some(stdin) if flag == "-f" && stdin == "-" => return None,
            Some(value) => words.extend([" ", flag, " ", &quoted(value)]),
            None => {}
        }
    }
    (words.len() < LONGEST).then_some(words)
}
