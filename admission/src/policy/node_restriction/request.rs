//! The request of a node that is judged, with what its rules may ask.

use crate::config::NodeRestrictionConfig;
use crate::decision::Interrupted;
use crate::denial::{Denial, StatusReason};
use crate::go_quote::Quoted;
use crate::lookup::{Lookup, LookupResult, Lookups};
use crate::review::{AdmissionPhase, Request};
use crate::rule::AdmissionRule;

/// The user name of a node (pkg/auth/nodeidentifier/default.go).
pub(crate) const USER_PREFIX: &str = "system:node:";
/// The group that makes such a user a node.
pub(crate) const GROUP: &str = "system:nodes";

/// A request of a node, and what its rule may ask.
pub(super) struct NodeRequest<'r, 'a> {
    pub(super) request: &'r Request<'a>,
    pub(super) node: &'r str,
    pub(super) policy: &'r NodeRestrictionConfig,
    pub(super) phase: AdmissionPhase,
    pub(super) lookups: &'r Lookups,
}

/// A looked-up object, or why there is none.
pub(super) type LookedUp<'k> = Result<&'k LookupResult, LookupError>;

/// Why a lookup gave no object.
pub(super) enum LookupError {
    /// It does not exist; the text is the lister's.
    Missing(String),
    /// It could not be read.
    Failed(String),
}

impl NodeRequest<'_, '_> {
    /// The answer to `lookup`, or the wish for it.
    pub(super) fn look_up(&self, lookup: Lookup) -> Result<LookedUp<'_>, Interrupted> {
        Ok(match self.lookups.get(&lookup) {
            None => return Err(Interrupted::Needs(lookup)),
            Some(LookupResult::Missing) => {
                let (resource, name) = lookup.subject();
                Err(LookupError::Missing(format!(
                    "{resource} {} not found",
                    Quoted(name)
                )))
            }
            Some(LookupResult::Failed(error)) => Err(LookupError::Failed(error.clone())),
            Some(answer) => Ok(answer),
        })
    }
}

/// The in-tree 404, passed through as it is.
pub(super) fn not_found(rule: AdmissionRule, message: String) -> Interrupted {
    Denial::new(rule, StatusReason::NotFound, message).into()
}

/// The answer of a failed lookup. In-tree reads its own cache and never fails here; a
/// webhook may, and a 500 lets the client come again.
pub(super) fn unavailable(rule: AdmissionRule, error: &str) -> Interrupted {
    Denial::new(rule, StatusReason::InternalError, error.to_owned())
        .remedy("the API server could not be asked; this is tried again")
        .into()
}

/// An answer of another kind than its lookup: a defect of the caller, never an allow.
pub(super) fn wrong_result(rule: AdmissionRule) -> Interrupted {
    unavailable(rule, "failed to use the answer to a lookup")
}
