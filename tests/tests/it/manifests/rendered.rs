//! Tests of the manifests without an API server: the committed files are up to date.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use nodelife_admission::{Mode, Policies, webhook_configurations};
use nodelife_tests::installation::{NODE_RESTRICTION, manifests};
use nodelife_tests::program::GoProgram;
use serde_json::{Value, json};

use super::{folders, render};

/// What manifests/render makes.
const RENDERED: [&str; 3] = [
    "install.yaml",
    "chart/templates/nodelife.yaml",
    "chart/templates/controller.yaml",
];

#[test]
fn the_rendered_files_equal_the_manifests() {
    let folder = tempfile::tempdir().unwrap();
    let status = Command::new(manifests().join("render"))
        .arg(folder.path())
        .env("KUBECTL", GoProgram::Kubectl.path().unwrap())
        .status()
        .unwrap();
    assert!(status.success());
    for file in RENDERED {
        let written = fs::read_to_string(manifests().join(file)).unwrap();
        let rendered = fs::read_to_string(folder.path().join(file)).unwrap();
        assert!(
            rendered == written,
            "manifests/{file} is out of date: run manifests/render"
        );
    }
}

/// The webhook configurations in `text`, by kind and name, without further metadata.
fn configurations(objects: impl IntoIterator<Item = Value>) -> Vec<(String, Value)> {
    let webhooks = objects.into_iter().filter(|one| {
        let kind = one["kind"].as_str().unwrap();
        kind.ends_with("WebhookConfiguration")
    });
    let mut all: Vec<(String, Value)> = webhooks
        .map(|one| {
            // Its removal selects by this label, and a server-side apply of one needs it as well.
            let labels = &one["metadata"]["labels"];
            assert_eq!(labels["app.kubernetes.io/name"], "nodelife", "{one}");
            let name = format!("{} {}", one["kind"], one["metadata"]["name"]);
            (name, one["webhooks"].clone())
        })
        .collect();
    all.sort_by(|one, other| one.0.cmp(&other.0));
    all
}

/// What the API server sends is one with what the engine decides: the manifests hold the
/// rules and the filters that the code makes of the policies.
#[test]
fn the_webhooks_are_those_of_the_policies() {
    let policies = |overlay: &str| -> Policies {
        let file = manifests().join(overlay).join("config.yaml");
        let text = fs::read_to_string(file).unwrap();
        let mut config: Value = serde_saphyr::from_str(&text).unwrap();
        let fields = config.as_object_mut().unwrap();
        fields.remove("apiVersion");
        fields.remove("kind");
        serde_json::from_value(config).unwrap()
    };
    let (agents, default) = (policies("overlays/agents"), policies("."));
    assert_eq!(agents.agents, default.agents);
    let drains = policies("overlays/drain-safety");
    let expected = Policies {
        drain_safety: Mode::Warn,
        ..default.clone()
    };
    assert_eq!(drains, expected);
    for (folder, policies) in [
        (".", default),
        ("overlays/drain-safety", drains),
        (NODE_RESTRICTION, Policies::default()),
        ("overlays/agents", agents),
    ] {
        let text = render(folder);
        let written = text
            .split("\n---\n")
            .map(|one| -> Value { serde_saphyr::from_str(one).unwrap() });
        assert_eq!(
            configurations(written),
            configurations(webhook_configurations(&policies)),
            "{folder}: compare with `nodelife-webhook export`"
        );
    }
}

/// A webhook cannot be removed from a configuration by a server-side apply, since `certs` owns its
/// caBundle.
#[test]
fn every_configuration_has_one_webhook() {
    for folder in folders() {
        let text = render(&folder);
        let written = text
            .split("\n---\n")
            .map(|one| -> Value { serde_saphyr::from_str(one).unwrap() });
        for (name, webhooks) in configurations(written) {
            assert_eq!(webhooks.as_array().unwrap().len(), 1, "{folder}: {name}");
        }
    }
}

/// Without the rule, `certs` could not write a caBundle. (A generated `ConfigMap` of the same name
/// once took the roles' resourceNames with it.)
#[test]
fn every_overlay_gives_certs_the_configurations_by_name() {
    let names = [
        "nodelife-webhook",
        "nodelife-exempt-tokens",
        "nodelife-labelled-tokens",
        "nodelife-tolerations",
        "nodelife-agents",
        "nodelife-drain-safety",
    ];
    for folder in folders() {
        let text = render(&folder);
        let documents = text
            .split("\n---\n")
            .map(|one| -> Value { serde_saphyr::from_str(one).unwrap() });
        let rules: Vec<Value> = documents
            .filter(|one| {
                one["kind"] == "ClusterRole" && one["metadata"]["name"] == "nodelife-certs"
            })
            .flat_map(|one| one["rules"].as_array().unwrap().clone())
            .filter(|rule| rule["apiGroups"] == json!(["admissionregistration.k8s.io"]))
            .collect();
        // The overlays without certs have no such rule.
        for rule in rules {
            assert_eq!(rule["resourceNames"], json!(names), "{folder}");
        }
    }
}

#[test]
fn nothing_holds_a_ca_bundle_or_a_secret() {
    for folder in folders() {
        let text = render(&folder);
        assert!(
            !text.contains("caBundle:"),
            "{folder} would empty the caBundle"
        );
        assert!(
            !text.contains("kind: Secret\n"),
            "{folder} would overwrite a Secret"
        );
    }
}

/// What a patch gives one of two containers, the other needs as well.
#[test]
fn both_containers_of_the_webhook_are_equal() {
    for folder in folders().into_iter().chain(["chart/source".to_owned()]) {
        let text = render(&folder);
        let deployments = text
            .split("\n---\n")
            .map(|one| -> Value { serde_saphyr::from_str(one).unwrap() })
            .filter(|one| one["kind"] == "Deployment");
        let webhook = deployments
            .into_iter()
            .find(|one| one["metadata"]["name"] == "nodelife-webhook");
        let Some(webhook) = webhook else {
            assert_eq!(folder, "controller");
            continue;
        };
        let containers = &webhook["spec"]["template"]["spec"]["containers"];
        let containers = containers.as_array().unwrap();
        let shares = |one: &Value| {
            one["args"]
                .as_array()
                .unwrap()
                .contains(&json!("--share-port"))
        };
        if folder == "overlays/host-network" {
            assert_eq!(containers.len(), 1);
            assert!(!shares(&containers[0]));
            continue;
        }
        let [first, second] = &containers[..] else {
            panic!("{folder}: {containers:?}")
        };
        assert!(shares(first), "{folder}");
        assert_eq!(second["name"], "webhook-2", "{folder}");
        let plain = |one: &Value| {
            let mut one = one.clone();
            let fields = one.as_object_mut().unwrap();
            fields.remove("name");
            fields.remove("ports");
            for probe in ["livenessProbe", "readinessProbe"] {
                fields[probe]["httpGet"]["port"].take();
            }
            let arguments = fields["args"].as_array_mut().unwrap();
            arguments.retain(|one| *one != "--health-listen=[::]:8082");
            one
        };
        assert_eq!(plain(first), plain(second), "{folder}");
        let health = json!([{"name": "health-2", "containerPort": 8082}]);
        assert_eq!(second["ports"], health, "{folder}");
        for probe in ["livenessProbe", "readinessProbe"] {
            assert_eq!(first[probe]["httpGet"]["port"], "health", "{folder}");
            assert_eq!(second[probe]["httpGet"]["port"], "health-2", "{folder}");
        }
    }
}

#[test]
fn the_manifests_run_the_images() {
    let read = |file: &str| fs::read_to_string(manifests().join(file)).unwrap();
    let containerfile = read("../Containerfile");
    let users = containerfile
        .lines()
        .filter_map(|line| line.strip_prefix("USER "));
    let users: BTreeSet<&str> = users.collect();
    assert_eq!(users.len(), 1);
    let (user, group) = users.first().unwrap().split_once(':').unwrap();
    for file in [
        "base/webhook.yaml",
        "base/certs.yaml",
        "controller/controller.yaml",
        "audit/cronjob.yaml",
    ] {
        let pod = read(file);
        assert!(pod.contains(&format!("runAsUser: {user}\n")), "{file}");
        assert!(pod.contains(&format!("runAsGroup: {group}\n")), "{file}");
    }
    let version = env!("CARGO_PKG_VERSION");
    // What is copied passes the list of what is sent to the build at all.
    let mut sent = "*\n".to_owned();
    for (name, folder) in [
        ("kubectl-nodelife", "audit"),
        ("nodelife-controller", "controller"),
        ("nodelife-webhook", "base"),
    ] {
        let kustomization = read(&format!("{folder}/kustomization.yaml"));
        let image = format!("  - name: {name}\n    newTag: {version}\n");
        assert!(kustomization.contains(&image), "{kustomization}");
        assert!(containerfile.contains(&format!("{name}:{version} ")));
        let copied = format!("target/${{TARGET}}/release/{name}");
        assert!(containerfile.contains(&format!("COPY --chmod=755 {copied} /{name}\n")));
        sent.extend(["!", &copied.replace("${TARGET}", "*"), "\n"]);
    }
    assert_eq!(read("../.containerignore"), sent);
}
