//! `completion`: prints the shell scripts and answers their requests.

use std::ffi::{OsStr, OsString};
use std::io::{self, Write};
use std::path::Path;

use anyhow::Context as _;
use clap::{Args, Command, CommandFactory as _, ValueEnum};
use clap_complete::CompleteEnv;
use clap_complete::engine::{ArgValueCandidates, CompletionCandidate, complete};
use clap_complete::env::Shells;

use super::candidates::{self, KUBECTL_PROGRAM};
use crate::cli::{Cli, format_name};
use crate::exit::{Exit, ExitStatus, UsageError};
use crate::output::Printer;

/// Prints a script that completes commands, flags, node names and rule ids in a shell.
#[derive(Debug, Args)]
#[command(before_help = "\
Examples:
  # For `kubectl nodelife <TAB>`, in every shell that completes kubectl
  kubectl nodelife completion kubectl --install

  # For `kubectl-nodelife <TAB>` in this shell
  source <(kubectl nodelife completion bash)
  source <(kubectl nodelife completion zsh)
  kubectl nodelife completion fish | source
  kubectl nodelife completion powershell | Out-String | Invoke-Expression
")]
pub(crate) struct CompletionArgs {
    /// The shell, or kubectl
    #[arg(value_enum, value_name = "SHELL")]
    pub(crate) shell: Shell,
    /// Write kubectl's script next to this program instead of to stdout
    #[arg(long)]
    pub(crate) install: bool,
}

/// Who can be taught to complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Shell {
    /// bash
    Bash,
    /// zsh
    Zsh,
    /// fish
    Fish,
    /// PowerShell
    Powershell,
    /// kubectl itself, which looks for `kubectl_complete-nodelife` on PATH
    Kubectl,
}

const PROGRAM: &str = "kubectl-nodelife";
/// The variable by which the shells' scripts say who they are.
const VARIABLE: &str = "COMPLETE";
/// cobra's `ShellCompDirectiveNoFileComp`: our candidates are all there are.
const NO_FILES: u8 = 4;
/// cobra's `ShellCompDirectiveNoSpace`: a folder is not the end of a path.
const NO_SPACE: u8 = 2;

/// Answers a shell or kubectl, if it is one of them that asks.
pub(crate) fn answer(words: impl IntoIterator<Item = OsString>) -> Option<ExitStatus> {
    let words: Vec<OsString> = words.into_iter().collect();
    let here = std::env::current_dir().ok();
    let file = words.first().and_then(|path| Path::new(path).file_stem());
    let answered = if file == Some(OsStr::new(KUBECTL_PROGRAM)) {
        answer_kubectl(words, here.as_deref(), &mut io::stdout().lock()).map(|()| true)
    } else {
        CompleteEnv::with_factory(command)
            .var(VARIABLE)
            .try_complete(words, here.as_deref())
            .map_err(io::Error::other)
    };
    match answered {
        Ok(false) => None,
        Ok(true) => Some(ExitStatus::Done),
        // A shell shows nothing of an error, and an interrupted TAB is none.
        Err(_) => Some(ExitStatus::Failed),
    }
}

/// Answers as cobra's `__complete` does: `value<TAB>description` a line, then `:directive`.
fn answer_kubectl(
    mut words: Vec<OsString>,
    here: Option<&Path>,
    out: &mut impl Write,
) -> io::Result<()> {
    if words.len() < 2 {
        words.push(OsString::new());
    }
    let last = words.len() - 1;
    let candidates = complete(&mut command(), words, last, here)?;
    let shown: Vec<&CompletionCandidate> = candidates.iter().filter(|c| !c.is_hide_set()).collect();
    for candidate in &shown {
        write!(out, "{}", candidate.get_value().to_string_lossy())?;
        if let Some(help) = candidate.get_help() {
            let help = help.to_string();
            write!(out, "\t{}", help.lines().next().unwrap_or_default())?;
        }
        writeln!(out)?;
    }
    let folders = shown
        .iter()
        .any(|c| c.get_value().to_string_lossy().ends_with('/'));
    let directive = NO_FILES | if folders { NO_SPACE } else { 0 };
    writeln!(out, ":{directive}")
}

/// The command line, with what a TAB offers for its nodes, pods, maintenances and rules.
fn command() -> Command {
    with_candidates(Cli::command())
}

fn with_candidates(command: Command) -> Command {
    command
        .mut_args(|arg| {
            let Some([name]) = arg.get_value_names() else {
                return arg;
            };
            let candidates = match name.as_str() {
                "NODE" => ArgValueCandidates::new(candidates::nodes),
                "POD" => ArgValueCandidates::new(candidates::pods),
                "MAINTENANCE" => ArgValueCandidates::new(candidates::maintenances),
                "RULE" => ArgValueCandidates::new(candidates::rules),
                "ID|GROUP" => ArgValueCandidates::new(candidates::rules_and_groups),
                _ => return arg,
            };
            arg.add(candidates)
        })
        .mut_subcommands(with_candidates)
}

pub(crate) fn run(args: &CompletionArgs, printer: &mut Printer) -> Exit {
    if args.shell == Shell::Kubectl {
        return kubectl(args.install, printer);
    }
    let shell = format_name(&args.shell);
    if args.install {
        return Err(UsageError("--install works only with kubectl".to_owned()).into());
    }
    let shells = Shells::builtins();
    let completer = shells
        .completer(&shell)
        .with_context(|| format!("failed to write a script for {shell}"))?;
    completer.write_registration(VARIABLE, PROGRAM, PROGRAM, PROGRAM, printer.data())?;
    Ok(ExitStatus::Done)
}

/// kubectl wants a program of its own name; this script hands the words on to us under it.
fn kubectl(install: bool, printer: &mut Printer) -> Exit {
    let script = format!("#!/usr/bin/env bash\nexec -a {KUBECTL_PROGRAM} {PROGRAM} \"$@\"\n");
    if !install {
        printer.data().write_all(script.as_bytes())?;
        return Ok(ExitStatus::Done);
    }
    let program = std::env::current_exe().context("failed to find this program's own path")?;
    let path = program.with_file_name(KUBECTL_PROGRAM);
    std::fs::write(&path, script)
        .and_then(|()| make_executable(&path))
        .with_context(|| format!("failed to write {}", path.display()))?;
    printer.note(format_args!("wrote {}", path.display()));
    Ok(ExitStatus::Done)
}

#[cfg(unix)]
fn make_executable(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755))
}

#[cfg(not(unix))]
#[expect(clippy::unnecessary_wraps, reason = "the other systems may fail")]
fn make_executable(_path: &Path) -> io::Result<()> {
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(words: &[&str]) -> String {
        let mut out = Vec::new();
        let words = std::iter::once(KUBECTL_PROGRAM).chain(words.iter().copied());
        answer_kubectl(words.map(OsString::from).collect(), None, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn kubectl_is_answered_in_cobras_form() {
        let answer = ask(&["aud"]);
        assert_eq!(answer, "audit\tReports what is wrong with the nodes\n:4\n");
    }

    #[test]
    fn values_of_flags_are_known() {
        let answer = ask(&["audit", "-o", "js"]);
        assert!(answer.starts_with("json\t"), "{answer}");
        let answer = ask(&["audit", "--fail-on", ""]);
        assert!(answer.contains("never"), "{answer}");
    }
}
