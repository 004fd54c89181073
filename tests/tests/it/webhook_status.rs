//! Tests of `kubectl nodelife webhook status` on a real installation, with one broken component at
//! a time.

use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, Patch, PatchParams};
use nodelife_tests::fixture::NodeFixture;
use nodelife_tests::installation::{NAMESPACE, Replica, TLS_SECRET, WEBHOOK};
use nodelife_tests::kubectl::Output;
use nodelife_tests::pki::{KeyAndCertificate, TestCa};
use nodelife_tests::supervise::tail;
use nodelife_tests::{ControlPlane, Installation, TIMEOUT, until, wait_until};
use serde_json::{Value, json};

use crate::monitoring::API_SERVER;
use crate::rotation::publish;

/// The replica's pod, on the node `a`.
const POD: &str = "webhook-a";

fn replica_pod() -> Value {
    let restricted = json!({"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}});
    let container = json!({"name": "c", "image": "i", "securityContext":
        {"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}}});
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": POD, "namespace": NAMESPACE,
            "labels": {"app.kubernetes.io/name": "nodelife", "app.kubernetes.io/component": "webhook"}},
        "spec": {"nodeName": "a", "securityContext": restricted, "containers": [container]}})
}

#[tokio::test]
async fn each_planted_fault_is_named() {
    let plane = ControlPlane::options().start().await.unwrap();
    let installation = Installation::prepare(&plane, "overlays/fail-closed")
        .await
        .unwrap();
    let here = Here {
        installation: &installation,
    };
    // What the controllers would make.
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount",
        "metadata": {"name": "default", "namespace": "default"}});
    installation
        .kubectl
        .apply(&account.to_string())
        .await
        .unwrap();
    here.restore().await;
    let kubectl = &installation.kubectl;
    kubectl.apply(&replica_pod().to_string()).await.unwrap();
    let replica = installation.replica(None, &[]).await.unwrap();
    here.sound().await;

    here.kubectl(&["delete", "endpointslice", WEBHOOK, "-n", NAMESPACE])
        .await;
    here.finds("endpoints", "BROKEN", "no ready endpoint").await;
    here.finds("failurePolicy", "warning", "not advised").await;
    here.restore().await;

    here.does_not_start().await;

    here.slice(["a", "a"]).await;
    here.finds("spread", "warning", "all 2 ready replicas run on one node")
        .await;
    here.finds("failurePolicy", "warning", "(spread)").await;
    here.restore().await;

    here.registration().await;

    let everywhere = r#"[{"op": "replace", "path": "/webhooks/0/namespaceSelector", "value": {}}]"#;
    let configuration = "mutatingwebhookconfiguration/nodelife-webhook";
    here.kubectl(&["patch", configuration, "--type=json", "-p", everywhere])
        .await;
    here.finds("exemption", "BROKEN", "own namespace not exempt")
        .await;
    here.restore().await;

    // A network plugin in a namespace of its own.
    let flannel = [
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kube-flannel"}}),
        daemon_set("kube-flannel", "kube-flannel-ds"),
        daemon_set("kube-system", "kube-proxy"),
    ];
    for object in flannel {
        let kubectl = &installation.kubectl;
        kubectl.apply(&object.to_string()).await.unwrap();
    }
    let agent = here
        .finds("nodeAgents", "warning", "kube-flannel/kube-flannel-ds")
        .await;
    assert!(!agent.to_string().contains("kube-proxy"), "{agent}");
    here.finds("failurePolicy", "warning", "(nodeAgents)").await;
    here.kubectl(&[
        "label",
        "namespace",
        "kube-flannel",
        "nodelife.dev/webhook=exempt",
    ])
    .await;
    here.sound().await;

    here.patch("replace", "/webhooks/0/clientConfig/caBundle", json!(""))
        .await;
    here.finds("caBundle", "BROKEN", "empty in").await;
    here.restore().await;

    // A Secret that somebody else made.
    let foreign = TestCa::new().unwrap();
    let leaf = foreign
        .server(&["nodelife-webhook.nodelife-system.svc"], &[])
        .unwrap();
    here.store(&leaf).await;
    here.finds("certificate", "BROKEN", "wrong CA").await;
    here.restore().await;

    // Nobody has renewed them.
    let leaf = foreign
        .expired_server("nodelife-webhook.nodelife-system.svc")
        .unwrap();
    here.store(&leaf).await;
    installation.inject(&foreign.certificate()).await.unwrap();
    here.finds("certificate", "BROKEN", "expired at").await;
    here.kubectl(&["delete", "secret", TLS_SECRET, "-n", NAMESPACE])
        .await;
    here.finds("certificate", "BROKEN", "there is no Secret")
        .await;
    here.restore().await;

    let binding = "clusterrolebinding/nodelife-webhook";
    here.kubectl(&["delete", binding]).await;
    here.finds("lookup", "BROKEN", "failed calling webhook")
        .await;
    here.restore().await;

    // The endpoints look well, and nobody listens: only a real call tells.
    here.sound().await;
    let Replica { program, .. } = replica;
    program.kill().await.unwrap();
    here.finds("call", "BROKEN", "unreachable").await;
    let advice = here
        .finds("failurePolicy", "warning", "(call, lookup)")
        .await;
    here.frees_the_cluster(&plane, &advice).await;
}

/// As network plugins and kube-proxy install it.
fn daemon_set(namespace: &str, name: &str) -> Value {
    json!({
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {
                    "hostNetwork": true,
                    "priorityClassName": "system-node-critical",
                    "tolerations": [{"operator": "Exists", "effect": "NoSchedule"}],
                    "containers": [{"name": "c", "image": "i"}],
                },
            },
        },
    })
}

/// The default registers agents alone: it is complete, but no substitute for the in-tree plugin.
#[tokio::test]
async fn the_default_is_complete_and_restricts_no_node() {
    let plane = ControlPlane::options().without_admission("NodeRestriction");
    let plane = plane.start().await.unwrap();
    let installation = Installation::prepare(&plane, ".").await.unwrap();
    let here = Here {
        installation: &installation,
    };
    let unrestricted = "no webhook of ours restricts nodes";
    here.finds("configurations", "BROKEN", "is not installed")
        .await;
    here.finds("nodeRestriction", "warning", unrestricted).await;
    here.restore().await;
    here.finds("nodeRestriction", "warning", unrestricted).await;
    let (_, report) = here.status().await.unwrap();
    let links = report["links"].as_array().unwrap();
    for name in ["configurations", "caBundle", "certificate", "registration"] {
        let link = links.iter().find(|one| one["name"] == name).unwrap();
        assert_eq!(link["health"], "ok", "{report}");
    }
}

struct Here<'a> {
    installation: &'a Installation<'a>,
}

impl Here<'_> {
    async fn kubectl(&self, words: &[&str]) {
        let output = self.installation.kubectl.run(words).await.unwrap();
        output.success().unwrap();
    }

    async fn patch(&self, operation: &str, pointer: &str, value: Value) {
        let mut one = json!({"op": operation, "path": pointer});
        if !value.is_null() {
            one["value"] = value;
        }
        let patch = json!([one]);
        self.installation.patch_validating(&patch).await.unwrap();
    }

    /// A replica whose image cannot be pulled, as its kubelet would say, and then one without a node.
    async fn does_not_start(&self) {
        let message = "Back-off pulling image \"nodelife-webhook:0.1.0\"";
        let waits = json!({"reason": "ImagePullBackOff", "message": message});
        let unscheduled = json!({"type": "PodScheduled", "status": "False", "reason": "Unschedulable",
            "message": "0/3 nodes are available"});
        let container = json!({"name": "c", "image": "i", "imageID": "", "ready": false, "restartCount": 0,
            "state": {"waiting": waits}});
        let pods: Api<Pod> = Api::namespaced(self.installation.admin.clone(), NAMESPACE);
        for (status, words) in [
            (
                json!({"containerStatuses": [container]}),
                "does not start: ImagePullBackOff: Back-off",
            ),
            (
                json!({"containerStatuses": [], "conditions": [unscheduled]}),
                "Unschedulable: 0/3 nodes",
            ),
        ] {
            let patch = Patch::Merge(json!({"status": status}));
            pods.patch_status(POD, &PatchParams::default(), &patch)
                .await
                .unwrap();
            self.finds("pods", "BROKEN", words).await;
            let (_, report) = self.status().await.unwrap();
            assert_eq!(report["links"][0]["name"], "pods", "{report}");
        }
        let started = Patch::Merge(json!({"status": {"conditions": []}}));
        pods.patch_status(POD, &PatchParams::default(), &started)
            .await
            .unwrap();
    }

    /// Endpoints on these nodes, as the controllers would write them.
    async fn slice(&self, nodes: [&str; 2]) {
        let endpoints: Vec<_> = nodes
            .iter()
            .enumerate()
            .map(|(index, node)| {
                json!({"addresses": [format!("10.0.0.{}", index + 1)], "nodeName": node,
                    "targetRef": {"kind": "Pod", "name": POD, "namespace": NAMESPACE},
                    "conditions": {"ready": true}})
            })
            .collect();
        let slice = json!({
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": {"name": WEBHOOK, "namespace": NAMESPACE,
                "labels": {"kubernetes.io/service-name": WEBHOOK}},
            "addressType": "IPv4",
            "endpoints": endpoints,
            "ports": [{"name": "webhook", "port": 9443}],
        });
        let kubectl = &self.installation.kubectl;
        kubectl.apply(&slice.to_string()).await.unwrap();
    }

    async fn store(&self, leaf: &KeyAndCertificate) {
        let data = json!({"stringData": {"tls.crt": leaf.certificate, "tls.key": leaf.key}});
        let data = data.to_string();
        self.kubectl(&["patch", "secret", TLS_SECRET, "-n", NAMESPACE, "-p", &data])
            .await;
    }

    /// Mends everything but the replica.
    async fn restore(&self) {
        self.installation.apply().await.unwrap();
        let mut certs = self.installation.certs(&["--once"]).await.unwrap();
        let ended = certs.wait(TIMEOUT).await.unwrap();
        assert_eq!(ended, 0, "{}", tail(certs.log()));
        self.slice(["a", "b"]).await;
    }

    /// Somebody changes what the API server sends.
    async fn registration(&self) {
        self.patch("remove", "/webhooks/0/matchConditions", Value::Null)
            .await;
        self.finds("registration", "BROKEN", "matchConditions lacks is-node")
            .await;
        self.restore().await;

        // As AKS' admissions enforcer does.
        let enforced =
            json!({"matchExpressions": [{"key": "control-plane", "operator": "DoesNotExist"}]});
        let selector = "/webhooks/0/namespaceSelector";
        self.patch("replace", selector, enforced).await;
        let link = self
            .finds("registration", "BROKEN", "adds control-plane DoesNotExist")
            .await;
        assert!(
            link.to_string().contains("admissions.enforcer/disabled"),
            "{link}"
        );
        self.patch("replace", selector, json!({})).await;

        self.patch("replace", "/webhooks/0/timeoutSeconds", json!(30))
            .await;
        self.finds(
            "registration",
            "warning",
            "timeoutSeconds is 30 instead of 2",
        )
        .await;
        self.restore().await;
    }

    async fn status(&self) -> anyhow::Result<(Output, Value)> {
        let words = ["nodelife", "webhook", "status", "-o", "json"];
        let output = self.installation.kubectl.run(words).await?;
        let report = serde_json::from_str(&output.stdout)?;
        Ok((output, report))
    }

    /// Nothing is wrong, and the real call was answered.
    async fn sound(&self) {
        until("a sound installation", async || {
            let (output, report) = self.status().await?;
            anyhow::ensure!(output.status == Some(0), "{report}");
            let links = report["links"].as_array().unwrap();
            let well = links.iter().all(|one| one["health"] == "ok");
            anyhow::ensure!(well && links.len() > 7, "{report}");
            Ok(Some(()))
        })
        .await;
    }

    /// The link is found in this state and says so; gives the whole link. The table, for
    /// people, says the same.
    async fn finds(&self, name: &str, state: &str, words: &str) -> Value {
        let link = until(name, async || {
            let (output, report) = self.status().await?;
            let links = report["links"].as_array().unwrap().clone();
            let link = links.into_iter().find(|one| one["name"] == name);
            let found = link.as_ref().is_some_and(|one| {
                one["health"] == state.to_lowercase()
                    && one["message"].as_str().unwrap().contains(words)
                    && !one["fix"].as_str().unwrap_or_default().is_empty()
            });
            anyhow::ensure!(found, "{report}");
            // A warning alone is no failure.
            let broken = report.to_string().contains("\"broken\"");
            assert_eq!(output.status, Some(if broken { 3 } else { 0 }), "{report}");
            Ok(link)
        })
        .await;
        let table = ["nodelife", "webhook", "status"];
        let table = self.installation.kubectl.run(table).await.unwrap().stdout;
        let row = table.lines().find(|line| line.starts_with(name)).unwrap();
        assert!(row.contains(state) && row.contains(words), "{table}");
        link
    }

    /// With every replica dead, what a node writes is refused; the command that is advised
    /// frees it.
    async fn frees_the_cluster(&self, plane: &ControlPlane, advice: &Value) {
        let admin = &self.installation.admin;
        NodeFixture::new("locked").create(admin).await.unwrap();
        let node = plane.node("locked").await.unwrap();
        let refused = publish(&node, "locked", 1).await.unwrap_err().to_string();
        assert!(refused.contains("failed calling webhook"), "{refused}");
        let metrics = ["get", "--raw", "/metrics"];
        let metrics = self.installation.kubectl.run(metrics).await.unwrap().stdout;
        for metric in API_SERVER {
            let counted = |line: &str| line.starts_with(metric) && line.contains(".nodelife.dev");
            assert!(metrics.lines().any(counted), "{metric}");
        }
        let fix = advice["fix"].as_str().unwrap();
        let command = fix.strip_suffix(" allows every request again").unwrap();
        let words: Vec<&str> = command.split(' ').skip(1).collect();
        self.kubectl(&words).await;
        wait_until("a free cluster", Duration::from_secs(30), async || {
            publish(&node, "locked", 2).await?;
            Ok(Some(()))
        })
        .await
        .unwrap();
        // And status says what to do then.
        self.finds("configurations", "BROKEN", "is not installed")
            .await;
    }
}
