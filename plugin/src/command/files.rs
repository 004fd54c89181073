//! The words of `-f`: lists, patterns and addresses, as kubectl takes them.

use std::fs;
use std::path::{Path, PathBuf};

use crate::exit::UsageError;

/// The files that the words name: `a,b` are two, and `x/*.json` all that match.
///
/// # Errors
///
/// A word is an address, or a pattern that matches nothing.
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
    if !text.contains(['*', '?', '[']) || path.exists() {
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

/// What is in a folder under a name, or under the names that a pattern matches.
fn step(at: &Path, pattern: &str) -> Vec<PathBuf> {
    if !pattern.contains(['*', '?', '[']) {
        let next = at.join(pattern);
        let is_there = next.exists();
        return is_there.then_some(next).into_iter().collect();
    }
    let folder = if at.as_os_str().is_empty() {
        Path::new(".")
    } else {
        at
    };
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let hidden = |name: &String| name.starts_with('.') && !pattern.starts_with('.');
    let pattern: Vec<char> = pattern.chars().collect();
    let mut names: Vec<String> = names
        .filter(|name| !hidden(name))
        .filter(|name| matches(&pattern, &name.chars().collect::<Vec<_>>()))
        .collect();
    names.sort();
    names.into_iter().map(|name| at.join(name)).collect()
}

/// Go's `path.Match` on one name: `*`, `?` and classes.
fn matches(pattern: &[char], name: &[char]) -> bool {
    match pattern.split_first() {
        None => name.is_empty(),
        Some(('*', rest)) => (0..=name.len()).any(|at| {
            let tail = name.get(at..).unwrap_or_default();
            matches(rest, tail)
        }),
        Some(('[', rest)) => {
            let (Some((c, tail)), Some(end)) =
                (name.split_first(), rest.iter().position(|c| *c == ']'))
            else {
                return false;
            };
            let (class, after) = rest.split_at(end);
            is_in(class, *c) && matches(after.get(1..).unwrap_or_default(), tail)
        }
        Some((wanted, rest)) => name
            .split_first()
            .is_some_and(|(c, tail)| (wanted == c || *wanted == '?') && matches(rest, tail)),
    }
}

/// Whether a class, `a-z` or `^0-9`, has the character.
fn is_in(class: &[char], c: char) -> bool {
    let (negated, class) = match class.split_first() {
        Some(('^', rest)) => (true, rest),
        _ => (false, class),
    };
    let ranges = class.windows(3).any(|range| match range {
        [from, '-', to] => (*from..=*to).contains(&c),
        _ => false,
    });
    negated != (ranges || class.contains(&c))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_as_in_go() {
        for (pattern, name, expected) in [
            ("*.json", "a.json", true),
            ("*.json", "a.yaml", false),
            ("a?c", "abc", true),
            ("a?c", "ac", false),
            ("[a-c]1", "b1", true),
            ("[^a-c]1", "b1", false),
            ("[ab", "a", false),
            ("*a*b*", "xxaxxbxx", true),
        ] {
            let chars = |text: &str| text.chars().collect::<Vec<_>>();
            let found = matches(&chars(pattern), &chars(name));
            assert_eq!(found, expected, "{pattern} {name}");
        }
    }
}
