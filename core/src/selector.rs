//! Parser of label selectors in kubectl's syntax: `a=b,c!=d,e in (f,g),h,!i`.

use crate::object::{LabelSelector, Requirement};

/// Reads a selector. Mirrors `labels.Parse` of k8s.io/apimachinery v0.36.3
/// (`pkg/labels/selector.go`) without its numeric comparisons.
pub fn label_selector(text: &str) -> Result<LabelSelector, String> {
    let mut match_expressions = Vec::new();
    for part in split(text) {
        match_expressions.push(requirement(part.trim())?);
    }
    Ok(LabelSelector {
        match_expressions,
        ..LabelSelector::default()
    })
}

/// Cuts at the commas that stand outside of parentheses; an empty text has no parts.
fn split(text: &str) -> Vec<&str> {
    if text.trim().is_empty() {
        return Vec::new();
    }
    let mut depth = 0_usize;
    text.split(move |c| {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        c == ',' && depth == 0
    })
    .collect()
}

fn requirement(part: &str) -> Result<Requirement, String> {
    let wrong = || format!("'{part}' is no requirement such as a=b, a!=b, a in (b,c), a or !a");
    let (key, operator, values) = if let Some(key) = part.strip_prefix('!') {
        (key, "DoesNotExist", Vec::new())
    } else if let Some((key, value)) = part.split_once("!=") {
        (key, "NotIn", vec![value])
    } else if let Some((key, value)) = part.split_once("==").or_else(|| part.split_once('=')) {
        (key, "In", vec![value])
    } else if let Some((head, list)) = part.split_once('(') {
        let list = list.strip_suffix(')').ok_or_else(wrong)?;
        let (key, operator) = head.trim().rsplit_once(' ').ok_or_else(wrong)?;
        let operator = match operator {
            "in" => "In",
            "notin" => "NotIn",
            _ => return Err(wrong()),
        };
        (key, operator, list.split(',').collect())
    } else {
        (part, "Exists", Vec::new())
    };
    let values: Vec<&str> = values.into_iter().map(str::trim).collect();
    let key = key.trim();
    if !is_key(key) || !values.iter().all(|value| is_name_or_empty(value)) {
        return Err(wrong());
    }
    Ok(Requirement {
        key: key.into(),
        operator: operator.into(),
        values: values.into_iter().map(Into::into).collect(),
    })
}

/// Whether the text is the key of a label: `prefix/name` or `name`.
pub fn is_key(key: &str) -> bool {
    let (prefix, name) = key.rsplit_once('/').unwrap_or(("x", key));
    !name.is_empty() && is_name_or_empty(name) && !prefix.is_empty() && is_name_or_empty(prefix)
}

fn is_name_or_empty(text: &str) -> bool {
    text.chars()
        .all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(selector: &str, labels: &[(&str, &str)]) -> bool {
        let labels = labels.iter().map(|(k, v)| ((*k).into(), (*v).into()));
        label_selector(selector).unwrap().matches(&labels.collect())
    }

    #[test]
    fn selectors_match_as_in_kubectl() {
        let labels = [("a", "b"), ("x.io/role", "web")];
        for yes in [
            "",
            "a=b",
            "a==b",
            "a!=c",
            "z!=c",
            "a in (b, c)",
            "z notin (b)",
            "a",
            "!z",
            "x.io/role=web,a",
            "x.io/role in (web),a=b",
        ] {
            assert!(matches(yes, &labels), "{yes}");
        }
        for no in [
            "a=c",
            "a!=b",
            "a in (c)",
            "a notin (b,c)",
            "z",
            "!a",
            "a=b,z",
        ] {
            assert!(!matches(no, &labels), "{no}");
        }
    }

    #[test]
    fn invalid_selectors_are_rejected() {
        for wrong in [
            "a=b,", "=b", "a in b", "a in (b", "a of (b)", "a b", "a=b=c", "!",
        ] {
            assert!(label_selector(wrong).is_err(), "{wrong}");
        }
    }
}
