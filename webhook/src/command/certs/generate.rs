//! `certs generate`: makes certificates offline.

use std::fs::{DirBuilder, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD as STANDARD;
use clap::Args;
use jiff::{SignedDuration, Timestamp};
use nodelife_certs::{ObjectNames, certificates, offline};
use serde_json::{Value, json};

use super::args::NameArguments;

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The directory to create, with secret.json, ca.crt, and ca-bundle.json, a JSON patch for
    /// each webhook configuration.
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    #[command(flatten)]
    names: NameArguments,
    /// Lifetime of the CA and the leaf.
    #[arg(long, value_name = "DURATION", default_value = "8760h")]
    life: SignedDuration,
    /// PEM of a CA to keep trusting: the ca.crt of the previous certificates, so that no call fails
    /// until the new leaf is mounted everywhere.
    #[arg(long, value_name = "FILE")]
    trust: Option<PathBuf>,
}

pub(super) fn run(arguments: Arguments) -> anyhow::Result<ExitCode> {
    let folder = arguments.folder;
    let names = ObjectNames::from(arguments.names);
    let (leaf, ca) = offline(&names, arguments.life, Timestamp::now())?;
    let mut bundle = ca.clone();
    if let Some(path) = arguments.trust {
        let failed = || format!("failed to use {}", path.display());
        let pem = std::fs::read(&path).with_context(failed)?;
        bundle.push_str(&certificates(&pem).with_context(failed)?);
    }
    let secret = json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": { "name": names.tls_secret, "namespace": names.namespace },
        "type": "kubernetes.io/tls",
        "stringData": {
            "tls.crt": leaf.certificate_pem(),
            "tls.key": leaf.key_pem(),
            "ca.crt": leaf.issuer_pem(),
        },
    });

    // A new directory that only its owner may enter: it will contain a key.
    DirBuilder::new()
        .mode(0o700)
        .create(&folder)
        .with_context(|| format!("failed to create the directory {}", folder.display()))?;
    let write = |name: &str, text: String| -> anyhow::Result<()> {
        let path = folder.join(name);
        let mut options = OpenOptions::new();
        let mut file = options
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&path)
            .with_context(|| format!("failed to create {}", path.display()))?;
        file.write_all(text.as_bytes())
            .with_context(|| format!("failed to write {}", path.display()))
    };
    write("ca.crt", ca)?;
    for (name, document) in [("ca-bundle.json", patch(&bundle)), ("secret.json", secret)] {
        write(name, serde_json::to_string_pretty(&document)? + "\n")?;
    }
    Ok(ExitCode::SUCCESS)
}

/// A JSON patch of a configuration with one webhook. (Not for `kubectl apply --server-side`: that
/// first takes over the fields of an earlier client-side apply, v1.36.3 `pkg/cmd/apply/apply.go`
/// `migrateToSSAIfNecessary`, and removes them the second time.)
fn patch(bundle: &str) -> Value {
    let bundle = STANDARD.encode(bundle);
    json!([{ "op": "add", "path": "/webhooks/0/clientConfig/caBundle", "value": bundle }])
}
