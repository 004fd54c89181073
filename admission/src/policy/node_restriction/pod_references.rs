//! References of a pod to other API objects, which a mirror pod must not have
//! (`HasAPIObjectReference`, pkg/api/pod/util.go, v1.36.3).

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::denial::Denial;
use crate::go_quote::Quoted;
use crate::json::text::{Text, or_default};
use crate::review::Request;
use crate::rule::AdmissionRule;

/// A volume source by its key: `{"name": …, "csi": {…}}`.
type Source<'a> = BTreeMap<Text<'a>, Option<&'a RawValue>>;

#[derive(Deserialize)]
struct Pod<'a> {
    #[serde(borrow, default, deserialize_with = "or_default")]
    spec: Spec<'a>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Spec<'a> {
    #[serde(borrow)]
    service_account_name: Text<'a>,
    /// The deprecated name of the same field; conversion takes either.
    #[serde(borrow)]
    service_account: Text<'a>,
    #[serde(borrow, deserialize_with = "or_default")]
    image_pull_secrets: Vec<Reference<'a>>,
    #[serde(borrow, deserialize_with = "or_default")]
    containers: Vec<Container<'a>>,
    #[serde(borrow, deserialize_with = "or_default")]
    init_containers: Vec<Container<'a>>,
    #[serde(borrow, deserialize_with = "or_default")]
    ephemeral_containers: Vec<Container<'a>>,
    #[serde(borrow, deserialize_with = "or_default")]
    resource_claims: Vec<&'a RawValue>,
    #[serde(borrow, deserialize_with = "or_default")]
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
    #[serde(borrow, default, deserialize_with = "or_default")]
    env_from: Vec<EnvSource<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Variable<'a> {
    #[serde(borrow, default)]
    value_from: Option<ValueFrom<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ValueFrom<'a> {
    #[serde(borrow, default)]
    secret_key_ref: Option<Reference<'a>>,
    #[serde(borrow, default)]
    config_map_key_ref: Option<Reference<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct EnvSource<'a> {
    #[serde(borrow, default)]
    secret_ref: Option<Reference<'a>>,
    #[serde(borrow, default)]
    config_map_ref: Option<Reference<'a>>,
}

/// The names of secrets that a volume source can hold, whatever its kind.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Secrets<'a> {
    #[serde(borrow)]
    secret_name: Text<'a>,
    #[serde(borrow)]
    secret_ref: Option<Reference<'a>>,
    #[serde(borrow)]
    node_publish_secret_ref: Option<Reference<'a>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Projected<'a> {
    #[serde(borrow, deserialize_with = "or_default")]
    sources: Vec<ProjectedSource<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ProjectedSource<'a> {
    #[serde(borrow, default)]
    config_map: Option<Reference<'a>>,
    #[serde(borrow, default)]
    secret: Option<Reference<'a>>,
    #[serde(borrow, default)]
    service_account_token: Option<&'a RawValue>,
    #[serde(borrow, default)]
    cluster_trust_bundle: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pod_certificate: Option<&'a RawValue>,
    #[serde(borrow, default, rename = "downwardAPI")]
    downward_api: Option<&'a RawValue>,
}

/// Volume sources without a reference.
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

/// Sources that may name a secret, in the order of `VisitPodSecretNames`; with them
/// `projected`, which is read on its own.
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

/// The first kind of object that the pod of `request` references, as named in the in-tree message.
pub(super) fn find(request: &Request<'_>) -> Result<Option<&'static str>, Denial> {
    let pod: Pod<'_> = request.object(AdmissionRule::Pods)?;
    find_in(&pod.spec)
}

fn find_in(spec: &Spec<'_>) -> Result<Option<&'static str>, Denial> {
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

fn containers<'s, 'a>(spec: &'s Spec<'a>) -> impl Iterator<Item = &'s Container<'a>> {
    let lists = [
        &spec.init_containers,
        &spec.containers,
        &spec.ephemeral_containers,
    ];
    lists.into_iter().flatten()
}

fn names_secret(spec: &Spec<'_>) -> Result<bool, Denial> {
    let values = containers(spec)
        .flat_map(|c| &c.env)
        .filter_map(|v| v.value_from.as_ref());
    let mut sources = containers(spec).flat_map(|c| &c.env_from);
    if spec
        .image_pull_secrets
        .iter()
        .any(|secret| is_named(Some(secret)))
        || sources.any(|source| is_named(source.secret_ref.as_ref()))
        || values
            .into_iter()
            .any(|value| is_named(value.secret_key_ref.as_ref()))
    {
        return Ok(true);
    }
    for volume in &spec.volumes {
        let Some((kind, raw)) = first_source(volume, &WITH_SECRETS) else {
            continue;
        };
        let named = if kind == "projected" {
            let projected: Projected<'_> = read(raw)?;
            projected
                .sources
                .iter()
                .any(|source| is_named(source.secret.as_ref()))
        } else {
            let secrets: Secrets<'_> = read(raw)?;
            !secrets.secret_name.is_empty()
                || is_named(secrets.secret_ref.as_ref())
                || is_named(secrets.node_publish_secret_ref.as_ref())
        };
        if named {
            return Ok(true);
        }
    }
    Ok(false)
}

fn names_config_map(spec: &Spec<'_>) -> Result<bool, Denial> {
    let values = containers(spec)
        .flat_map(|c| &c.env)
        .filter_map(|v| v.value_from.as_ref());
    let mut sources = containers(spec).flat_map(|c| &c.env_from);
    if sources.any(|source| is_named(source.config_map_ref.as_ref()))
        || values
            .into_iter()
            .any(|value| is_named(value.config_map_key_ref.as_ref()))
    {
        return Ok(true);
    }
    for volume in &spec.volumes {
        let named = match first_source(volume, &["projected", "configMap"]) {
            Some(("projected", raw)) => {
                let projected: Projected<'_> = read(raw)?;
                projected
                    .sources
                    .iter()
                    .any(|source| is_named(source.config_map.as_ref()))
            }
            Some((_, raw)) => is_named(Some(&read::<Reference<'_>>(raw)?)),
            None => false,
        };
        if named {
            return Ok(true);
        }
    }
    Ok(false)
}

fn volume_reference(volume: &Source<'_>) -> Result<Option<&'static str>, Denial> {
    if first_source(volume, &PLAIN).is_some() {
        return Ok(None);
    }
    for (kind, resource) in REFERRING {
        if first_source(volume, &[kind]).is_some() {
            return Ok(Some(resource));
        }
    }
    if let Some((_, raw)) = first_source(volume, &["projected"]) {
        let projected: Projected<'_> = read(raw)?;
        for source in &projected.sources {
            if let Some(resource) = projected_reference(source, volume)? {
                return Ok(Some(resource));
            }
        }
        return Ok(None);
    }
    // The API server makes a volume without a source an emptyDir. An unknown source is refused, as
    // in-tree.
    if volume
        .iter()
        .all(|(key, raw)| &**key == "name" || raw.is_none())
    {
        return Ok(None);
    }
    let name = volume_name(volume)?;
    Err(unknown(&format!(
        "unknown volume type for volume  {}",
        Quoted(&name)
    )))
}

fn projected_reference(
    source: &ProjectedSource<'_>,
    volume: &Source<'_>,
) -> Result<Option<&'static str>, Denial> {
    let found = if source.config_map.is_some() {
        "configmaps (via projected volumes)"
    } else if source.secret.is_some() {
        "secrets (via projected volumes)"
    } else if source.service_account_token.is_some() {
        "serviceaccounts (via projected volumes)"
    } else if source.cluster_trust_bundle.is_some() {
        "clustertrustbundles"
    } else if source.pod_certificate.is_some() {
        "podcertificates"
    } else if source.downward_api.is_some() {
        return Ok(None);
    } else {
        let name = volume_name(volume)?;
        return Err(unknown(&format!(
            "unknown source for projected volume {}",
            Quoted(&name)
        )));
    };
    Ok(Some(found))
}

/// The first of `kinds` that the volume has.
fn first_source<'a>(
    volume: &Source<'a>,
    kinds: &[&'static str],
) -> Option<(&'static str, &'a RawValue)> {
    let found = |kind: &&'static str| Some((*kind, volume.get(*kind).copied().flatten()?));
    kinds.iter().find_map(found)
}

fn volume_name<'a>(volume: &Source<'a>) -> Result<Text<'a>, Denial> {
    let name = volume.get("name").copied().flatten();
    name.map_or_else(|| Ok(Text::default()), read)
}

fn read<'a, T: Deserialize<'a>>(raw: &'a RawValue) -> Result<T, Denial> {
    serde_json::from_str(raw.get()).map_err(|error| {
        Denial::unreadable(
            AdmissionRule::Pods,
            format!("failed to read a volume of the pod: {error}"),
        )
    })
}

fn unknown(error: &str) -> Denial {
    let message = format!("error checking mirror pod for API references: {error}");
    Denial::forbidden(AdmissionRule::Pods, message)
}
