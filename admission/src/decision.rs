//! The engine's output: verdict, refusal and warnings.

use crate::denial::Denial;
use crate::lookup::Lookup;
use crate::rule::Mode;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Patch(pub Vec<u8>);

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    Allow,
    Deny(Denial),
    Patch(Patch),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    pub mode: Mode,
    pub denial: Denial,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    pub verdict: Verdict,
    /// The refusal, if any; it goes into the audit log.
    pub refusal: Option<Refusal>,
    /// Shown to the client, at most [`Decision::LONGEST_WARNING`] characters each.
    pub warnings: Vec<String>,
}

impl Decision {
    /// Longer warnings are cut by clients and proxies (apiserver pkg/endpoints/filters/warning.go).
    pub const LONGEST_WARNING: usize = 120;

    pub(crate) fn allow() -> Self {
        Self {
            verdict: Verdict::Allow,
            refusal: None,
            warnings: Vec::new(),
        }
    }

    pub(crate) fn refuse(&mut self, denial: Denial, mode: Mode) {
        self.refusal = Some(Refusal {
            mode,
            denial: denial.clone(),
        });
        match mode {
            Mode::Enforce => self.verdict = Verdict::Deny(denial),
            Mode::Warn => {
                let rule = denial.rule.as_str();
                let whole = format!("nodelife {rule}: {}", denial.message);
                if whole.chars().count() <= Self::LONGEST_WARNING {
                    self.warn(&whole);
                } else {
                    let parts = denial.message.split("; ");
                    parts.for_each(|part| self.warn(&format!("nodelife {rule}: {part}")));
                }
            }
            Mode::Audit | Mode::Off => {}
        }
    }

    pub(crate) fn warn(&mut self, text: &str) {
        if text.chars().count() <= Self::LONGEST_WARNING {
            self.warnings.push(text.to_owned());
            return;
        }
        let mut cut: String = text.chars().take(Self::LONGEST_WARNING - 1).collect();
        cut.push('…');
        self.warnings.push(cut);
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Evaluation {
    Decided(Decision),
    /// Look these up, add the results to [`crate::Lookups`], and call again.
    Needs(Vec<Lookup>),
}

/// The result of a check, if nothing interrupted it.
pub(crate) type Checked<T = ()> = Result<T, Interrupted>;

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Interrupted {
    Needs(Vec<Lookup>),
    Denied(Denial),
}

impl From<Lookup> for Interrupted {
    fn from(lookup: Lookup) -> Self {
        Self::Needs(vec![lookup])
    }
}

impl From<Denial> for Interrupted {
    fn from(denial: Denial) -> Self {
        Self::Denied(denial)
    }
}
