//! The text of a configuration file, as the kubelet reads it.
//!
//! Mirrors the serializers of `k8s.io/apimachinery/pkg/runtime/serializer/json` with
//! `sigs.k8s.io/yaml` (v0.33.13 to v0.37.2): a text that begins with `{` is JSON, any other YAML 1.1, of
//! which the first document counts. A key that is there twice fails strict decoding, and the kubelet
//! decodes leniently: in YAML the last value replaces the others, in JSON it is decoded over them. A
//! drop-in is decoded strictly (`loadDropinConfigFileIntoJSON`, `cmd/kubelet/app/server.go`).

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

use super::FIELDS;
use nodelife_core::allocatable::{KubeletConfiguration, KubeletFiles};

#[derive(Debug, Default)]
pub struct Document {
    pub fields: Map<String, Value>,
    /// The fields of the file alone, if there are drop-ins.
    pub(super) alone: Option<Map<String, Value>>,
    pub(super) doubled: Vec<String>,
    pub(super) former: Vec<(String, Value)>,
    pub(super) refusals: Vec<String>,
}

impl Document {
    pub fn of(files: &KubeletFiles) -> Self {
        let mut document = Self::default();
        let main = files.file.as_deref().and_then(|text| {
            let read = read(text).map_err(|why| document.refusals.push(why)).ok()?;
            document.doubled = read.doubled;
            document.former = read.former;
            Some(read.value)
        });
        if let (Some(Value::Object(fields)), false) = (&main, files.drop_ins.is_empty()) {
            document.alone = Some(fields.clone());
        }
        let mut drop_ins = Vec::new();
        for (name, text) in &files.drop_ins {
            match read(text).and_then(Text::drop_in) {
                Ok(drop_in) => drop_ins.push(drop_in),
                Err(why) => document.refusals.push(format!("{name}: {why}")),
            }
        }
        match KubeletConfiguration::merge_files(main, drop_ins) {
            Ok(Value::Object(fields)) => document.fields = fields,
            Ok(_) => document.refusals.push("the file is no mapping".to_owned()),
            Err(error) => document.refusals.push(error.to_string()),
        }
        document
    }

    /// The kind that a text says it has; none if it cannot be read.
    pub fn kind(text: &str) -> Option<String> {
        let value = read(text).ok()?.value;
        let kind = value.get("kind").and_then(Value::as_str);
        Some(kind.unwrap_or_default().to_owned())
    }
}

#[derive(Default)]
struct Text {
    value: Value,
    doubled: Vec<String>,
    former: Vec<(String, Value)>,
}

impl Text {
    fn drop_in(self) -> Result<Value, String> {
        if let Some(key) = self.doubled.first() {
            return Err(format!("{key} is there more than once"));
        }
        for (field, expected) in super::TYPE {
            if self.value.get(field).and_then(Value::as_str) != Some(expected) {
                return Err(format!("{field} must be {expected}"));
            }
        }
        Ok(self.value)
    }

    /// Makes one value of a tree, and notes the keys that are there twice.
    fn take(&mut self, tree: Tree, path: &str, is_yaml: bool) -> Value {
        match tree {
            // YAML becomes JSON first, and Go writes whole numbers without a fraction.
            Tree::Scalar(Value::Number(number)) if is_yaml && number.is_f64() => {
                let whole = number.as_f64().filter(|number| number.fract() == 0.0);
                let whole = whole.and_then(|whole| format!("{whole:.0}").parse::<i64>().ok());
                whole.map_or(Value::Number(number), Value::from)
            }
            Tree::Scalar(value) => value,
            Tree::List(items) => {
                let path = format!("{path}[]");
                let items = items.into_iter();
                items.map(|item| self.take(item, &path, is_yaml)).collect()
            }
            Tree::Fields(pairs) => {
                let mut fields = Map::new();
                for (key, value) in pairs {
                    let path = format!("{path}.{key}");
                    let path = path.trim_start_matches('.');
                    let value = self.take(value, path, is_yaml);
                    let Some(former) = fields.insert(key.clone(), value) else {
                        continue;
                    };
                    self.doubled.push(path.to_owned());
                    if !is_yaml {
                        let now = fields.entry(key).or_insert(Value::Null);
                        decode_over(now, former.clone(), path);
                        self.former.push((path.to_owned(), former));
                    }
                }
                fields.into()
            }
        }
    }
}

fn read(text: &str) -> Result<Text, String> {
    let mut read = Text::default();
    read.value = if text.trim_start().starts_with('{') {
        let tree = serde_json::from_str(text).map_err(|error| error.to_string())?;
        read.take(tree, "", false)
    } else {
        let options = serde_saphyr::options! {
            duplicate_keys: serde_saphyr::DuplicateKeyPolicy::LastWins,
            legacy_octal_numbers: true,
            strict_booleans: false,
        };
        let mut text = text.as_bytes();
        let mut documents = serde_saphyr::read_with_options(&mut text, options);
        let first = documents.next().ok_or("the file is empty")?;
        let tree = first.map_err(|error| error.without_snippet().to_string())?;
        read.take(tree, "", true)
    };
    Ok(read)
}

/// A value with every key of its maps, equal ones too.
enum Tree {
    Scalar(Value),
    List(Vec<Self>),
    Fields(Vec<(String, Self)>),
}

impl<'de> Deserialize<'de> for Tree {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Reader)
    }
}

struct Reader;

macro_rules! scalars {
    ($($visit:ident: $type:ty),+) => {
        $(fn $visit<E>(self, value: $type) -> Result<Tree, E> {
            Ok(Tree::Scalar(value.into()))
        })+
    };
}

impl<'de> Visitor<'de> for Reader {
    type Value = Tree;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value of YAML or JSON")
    }

    scalars!(visit_bool: bool, visit_i64: i64, visit_u64: u64, visit_f64: f64, visit_str: &str);

    fn visit_unit<E>(self) -> Result<Tree, E> {
        Ok(Tree::Scalar(Value::Null))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Tree, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(Tree::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut pairs: A) -> Result<Tree, A::Error> {
        let mut fields = Vec::new();
        while let Some(pair) = pairs.next_entry()? {
            fields.push(pair);
        }
        Ok(Tree::Fields(fields))
    }
}

/// Go decodes an object into the one that is there, and null clears only pointers, maps and lists; a Duration
/// refuses it (`metav1.Duration.UnmarshalJSON`).
fn decode_over(now: &mut Value, former: Value, path: &str) {
    match (now, former) {
        (Value::Object(now), Value::Object(former)) => {
            for (key, former) in former {
                match now.get_mut(&key) {
                    Some(now) => decode_over(now, former, &format!("{path}.{key}")),
                    None => {
                        now.insert(key, former);
                    }
                }
            }
        }
        // The elements of the new list lie where those of the old one were.
        (Value::Array(now), Value::Array(former)) => {
            let path = format!("{path}[]");
            let both = now.iter_mut().zip(former);
            both.for_each(|(now, former)| decode_over(now, former, &path));
        }
        (now @ Value::Null, former) => {
            let mut kinds = FIELDS.lines().filter_map(|line| {
                let (field, kind) = line.split_once(' ')?;
                (field == path).then_some(kind)
            });
            let takes_null = ["*", "map", "list", "v1.Duration"];
            if !kinds.any(|kind| takes_null.iter().any(|start| kind.starts_with(start))) {
                *now = former;
            }
        }
        _ => {}
    }
}
