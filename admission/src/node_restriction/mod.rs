//! What kubelets may do: the in-tree plugin NodeRestriction, rule by rule
//! (plugin/pkg/admission/noderestriction/admission.go, v1.36.3).
//!
//! Order counts: the first check that fails gives the sentence.

mod claim;
pub(super) mod label;
mod node;
pub(super) mod object;
mod pod;
mod pod_certificate;
pub(super) mod reference;
mod signing_request;
mod stricter;
mod token;

use super::lookup::{Answer, Known, Lookup};
use super::policy::{Mode, NodeRestriction};
use super::quote::Quoted;
use super::review::{Operation, Phase, Request, User};
use super::verdict::{Denial, Reason, Rule, Stop};

/// The user name of a node (pkg/auth/nodeidentifier/default.go).
pub(super) const USER_PREFIX: &str = "system:node:";
/// The group that makes such a user a node.
pub(super) const GROUP: &str = "system:nodes";

/// A request of a node, and what its rule may ask.
struct Asked<'r, 'a> {
    request: &'r Request<'a>,
    /// The node that asks.
    node: &'r str,
    policy: &'r NodeRestriction,
    phase: Phase,
    known: &'r Known,
}

/// Checks `request`; users that are no nodes pass.
pub(super) fn check(
    request: &Request<'_>,
    policy: &NodeRestriction,
    phase: Phase,
    known: &Known,
) -> Result<(), Stop> {
    let Some(node) = node_of(request.user()) else {
        return Ok(());
    };
    // The plugin registers for these three alone.
    if request.operation() == Operation::Connect {
        return Ok(());
    }
    if node.is_empty() {
        return check_identity(request.user(), policy);
    }
    let asked = Asked {
        request,
        node,
        policy,
        phase,
        known,
    };
    if let Some(rule) = rule_of(request).filter(|rule| policy.mode(*rule) != Mode::Off) {
        check_rule(&asked, rule)?;
    }
    Ok(stricter::check(&asked)?)
}

/// The in-tree check of `rule`.
fn check_rule(asked: &Asked<'_, '_>, rule: Rule) -> Result<(), Stop> {
    match rule {
        Rule::Nodes => Ok(node::check(asked)?),
        Rule::Pods => pod::check(asked),
        Rule::PodStatus => Ok(pod::check_status(asked)?),
        Rule::Evictions => pod::check_eviction(asked),
        Rule::Claims => Ok(claim::check(asked)?),
        Rule::Tokens => token::check(asked),
        Rule::PodCertificates => pod_certificate::check(asked),
        Rule::Leases => Ok(object::check_lease(asked)?),
        Rule::CsiNodes => Ok(object::check_csi_node(asked)?),
        Rule::ResourceSlices => Ok(object::check_resource_slice(asked)?),
        Rule::SigningRequests => Ok(signing_request::check(asked)?),
        // The others are no resource's: `rule_of` gives none of them.
        _ => Ok(()),
    }
}

/// The rule that a resource falls under; the others are free.
fn rule_of(request: &Request<'_>) -> Option<Rule> {
    Some(match (request.group_resource(), request.subresource()) {
        (("", "nodes"), _) => Rule::Nodes,
        (("", "pods"), "status") => Rule::PodStatus,
        (("", "pods"), "eviction") => Rule::Evictions,
        (("", "pods"), _) => Rule::Pods,
        (("", "persistentvolumeclaims"), _) => Rule::Claims,
        (("", "serviceaccounts"), _) => Rule::Tokens,
        (("certificates.k8s.io", "podcertificaterequests"), _) => Rule::PodCertificates,
        (("coordination.k8s.io", "leases"), _) => Rule::Leases,
        (("storage.k8s.io", "csinodes"), _) => Rule::CsiNodes,
        (("resource.k8s.io", "resourceslices"), _) => Rule::ResourceSlices,
        (("certificates.k8s.io", "certificatesigningrequests"), _) => Rule::SigningRequests,
        _ => return None,
    })
}

/// The name of the node that the user is, possibly empty; `None` for every other user.
fn node_of<'u>(user: &'u User<'_>) -> Option<&'u str> {
    let node = user.name().strip_prefix(USER_PREFIX)?;
    user.groups().any(|group| group == GROUP).then_some(node)
}

fn check_identity(user: &User<'_>, policy: &NodeRestriction) -> Result<(), Stop> {
    if policy.mode(Rule::Identity) == Mode::Off {
        return Ok(());
    }
    let sentence = format!("could not determine node from user {}", Quoted(user.name()));
    Err(Denial::forbidden(Rule::Identity, sentence)
        .remedy("a kubelet's certificate bears CN=system:node:NAME")
        .into())
}

/// A looked-up object, or why there is none.
type Looked<'k> = Result<&'k Answer, Absent>;

/// Why a lookup gave no object.
enum Absent {
    /// It does not exist; the text is the lister's.
    Missing(String),
    /// It could not be read.
    Failed(String),
}

impl Asked<'_, '_> {
    /// The answer to `lookup`, or the wish for it.
    fn look(&self, lookup: Lookup) -> Result<Looked<'_>, Stop> {
        Ok(match self.known.get(&lookup) {
            None => return Err(Stop::Needs(lookup)),
            Some(Answer::Missing) => {
                let (resource, name) = lookup.subject();
                Err(Absent::Missing(format!(
                    "{resource} {} not found",
                    Quoted(name)
                )))
            }
            Some(Answer::Failed(error)) => Err(Absent::Failed(error.clone())),
            Some(answer) => Ok(answer),
        })
    }
}

/// The in-tree 404, passed through as it is.
fn not_found(rule: Rule, sentence: String) -> Stop {
    Denial::new(rule, Reason::NotFound, sentence).into()
}

/// The answer of a failed lookup. In-tree reads its own cache and never fails here; a
/// webhook may, and a 500 lets the client come again.
fn unavailable(rule: Rule, error: &str) -> Stop {
    Denial::new(rule, Reason::InternalError, error.to_owned())
        .remedy("the API server could not be asked; this is tried again")
        .into()
}

/// An answer of another kind than its lookup: a defect of the caller, never an allow.
fn mistaken(rule: Rule) -> Stop {
    unavailable(rule, "failed to use the answer to a lookup")
}
