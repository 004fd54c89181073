//! The CustomResourceDefinition of NodeMaintenance, generated from the types.
//!
//! `NODELIFE_UPDATE_DOCS=1 cargo test -p nodelife-drain --test crd` writes it.

#![expect(
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "helpers of tests"
)]

use std::path::Path;

use nodelife_core::go_duration::TimeLimit;
use nodelife_core::node_maintenance::{
    GROUP, KIND, MAX_NODES, MAX_UNSETTLED, MAX_WORKLOADS, MaintenanceSpec, MaintenanceStatus,
    NodeCounts, NodeMaintenance, NodeState, NodeStatus, PLURAL, PlanStatus, UnsettledPod, VERSION,
};
use nodelife_core::text::Str;
use nodelife_drain::{DrainSettings, flags_as_fields};
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

#[test]
fn the_definition_in_manifests_is_that_of_the_types() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../manifests/controller/crd-nodemaintenance.yaml");
    let definition = definition();
    if std::env::var_os("NODELIFE_UPDATE_DOCS").is_some() {
        let text = serde_saphyr::to_string(&definition).unwrap();
        std::fs::write(&path, format!("{HEAD}{text}")).unwrap();
    }
    let text = std::fs::read_to_string(&path).unwrap_or_default();
    let written: Value = serde_saphyr::from_str(&text).unwrap_or_default();
    assert_eq!(
        written, definition,
        "the file differs from the types: NODELIFE_UPDATE_DOCS=1 cargo test -p nodelife-drain --test crd"
    );
}

#[test]
fn an_object_with_an_unreadable_spec_is_read_without_it() {
    for (spec, why) in [
        (
            json!({"approval": "Later"}),
            "spec.approval: unknown variant `Later`, expected `Required` or `None`",
        ),
        (
            json!({"soak": 5}),
            "spec.soak: invalid type: integer `5`, expected a string",
        ),
        (
            json!({"later": 5, "soak": "5s"}),
            "spec.later: unknown field `later`, expected one of `nodes`",
        ),
        (
            json!("all"),
            "spec: invalid type: string \"all\", expected struct MaintenanceSpec",
        ),
    ] {
        let status = json!({"startedAt": "2026-01-31T22:00:00Z", "nodes": [{"name": "a", "state": "Released"}]});
        let object = json!({"metadata": {"name": "x"}, "spec": spec, "status": status});
        let read: NodeMaintenance = serde_json::from_value(object).unwrap();
        let said = read.unreadable_spec.unwrap();
        assert!(said.starts_with(why), "{said}");
        assert_eq!(read.spec, MaintenanceSpec::default());
        assert_eq!((&*read.metadata.name, read.unreadable_status), ("x", None));
        // A later version's word.
        assert_eq!(read.status.nodes[0].state, NodeState::Draining);
    }
}

#[test]
fn an_unreadable_status_is_told_and_an_absent_one_is_empty() {
    let object = json!({"metadata": {}, "spec": {"deadline": "9999-12-31T23:59:59Z"}, "status": {"exitStatus": 256}});
    let read: NodeMaintenance = serde_json::from_value(object).unwrap();
    let why = "status.exitStatus: invalid value: integer `256`, expected u8";
    assert_eq!(read.unreadable_status.as_deref(), Some(why));
    assert_eq!(read.spec.deadline, Some(jiff::Timestamp::MAX));
    let bare: NodeMaintenance = serde_json::from_str(r#"{"metadata":{},"status":null}"#).unwrap();
    assert_eq!(bare, NodeMaintenance::default());
}

#[test]
fn a_maintenance_of_500_nodes_is_below_272_kib() {
    let name = |i: usize| Str::from(format!("node-{i:04}.eu-central-1.compute.example.com"));
    let mut nm = NodeMaintenance::default();
    nm.spec.nodes = (0..500).map(name).collect();
    nm.status.nodes = (0..500)
        .map(|i| NodeStatus {
            name: name(i),
            uid: "0c3a4f1e-8d2b-4f6a-9c57-1d2e3f405162".into(),
            state: NodeState::Drained,
            begun_at: None,
            done_at: Some(jiff::Timestamp::UNIX_EPOCH),
            next_waits_for: None,
            message: Str::default(),
            pods: NodeCounts {
                evicted: 110,
                skipped: 12,
                ..NodeCounts::default()
            },
        })
        .collect();
    nm.status.pods = (0..MAX_UNSETTLED)
        .map(|i| UnsettledPod {
            namespace: "a-namespace-of-a-team".into(),
            name: Str::from(format!("a-deployment-with-a-name-{i:010}-abcde")),
            node: name(i),
            reason: "waits for budget a-namespace-of-a-team/a-budget: 3 of 4 healthy".into(),
            blocked_since: Some(jiff::Timestamp::UNIX_EPOCH),
        })
        .collect();
    nm.status.plan = Some(PlanStatus {
        digest: Str::from(format!("sha256:{:064}", 0)),
        pods: 55_000,
        nodes: nm.spec.nodes.clone(),
        workloads: (0..MAX_WORKLOADS)
            .map(|i| format!("a-namespace-of-a-team/Deployment/a-name-of-{i:06}").into())
            .collect(),
    });
    let size = serde_json::to_vec(&nm).unwrap().len();
    assert!(size < 272 << 10, "{size} bytes");
}

const HEAD: &str = "\
# The CustomResourceDefinition of NodeMaintenance, generated from core/src/node_maintenance/ and
# drain/src/settings.rs: NODELIFE_UPDATE_DOCS=1 cargo test -p nodelife-drain --test crd
";

const SETTINGS: &str = "The settings of the drain, as the flags of kubectl nodelife drain have them. \
    An absent one has the default of its flag.";

/// The times that every program reads as the API server does: `date-time` alone admits offsets of any
/// four digits, fractions of any length and other characters before them.
const TIME: &str = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,9})?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])$";

fn definition() -> Value {
    let mut spec = structural::<MaintenanceSpec>("The nodes, when they are drained, and how.");
    spec["properties"]["drain"] = structural::<DrainSettings>(SETTINGS);
    restrict(&mut spec);
    relate(&mut spec);
    let mut status = structural::<MaintenanceStatus>("The state as the controller reports it.");
    // What takes an object without a status for done (kstatus) sees that nobody has looked at it yet.
    status["default"] = json!({"observedGeneration": -1});
    let column =
        |name: &str, kind: &str, path: &str| json!({"name": name, "type": kind, "jsonPath": path});
    let condition = |name: &str, field: &str| {
        let path = format!(".status.conditions[?(@.type==\"{name}\")].{field}");
        column(name, "string", &path)
    };
    let mut why = condition("Blocked", "message");
    why["name"] = json!("Why");
    why["priority"] = json!(1);
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": format!("{PLURAL}.{GROUP}"),
            "labels": {"app.kubernetes.io/name": "nodelife", "app.kubernetes.io/component": "controller"},
        },
        "spec": {
            "group": GROUP,
            "scope": "Cluster",
            "names": {
                "kind": KIND, "listKind": format!("{KIND}List"), "plural": PLURAL,
                "singular": "nodemaintenance", "shortNames": ["nlm"],
            },
            "versions": [{
                "name": VERSION,
                "served": true,
                "storage": true,
                "subresources": {"status": {}},
                "additionalPrinterColumns": [
                    column("Nodes", "string", ".status.progress"),
                    condition("Approved", "status"),
                    condition("Progressing", "reason"),
                    condition("Drained", "status"),
                    condition("Blocked", "reason"),
                    column("Age", "date", ".metadata.creationTimestamp"),
                    why,
                ],
                "schema": {"openAPIV3Schema": {
                    "type": "object",
                    "description": "A maintenance of nodes: while the object is there, its nodes are \
                        drained and stay cordoned; deleting it gives back what it took.",
                    "required": ["spec"],
                    "properties": {
                        "apiVersion": {"type": "string"},
                        "kind": {"type": "string"},
                        "metadata": {"type": "object"},
                        "spec": spec,
                        "status": status,
                    },
                }},
            }],
        },
    })
}

fn rules(rules: &[(&str, &str)]) -> Value {
    let rules = rules.iter();
    let rules = rules.map(|(rule, message)| json!({"rule": rule, "message": message}));
    Value::Array(rules.collect())
}

/// What the types do not say of a field: limits and patterns.
fn restrict(spec: &mut Value) {
    let properties = &mut spec["properties"];
    properties["nodes"]["maxItems"] = json!(MAX_NODES);
    properties["nodes"]["items"]["maxLength"] = json!(253);
    properties["nodes"]["items"]["minLength"] = json!(1);
    properties["nodes"]["x-kubernetes-list-type"] = json!("set");
    properties["approvedPlan"]["pattern"] = json!("^sha256:[0-9a-f]{64}$");
    properties["approvedPlan"]["maxLength"] = json!(71);
    properties["notify"]["maxItems"] = json!(16);
    properties["notify"]["items"]["maxLength"] = json!(253);
    // No key of a Secret that begins with a dot, as other files of its volume do.
    properties["notify"]["items"]["pattern"] = json!("^[-_a-zA-Z0-9][-._a-zA-Z0-9]*$");
    properties["notify"]["x-kubernetes-list-type"] = json!("set");
    properties["maxUnavailable"]["pattern"] = json!("^[1-9][0-9]{0,4}%?$");
    for path in [
        "/properties/soak",
        "/properties/window/properties/duration",
        "/properties/gate/properties/timeout",
    ] {
        let duration = spec.pointer_mut(path).unwrap();
        duration["pattern"] = json!(TimeLimit::PATTERN);
        duration["maxLength"] = json!(32);
    }
    let text = |longest: u32| json!({"type": "string", "maxLength": longest});
    let selector = &mut spec["properties"]["nodeSelector"];
    selector["type"] = json!("object");
    selector["properties"] = json!({
        "matchLabels": {
            "type": "object", "maxProperties": 32, "additionalProperties": text(63),
        },
        "matchExpressions": {
            "type": "array",
            "maxItems": 32,
            "items": {
                "type": "object",
                "required": ["key", "operator"],
                "properties": {
                    "key": text(317),
                    "operator": {"type": "string", "enum": ["In", "NotIn", "Exists", "DoesNotExist"]},
                    "values": {"type": "array", "maxItems": 100, "items": text(63)},
                },
            },
        },
    });
    let every = &mut spec["properties"]["schedule"]["properties"]["every"];
    every["maxLength"] = json!(128);
    every["pattern"] =
        json!("^([A-Za-z]+(,[A-Za-z]+)* )?[0-9]{2}:[0-9]{2}-[0-9]{2}:[0-9]{2} [A-Za-z0-9_+/-]+$");
    let condition = spec
        .pointer_mut("/properties/gate/properties/nodeCondition/properties")
        .unwrap();
    condition["type"]["maxLength"] = json!(316);
    condition["status"]["enum"] = json!(["True", "False", "Unknown"]);
    for time in [
        "/properties/deadline",
        "/properties/window/properties/start",
        "/properties/window/properties/end",
    ] {
        let time = spec.pointer_mut(time).unwrap();
        time["pattern"] = json!(TIME);
        // A template without a value gives the first time of its language: 0001-01-01 or 1970-01-01.
        time["x-kubernetes-validations"] = rules(&[(
            "self >= timestamp('2000-01-01T00:00:00Z')",
            "a time before the year 2000 is none of a maintenance",
        )]);
    }
}

/// The rules between fields.
fn relate(spec: &mut Value) {
    spec["properties"]["drain"]["x-kubernetes-validations"] = rules(&[
        (
            "!has(self.disableEviction) || !self.disableEviction || (has(self.force) && self.force)",
            "disableEviction bypasses every budget: it requires force",
        ),
        (
            "!has(self.gracePeriod) || self.gracePeriod != 0 || (has(self.force) && self.force)",
            "gracePeriod 0 kills pods at once: it requires force",
        ),
        (
            "has(self.forceAfter) == (has(self.bypassPdb) && size(self.bypassPdb) > 0)",
            "forceAfter requires bypassPdb, and bypassPdb requires forceAfter",
        ),
    ]);
    spec["properties"]["gate"]["x-kubernetes-validations"] = rules(&[(
        "has(self.nodeCondition) != has(self.audit)",
        "give either nodeCondition or audit",
    )]);
    spec["properties"]["window"]["x-kubernetes-validations"] = rules(&[
        (
            "!has(self.duration) || (has(self.start) && !has(self.end))",
            "duration requires start, and excludes end",
        ),
        (
            "!has(self.start) || !has(self.end) || self.start < self.end",
            "the window has to end after its start",
        ),
    ]);
    spec["properties"]["nodeSelector"]["x-kubernetes-validations"] = rules(&[(
        "(has(self.matchLabels) && size(self.matchLabels) > 0) || (has(self.matchExpressions) && \
         size(self.matchExpressions) > 0)",
        "an empty nodeSelector selects nothing: for every node, set allNodes to true instead",
    )]);
    let mut all = vec![(
        "[has(self.nodes) && size(self.nodes) > 0, has(self.nodeSelector), has(self.allNodes) && \
         self.allNodes].filter(given, given).size() == 1"
            .to_owned(),
        "give one of nodes, nodeSelector and allNodes".to_owned(),
    )];
    all.push((
        "!has(self.mode) || self.mode != 'Rescue' || has(self.nodes) && size(self.nodes) == 1 && \
         !has(self.drain) && !has(self.soak) && !has(self.gate) && !has(self.maxUnavailable)"
            .to_owned(),
        "a rescue is of one node by its name, without drain, soak, gate and maxUnavailable"
            .to_owned(),
    ));
    all.push((
        "!has(self.schedule) || !has(self.window) && (!has(self.mode) || self.mode != 'Rescue')"
            .to_owned(),
        "a schedule is that of a drain, without window".to_owned(),
    ));
    for field in [
        "nodes",
        "nodeSelector",
        "allNodes",
        "mode",
        "drain",
        "soak",
        "gate",
        "maxUnavailable",
        "approval",
        "notify",
    ] {
        all.push((
            format!(
                "has(self.{field}) == has(oldSelf.{field}) && (!has(self.{field}) || self.{field} \
                 == oldSelf.{field})"
            ),
            format!("{field} cannot be changed: make a new maintenance"),
        ));
    }
    let all: Vec<(&str, &str)> = all.iter().map(|(a, b)| (a.as_str(), b.as_str())).collect();
    let mut all = rules(&all);
    // Who makes a maintenance needs no right to approve its plan.
    all.as_array_mut().unwrap().push(json!({
        "rule": "oldSelf.hasValue() || !has(self.approvedPlan)",
        "message": "approvedPlan cannot be set at creation: the plan is approved by a change of the \
                    object, which needs the permission to patch it",
        "optionalOldSelf": true,
    }));
    spec["x-kubernetes-validations"] = all;
}

/// The structural schema of a type.
fn structural<T: JsonSchema>(description: &str) -> Value {
    let mut settings = SchemaSettings::openapi3().for_deserialize();
    settings.inline_subschemas = true;
    let schema = settings.into_generator().into_root_schema_for::<T>();
    let mut schema = schema.to_value();
    simplify(&mut schema);
    schema["description"] = json!(description);
    schema
}

/// Takes out what structural schemas may not have, and what says nothing.
fn simplify(schema: &mut Value) {
    let Value::Object(fields) = schema else {
        return;
    };
    for name in ["$schema", "title", "nullable", "default", "components"] {
        fields.remove(name);
    }
    // An option of an object or an enumeration.
    for name in ["anyOf", "allOf"] {
        if let Some(Value::Array(variants)) = fields.remove(name) {
            let is_real =
                |variant: &&Value| variant["enum"] != json!([null]) && variant["type"] != "null";
            let Some(Value::Object(variant)) = variants.iter().find(is_real).cloned() else {
                panic!("{name} of nothing");
            };
            let description = fields.get("description").cloned();
            fields.extend(variant);
            fields.extend(description.map(|text| ("description".to_owned(), text)));
            fields.remove("nullable");
        }
    }
    // An enumeration each of whose words has a comment.
    if let Some(Value::Array(words)) = fields.remove("oneOf") {
        let mut all: Vec<Value> = Vec::new();
        for word in words {
            all.extend(word["enum"].as_array().cloned().unwrap_or_default());
            all.extend(word.get("const").cloned());
        }
        fields.insert("type".to_owned(), json!("string"));
        fields.insert("enum".to_owned(), Value::Array(all));
    }
    if let Some(Value::Array(words)) = fields.get_mut("enum") {
        words.retain(|word| !word.is_null());
    }
    let format = fields.get("format").and_then(Value::as_str);
    let most = match format {
        Some("uint8") => Some(u8::MAX.into()),
        Some("uint16") => Some(u16::MAX.into()),
        Some("uint32") => Some(u32::MAX),
        _ => None,
    };
    if format.is_some_and(|format| format != "date-time") {
        fields.remove("format");
    }
    if fields.get("type") == Some(&json!("integer")) {
        fields.insert("format".to_owned(), json!("int64"));
        fields.remove("maximum");
        fields.extend(most.map(|most| ("maximum".to_owned(), json!(most))));
    }
    if let Some(Value::String(text)) = fields.get_mut("description") {
        *text = flags_as_fields(&text.replace('\n', " ").replace('`', ""));
    }
    if let Some(Value::Object(properties)) = fields.get_mut("properties") {
        properties.values_mut().for_each(simplify);
    }
    for name in ["items", "additionalProperties"] {
        if let Some(one) = fields.get_mut(name) {
            simplify(one);
        }
    }
    let closed = fields.get("additionalProperties") == Some(&json!(false));
    if closed {
        fields.remove("additionalProperties");
    }
    let _: &Map<String, Value> = fields;
}
