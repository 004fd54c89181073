//! certificatesigningrequests: a kubelet's own client and serving certificates.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;

use super::request::{NodeRequest, OnlySpec};
use crate::certificate_request::common_name;
use crate::denial::Denial;
use crate::json::text::Text;
use crate::review::Operation;
use crate::rule::AdmissionRule;

const RULE: AdmissionRule = AdmissionRule::SigningRequests;

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Spec<'a> {
    /// PEM in base64.
    #[serde(borrow)]
    request: Text<'a>,
    signer_name: Text<'a>,
}

/// `admitCSR`. The signer checks everything except the common name, as in-tree.
pub(super) fn check(request: &NodeRequest<'_, '_>) -> Result<(), Denial> {
    if request.operation() != Operation::Create {
        return Ok(());
    }
    let object: OnlySpec<Spec<'_>> = request.object(RULE)?;
    if !matches!(
        &*object.spec.signer_name,
        "kubernetes.io/kubelet-serving" | "kubernetes.io/kube-apiserver-client-kubelet"
    ) {
        return Ok(());
    }
    let pem = STANDARD.decode(object.spec.request.as_bytes());
    let unreadable = |error| Denial::unreadable(RULE, "request.object.spec.request", error);
    let pem = pem.map_err(unreadable)?;
    let name = common_name(&pem)
        .map_err(|error| Denial::forbidden(RULE, format!("unable to parse csr: {error}")))?;
    let expected = format!("system:node:{}", request.node);
    if name.as_ref() != Some(&expected) {
        let message = format!("can only create a node CSR with CN={expected}");
        return Err(Denial::forbidden(RULE, message));
    }
    Ok(())
}
