//! [`NodeRequest`]: a request of a node, with the configuration and lookups that its rules use.

use std::ops::Deref;

use serde::Deserialize;

use crate::config::NodeRestrictionConfig;
use crate::decision::{Checked, Interrupted};
use crate::denial::{Denial, StatusReason};
use crate::go_quote::Quoted;
use crate::json::text::{Text, or_default};
use crate::lookup::{Access, Lookup, LookupResult, Lookups};
use crate::review::{AdmissionPhase, Request};
use crate::rule::AdmissionRule;

/// The user name of a node (pkg/auth/nodeidentifier/default.go).
pub(crate) const USER_PREFIX: &str = "system:node:";
pub(crate) const GROUP: &str = "system:nodes";

/// More lookups than any real request needs; only the size of a pod limits its volumes.
const MOST_LOOKUPS: usize = 64;

pub(super) struct NodeRequest<'r, 'a> {
    pub(super) request: &'r Request<'a>,
    pub(super) node: &'r str,
    pub(super) policy: &'r NodeRestrictionConfig,
    pub(super) phase: AdmissionPhase,
    pub(super) lookups: &'r Lookups,
}

#[derive(Deserialize)]
#[serde(bound(deserialize = "S: Default + Deserialize<'de>"))]
pub(super) struct OnlySpec<S> {
    #[serde(default, deserialize_with = "or_default")]
    pub(super) spec: S,
}

#[derive(Deserialize)]
pub(super) struct Named<'a> {
    #[serde(borrow, default, deserialize_with = "or_default")]
    pub(super) metadata: Name<'a>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Name<'a> {
    #[serde(borrow)]
    pub(super) name: Text<'a>,
}

/// A result, or in-tree's message if the object does not exist.
pub(super) type LookedUp<'k> = Result<&'k LookupResult, String>;

impl<'a> Deref for NodeRequest<'_, 'a> {
    type Target = Request<'a>;

    fn deref(&self) -> &Self::Target {
        self.request
    }
}

impl NodeRequest<'_, '_> {
    pub(super) fn denial(&self, rule: AdmissionRule, what: &str) -> Denial {
        Denial::forbidden(rule, format!("node {} {what}", Quoted(self.node)))
    }

    /// The result of `lookup`; interrupts the check of `rule` if it is not there yet, or failed.
    pub(super) fn look_up(&self, rule: AdmissionRule, lookup: Lookup) -> Checked<LookedUp<'_>> {
        Ok(match self.lookups.get(&lookup) {
            None if self.lookups.len() < MOST_LOOKUPS => return Err(lookup.into()),
            None => {
                let message = format!("the request needs more than {MOST_LOOKUPS} lookups");
                return Err(Denial::forbidden(rule, message).into());
            }
            Some(LookupResult::Missing) => {
                // As in the errors of Go's listers.
                let ((api, kind), _, name) = lookup.object();
                let group = api.split_once('/').map_or("", |(group, _)| group);
                let resource = format!("{}.{group}", kind.to_lowercase());
                let name = Quoted(name.unwrap_or_default());
                Err(format!(
                    "{} {name} not found",
                    resource.trim_end_matches('.')
                ))
            }
            Some(LookupResult::Failed(error)) => {
                return Err(Denial::unavailable(rule, error).into());
            }
            Some(answer) => Ok(answer),
        })
    }

    /// Whether the node has the permission `verb` on `resource`, or why an authorizer could not
    /// decide (`buildAuthorizerAttributes`).
    pub(super) fn authorize(
        &self,
        rule: AdmissionRule,
        verb: &'static str,
        resource: String,
        name: &str,
    ) -> Checked<Result<bool, &str>> {
        let user = self.user();
        let access = Access {
            user: user.name().to_owned(),
            uid: user.uid().to_owned(),
            groups: user.groups().map(str::to_owned).collect(),
            extra: user
                .extra(rule)?
                .into_iter()
                .map(|(key, values)| {
                    let values = values.iter().map(ToString::to_string).collect();
                    (key.to_string(), values)
                })
                .collect(),
            verb,
            group: self.group_resource().0.to_owned(),
            version: self.version().to_owned(),
            resource,
            namespace: self.namespace().to_owned(),
            name: name.to_owned(),
        };
        match self.look_up(rule, Lookup::Access(Box::new(access)))? {
            Ok(LookupResult::Access(answer)) => {
                Ok(answer.as_ref().copied().map_err(String::as_str))
            }
            _ => Err(wrong_result(rule)),
        }
    }
}

pub(super) fn not_found(rule: AdmissionRule, message: String) -> Interrupted {
    Denial::new(rule, StatusReason::NotFound, message).into()
}

/// The result has another type than the lookup: a bug in the caller, which must allow no request.
pub(super) fn wrong_result(rule: AdmissionRule) -> Interrupted {
    Denial::unavailable(rule, "failed to use the answer to a lookup").into()
}
