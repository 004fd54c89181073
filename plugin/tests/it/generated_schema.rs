//! The JSON Schemas of the documents, generated from the types that are printed.
//!
//! `NODELIFE_UPDATE_DOCS=1 cargo test -p kubectl-nodelife --test it schema` writes docs/schema anew.

use std::path::PathBuf;

use nodelife_audit::{failure, nodes};
use nodelife_core::snapshot::{Clock, Snapshot, Source};
use nodelife_core::{API_VERSION, allocatable, shutdown, zone};
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

#[test]
fn the_schemas_in_docs_are_those_of_the_types() {
    for (kind, schema) in schemas() {
        let path = folder().join(format!("{kind}.json"));
        if std::env::var_os("NODELIFE_UPDATE_DOCS").is_some() {
            let text = serde_json::to_string_pretty(&schema).unwrap();
            std::fs::write(&path, text + "\n").unwrap();
        }
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        let written: Value = serde_json::from_str(&text).unwrap_or_default();
        assert_eq!(
            written,
            schema,
            "{} differs from its type: NODELIFE_UPDATE_DOCS=1 cargo test -p kubectl-nodelife --test it schema",
            path.display()
        );
    }
}

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../docs/schema")
}

fn schemas() -> [(&'static str, Value); 12] {
    [
        printed::<nodelife_audit::AuditReport>("AuditReport", "audit"),
        printed::<nodes::NodesReport>("NodesReport", "nodes"),
        printed::<allocatable::AllocatableReport>("AllocatableReport", "explain allocatable"),
        printed::<zone::ZoneReport>("ZoneReport", "explain zones"),
        printed::<failure::FailureTimeline>("FailureTimeline", "explain failure"),
        printed::<shutdown::ShutdownReport>("ShutdownReport", "explain shutdown"),
        printed::<nodelife_drain_plan::DrainPlan>("DrainPlan", "drain --dry-run"),
        printed::<nodelife_drain_plan::DrainReport>("DrainReport", "drain"),
        printed::<nodelife_drain_plan::DrainableReport>("DrainableReport", "drainable"),
        printed::<nodelife_drain_plan::rescue::RescueReport>("RescueReport", "rescue"),
        ("Snapshot", snapshot()),
        ("AuditConfig", audit_config()),
    ]
}

/// The schema of what a user writes.
fn audit_config() -> Value {
    let settings = SchemaSettings::draft2020_12().for_deserialize();
    let schema = settings
        .into_generator()
        .into_root_schema_for::<nodelife_audit::config::AuditConfig>();
    let mut schema = schema.to_value();
    tidy(&mut schema);
    let about = "What `kubectl nodelife audit` reads with `--config` or from `.nodelife.yaml`.";
    enveloped(schema, "AuditConfig", about)
}

/// The schema of what a command prints with `-o json`.
fn printed<T: JsonSchema>(kind: &'static str, command: &str) -> (&'static str, Value) {
    let settings = SchemaSettings::draft2020_12().for_serialize();
    let mut schema = settings
        .into_generator()
        .into_root_schema_for::<T>()
        .to_value();
    tidy(&mut schema);
    let about = format!("What `kubectl nodelife {command} -o json` prints.");
    (kind, enveloped(schema, kind, &about))
}

/// Adds what every document bears (`Document` of the plugin).
fn enveloped(mut schema: Value, kind: &str, about: &str) -> Value {
    schema["$schema"] = json!("https://json-schema.org/draft/2020-12/schema");
    schema["title"] = json!(kind);
    schema["description"] = json!(about);
    for (name, value) in [("apiVersion", API_VERSION), ("kind", kind)] {
        schema["properties"][name] = json!({"const": value});
        if let Some(required) = schema["required"].as_array_mut()
            && !required.contains(&json!(name))
        {
            required.push(json!(name));
        }
    }
    schema
}

/// No field but those that are named; no formats of Rust; no links of its documentation.
fn tidy(schema: &mut Value) {
    let Value::Object(fields) = schema else {
        return;
    };
    if fields.contains_key("properties") && !fields.contains_key("additionalProperties") {
        fields.insert("additionalProperties".to_owned(), json!(false));
    }
    if fields
        .get("format")
        .is_some_and(|format| format != "date-time")
    {
        fields.remove("format");
    }
    if fields.get("default") == Some(&Value::Null) {
        fields.remove("default");
    }
    if let Some(Value::String(text)) = fields.get_mut("description") {
        *text = text
            .replace("[`", "`")
            .replace("`]", "`")
            .replace('\n', " ");
    }
    for (name, value) in fields {
        match (name.as_str(), value) {
            ("properties" | "$defs", Value::Object(named)) => named.values_mut().for_each(tidy),
            ("oneOf" | "anyOf" | "allOf", Value::Array(all)) => all.iter_mut().for_each(tidy),
            ("items" | "additionalProperties", one) => tidy(one),
            _ => {}
        }
    }
}

/// A snapshot holds objects of Kubernetes, whose schemas are Kubernetes' own. Its fields are those
/// of a snapshot that lacks nothing.
fn snapshot() -> Value {
    let whole = Snapshot {
        taken_at: Some(jiff::Timestamp::UNIX_EPOCH),
        clock: Clock::Given,
        server_version: Some("v1.36.3".into()),
        missing: (Source::ALL.into_iter())
            .chain([Source::AllNodes, Source::AllPods])
            .map(|source| (source, "".into()))
            .collect(),
        kubelet_configs: [("".into(), allocatable::KubeletConfiguration::default())].into(),
        volumes: Some(Vec::new()),
        volume_attachments: Some(Vec::new()),
        csi_nodes: Some(Vec::new()),
        signing_requests: Some(Vec::new()),
        cluster_roles: Some(Vec::new()),
        cluster_role_bindings: Some(Vec::new()),
        events: Some(Vec::new()),
        autoscalers: Some(Vec::new()),
        node_authorizer: Some(nodelife_core::node_access::NodeAuthorizer::On),
        node_restriction: Some(nodelife_core::node_access::NodeRestriction::On),
        ..Snapshot::default()
    };
    let Value::Object(whole) = serde_json::to_value(&whole).unwrap() else {
        panic!("a snapshot is an object");
    };
    let mut properties: Map<String, Value> = whole
        .into_iter()
        .map(|(name, value)| {
            let schema = of_field(&name, &value);
            (name, schema)
        })
        .collect();
    let counts: Map<String, Value> = properties["missing"]["properties"]
        .as_object()
        .unwrap()
        .keys()
        .map(|source| (source.clone(), json!({"type": "integer", "minimum": 0})))
        .collect();
    properties.insert(
        "counts".to_owned(),
        json!({
            "type": "object", "properties": counts, "additionalProperties": false,
            "description": "How many of each are to come: a file that lost its end is known by it.",
        }),
    );
    let schema = json!({
        "type": "object",
        "properties": properties,
        "required": ["takenAt", "nodes", "leases", "pods", "budgets", "workloads"],
        "additionalProperties": false,
    });
    let about = "What `kubectl nodelife snapshot` writes and `-f` reads: objects of Kubernetes, of \
                 which only fields are kept that nodelife reads.";
    enveloped(schema, "Snapshot", about)
}

fn of_field(name: &str, value: &Value) -> Value {
    let objects =
        |kinds: &str| json!({"type": "array", "items": {"type": "object"}, "description": kinds});
    match name {
        "takenAt" => json!({
            "type": ["string", "null"], "format": "date-time",
            "description": "The API server's time when the lists were read; every age is judged by it.",
        }),
        "clock" => json!({
            "enum": ["apiServer", "given", "newestHeartbeat"],
            "description": "Whose time takenAt is; the API server's where it is not said.",
        }),
        "serverVersion" => json!({
            "type": "string", "description": "gitVersion of the API server.",
        }),
        "missing" => {
            let sources = value.as_object().unwrap().keys();
            let reason = json!({"type": "string"});
            let reasons: Map<String, Value> = sources
                .map(|source| (source.clone(), reason.clone()))
                .collect();
            json!({
                "type": "object", "properties": reasons, "additionalProperties": false,
                "description": "What could not be read, and why; what is not named was read in full.",
            })
        }
        "kubeletConfigs" => json!({
            "type": "object", "additionalProperties": {"type": "object"},
            "description": "KubeletConfiguration of kubelet.config.k8s.io/v1beta1, as configz gives it, by node name.",
        }),
        "nodeAuthorizer" => json!({
            "type": "object",
            "properties": {
                "state": {"enum": ["on", "off", "unknown"]},
                "allowedBy": {
                    "type": "string",
                    "description": "Reason of the authorizer that allowed the request first.",
                },
            },
            "required": ["state"],
            "additionalProperties": false,
            "description": "Whether the Node authorizer is on.",
        }),
        "nodeRestriction" => json!({
            "type": "object",
            "properties": {
                "state": {"enum": ["on", "off"]},
                "deniedBy": {
                    "type": "string",
                    "description": "Webhook or policy that denied the request instead.",
                },
            },
            "required": ["state"],
            "additionalProperties": false,
            "description": "Whether the admission plugin NodeRestriction is on.",
        }),
        "nodes" => objects("Node"),
        "leases" => objects("Lease of kube-node-lease"),
        "pods" => objects("Pod"),
        "budgets" => objects("PodDisruptionBudget"),
        "workloads" => objects("Controllers of pods, each with its kind"),
        "volumes" => objects("PersistentVolume; absent where they were not read"),
        "volumeAttachments" => objects("VolumeAttachment; absent where they were not read"),
        "csiNodes" => objects("CSINode; absent where they were not read"),
        "signingRequests" => objects("CertificateSigningRequest; absent where they were not read"),
        "clusterRoles" => objects("ClusterRole; absent where they were not read"),
        "clusterRoleBindings" => objects("ClusterRoleBinding; absent where they were not read"),
        "events" => objects("Events about nodes; absent where they were not read"),
        "autoscalers" => objects("HorizontalPodAutoscaler; absent where they were not read"),
        other => panic!("say in this match what {other} is"),
    }
}
