//! Parses rule ids and groups from the command line.

use crate::exit::UsageError;

/// How alike two names have to be to be proposed. At clap's 0.7 `node` would be taken for `POD`.
const MIN_SIMILARITY: f64 = 0.75;

/// The error for a name that is no rule, no group and none of `others`, with the nearest that is.
pub(crate) fn unknown(name: &str, others: &[&'static str]) -> UsageError {
    let upper = name.to_uppercase();
    let rules = nodelife_audit::all().flat_map(|rule| [rule.id, rule.group()]);
    let nearest = rules
        .chain(others.iter().copied())
        .map(|known| (strsim::jaro(&upper, &known.to_uppercase()), known))
        .filter(|(similarity, _)| *similarity > MIN_SIMILARITY)
        .max_by(|a, b| a.0.total_cmp(&b.0));
    let tip = nearest.map_or_else(
        || "`kubectl nodelife explain --list` lists all".to_owned(),
        |(_, known)| format!("did you mean {known}?"),
    );
    UsageError(format!("no rule '{name}'; {tip}"))
}
