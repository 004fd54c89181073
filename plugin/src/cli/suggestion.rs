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

/// Leads from a word of another tool to the command, and never to a hidden one.
pub(super) fn improve(mut error: clap::Error) -> clap::Error {
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
        _ => {
            hide(&mut error, "man");
            return error;
        }
    };
    error.remove(ContextKind::SuggestedSubcommand);
    let tips = ContextValue::StyledStrs(vec![StyledStr::from(tip)]);
    error.insert(ContextKind::Suggested, tips);
    error
}

fn hide(error: &mut clap::Error, hidden: &str) {
    let Some(ContextValue::Strings(names)) = error.remove(ContextKind::SuggestedSubcommand) else {
        return;
    };
    let names: Vec<String> = names.into_iter().filter(|name| name != hidden).collect();
    if !names.is_empty() {
        error.insert(
            ContextKind::SuggestedSubcommand,
            ContextValue::Strings(names),
        );
    }
}
