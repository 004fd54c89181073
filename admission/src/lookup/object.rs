//! Parses the object that answers a lookup.

use nodelife_core::object::MIRROR_ANNOTATION;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{Lookup, LookupResult, PodFacts, VolumeFacts};
use crate::json::text::{Pairs, Text, or_default};

impl LookupResult {
    /// Reads the object that answers `lookup` from its JSON.
    pub fn read(lookup: &Lookup, json: &[u8]) -> Self {
        Self::try_read(lookup, json)
            .unwrap_or_else(|error| Self::Failed(format!("failed to read the object: {error}")))
    }

    fn try_read(lookup: &Lookup, json: &[u8]) -> Result<Self, serde_json::Error> {
        Ok(match lookup {
            Lookup::Pod { .. } => Self::Pod(pod_facts(json)?),
            Lookup::Node(_) | Lookup::ServiceAccount { .. } => {
                let object: Object<'_> = serde_json::from_slice(json)?;
                Self::Uid(object.metadata.uid.to_string())
            }
            Lookup::Claim { .. } => {
                let claim: Claim<'_> = serde_json::from_slice(json)?;
                Self::BoundTo(claim.spec.volume_name.to_string())
            }
            Lookup::Volume(_) => {
                let volume: Volume<'_> = serde_json::from_slice(json)?;
                Self::DrivenBy(driver_of(&volume.spec).unwrap_or_default())
            }
            Lookup::Driver(_) => {
                let driver: Driver<'_> = serde_json::from_slice(json)?;
                let requests = driver.spec.token_requests.iter();
                Self::Audiences(requests.map(|r| r.audience.to_string()).collect())
            }
            Lookup::Access(_) => {
                let review: AccessReview = serde_json::from_slice(json)?;
                Self::Allowed(review.status.allowed)
            }
        })
    }
}

#[derive(Deserialize)]
struct Object<'a> {
    #[serde(borrow, default)]
    metadata: Meta<'a>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Meta<'a> {
    #[serde(borrow)]
    name: Text<'a>,
    #[serde(borrow)]
    uid: Text<'a>,
    #[serde(borrow, deserialize_with = "or_default")]
    annotations: Pairs<'a>,
}

/// A volume source by its key: `{"name": …, "csi": {…}}`.
pub(crate) type Source<'a> = std::collections::BTreeMap<Text<'a>, Option<&'a RawValue>>;

#[derive(Deserialize)]
struct Pod<'a> {
    #[serde(borrow, default)]
    metadata: Meta<'a>,
    #[serde(borrow, default)]
    spec: PodSpec<'a>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct PodSpec<'a> {
    #[serde(borrow)]
    node_name: Text<'a>,
    #[serde(borrow)]
    service_account_name: Text<'a>,
    #[serde(borrow, deserialize_with = "or_default")]
    volumes: Vec<Source<'a>>,
}

#[derive(Deserialize)]
struct Projected<'a> {
    #[serde(borrow, default, deserialize_with = "or_default")]
    sources: Vec<ProjectedSource<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ProjectedSource<'a> {
    #[serde(borrow, default)]
    service_account_token: Option<Audience<'a>>,
}

#[derive(Deserialize)]
struct Audience<'a> {
    #[serde(borrow, default)]
    audience: Text<'a>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ClaimSource<'a> {
    #[serde(borrow, default)]
    claim_name: Text<'a>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Ephemeral<'a> {
    #[serde(borrow, default)]
    volume_claim_template: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Csi<'a> {
    #[serde(borrow, default)]
    driver: Text<'a>,
}

fn pod_facts(json: &[u8]) -> Result<PodFacts, serde_json::Error> {
    let pod: Pod<'_> = serde_json::from_slice(json)?;
    let mut volumes = Vec::new();
    for volume in &pod.spec.volumes {
        volume_facts(&pod.metadata.name, volume, &mut volumes)?;
    }
    Ok(PodFacts {
        uid: pod.metadata.uid.to_string(),
        node: pod.spec.node_name.to_string(),
        service_account: pod.spec.service_account_name.to_string(),
        mirror: pod.metadata.annotations.contains_key(MIRROR_ANNOTATION),
        volumes,
    })
}

fn volume_facts(
    pod: &str,
    volume: &Source<'_>,
    facts: &mut Vec<VolumeFacts>,
) -> Result<(), serde_json::Error> {
    let source = |key: &str| volume.get(key).copied().flatten().map(RawValue::get);
    if let Some(json) = source("projected") {
        let projected: Projected<'_> = serde_json::from_str(json)?;
        let tokens = projected.sources.into_iter();
        let tokens = tokens.filter_map(|source| source.service_account_token);
        facts.extend(tokens.map(|token| VolumeFacts::Audience(token.audience.to_string())));
    }
    if let Some(json) = source("ephemeral") {
        let ephemeral: Ephemeral<'_> = serde_json::from_str(json)?;
        if ephemeral.volume_claim_template.is_some() {
            // ephemeral.VolumeClaimName: the pod's name and the volume's.
            let name = source("name").map(serde_json::from_str::<Text<'_>>);
            let name = name.transpose()?.unwrap_or_default();
            facts.push(VolumeFacts::Claim(format!("{pod}-{name}")));
            return Ok(());
        }
    }
    if let Some(json) = source("persistentVolumeClaim") {
        let claim: ClaimSource<'_> = serde_json::from_str(json)?;
        facts.push(VolumeFacts::Claim(claim.claim_name.to_string()));
    } else if let Some(driver) = driver_of(volume) {
        facts.push(VolumeFacts::Driver(driver));
    }
    Ok(())
}

/// The CSI driver of a volume source: named, or the one that the in-tree kind was migrated
/// to (k8s.io/csi-translation-lib plugins, v0.36.3).
fn driver_of(source: &Source<'_>) -> Option<String> {
    const MIGRATED: [(&str, &str); 7] = [
        ("awsElasticBlockStore", "ebs.csi.aws.com"),
        ("gcePersistentDisk", "pd.csi.storage.gke.io"),
        ("cinder", "cinder.csi.openstack.org"),
        ("azureDisk", "disk.csi.azure.com"),
        ("azureFile", "file.csi.azure.com"),
        ("vsphereVolume", "csi.vsphere.vmware.com"),
        ("portworxVolume", "pxd.portworx.com"),
    ];
    if let Some(json) = source.get("csi").copied().flatten() {
        let csi: Csi<'_> = serde_json::from_str(json.get()).ok()?;
        return Some(csi.driver.to_string());
    }
    let migrated = MIGRATED
        .iter()
        .find(|(kind, _)| source.get(*kind).copied().flatten().is_some());
    migrated.map(|(_, driver)| (*driver).to_owned())
}

#[derive(Deserialize)]
struct Claim<'a> {
    #[serde(borrow, default)]
    spec: ClaimSpec<'a>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ClaimSpec<'a> {
    #[serde(borrow)]
    volume_name: Text<'a>,
}

#[derive(Deserialize)]
struct Volume<'a> {
    #[serde(borrow, default)]
    spec: Source<'a>,
}

#[derive(Deserialize)]
struct Driver<'a> {
    #[serde(borrow, default)]
    spec: DriverSpec<'a>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct DriverSpec<'a> {
    #[serde(borrow, deserialize_with = "or_default")]
    token_requests: Vec<Audience<'a>>,
}

#[derive(Deserialize)]
struct AccessReview {
    #[serde(default)]
    status: AccessStatus,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct AccessStatus {
    allowed: bool,
}
