//! serviceaccounts/token: tokens that a kubelet requests for its pods.

use serde::Deserialize;

use super::pod::look_up_pod;
use super::request::{NodeRequest, OnlySpec, wrong_result};
use crate::decision::Checked;
use crate::denial::Denial;
use crate::go_quote::Quoted;
use crate::json::text::{Text, or_default};
use crate::lookup::{Lookup, LookupResult, PodFacts, VolumeFacts};
use crate::review::{AdmissionPhase, Operation};
use crate::rule::AdmissionRule;

const RULE: AdmissionRule = AdmissionRule::Tokens;

const VERB: &str = "request-serviceaccounts-token-audience";
const AUDIENCE_REMEDY: &str = "mount a projected token with this audience, list it in the \
    CSIDriver's tokenRequests, or grant the group system:nodes the verb \
    request-serviceaccounts-token-audience on the audience";

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Spec<'a> {
    #[serde(borrow, deserialize_with = "or_default")]
    audiences: Vec<Text<'a>>,
    bound_object_ref: Option<Bound<'a>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Bound<'a> {
    #[serde(borrow)]
    api_version: Text<'a>,
    kind: Text<'a>,
    name: Text<'a>,
    uid: Text<'a>,
}

/// `admitServiceAccount`.
pub(super) fn check(request: &NodeRequest<'_, '_>) -> Checked {
    if request.operation() != Operation::Create || request.subresource() != "token" {
        return Ok(());
    }
    let deny = |message: String| Err(Denial::forbidden(RULE, message).into());
    let token: OnlySpec<Spec<'_>> = request.object(RULE)?;
    let bound = token.spec.bound_object_ref.as_ref();
    let Some(bound) = bound.filter(|bound| {
        &*bound.api_version == "v1" && &*bound.kind == "Pod" && !bound.name.is_empty()
    }) else {
        return deny("node requested token not bound to a pod".to_owned());
    };
    if bound.uid.is_empty() {
        return deny("node requested token with a pod binding without a uid".to_owned());
    }
    let pod = look_up_pod(request, RULE, bound.name.to_string())?;
    if pod.uid != *bound.uid {
        return deny(format!(
            "the UID in the bound object reference ({}) does not match the UID in record. \
             The object might have been deleted and then recreated",
            bound.uid
        ));
    }
    if pod.node != request.node {
        return deny(
            "node requested token bound to a pod scheduled on a different node".to_owned(),
        );
    }
    if request.policy.token_audiences.restrict == Some(false) {
        return Ok(());
    }
    let Some(audiences) = raw_audiences(request, &token.spec.audiences) else {
        return Ok(());
    };
    match audiences {
        [] => check_audience(request, pod, ""),
        [audience] => check_audience(request, pod, audience),
        _ => deny("node may only request 0 or 1 audiences".to_owned()),
    }
}

/// The audiences that the client sent; `None` if they are unknown: before the validating phase, the
/// registry replaces an empty list by the API server's own audiences.
fn raw_audiences<'t, 'a>(
    request: &NodeRequest<'_, '_>,
    audiences: &'t [Text<'a>],
) -> Option<&'t [Text<'a>]> {
    if request.phase == AdmissionPhase::Mutating {
        return Some(audiences);
    }
    let defaults = &request.policy.token_audiences.api_audiences;
    if defaults.is_empty() {
        return None;
    }
    if audiences
        .iter()
        .map(|audience| &**audience)
        .eq(defaults.iter().map(String::as_str))
    {
        return Some(&[]);
    }
    Some(audiences)
}

/// `validateNodeServiceAccountAudience`.
fn check_audience(request: &NodeRequest<'_, '_>, pod: &PodFacts, audience: &str) -> Checked {
    let quoted = Quoted(audience);
    if is_in_pod(request, pod, audience)? {
        return Ok(());
    }
    let name = request.user().name();
    let in_order = request.policy.version().is_1_37_or_later();
    let authorized = request.authorize(RULE, VERB, audience.to_owned(), request.name())?;
    let found = authorized.map_or_else(|error| format!(": {error}"), |_| String::new());
    let message = match (authorized, in_order) {
        (Ok(true), _) => return Ok(()),
        (Ok(false), true) => {
            format!("{name} is not authorized to request tokens for audience {quoted}")
        }
        (Err(_), true) => {
            format!("error authorizing {name} to request tokens for audience {quoted}")
        }
        (Ok(false), false) => format!(
            "audience {quoted} not found in pod spec volume, {name} is not authorized to request \
             tokens for this audience"
        ),
        (Err(_), false) => format!(
            "audience {quoted} not found in pod spec volume, error authorizing {name} to request \
             tokens for this audience"
        ),
    };
    Err(Denial::forbidden(RULE, message)
        .found(found)
        .remedy(AUDIENCE_REMEDY)
        .into())
}

/// `podReferencesAudience`: errors count only when no volume has the audience.
fn is_in_pod(request: &NodeRequest<'_, '_>, pod: &PodFacts, audience: &str) -> Checked<bool> {
    // The ServiceAccount plugin appends its volume last: behind claims that need lookups.
    if pod
        .volumes
        .iter()
        .any(|volume| matches!(volume, VolumeFacts::Audience(projected) if projected == audience))
    {
        return Ok(true);
    }
    let mut errors: Vec<String> = Vec::new();
    for volume in &pod.volumes {
        let found = match volume {
            VolumeFacts::Audience(_) => Ok(false),
            VolumeFacts::Claim(claim) => match driver_of_claim(request, claim)? {
                Ok(driver) => driver_asks(request, &driver, audience)?,
                Err(error) => Err(error),
            },
            VolumeFacts::Driver(driver) => driver_asks(request, driver, audience)?,
        };
        match found {
            Ok(true) => return Ok(true),
            Ok(false) => {}
            // The aggregate names each error once.
            Err(error) if errors.contains(&error) => {}
            Err(error) => errors.push(error),
        }
    }
    let quoted = Quoted(audience);
    let joined = match errors.as_slice() {
        [] => return Ok(false),
        [error] => error.clone(),
        _ => format!("[{}]", errors.join(", ")),
    };
    let denial = Denial::forbidden(RULE, format!("error validating audience {quoted}"));
    Err(denial.found(format!(": {joined}")).into())
}

/// The result of a lookup within the audience check: a value or an error message.
type Found<T> = Result<T, String>;

/// `getCSIFromPVC`.
fn driver_of_claim(request: &NodeRequest<'_, '_>, claim: &str) -> Checked<Found<String>> {
    let lookup = Lookup::Claim {
        namespace: request.namespace().to_owned(),
        name: claim.to_owned(),
    };
    let volume = match request.look_up(RULE, lookup)? {
        Ok(LookupResult::BoundTo(volume)) => volume.clone(),
        Ok(_) => return Err(wrong_result(RULE)),
        Err(error) => return Ok(Err(error)),
    };
    match request.look_up(RULE, Lookup::Volume(volume))? {
        Ok(LookupResult::DrivenBy(driver)) => Ok(Ok(driver.clone())),
        Ok(_) => Err(wrong_result(RULE)),
        Err(error) => Ok(Err(error)),
    }
}

/// `csiDriverHasAudience`.
fn driver_asks(
    request: &NodeRequest<'_, '_>,
    driver: &str,
    audience: &str,
) -> Checked<Found<bool>> {
    if driver.is_empty() {
        return Ok(Ok(false));
    }
    match request.look_up(RULE, Lookup::Driver(driver.to_owned()))? {
        Ok(LookupResult::Audiences(audiences)) => Ok(Ok(audiences.iter().any(|a| a == audience))),
        Ok(_) => Err(wrong_result(RULE)),
        Err(error) => Ok(Err(error)),
    }
}
