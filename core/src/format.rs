//! Formatting of durations, counts, lists of names and missing nodes for people.

use std::fmt::Display;

use crate::object::Node;

/// Seconds as `45s`, `12m`, `3h20m` or `9d`.
pub fn duration(seconds: i64) -> String {
    let sign = if seconds < 0 { "-" } else { "" };
    let s = seconds.unsigned_abs();
    let (days, hours, minutes) = (s / 86_400, s / 3600 % 24, s / 60 % 60);
    let text = match (days, hours, minutes) {
        (0, 0, 0) => format!("{s}s"),
        (0, 0, _) if s.is_multiple_of(60) || s >= 600 => format!("{minutes}m"),
        (0, 0, _) => format!("{minutes}m{}s", s % 60),
        (0, _, 0) => format!("{hours}h"),
        (0, _, _) => format!("{hours}h{minutes}m"),
        (_, 0, _) => format!("{days}d"),
        (_, _, _) => format!("{days}d{hours}h"),
    };
    format!("{sign}{text}")
}

/// The first few names, and how many more there are.
pub fn list<T: Display>(names: impl IntoIterator<Item = T>) -> String {
    const SHOWN: usize = 5;
    first(SHOWN, names)
}

pub fn first<T: Display>(shown: usize, names: impl IntoIterator<Item = T>) -> String {
    let mut names = names.into_iter().fuse();
    let first = join(names.by_ref().take(shown), ", ");
    match names.count() {
        0 => first,
        more => format!("{first} and {more} more"),
    }
}

/// How many of `all` to list, about `most`: a single one more takes no more room than its count.
pub fn listed(all: usize, most: usize) -> usize {
    if all <= most + 1 { all } else { most }
}

pub fn join<T: Display>(items: impl IntoIterator<Item = T>, separator: &str) -> String {
    let items: Vec<String> = items.into_iter().map(|item| item.to_string()).collect();
    items.join(separator)
}

/// The API server's own words for a node that is not there, and the one that may be meant: the only
/// one that begins like that.
pub fn node_not_found(name: &str, place: &str, nodes: &[Node]) -> String {
    let names = nodes.iter().map(|node| node.metadata.name.as_str());
    let mut meant = names.filter(|known| !name.is_empty() && known.starts_with(name));
    let hint = match (meant.next(), meant.next()) {
        (Some(only), None) => format!("; did you mean {only}?"),
        _ => String::new(),
    };
    format!("nodes \"{name}\" not found{place}{hint}")
}

/// The first line of a parser's error, without the drawing of the place below it.
pub fn parse_error(text: &str) -> String {
    let first = text.lines().next().unwrap_or_default().trim();
    let first = first.strip_prefix("error: ").unwrap_or(first);
    // Some parsers draw on the same line.
    let words = first.split(" --> ").next().unwrap_or(first).trim_end();
    words.replace(": error: ", ": ")
}

/// As much of a text as fits into this many bytes.
pub fn cut(text: &str, most: usize) -> &str {
    text.get(..text.floor_char_boundary(most)).unwrap_or(text)
}

/// `1 pod`, `2 pods`.
pub fn count(number: usize, noun: &str) -> String {
    format!("{number} {}", plural(number, noun))
}

/// `pod` for one, else `pods`.
pub fn plural(number: impl TryInto<i64>, noun: &str) -> String {
    match number.try_into() {
        Ok(1) => noun.to_owned(),
        _ => format!("{noun}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_is_cut_between_characters() {
        assert_eq!(cut("aé", 2), "a");
        assert_eq!(cut("aé", 3), "aé");
        assert_eq!(cut("aé", 9), "aé");
    }

    #[test]
    fn durations_are_short() {
        for (seconds, text) in [
            (0, "0s"),
            (59, "59s"),
            (90, "1m30s"),
            (600, "10m"),
            (3599, "59m"),
            (7200, "2h"),
            (12_000, "3h20m"),
            (777_600, "9d"),
            (-30, "-30s"),
        ] {
            assert_eq!(duration(seconds), text);
        }
    }
}
