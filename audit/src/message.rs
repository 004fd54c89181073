//! The parts of a finding's message: text, and the names and numbers that differ from object to
//! object.

use std::borrow::Cow;
use std::net::{Ipv4Addr, Ipv6Addr};

use jiff::Timestamp;
use jiff::civil::Date;

use super::finding::Subject;
use nodelife_core::format;
use nodelife_core::quantity::Quantity;

/// What a part is; messages are alike if all parts but the text may differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Kind {
    Text,
    /// The name of the finding's subject.
    Name,
    /// The namespace of the finding's subject.
    Namespace,
    /// Another node, or an IP address.
    Other,
    /// A UID of an object.
    Uid,
    /// A time or a date.
    Time,
    /// A number with its unit, or a duration.
    Number,
    /// What a number counts: in the singular after 1.
    Noun,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Part<'a> {
    pub(super) kind: Kind,
    pub(super) text: &'a str,
}

impl Kind {
    /// Whether a value of it only tells one object from another.
    pub(super) fn is_identity(self) -> bool {
        matches!(self, Self::Name | Self::Namespace | Self::Uid)
    }
}

impl<'a> Part<'a> {
    /// The part without what may differ.
    pub(super) fn pattern(self) -> (Kind, &'a str) {
        let fixed = match self.kind {
            Kind::Text => self.text,
            Kind::Noun => self.text.strip_suffix('s').unwrap_or(self.text),
            _ => "",
        };
        (self.kind, fixed)
    }
}

/// Takes a message apart.
pub(super) fn parts<'a>(
    message: &'a str,
    subject: &Subject,
    is_node: impl Fn(&str) -> bool,
) -> Vec<Part<'a>> {
    let mut parts: Vec<Part<'a>> = Vec::new();
    let (mut text_from, mut at) = (0, 0);
    while let Some(rest) = message.get(at..).filter(|rest| !rest.is_empty()) {
        let word = word(rest);
        if word.is_empty() {
            at += rest.chars().next().map_or(1, char::len_utf8);
            continue;
        }
        let between = message.get(text_from..at).unwrap_or_default();
        let last = parts.last().map(|part| part.kind);
        let slot = if last == Some(Kind::Number) && between == " " && is_noun(word) {
            Some(Part {
                kind: Kind::Noun,
                text: word,
            })
        } else {
            let is_uid = message.get(..at).is_some_and(|s| s.ends_with(" UID "));
            let uid = is_uid.then_some(Part {
                kind: Kind::Uid,
                text: word,
            });
            uid.or_else(|| slot(rest, word, subject, &is_node))
        };
        let Some(slot) = slot else {
            at += word.len();
            continue;
        };
        if !between.is_empty() {
            let kind = Kind::Text;
            parts.push(Part {
                kind,
                text: between,
            });
        }
        parts.push(slot);
        at += slot.text.len();
        text_from = at;
    }
    if let Some(text) = message.get(text_from..).filter(|text| !text.is_empty()) {
        let kind = Kind::Text;
        parts.push(Part { kind, text });
    }
    parts
}

/// The name or number at the beginning of a text; a dot behind it ends a sentence.
fn word(text: &str) -> &str {
    let end = text.find(|c: char| !c.is_alphanumeric() && !matches!(c, '.' | '_' | '-'));
    let word = text.get(..end.unwrap_or(text.len())).unwrap_or_default();
    word.trim_end_matches(['.', '-'])
}

fn is_noun(word: &str) -> bool {
    word.chars().all(|c| c.is_ascii_lowercase())
}

/// The name or number that `rest`, and so its first word, begins with.
fn slot<'a>(
    rest: &'a str,
    word: &'a str,
    subject: &Subject,
    is_node: impl Fn(&str) -> bool,
) -> Option<Part<'a>> {
    // Times and IPv6 addresses contain colons.
    let end =
        rest.find(|c: char| !c.is_ascii_alphanumeric() && !matches!(c, ':' | '.' | '-' | '+'));
    let long = rest.get(..end.unwrap_or(rest.len())).unwrap_or_default();
    let long = long.trim_end_matches([':', '.', '-']);
    let part = |kind, text| Some(Part { kind, text });
    if long.parse::<Timestamp>().is_ok() {
        return part(Kind::Time, long);
    }
    if long.matches(':').count() > 1 && long.parse::<Ipv6Addr>().is_ok() {
        return part(Kind::Other, long);
    }
    if word == subject.name.as_str() {
        return part(Kind::Name, word);
    }
    let before_slash = rest.get(word.len()..).is_some_and(|s| s.starts_with('/'));
    if before_slash && subject.namespace.as_deref() == Some(word) {
        return part(Kind::Namespace, word);
    }
    if is_node(word) || word.parse::<Ipv4Addr>().is_ok() {
        return part(Kind::Other, word);
    }
    if !word.starts_with(|c: char| c.is_ascii_digit() || c == '-') {
        return None;
    }
    if word.parse::<Date>().is_ok() {
        return part(Kind::Time, word);
    }
    let is_number = Quantity::parse(word).is_ok() || seconds(word).is_some();
    if is_number {
        part(Kind::Number, word)
    } else {
        None
    }
}

/// Seconds of a duration as [`format::duration`] writes it.
fn seconds(text: &str) -> Option<f64> {
    let (sign, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (-1.0, rest),
        None => (1.0, text),
    };
    let mut sum = 0.0;
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let number: f64 = rest.get(..end)?.parse().ok()?;
        let mut unit = rest.get(end..)?.chars();
        sum += number
            * match unit.next()? {
                's' => 1.0,
                'm' => 60.0,
                'h' => 3600.0,
                'd' => 86_400.0,
                _ => return None,
            };
        rest = unit.as_str();
    }
    (!text.is_empty()).then_some(sign * sum)
}

/// How the values of a part are told together.
pub(super) fn together<'a>(kind: Kind, values: &[&'a str]) -> Cow<'a, str> {
    let first = values.first().copied().unwrap_or_default();
    if values.iter().all(|value| *value == first) {
        return first.into();
    }
    match kind {
        Kind::Text => first.into(),
        Kind::Noun => longest(values).into(),
        Kind::Name => "<name>".into(),
        Kind::Namespace => "<namespace>".into(),
        Kind::Uid => "<uid>".into(),
        Kind::Other => names(values).into(),
        Kind::Time => range(values, |value| Some(value.to_owned())).into(),
        Kind::Number => {
            let lasts = values.iter().any(|value| Quantity::parse(value).is_err());
            let range = if lasts {
                range(values, seconds)
            } else {
                range(values, |value| Quantity::parse(value).ok())
            };
            range.into()
        }
    }
}

fn longest<'a>(values: &[&'a str]) -> &'a str {
    let longest = values.iter().max_by_key(|value| value.len());
    longest.copied().unwrap_or_default()
}

fn names(values: &[&str]) -> String {
    const SHOWN: usize = 2;
    let mut names: Vec<&str> = Vec::new();
    let mut seen = foldhash::HashSet::default();
    for value in values {
        if seen.insert(*value) {
            names.push(value);
        }
    }
    format::first(SHOWN, names)
}

/// `900 to 1100Mi`: the least and the greatest value; the names of all if they cannot be compared.
fn range<T: PartialOrd>(values: &[&str], measure: impl Fn(&str) -> Option<T>) -> String {
    let measured: Option<Vec<(T, &str)>> = values
        .iter()
        .map(|value| Some((measure(value)?, *value)))
        .collect();
    let Some(measured) = measured else {
        return names(values);
    };
    let pick = |better: fn(&T, &T) -> bool| {
        let mut best: Option<&(T, &str)> = None;
        for one in &measured {
            if best.is_none_or(|best| better(&one.0, &best.0)) {
                best = Some(one);
            }
        }
        best.map_or("", |(_, text)| *text)
    };
    let (least, greatest) = (pick(|a, b| a < b), pick(|a, b| a > b));
    match (unit(least), unit(greatest)) {
        (Some((number, left)), Some((_, right))) if left == right => {
            format!("{number} to {greatest}")
        }
        _ => format!("{least} to {greatest}"),
    }
}

/// A number and its unit, if that is all.
fn unit(value: &str) -> Option<(&str, &str)> {
    let at = value.find(|c: char| c.is_ascii_alphabetic())?;
    let (number, unit) = value.split_at_checked(at)?;
    let alone = unit.chars().all(|c| c.is_ascii_alphabetic());
    alone.then_some((number, unit))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subject(namespace: Option<&str>, name: &str) -> Subject {
        Subject {
            kind: "Node".into(),
            name: name.into(),
            namespace: namespace.map(Into::into),
        }
    }

    fn slots(message: &str) -> Vec<(Kind, &str)> {
        let subject = subject(Some("shop"), "web-1");
        let parts = parts(message, &subject, |name| name == "ip-10-0-1-2.internal");
        let all: String = parts.iter().map(|part| part.text).collect();
        assert_eq!(all, message);
        let parts = parts.into_iter().filter(|part| part.kind != Kind::Text);
        parts.map(|part| (part.kind, part.text)).collect()
    }

    #[test]
    fn names_and_numbers_differ_from_object_to_object() {
        use Kind::{Name, Namespace, Noun, Number, Other, Time, Uid};
        for (message, expected) in [
            (
                "requests 4550m − Allocatable 3920m",
                vec![(Number, "4550m"), (Number, "3920m")],
            ),
            (
                "3h20m old, 85%",
                vec![(Number, "3h20m"), (Noun, "old"), (Number, "85")],
            ),
            (
                "1 pod; 12 pods.",
                vec![(Number, "1"), (Noun, "pod"), (Number, "12"), (Noun, "pods")],
            ),
            (
                "shop/web-1: shop 2.",
                vec![(Namespace, "shop"), (Name, "web-1"), (Number, "2")],
            ),
            ("system:node:web-1", vec![(Name, "web-1")]),
            (
                "on ip-10-0-1-2.internal.",
                vec![(Other, "ip-10-0-1-2.internal")],
            ),
            (
                "10.0.1.2, fd00::1:2 and",
                vec![(Other, "10.0.1.2"), (Other, "fd00::1:2")],
            ),
            (
                "since 2026-06-28, at 2026-06-28T10:00:00Z:",
                vec![(Time, "2026-06-28"), (Time, "2026-06-28T10:00:00Z")],
            ),
            (
                "a Node with UID 76bc64ab-1fe8, system UUID 76bc64ab-1fe8",
                vec![(Uid, "76bc64ab-1fe8")],
            ),
            // Versions, hashes and other names are text.
            (
                "kubelet 1.33.1, v1.33, web-10, a1, 4ee52x, --max 5",
                vec![(Number, "5")],
            ),
        ] {
            assert_eq!(slots(message), expected, "{message}");
        }
    }

    #[test]
    fn numbers_are_told_as_ranges() {
        for (values, expected) in [
            (vec!["1100Mi", "900Mi", "1Gi"], "900 to 1100Mi"),
            (vec!["2Gi", "900Mi"], "900Mi to 2Gi"),
            (vec!["4", "3920m"], "3920m to 4"),
            (vec!["2h", "59s", "10m"], "59s to 2h"),
            (vec!["3h20m", "2h10m"], "2h10m to 3h20m"),
            (vec!["5", "5"], "5"),
            (vec!["10", "9"], "9 to 10"),
        ] {
            assert_eq!(together(Kind::Number, &values), expected);
        }
        assert_eq!(together(Kind::Noun, &["pod", "pods"]), "pods");
        assert_eq!(
            together(Kind::Other, &["a", "b", "a", "c"]),
            "a, b and 1 more"
        );
        assert_eq!(
            together(Kind::Time, &["2026-06-28", "2026-01-02"]),
            "2026-01-02 to 2026-06-28"
        );
    }
}
