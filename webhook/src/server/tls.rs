//! The served certificate, reloaded while the server runs.
//!
//! A mounted Secret changes by a rename of the `..data` symlink, which file watches miss, so the
//! files are read periodically and compared. Certificate and key are read through one resolved
//! directory, so that they belong to one generation. An invalid pair is rejected, and the previous
//! one stays in use.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, bail};
use arc_swap::ArcSwapOption;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier as _;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::{RootCertStore, ServerConfig};
use tokio_util::sync::CancellationToken;
use x509_parser::prelude::{FromDer as _, GeneralName, X509Certificate};

use super::metrics::Metrics;
use crate::reload;

#[derive(PartialEq, Eq)]
struct Files {
    certificate: Vec<u8>,
    key: Vec<u8>,
    authority: Option<Vec<u8>>,
}

impl Files {
    fn read(folder: &Path) -> anyhow::Result<Self> {
        let resolved = std::fs::canonicalize(folder.join("..data"));
        let folder = resolved.unwrap_or_else(|_| folder.to_owned());
        let read = |name: &str| {
            let path = folder.join(name);
            std::fs::read(&path).with_context(|| format!("failed to read {}", path.display()))
        };
        Ok(Self {
            certificate: read("tls.crt")?,
            key: read("tls.key")?,
            // A Secret from another source may have no CA.
            authority: match std::fs::read(folder.join("ca.crt")) {
                Ok(bytes) => Some(bytes),
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
                Err(error) => return Err(error).context("failed to read ca.crt"),
            },
        })
    }
}

#[derive(Debug)]
struct Leaf {
    key: Arc<CertifiedKey>,
    /// Seconds since 1970.
    not_after: i64,
}

impl Leaf {
    fn check(files: &Files, now: SystemTime) -> anyhow::Result<Self> {
        let chain = CertificateDer::pem_slice_iter(&files.certificate)
            .collect::<Result<Vec<_>, _>>()
            .context("tls.crt is not PEM")?;
        let (end, intermediates) = chain.split_first().context("tls.crt has no certificate")?;
        let key = PrivateKeyDer::from_pem_slice(&files.key).context("tls.key is not a PEM key")?;
        let (_, parsed) =
            X509Certificate::from_der(end).context("tls.crt has no X.509 certificate")?;
        let not_after = parsed.validity().not_after.timestamp();
        if not_after <= seconds(now) {
            bail!("the certificate in tls.crt has expired");
        }
        if let Some(authority) = &files.authority {
            check_chain(end, intermediates, &parsed, authority, now)?;
        }
        // This compares the two public keys.
        let key = CertifiedKey::from_der(chain, key, &default_provider())
            .context("tls.key does not belong to tls.crt")?;
        let key = Arc::new(key);
        Ok(Self { key, not_after })
    }
}

/// Checks that the chain leads to `authority`, as the API server will with the caBundle.
fn check_chain(
    end: &CertificateDer<'_>,
    intermediates: &[CertificateDer<'_>],
    leaf: &X509Certificate<'_>,
    authority: &[u8],
    now: SystemTime,
) -> anyhow::Result<()> {
    let names = leaf.subject_alternative_name().ok().flatten();
    let name = names.and_then(|names| {
        let mut names = names.value.general_names.iter();
        names.find_map(|name| match name {
            GeneralName::DNSName(name) => Some((*name).to_owned()),
            _ => None,
        })
    });
    let Some(name) = name else {
        bail!("the certificate in tls.crt has no DNS name");
    };
    let verifier = WebPkiServerVerifier::builder_with_provider(
        Arc::new(roots(authority)?),
        default_provider().into(),
    )
    .build()
    .context("ca.crt cannot be used")?;
    // Go trusts a root as a leaf, too: `openssl req -x509` makes such a certificate.
    let mut roots = CertificateDer::pem_slice_iter(authority);
    if roots.any(|root| root.is_ok_and(|root| root == *end)) {
        if leaf.validity().not_before.timestamp() > seconds(now) {
            bail!("the certificate in tls.crt is not valid yet");
        }
        return Ok(());
    }
    let server = ServerName::try_from(name).context("tls.crt has an invalid DNS name")?;
    let now = UnixTime::since_unix_epoch(now.duration_since(UNIX_EPOCH).unwrap_or_default());
    verifier
        .verify_server_cert(end, intermediates, &server, &[], now)
        .context("the certificate in tls.crt does not chain to ca.crt")?;
    Ok(())
}

pub(super) fn roots(pem: &[u8]) -> anyhow::Result<RootCertStore> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(pem) {
        roots
            .add(certificate.context("the CA is not PEM")?)
            .context("the CA file has no usable certificate")?;
    }
    if roots.is_empty() {
        bail!("the CA file has no certificate");
    }
    Ok(roots)
}

fn seconds(time: SystemTime) -> i64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}

/// The served certificate: the last valid one.
#[derive(Debug, Default)]
pub(crate) struct Certificates {
    leaf: ArcSwapOption<Leaf>,
    /// Cancelled with the first certificate.
    pub(crate) loaded: CancellationToken,
}

impl Certificates {
    pub(crate) fn is_ready(&self) -> bool {
        let leaf = self.leaf.load();
        leaf.as_ref()
            .is_some_and(|leaf| leaf.not_after > seconds(SystemTime::now()))
    }

    /// Reloads the directory every `interval`, forever. Files that were refused are checked again: a
    /// certificate may become valid, if this clock is late.
    pub(crate) async fn keep(&self, folder: PathBuf, interval: Duration, metrics: &Metrics) {
        let (mut loaded, mut refused) = (None, None);
        let read = move || Files::read(&folder);
        let apply = |files: Files| {
            if loaded.as_ref() == Some(&files) {
                return Ok(());
            }
            let leaf = match Leaf::check(&files, SystemTime::now()) {
                Ok(leaf) => leaf,
                Err(error) => {
                    if refused.as_ref() != Some(&files) {
                        metrics.reloaded("refused");
                        refused = Some(files);
                    }
                    return Err(error);
                }
            };
            metrics.reloaded("loaded");
            metrics.leaf_expires(leaf.not_after);
            tracing::info!(not_after = leaf.not_after, "certificate loaded");
            self.leaf.store(Some(Arc::new(leaf)));
            self.loaded.cancel();
            loaded = Some(files);
            Ok(())
        };
        reload::keep("certificate", interval, read, apply).await;
    }
}

impl ResolvesServerCert for Certificates {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.leaf.load().as_ref().map(|leaf| Arc::clone(&leaf.key))
    }
}

/// The server's side of TLS: 1.2 and 1.3, HTTP/1.1, and client certificates if there are `callers`.
pub(crate) fn server_config(
    certificates: Arc<Certificates>,
    callers: Option<Arc<dyn ClientCertVerifier>>,
) -> anyhow::Result<ServerConfig> {
    let builder = ServerConfig::builder_with_provider(default_provider().into())
        .with_safe_default_protocol_versions()
        .context("failed to configure TLS")?;
    let builder = match callers {
        Some(callers) => builder.with_client_cert_verifier(callers),
        None => builder.with_no_client_auth(),
    };
    let mut config = builder.with_cert_resolver(certificates);
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}

#[cfg(test)]
mod tests {
    use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair};

    use super::*;

    /// A self-signed certificate for `webhook.test`, with CA:TRUE like that of `openssl req -x509`.
    fn self_signed(not_before: SystemTime) -> Files {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(["webhook.test".to_owned()]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.not_before = not_before.into();
        let certificate = params.self_signed(&key).unwrap().pem().into_bytes();
        Files {
            authority: Some(certificate.clone()),
            certificate,
            key: key.serialize_pem().into_bytes(),
        }
    }

    #[test]
    fn a_self_signed_certificate_is_its_own_ca() {
        let now = SystemTime::now();
        let files = self_signed(now - Duration::from_mins(1));
        Leaf::check(&files, now).unwrap();
        let other = Files {
            authority: self_signed(now).authority,
            ..files
        };
        Leaf::check(&other, now).unwrap_err();
        let early = self_signed(now + Duration::from_hours(1));
        Leaf::check(&early, now).unwrap_err();
    }

    #[tokio::test]
    async fn a_certificate_is_loaded_once_it_is_valid() {
        let folder = tempfile::tempdir().unwrap();
        let files = self_signed(SystemTime::now() + Duration::from_secs(2));
        std::fs::write(folder.path().join("tls.crt"), &files.certificate).unwrap();
        std::fs::write(folder.path().join("ca.crt"), &files.certificate).unwrap();
        std::fs::write(folder.path().join("tls.key"), &files.key).unwrap();
        let (certificates, metrics) = (Certificates::default(), Metrics::new());
        let interval = Duration::from_millis(50);
        let keep = certificates.keep(folder.path().to_owned(), interval, &metrics);
        let ready = async {
            while !certificates.is_ready() {
                tokio::time::sleep(interval).await;
            }
        };
        let limit = Duration::from_mins(1);
        tokio::select! {
            () = keep => unreachable!(),
            ready = tokio::time::timeout(limit, ready) => ready.unwrap(),
        }
        let text = metrics.encode(0).unwrap();
        for result in ["refused", "loaded"] {
            let line = format!("nodelife_certificate_reloads_total{{result=\"{result}\"}} 1\n");
            assert!(text.contains(&line), "{text}");
        }
    }
}
