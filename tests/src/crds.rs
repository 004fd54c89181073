//! CRDs of operators that the tests do not run.
//!
//! Their `CustomResourceDefinition`s are taken out of their published Go modules, at a version and
//! a checksum that are written down here. So the API server holds our manifests against the real
//! schemas, and no copy of them has to be kept up to date in this repository.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use crate::program;

/// An operator's module and the files of it that define kinds which our manifests use.
struct Operator {
    /// The module and its version, as `go mod download` takes them.
    module: &'static str,
    /// Its checksum, as go.sum would hold it.
    sum: &'static str,
    /// The definitions, from the module's root.
    files: &'static [&'static str],
}

const OPERATORS: [Operator; 2] = [
    Operator {
        module: "github.com/cert-manager/cert-manager@v1.21.2",
        sum: "h1:UWgoYM+KLNtRlqmoWOKjKBOBUPVHeepQ6/ac3ERJW68=",
        files: &[
            "deploy/crds/cert-manager.io_certificates.yaml",
            "deploy/crds/cert-manager.io_issuers.yaml",
        ],
    },
    Operator {
        module: "github.com/prometheus-operator/prometheus-operator@v0.85.0",
        sum: "h1:M5xLCLEoaW2IJfnuCwFzzpL+jSVQu3KGT84Pye+fW8s=",
        files: &[
            "example/prometheus-operator-crd/monitoring.coreos.com_podmonitors.yaml",
            "example/prometheus-operator-crd/monitoring.coreos.com_prometheusrules.yaml",
        ],
    },
];

/// The files with the `CustomResourceDefinition`s of cert-manager's and the Prometheus operator's
/// kinds that `manifests/` uses. Go keeps the modules in its cache.
pub fn operators() -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for operator in &OPERATORS {
        let folder = download(operator)?;
        files.extend(operator.files.iter().map(|file| folder.join(file)));
    }
    Ok(files)
}

/// What `go mod download -json` says of a module.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Download {
    dir: Option<PathBuf>,
    sum: Option<String>,
    error: Option<String>,
}

fn download(operator: &Operator) -> Result<PathBuf> {
    let output = Command::new("go")
        .args(["mod", "download", "-json", operator.module])
        // Outside of every module: nothing of ours is changed by it.
        .current_dir(program::target_folder()?)
        .stderr(Stdio::inherit())
        .output()
        .context("failed to run go, which brings the operators' definitions: install Go 1.26")?;
    let said: Download = serde_json::from_slice(&output.stdout)
        .with_context(|| format!("go mod download {} said no JSON", operator.module))?;
    if let Some(error) = said.error {
        bail!("failed to download {}: {error}", operator.module);
    }
    if said.sum.as_deref() != Some(operator.sum) {
        bail!(
            "{} has the checksum {:?}, and not {}",
            operator.module,
            said.sum,
            operator.sum
        );
    }
    said.dir
        .filter(|folder| Path::new(folder).is_dir())
        .with_context(|| format!("go mod download {} named no folder", operator.module))
}
