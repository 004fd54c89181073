//! Reads and writes the rotation's objects in the cluster.
//!
//! The reading order makes races harmless; writes are patches with only our own fields. The caller
//! provides the client. Requests use kube's typed `Api`, without the retries of `nodelife-cluster`:
//! a failed pass is repeated as a whole.

use std::collections::BTreeMap;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use k8s_openapi::ByteString;
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhook, ValidatingWebhookConfiguration,
};
use k8s_openapi::api::core::v1::Secret;
use kube::Client;
use kube::api::{Api, ApiResource, DynamicObject, ObjectMeta, Patch, PatchParams, PostParams};
use serde::Deserialize as _;
use serde_json::{Value, json};

use crate::authority::Authority;
use crate::certificate::{Encoded, render};
use crate::error::{Error, Result};
use crate::leaf::Leaf;
use crate::names::ObjectNames;
use crate::observed::{Configuration, Observed, Rotation, Serving};

const MANAGER: &str = "nodelife-certs";

/// The kinds of webhook configurations: as far as certs reads them, their webhooks are alike.
fn kinds() -> [ApiResource; 2] {
    [
        ApiResource::erase::<MutatingWebhookConfiguration>(&()),
        ApiResource::erase::<ValidatingWebhookConfiguration>(&()),
    ]
}

mod key {
    pub(super) const BUNDLE: &str = "ca.crt";
    pub(super) const SIGNER: &str = "signer.crt";
    pub(super) const SIGNER_KEY: &str = "signer.key";
    pub(super) const NEXT: &str = "next.crt";
    pub(super) const NEXT_KEY: &str = "next.key";
    pub(super) const PROMOTED: &str = "promoted-at";
}

#[derive(Clone)]
pub(crate) struct CaSecret {
    pub(crate) signer: Arc<Authority>,
    pub(crate) next: Option<Arc<Authority>>,
    pub(crate) bundle: Vec<Encoded>,
    pub(crate) promoted: Timestamp,
}

pub(crate) struct Reading {
    serving_version: Option<String>,
    serving: Option<Leaf>,
    configurations: Vec<StoredConfiguration>,
    ca_version: Option<String>,
    pub(crate) ca: Option<CaSecret>,
}

struct StoredConfiguration {
    kind: ApiResource,
    name: String,
    uid: String,
    version: String,
    webhooks: Vec<(String, Option<Vec<Encoded>>)>,
}

pub(crate) struct Store {
    client: Client,
    pub(crate) names: ObjectNames,
}

impl Store {
    pub(crate) fn new(client: Client, names: ObjectNames) -> Self {
        Self { client, names }
    }

    fn secrets(&self) -> Api<Secret> {
        Api::namespaced(self.client.clone(), &self.names.namespace)
    }

    /// Reads the serving Secret, the configurations, and last the CA's Secret ([`Observed`] says why).
    pub(crate) async fn read(&self) -> Result<Reading> {
        let names = &self.names;
        let tls = self.secret(&names.tls_secret).await?;
        let mut configurations = Vec::new();
        for name in &names.configurations {
            for kind in kinds() {
                let found = self.configurations(&kind).get_opt(name).await;
                let found = found.map_err(Error::of_read(format!("get {} {name}", kind.kind)))?;
                configurations.extend(found.and_then(|found| self.stored(kind, found)));
            }
        }
        let ca = self.secret(&names.ca_secret).await?;
        Ok(Reading {
            serving_version: version(tls.as_ref()),
            serving: tls.and_then(|secret| accept(&names.tls_secret, self.leaf(&secret))),
            configurations,
            ca_version: version(ca.as_ref()),
            ca: ca.and_then(|secret| accept(&names.ca_secret, self.ca(&secret))),
        })
    }

    async fn secret(&self, name: &str) -> Result<Option<Secret>> {
        let what = format!("get Secret {}/{name}", self.names.namespace);
        let found = self.secrets().get_opt(name).await;
        found.map_err(Error::of_read(what))
    }

    fn configurations(&self, kind: &ApiResource) -> Api<DynamicObject> {
        Api::all_with(self.client.clone(), kind)
    }

    fn stored(&self, kind: ApiResource, found: DynamicObject) -> Option<StoredConfiguration> {
        let (names, metadata) = (&self.names, found.metadata);
        let webhooks = found.data.get("webhooks").unwrap_or(&Value::Null);
        let webhooks = Option::<Vec<ValidatingWebhook>>::deserialize(webhooks).ok()?;
        let ours = webhooks.into_iter().flatten().filter(|webhook| {
            let service = webhook.client_config.service.as_ref();
            service.is_some_and(|service| {
                service.name == names.service && service.namespace == names.namespace
            })
        });
        Some(StoredConfiguration {
            kind,
            name: metadata.name?,
            uid: metadata.uid?,
            version: metadata.resource_version?,
            webhooks: ours
                .map(|webhook| {
                    let pem = webhook.client_config.ca_bundle.unwrap_or_default().0;
                    let bundle = Encoded::read_all(&pem, &names.ca_subject());
                    (webhook.name, bundle.ok())
                })
                .collect(),
        })
    }

    fn leaf(&self, secret: &Secret) -> Result<Leaf> {
        let data = |key| entry(secret, key, "the serving Secret");
        let (certificate, key) = (data("tls.crt")?, data("tls.key")?);
        Leaf::read(certificate, key, data("ca.crt")?, &self.names)
    }

    fn ca(&self, secret: &Secret) -> Result<CaSecret> {
        let what = "the CA's Secret";
        let data = |key| entry(secret, key, what);
        let subject = self.names.ca_subject();
        let signer = Authority::read(data(key::SIGNER)?, data(key::SIGNER_KEY)?, &self.names)?;
        let next = match (data(key::NEXT), data(key::NEXT_KEY)) {
            (Ok(certificate), Ok(key)) => Some(Authority::read(certificate, key, &self.names)?),
            _ => None,
        };
        let bundle = Encoded::read_all(data(key::BUNDLE)?, &subject)?;
        let complete = std::iter::once(&signer)
            .chain(&next)
            .all(|one| bundle.contains(&one.certificate));
        if !complete {
            let why = "ca.crt lacks the signer or the next CA";
            return Err(Error::unusable(what, why));
        }
        let promoted = std::str::from_utf8(data(key::PROMOTED)?)
            .ok()
            .and_then(|text| text.parse().ok())
            .ok_or_else(|| Error::unusable(what, "promoted-at is not a time"))?;
        Ok(CaSecret {
            signer: Arc::new(signer),
            next: next.map(Arc::new),
            bundle,
            promoted,
        })
    }

    pub(crate) async fn write_ca(&self, seen: &Reading, ca: &CaSecret) -> Result<()> {
        let next = ca.next.as_deref();
        let data = [
            (key::BUNDLE, Some(render(&ca.bundle))),
            (key::SIGNER, Some(ca.signer.certificate_pem())),
            (key::SIGNER_KEY, Some(ca.signer.key_pem())),
            (key::NEXT, next.map(Authority::certificate_pem)),
            (key::NEXT_KEY, next.map(Authority::key_pem)),
            (key::PROMOTED, Some(ca.promoted.to_string())),
        ];
        let version = seen.ca_version.as_deref();
        self.write_secret(&self.names.ca_secret, "Opaque", version, &data)
            .await
    }

    pub(crate) async fn write_leaf(&self, seen: &Reading, leaf: &Leaf) -> Result<()> {
        let data = [
            ("tls.crt", Some(leaf.certificate_pem())),
            ("tls.key", Some(leaf.key_pem())),
            ("ca.crt", Some(leaf.issuer_pem())),
        ];
        let version = seen.serving_version.as_deref();
        self.write_secret(&self.names.tls_secret, "kubernetes.io/tls", version, &data)
            .await
    }

    /// Creates the Secret, or updates it if it has not changed since it was read.
    async fn write_secret(
        &self,
        name: &str,
        kind: &str,
        version: Option<&str>,
        data: &[(&str, Option<String>)],
    ) -> Result<()> {
        let what = format!("write Secret {}/{name}", self.names.namespace);
        let Some(version) = version else {
            let texts = data.iter().filter_map(|(key, value)| {
                let bytes = value.clone()?.into_bytes();
                Some(((*key).to_owned(), ByteString(bytes)))
            });
            let secret = Secret {
                metadata: ObjectMeta {
                    name: Some(name.to_owned()),
                    labels: Some(labels()),
                    ..ObjectMeta::default()
                },
                type_: Some(kind.to_owned()),
                data: Some(texts.collect()),
                ..Secret::default()
            };
            let params = PostParams {
                field_manager: Some(MANAGER.to_owned()),
                ..PostParams::default()
            };
            let made = self.secrets().create(&params, &secret).await;
            return made.map(drop).map_err(Error::of_write(what));
        };
        let encoded = data.iter().map(|(key, text)| {
            let text = text.as_ref().map(|text| STANDARD.encode(text));
            (*key, text)
        });
        let encoded: BTreeMap<&str, Option<String>> = encoded.collect();
        let patch = json!({
            "metadata": { "resourceVersion": version },
            "data": encoded,
        });
        let params = PatchParams {
            field_manager: Some(MANAGER.to_owned()),
            ..PatchParams::default()
        };
        let secrets = self.secrets();
        let patched = secrets.patch(name, &params, &Patch::Merge(patch)).await;
        patched.map(drop).map_err(Error::of_write(what))
    }

    /// Writes the bundle into one configuration by a server-side apply of only this field, so that
    /// the user who applies the manifests owns all other fields and never this one.
    pub(crate) async fn publish(
        &self,
        seen: &Reading,
        index: usize,
        bundle: &[Encoded],
    ) -> Result<()> {
        let Some(stored) = seen.configurations.get(index) else {
            return Ok(());
        };
        let pem = STANDARD.encode(render(bundle));
        let webhooks = stored.webhooks.iter();
        let webhooks =
            webhooks.map(|(name, _)| json!({ "name": name, "clientConfig": { "caBundle": pem } }));
        let name = &stored.name;
        let body = json!({
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": stored.kind.kind,
            // With the UID, the apply cannot recreate an object that was just deleted.
            "metadata": { "name": name, "uid": stored.uid, "resourceVersion": stored.version },
            "webhooks": webhooks.collect::<Vec<_>>(),
        });
        let params = PatchParams::apply(MANAGER).force();
        let patch = Patch::Apply(body);
        let configurations = self.configurations(&stored.kind);
        let written = configurations.patch(name, &params, &patch).await;
        let what = format!("write {} {name}", stored.kind.kind);
        written.map(drop).map_err(Error::of_write(what))
    }
}

impl Reading {
    /// The same without bytes and keys.
    pub(crate) fn observed(&self) -> Observed {
        let summaries = |all: &Vec<Encoded>| all.iter().map(|one| one.summary).collect();
        let configurations = self.configurations.iter().map(|stored| {
            let bundles = stored.webhooks.iter().map(|(_, bundle)| bundle.as_ref());
            Configuration {
                bundles: bundles.map(|all| all.map(summaries)).collect(),
            }
        });
        Observed {
            serving: self.serving.as_ref().map(|leaf| Serving {
                leaf: leaf.certificate.summary,
                issuer: leaf.issuer.summary,
            }),
            configurations: configurations.collect(),
            rotation: self.ca.as_ref().map(|ca| Rotation {
                signer: ca.signer.summary(),
                next: ca.next.as_deref().map(Authority::summary),
                bundle: summaries(&ca.bundle),
                promoted: ca.promoted,
            }),
        }
    }

    /// Every certificate that was read, to find one by its fingerprint.
    pub(crate) fn certificates(&self) -> impl Iterator<Item = &Encoded> {
        let stored = self.configurations.iter();
        let webhooks = stored.flat_map(|one| &one.webhooks);
        let trusted = webhooks.flat_map(|(_, bundle)| bundle.iter().flatten());
        self.serving.iter().map(|leaf| &leaf.issuer).chain(trusted)
    }
}

fn version(secret: Option<&Secret>) -> Option<String> {
    secret?.metadata.resource_version.clone()
}

/// Treats a damaged Secret as lost, with a warning.
fn accept<T>(name: &str, read: Result<T>) -> Option<T> {
    read.inspect_err(|error| tracing::warn!(secret = name, %error, "replacing an unusable Secret"))
        .ok()
}

fn entry<'a>(secret: &'a Secret, key: &str, what: &'static str) -> Result<&'a [u8]> {
    let bytes = secret.data.as_ref().and_then(|data| data.get(key));
    let bytes = bytes.map(|bytes| bytes.0.as_slice());
    bytes.ok_or_else(|| Error::unusable(what, format!("{key} is missing")))
}

fn labels() -> BTreeMap<String, String> {
    let labels = [
        ("app.kubernetes.io/name", "nodelife"),
        ("app.kubernetes.io/component", "certs"),
        ("app.kubernetes.io/managed-by", MANAGER),
    ];
    labels
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .into()
}
