//! `help COMMAND`, and tips for words that are no command.

use std::ffi::{OsStr, OsString};

use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue, ErrorKind};

/// Names of other tools for an audit.
const AUDIT: [&str; 8] = [
    "scan", "check", "lint", "report", "analyze", "analyse", "diagnose", "doctor",
];

/// `help audit` as `audit --help`: kubectl has both, and clap's own command would take the word
/// `help` from the rules of `explain`.
pub(super) fn as_help_flag(mut words: Vec<OsString>) -> Vec<OsString> {
    if words.get(1).is_some_and(|word| word == OsStr::new("help")) {
        words.remove(1);
        words.push("--help".into());
    }
    words
}

/// Flags that lift a protection or undo something.
const CHANGING: [&str; 7] = [
    "--undo",
    "--force",
    "--disable-eviction",
    "--bypass-pdb",
    "--break-lock",
    "--delete-emptydir-data",
    "--insecure-skip-tls-verify",
];

/// Leads from a word of another tool to the command, and to a flag of [`CHANGING`] only from its beginning.
pub(super) fn improve(mut error: clap::Error) -> clap::Error {
    if let Some(ContextValue::String(flag)) = error.get(ContextKind::SuggestedArg)
        && let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidArg)
        && CHANGING.contains(&flag.as_str())
        && flag.get(..5) != word.get(..5)
    {
        error.remove(ContextKind::SuggestedArg);
        error.remove(ContextKind::Usage);
    }
    let word = match error.get(ContextKind::InvalidSubcommand) {
        Some(ContextValue::String(word)) if error.kind() == ErrorKind::InvalidSubcommand => {
            word.clone()
        }
        _ => return error,
    };
    let tip = match word.as_str() {
        word if AUDIT.contains(&word) => {
            let audit = ContextValue::Strings(vec!["audit".to_owned()]);
            error.insert(ContextKind::SuggestedSubcommand, audit);
            return error;
        }
        "rules" | "rule" | "list" | "ls" => "`kubectl nodelife explain --list` lists all rules",
        "cordon" => "`kubectl cordon NODE` does that, and `drain` does it first",
        "uncordon" => "`kubectl nodelife drain NODE --undo` removes the cordons of a drain",
        _ => return error,
    };
    error.remove(ContextKind::SuggestedSubcommand);
    let tips = ContextValue::StyledStrs(vec![StyledStr::from(tip)]);
    error.insert(ContextKind::Suggested, tips);
    error
}
