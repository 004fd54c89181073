//! References of a pod to other API objects, which a mirror pod must not have
//! (`HasAPIObjectReference`, pkg/api/pod/util.go, v1.36.3).

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::request::OnlySpec;
use crate::denial::Denial;
use crate::go_quote::Quoted;
use crate::json::text::{Text, or_default};
use crate::review::Request;
use crate::rule::AdmissionRule;

/// A volume source by its key: `{"name": …, "csi": {…}}`.
type Source<'a> = BTreeMap<Text<'a>, Option<&'a RawValue>>;

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Spec<'a> {
    #[serde(borrow)]
    service_account_name: Text<'a>,
    /// The deprecated name of the same field; conversion takes either.
    service_account: Text<'a>,
    #[serde(deserialize_with = "or_default")]
    image_pull_secrets: Vec<Reference<'a>>,
    #[serde(deserialize_with = "or_default")]
    containers: Vec<Container<'a>>,
    #[serde(deserialize_with = "or_default")]
    init_containers: Vec<Container<'a>>,
    #[serde(deserialize_with = "or_default")]
    ephemeral_containers: Vec<Container<'a>>,
    #[serde(deserialize_with = "or_default")]
    resource_claims: Vec<&'a RawValue>,
    #[serde(deserialize_with = "or_default")]
    volumes: Vec<Source<'a>>,
}

/// `{"name": …}`, or the secret name of a source.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Reference<'a> {
    #[serde(borrow)]
    name: Text<'a>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Container<'a> {
    #[serde(borrow, default, deserialize_with = "or_default")]
    env: Vec<Variable<'a>>,
    #[serde(default, deserialize_with = "or_default")]
    env_from: Vec<VariableSource<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Variable<'a> {
    #[serde(borrow, default)]
    value_from: Option<VariableSource<'a>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct VariableSource<'a> {
    #[serde(borrow, alias = "secretKeyRef")]
    secret_ref: Option<Reference<'a>>,
    #[serde(alias = "configMapKeyRef")]
    config_map_ref: Option<Reference<'a>>,
}

/// The names of secrets that a volume source can hold, whatever its kind.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Secrets<'a> {
    #[serde(borrow)]
    secret_name: Text<'a>,
    secret_ref: Option<Reference<'a>>,
    node_publish_secret_ref: Option<Reference<'a>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Projected<'a> {
    #[serde(borrow, deserialize_with = "or_default")]
    sources: Vec<Source<'a>>,
}

pub(crate) const PLAIN: [&str; 22] = [
    "awsElasticBlockStore",
    "azureDisk",
    "cephfs",
    "cinder",
    "downwardAPI",
    "emptyDir",
    "fc",
    "flexVolume",
    "flocker",
    "gcePersistentDisk",
    "gitRepo",
    "hostPath",
    "image",
    "iscsi",
    "nfs",
    "photonPersistentDisk",
    "portworxVolume",
    "quobyte",
    "rbd",
    "scaleIO",
    "storageos",
    "vsphereVolume",
];

/// Sources that may name a secret, in the order of `VisitPodSecretNames`; `projected` is read apart.
const WITH_SECRETS: [&str; 11] = [
    "azureFile",
    "cephfs",
    "cinder",
    "flexVolume",
    "projected",
    "rbd",
    "secret",
    "scaleIO",
    "iscsi",
    "storageos",
    "csi",
];

/// Volume sources that are references themselves, in the in-tree order.
pub(crate) const REFERRING: [(&str, &str); 7] = [
    ("configMap", "configmaps (via configmap volumes)"),
    ("secret", "secrets (via secret volumes)"),
    ("csi", "csidrivers (via CSI volumes)"),
    ("glusterfs", "endpoints (via glusterFS volumes)"),
    ("persistentVolumeClaim", "persistentvolumeclaims"),
    (
        "ephemeral",
        "persistentvolumeclaims (via ephemeral volumes)",
    ),
    ("azureFile", "secrets (via azureFile volumes)"),
];

/// Sources of a projected volume that are references, in the in-tree order.
pub(crate) const PROJECTED: [(&str, &str); 5] = [
    ("configMap", "configmaps (via projected volumes)"),
    ("secret", "secrets (via projected volumes)"),
    (
        "serviceAccountToken",
        "serviceaccounts (via projected volumes)",
    ),
    ("clusterTrustBundle", "clustertrustbundles"),
    ("podCertificate", "podcertificates"),
];

/// The first kind of object that the pod of `request` references, as named in the in-tree message.
pub(super) fn find(request: &Request<'_>) -> Result<Option<&'static str>, Denial> {
    let pod: OnlySpec<Spec<'_>> = request.object(AdmissionRule::Pods)?;
    let spec = &pod.spec;
    if !spec.service_account_name.is_empty() || !spec.service_account.is_empty() {
        return Ok(Some("serviceaccounts"));
    }
    if names_secret(spec)? {
        return Ok(Some("secrets"));
    }
    if names_config_map(spec)? {
        return Ok(Some("configmaps"));
    }
    if !spec.resource_claims.is_empty() {
        return Ok(Some("resourceclaims"));
    }
    for volume in &spec.volumes {
        if let Some(resource) = volume_reference(volume)? {
            return Ok(Some(resource));
        }
    }
    Ok(None)
}

/// Empty names are skipped here, as in-tree.
fn is_named(reference: Option<&Reference<'_>>) -> bool {
    reference.is_some_and(|reference| !reference.name.is_empty())
}

fn variables<'s, 'a>(spec: &'s Spec<'a>) -> impl Iterator<Item = &'s VariableSource<'a>> {
    let lists = [
        &spec.init_containers,
        &spec.containers,
        &spec.ephemeral_containers,
    ];
    lists.into_iter().flatten().flat_map(|container| {
        let single = container.env.iter().filter_map(|v| v.value_from.as_ref());
        single.chain(&container.env_from)
    })
}

fn names_secret(spec: &Spec<'_>) -> Result<bool, Denial> {
    let mut pull_secrets = spec.image_pull_secrets.iter();
    if pull_secrets.any(|secret| is_named(Some(secret)))
        || variables(spec).any(|source| is_named(source.secret_ref.as_ref()))
    {
        return Ok(true);
    }
    for volume in &spec.volumes {
        let named = match first_source(volume, &WITH_SECRETS) {
            Some(("projected", raw)) => projects(raw, "secret")?,
            Some((_, raw)) => {
                let secrets: Secrets<'_> = read(raw)?;
                !secrets.secret_name.is_empty()
                    || is_named(secrets.secret_ref.as_ref())
                    || is_named(secrets.node_publish_secret_ref.as_ref())
            }
            None => false,
        };
        if named {
            return Ok(true);
        }
    }
    Ok(false)
}

fn names_config_map(spec: &Spec<'_>) -> Result<bool, Denial> {
    if variables(spec).any(|source| is_named(source.config_map_ref.as_ref())) {
        return Ok(true);
    }
    for volume in &spec.volumes {
        let named = match first_source(volume, &["projected", "configMap"]) {
            Some(("projected", raw)) => projects(raw, "configMap")?,
            Some((_, raw)) => is_named(Some(&read(raw)?)),
            None => false,
        };
        if named {
            return Ok(true);
        }
    }
    Ok(false)
}

fn projects(raw: &RawValue, kind: &'static str) -> Result<bool, Denial> {
    for source in read::<Projected<'_>>(raw)?.sources {
        if let Some((_, raw)) = first_source(&source, &[kind])
            && is_named(Some(&read(raw)?))
        {
            return Ok(true);
        }
    }
    Ok(false)
}

fn volume_reference(volume: &Source<'_>) -> Result<Option<&'static str>, Denial> {
    if first_source(volume, &PLAIN).is_some() {
        return Ok(None);
    }
    if let Some(resource) = reference_of(volume, &REFERRING) {
        return Ok(Some(resource));
    }
    if let Some((_, raw)) = first_source(volume, &["projected"]) {
        for source in read::<Projected<'_>>(raw)?.sources {
            if let Some(resource) = reference_of(&source, &PROJECTED) {
                return Ok(Some(resource));
            }
            if first_source(&source, &["downwardAPI"]).is_none() {
                return Err(unknown("unknown source for projected volume", volume));
            }
        }
        return Ok(None);
    }
    // A volume without a source becomes an emptyDir. An unknown source is refused, as in-tree.
    if volume
        .iter()
        .all(|(key, raw)| &**key == "name" || raw.is_none())
    {
        return Ok(None);
    }
    Err(unknown("unknown volume type for volume ", volume))
}

fn reference_of(
    source: &Source<'_>,
    kinds: &[(&'static str, &'static str)],
) -> Option<&'static str> {
    let mut kinds = kinds.iter();
    let found = kinds.find(|(kind, _)| first_source(source, &[kind]).is_some());
    found.map(|(_, resource)| *resource)
}

fn first_source<'a>(
    volume: &Source<'a>,
    kinds: &[&'static str],
) -> Option<(&'static str, &'a RawValue)> {
    let found = |kind: &&'static str| Some((*kind, volume.get(*kind).copied().flatten()?));
    kinds.iter().find_map(found)
}

fn read<'a, T: Deserialize<'a>>(raw: &'a RawValue) -> Result<T, Denial> {
    let read = serde_json::from_str(raw.get());
    read.map_err(|error| Denial::unreadable(AdmissionRule::Pods, "a volume of the pod", error))
}

fn unknown(what: &str, volume: &Source<'_>) -> Denial {
    let name = volume.get("name").copied().flatten();
    let name: Text<'_> = match name.map_or_else(|| Ok(Text::default()), read) {
        Ok(name) => name,
        Err(denial) => return denial,
    };
    let name = Quoted(&name);
    let message = format!("error checking mirror pod for API references: {what} {name}");
    Denial::forbidden(AdmissionRule::Pods, message)
}
