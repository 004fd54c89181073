//! The in-tree plugin NodeRestriction, rule by rule: what kubelets may write
//! (plugin/pkg/admission/noderestriction/admission.go, v1.37.2).
//!
//! The order matters: the first check that fails gives the message.

mod claim;
pub(crate) mod hardening;
pub(crate) mod labels;
mod node;
pub(crate) mod ownership;
mod pod;
mod pod_certificate;
pub(crate) mod pod_references;
pub(crate) mod request;
mod signing_request;
mod token;

use self::request::{GROUP, NodeRequest, USER_PREFIX};

use crate::config::NodeRestrictionConfig;
use crate::decision::{Checked, Interrupted};
use crate::denial::Denial;
use crate::go_quote::Quoted;
use crate::lookup::Lookups;
use crate::review::{AdmissionPhase, Operation, Request, User};
use crate::rule::{AdmissionRule, Mode};

pub(crate) fn check(
    request: &Request<'_>,
    policy: &NodeRestrictionConfig,
    phase: AdmissionPhase,
    lookups: &Lookups,
) -> Checked {
    let Some(node) = node_of(request.user()) else {
        return Ok(());
    };
    // The plugin handles only CREATE, UPDATE and DELETE.
    if request.operation() == Operation::Connect {
        return Ok(());
    }
    if node.is_empty() {
        return check_identity(request.user(), policy);
    }
    let request = NodeRequest {
        request,
        node,
        policy,
        phase,
        lookups,
    };
    let mut denial = None;
    if let Some(rule) = rule_of(&request).filter(|rule| policy.mode(*rule) != Mode::Off) {
        match check_rule(&request, rule) {
            Ok(()) => {}
            Err(Interrupted::Needs(lookups)) => return Err(Interrupted::Needs(lookups)),
            Err(Interrupted::Denied(denied)) => denial = Some(denied),
        }
    }
    // A rule that only warns or audits must not hide a stricter one.
    let denials = denial.into_iter().chain(hardening::check(&request).err());
    let strictest = denials.min_by_key(|denial| policy.mode(denial.rule));
    strictest.map_or(Ok(()), |denial| Err(denial.into()))
}

fn check_rule(request: &NodeRequest<'_, '_>, rule: AdmissionRule) -> Checked {
    match rule {
        AdmissionRule::Nodes => Ok(node::check(request)?),
        AdmissionRule::Pods => pod::check(request),
        AdmissionRule::PodStatus => Ok(pod::check_status(request)?),
        AdmissionRule::Evictions => pod::check_eviction(request),
        AdmissionRule::Claims => Ok(claim::check(request)?),
        AdmissionRule::Tokens => token::check(request),
        AdmissionRule::PodCertificates => pod_certificate::check(request),
        AdmissionRule::Leases => Ok(ownership::check_lease(request)?),
        AdmissionRule::CsiNodes => Ok(ownership::check_csi_node(request)?),
        AdmissionRule::ResourceSlices => Ok(ownership::check_resource_slice(request)?),
        AdmissionRule::SigningRequests => Ok(signing_request::check(request)?),
        // `rule_of` returns no other rule.
        _ => Ok(()),
    }
}

fn rule_of(request: &Request<'_>) -> Option<AdmissionRule> {
    Some(match (request.group_resource(), request.subresource()) {
        (("", "nodes"), _) => AdmissionRule::Nodes,
        (("", "pods"), "status") => AdmissionRule::PodStatus,
        (("", "pods"), "eviction") => AdmissionRule::Evictions,
        (("", "pods"), _) => AdmissionRule::Pods,
        (("", "persistentvolumeclaims"), _) => AdmissionRule::Claims,
        (("", "serviceaccounts"), _) => AdmissionRule::Tokens,
        (("certificates.k8s.io", "podcertificaterequests"), _) => AdmissionRule::PodCertificates,
        (("coordination.k8s.io", "leases"), _) => AdmissionRule::Leases,
        (("storage.k8s.io", "csinodes"), _) => AdmissionRule::CsiNodes,
        (("resource.k8s.io", "resourceslices"), _) => AdmissionRule::ResourceSlices,
        (("certificates.k8s.io", "certificatesigningrequests"), _) => {
            AdmissionRule::SigningRequests
        }
        _ => return None,
    })
}

/// The node name of the user, possibly empty; `None` if the user is not a node.
fn node_of<'u>(user: &'u User<'_>) -> Option<&'u str> {
    let node = user.name().strip_prefix(USER_PREFIX)?;
    user.groups().any(|group| group == GROUP).then_some(node)
}

fn check_identity(user: &User<'_>, policy: &NodeRestrictionConfig) -> Checked {
    if policy.mode(AdmissionRule::Identity) == Mode::Off {
        return Ok(());
    }
    let message = format!("could not determine node from user {}", Quoted(user.name()));
    Err(Denial::forbidden(AdmissionRule::Identity, message)
        .remedy("a kubelet's certificate must have CN=system:node:NAME")
        .into())
}
