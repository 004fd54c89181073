//! The text of a configuration file: as people write it, and as it breaks.

use std::fmt;

use nodelife_audit::kubelet_start::Target;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::Value;

use super::case::configuration;

#[derive(Clone, Debug)]
pub(crate) struct Text(pub(crate) String);

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.0)
    }
}

#[derive(Clone, Copy, Debug)]
enum Form {
    Json,
    Yaml,
    Flow,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Fault {
    None,
    /// A field of another configuration is there, too.
    Twice,
    Cut,
    /// Something in front, or behind.
    Around(&'static str, &'static str),
}

pub(crate) fn text(target: Target) -> impl Strategy<Value = Text> {
    let form = select(vec![Form::Json, Form::Yaml, Form::Yaml, Form::Flow]);
    let around = select(vec![
        ("", "\n---\nkind: Other\n"),
        ("---\n", ""),
        ("# comment\n\n", "\n...\n"),
        ("\u{feff}", ""),
        ("- ", ""),
        (" \n", "\n\n"),
        ("", "}"),
        ("", "\n\tx: 1\n"),
        ("", "\nx: &a [1]\ny: *a\n"),
        ("", "\nx: *unknown\n"),
        ("", "\nmaxPods: !!str 5\n"),
        ("%YAML 1.1\n---\n", ""),
    ]);
    let fault = prop_oneof![
        8 => Just(Fault::None),
        4 => Just(Fault::Twice),
        1 => Just(Fault::Cut),
        2 => around.prop_map(|(front, behind)| Fault::Around(front, behind)),
    ];
    let spelling = prop::collection::vec(0_usize..60, 12);
    let both = (configuration(target), configuration(target));
    (both, form, fault, spelling).prop_map(|((one, other), form, fault, spelling)| {
        let mut spelling = Spelling(spelling, 0);
        let mut pairs = pairs(one);
        if fault == Fault::Twice {
            pairs.extend(other.as_object().unwrap().clone());
            let by = spelling.next(pairs.len());
            pairs.rotate_left(by);
        }
        let mut text = match form {
            Form::Json => json(&pairs, false, &mut spelling),
            // A comment, so that it is no JSON.
            Form::Flow => format!("# flow\n{}", json(&pairs, true, &mut spelling)),
            Form::Yaml => block(&pairs, "", &mut spelling),
        };
        match fault {
            Fault::Cut => text.truncate(text.floor_char_boundary(text.len() * 2 / 3)),
            // Go's parser may or may not look behind a flow mapping.
            Fault::Around(_, "}" | "\n\tx: 1\n") if matches!(form, Form::Flow) => {}
            Fault::Around(front, behind) => text = format!("{front}{text}{behind}"),
            Fault::None | Fault::Twice => {}
        }
        Text(text)
    })
}

type Pairs = Vec<(String, Value)>;

fn pairs(value: Value) -> Pairs {
    match value {
        Value::Object(fields) => fields.into_iter().collect(),
        _ => Pairs::new(),
    }
}

/// Which spelling each scalar gets.
struct Spelling(Vec<usize>, usize);

impl Spelling {
    /// The next of `count`, mostly the first.
    fn next(&mut self, count: usize) -> usize {
        self.1 += 1;
        let next = self.0[self.1 % self.0.len()];
        if next < count { next } else { 0 }
    }

    fn one_of(&mut self, spellings: &[String]) -> String {
        spellings[self.next(spellings.len())].clone()
    }

    fn scalar(&mut self, value: &Value) -> String {
        let all = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
        let spellings: Vec<String> = match value {
            Value::Null => all(&["null", "~", "Null", "NULL", ""]),
            Value::Bool(true) => all(&["true", "yes", "on", "y", "Y", "True", "ON", "'true'"]),
            Value::Bool(false) => all(&["false", "no", "off", "n", "N", "False", "Off", "'no'"]),
            Value::Number(number) => match number.as_i64() {
                Some(n) => {
                    let (sign, n) = (if n < 0 { "-" } else { "" }, n.unsigned_abs());
                    vec![
                        format!("{sign}{n}"),
                        format!("{sign}{n}.0"),
                        format!("{sign}0x{n:x}"),
                        format!("{sign}0{n:o}"),
                        format!("{sign}0b{n:b}"),
                        format!("{sign}0o{n:o}"),
                        format!("{sign}{n}e0"),
                        format!("{sign}{n}."),
                        format!("{sign}1_{n}"),
                        format!("'{sign}{n}'"),
                        format!("{sign}{n}.5"),
                        format!("{sign}00{n}"),
                    ]
                }
                None => vec![number.to_string(), format!("{number}e0")],
            },
            Value::String(text) => {
                let quoted = Value::from(text.as_str()).to_string();
                let single = format!("'{}'", text.replace('\'', "''"));
                let mut all = vec![quoted, single];
                let is_plain = |c: char| c.is_ascii_alphanumeric() || "-./_".contains(c);
                if text.chars().all(is_plain) && !text.starts_with('-') {
                    all.push(text.clone());
                }
                all
            }
            other => vec![other.to_string()],
        };
        self.one_of(&spellings)
    }
}

/// In braces; as YAML, with its spellings.
fn json(pairs: &[(String, Value)], is_yaml: bool, spelling: &mut Spelling) -> String {
    let fields: Vec<String> = pairs
        .iter()
        .map(|(key, value)| {
            let value = match value {
                Value::Object(fields) if is_yaml => {
                    let inner: Pairs = fields.clone().into_iter().collect();
                    json(&inner, true, spelling)
                }
                Value::Array(_) | Value::Object(_) => value.to_string(),
                scalar if is_yaml => spelling.scalar(scalar),
                scalar => scalar.to_string(),
            };
            format!("{key:?}: {value}")
        })
        .collect();
    format!("{{{}}}", fields.join(", "))
}

/// In lines.
fn block(pairs: &[(String, Value)], indent: &str, spelling: &mut Spelling) -> String {
    let lines = pairs.iter().map(|(key, value)| match value {
        Value::Object(fields) if !fields.is_empty() => {
            let inner: Pairs = fields.clone().into_iter().collect();
            let inner = block(&inner, &format!("{indent}  "), spelling);
            format!("{indent}{key:?}:\n{inner}")
        }
        Value::Array(items) if !items.is_empty() => {
            let items = items.iter().map(|item| format!("{indent}- {item}\n"));
            format!("{indent}{key:?}:\n{}", items.collect::<String>())
        }
        scalar => format!("{indent}{key}: {}\n", spelling.scalar(scalar)),
    });
    lines.collect()
}
