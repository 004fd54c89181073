//! Pods that come and go in a large cluster.

use anyhow::{Context, Result};

use super::kind::{KINDS, Kind, another_pod};
use super::size::Size;
use super::template;
use super::template::Template;
use crate::control_plane::ControlPlane;
use crate::etcd::Etcd;

/// Makes, changes and removes pods beside those that the cluster was filled with.
pub struct Churn {
    etcd: Etcd,
    kind: &'static Kind,
    template: Template,
    size: Size,
}

impl Churn {
    /// For a cluster that was filled with this size.
    pub async fn new(plane: &ControlPlane, size: Size) -> Result<Self> {
        let kind = KINDS.iter().find(|kind| kind.name.starts_with("pods"));
        let kind = kind.context("the large cluster has pods")?;
        let (client, etcd) = (plane.admin().await?, plane.etcd().await?);
        Ok(Self {
            template: template(&client, &etcd, kind, size).await?,
            etcd,
            kind,
            size,
        })
    }

    /// Writes these pods; once more, and each has changed.
    pub async fn write(&self, numbers: impl Iterator<Item = usize>) -> Result<()> {
        let entries = numbers.map(|number| {
            let words = another_pod(number, self.size);
            Ok((self.kind.key(&words), self.template.with(&words)?))
        });
        self.etcd.put(entries.collect::<Result<_>>()?).await
    }

    /// Removes these pods.
    pub async fn remove(&self, numbers: impl Iterator<Item = usize>) -> Result<()> {
        for number in numbers {
            let words = another_pod(number, self.size);
            self.etcd.delete(&self.kind.key(&words)).await?;
        }
        Ok(())
    }
}
