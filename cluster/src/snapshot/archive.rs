//! Reads the files of a tar archive: bundles of troubleshoot, must-gather and `sos` come so.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::Path;

use flate2::bufread::MultiGzDecoder;

/// Whether the name is that of an archive.
pub(super) fn is_archive(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    [".tar", ".tar.gz", ".tgz"]
        .iter()
        .any(|extension| name.ends_with(extension))
}

/// Passes each regular file of the archive to `take`, in the order of the archive.
pub(super) fn each<E>(
    path: &Path,
    broken: impl Fn(io::Error) -> E,
    mut take: impl FnMut(&Path, &mut dyn Read) -> Result<(), E>,
) -> Result<(), E> {
    let file = BufReader::new(File::open(path).map_err(&broken)?);
    let packed = path.extension().is_some_and(|extension| extension != "tar");
    let input: Box<dyn Read> = if packed {
        Box::new(MultiGzDecoder::new(file))
    } else {
        Box::new(file)
    };
    let mut archive = tar::Archive::new(input);
    for entry in archive.entries().map_err(&broken)? {
        let mut entry = entry.map_err(&broken)?;
        if entry.header().entry_type().is_file() {
            let name = entry.path().map_err(&broken)?.into_owned();
            take(&name, &mut entry)?;
        }
    }
    Ok(())
}
