//! podcertificaterequests: certificates that a kubelet requests for its pods.

use serde::Deserialize;

use super::pod::find_pod;
use super::request::{NodeRequest, OnlySpec, wrong_result};
use crate::decision::{Checked, Interrupted};
use crate::denial::{Denial, StatusReason};
use crate::go_quote::Quoted;
use crate::json::text::Text;
use crate::lookup::{Lookup, LookupResult, PodFacts};
use crate::review::Operation;
use crate::rule::AdmissionRule;

const RULE: AdmissionRule = AdmissionRule::PodCertificates;

const VERB: &str = "request-serviceaccounts-podcertificate-signer";
const SIGNER_REMEDY: &str = "mount a projected volume with a podCertificate of this signer, or \
    grant the group system:nodes the verb request-serviceaccounts-podcertificate-signer on the \
    signer, with : in the place of /";

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Spec<'a> {
    #[serde(borrow)]
    pod_name: Text<'a>,
    #[serde(rename = "podUID")]
    pod_uid: Text<'a>,
    service_account_name: Text<'a>,
    #[serde(rename = "serviceAccountUID")]
    service_account_uid: Text<'a>,
    node_name: Text<'a>,
    #[serde(rename = "nodeUID")]
    node_uid: Text<'a>,
    signer_name: Text<'a>,
}

fn deny(message: String) -> Interrupted {
    Denial::forbidden(RULE, message).into()
}

/// `admitPodCertificateRequest`.
pub(super) fn check(request: &NodeRequest<'_, '_>) -> Checked {
    let is_served = request.policy.pod_certificate_requests;
    if !is_served.unwrap_or_else(|| request.policy.version().is_1_37_or_later()) {
        return Err(deny(
            "PodCertificateRequest feature gate is disabled".to_owned(),
        ));
    }
    if request.operation() != Operation::Create {
        let operation = request.operation().as_str();
        return Err(deny(format!("unexpected operation {operation}")));
    }
    if !request.subresource().is_empty() {
        let subresource = request.subresource();
        return Err(deny(format!("unexpected subresource {subresource}")));
    }
    let object: OnlySpec<Spec<'_>> = request.object(RULE)?;
    let spec = &object.spec;
    let node = Quoted(&spec.node_name);
    if *spec.node_name != *request.node {
        return Err(deny(format!(
            "PodCertificateRequest.Spec.NodeName={node}, which is not the requesting node {}",
            Quoted(request.node)
        )));
    }
    let named = format!("{}/{}", request.namespace(), &*spec.pod_name);
    let pod_name = Quoted(&named);
    let lookup = Lookup::Node(spec.node_name.to_string());
    let uid = look_up_uid(request, lookup, &format!("node {node}"))?;
    if uid != &*spec.node_uid {
        let message = format!(
            "PodCertificateRequest for pod {pod_name} names node UID {}, inconsistent with the \
             running node",
            Quoted(&spec.node_uid)
        );
        return Err(differs(StatusReason::InternalError, message, uid));
    }
    let pod = find_pod(request, RULE, spec.pod_name.to_string())?
        .map_err(|error| missing(&error, &format!("pod {pod_name}")))?;
    if pod.uid != *spec.pod_uid {
        let message = format!(
            "PodCertificateRequest for pod {pod_name} contains pod UID ({}) which differs from \
             running pod",
            Quoted(&spec.pod_uid)
        );
        let found = format!(" {}", Quoted(&pod.uid));
        let denial = Denial::new(RULE, StatusReason::InternalError, message);
        return Err(denial.found(found).into());
    }
    if pod.node != *spec.node_name {
        return Err(deny(format!(
            "pod {pod_name} is not running on node {node} named in the PodCertificateRequest"
        )));
    }
    if pod.mirror {
        return Err(deny(format!("pod {pod_name} is a mirror pod")));
    }
    if pod.service_account != *spec.service_account_name {
        let message = format!(
            "PodCertificateRequest for pod {pod_name} contains serviceAccountName ({}) that \
             differs from running pod",
            Quoted(&spec.service_account_name)
        );
        return Err(differs(
            StatusReason::Forbidden,
            message,
            &pod.service_account,
        ));
    }
    let account = format!("{}/{}", request.namespace(), &*spec.service_account_name);
    let lookup = Lookup::ServiceAccount {
        namespace: request.namespace().to_owned(),
        name: spec.service_account_name.to_string(),
    };
    let what = format!("service account {}", Quoted(&account));
    let uid = look_up_uid(request, lookup, &what)?;
    if uid != &*spec.service_account_uid {
        let message = format!(
            "PodCertificateRequest for pod {pod_name} names service account UID {}, which differs \
             from the running service account",
            Quoted(&spec.service_account_uid)
        );
        return Err(differs(StatusReason::InternalError, message, uid));
    }
    check_signer(request, spec, pod)
}

/// The denial of a request that says another value than the one that was looked up.
fn differs(reason: StatusReason, message: String, value: &str) -> Interrupted {
    let denial = Denial::new(RULE, reason, message);
    denial.found(format!(" ({})", Quoted(value))).into()
}

/// `validateNodePodCertificateSigner`.
fn check_signer(request: &NodeRequest<'_, '_>, spec: &Spec<'_>, pod: &PodFacts) -> Checked {
    let signer = &*spec.signer_name;
    let is_mounted = pod.signers.iter().any(|mounted| mounted == signer);
    if is_mounted || !request.policy.version().is_1_37_or_later() {
        return Ok(());
    }
    // RBAC knows no resource with a slash.
    let resource = signer.replace('/', ":");
    let quoted = Quoted(signer);
    let mut found = String::new();
    let message = match request.authorize(RULE, VERB, resource, &spec.service_account_name)? {
        Ok(true) => return Ok(()),
        Ok(false) => {
            let named = format!("{}/{}", request.namespace(), &*spec.pod_name);
            format!(
                "pod {} does not mount a podCertificate projected volume for signer {quoted}",
                Quoted(&named)
            )
        }
        Err(error) => {
            found = format!(": {error}");
            format!(
                "error authorizing {} to request podcertificaterequests for signer {quoted}",
                request.user().name()
            )
        }
    };
    Err(Denial::forbidden(RULE, message)
        .found(found)
        .remedy(SIGNER_REMEDY)
        .into())
}

/// The denial for an object that does not exist. Not Forbidden: if a cache is behind, a retry may succeed.
fn missing(error: &str, what: &str) -> Interrupted {
    let message = format!("while retrieving {what} named in the PodCertificateRequest: {error}");
    Denial::new(RULE, StatusReason::InternalError, message).into()
}

fn look_up_uid<'k>(
    request: &'k NodeRequest<'_, '_>,
    lookup: Lookup,
    what: &str,
) -> Checked<&'k str> {
    match request.look_up(RULE, lookup)? {
        Ok(LookupResult::Uid(uid)) => Ok(uid),
        Ok(_) => Err(wrong_result(RULE)),
        Err(error) => Err(missing(&error, what)),
    }
}
