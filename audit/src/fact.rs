//! [`Statement`]: what a finding says, as a template with named facts.
//!
//! The facts are the finding's evidence, so message and evidence cannot differ. Findings of one rule
//! and template are alike, whatever their amounts and names.

use std::borrow::Cow;
use std::collections::BTreeMap;

use foldhash::HashSet;
use nodelife_core::format;
use nodelife_core::quantity::Quantity;
use nodelife_core::text::Str;
use serde::{Serialize, Serializer};
use serde_json::Value;

/// A template, `{pods} on {node}`, and the facts that it names.
#[derive(Clone, Debug, PartialEq)]
pub struct Statement {
    pub(super) template: Cow<'static, str>,
    pub(super) facts: BTreeMap<&'static str, Fact>,
}

impl From<&'static str> for Statement {
    fn from(template: &'static str) -> Self {
        Self {
            template: template.into(),
            facts: BTreeMap::new(),
        }
    }
}

impl Statement {
    /// Adds a fact. One that the template does not name is evidence alone.
    #[must_use]
    pub fn with(mut self, key: &'static str, fact: impl Into<Fact>) -> Self {
        self.facts.insert(key, fact.into());
        self
    }

    #[must_use]
    pub fn and(mut self, more: &'static str) -> Self {
        self.template.to_mut().push_str(more);
        self
    }

    pub fn text(&self) -> String {
        render(&self.template, |key| match self.facts.get(key) {
            Some(fact) => fact.text(),
            None => format!("{{{key}}}").into(),
        })
    }
}

pub(super) fn render<'t>(template: &str, text: impl Fn(&str) -> Cow<'t, str>) -> String {
    let mut parts = template.split('{');
    let mut rendered = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (key, rest) = part.split_once('}').unwrap_or((part, ""));
        rendered.push_str(&text(key));
        rendered.push_str(rest);
    }
    rendered
}

pub(super) fn keys(template: &str) -> impl Iterator<Item = &str> {
    let parts = template.split('{').skip(1);
    parts.filter_map(|part| part.split_once('}').map(|(key, _)| key))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FactKind {
    /// Findings with different words are not alike.
    Word,
    /// A text of another program. Only its words without digits have to be alike.
    Quote,
    /// A number with its unit: several are told as a range.
    Amount,
    /// Names of objects: the first of several are told.
    Name,
    Identity,
}

/// A named value of a finding: for machines as JSON, for people as text.
#[derive(Clone, Debug, PartialEq)]
pub struct Fact {
    value: Value,
    /// Absent where it is the value's own.
    text: Option<Box<str>>,
    pub(super) kind: FactKind,
}

impl Fact {
    fn new(value: impl Into<Value>, kind: FactKind) -> Self {
        Self {
            value: value.into(),
            text: None,
            kind,
        }
    }

    /// A duration, told as `3h20m`.
    pub fn seconds(seconds: i64) -> Self {
        // Clocks differ by some seconds.
        let seconds = seconds.max(0);
        Self::from(seconds).shown(format::duration(seconds))
    }

    /// A number of something, told as `1 pod` or `3 pods`.
    pub fn count(number: usize, noun: &str) -> Self {
        Self::from(number).shown(format::count(number, noun))
    }

    /// A whole percentage of something, told as `85 %`.
    #[expect(clippy::cast_possible_truncation, reason = "told as a whole number")]
    pub fn percent(percent: f64) -> Self {
        let percent = percent.round() as i64;
        Self::from(percent).shown(format!("{percent} %"))
    }

    pub fn name(name: &str) -> Self {
        Self::new(name, FactKind::Name)
    }

    /// Names of objects. The message tells the first few.
    pub fn names<'a>(names: impl IntoIterator<Item = &'a str>) -> Self {
        let names: Vec<&str> = names.into_iter().collect();
        let text = format::list(names.iter().copied());
        Self::new(names, FactKind::Name).shown(text)
    }

    pub fn quote(text: &str) -> Self {
        Self::new(text, FactKind::Quote)
    }

    pub fn identity(text: &str) -> Self {
        Self::new(text, FactKind::Identity)
    }

    #[must_use]
    pub fn shown(mut self, text: impl Into<Box<str>>) -> Self {
        self.text = Some(text.into());
        self
    }

    #[must_use]
    pub fn valued(self, value: impl Into<Value>) -> Self {
        let text = self.text().as_ref().into();
        Self {
            value: value.into(),
            text: Some(text),
            kind: self.kind,
        }
    }

    /// For machines.
    pub fn value(&self) -> &Value {
        &self.value
    }

    /// For people.
    pub fn text(&self) -> Cow<'_, str> {
        match (&self.text, &self.value) {
            (Some(text), _) => (&**text).into(),
            (None, Value::String(text)) => text.into(),
            (None, Value::Null) => "".into(),
            (None, other) => other.to_string().into(),
        }
    }

    /// The text, as far as findings that are alike have it in common.
    pub(super) fn pattern(&self) -> Option<Cow<'_, str>> {
        match self.kind {
            FactKind::Word => Some(self.text()),
            FactKind::Quote => {
                let text = self.text();
                let has_digit = |word: &str| word.contains(|c: char| c.is_ascii_digit());
                let words = text.split(' ').filter(|word| !has_digit(word));
                Some(words.collect::<Vec<_>>().join(" ").into())
            }
            FactKind::Amount | FactKind::Name | FactKind::Identity => None,
        }
    }

    fn names_in(&self) -> Vec<&str> {
        match &self.value {
            Value::Array(names) => names.iter().filter_map(Value::as_str).collect(),
            Value::String(name) => vec![name],
            _ => Vec::new(),
        }
    }

    fn measure(&self) -> f64 {
        let quantity = |text: &str| Quantity::parse(text).ok();
        let of_text = || quantity(self.value.as_str()?).map(Quantity::approximate);
        self.value.as_f64().or_else(of_text).unwrap_or_default()
    }
}

pub(super) fn together<'a>(key: &str, facts: &[&'a Fact]) -> Cow<'a, str> {
    let Some(first) = facts.first() else {
        return "".into();
    };
    if all_equal(facts) {
        return first.text();
    }
    match first.kind {
        FactKind::Word => first.text(),
        FactKind::Quote => format!("{} (or similar)", first.text()).into(),
        FactKind::Identity => key.to_uppercase().into(),
        FactKind::Name => some(facts).into(),
        FactKind::Amount => range(facts).into(),
    }
}

pub(super) fn all_equal(facts: &[&Fact]) -> bool {
    facts.windows(2).all(|pair| pair.first() == pair.last())
}

/// The first of different names.
fn some(facts: &[&Fact]) -> String {
    const SHOWN: usize = 2;
    let mut seen = HashSet::default();
    let names = facts.iter().flat_map(|fact| fact.names_in());
    let names: Vec<&str> = names.filter(|name| seen.insert(*name)).collect();
    format::first(SHOWN, names)
}

/// `900 to 1100Mi`: the least and the greatest.
fn range(facts: &[&Fact]) -> String {
    let mut facts = facts.to_vec();
    facts.sort_by(|a, b| a.measure().total_cmp(&b.measure()));
    let [least, greatest] =
        [facts.first(), facts.last()].map(|fact| fact.map(|fact| fact.text()).unwrap_or_default());
    match (unit(&least), unit(&greatest)) {
        _ if least == greatest => greatest.to_string(),
        (Some((number, left)), Some((_, right)))
            if left == right || left.starts_with(' ') && right.starts_with(' ') =>
        {
            format!("{number} to {greatest}")
        }
        _ => format!("{least} to {greatest}"),
    }
}

fn unit(text: &str) -> Option<(&str, &str)> {
    let at = text.find(|c: char| c.is_alphabetic() || c == ' ')?;
    let (number, unit) = text.split_at_checked(at)?;
    (!unit.contains(|c: char| c.is_ascii_digit())).then_some((number, unit))
}

impl Serialize for Fact {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.value.serialize(serializer)
    }
}

macro_rules! facts {
    ($($kind:ident: $($type:ty),*;)*) => {$($(
        impl From<$type> for Fact {
            fn from(value: $type) -> Self {
                Self::new(value, FactKind::$kind)
            }
        }
    )*)*};
}

facts! {
    Word: &str, String, serde_json::Map<String, Value>;
    Amount: i32, i64, u32, usize, f64;
    Name: Vec<String>, Vec<&str>;
}

impl From<&Str> for Fact {
    fn from(text: &Str) -> Self {
        Self::from(text.as_str())
    }
}

impl From<Quantity> for Fact {
    fn from(quantity: Quantity) -> Self {
        Self::new(quantity.to_string(), FactKind::Amount)
    }
}

impl<T: Into<Self>> From<Option<T>> for Fact {
    fn from(fact: Option<T>) -> Self {
        fact.map_or_else(|| Self::new(Value::Null, FactKind::Word), Into::into)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(facts: impl IntoIterator<Item = Fact>) -> String {
        let facts: Vec<Fact> = facts.into_iter().collect();
        together("name", &facts.iter().collect::<Vec<_>>()).into_owned()
    }

    #[test]
    fn message_and_evidence_are_the_same_facts() {
        let statement = Statement::from("{late} past its grace period")
            .with("late", Fact::seconds(12_000))
            .and(", held by {finalizers}")
            .with("finalizers", Fact::names(["a", "b"]))
            .with("uid", "u");
        assert_eq!(
            statement.text(),
            "3h20m past its grace period, held by a, b"
        );
        assert_eq!(
            serde_json::to_string(&statement.facts).unwrap(),
            r#"{"finalizers":["a","b"],"late":12000,"uid":"u"}"#
        );
        assert_eq!(Statement::from("no {such}").text(), "no {such}");
    }

    #[test]
    fn amounts_are_told_as_ranges() {
        let quantities = |texts: &[&str]| {
            told(
                texts
                    .iter()
                    .map(|text| Quantity::parse(text).unwrap().into()),
            )
        };
        assert_eq!(quantities(&["1100Mi", "900Mi", "1Gi"]), "900 to 1100Mi");
        assert_eq!(quantities(&["2Gi", "900Mi"]), "900Mi to 2Gi");
        assert_eq!(quantities(&["4", "3920m"]), "3920m to 4");
        assert_eq!(quantities(&["5", "5"]), "5");
        assert_eq!(told([10, 9].map(Fact::from)), "9 to 10");
        assert_eq!(told([7200, 59, 600].map(Fact::seconds)), "59s to 2h");
        assert_eq!(told([12_000, 7_800].map(Fact::seconds)), "2h10m to 3h20m");
        assert_eq!(told([1, 12].map(|n| Fact::count(n, "pod"))), "1 to 12 pods");
        assert_eq!(told([90.4, 116.0].map(Fact::percent)), "90 to 116 %");
    }

    #[test]
    fn other_facts_are_told_by_their_kind() {
        assert_eq!(
            told(["a", "b", "a", "c"].map(Fact::name)),
            "a, b and 1 more"
        );
        let lists = [["a", "b"], ["c", "d"]].map(Fact::names);
        assert_eq!(told(lists), "a, b and 2 more");
        assert_eq!(told(["u1", "u2"].map(Fact::identity)), "NAME");
        let quotes = ["seen 3m12s ago", "seen 5s ago"].map(Fact::quote);
        assert_eq!(quotes[0].pattern(), quotes[1].pattern());
        assert_eq!(told(quotes), "seen 3m12s ago (or similar)");
        assert_ne!(
            Fact::quote("no network").pattern(),
            Fact::quote("no disk").pattern()
        );
        assert_ne!(Fact::from("cpu").pattern(), Fact::from("memory").pattern());
        assert_eq!(Fact::from(1).pattern(), Fact::from(2).pattern());
    }
}
