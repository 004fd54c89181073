//! The part of JSON Schema (2020-12) that our schemas use; a keyword that is not known here fails,
//! so that none is silently not checked. The end-to-end tests include this file as well.

use serde_json::Value;

/// What of the document, named `name`, is not as the schema says.
pub(crate) fn faults(document: &Value, schema: &Value, name: &str) -> Vec<String> {
    let mut faults = Vec::new();
    check(document, schema, schema, name, &mut faults);
    faults
}

fn check(value: &Value, schema: &Value, root: &Value, at: &str, faults: &mut Vec<String>) {
    if schema == &Value::Bool(true) {
        return;
    }
    let mut fault = |text: String| faults.push(format!("{at}: {text}"));
    for (keyword, wanted) in schema.as_object().unwrap() {
        match keyword.as_str() {
            "const" if value != wanted => fault(format!("{value} is not {wanted}")),
            "enum" if !wanted.as_array().unwrap().contains(value) => {
                fault(format!("{value} is none of {wanted}"));
            }
            "type" if !is_of_type(value, wanted) => fault(format!("{value} is no {wanted}")),
            "required" => {
                for name in wanted.as_array().unwrap() {
                    if value.get(name.as_str().unwrap()).is_none() {
                        fault(format!("{name} is missing"));
                    }
                }
            }
            "minimum" if value.as_f64() < wanted.as_f64() => {
                fault(format!("{value} is less than {wanted}"));
            }
            "maximum" if value.as_f64() > wanted.as_f64() => {
                fault(format!("{value} is more than {wanted}"));
            }
            "anyOf" | "oneOf" => {
                let holding = wanted.as_array().unwrap().iter().filter(|one| {
                    let mut faults = Vec::new();
                    check(value, one, root, at, &mut faults);
                    faults.is_empty()
                });
                let holding = holding.count();
                if holding == 0 || (keyword == "oneOf" && holding > 1) {
                    fault(format!("{value} is {holding} of {keyword} {wanted}"));
                }
            }
            "uniqueItems" => {
                let values: Vec<&Value> = value.as_array().into_iter().flatten().collect();
                let again = |(i, value): (usize, &&Value)| values[..i].contains(value);
                if values.iter().enumerate().any(again) {
                    fault(format!("{value} has an item twice"));
                }
            }
            // Fulfilled, looked at below, or for people.
            "const"
            | "enum"
            | "type"
            | "$ref"
            | "items"
            | "properties"
            | "additionalProperties"
            | "minimum"
            | "maximum"
            | "$schema"
            | "$defs"
            | "title"
            | "description"
            | "format" => {}
            other => panic!("{at}: keyword {other} is not known here"),
        }
    }
    if let Some(reference) = schema.get("$ref").and_then(Value::as_str) {
        let target = root.pointer(reference.strip_prefix('#').unwrap()).unwrap();
        check(value, target, root, at, faults);
    }
    if let (Some(items), Some(values)) = (schema.get("items"), value.as_array()) {
        for (i, value) in values.iter().enumerate() {
            check(value, items, root, &format!("{at}[{i}]"), faults);
        }
    }
    for (name, value) in value.as_object().into_iter().flatten() {
        let at = format!("{at}.{name}");
        let known = schema.get("properties").and_then(|known| known.get(name));
        match known.or_else(|| schema.get("additionalProperties")) {
            None => {}
            Some(Value::Bool(false)) => faults.push(format!("{at} is not in the schema")),
            Some(schema) => check(value, schema, root, &at, faults),
        }
    }
}

fn is_of_type(value: &Value, wanted: &Value) -> bool {
    match wanted {
        Value::Array(any) => any.iter().any(|wanted| is_of_type(value, wanted)),
        wanted => match wanted.as_str().unwrap() {
            "string" => value.is_string(),
            "integer" => value.is_i64() || value.is_u64(),
            "number" => value.is_number(),
            "boolean" => value.is_boolean(),
            "object" => value.is_object(),
            "array" => value.is_array(),
            "null" => value.is_null(),
            other => panic!("type {other} is not known here"),
        },
    }
}
