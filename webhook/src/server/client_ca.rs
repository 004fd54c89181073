//! [`ClientCa`]: who may call the webhook, by a CA, which is reloaded, and a name.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use arc_swap::ArcSwap;
use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, Error, ServerConfig,
    SignatureScheme,
};
use x509_parser::prelude::{FromDer as _, X509Certificate};

use super::tls::{Certificates, roots, server_config};
use crate::reload;

/// A file of CA certificates, with its content in use, and the common name of the callers.
pub(crate) struct ClientCa {
    path: PathBuf,
    pem: Vec<u8>,
    name: Arc<str>,
}

impl ClientCa {
    pub(crate) fn read(path: PathBuf, name: Arc<str>) -> anyhow::Result<Self> {
        let pem =
            std::fs::read(&path).with_context(|| format!("failed to read {}", path.display()))?;
        Ok(Self { path, pem, name })
    }

    pub(crate) fn config(&self, certificates: &Arc<Certificates>) -> anyhow::Result<ServerConfig> {
        let config = || {
            let (roots, provider) = (roots(&self.pem)?, default_provider());
            let signed =
                WebPkiClientVerifier::builder_with_provider(roots.into(), provider.into()).build();
            let callers = Callers {
                signed: signed.context("the CA cannot be used")?,
                name: Arc::clone(&self.name),
            };
            server_config(Arc::clone(certificates), Some(Arc::new(callers)))
        };
        config().with_context(|| format!("failed to use {}", self.path.display()))
    }

    /// Reloads the file every `interval`, forever. New connections use a new configuration, which
    /// also ends the sessions that callers of a removed CA could resume.
    pub(crate) async fn keep(
        mut self,
        interval: Duration,
        certificates: &Arc<Certificates>,
        tls: &ArcSwap<ServerConfig>,
    ) {
        let (path, name) = (self.path.clone(), Arc::clone(&self.name));
        let read = move || Self::read(path.clone(), Arc::clone(&name));
        let apply = |read: Self| {
            if read.pem != self.pem {
                tls.store(Arc::new(read.config(certificates)?));
                tracing::info!("client CA loaded");
                self = read;
            }
            Ok(())
        };
        reload::keep("client CA", interval, read, apply).await;
    }
}

/// Admits the certificates of one common name alone: a cluster's CA signs those of kubelets too.
#[derive(Debug)]
struct Callers {
    signed: Arc<dyn ClientCertVerifier>,
    name: Arc<str>,
}

impl ClientCertVerifier for Callers {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.signed.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        end: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        let verified = self.signed.verify_client_cert(end, intermediates, now)?;
        let (_, parsed) =
            X509Certificate::from_der(end).map_err(|_| CertificateError::BadEncoding)?;
        let names = parsed.subject().iter_common_name();
        if names.map(|name| name.as_str().ok()).eq([Some(&*self.name)]) {
            return Ok(verified);
        }
        // The caller reads "access denied".
        tracing::debug!(subject = %parsed.subject(), "client certificate without the name of --client-name");
        Err(CertificateError::ApplicationVerificationFailure.into())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        end: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.signed.verify_tls12_signature(message, end, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        end: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.signed.verify_tls13_signature(message, end, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.signed.supported_verify_schemes()
    }
}
