//! Fields by their names in Go: `kubectl cluster-info dump` wrote the internal types of Kubernetes,
//! which have no JSON names, up to v1.8 (`pkg/apis/core/types.go`).

use serde_json::{Map, Value};

pub(super) fn object(object: Value) -> Value {
    let Value::Object(fields) = object else {
        return object;
    };
    // The fields of ObjectMeta, which the types embed, have JSON names.
    let is_go = |name: &str| name.starts_with(|first: char| first.is_ascii_uppercase());
    let (rest, meta): (Map<_, _>, Map<_, _>) =
        (fields.into_iter()).partition(|(name, _)| is_go(name));
    let Value::Object(mut object) = renamed(Value::Object(rest)) else {
        return Value::Null;
    };
    object.insert("metadata".to_owned(), Value::Object(meta));
    Value::Object(object)
}

fn renamed(value: Value) -> Value {
    match value {
        Value::Array(items) => items.into_iter().map(renamed).collect(),
        Value::Object(fields) => {
            let fields = fields.into_iter();
            let renamed = fields.map(|(name, value)| (api_name(&name), renamed(value)));
            renamed.collect()
        }
        other => other,
    }
}

/// `podCIDR` of `PodCIDR`, `osImage` of `OSImage`: an initialism in front is lower case as a whole.
fn api_name(name: &str) -> String {
    let upper = name.bytes().take_while(u8::is_ascii_uppercase).count();
    let first = if upper == name.len() {
        upper
    } else {
        // The last capital begins the next word.
        upper.saturating_sub(1).max(upper.min(1))
    };
    let (front, rest) = name.split_at_checked(first).unwrap_or(("", name));
    front.to_ascii_lowercase() + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_api() {
        for (go, api) in [
            ("PodCIDR", "podCIDR"),
            ("OSImage", "osImage"),
            ("UID", "uid"),
            ("QOSClass", "qosClass"),
            ("MachineID", "machineID"),
            ("Items", "items"),
            ("cpu", "cpu"),
            ("", ""),
        ] {
            assert_eq!(api_name(go), api);
        }
    }
}
