//! What the engine says.

use std::fmt;

use super::lookup::Lookup;
use super::policy::Mode;

/// The rule that spoke: what modes, metrics and audit annotations go by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Rule {
    /// A user `system:node:` without a name.
    Identity,
    /// Nodes and their subresources.
    Nodes,
    /// Creation and deletion of pods.
    Pods,
    /// pods/status.
    PodStatus,
    /// pods/eviction.
    Evictions,
    /// persistentvolumeclaims and their status.
    Claims,
    /// serviceaccounts/token.
    Tokens,
    /// podcertificaterequests.
    PodCertificates,
    /// Leases.
    Leases,
    /// csinodes.
    CsiNodes,
    /// resourceslices.
    ResourceSlices,
    /// certificatesigningrequests.
    SigningRequests,
    /// Annotations and finalizers that go through pods/status. This one and the next six are
    /// stricter than the in-tree plugin.
    PodStatusMetadata,
    /// Labels of mirror pods.
    MirrorPodLabels,
    /// A node that takes its own cordon away.
    SelfUncordon,
    /// A node that registers with owners.
    RegistrationOwners,
    /// Events of another host.
    Events,
    /// A node that deletes itself.
    SelfDeletion,
    /// CSI drivers that a node announces.
    CsiDrivers,
    /// Agents held to their own node.
    Agents,
    /// Default tolerations.
    Tolerations,
}

impl Rule {
    /// Whether it refuses what the in-tree plugin lets pass. Such a rule is off unless the
    /// policy names its mode.
    pub fn is_stricter(self) -> bool {
        matches!(
            self,
            Self::PodStatusMetadata
                | Self::MirrorPodLabels
                | Self::SelfUncordon
                | Self::RegistrationOwners
                | Self::Events
                | Self::SelfDeletion
                | Self::CsiDrivers
        )
    }

    /// The name in configuration, metrics and audit annotations.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Identity => "identity",
            Self::Nodes => "nodes",
            Self::Pods => "pods",
            Self::PodStatus => "podStatus",
            Self::Evictions => "evictions",
            Self::Claims => "claims",
            Self::Tokens => "tokens",
            Self::PodCertificates => "podCertificates",
            Self::Leases => "leases",
            Self::CsiNodes => "csiNodes",
            Self::ResourceSlices => "resourceSlices",
            Self::SigningRequests => "signingRequests",
            Self::PodStatusMetadata => "podStatusMetadata",
            Self::MirrorPodLabels => "mirrorPodLabels",
            Self::SelfUncordon => "selfUncordon",
            Self::RegistrationOwners => "registrationOwners",
            Self::Events => "events",
            Self::SelfDeletion => "selfDeletion",
            Self::CsiDrivers => "csiDrivers",
            Self::Agents => "agents",
            Self::Tolerations => "tolerations",
        }
    }
}

/// `status.code` and `status.reason` of a denial, as the in-tree plugins give them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// 400: the object cannot be read.
    BadRequest,
    /// 403: refused for good.
    Forbidden,
    /// 404: an object that the request names is not there.
    NotFound,
    /// 500: may be a matter of time; the client tries again.
    InternalError,
}

impl Reason {
    /// The HTTP status.
    pub fn code(self) -> u16 {
        match self {
            Self::BadRequest => 400,
            Self::Forbidden => 403,
            Self::NotFound => 404,
            Self::InternalError => 500,
        }
    }

    /// `metav1.StatusReason`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::BadRequest => "BadRequest",
            Self::Forbidden => "Forbidden",
            Self::NotFound => "NotFound",
            Self::InternalError => "InternalError",
        }
    }
}

/// A refusal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Denial {
    /// Who refuses.
    pub rule: Rule,
    /// Code and reason of the status.
    pub reason: Reason,
    /// The in-tree sentence, word for word.
    pub sentence: String,
    /// What to do instead; empty where nothing helps.
    pub remedy: &'static str,
}

impl Denial {
    pub(super) fn new(rule: Rule, reason: Reason, sentence: String) -> Self {
        Self {
            rule,
            reason,
            sentence,
            remedy: "",
        }
    }

    pub(super) fn forbidden(rule: Rule, sentence: String) -> Self {
        Self::new(rule, Reason::Forbidden, sentence)
    }

    pub(super) fn unreadable(rule: Rule, sentence: String) -> Self {
        Self::new(rule, Reason::BadRequest, sentence)
    }

    pub(super) fn remedy(self, remedy: &'static str) -> Self {
        Self { remedy, ..self }
    }
}

/// The sentence, then the remedy: what the user reads.
impl fmt::Display for Denial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.sentence)?;
        if self.remedy.is_empty() {
            return Ok(());
        }
        write!(f, " (nodelife: {})", self.remedy)
    }
}

/// A `JSONPatch`, as its JSON.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Patch(pub Vec<u8>);

/// Allow, refuse, or change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// As it is.
    Allow,
    /// Not at all.
    Deny(Denial),
    /// With this change.
    Patch(Patch),
}

/// A rule's objection, whether it was enforced or not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Who objects.
    pub rule: Rule,
    /// What it led to.
    pub mode: Mode,
    /// Whether for good, for now, or because the object cannot be read.
    pub reason: Reason,
    /// The in-tree sentence.
    pub sentence: String,
}

/// A verdict and what goes along with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// What is to happen.
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

    pub(super) fn allow() -> Self {
        Self {
            verdict: Verdict::Allow,
            refusal: None,
            warnings: Vec::new(),
        }
    }

    /// Takes a denial in the mode that its rule is in.
    pub(super) fn refuse(&mut self, denial: Denial, mode: Mode) {
        self.refusal = Some(Refusal {
            rule: denial.rule,
            mode,
            reason: denial.reason,
            sentence: denial.sentence.clone(),
        });
        match mode {
            Mode::Enforce => self.verdict = Verdict::Deny(denial),
            Mode::Warn => {
                let rule = denial.rule.as_str();
                self.warn(&format!("nodelife {rule}: {}", denial.sentence));
            }
            Mode::Audit | Mode::Off => {}
        }
    }

    pub(super) fn warn(&mut self, text: &str) {
        if text.chars().count() <= Self::LONGEST_WARNING {
            self.warnings.push(text.to_owned());
            return;
        }
        let mut cut: String = text.chars().take(Self::LONGEST_WARNING - 1).collect();
        cut.push('…');
        self.warnings.push(cut);
    }
}

/// The end of [`super::decide`], or what it needs to go on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Done.
    Decided(Decision),
    /// Look this up, put the answer into [`super::Known`], and decide again.
    Needs(Lookup),
}

/// Why a check did not come to its end.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Stop {
    Needs(Lookup),
    Denied(Denial),
}

impl From<Denial> for Stop {
    fn from(denial: Denial) -> Self {
        Self::Denied(denial)
    }
}
