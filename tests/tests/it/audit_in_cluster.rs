//! Tests of manifests/audit: a CronJob that audits the nodes with exactly its ClusterRole.

use std::collections::BTreeSet;
use std::fs;

use k8s_openapi::api::authentication::v1::TokenRequest;
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::api::{Api, PostParams};
use nodelife_tests::fixture::NodeFixture;
use nodelife_tests::installation::manifests;
use nodelife_tests::kubectl::{Kubectl, run};
use nodelife_tests::{AuditEvent, ControlPlane, Identity, Part, program, until};
use serde_json::Value;
use tokio::process::Command;

/// The name of every object of the manifests.
const NAME: &str = "nodelife-audit";
const USER: &str = "system:serviceaccount:nodelife-audit:nodelife-audit";

#[tokio::test]
async fn the_cron_job_audits_with_exactly_its_cluster_role() {
    let plane = ControlPlane::options()
        .with(Part::ControllerManager)
        .start()
        .await
        .unwrap();
    let kubectl = Kubectl::new(&plane, &Identity::Admin).unwrap();
    let admin = plane.admin().await.unwrap();
    NodeFixture::new("worker").create(&admin).await.unwrap();
    apply_strictly(&kubectl).await;
    let pod = pod_of_a_job(&kubectl).await;

    let spec = &pod["spec"];
    assert_eq!(spec["serviceAccountName"], NAME);
    let arguments = spec["containers"][0]["args"].as_array().unwrap();
    let arguments = arguments.iter().map(|word| word.as_str().unwrap());
    let folder = tempfile::tempdir().unwrap();
    let mounted = mount(&kubectl, &pod, folder.path().to_str().unwrap()).await;
    let arguments: Vec<String> = arguments
        .map(|word| word.replace(&mounted.0, &mounted.1))
        .collect();

    let accounts: Api<ServiceAccount> = Api::namespaced(admin, NAME);
    let (options, request) = (PostParams::default(), TokenRequest::default());
    let issued = accounts.create_token_request(NAME, &options, &request);
    let status = issued.await.unwrap().status;
    let token = status.and_then(|status| status.token).unwrap();
    let kubeconfig = plane.kubeconfig_file(&Identity::Token(token)).unwrap();
    let mut audit = Command::new(program::nodelife().unwrap());
    audit
        .env_clear()
        .env("KUBECONFIG", kubeconfig)
        .args(&arguments);
    let output = run(audit, "").await.unwrap();
    assert_eq!(output.status, Some(0), "{}", output.stderr);
    assert!(output.stdout.contains("node/worker"), "{}", output.stdout);
    assert!(!output.stderr.contains("forbidden"), "{}", output.stderr);

    let events = plane.audit_events().unwrap();
    let ours: Vec<&AuditEvent> = events
        .iter()
        .filter(|event| event.username() == USER)
        .collect();
    let refused: Vec<_> = ours.iter().filter(|event| event.code() >= 400).collect();
    assert!(refused.is_empty(), "{refused:?}");
    let used: BTreeSet<Right> = ours.iter().filter_map(|event| right(event)).collect();
    assert_eq!(used, granted(&kubectl).await);
}

/// Applies the manifests, once in a dry run and once in earnest.
async fn apply_strictly(kubectl: &Kubectl) {
    let folder = manifests().join("audit");
    // A dry run stores no namespace for the objects after it.
    let namespace = fs::read_to_string(folder.join("namespace.yaml")).unwrap();
    kubectl.apply(&namespace).await.unwrap();
    let folder = folder.to_str().unwrap();
    for dry_run in ["--dry-run=server", "--dry-run=none"] {
        let words = ["apply", dry_run, "--validate=strict", "-k", folder];
        let output = kubectl.run(words).await.unwrap();
        // Warnings are how Pod Security speaks of a CronJob.
        assert!(!output.stderr.contains("Warning"), "{}", output.stderr);
        output.success().unwrap();
    }
    // The authorizer learns of the binding a moment after it was stored.
    let may = ["auth", "can-i", "list", "nodes", "--as", USER];
    until("the binding to be in force", async || {
        let said = kubectl.run(may).await?;
        Ok((said.status == Some(0)).then_some(()))
    })
    .await;
}

/// The pod that the Job's controller makes, and Pod Security admits.
async fn pod_of_a_job(kubectl: &Kubectl) -> Value {
    let from = format!("--from=cronjob/{NAME}");
    let create = ["create", "job", "now", &from, "-n", NAME];
    kubectl.run(create).await.unwrap().success().unwrap();
    until("the pod of the Job", async || {
        let pods = get(kubectl, &["pods", "-l", "job-name=now"]).await;
        Ok(pods["items"].get(0).cloned())
    })
    .await
}

/// Writes the pod's `ConfigMap` to a folder, as the kubelet does. Its place in the pod, and here.
async fn mount(kubectl: &Kubectl, pod: &Value, folder: &str) -> (String, String) {
    let mounts = pod["spec"]["containers"][0]["volumeMounts"]
        .as_array()
        .unwrap();
    let config = mounts
        .iter()
        .find(|mount| mount["name"] == "config")
        .unwrap();
    let volumes = pod["spec"]["volumes"].as_array().unwrap();
    let volume = volumes
        .iter()
        .find(|volume| volume["name"] == "config")
        .unwrap();
    let map = volume["configMap"]["name"].as_str().unwrap();
    let map = get(kubectl, &["configmap", map]).await;
    for (file, text) in map["data"].as_object().unwrap() {
        fs::write(format!("{folder}/{file}"), text.as_str().unwrap()).unwrap();
    }
    (
        config["mountPath"].as_str().unwrap().to_owned(),
        folder.to_owned(),
    )
}

/// Group, resource and verb.
type Right = (String, String, String);

/// The right that a request needs; none if everybody has it (`system:basic-user`).
fn right(event: &AuditEvent) -> Option<Right> {
    let object = event.object_ref.as_ref()?;
    if object.resource.starts_with("selfsubject") {
        return None;
    }
    let mut path = event.request_uri.split('/').skip(1);
    let group = match path.next()? {
        "apis" => path.next()?,
        _ => "",
    };
    Some((
        group.to_owned(),
        object.resource.clone(),
        event.verb.clone(),
    ))
}

/// What the ClusterRole grants.
async fn granted(kubectl: &Kubectl) -> BTreeSet<Right> {
    let role = get(kubectl, &["clusterrole", NAME]).await;
    let mut granted = BTreeSet::new();
    for rule in role["rules"].as_array().unwrap() {
        let words = |field: &str| -> Vec<String> {
            let words = rule[field].as_array().unwrap().iter();
            words
                .map(|word| word.as_str().unwrap().to_owned())
                .collect()
        };
        for group in words("apiGroups") {
            for resource in words("resources") {
                for verb in words("verbs") {
                    granted.insert((group.clone(), resource.clone(), verb));
                }
            }
        }
    }
    granted
}

async fn get(kubectl: &Kubectl, what: &[&str]) -> Value {
    let words = [&["get", "-n", NAME, "-o", "json"], what].concat();
    let text = kubectl.run(words).await.unwrap().success().unwrap();
    serde_json::from_str(&text).unwrap()
}
