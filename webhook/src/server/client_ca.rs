//! [`ClientCa`]: the CA of the webhook's callers, reloaded while the server runs.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use arc_swap::ArcSwap;
use rustls::ServerConfig;

use super::tls::{Certificates, server_config};

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

    /// Reads the file every `interval`, forever. New connections use a new configuration, which
    /// also ends the sessions that callers of a removed CA could resume. An unusable file is
    /// logged once, and the previous CA stays in use.
    pub(crate) async fn keep(
        mut self,
        interval: Duration,
        certificates: &Arc<Certificates>,
        tls: &ArcSwap<ServerConfig>,
    ) {
        let mut failure = String::new();
        let mut ticks = tokio::time::interval(interval);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            let path = self.path.clone();
            let read = match tokio::task::spawn_blocking(move || Self::read(path)).await {
                Ok(read) => read,
                Err(error) => {
                    tracing::error!(%error, "the task that reads the client CA failed");
                    continue;
                }
            };
            if read.as_ref().is_ok_and(|read| read.pem == self.pem) {
                failure.clear();
                continue;
            }
            match read.and_then(|read| Ok((read.config(certificates)?, read))) {
                Ok((config, read)) => {
                    tracing::info!("client CA loaded");
                    tls.store(Arc::new(config));
                    self = read;
                    failure.clear();
                }
                Err(error) => {
                    let text = format!("{error:#}");
                    if text != failure {
                        tracing::error!(
                            error = text,
                            "client CA rejected, still using the previous one"
                        );
                        failure = text;
                    }
                }
            }
        }
    }
}
