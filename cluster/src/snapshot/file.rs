//! Reads snapshots from files: our own format, and the output of `kubectl get -o json|yaml`.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use flate2::bufread::MultiGzDecoder;
use foldhash::{HashMap, HashSet};
use nodelife_core::allocatable::KubeletConfiguration;
use nodelife_core::object::Node;
use nodelife_core::snapshot::{Snapshot, Source};
use nodelife_core::text::Str;
use serde::de::{Deserialize, Deserializer, Error as _};
use thiserror::Error;

use super::archive;
use super::document;
use super::gathered::Gathered;
use super::kinds::{Kind, Visitor, each_kind, source_of};
use super::piece::StreamError;
use super::stream::Stream;
use crate::listing::Object;

/// Bytes read at once.
const BUFFER: usize = 128 << 10;

/// The path that stands for standard input.
const STDIN: &str = "-";

/// Kinds that every cluster has some of: where they are there, the workloads are taken
/// for complete, since an owner that is in no list counts as gone.
const REQUIRED_WORKLOADS: [&str; 2] = ["ReplicaSet", "DaemonSet"];

/// Why files give no snapshot.
#[derive(Debug, Error)]
pub enum FileError {
    /// A file or folder cannot be opened or read.
    #[error("failed to read {}: {source}", .path.display())]
    Unreadable { path: PathBuf, source: io::Error },
    /// The compressed stream ends in the middle, or is none.
    #[error("failed to unpack {}: {reason}; write the file again", .path.display())]
    Gzip { path: PathBuf, reason: String },
    /// The text ends in the middle.
    #[error("{} is truncated: it ends at line {line} column {column} inside a value; write it again", .path.display())]
    Truncated {
        path: PathBuf,
        /// The last line, from 1.
        line: usize,
        column: usize,
    },
    /// Not JSON or YAML, or not the shape of what it says it is.
    #[error("failed to read {}: {reason}", .path.display())]
    Malformed { path: PathBuf, reason: String },
    /// Good documents, but of nothing that can be read here.
    #[error(
        "{} has no objects that nodelife reads: {found}; use a file of `kubectl nodelife \
         snapshot`, or `kubectl get nodes,pods -A -o json`",
        .path.display()
    )]
    Foreign {
        path: PathBuf,
        /// The documents that were found instead.
        found: String,
    },
    /// A folder or an archive, and not one of its files has objects that can be read here.
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

/// A snapshot, and what else there is to say about its files.
#[derive(Debug, Default)]
pub struct FromFiles {
    pub snapshot: Snapshot,
    /// How many files of folders and archives have no objects that nodelife reads.
    pub left_out: usize,
    /// Nodes that the files have more than once, with different UIDs.
    pub contradictory_nodes: Vec<Str>,
}

/// Reads a snapshot out of files, folders (`*.json`, `*.yaml`, `*.yml`, gzip or not, what `sos`
/// names after `kubectl get -o json`, and those of folders in them) and standard input (`-`), all
/// put together. An archive (`*.tar`, `*.tar.gz`, `*.tgz`) is read as a folder. Files of folders
/// without objects that can be read here are counted.
///
/// An object that is in several files counts once. What none of them holds is named
/// in [`Snapshot::missing`].
///
/// # Errors
///
/// [`FileError`], with the file, the place and what to do.
pub fn read(paths: &[PathBuf]) -> Result<FromFiles, FileError> {
    let mut all = Gathered::default();
    let mut snapshots = Vec::new();
    let mut left_out = 0;
    let mut take = |path: &Path, gathered: Gathered| {
        let name = path.display().to_string();
        snapshots.extend(std::iter::repeat_n(name, gathered.snapshots));
        all.absorb(gathered);
    };
    for path in paths {
        if path.as_os_str() == STDIN {
            let input = BufReader::with_capacity(BUFFER, io::stdin());
            let stdin = Path::new("standard input");
            take(stdin, read_stream(stdin, input)?);
        } else if path.is_dir() {
            let files = files(path)?;
            let before = left_out;
            for file in &files {
                match read_file(file) {
                    Ok(gathered) => take(file, gathered),
                    Err(FileError::Foreign { .. }) => left_out += 1,
                    Err(error) => return Err(error),
                }
            }
            if left_out - before == files.len() {
                let path = path.clone();
                return Err(FileError::Nothing { path });
            }
        } else if archive::is_archive(path) {
            left_out += read_archive(path, &mut take)?;
        } else {
            take(path, read_file(path)?);
        }
    }
    if snapshots.len() > 1 {
        let names = snapshots;
        return Err(FileError::SeveralSnapshots { names });
    }
    Ok(complete(all, left_out))
}

/// Reads the documents of an archive; the number of those without objects that can be read here.
fn read_archive(path: &Path, take: &mut impl FnMut(&Path, Gathered)) -> Result<usize, FileError> {
    let (mut all, mut left_out) = (0, 0);
    let broken = |error| gzip_error(path, &error);
    archive::each(path, broken, |name, input| {
        if !is_document(name) {
            return Ok(());
        }
        all += 1;
        let file = path.join(name);
        match read_stream(&file, BufReader::with_capacity(BUFFER, input)) {
            Ok(mut gathered) => {
                name_configurations(&file, &mut gathered)?;
                take(&file, gathered);
            }
            Err(FileError::Foreign { .. }) => left_out += 1,
            Err(error) => return Err(error),
        }
        Ok(())
    })?;
    if left_out == all {
        let path = path.to_owned();
        return Err(FileError::Nothing { path });
    }
    Ok(left_out)
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
            found.extend(files(&entry)?);
        } else if is_document(&entry) && is_file(&entry) {
            found.push(entry);
        }
    }
    Ok(found)
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

fn read_file(path: &Path) -> Result<Gathered, FileError> {
    let file = File::open(path).map_err(|source| unreadable(path, source))?;
    let mut gathered = read_stream(path, BufReader::with_capacity(BUFFER, file))?;
    name_configurations(path, &mut gathered)?;
    Ok(gathered)
}

/// A kubelet's configuration does not say whose it is: the file's name does.
fn name_configurations(path: &Path, gathered: &mut Gathered) -> Result<(), FileError> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let name = name.strip_suffix(".gz").unwrap_or(&name);
    let node = name.rsplit_once('.').map_or(name, |(node, _)| node);
    for document in std::mem::take(&mut gathered.kubelet_configs) {
        let configuration = KubeletConfiguration::from_configz(document)
            .map_err(|error| malformed(path, error.to_string()))?;
        let configs = &mut gathered.snapshot.kubelet_configs;
        configs.insert(Str::from(node), configuration);
    }
    Ok(())
}

fn read_stream(path: &Path, mut input: impl BufRead) -> Result<Gathered, FileError> {
    let start = input.fill_buf();
    let start = start.map_err(|source| unreadable(path, source))?;
    let gathered = if start.starts_with(&[0x1f, 0x8b]) {
        let unpacked = MultiGzDecoder::new(input);
        read_documents(path, BufReader::with_capacity(BUFFER, unpacked), true)
    } else {
        read_documents(path, input, false)
    }?;
    let nothing =
        gathered.snapshots == 0 && gathered.kinds.is_empty() && gathered.kubelet_configs.is_empty();
    if nothing {
        let found = if gathered.foreign.is_empty() {
            "it is empty".to_owned()
        } else {
            let kinds: Vec<_> = gathered.foreign.into_iter().collect();
            format!("it has {}", kinds.join(", "))
        };
        return Err(FileError::Foreign {
            path: path.to_owned(),
            found,
        });
    }
    Ok(gathered)
}

fn read_documents(
    path: &Path,
    mut input: impl BufRead,
    packed: bool,
) -> Result<Gathered, FileError> {
    let start = input.fill_buf();
    let start = start.map_err(|error| json_error(path, StreamError::Io(error), packed))?;
    if start.trim_ascii_start().first() == Some(&b'{') {
        let is_ours = is_of_kubernetes(start);
        let read = document::read(&mut Stream::new(&mut input));
        return read.map_err(|error| of_other_kind(json_error(path, error, packed), is_ours));
    }
    let is_ours = is_of_kubernetes(start);
    let mut all = Gathered::default();
    for document in yaml_documents(&mut input) {
        let Json(text) = document.map_err(|error| {
            let reason = error.without_snippet().to_string();
            of_other_kind(malformed(path, reason), is_ours)
        })?;
        if text == b"null" {
            continue;
        }
        if !text.starts_with(b"{") {
            all.unknown("no snapshot, list or object of Kubernetes");
            continue;
        }
        let read = document::read(&mut Stream::new(&mut &text[..]));
        all.absorb(read.map_err(|error| malformed(path, error.reason()))?);
    }
    Ok(all)
}

/// Whether the start of a file names a field of Kubernetes' objects.
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
fn yaml_documents(
    input: &mut impl Read,
) -> impl Iterator<Item = Result<Json, serde_saphyr::Error>> {
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
    FileError::Gzip {
        path: path.to_owned(),
        reason,
    }
}

/// Drops what is there twice, and names what is not there.
fn complete(all: Gathered, left_out: usize) -> FromFiles {
    let mut snapshot = all.snapshot;
    let contradictory_nodes = contradictory(&snapshot.nodes);
    each_kind(&mut Once(&mut snapshot));
    if all.snapshots == 0 {
        snapshot.single_node = all.single_nodes > 0 && snapshot.nodes.len() == 1;
    }
    for source in Source::ALL {
        let here = match source {
            Source::Workloads => REQUIRED_WORKLOADS
                .iter()
                .all(|kind| all.kinds.contains(kind)),
            Source::KubeletConfigs => !snapshot.kubelet_configs.is_empty(),
            Source::NodeAuthorizer => snapshot.node_authorizer.is_some(),
            Source::NodeRestriction => snapshot.node_restriction.is_some(),
            // The snapshot itself says whether it has one.
            Source::Clock => true,
            _ => all.kinds.iter().any(|kind| source_of(kind) == Some(source)),
        };
        if here {
            snapshot.missing.remove(&source);
        } else if all.snapshots == 0 {
            let reason = format!("is in none of the files; add {}", how_to_get(source));
            snapshot.missing.insert(source, Str::from(reason));
        }
    }
    FromFiles {
        snapshot,
        left_out,
        contradictory_nodes,
    }
}

/// The names of nodes that are there as several objects, of several clusters or times.
fn contradictory(nodes: &[Node]) -> Vec<Str> {
    let mut uids: HashMap<&str, &str> = HashMap::default();
    let mut names = BTreeSet::new();
    for node in nodes {
        let meta = &node.metadata;
        let first = *uids.entry(&meta.name).or_insert(&meta.uid);
        if meta.uid != first {
            names.insert(meta.name.clone());
        }
    }
    names.into_iter().collect()
}

/// Drops objects that a list has already.
struct Once<'a>(&'a mut Snapshot);

impl Visitor for Once<'_> {
    fn visit<T: Object>(&mut self, kind: &'static Kind<T>) {
        kind.change_list(self.0, |list| {
            let hasher = foldhash::fast::RandomState::default();
            let mut seen = HashSet::with_capacity_and_hasher(list.len(), hasher);
            list.retain(|object| {
                let meta = object.metadata();
                let key = (meta.namespace.clone(), meta.name.clone());
                seen.insert(((kind.rank_of)(object), key))
            });
            list.shrink_to_fit();
        });
    }
}

fn how_to_get(source: Source) -> &'static str {
    match source {
        Source::Nodes => "`kubectl get nodes -o json`",
        Source::Leases => "`kubectl get leases -n kube-node-lease -o json`",
        Source::Pods => "`kubectl get pods -A -o json`",
        Source::Budgets => "`kubectl get poddisruptionbudgets -A -o json`",
        Source::Workloads => {
            "`kubectl get \
             deployments,replicasets,statefulsets,daemonsets,jobs,replicationcontrollers -A -o \
             json`"
        }
        Source::KubeletConfigs => {
            "`kubectl get --raw /api/v1/nodes/NODE/proxy/configz` as configz/NODE.json"
        }
        Source::Volumes => "`kubectl get persistentvolumes -o json`",
        Source::VolumeAttachments => "`kubectl get volumeattachments -o json`",
        Source::CsiNodes => "`kubectl get csinodes -o json`",
        Source::SigningRequests => "`kubectl get certificatesigningrequests -o json`",
        Source::ClusterRoles => "`kubectl get clusterroles -o json`",
        Source::ClusterRoleBindings => "`kubectl get clusterrolebindings -o json`",
        Source::Events => "`kubectl get events -A -o json`",
        Source::NodeAuthorizer | Source::Clock => "a snapshot by `kubectl nodelife snapshot`",
        Source::NodeRestriction => "a snapshot by `kubectl nodelife snapshot --probe`",
    }
}
