//! `help COMMAND`, and no suggestion of a flag that is not meant.

use std::ffi::{OsStr, OsString};

use clap::error::{ContextKind, ContextValue};

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

/// Suggests a flag of [`CHANGING`] only for a word with its beginning.
pub(super) fn improve(mut error: clap::Error) -> clap::Error {
    if let Some(ContextValue::String(flag)) = error.get(ContextKind::SuggestedArg)
        && let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidArg)
        && CHANGING.contains(&flag.as_str())
        && flag.get(..5) != word.get(..5)
    {
        error.remove(ContextKind::SuggestedArg);
        error.remove(ContextKind::Usage);
    }
    error
}
