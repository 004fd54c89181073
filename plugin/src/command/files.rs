//! The words of `-f`: lists, patterns and addresses, as kubectl takes them.

use std::fs;
use std::path::{Path, PathBuf};

use nodelife_core::glob::Glob;

use crate::exit::UsageError;

/// The files that the words name: `a,b` are two, and `x/*.json` all that match.
pub(crate) fn expand(words: &[PathBuf]) -> Result<Vec<PathBuf>, UsageError> {
    let mut files = Vec::new();
    for word in words {
        let Some(text) = word.to_str().filter(|_| !word.exists()) else {
            files.push(word.clone());
            continue;
        };
        // An address may contain commas.
        let parts = if is_url(text) {
            vec![text]
        } else {
            text.split(',').collect()
        };
        for part in parts {
            files.extend(one(part)?);
        }
    }
    Ok(files)
}

fn is_url(text: &str) -> bool {
    text.starts_with("http://") || text.starts_with("https://")
}

fn one(text: &str) -> Result<Vec<PathBuf>, UsageError> {
    if is_url(text) {
        return Err(UsageError(format!(
            "-f {text}: URLs are not fetched; use curl -fsSL '{text}' | kubectl nodelife … -f -"
        )));
    }
    let path = PathBuf::from(text);
    if !Glob::is_pattern(text) || path.exists() {
        return Ok(vec![path]);
    }
    let mut found = vec![PathBuf::new()];
    for component in path.components() {
        let pattern = component.as_os_str().to_string_lossy();
        found = found.iter().flat_map(|at| step(at, &pattern)).collect();
    }
    if found.is_empty() {
        return Err(UsageError(format!("-f {text}: no file matches")));
    }
    Ok(found)
}

/// The files of a folder under a name, or under the names that a pattern matches.
fn step(at: &Path, pattern: &str) -> Vec<PathBuf> {
    if !Glob::is_pattern(pattern) {
        let next = at.join(pattern);
        let is_there = next.exists();
        return is_there.then_some(next).into_iter().collect();
    }
    let is_here = at.as_os_str().is_empty();
    let folder = if is_here { Path::new(".") } else { at };
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let hidden = |name: &String| name.starts_with('.') && !pattern.starts_with('.');
    let glob = Glob::new(pattern);
    let names = names.filter(|name| !hidden(name) && glob.matches(name));
    let mut names: Vec<String> = names.collect();
    names.sort();
    names.into_iter().map(|name| at.join(name)).collect()
}
