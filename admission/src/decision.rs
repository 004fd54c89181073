//! Decisions of the engine.

use crate::denial::{Denial, StatusReason};
use crate::lookup::Lookup;
use crate::rule::{AdmissionRule, Mode};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Patch(pub Vec<u8>);

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    Allow,
    Deny(Denial),
    Patch(Patch),
}

/// A rule's objection, whether it was enforced or not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    pub rule: AdmissionRule,
    pub mode: Mode,
    /// Whether for good, for now, or because the object cannot be read.
    pub reason: StatusReason,
    pub message: String,
}

/// A verdict and what goes along with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    pub verdict: Verdict,
    /// The objection behind it, if any; it goes into the audit log.
    pub refusal: Option<Refusal>,
    /// Shown to the client, at most [`Decision::LONGEST_WARNING`] characters each.
    pub warnings: Vec<String>,
}

impl Decision {
    /// Clients and proxies show this much of a warning without cutting it
    /// (apiserver pkg/endpoints/filters/warning.go).
    pub const LONGEST_WARNING: usize = 120;

    pub(crate) fn allow() -> Self {
        Self {
            verdict: Verdict::Allow,
            refusal: None,
            warnings: Vec::new(),
        }
    }

    /// Takes a denial in the mode that its rule is in.
    pub(crate) fn refuse(&mut self, denial: Denial, mode: Mode) {
        self.refusal = Some(Refusal {
            rule: denial.rule,
            mode,
            reason: denial.reason,
            message: denial.message.clone(),
        });
        match mode {
            Mode::Enforce => self.verdict = Verdict::Deny(denial),
            Mode::Warn => {
                let rule = denial.rule.as_str();
                self.warn(&format!("nodelife {rule}: {}", denial.message));
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

/// The end of [`crate::decide`], or what it needs to go on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Evaluation {
    Decided(Decision),
    /// Look this up, put the answer into [`crate::Lookups`], and decide again.
    Needs(Lookup),
}

/// Why a check did not come to its end.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Interrupted {
    Needs(Lookup),
    Denied(Denial),
}

impl From<Denial> for Interrupted {
    fn from(denial: Denial) -> Self {
        Self::Denied(denial)
    }
}
