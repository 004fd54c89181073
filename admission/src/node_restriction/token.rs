//! serviceaccounts/token: tokens that a kubelet requests for its pods.

use serde::Deserialize;

use super::super::json::{Text, or_default};
use super::super::lookup::{Access, Answer, Lookup, PodFacts, VolumeFacts};
use super::super::quote::Quoted;
use super::super::review::{Operation, Phase};
use super::super::verdict::{Denial, Rule, Stop};
use super::pod::look_up_pod;
use super::{Absent, Asked, mistaken};

const RULE: Rule = Rule::Tokens;

const AUDIENCE_REMEDY: &str = "mount a projected token with this audience, list it in the \
    CSIDriver's tokenRequests, or grant the group system:nodes the verb \
    request-serviceaccounts-token-audience on the audience";

#[derive(Deserialize)]
struct TokenRequest<'a> {
    #[serde(borrow, default, deserialize_with = "or_default")]
    spec: Spec<'a>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Spec<'a> {
    #[serde(borrow, deserialize_with = "or_default")]
    audiences: Vec<Text<'a>>,
    #[serde(borrow)]
    bound_object_ref: Option<Bound<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Bound<'a> {
    #[serde(borrow, default)]
    api_version: Text<'a>,
    #[serde(borrow, default)]
    kind: Text<'a>,
    #[serde(borrow, default)]
    name: Text<'a>,
    #[serde(borrow, default)]
    uid: Text<'a>,
}

/// `admitServiceAccount`.
pub(super) fn check(asked: &Asked<'_, '_>) -> Result<(), Stop> {
    let request = asked.request;
    if request.operation() != Operation::Create || request.subresource() != "token" {
        return Ok(());
    }
    let deny = |sentence: String| Err(Denial::forbidden(RULE, sentence).into());
    let token: TokenRequest<'_> = request.object(RULE)?;
    let bound = token.spec.bound_object_ref.as_ref();
    let Some(bound) = bound.filter(|bound| {
        &*bound.api_version == "v1" && &*bound.kind == "Pod" && !bound.name.is_empty()
    }) else {
        return deny("node requested token not bound to a pod".to_owned());
    };
    if bound.uid.is_empty() {
        return deny("node requested token with a pod binding without a uid".to_owned());
    }
    let pod = look_up_pod(asked, RULE, bound.name.to_string())?;
    if pod.uid != *bound.uid {
        return deny(format!(
            "the UID in the bound object reference ({}) does not match the UID in record. \
             The object might have been deleted and then recreated",
            bound.uid
        ));
    }
    if pod.node != asked.node {
        return deny(
            "node requested token bound to a pod scheduled on a different node".to_owned(),
        );
    }
    if !asked.policy.restricts_audiences() {
        return Ok(());
    }
    let Some(audiences) = raw_audiences(asked, &token.spec.audiences) else {
        return Ok(());
    };
    match audiences {
        [] => check_audience(asked, pod, ""),
        [audience] => check_audience(asked, pod, audience),
        _ => deny("node may only request 0 or 1 audiences".to_owned()),
    }
}

/// The audiences as the client sent them; `None` where that cannot be told any more: the
/// registry puts the API server's own audiences in place of none before the validating phase.
fn raw_audiences<'t, 'a>(
    asked: &Asked<'_, '_>,
    audiences: &'t [Text<'a>],
) -> Option<&'t [Text<'a>]> {
    if asked.phase == Phase::Mutating {
        return Some(audiences);
    }
    let defaults = &asked.policy.token_audiences.api_audiences;
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
fn check_audience(asked: &Asked<'_, '_>, pod: &PodFacts, audience: &str) -> Result<(), Stop> {
    let quoted = Quoted(audience);
    if is_in_pod(asked, pod, audience)? {
        return Ok(());
    }
    let user = asked.request.user();
    let access = Access {
        user: user.name().to_owned(),
        uid: user.uid().to_owned(),
        groups: user.groups().map(str::to_owned).collect(),
        audience: audience.to_owned(),
        namespace: asked.request.namespace().to_owned(),
        name: asked.request.name().to_owned(),
    };
    let name = user.name();
    let sentence = match asked.look(Lookup::Access(Box::new(access)))? {
        Ok(Answer::Allowed(true)) => return Ok(()),
        Ok(Answer::Allowed(false)) => format!(
            "audience {quoted} not found in pod spec volume, {name} is not authorized to request \
             tokens for this audience"
        ),
        Ok(_) => return Err(mistaken(RULE)),
        Err(Absent::Missing(error) | Absent::Failed(error)) => format!(
            "audience {quoted} not found in pod spec volume, error authorizing {name} to request \
             tokens for this audience: {error}"
        ),
    };
    Err(Denial::forbidden(RULE, sentence)
        .remedy(AUDIENCE_REMEDY)
        .into())
}

/// `podReferencesAudience`: errors count only when no volume has the audience.
fn is_in_pod(asked: &Asked<'_, '_>, pod: &PodFacts, audience: &str) -> Result<bool, Stop> {
    let mut errors: Vec<String> = Vec::new();
    for volume in &pod.volumes {
        let found = match volume {
            VolumeFacts::Audience(projected) => Ok(projected == audience),
            VolumeFacts::Claim(claim) => match driver_of_claim(asked, claim)? {
                Ok(driver) => driver_asks(asked, &driver, audience)?,
                Err(error) => Err(error),
            },
            VolumeFacts::Driver(driver) => driver_asks(asked, driver, audience)?,
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
    let sentence = format!("error validating audience {quoted}: {joined}");
    Err(Denial::forbidden(RULE, sentence).into())
}

/// What a lookup within the audience check gives: a value or the text of its error.
type Found<T> = Result<T, String>;

fn text(absent: Absent) -> String {
    match absent {
        Absent::Missing(error) | Absent::Failed(error) => error,
    }
}

/// `getCSIFromPVC`.
fn driver_of_claim(asked: &Asked<'_, '_>, claim: &str) -> Result<Found<String>, Stop> {
    let lookup = Lookup::Claim {
        namespace: asked.request.namespace().to_owned(),
        name: claim.to_owned(),
    };
    let volume = match asked.look(lookup)? {
        Ok(Answer::BoundTo(volume)) => volume.clone(),
        Ok(_) => return Err(mistaken(RULE)),
        Err(absent) => return Ok(Err(text(absent))),
    };
    match asked.look(Lookup::Volume(volume))? {
        Ok(Answer::DrivenBy(driver)) => Ok(Ok(driver.clone())),
        Ok(_) => Err(mistaken(RULE)),
        Err(absent) => Ok(Err(text(absent))),
    }
}

/// `csiDriverHasAudience`.
fn driver_asks(asked: &Asked<'_, '_>, driver: &str, audience: &str) -> Result<Found<bool>, Stop> {
    if driver.is_empty() {
        return Ok(Ok(false));
    }
    match asked.look(Lookup::Driver(driver.to_owned()))? {
        Ok(Answer::Audiences(audiences)) => Ok(Ok(audiences.iter().any(|a| a == audience))),
        Ok(_) => Err(mistaken(RULE)),
        Err(absent) => Ok(Err(text(absent))),
    }
}
