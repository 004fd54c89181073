//! [`NodeRequest`]: a request of a node, with the configuration and lookups that its rules use.

use std::ops::Deref;

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

pub(super) struct NodeRequest<'r, 'a> {
    pub(super) request: &'r Request<'a>,
    pub(super) node: &'r str,
    pub(super) policy: &'r NodeRestrictionConfig,
    pub(super) phase: AdmissionPhase,
    pub(super) lookups: &'r Lookups,
}

pub(super) type LookedUp<'k> = Result<&'k LookupResult, LookupError>;

/// Why a lookup has no object.
pub(super) enum LookupError {
    /// It does not exist; the text is that of Go's lister.
    Missing(String),
    /// It could not be read.
    Failed(String),
}

impl<'a> Deref for NodeRequest<'_, 'a> {
    type Target = Request<'a>;

    fn deref(&self) -> &Self::Target {
        self.request
    }
}

impl NodeRequest<'_, '_> {
    /// The result of `lookup`; interrupts the check if it is not there yet.
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

/// The in-tree 404, unchanged.
pub(super) fn not_found(rule: AdmissionRule, message: String) -> Interrupted {
    Denial::new(rule, StatusReason::NotFound, message).into()
}

/// The denial after a failed lookup. In-tree reads a cache and cannot fail here; a webhook can, and
/// after a 500 the client retries.
pub(super) fn unavailable(rule: AdmissionRule, error: &str) -> Interrupted {
    Denial::new(rule, StatusReason::InternalError, error.to_owned())
        .remedy("the API server did not answer a lookup; the client retries")
        .into()
}

/// The result has another type than the lookup: a bug in the caller, which must not allow a
/// request.
pub(super) fn wrong_result(rule: AdmissionRule) -> Interrupted {
    unavailable(rule, "failed to use the answer to a lookup")
}
