//! Faults made on a real kubelet, each found by an audit.

use jiff::{Timestamp, ToSpan};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Node;
use kube::api::{Api, Patch, PatchParams};
use nix::sys::signal::Signal;
use nodelife_tests::fixture::PodFixture;
use nodelife_tests::real_nodes::{
    Agent, MANNERS, NodeOptions, RealNode, RealNodes, leave_out, manners,
};
use nodelife_tests::{TIMEOUT, TestNamespace, until, wait_until};
use serde_json::{Value, json};

use super::support::{document, kubectl};

/// Waits until an audit of the node has this rule, and gives the finding.
async fn found(cluster: &RealNodes, node: &RealNode, rule: &str, flags: &[&str]) -> Value {
    let words = [&["audit", &node.name, "--rule", rule][..], flags].concat();
    wait_until(&format!("{rule} on {}", node.name), TIMEOUT, async || {
        let report = document(cluster, &words).await;
        let findings = report["findings"].as_array();
        let found = findings.and_then(|findings| findings.first().cloned());
        Ok(Some(found.ok_or_else(|| anyhow::anyhow!("{report:#}"))?))
    })
    .await
    .unwrap_or_else(|error| {
        let log = std::fs::read_to_string(node.log(Agent::Kubelet)).unwrap();
        panic!("{error:#}; the kubelet's log:\n{log}")
    })
}

/// Waits until the rule is found by who looks at the cluster of now so many minutes later.
async fn found_later(cluster: &RealNodes, node: &RealNode, rule: &str, minutes: i64) -> Value {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("snapshot.json");
    let file = file.to_str().unwrap();
    until(&format!("{rule} on {}", node.name), async || {
        let kubectl = kubectl(cluster);
        let save = kubectl.run(["nodelife", "snapshot", "-o", file]).await?;
        save.success()?;
        let later = (Timestamp::now() + minutes.minutes()).to_string();
        let words = [
            "audit", &node.name, "-f", file, "--at", &later, "--rule", rule,
        ];
        let report = document(cluster, &words).await;
        let findings = report["findings"].as_array();
        let found = findings.and_then(|findings| findings.first().cloned());
        Ok(Some(found.ok_or_else(|| anyhow::anyhow!("{report:#}"))?))
    })
    .await
}

/// The cluster of all tests, and a node of the test's own. None where there can be none.
async fn node(options: NodeOptions) -> Option<(&'static RealNodes, RealNode)> {
    let cluster = RealNodes::shared().await?;
    let node = cluster.add(options.zone("a")).await.unwrap();
    Some((cluster, node))
}

fn nothing_reserved() -> Value {
    let nothing = json!({"cpu": "0", "memory": "0", "ephemeral-storage": "0"});
    json!({"kubeReserved": nothing, "systemReserved": nothing})
}

fn message(finding: &Value) -> &str {
    finding["message"].as_str().unwrap()
}

async fn on(node: &RealNode, script: &str) -> anyhow::Result<String> {
    node.run(&["sh", "-ec", script]).await?.success()
}

#[tokio::test]
async fn a_runtime_with_another_cgroup_driver_starts_no_pods() {
    let options = NodeOptions::default().systemd_cgroups_in_containerd();
    let Some((cluster, node)) = node(options).await else {
        return;
    };
    let namespace = TestNamespace::create(&cluster.plane, "driver")
        .await
        .unwrap();
    let pod = PodFixture::new("waits").bound_to(&node.name);
    let pod = pod.spec(manners(&[], 1)).create(&namespace).await;
    pod.unwrap();
    let finding = found_later(cluster, &node, "NL-POD-006", 2).await;
    assert!(
        message(&finding).contains("1 pod without a sandbox"),
        "{finding:#}"
    );
}

#[tokio::test]
async fn a_node_without_a_reservation() {
    let options = NodeOptions::default().kubelet(nothing_reserved());
    let Some((cluster, node)) = node(options).await else {
        return;
    };
    // What the kubelet keeps back is its eviction threshold of 200Mi.
    let finding = found(cluster, &node, "NL-RES-001", &["--configz"]).await;
    assert!(message(&finding).contains("200Mi"), "{finding:#}");
}

#[tokio::test]
async fn a_disk_filled_to_its_threshold() {
    let threshold = json!({"evictionHard": {"nodefs.available": "32Mi"}});
    let options = NodeOptions::default().kubelet(nothing_reserved());
    let options = options.kubelet(threshold);
    let Some((cluster, node)) = node(options).await else {
        return;
    };
    node.stop(Agent::Kubelet).await.unwrap();
    // The device goes with the last mount of it.
    let disk = "dd if=/dev/zero of=/run/disk bs=1M count=0 seek=64 2> /dev/null
        mkfs.ext4 -q -F /run/disk
        mount -o loop /run/disk /var/lib/kubelet";
    if let Err(error) = on(&node, disk).await {
        leave_out(&format!("no loop device: {error:#}"));
        return;
    }
    let fill = "head -c 30M /dev/zero > /var/lib/kubelet/full";
    on(&node, fill).await.unwrap();
    node.start(Agent::Kubelet).await.unwrap();
    let finding = found(cluster, &node, "NL-HB-011", &[]).await;
    assert!(message(&finding).contains("DiskPressure"), "{finding:#}");
}

/// A time namespace does not shift the clock that a kubelet reads (`CLOCK_REALTIME`; see
/// `time_namespaces(7)`). So the kubelet falls silent, and the test renews its Lease for it, with the
/// node's own certificate and the time of a clock that is two minutes ahead.
#[tokio::test]
async fn a_clock_that_is_ahead() {
    let Some((cluster, node)) = node(NodeOptions::default()).await else {
        return;
    };
    let client = cluster.plane.node(&node.name).await.unwrap();
    let nodes: Api<Node> = Api::all(client.clone());
    let leases: Api<Lease> = Api::namespaced(client, "kube-node-lease");
    until("the kubelet's Lease", async || {
        Ok(leases.get_opt(&node.name).await?)
    })
    .await;
    node.signal(Agent::Kubelet, Signal::SIGSTOP).await.unwrap();
    let ahead = Timestamp::now() + 2.minutes();
    let renewed = ahead.strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string();
    let patch = Patch::Merge(json!({"spec": {"renewTime": renewed}}));
    let parameters = PatchParams::default();
    let patched = leases.patch(&node.name, &parameters, &patch);
    patched.await.unwrap();
    let time = ahead.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let posted = json!({"type": "Ready", "status": "True", "lastHeartbeatTime": time});
    let patch = Patch::Strategic(json!({"status": {"conditions": [posted]}}));
    let patched = nodes.patch_status(&node.name, &parameters, &patch);
    patched.await.unwrap();
    found(cluster, &node, "NL-HB-004", &[]).await;
}

#[tokio::test]
async fn a_client_certificate_near_its_end_that_nobody_renews() {
    let Some((cluster, node)) = node(NodeOptions::default()).await else {
        return;
    };
    node.stop(Agent::Kubelet).await.unwrap();
    let user = format!("system:node:{}", node.name);
    let authority = cluster.plane.authority();
    let old = authority.client_of_last_day(&user, "system:nodes").unwrap();
    let pem = format!("{}{}", old.certificate, old.key);
    let words = [
        "sh",
        "-ec",
        "cat > /var/lib/kubelet/pki/kubelet-client-current.pem",
    ];
    node.run_with(&words, &pem)
        .await
        .unwrap()
        .success()
        .unwrap();
    node.start(Agent::Kubelet).await.unwrap();
    let finding = found_later(cluster, &node, "NL-CRT-009", 11).await;
    assert!(message(&finding).contains(&node.name), "{finding:#}");
}

#[tokio::test]
async fn a_lease_that_the_kubelet_may_not_renew() {
    let Some((cluster, node)) = node(NodeOptions::default()).await else {
        return;
    };
    let policy = format!("no-lease-of-{}", node.name);
    let documents = json!({"apiVersion": "v1", "kind": "List", "items": [
        {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingAdmissionPolicy",
            "metadata": {"name": policy},
            "spec": {
                "matchConstraints": {"resourceRules": [{
                    "apiGroups": ["coordination.k8s.io"], "apiVersions": ["v1"],
                    "operations": ["UPDATE"], "resources": ["leases"],
                }]},
                "validations": [{"expression": format!("request.name != '{}'", node.name)}],
            },
        },
        {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": {"name": policy},
            "spec": {"policyName": policy, "validationActions": ["Deny"]},
        },
    ]});
    let kubectl = kubectl(cluster);
    kubectl.apply(&documents.to_string()).await.unwrap();
    // Ready with an old lease at first, then Unknown; the kubelet's status makes it Ready again.
    let finding = found(cluster, &node, "NL-HB-001,NL-HB-002", &[]).await;
    let gone = found_text(cluster, &node, "its lease is not updated").await;
    for kind in [
        "validatingadmissionpolicybinding",
        "validatingadmissionpolicy",
    ] {
        let deleted = kubectl.run(["delete", kind, &policy]).await.unwrap();
        deleted.success().unwrap();
    }
    assert!(gone, "{finding:#}");
}

/// Waits until one of the two rules about silent nodes says so.
async fn found_text(cluster: &RealNodes, node: &RealNode, text: &str) -> bool {
    let said = wait_until(text, TIMEOUT, async || {
        let finding = found(cluster, node, "NL-HB-001,NL-HB-002", &[]).await;
        anyhow::ensure!(message(&finding).contains(text), "{finding:#}");
        Ok(Some(()))
    });
    said.await.is_ok()
}

#[tokio::test]
async fn a_network_plugin_without_its_configuration() {
    let Some((cluster, node)) = node(NodeOptions::default()).await else {
        return;
    };
    on(&node, "rm /run/cni/10-pods.conflist").await.unwrap();
    let finding = found(cluster, &node, "NL-HB-003", &[]).await;
    assert!(
        message(&finding).contains("NetworkPluginNotReady"),
        "{finding:#}"
    );
}

#[tokio::test]
async fn a_runtime_that_has_stopped() {
    let Some((cluster, node)) = node(NodeOptions::default()).await else {
        return;
    };
    node.stop(Agent::Containerd).await.unwrap();
    let finding = found(cluster, &node, "NL-HB-003", &[]).await;
    assert!(message(&finding).contains("runtime"), "{finding:#}");
}

#[tokio::test]
async fn a_static_pod_whose_image_is_not_there() {
    let Some((cluster, node)) = node(NodeOptions::default()).await else {
        return;
    };
    let manifest = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "damaged", "namespace": "default"},
        "spec": {"containers": [{
            "name": "main", "image": format!("{MANNERS}-damaged"), "imagePullPolicy": "Never",
        }]},
    });
    node.static_pod("damaged", Some(&manifest)).await.unwrap();
    let finding = found_later(cluster, &node, "NL-POD-007", 2).await;
    let name = format!("damaged-{}", node.name);
    assert_eq!(finding["subject"]["name"], name, "{finding:#}");
}

/// Swap that appears under a running kubelet is in nothing that it reports. Its next start fails.
#[tokio::test]
async fn swap_that_the_kubelet_does_not_start_with() {
    let options = NodeOptions::default().kubelet(json!({"failSwapOn": true}));
    let Some(cluster) = RealNodes::shared().await else {
        return;
    };
    let swaps = std::fs::read_to_string("/proc/swaps").unwrap();
    if swaps.lines().count() > 1 {
        leave_out("this machine has swap, so its kubelets would not start at all");
        return;
    }
    let node = cluster.add(options.zone("a")).await.unwrap();
    let swap = "printf 'Filename Type Size Used Priority\\n/dev/vdb partition 2097148 0 -2\\n' > /run/swaps
        mount --bind /run/swaps /proc/swaps";
    on(&node, swap).await.unwrap();
    node.stop(Agent::Kubelet).await.unwrap();
    node.start(Agent::Kubelet).await.unwrap();
    found(cluster, &node, "NL-HB-001,NL-HB-002", &[]).await;
}
