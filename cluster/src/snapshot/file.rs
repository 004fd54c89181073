//! Reads snapshots from files: our own format, and the output of `kubectl get -o json|yaml`.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use flate2::bufread::MultiGzDecoder;
use nodelife_core::allocatable::KubeletConfiguration;
use nodelife_core::snapshot::{Snapshot, Source};
use nodelife_core::text::Str;
use serde::de::{Deserialize, DeserializeOwned, Deserializer, Error as _};
use thiserror::Error;

use super::complete::complete;
use super::document;
use super::gathered::Gathered;
use super::kinds;
use super::piece::StreamError;
use super::stream::Stream;

const BUFFER: usize = 128 << 10;

const STDIN: &str = "-";

const PACKED: [(&[u8], &str); 4] = [
    (b"\xfd7zXZ\0", "xz"),
    (b"\x28\xb5\x2f\xfd", "zstd"),
    (b"BZh", "bzip2"),
    (b"PK\x03\x04", "zip"),
];

#[derive(Debug, Error)]
pub enum FileError {
    #[error("failed to read {}: {source}", .path.display())]
    Unreadable { path: PathBuf, source: io::Error },
    #[error("failed to unpack {}: {reason}; write the file again", .path.display())]
    Gzip { path: PathBuf, reason: String },
    #[error("{} is compressed with {format}, which is not supported: unpack it first", .path.display())]
    Packed { path: PathBuf, format: &'static str },
    #[error("{} is truncated: it ends at line {line} column {column} inside a value; write it again", .path.display())]
    Truncated {
        path: PathBuf,
        /// The last line, from 1.
        line: usize,
        column: usize,
    },
    #[error("failed to read {}: {reason}", .path.display())]
    Malformed { path: PathBuf, reason: String },
    #[error(
        "{} has no objects that nodelife reads: {found}; use a file of `kubectl nodelife \
         snapshot`, or `kubectl get nodes,pods -A -o json`",
        .path.display()
    )]
    Foreign { path: PathBuf, found: String },
    #[error(
        "no file in {} has objects that nodelife reads; use a file of `kubectl nodelife \
         snapshot`, or the output of `kubectl cluster-info dump`",
        .path.display()
    )]
    Nothing { path: PathBuf },
    /// Snapshots are of one cluster at one time each: together they are of no cluster.
    #[error("{} snapshots ({}): a report is about one cluster at one time; name one of them", .names.len(), .names.join(", "))]
    SeveralSnapshots { names: Vec<String> },
}

#[derive(Debug, Default)]
pub struct FromFiles {
    pub snapshot: Snapshot,
    pub foreign: Vec<String>,
    /// Files of folders and archives that cannot be read, and show no such object; with the reason.
    pub broken: Vec<String>,
    pub undecodable: Vec<String>,
    /// Nodes that the files have more than once, with different UIDs.
    pub contradictory_nodes: Vec<Str>,
}

/// Reads a snapshot out of files, folders (`*.json`, `*.yaml`, `*.yml`, gzip or not, what `sos`
/// names after `kubectl get -o json`, and those of folders in them) and standard input (`-`), all
/// put together. An archive (`*.tar`, `*.tar.gz`, `*.tgz`) is read as a folder. A file of a folder
/// that has nothing to read here is left out, broken or not.
///
/// An object that is in several files counts once. What none of them holds is named
/// in [`Snapshot::missing`].
pub fn read(paths: &[PathBuf]) -> Result<FromFiles, FileError> {
    let mut reader = Reader::default();
    for path in paths {
        let before = reader.taken;
        if path.as_os_str() == STDIN {
            let input = BufReader::with_capacity(BUFFER, io::stdin());
            let mut gathered = Gathered::default();
            let stdin = Path::new("standard input");
            read_stream(stdin, input, &mut gathered)?;
            reader.take(stdin, gathered);
        } else if path.is_dir() {
            for file in files(path)? {
                reader.one_of_many(&file, |all| read_file(&file, all))?;
            }
        } else if is_archive(path) {
            reader.archive(path)?;
        } else {
            let mut gathered = Gathered::default();
            read_file(path, &mut gathered)?;
            reader.take(path, gathered);
        }
        if reader.taken == before {
            let path = path.clone();
            let nothing = FileError::Nothing { path };
            return Err(reader.first_error.unwrap_or(nothing));
        }
    }
    reader.end()
}

#[derive(Default)]
struct Reader {
    all: Gathered,
    read: FromFiles,
    taken: usize,
    /// The first file or object that was left out because it is broken.
    first_error: Option<FileError>,
    snapshots: Vec<String>,
}

impl Reader {
    fn take(&mut self, path: &Path, mut gathered: Gathered) {
        name_configurations(path, &mut gathered);
        self.taken += 1;
        let name = path.display().to_string();
        // Of every namespace, these two are left out by nobody, and have no pods.
        if gathered.empty_pod_lists > 1 || gathered.empty_pod_lists > 0 && is_public(&name) {
            gathered.whole.insert(Source::Pods);
        }
        for (_, reason) in &gathered.undecodable {
            let error = malformed(path, reason.clone());
            self.read.undecodable.push(error.to_string());
            self.first_error.get_or_insert(error);
        }
        self.snapshots
            .extend(std::iter::repeat_n(name, gathered.snapshots));
        self.all.absorb(gathered);
    }

    /// Takes what a file of a folder or an archive has; leaves out one that has nothing.
    fn one_of_many(
        &mut self,
        path: &Path,
        read: impl FnOnce(&mut Gathered) -> Result<(), FileError>,
    ) -> Result<(), FileError> {
        let mut gathered = Gathered::default();
        match read(&mut gathered) {
            Ok(()) => {
                // A must-gather has a file for each node, and a cluster may have only one.
                let folder = path.parent().and_then(Path::file_name);
                if folder.is_some_and(|folder| folder == "nodes" || folder == "node") {
                    gathered.single_nodes = 0;
                }
                self.take(path, gathered);
            }
            Err(FileError::Foreign { .. }) => self.read.foreign.push(path.display().to_string()),
            Err(error) if !gathered.is_of_use() => {
                self.read.broken.push(error.to_string());
                self.first_error.get_or_insert(error);
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }

    fn archive(&mut self, path: &Path) -> Result<(), FileError> {
        let broken = |error| gzip_error(path, &error);
        let file = BufReader::new(File::open(path).map_err(broken)?);
        let packed = path.extension().is_some_and(|extension| extension != "tar");
        let input: Box<dyn Read> = if packed {
            Box::new(MultiGzDecoder::new(file))
        } else {
            Box::new(file)
        };
        let mut archive = tar::Archive::new(input);
        for entry in archive.entries().map_err(broken)? {
            let entry = entry.map_err(broken)?;
            let file = path.join(entry.path().map_err(broken)?);
            if entry.header().entry_type().is_file() && is_document(&file) {
                let input = BufReader::with_capacity(BUFFER, entry);
                self.one_of_many(&file, |all| read_stream(&file, input, all))?;
            }
        }
        Ok(())
    }

    fn end(mut self) -> Result<FromFiles, FileError> {
        if self.snapshots.len() > 1 {
            let names = self.snapshots;
            return Err(FileError::SeveralSnapshots { names });
        }
        (self.read.snapshot, self.read.contradictory_nodes) = complete(self.all);
        let count = |source: &Source| self.read.snapshot.count(*source);
        let is_empty = Source::ALL.iter().all(|source| count(source) == 0);
        match self.first_error {
            Some(error) if is_empty && !self.read.undecodable.is_empty() => Err(error),
            _ => Ok(self.read),
        }
    }
}

/// Whether the list is of a namespace that every cluster has, and nobody reads alone.
fn is_public(name: &str) -> bool {
    name.contains("kube-public") || name.contains("kube-node-lease")
}

/// The files of a folder in the order of their names. Links to folders are not followed: they may
/// lead back, or out of a bundle. As in an archive, links that lead nowhere are no files.
fn files(path: &Path) -> Result<Vec<PathBuf>, FileError> {
    let mut entries = std::fs::read_dir(path)
        .and_then(|entries| {
            let kinds = entries.map(|entry| {
                let entry = entry?;
                Ok((entry.path(), entry.file_type()?))
            });
            kinds.collect::<io::Result<Vec<_>>>()
        })
        .map_err(|source| unreadable(path, source))?;
    entries.sort_by(|(one, _), (other, _)| one.cmp(other));
    let mut found = Vec::new();
    for (entry, kind) in entries {
        if kind.is_dir() {
            match files(&entry) {
                Ok(files) => found.extend(files),
                // Opening it as a file fails too, and says why.
                Err(_) => found.push(entry),
            }
        } else if is_document(&entry) && is_file(&entry) {
            found.push(entry);
        }
    }
    Ok(found)
}

/// The documents that a path of the command line means, but for those of archives.
pub(super) fn documents_of(path: &Path) -> Vec<PathBuf> {
    files(path).unwrap_or_else(|_| vec![path.to_owned()])
}

/// Whether this is a file, or a link to one. What cannot be found out, reading it will say.
fn is_file(path: &Path) -> bool {
    match std::fs::metadata(path) {
        Ok(metadata) => metadata.is_file(),
        Err(error) => error.kind() != io::ErrorKind::NotFound,
    }
}

fn is_document(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let name = name.strip_suffix(".gz").unwrap_or(&name);
    [".json", ".yaml", ".yml"]
        .iter()
        .any(|extension| name.ends_with(extension))
        // `sos report` names files after their command (`sos/report/plugins/kubernetes.py`).
        || name.contains("_get_-o_json_")
}

fn read_file(path: &Path, all: &mut Gathered) -> Result<(), FileError> {
    let file = File::open(path).map_err(|source| unreadable(path, source))?;
    read_stream(path, BufReader::with_capacity(BUFFER, file), all)
}

/// A kubelet's configuration does not say whose it is: the file's name does.
fn name_configurations(path: &Path, gathered: &mut Gathered) {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let name = name.strip_suffix(".gz").unwrap_or(&name);
    let node = name.rsplit_once('.').map_or(name, |(node, _)| node);
    for document in std::mem::take(&mut gathered.kubelet_configs) {
        match KubeletConfiguration::from_configz(document) {
            Ok(configuration) => {
                let configs = &mut gathered.snapshot.kubelet_configs;
                configs.insert(Str::from(node), configuration);
            }
            Err(error) => {
                let reason = (Source::KubeletConfigs, error.to_string());
                gathered.undecodable.push(reason);
            }
        }
    }
}

/// Up to an error, `all` has what could be read.
fn read_stream(path: &Path, mut input: impl BufRead, all: &mut Gathered) -> Result<(), FileError> {
    let start = input.fill_buf();
    let start = start.map_err(|source| unreadable(path, source))?;
    if let Some((_, format)) = PACKED.iter().find(|(magic, _)| start.starts_with(magic)) {
        let path = path.to_owned();
        return Err(FileError::Packed { path, format });
    }
    if start.starts_with(&[0x1f, 0x8b]) {
        let unpacked = MultiGzDecoder::new(input);
        read_documents(path, BufReader::with_capacity(BUFFER, unpacked), true, all)?;
    } else {
        read_documents(path, input, false, all)?;
    }
    if all.is_of_use() {
        return Ok(());
    }
    let found = if all.foreign.is_empty() {
        "it is empty".to_owned()
    } else {
        let kinds: Vec<_> = all.foreign.iter().map(String::as_str).collect();
        format!("it has {}", kinds.join(", "))
    };
    let path = path.to_owned();
    Err(FileError::Foreign { path, found })
}

fn read_documents(
    path: &Path,
    mut input: impl BufRead,
    packed: bool,
    all: &mut Gathered,
) -> Result<(), FileError> {
    let start = input.fill_buf();
    let start = start.map_err(|error| json_error(path, StreamError::Io(error), packed))?;
    let is_ours = is_of_kubernetes(start);
    if start.trim_ascii_start().first() == Some(&b'{') {
        let read = document::read(&mut Stream::new(&mut input), all);
        return read.map_err(|error| of_other_kind(json_error(path, error, packed), is_ours));
    }
    let shown = kinds::shown(&String::from_utf8_lossy(start));
    for document in yaml_documents(&mut input) {
        let Json(text) = document.map_err(|error| {
            // What is broken may be what is read here.
            shown.inspect(|kind| all.listed(*kind));
            let reason = parse_error(&error.without_snippet().to_string());
            of_other_kind(malformed(path, reason), is_ours)
        })?;
        if text == b"null" {
            continue;
        }
        if !text.starts_with(b"{") {
            all.unknown("no snapshot, list or object of Kubernetes");
            continue;
        }
        let read = document::read(&mut Stream::made(&mut &text[..]), all);
        read.map_err(|error| malformed(path, error.to_string()))?;
    }
    Ok(())
}

/// The parser's words with one place, the innermost, and without its advice to programmers.
fn parse_error(text: &str) -> String {
    let mut parts = text.split(" at line ");
    let what = parts.next().unwrap_or_default();
    let what = what.split(", set ").next().unwrap_or_default();
    let place = parts.next().map(|place| format!(" at line {place}"));
    what.to_owned() + &place.unwrap_or_default()
}

fn is_of_kubernetes(start: &[u8]) -> bool {
    let fields: [&[u8]; 3] = [b"apiVersion", b"nodeInfo", b"kubeletconfig"];
    let mut fields = fields.iter();
    fields.any(|field| memchr::memmem::find(start, field).is_some())
}

/// Logs and reports of other programs may be no JSON or YAML at all.
fn of_other_kind(error: FileError, is_ours: bool) -> FileError {
    match error {
        FileError::Malformed { path, reason } if !is_ours => FileError::Foreign {
            path,
            found: format!("no object of Kubernetes ({reason})"),
        },
        error => error,
    }
}

/// A document of YAML as JSON, which is what Kubernetes makes of it, too.
struct Json(Vec<u8>);

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(yaml: D) -> Result<Self, D::Error> {
        let mut text = Vec::new();
        let mut json = serde_json::Serializer::new(&mut text);
        serde_transcode::transcode(yaml, &mut json).map_err(D::Error::custom)?;
        Ok(Self(text))
    }
}

/// The documents of a YAML stream. The limits of the parser are for configuration
/// files; a list of a cluster may be far larger. Those against alias bombs stay.
pub(super) fn yaml_documents<T: DeserializeOwned + 'static>(
    input: &mut impl Read,
) -> impl Iterator<Item = Result<T, serde_saphyr::Error>> {
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_reader_input_bytes: None,
            max_events: usize::MAX,
            max_nodes: usize::MAX,
            max_total_scalar_bytes: usize::MAX,
            max_documents: usize::MAX,
        },
    };
    serde_saphyr::read_with_options(input, options)
}

fn unreadable(path: &Path, source: io::Error) -> FileError {
    let path = path.to_owned();
    FileError::Unreadable { path, source }
}

fn malformed(path: &Path, reason: String) -> FileError {
    let path = path.to_owned();
    FileError::Malformed { path, reason }
}

fn json_error(path: &Path, error: StreamError, packed: bool) -> FileError {
    match error {
        StreamError::Io(source) if packed => gzip_error(path, &source),
        StreamError::Io(source) => unreadable(path, source),
        StreamError::Cut(place) => FileError::Truncated {
            path: path.to_owned(),
            line: place.line,
            column: place.column,
        },
        wrong @ StreamError::Wrong { .. } => malformed(path, wrong.to_string()),
    }
}

fn gzip_error(path: &Path, error: &io::Error) -> FileError {
    let reason = if error.kind() == io::ErrorKind::UnexpectedEof {
        "the compressed stream is truncated".to_owned()
    } else {
        error.to_string()
    };
    let path = path.to_owned();
    FileError::Gzip { path, reason }
}

/// Whether the name is that of an archive: bundles of troubleshoot, must-gather and `sos` come so.
fn is_archive(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    [".tar", ".tar.gz", ".tgz"]
        .iter()
        .any(|extension| name.ends_with(extension))
}
