//! Tests of the Helm chart: it installs what the manifests do.
//!
//! Helm's templates are Go's; the few forms that the chart uses are evaluated here.

use std::collections::BTreeSet;
use std::fs;

use nodelife_admission::Policies;
use nodelife_tests::installation::manifests;
use serde_json::{Value, json};

use super::render;
use crate::json_schema;

const ENABLED: &str = "controller.enabled";

fn read(file: &str) -> String {
    fs::read_to_string(manifests().join("chart").join(file)).unwrap()
}

fn values() -> Value {
    serde_saphyr::from_str(&read("values.yaml")).unwrap()
}

/// Sets a value, by its path with dots.
fn set(values: &mut Value, path: &str, value: Value) {
    let pointer = format!("/{}", path.replace('.', "/"));
    *values.pointer_mut(&pointer).unwrap() = value;
}

/// What Helm makes of the templates; `used` takes the paths of the values.
fn helm(values: &Value, used: &mut BTreeSet<String>) -> Vec<Value> {
    let mut lookup = |path: &str| {
        used.insert(path.to_owned());
        let pointer = format!("/{}", path.replace('.', "/"));
        let value = values.pointer(&pointer);
        value.unwrap_or_else(|| panic!("no value {path}")).clone()
    };
    let mut text = String::new();
    for file in ["templates/nodelife.yaml", "templates/controller.yaml"] {
        text.push_str("\n---\n");
        let mut open = Vec::new();
        for line in read(file).lines() {
            if let Some(path) = line.strip_prefix("{{- if .Values.") {
                open.push(lookup(path.strip_suffix(" }}").unwrap()) == true);
            } else if line == "{{- end }}" {
                open.pop().unwrap();
            } else if !open.contains(&false) {
                text.push_str(&line_of(line, &mut lookup));
                text.push('\n');
            }
        }
        assert!(open.is_empty(), "{file}");
    }
    documents(&text)
}

/// A line with its placeholders filled in: `{{ FUNCTION .Values.PATH | FUNCTION }}`, or
/// `{{ if .Values.PATH }}TEXT{{ else }}TEXT{{ end }}`.
fn line_of(line: &str, lookup: &mut impl FnMut(&str) -> Value) -> String {
    let Some((before, rest)) = line.split_once("{{ ") else {
        return line.to_owned();
    };
    let (expression, after) = rest.split_once(" }}").unwrap();
    if let Some(path) = expression.strip_prefix("if .Values.") {
        let (yes, rest) = after.split_once("{{ else }}").unwrap();
        let (no, after) = rest.split_once("{{ end }}").unwrap();
        let text = if lookup(path) == true { yes } else { no };
        return format!("{before}{text}{}", line_of(after, lookup));
    }
    let mut stages = expression.split(" | ");
    let first = stages.next().unwrap();
    let (function, path) = first.split_once(' ').unwrap_or(("", first));
    let mut value = lookup(path.strip_prefix(".Values.").unwrap());
    for function in [function].into_iter().chain(stages) {
        value = match function {
            "" => value,
            "int" => json!(value.as_i64().unwrap()),
            "toJson" => json!(value.to_string()),
            "sha256sum" => json!("a digest"),
            other => panic!("{other} is not known here"),
        };
    }
    let plain = value.as_str().map(str::to_owned);
    let plain = plain.unwrap_or_else(|| value.to_string());
    format!("{before}{plain}{}", line_of(after, lookup))
}

/// The objects of a text, sorted, without what says nothing, and with names that stay.
fn documents(text: &str) -> Vec<Value> {
    let texts = text.split("\n---\n").filter(|one| !one.trim().is_empty());
    let mut all: Vec<Value> = texts
        .map(|one| serde_saphyr::from_str(one).unwrap())
        .collect();
    // Helm has made it before.
    all.retain(|one| one["kind"] != "Namespace");
    for one in &mut all {
        match one["kind"].as_str().unwrap() {
            "Deployment" => {
                let template = &mut one["spec"]["template"];
                for field in ["nodeSelector", "affinity"] {
                    let spec = template["spec"].as_object_mut().unwrap();
                    let is_empty = spec.get(field) == Some(&json!({}));
                    is_empty.then(|| spec.remove(field));
                }
                let metadata = template["metadata"].as_object_mut().unwrap();
                metadata.remove("annotations");
                let volumes = template["spec"]["volumes"].as_array_mut();
                for volume in volumes.into_iter().flatten() {
                    if let Some(name) = volume.pointer_mut("/configMap/name") {
                        *name = json!(without_hash(name.as_str().unwrap()));
                    }
                }
            }
            "ConfigMap" => {
                let name = without_hash(one["metadata"]["name"].as_str().unwrap());
                one["metadata"]["name"] = json!(name);
                for text in one["data"].as_object_mut().unwrap().values_mut() {
                    *text = serde_saphyr::from_str(text.as_str().unwrap()).unwrap();
                }
            }
            "CustomResourceDefinition" => {
                one["metadata"]
                    .as_object_mut()
                    .unwrap()
                    .remove("annotations");
            }
            _ => {}
        }
    }
    all.sort_by_key(|one| {
        let metadata = &one["metadata"];
        (
            one["kind"].to_string(),
            metadata["namespace"].to_string(),
            metadata["name"].to_string(),
        )
    });
    all
}

/// kustomize appends a hash of its content.
fn without_hash(name: &str) -> &str {
    name.find("-config-")
        .map_or(name, |at| &name[..at + "-config".len()])
}

/// With the values that it comes with, the chart installs what install.yaml does.
#[test]
fn the_chart_renders_the_installation() {
    let mut values = values();
    assert_eq!(values["controller"]["enabled"], false);
    assert_eq!(helm(&values, &mut BTreeSet::new()), documents(&render(".")));

    set(&mut values, "nodeRestriction", json!(true));
    let mut used = BTreeSet::from([ENABLED.to_owned()]);
    let (all, agents) = (helm(&values, &mut used), render("overlays/agents"));
    let policies = |all: &[Value]| -> Policies {
        let config = all.iter().find(|one| one["kind"] == "ConfigMap").unwrap();
        let mut config = config["data"]["config.yaml"].clone();
        for field in ["apiVersion", "kind"] {
            config.as_object_mut().unwrap().remove(field);
        }
        serde_json::from_value(config).unwrap()
    };
    let agents = documents(&agents);
    assert_eq!(policies(&all), policies(&agents));
    let rest = |all: Vec<Value>| -> Vec<Value> {
        let rest = all.into_iter().filter(|one| one["kind"] != "ConfigMap");
        rest.collect()
    };
    assert_eq!(rest(all), rest(agents));
    set(&mut values, "nodeRestriction", json!(false));

    set(&mut values, ENABLED, json!(true));
    let both = format!("{}\n---\n{}", render("."), render("controller"));
    assert_eq!(helm(&values, &mut used), documents(&both));
    let paths = values.as_object().unwrap().keys();
    let paths = paths.filter(|name| *name != "controller").cloned();
    let below = values["controller"].as_object().unwrap().keys();
    let paths = paths.chain(below.map(|name| format!("controller.{name}")));
    // But for what templates/namespace.yaml checks.
    assert_eq!(used, paths.collect(), "a value is of no effect");

    let about: Value = serde_saphyr::from_str(&read("Chart.yaml")).unwrap();
    for field in ["version", "appVersion"] {
        assert_eq!(about[field], env!("CARGO_PKG_VERSION"), "{field}");
    }
}

/// A part that is off takes its permissions along.
#[test]
fn the_chart_leaves_out_a_part_with_its_permissions() {
    for (off, on) in [("audit", "maintenance"), ("maintenance", "audit")] {
        let mut values = values();
        set(&mut values, ENABLED, json!(true));
        set(&mut values, &format!("controller.{off}"), json!(false));
        let all = helm(&values, &mut BTreeSet::new());
        let name = |one: &Value| one["metadata"]["name"].as_str().unwrap().to_owned();
        let names: BTreeSet<String> = all.iter().map(name).collect();
        assert!(
            !names.contains(&format!("nodelife-controller-{off}")),
            "{off}"
        );
        assert!(
            names.contains(&format!("nodelife-controller-{on}")),
            "{off}"
        );
        let definition = names.contains("nodemaintenances.nodelife.dev");
        assert_eq!(definition, on == "maintenance");
        let controller = all
            .iter()
            .find(|one| one["kind"] == "Deployment" && name(one) == "nodelife-controller");
        let arguments = &controller.unwrap()["spec"]["template"]["spec"]["containers"][0]["args"];
        let arguments = arguments.as_array().unwrap();
        for (part, wanted) in [(off, false), (on, true)] {
            let argument = json!(format!("--{part}={wanted}"));
            assert!(arguments.contains(&argument), "{arguments:?}");
        }
    }
}

/// The permission to read the configurations of kubelets comes with the flag.
#[test]
fn the_chart_asks_kubelets_only_on_request() {
    for wanted in [false, true] {
        let mut values = values();
        set(&mut values, ENABLED, json!(true));
        set(&mut values, "controller.auditConfigz", json!(wanted));
        let all = helm(&values, &mut BTreeSet::new());
        let name = |one: &Value| one["metadata"]["name"].as_str().unwrap().to_owned();
        let permissions = all.iter().filter(|one| name(one).ends_with("-configz"));
        assert_eq!(permissions.count(), if wanted { 5 } else { 0 });
        let controller = all
            .iter()
            .find(|one| one["kind"] == "Deployment" && name(one) == "nodelife-controller");
        let controller = controller.unwrap();
        let container = &controller["spec"]["template"]["spec"]["containers"][0];
        let arguments = container["args"].as_array().unwrap();
        let argument = json!(format!("--audit-configz={wanted}"));
        assert!(arguments.contains(&argument), "{arguments:?}");
    }
}

/// `helm upgrade` upgrades the definition, since it is a template, and `helm uninstall` keeps it: its
/// removal would delete every maintenance.
#[test]
fn helm_keeps_the_definition_of_maintenances() {
    assert!(!manifests().join("chart/crds").exists());
    let template = read("templates/controller.yaml");
    let mut texts = template.split("\n---\n");
    let definition = texts.find(|one| one.contains("kind: CustomResourceDefinition"));
    let keep = "  annotations:\n    helm.sh/resource-policy: keep\n";
    assert!(definition.unwrap().contains(keep));
}

/// Helm checks the values by `values.schema.json`, of an installation and of `helm lint`.
#[test]
fn the_schema_tells_right_values_from_wrong_ones() {
    let schema: Value = serde_json::from_str(&read("values.schema.json")).unwrap();
    let faults = |values: &Value| json_schema::faults(values, &schema, "values");
    assert_eq!(faults(&values()), [""; 0]);
    let (own, properties) = (values(), schema["properties"].clone());
    for name in own.as_object().unwrap().keys() {
        assert!(properties.get(name).is_some(), "{name}");
    }
    let requests = json!({"cpu": 1, "memory": "64Mi"});
    let right = [
        (
            "image",
            json!("registry.example.com/nodelife-webhook@sha256:ab"),
        ),
        ("nodeRestriction", json!(true)),
        ("replicas", json!(3)),
        ("failurePolicy", json!("Fail")),
        ("timeoutSeconds", json!(10)),
        ("nodeSelector", json!({"kubernetes.io/os": "linux"})),
        ("affinity", json!({"podAntiAffinity": {}})),
        ("writerAffinity", json!({})),
        ("tolerations", json!([])),
        ("tolerations", json!([{"operator": "Exists"}])),
        ("controller.enabled", json!(true)),
        ("controller.image", json!("nodelife-controller:1")),
        ("controller.replicas", json!(1)),
        ("controller.audit", json!(false)),
        ("controller.maintenance", json!(false)),
        ("controller.auditConfigz", json!(true)),
        ("controller.auditConfig", json!({"kind": "AuditConfig"})),
        ("controller.resources", json!({})),
        ("controller.resources", json!({"requests": requests})),
        ("controller.resources.limits.memory", json!("1Gi")),
    ];
    let wrong = [
        ("image", json!(1)),
        (
            "image",
            json!({"repository": "nodelife-webhook", "tag": "1"}),
        ),
        ("nodeRestriction", json!("true")),
        ("replicas", json!("2")),
        ("replicas", json!(-1)),
        ("replicas", json!(1.5)),
        ("failurePolicy", json!("fail")),
        ("failurePolicy", json!(null)),
        ("timeoutSeconds", json!(0)),
        ("timeoutSeconds", json!(31)),
        ("timeoutSeconds", json!("2s")),
        ("nodeSelector", json!({"a": true})),
        ("affinity", json!([])),
        ("tolerations", json!({"operator": "Exists"})),
        ("tolerations", json!(["Exists"])),
        ("controller", json!(true)),
        ("controller", json!({"enable": true})),
        ("controller.enabled", json!("yes")),
        ("controller.auditConfig", json!("kind: AuditConfig")),
        ("controller.resources", json!({"request": requests})),
    ];
    for (is_right, all) in [(true, right), (false, wrong)] {
        for (path, value) in all {
            let mut values = values();
            set(&mut values, path, value.clone());
            let faults = faults(&values);
            assert_eq!(faults.is_empty(), is_right, "{path}: {value}: {faults:?}");
        }
    }
    // Helm takes a value out that is null, and would render `replicas: 0`.
    for path in ["image", "replicas", "timeoutSeconds", "controller/replicas"] {
        let mut values = values();
        let (parent, name) = path.rsplit_once('/').unwrap_or(("", path));
        let parent = if parent.is_empty() {
            &mut values
        } else {
            &mut values[parent]
        };
        parent.as_object_mut().unwrap().remove(name).unwrap();
        assert_eq!(faults(&values).len(), 1, "{path}");
    }
}
