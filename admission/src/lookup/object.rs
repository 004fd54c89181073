//! Parses the object that answers a lookup. Lookups are rare, so a tree is cheap enough.

use nodelife_core::object::MIRROR_ANNOTATION;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{Listed, Lookup, LookupResult, MOST_LISTED, PodFacts, VolumeFacts};

impl LookupResult {
    pub fn read(lookup: &Lookup, json: &[u8]) -> Self {
        let object: Value = match serde_json::from_slice(json) {
            Ok(object) => object,
            Err(error) => return Self::Failed(format!("failed to read the object: {error}")),
        };
        match lookup {
            Lookup::Pod { .. } => Self::Pod(pod_facts(&object)),
            Lookup::Node(_) | Lookup::ServiceAccount { .. } => {
                Self::Uid(text(&object, "/metadata/uid"))
            }
            Lookup::Claim { .. } => Self::BoundTo(text(&object, "/spec/volumeName")),
            Lookup::Volume(_) => {
                let driver = object.get("spec").and_then(driver_of);
                Self::DrivenBy(driver.unwrap_or_default())
            }
            Lookup::Driver(_) => {
                let requests = list(&object, "/spec/tokenRequests");
                Self::Audiences(requests.map(|request| text(request, "/audience")).collect())
            }
            Lookup::Access(_) => {
                let allowed = object.pointer("/status/allowed").and_then(Value::as_bool);
                let error = text(&object, "/status/evaluationError");
                Self::of_access(allowed.unwrap_or_default(), error)
            }
            Lookup::List { .. }
                if !text(&object, "/metadata/continue").is_empty()
                    || list(&object, "/items").nth(MOST_LISTED).is_some() =>
            {
                Self::Failed("there are too many objects".to_owned())
            }
            Lookup::List { listed, .. } => {
                let items = list(&object, "/items").cloned();
                Self::of_list(*listed, items).unwrap_or_else(|error| {
                    Self::Failed(format!("failed to read the list: {error}"))
                })
            }
        }
    }

    /// The items of a list may omit their kind.
    pub(super) fn of_list(
        listed: Listed,
        items: impl Iterator<Item = Value>,
    ) -> serde_json::Result<Self> {
        fn all<T: DeserializeOwned>(
            items: impl Iterator<Item = Value>,
        ) -> serde_json::Result<Vec<T>> {
            items.map(serde_json::from_value).collect()
        }
        let (_, kind) = listed.kind();
        let items = items.map(|mut item| {
            let fields = item.as_object_mut();
            fields.map(|fields| fields.insert("kind".to_owned(), kind.into()));
            item
        });
        Ok(match listed {
            Listed::Budgets => Self::Budgets(all(items)?),
            Listed::Autoscalers => Self::Autoscalers(all(items)?),
            Listed::Workloads(_) => Self::Workloads(all(items)?),
        })
    }

    /// An authorizer may fail in part and still allow.
    pub(super) fn of_access(allowed: bool, error: String) -> Self {
        let failed = !allowed && !error.is_empty();
        Self::Access(if failed { Err(error) } else { Ok(allowed) })
    }
}

pub(super) fn text(object: &Value, pointer: &str) -> String {
    let text = object.pointer(pointer).and_then(Value::as_str);
    text.unwrap_or_default().to_owned()
}

fn list<'o>(object: &'o Value, pointer: &str) -> impl Iterator<Item = &'o Value> {
    let list = object.pointer(pointer).and_then(Value::as_array);
    list.into_iter().flatten()
}

/// The field `key`; `null` counts as absent.
fn field<'o>(object: &'o Value, key: &str) -> Option<&'o Value> {
    object.get(key).filter(|value| !value.is_null())
}

fn pod_facts(pod: &Value) -> PodFacts {
    let name = text(pod, "/metadata/name");
    let annotations = pod.pointer("/metadata/annotations");
    let mut volumes = Vec::new();
    for volume in list(pod, "/spec/volumes") {
        volume_facts(&name, volume, &mut volumes);
    }
    let sources = list(pod, "/spec/volumes").flat_map(|volume| list(volume, "/projected/sources"));
    let certificates = sources.filter_map(|source| field(source, "podCertificate"));
    PodFacts {
        uid: text(pod, "/metadata/uid"),
        node: text(pod, "/spec/nodeName"),
        service_account: text(pod, "/spec/serviceAccountName"),
        mirror: annotations.is_some_and(|all| all.get(MIRROR_ANNOTATION).is_some()),
        volumes,
        signers: certificates
            .map(|certificate| text(certificate, "/signerName"))
            .collect(),
    }
}

fn volume_facts(pod: &str, volume: &Value, facts: &mut Vec<VolumeFacts>) {
    let tokens = list(volume, "/projected/sources")
        .filter_map(|source| field(source, "serviceAccountToken"));
    facts.extend(tokens.map(|token| VolumeFacts::Audience(text(token, "/audience"))));
    let ephemeral = volume.get("ephemeral");
    if ephemeral.is_some_and(|source| field(source, "volumeClaimTemplate").is_some()) {
        // ephemeral.VolumeClaimName: the pod's name and the volume's.
        let name = text(volume, "/name");
        facts.push(VolumeFacts::Claim(format!("{pod}-{name}")));
    } else if let Some(claim) = field(volume, "persistentVolumeClaim") {
        facts.push(VolumeFacts::Claim(text(claim, "/claimName")));
    } else if let Some(driver) = driver_of(volume) {
        facts.push(VolumeFacts::Driver(driver));
    }
}

/// The CSI driver of a volume source: named, or the one that the in-tree kind was migrated
/// to (k8s.io/csi-translation-lib plugins, v0.36.3).
fn driver_of(source: &Value) -> Option<String> {
    const MIGRATED: [(&str, &str); 7] = [
        ("awsElasticBlockStore", "ebs.csi.aws.com"),
        ("gcePersistentDisk", "pd.csi.storage.gke.io"),
        ("cinder", "cinder.csi.openstack.org"),
        ("azureDisk", "disk.csi.azure.com"),
        ("azureFile", "file.csi.azure.com"),
        ("vsphereVolume", "csi.vsphere.vmware.com"),
        ("portworxVolume", "pxd.portworx.com"),
    ];
    if let Some(csi) = field(source, "csi") {
        return Some(text(csi, "/driver"));
    }
    let migrated = MIGRATED
        .iter()
        .find(|(kind, _)| field(source, kind).is_some());
    migrated.map(|(_, driver)| (*driver).to_owned())
}
