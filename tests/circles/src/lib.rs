//! Finds source files of a crate that use each other in a circle.
//!
//! An arrow leads from a file to each file that defines something it names: by `use`, by a path, or
//! through a glob. A re-export counts as what it exports, and `mod child;` is no arrow. Tests are not
//! looked at, nor are method calls: their types would have to be known.
//!
//! `cargo modules dependencies --acyclic` does not see two files that import each other's types:
//! an edge to a type is none to its module (regexident/cargo-modules#185).

mod graph;
mod module;
mod scan;
#[cfg(test)]
mod tests;

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

use graph::{Arrow, circles};
use module::Crate;

/// What was found, as text, and how many circles that is.
#[derive(Debug)]
pub struct CircleReport {
    pub text: String,
    pub circles: usize,
}

/// Looks at all libraries and programs below a folder.
pub fn check(root: &Path) -> Result<CircleReport> {
    let mut text = String::new();
    let (mut files, mut found) = (0, 0);
    let targets = targets(root)?;
    for target in &targets {
        let parsed = Crate::read(target)?;
        files += parsed.files.len();
        let name = |file: usize| -> String {
            let path = parsed.files.get(file).map_or(root, PathBuf::as_path);
            let path = path.strip_prefix(root).unwrap_or(path);
            path.display().to_string()
        };
        for circle in circles(&parsed.arrows()) {
            found += 1;
            let count = circle.files.len();
            writeln!(text, "{count} files use each other in a circle:")?;
            let same = |a: &Arrow, b: &Arrow| (a.from, a.to) == (b.from, b.to);
            for arrows in circle.arrows.chunk_by(same) {
                let Some(Arrow { from, line, to, .. }) = arrows.first() else {
                    continue;
                };
                let mut items: Vec<&str> = arrows.iter().map(|a| a.item.as_str()).collect();
                items.sort_unstable();
                items.dedup();
                let (from, to, items) = (name(*from), name(*to), items.join(", "));
                writeln!(text, "  {from}:{line} -> {to}: {items}")?;
            }
        }
    }
    let targets = targets.len();
    writeln!(
        text,
        "{files} files of {targets} libraries and programs, {found} circles"
    )?;
    Ok(CircleReport {
        text,
        circles: found,
    })
}

/// The root files of all libraries and programs below a folder.
fn targets(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut targets = Vec::new();
    if folder.join("Cargo.toml").exists() {
        let roots = ["src/lib.rs", "src/main.rs"].map(|root| folder.join(root));
        targets.extend(roots.into_iter().filter(|root| root.exists()));
        let programs = folder.join("src/bin");
        if programs.is_dir() {
            targets.extend(
                entries(&programs)?
                    .into_iter()
                    .filter(|path| path.is_file()),
            );
        }
    }
    for path in entries(folder)? {
        let name = path
            .file_name()
            .and_then(|name| name.to_str())
            .unwrap_or(".");
        if path.is_dir() && name != "target" && name != "src" && !name.starts_with('.') {
            targets.extend(self::targets(&path)?);
        }
    }
    Ok(targets)
}

fn entries(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder).with_context(|| folder.display().to_string())?;
    let paths: io::Result<Vec<_>> = entries.map(|entry| Ok(entry?.path())).collect();
    let mut paths = paths?;
    paths.sort();
    Ok(paths)
}
