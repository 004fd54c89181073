//! The rules that were not checked: in one line if that was to be expected, as warnings if the
//! input could not be read.

use nodelife_audit::Skipped;
use nodelife_core::format::count;

use crate::output::Printer;

/// How the reasons begin that come of what was asked for, or of the files that were given. Any
/// other, such as a missing permission, may surprise.
const EXPECTED: [&str; 8] = [
    "use --configz;",
    "--configz was not given",
    "use --probe;",
    "--probe was not given",
    "--target was not given",
    "they are not in the snapshot",
    "the snapshot does not say",
    "the input ",
];

/// The flags of audit that reasons name; other flags in them are those of kubectl.
const FLAGS: [&str; 3] = ["--configz", "--probe", "--target"];

struct Reason<'a> {
    text: &'a str,
    rules: Vec<&'a str>,
}

impl<'a> Reason<'a> {
    fn parts(&self) -> (&'a str, &'a str) {
        let parts = self.text.split_once(" not read: ");
        parts.unwrap_or(("", self.text))
    }

    fn is_expected(&self) -> bool {
        let (_, why) = self.parts();
        EXPECTED.iter().any(|expected| why.starts_with(expected))
    }

    /// `145 rules not checked for want of nodes: not allowed to list nodes`.
    fn sentence(&self) -> String {
        let rules = count(self.rules.len(), "rule");
        match self.parts() {
            ("", why) => format!("{rules} not checked: {why}"),
            (source, why) => format!("{rules} not checked for want of {source}: {why}"),
        }
    }

    /// The reason in a few words: `need kubelet configurations (--configz)`.
    fn short(&self) -> String {
        let (source, why) = self.parts();
        if source.is_empty() {
            return why.to_owned();
        }
        let is_one = self.rules.len() == 1;
        let need = if is_one { "needs" } else { "need" };
        let mut words = why.split([' ', ';']);
        match words.find(|word| FLAGS.contains(word)) {
            Some(flag) => format!("{need} {source} ({flag})"),
            None => format!("{need} {source}"),
        }
    }
}

/// Says which rules were not checked, and why; each reason as a warning where all rules matter.
pub(crate) fn note(skipped: &[Skipped], all_matter: bool, printer: &mut Printer) {
    let (expected, surprising): (Vec<_>, Vec<_>) = reasons(skipped)
        .into_iter()
        .partition(|r| !all_matter && r.is_expected());
    for reason in &surprising {
        printer.warn(reason.sentence());
    }
    if printer.verbose {
        for Reason { text, rules } in surprising.into_iter().chain(expected) {
            printer.faint(format_args!("not checked: {}: {text}", rules.join(", ")));
        }
    } else if !expected.is_empty() {
        printer.faint(line(&expected));
    }
}

/// One for each reason, those of most rules first.
fn reasons(skipped: &[Skipped]) -> Vec<Reason<'_>> {
    let mut reasons: Vec<Reason<'_>> = Vec::new();
    for Skipped { rule, reason } in skipped {
        let known = reasons.iter_mut().find(|known| known.text == *reason);
        match known {
            Some(known) => known.rules.push(rule),
            None => reasons.push(Reason {
                text: reason,
                rules: vec![rule],
            }),
        }
    }
    for reason in &mut reasons {
        reason.rules.sort_unstable();
    }
    reasons.sort_by_key(|reason| std::cmp::Reverse(reason.rules.len()));
    reasons
}

fn line(reasons: &[Reason<'_>]) -> String {
    /// Further reasons are counted.
    const SHOWN: usize = 3;
    let number = reasons.iter().map(|reason| reason.rules.len()).sum();
    let why = match reasons {
        [only] => only.short(),
        reasons => {
            let shown = reasons.iter().take(SHOWN);
            let shown = shown.map(|reason| format!("{} {}", reason.rules.len(), reason.short()));
            shown.collect::<Vec<_>>().join(", ")
        }
    };
    let more = match reasons.len().saturating_sub(SHOWN) {
        0 => String::new(),
        more => format!(" and {}", count(more, "more reason")),
    };
    format!(
        "{} not checked: {why}{more}; -v=1 names them",
        count(number, "rule"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_counted_in_one_line() {
        let skipped = |rule: &str, reason: &str| Skipped {
            rule: rule.into(),
            reason: reason.to_owned(),
        };
        let configz = "kubelet configurations not read: use --configz; it needs permission to get \
                       nodes/proxy";
        let skipped = [
            skipped("NL-B-001", "events not read: they are not in the snapshot"),
            skipped("NL-A-002", configz),
            skipped("NL-A-003", "pods not read: not allowed to list pods"),
            skipped("NL-A-001", configz),
            skipped(
                "NL-C-001",
                "leases not read: the input has none; add `kubectl get --raw /`",
            ),
        ];
        let reasons = reasons(&skipped);
        let expected: Vec<_> = reasons.iter().map(Reason::is_expected).collect();
        assert_eq!(expected, [true, true, false, true]);
        assert_eq!(reasons[3].short(), "needs leases");
        assert_eq!(
            line(&reasons[..2]),
            "3 rules not checked: 2 need kubelet configurations (--configz), 1 needs events; \
             -v=1 names them"
        );
        assert_eq!(
            line(&reasons[..1]),
            "2 rules not checked: need kubelet configurations (--configz); -v=1 names them"
        );
        assert_eq!(reasons[0].rules, ["NL-A-001", "NL-A-002"]);
    }

    /// The reasons are written elsewhere: here they are as they are there.
    #[test]
    fn what_an_empty_snapshot_lacks_is_expected() {
        use nodelife_core::snapshot::{Snapshot, Source};
        let snapshot = Snapshot::default();
        for source in Source::ALL {
            let Some(why) = snapshot.why_missing(source) else {
                continue;
            };
            let text = format!("{} not read: {why}", source.noun());
            let reason = Reason {
                text: &text,
                rules: Vec::new(),
            };
            assert!(reason.is_expected(), "{text}");
        }
    }
}
