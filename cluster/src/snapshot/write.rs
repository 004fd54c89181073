//! Writes a snapshot document, and any file so that it is there whole or not at all.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;
use nodelife_core::API_VERSION;
use nodelife_core::snapshot::{Snapshot, Source};
use serde::Serialize;

pub(super) const KIND: &str = "Snapshot";

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Document<'a> {
    api_version: &'static str,
    kind: &'static str,
    /// How many of each there are to come: so a document that lost its end is known by its
    /// head, where the format itself does not show it (YAML).
    counts: BTreeMap<Source, usize>,
    #[serde(flatten)]
    snapshot: &'a Snapshot,
}

/// Writes to a file, compressed if its name ends in `.gz`. The file is there whole or
/// not at all: it is written beside its place and moved there.
pub fn write(snapshot: &Snapshot, path: &Path) -> Result<(), WriteError> {
    let packed = path.extension().is_some_and(|extension| extension == "gz");
    write_whole(path, |file| {
        if !packed {
            return write_to(snapshot, file);
        }
        let mut gzip = GzEncoder::new(file, Compression::fast());
        write_to(snapshot, &mut gzip)?;
        gzip.finish().map(|_| ())
    })
}

/// Writes the document to wherever `output` goes, a newline at its end.
pub fn write_to(snapshot: &Snapshot, mut output: impl Write) -> io::Result<()> {
    let document = Document {
        api_version: API_VERSION,
        kind: KIND,
        counts: Source::ALL
            .into_iter()
            .map(|source| (source, snapshot.count(source)))
            .collect(),
        snapshot,
    };
    serde_json::to_writer(&mut output, &document)?;
    output.write_all(b"\n")
}

#[derive(Debug, thiserror::Error)]
#[error("failed to write {}: {source}", .path.display())]
pub struct WriteError {
    pub path: PathBuf,
    pub source: io::Error,
}

/// Has `content` write the file beside its place, and moves it there.
/// If the file cannot be written, an older one of that name is still there.
pub fn write_whole(
    path: &Path,
    content: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>,
) -> Result<(), WriteError> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(".partial");
    let beside = PathBuf::from(beside);
    let result = File::create(&beside)
        .and_then(|file| {
            let mut file = BufWriter::new(file);
            content(&mut file)?;
            file.flush()?;
            file.get_ref().sync_all()
        })
        .and_then(|()| std::fs::rename(&beside, path));
    result.map_err(|source| {
        // Best effort: the error that matters is the first one.
        let _ = std::fs::remove_file(&beside);
        let path = path.to_owned();
        WriteError { path, source }
    })
}
