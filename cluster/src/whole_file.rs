//! Writes a file so that it is there whole or not at all.

use std::fs::File;
use std::io::{self, BufWriter, Write as _};
use std::path::{Path, PathBuf};

use thiserror::Error;

/// Why a file was not written.
#[derive(Debug, Error)]
#[error("failed to write {}: {source}", .path.display())]
pub struct WriteError {
    pub path: PathBuf,
    pub source: io::Error,
}

/// Has `content` write the file beside its place, and moves it there.
///
/// # Errors
///
/// The file cannot be written; an older one of that name is still there then.
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
        WriteError {
            path: path.to_owned(),
            source,
        }
    })
}
