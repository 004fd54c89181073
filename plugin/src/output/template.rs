//! `-o jsonpath=TEMPLATE`: parts of a document, in the form of kubectl's own templates
//! (staging/src/k8s.io/client-go/util/jsonpath, v1.36.3).

use std::io::{self, Write};

use jsonpath_rust::parser::parse_json_path;
use jsonpath_rust::query::js_path_vals;
use serde_json::Value;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Template(Vec<Part>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Text(String),
    /// The values at this path, with blanks between them.
    Path(String),
    Range(String, Vec<Self>),
}

impl Template {
    /// Reads text with `{PATH}`, `{"TEXT"}` and `{range PATH}…{end}`.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let mut open: Vec<(String, Vec<Part>)> = Vec::new();
        let mut parts = Vec::new();
        let mut rest = text;
        while !rest.is_empty() {
            let (before, after) = rest.split_once('{').unwrap_or((rest, ""));
            if !before.is_empty() {
                parts.push(Part::Text(before.to_owned()));
            }
            if before.len() == rest.len() {
                break;
            }
            let end = closing(after).ok_or_else(|| format!("no }} after {{{after}"))?;
            let (inside, behind) = after.split_at_checked(end).unwrap_or((after, ""));
            rest = behind.strip_prefix('}').unwrap_or(behind);
            let inside = inside.trim();
            if inside == "end" {
                let (path, before) = open.pop().ok_or("{end} without {range}")?;
                let inner = std::mem::replace(&mut parts, before);
                parts.push(Part::Range(path, inner));
            } else if let Some(path) = inside.strip_prefix("range ") {
                open.push((whole_path(path)?, std::mem::take(&mut parts)));
            } else if inside.starts_with(['"', '\'']) {
                parts.push(Part::Text(unquoted(inside)?));
            } else {
                parts.push(Part::Path(whole_path(inside)?));
            }
        }
        if let Some((path, _)) = open.pop() {
            return Err(format!("no {{end}} after {{range {path}}}"));
        }
        Ok(Self(parts))
    }

    /// Writes what the template says of a document; a path without values writes nothing.
    pub(crate) fn write(&self, document: &Value, out: &mut impl Write) -> io::Result<()> {
        write_parts(&self.0, document, out)
    }
}

/// Where the brace that was opened is closed, quoted braces left aside.
fn closing(text: &str) -> Option<usize> {
    let mut quote = None;
    let mut is_escaped = false;
    text.char_indices().find_map(|(at, c)| {
        match quote {
            _ if is_escaped => is_escaped = false,
            _ if c == '\\' => is_escaped = true,
            Some(open) if c == open => quote = None,
            None if matches!(c, '"' | '\'') => quote = Some(c),
            None if c == '}' => return Some(at),
            _ => {}
        }
        None
    })
}

/// The path as RFC 9535 has it; kubectl leaves `$` out.
fn whole_path(text: &str) -> Result<String, String> {
    let text = text.trim();
    let steps = text.strip_prefix(['$', '@']).unwrap_or(text);
    let is_whole = steps.is_empty() || steps.starts_with(['.', '[']);
    let dot = if is_whole { "" } else { "." };
    let path = format!("${dot}{steps}");
    match parse_json_path(&path) {
        Ok(_) => Ok(path),
        Err(_) => Err(format!("{text:?} is no JSONPath")),
    }
}

fn unquoted(text: &str) -> Result<String, String> {
    let quote = text.chars().next().unwrap_or_default();
    let inside = text
        .strip_prefix(quote)
        .and_then(|text| text.strip_suffix(quote))
        .ok_or_else(|| format!("no {quote} at the end of {text}"))?;
    let mut plain = String::new();
    let mut chars = inside.chars();
    while let Some(c) = chars.next() {
        plain.push(match c {
            '\\' => match chars.next() {
                Some('n') => '\n',
                Some('t') => '\t',
                Some('r') => '\r',
                Some(other) => other,
                None => '\\',
            },
            c => c,
        });
    }
    Ok(plain)
}

fn write_parts(parts: &[Part], root: &Value, out: &mut impl Write) -> io::Result<()> {
    for part in parts {
        match part {
            Part::Text(text) => out.write_all(text.as_bytes())?,
            Part::Path(path) => {
                for (i, value) in values(path, root).into_iter().enumerate() {
                    if i > 0 {
                        write!(out, " ")?;
                    }
                    match value {
                        Value::String(text) => write!(out, "{text}")?,
                        Value::Null => {}
                        other => write!(out, "{other}")?,
                    }
                }
            }
            Part::Range(path, inner) => {
                for value in values(path, root) {
                    write_parts(inner, value, out)?;
                }
            }
        }
    }
    Ok(())
}

fn values<'a>(path: &str, root: &'a Value) -> Vec<&'a Value> {
    // The path was parsed before: what is left is that nothing is there.
    js_path_vals(path, root).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn print(template: &str) -> String {
        let document = json!({
            "kind": "List", "empty": null, "number": 7,
            "items": [
                {"name": "a", "labels": {"pool": "x"}, "cpu": {"used": 1}},
                {"name": "b", "labels": {"pool": "y"}},
            ],
        });
        let mut out = Vec::new();
        let template = Template::parse(template).unwrap();
        template.write(&document, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn templates_read_as_in_kubectl() {
        for (template, expected) in [
            ("{.kind}", "List"),
            ("{$.kind}", "List"),
            ("{kind}", "List"),
            ("kind: {.kind}!", "kind: List!"),
            ("{.items[*].name}", "a b"),
            ("{.items[0].cpu}", r#"{"used":1}"#),
            ("{.items[-1].name}", "b"),
            ("{.items[*]['name']}", "a b"),
            ("{..pool}", "x y"),
            ("{.items[?(@.labels.pool==\"y\")].name}", "b"),
            ("{.missing}{.empty}{.number}", "7"),
            (
                "{range .items[*]}{.name}{\"\\t\"}{.labels.pool}{'\\n'}{end}",
                "a\tx\nb\ty\n",
            ),
            ("{\"{}\"}", "{}"),
            ("", ""),
        ] {
            assert_eq!(print(template), expected, "{template}");
        }
    }

    #[test]
    fn bad_templates_are_refused() {
        for (template, expected) in [
            ("{.kind", "no } after {.kind"),
            ("{end}", "{end} without {range}"),
            (
                "{range .items[*]}{.name}",
                "no {end} after {range $.items[*]}",
            ),
            ("{.items[}", "\".items[\" is no JSONPath"),
            ("{\"a}", "no } after {\"a}"),
        ] {
            assert_eq!(Template::parse(template).unwrap_err(), expected);
        }
    }
}
