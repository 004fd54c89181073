//! [`ClientCa`]: the CA of the webhook's callers, reloaded while the server runs.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use arc_swap::ArcSwap;
use rustls::ServerConfig;

use super::tls::{Certificates, server_config};
use crate::reload;

/// A file of CA certificates, with its content in use.
pub(crate) struct ClientCa {
    path: PathBuf,
    pem: Vec<u8>,
}

impl ClientCa {
    pub(crate) fn read(path: PathBuf) -> anyhow::Result<Self> {
        let pem =
            std::fs::read(&path).with_context(|| format!("failed to read {}", path.display()))?;
        Ok(Self { path, pem })
    }

    /// The server's side of TLS for callers of this CA.
    pub(crate) fn config(&self, certificates: &Arc<Certificates>) -> anyhow::Result<ServerConfig> {
        server_config(Arc::clone(certificates), Some(&self.pem))
            .with_context(|| format!("failed to use {}", self.path.display()))
    }

    /// Reloads the file every `interval`, forever. New connections use a new configuration, which
    /// also ends the sessions that callers of a removed CA could resume.
    pub(crate) async fn keep(
        mut self,
        interval: Duration,
        certificates: &Arc<Certificates>,
        tls: &ArcSwap<ServerConfig>,
    ) {
        let path = self.path.clone();
        let read = move || Self::read(path.clone());
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
