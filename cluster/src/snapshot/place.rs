//! Where in its file a manifest says something, for who reads the file.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::PathBuf;

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_saphyr::Spanned;

use super::file::{documents_of, yaml_documents};

#[derive(Default, Deserialize)]
#[serde(default)]
struct Document {
    kind: String,
    metadata: Metadata,
    spec: Option<Spanned<BTreeMap<String, Spanned<IgnoredAny>>>>,
    items: Vec<Self>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Metadata {
    namespace: String,
    name: Option<Spanned<String>>,
}

impl Document {
    fn line(&self, (kind, namespace, name): (&str, &str, &str), fields: &[&str]) -> Option<u64> {
        let mut items = self.items.iter();
        if let Some(line) = items.find_map(|item| item.line((kind, namespace, name), fields)) {
            return Some(line);
        }
        let found = self.metadata.name.as_ref()?;
        // A manifest may leave its namespace to kubectl.
        let is_there = self.metadata.namespace.is_empty() || self.metadata.namespace == namespace;
        if self.kind != kind || found.value != name || !is_there {
            return None;
        }
        let Some(spec) = &self.spec else {
            return Some(found.referenced.line());
        };
        let field = fields.iter().find_map(|field| spec.value.get(*field));
        let place = field.map_or(spec.referenced, |field| field.referenced);
        Some(place.line())
    }
}

/// The file and the line, from 1, of the first of these fields of the spec of an object, else of the
/// beginning of its spec or of its name; none where these files do not show it. Of an object that is
/// there twice, the last counts. `paths` as for [`super::read`].
pub fn place(
    paths: &[PathBuf],
    object: (&str, &str, &str),
    fields: &[&str],
) -> Option<(PathBuf, u64)> {
    paths
        .iter()
        .flat_map(|path| documents_of(path))
        .filter_map(|path| {
            let mut file = File::open(&path).ok()?;
            let documents = yaml_documents::<Document>(&mut file).filter_map(Result::ok);
            let lines = documents.filter_map(|document| document.line(object, fields));
            Some((path, lines.last()?))
        })
        .next_back()
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHART: &str = r"# The first line.
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: other
spec: {minAvailable: 1}
---
not: an object
---
apiVersion: v1
kind: List
items:
  - kind: PodDisruptionBudget
    metadata: {name: web, namespace: shop}
    spec:
      selector:
        matchLabels: {app: web}
      minAvailable: 75%
";

    #[test]
    fn a_field_is_found_by_its_object() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("chart.yaml");
        std::fs::write(&file, CHART).unwrap();
        std::fs::write(
            folder.path().join("a.json"),
            "{\"kind\": \"List\", \"items\": []}",
        )
        .unwrap();
        let paths = [folder.path().to_owned()];
        let line = |namespace: &str, name: &str, fields: &[&str]| {
            let found = place(&paths, ("PodDisruptionBudget", namespace, name), fields)?;
            assert_eq!(found.0, file);
            Some(found.1)
        };
        let number = ["maxUnavailable", "minAvailable"];
        assert_eq!(line("shop", "web", &number), Some(18));
        assert_eq!(line("shop", "web", &["selector"]), Some(17));
        assert_eq!(line("default", "other", &number), Some(6));
        assert_eq!(line("default", "other", &["selector"]), Some(6));
        assert_eq!(line("shop", "web", &["replicas"]), Some(16));
        assert_eq!(line("elsewhere", "web", &number), None);
    }
}
