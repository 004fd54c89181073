//! Reproducible archives: the same files give the same bytes.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};
use flate2::{Compression, GzBuilder};
use ring::digest::{SHA256, digest};
use tar::{Builder, EntryType, Header};

#[derive(Clone, Debug)]
pub struct Entry {
    pub path: String,
    pub content: Vec<u8>,
    pub executable: bool,
}

impl Entry {
    pub fn text(path: &str, content: impl Into<Vec<u8>>) -> Self {
        Self {
            path: path.to_owned(),
            content: content.into(),
            executable: false,
        }
    }

    pub fn program(path: &str, content: Vec<u8>) -> Self {
        Self {
            executable: true,
            ..Self::text(path, content)
        }
    }
}

/// Writes a .tar.gz and gives its SHA-256, in hexadecimal. No time, user or machine is in it.
pub fn write(path: &Path, entries: &[Entry]) -> Result<String> {
    let mut entries: Vec<&Entry> = entries.iter().collect();
    entries.sort_by(|a, b| a.path.cmp(&b.path));
    let gzip = GzBuilder::new()
        .mtime(0)
        .write(Vec::new(), Compression::best());
    let mut builder = Builder::new(gzip);
    for entry in entries {
        let mut header = Header::new_gnu();
        header.set_entry_type(EntryType::Regular);
        header.set_size(u64::try_from(entry.content.len())?);
        header.set_mode(if entry.executable { 0o755 } else { 0o644 });
        header.set_mtime(0);
        header.set_uid(0);
        header.set_gid(0);
        builder.append_data(&mut header, &entry.path, entry.content.as_slice())?;
    }
    let bytes = builder.into_inner()?.finish()?;
    fs::write(path, &bytes).with_context(|| format!("failed to write {}", path.display()))?;
    Ok(sha256(&bytes))
}

pub fn sha256(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(64);
    for byte in digest(&SHA256, bytes).as_ref() {
        // A String takes whatever is written to it.
        let _ = write!(text, "{byte:02x}");
    }
    text
}
