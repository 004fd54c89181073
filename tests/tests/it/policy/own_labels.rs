//! Tests of the rule `ownLabels` against a real API server: by the webhook with its own filters, and by
//! the exported policies.

use nodelife_tests::installation::NODE_RESTRICTION;
use nodelife_tests::kubectl::run;
use nodelife_tests::{ControlPlane, Installation, program, until};
use serde_json::{Value, json};

use super::{Call, PATIENT, install, is_called, make};

const POLICIES: &str = "apiVersion: nodelife.dev/v1alpha1
kind: WebhookConfig
tolerations: {enabled: false}
nodeRestriction:
  mode: \"off\"
  modes: {ownLabels: enforce}
  ownLabels: [team, example.com/]
";
const OWN: &str = "/api/v1/nodes/own";

/// What every kubelet sets, two labels that are listed and one that is not.
fn labels() -> Value {
    json!({"kubernetes.io/hostname": "own", "kubernetes.io/os": "linux", "team": "a",
        "example.com/x": "a", "zone": "a"})
}

/// What the kubelet of the node `own` changes, and the labels that it may not write.
fn changes(own: &Value) -> Vec<(Call, &'static str)> {
    let mut calls = Vec::new();
    for (change, refused) in [
        (json!({"zone": "b"}), "zone"),
        (json!({"zone": null}), "zone"),
        (json!({"rack": "b", "team": "b"}), "rack"),
        (json!({"rack": "b", "zone": null}), "rack, zone"),
        // NodeRestriction lets a node write these.
        (
            json!({"topology.kubernetes.io/zone": "b"}),
            "topology.kubernetes.io/zone",
        ),
        (
            json!({"node.kubernetes.io/instance-type": "b"}),
            "node.kubernetes.io/instance-type",
        ),
        (json!({"team": null}), ""),
        (
            json!({"team": "b", "example.com/x": null, "example.com/y": "b"}),
            "",
        ),
        (
            json!({"kubernetes.io/arch": "amd64", "beta.kubernetes.io/os": "linux"}),
            "",
        ),
        (json!({}), ""),
    ] {
        let body = json!({"metadata": {"labels": change}, "status": {"phase": "Running"}});
        let mut object = own.clone();
        for (key, value) in change.as_object().unwrap() {
            let labels = object["metadata"]["labels"].as_object_mut().unwrap();
            match value {
                Value::Null => drop(labels.remove(key)),
                value => drop(labels.insert(key.clone(), value.clone())),
            }
        }
        for path in [OWN.to_owned(), format!("{OWN}/status")] {
            for kind in ["merge-patch", "strategic-merge-patch"] {
                calls.push((Call::patch_as(kind, &path, body.clone()), refused));
            }
            calls.push((Call::new("PUT", &path, object.clone()), refused));
        }
    }
    let all = json!([{"op": "remove", "path": "/metadata/labels"}]);
    calls.push((Call::patch_as("json-patch", OWN, all), "zone"));
    let applied = json!({"apiVersion": "v1", "kind": "Node",
        "metadata": {"name": "own", "labels": {"rack": "b"}}});
    calls.push((Call::apply(OWN, applied), "rack"));
    calls
}

/// A registration with more labels than those of every kubelet.
fn registration(more: &[(&str, &str)]) -> Call {
    let mut labels = labels();
    labels.as_object_mut().unwrap().remove("zone");
    for (key, value) in more {
        labels[*key] = json!(value);
    }
    let node = json!({"metadata": {"name": "new", "labels": labels}});
    Call::new("POST", "/api/v1/nodes", node).dry()
}

/// The verdicts while the rule is on. Nothing is stored.
async fn is_held(plane: &ControlPlane, remedy: &str) {
    let admin = plane.admin().await.unwrap();
    let own = Call::new("GET", OWN, Value::Null);
    let own = own.send(&admin).await.unwrap().body;
    let kubelet = plane.node("own").await.unwrap();
    for (call, refused) in changes(&own) {
        let call = call.dry();
        let response = call.send(&kubelet).await.unwrap();
        if refused.is_empty() {
            assert_eq!(response.code, 200, "{call:?} {response:?}");
            continue;
        }
        assert_eq!(response.code, 403, "{call:?} {response:?}");
        let sentence = format!("node \"own\" cannot write the labels: {refused}{remedy}");
        assert!(
            response.message.contains(&sentence),
            "{call:?} {response:?}"
        );
        // Who administers the cluster is not asked.
        let response = call.send(&admin).await.unwrap();
        assert_eq!(response.code, 200, "{call:?} {response:?}");
    }
    let other = Call::patch(
        "/api/v1/nodes/other",
        json!({"metadata": {"labels": {"team": "b"}}}),
    );
    let response = other.dry().send(&kubelet).await.unwrap();
    assert_eq!(response.code, 403, "{response:?}");
    let sentence = "node \"own\" is not allowed to modify node \"other\"";
    assert!(response.message.contains(sentence), "{response:?}");

    let kubelet = plane.node("new").await.unwrap();
    let response = registration(&[]).send(&kubelet).await.unwrap();
    assert_eq!(response.code, 201, "{response:?}");
    let response = registration(&[("zone", "a")]).send(&kubelet).await.unwrap();
    assert_eq!(response.code, 403, "{response:?}");
    assert!(
        response.message.contains("cannot write the labels: zone"),
        "{response:?}"
    );
}

/// What `export` prints for the configuration, applied.
async fn export(installation: &Installation<'_>, config: &str, words: &[&str]) {
    let mut export = tokio::process::Command::new(program::webhook().unwrap());
    export.args(["export", "--config", config]).args(words);
    let exported = run(export, "").await.unwrap().success().unwrap();
    let patient = format!("timeoutSeconds: {PATIENT}");
    let exported = exported.replace("timeoutSeconds: 2", &patient);
    let apply = ["apply", "--server-side", "--force-conflicts", "-f", "-"];
    let applied = run(installation.kubectl.command(apply), &exported).await;
    applied.unwrap().success().unwrap();
}

#[tokio::test]
async fn a_node_writes_only_the_labels_that_are_listed() {
    let plane = ControlPlane::options().start().await.unwrap();
    let admin = plane.admin().await.unwrap();
    let node = |name: &str| json!({"metadata": {"name": name, "labels": labels()}});
    let nodes = ["own", "other"].map(|name| ("/api/v1/nodes", node(name)));
    make(&admin, &nodes).await;
    let config = plane.folder().join("own-labels.yaml");
    std::fs::write(&config, POLICIES).unwrap();
    let config = config.display().to_string();
    let installation = Installation::prepare(&plane, NODE_RESTRICTION)
        .await
        .unwrap();
    let installation = installation.timeout(PATIENT).unwrap();

    let label = |key: &str| Call::patch(OWN, json!({"metadata": {"labels": {key: "b"}}})).dry();
    let probe = label("rack").by_node("own");
    install(&installation).await.unwrap();
    let replica = installation
        .replica(None, &["--config", &config])
        .await
        .unwrap();

    // The default filters let a node's own labels pass; the rule needs its own.
    let response = probe.send(&admin).await.unwrap();
    assert_eq!(response.code, 200, "{response:?}");
    let webhook = ["--webhook", "node-restriction.nodelife.dev"];
    export(&installation, &config, &webhook).await;
    is_called(&plane, &probe).await.unwrap();
    let remedy =
        " (nodelife: set them as an administrator, or list them in nodeRestriction.ownLabels";
    is_held(&plane, remedy).await;

    // Listed labels and a heartbeat cost no call.
    let kubelet = plane.node("own").await.unwrap();
    let before = replica.requests("validate").await.unwrap();
    let ready = json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}});
    let heartbeat = Call::patch(format!("{OWN}/status"), ready).dry();
    for call in [heartbeat, label("team"), label("kubernetes.io/os")] {
        let response = call.send(&kubelet).await.unwrap();
        assert_eq!(response.code, 200, "{response:?}");
    }
    assert_eq!(replica.requests("validate").await.unwrap(), before);

    let webhooks = "validatingwebhookconfigurations,mutatingwebhookconfigurations";
    let gone = installation.kubectl.run(["delete", webhooks, "--all"]);
    gone.await.unwrap().success().unwrap();
    until("no webhook", async || {
        let response = probe.send(&admin).await?;
        Ok((response.code == 200).then_some(()))
    })
    .await;
    export(&installation, &config, &["--as", "policies"]).await;
    until("the policies' verdicts", async || {
        let response = probe.send(&admin).await?;
        let is_by_policy = response.message.contains("ValidatingAdmissionPolicy");
        anyhow::ensure!(is_by_policy, "{response:?}");
        Ok(Some(()))
    })
    .await;
    is_held(&plane, "").await;
}
