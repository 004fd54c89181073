//! Images made from nothing: one program, in an OCI layout in a tar.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use ring::digest::{SHA256, digest};
use serde_json::{Value, json};

use crate::fixture;

/// What a container of the image runs.
#[derive(Debug, Clone)]
pub struct Image<'a> {
    /// Its names, `HOST/NAME:TAG`. A tag other than `latest` is not pulled when it is there.
    pub names: &'a [&'a str],
    /// The program, which lies in the image's root.
    pub program: &'a Path,
    /// Files of this machine that a program needs which is not static, in the same places.
    pub libraries: &'a [PathBuf],
    /// Arguments that go before a container's own.
    pub arguments: &'a [&'a str],
    /// The numeric user and group.
    pub user: &'a str,
}

impl Image<'_> {
    /// Writes the image as `ctr images import` reads it.
    pub fn write(&self, path: &Path) -> Result<()> {
        let name = self.program.file_name().context("a program has a name")?;
        let name = name.to_str().context("a program's name is UTF-8")?;
        let mut files = vec![(name.to_owned(), read(self.program)?, 0o755)];
        for library in self.libraries {
            let place = library.strip_prefix("/").context("a path from the root")?;
            let place = place.to_str().context("a library's path is UTF-8")?;
            files.push((place.to_owned(), read(library)?, 0o755));
        }
        let layer = archive(files)?;
        let mut entrypoint = vec![format!("/{name}")];
        entrypoint.extend(self.arguments.iter().map(|&word| word.to_owned()));
        let config = json!({
            "architecture": architecture(),
            "os": "linux",
            "config": {"User": self.user, "Entrypoint": entrypoint, "Env": ["PATH=/"]},
            // The layer is not compressed: its digest is the same inside and outside.
            "rootfs": {"type": "layers", "diff_ids": [sha256(&layer)]},
        });
        let config = config.to_string().into_bytes();
        let manifest = json!({
            "schemaVersion": 2,
            "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "config": descriptor("application/vnd.oci.image.config.v1+json", &config),
            "layers": [descriptor("application/vnd.oci.image.layer.v1.tar", &layer)],
        });
        let manifest = manifest.to_string().into_bytes();
        let names = self.names.iter().map(|name| {
            let mut named = descriptor("application/vnd.oci.image.manifest.v1+json", &manifest);
            let annotations = json!({"annotations": {"io.containerd.image.name": name}});
            fixture::merge(&mut named, annotations);
            named
        });
        let index = json!({"schemaVersion": 2, "manifests": names.collect::<Vec<_>>()});
        let mut files = vec![
            (
                "oci-layout".to_owned(),
                br#"{"imageLayoutVersion":"1.0.0"}"#.to_vec(),
                0o644,
            ),
            (
                "index.json".to_owned(),
                index.to_string().into_bytes(),
                0o644,
            ),
        ];
        for blob in [layer, config, manifest] {
            let name = sha256(&blob).replace(':', "/");
            files.push((format!("blobs/{name}"), blob, 0o644));
        }
        let archive = archive(files)?;
        File::create(path)
            .and_then(|mut file| file.write_all(&archive))
            .with_context(|| format!("failed to write {}", path.display()))
    }
}

fn read(file: &Path) -> Result<Vec<u8>> {
    std::fs::read(file).with_context(|| format!("failed to read {}", file.display()))
}

/// The machine's architecture, as Go calls it.
fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

fn descriptor(kind: &str, blob: &[u8]) -> Value {
    json!({"mediaType": kind, "digest": sha256(blob), "size": blob.len()})
}

fn sha256(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    let mut text = "sha256:".to_owned();
    for byte in digest(&SHA256, bytes).as_ref() {
        // A String takes every write.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// A tar of files, the same for the same contents.
fn archive(files: Vec<(String, Vec<u8>, u32)>) -> Result<Vec<u8>> {
    let mut builder = tar::Builder::new(Vec::new());
    for (name, contents, mode) in files {
        let mut header = tar::Header::new_ustar();
        header.set_size(contents.len() as u64);
        header.set_mode(mode);
        header.set_cksum();
        builder.append_data(&mut header, name, contents.as_slice())?;
    }
    Ok(builder.into_inner()?)
}
