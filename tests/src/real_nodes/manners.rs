//! The program `manners` and the images that it is in.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::image::Image;
use crate::program;

/// The image of a sandbox and of the fixtures' containers: it ends at once on SIGTERM.
pub const PAUSE: &str = crate::fixture::IMAGE;

/// The image of `manners`, for containers that choose their manners by their arguments:
/// `run --stop 4 --serve 8080`.
pub const MANNERS: &str = "registry.test/manners:1";

/// Builds `manners`, once for a version of its source, and gives its path.
pub(super) fn build() -> Result<PathBuf> {
    const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/real-nodes/manners.rs");
    program::compile("manners", Path::new(SOURCE), |unfinished| {
        let rustc = Path::new(env!("CARGO")).with_file_name("rustc");
        let status = Command::new(rustc)
            .args(["--edition=2024", "--crate-name=manners", "-O"])
            .args(["-Cpanic=abort", "-Cstrip=symbols"])
            // Nothing else is in the image.
            .args(["-Ctarget-feature=+crt-static", "-o"])
            .args([unfinished, Path::new(SOURCE)])
            .status()
            .context("failed to run rustc")?;
        if !status.success() {
            bail!("failed to build {SOURCE}: rustc ended with {status}");
        }
        Ok(())
    })
}

/// Writes the images that every node has into `folder`.
pub(super) fn write_images(program: &Path, folder: &Path) -> Result<Vec<PathBuf>> {
    fs::create_dir_all(folder)?;
    let image = |file: &str, name: &str, arguments: &[&str]| -> Result<PathBuf> {
        let path = folder.join(file);
        Image {
            names: &[name],
            program,
            libraries: &[],
            arguments,
            user: "65532:65532",
        }
        .write(&path)?;
        Ok(path)
    };
    Ok(vec![
        image("pause.tar", PAUSE, &["pause"])?,
        image("manners.tar", MANNERS, &[])?,
    ])
}
