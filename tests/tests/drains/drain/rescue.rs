//! Tests of `kubectl nodelife rescue`: on the API server alone, the test is kubelet, PodGC and attacher.

mod volume;

use std::sync::Arc;

use http::Method;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::storage::v1::VolumeAttachment;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use nix::sys::signal::Signal;
use nodelife_tests::fixture::pod::is_ready;
use nodelife_tests::fixture::{NodeFixture, PodFixture, WorkloadFixture};
use nodelife_tests::kubectl::{self, Output};
use nodelife_tests::proxy::{Fault, FaultRule};
use nodelife_tests::{ControlPlane, until};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use super::lock::expire_locks;
use super::support::{
    CORDON, Permission, READ, Stderr, TestEnvironment, conforms, end, send, start_command,
};
use super::wait::{attach_volume, pod_with_claim};

const OFF: &str = "--machine-is-off";
const TAINTED: &str = "has the out-of-service taint";

/// What a rescue reads beside what a drain does.
const READ_OTHERS: Permission = (
    "heartbeats",
    "list,watch",
    "leases.coordination.k8s.io,volumeattachments.storage.k8s.io",
);

fn ago(seconds: i64) -> String {
    format!(
        "{:.6}",
        Timestamp::now() - SignedDuration::from_secs(seconds)
    )
}

fn ready(status: &str, posted: i64) -> Value {
    let posted = Timestamp::now() - SignedDuration::from_secs(posted);
    json!([{
        "type": "Ready", "status": status, "reason": "NodeStatusUnknown", "message": "",
        "lastHeartbeatTime": format!("{posted:.0}"), "lastTransitionTime": format!("{posted:.0}"),
    }])
}

fn leases(env: &TestEnvironment) -> Api<Lease> {
    Api::namespaced(env.namespace.client().clone(), "kube-node-lease")
}

async fn lease(env: &TestEnvironment, node: &str, seconds_ago: i64) {
    // A short duration: a living kubelet would renew it each second.
    let lease = json!({
        "metadata": {"name": node},
        "spec": {"holderIdentity": node, "leaseDurationSeconds": 4, "renewTime": ago(seconds_ago)},
    });
    let lease = serde_json::from_value(lease).unwrap();
    leases(env)
        .create(&PostParams::default(), &lease)
        .await
        .unwrap();
}

/// The kubelet renews its Lease, by its own clock.
async fn renew(env: &TestEnvironment, node: &str, seconds_ago: i64) {
    let patch = Patch::Merge(json!({"spec": {"renewTime": ago(seconds_ago)}}));
    let params = PatchParams::default();
    leases(env).patch(node, &params, &patch).await.unwrap();
}

async fn taints(env: &TestEnvironment, node: &str) -> Vec<String> {
    let nodes: Api<Node> = Api::all(env.namespace.client().clone());
    let spec = nodes.get(node).await.unwrap().spec.unwrap();
    let taints = spec.taints.unwrap_or_default().into_iter();
    taints.map(|taint| taint.key).collect()
}

async fn is_tainted(env: &TestEnvironment, node: &str) -> bool {
    let taints = taints(env, node).await;
    taints
        .iter()
        .any(|key| key == "node.kubernetes.io/out-of-service")
}

async fn set_taint(env: &TestEnvironment, node: &str, key: &str) {
    let taints = json!({"spec": {"taints": [{"key": key, "effect": "NoSchedule"}]}});
    let nodes: Api<Node> = Api::all(env.namespace.client().clone());
    let patch = Patch::Merge(taints);
    let params = PatchParams::default();
    nodes.patch(node, &params, &patch).await.unwrap();
}

/// A node that has been silent for five minutes, with a pod of a StatefulSet and its volume, which bears
/// the name that is returned.
pub(super) async fn dead(env: &TestEnvironment) -> (String, String) {
    let node = env.node("a");
    let client = env.namespace.client();
    let fixture =
        NodeFixture::new(&node).patch(json!({"status": {"conditions": ready("Unknown", 300)}}));
    fixture.create(client).await.unwrap();
    lease(env, &node, 300).await;
    let set = WorkloadFixture::stateful_set("db", 2);
    set.create(&env.namespace).await.unwrap();
    let volume = attach_volume(env, &node, "data").await;
    replica(env, |pod| pod.running_on(&node)).await;
    // One that is not Ready for reasons of its own.
    let other = PodFixture::new("db-1").bound_to(&env.node("b"));
    let other = other.owned_by(&set_of(env).await);
    other.create(&env.namespace).await.unwrap();
    (node, volume)
}

async fn set_of(env: &TestEnvironment) -> StatefulSet {
    let sets: Api<StatefulSet> = env.namespace.api();
    sets.get("db").await.unwrap()
}

/// What the controller of the StatefulSet does, and a scheduler and a kubelet as far as they come.
async fn replica(env: &TestEnvironment, placed: impl FnOnce(PodFixture) -> PodFixture) {
    let pod = pod_with_claim("db-0", "data").owned_by(&set_of(env).await);
    placed(pod).create(&env.namespace).await.unwrap();
}

async fn bench(what: &str) -> (TestEnvironment, String, String) {
    let env = TestEnvironment::new(ControlPlane::shared_api().await, what).await;
    let (node, volume) = dead(&env).await;
    (env, node, volume)
}

async fn rescue(env: &TestEnvironment, words: &[&str]) -> Output {
    let command = env.nodelife(&[&["rescue"], words].concat());
    kubectl::run(command, "").await.unwrap()
}

fn start(env: &TestEnvironment, words: &[&str]) -> super::support::DrainProcess {
    start_command(words, env.nodelife(&[&["rescue", "--yes"], words].concat()))
}

/// What PodGC and the attacher do.
async fn remove_all(env: &TestEnvironment, volume: &str) {
    let now = DeleteParams::default().grace_period(0);
    env.pods().delete("db-0", &now).await.unwrap();
    let attachments: Api<VolumeAttachment> = Api::all(env.namespace.client().clone());
    attachments.delete(volume, &now).await.unwrap();
}

#[tokio::test]
async fn silence_is_no_proof_that_the_machine_is_off() {
    let (env, node, volume) = bench("rescue-proof").await;
    let refused = rescue(&env, &[&node, "--yes"]).await;
    assert_eq!(refused.status, Some(4), "{}", refused.stderr);
    let next = format!("kubectl nodelife rescue {node} --machine-is-off");
    assert!(refused.stderr.contains(&next), "{}", refused.stderr);
    // Nobody is there to be asked.
    let refused = rescue(&env, &[&node, OFF]).await;
    assert_eq!(refused.status, Some(4), "{}", refused.stderr);
    assert!(refused.stderr.contains("give --yes"), "{}", refused.stderr);
    for (words, kind) in [(vec![OFF], "table"), (vec![OFF, "-o", "json"], "json")] {
        let plan = rescue(&env, &[&[&*node, "--dry-run"], &*words].concat()).await;
        assert_eq!(plan.status, Some(0), "{}", plan.stderr);
        assert!(
            plan.stdout.contains("db-0") && plan.stdout.contains(&volume),
            "{kind}: {}",
            plan.stdout
        );
    }
    env.check_nothing_written().await;
    // The provider's word is one.
    set_taint(&env, &node, "node.cloudprovider.kubernetes.io/shutdown").await;
    let plan = rescue(&env, &[&node, "--dry-run"]).await;
    assert_eq!(plan.status, Some(0), "{}", plan.stderr);
    env.check(&[]).await;
}

#[tokio::test]
async fn a_node_that_was_heard_of_is_refused_even_with_the_flag() {
    let (env, node, _) = bench("rescue-lives").await;
    // Also builds the plugin, before the clock of the heartbeats begins.
    let missing = rescue(&env, &["no-such-node", OFF, "--yes"]).await;
    assert_eq!(missing.status, Some(1), "{}", missing.stderr);
    let nodes: Api<Node> = Api::all(env.namespace.client().clone());
    for (status, posted, renewed, why) in [
        ("Unknown", 300, 10, "renewed its Lease"),
        ("Unknown", 10, 300, "posted its status"),
        ("True", 300, 300, "Ready is True"),
        ("False", 300, 300, "Ready is False"),
    ] {
        renew(&env, &node, renewed).await;
        let patch = Patch::Merge(json!({"status": {"conditions": ready(status, posted)}}));
        let params = PatchParams::default();
        nodes.patch_status(&node, &params, &patch).await.unwrap();
        let refused = rescue(&env, &[&node, OFF, "--yes"]).await;
        assert_eq!(refused.status, Some(7), "{}", refused.stderr);
        let says = &refused.stderr;
        assert!(says.contains("is not dead") && says.contains(why), "{says}");
    }
    env.check_nothing_written().await;
    env.check(&[]).await;
}

/// The test is what listens at the kubelet's port.
fn answers(listener: &Arc<TcpListener>, answer: &'static str) -> JoinSet<()> {
    let listener = Arc::clone(listener);
    let mut server = JoinSet::new();
    server.spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let _ = stream.read(&mut [0; 99]).await;
            // The client may have gone.
            let _ = stream.write_all(answer.as_bytes()).await;
        }
    });
    server
}

#[tokio::test]
async fn a_kubelet_that_answers_is_refused_and_a_connection_is_no_answer() {
    let (env, node, _) = bench("rescue-knock").await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let at = listener.local_addr().unwrap();
    let status = json!({"status": {
        "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": at.port()}},
    }});
    let nodes: Api<Node> = Api::all(env.namespace.client().clone());
    let params = PatchParams::default();
    let patch = Patch::Merge(status);
    nodes.patch_status(&node, &params, &patch).await.unwrap();
    let silent = async |why: &str| {
        let plan = rescue(&env, &[&node, OFF, "--dry-run", "-o", "json"]).await;
        assert_eq!(plan.status, Some(0), "{}", plan.stderr);
        let plan: Value = serde_json::from_str(&plan.stdout).unwrap();
        let told = plan["proof"].as_array().unwrap().last().unwrap();
        let told = told.as_str().unwrap();
        assert!(told.contains(&format!(" answers at {at}{why}")), "{told}");
    };
    // Its machine makes the connection, and it stands still.
    silent(" within 2s").await;
    let listener = Arc::new(listener);
    let mut server = answers(&listener, "HTTP/1.0 426 Upgrade Required\r\n\r\n");
    silent(" is not a kubelet: \"HTTP/1.0 426 Upgrade Required\"").await;
    server.shutdown().await;
    let mut kubelet = answers(
        &listener,
        "HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n",
    );
    let refused = rescue(&env, &[&node, OFF, "--yes"]).await;
    assert_eq!(refused.status, Some(7), "{}", refused.stderr);
    let why = format!("is not dead: its kubelet answers at {at}");
    assert!(refused.stderr.contains(&why), "{}", refused.stderr);
    kubelet.shutdown().await;
    drop(listener);
    silent(": Connection refused").await;
    env.check_nothing_written().await;
    env.check(&[]).await;
}

#[tokio::test]
async fn a_rescue_ends_when_pods_and_volumes_are_gone() {
    let (env, node, volume) = bench("rescue").await;
    let mut process = start(&env, &[&node, OFF, "-o", "json"]);
    let mut stderr = Stderr::of(&env, &mut process);
    stderr.wait_for(&[TAINTED]).await;
    assert!(is_tainted(&env, &node).await);
    remove_all(&env, &volume).await;
    stderr.wait_for(&["StatefulSet/db: 0 of 1 Ready"]).await;
    replica(&env, |pod| pod.running_on(&env.node("b"))).await;
    stderr.wait_for(&["rescued", "the taint stays"]).await;
    stderr.read_to_end().await;
    let output = super::support::outcome(process).await;
    assert_eq!(output.status.code(), Some(0), "{}", stderr.text);
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    conforms(&document, "RescueReport");
    assert_eq!(document["pods"][0]["fate"], "removed", "{document:#}");
    assert_eq!(document["left"], json!([]), "{document:#}");
    assert!(is_tainted(&env, &node).await);
    // The machine is back: whatever else the node is tainted with stays.
    renew(&env, &node, 0).await;
    let dry = rescue(&env, &[&node, "--dry-run"]).await;
    assert!(dry.stderr.contains("would be removed"), "{}", dry.stderr);
    assert!(is_tainted(&env, &node).await);
    let back = rescue(&env, &[&node]).await;
    assert_eq!(back.status, Some(0), "{}", back.stderr);
    assert!(!is_tainted(&env, &node).await, "{}", back.stderr);
    env.check(&[]).await;
}

#[tokio::test]
async fn a_replacement_that_finds_no_node_is_told_with_the_words_of_the_scheduler() {
    let (env, node, volume) = bench("rescue-pending").await;
    let mut process = start(&env, &[&node, OFF, "-o", "json"]);
    let mut stderr = Stderr::of(&env, &mut process);
    stderr.wait_for(&[TAINTED]).await;
    remove_all(&env, &volume).await;
    let unscheduled = json!({"status": {"conditions": [{
        "type": "PodScheduled", "status": "False", "reason": "Unschedulable",
        "message": "0/3 nodes are available: no room",
    }]}});
    replica(&env, |pod| pod).await;
    let patch = Patch::Merge(unscheduled);
    let params = PatchParams::default();
    env.pods()
        .patch_status("db-0", &params, &patch)
        .await
        .unwrap();
    stderr
        .wait_for(&["db-0 is Pending: 0/3 nodes are available: no room"])
        .await;
    send(&process, Signal::SIGINT);
    stderr.read_to_end().await;
    let output = super::support::outcome(process).await;
    assert_eq!(output.status.code(), Some(130), "{}", stderr.text);
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    let short = format!("{}/StatefulSet/db: 0 of 1 Ready", env.namespace.name);
    assert_eq!(document["left"], json!([short]), "{document:#}");
    env.check(&[]).await;
}

#[tokio::test]
async fn a_sign_of_life_before_the_taint_prevents_it() {
    let (env, node, _) = bench("rescue-look").await;
    let mut process = start(&env, &[&node, OFF]);
    let mut stderr = Stderr::of(&env, &mut process);
    stderr.wait_for(&["looking for a sign of life"]).await;
    // By a clock that is far behind.
    renew(&env, &node, 200).await;
    stderr.read_to_end().await;
    let status = process.wait().await.unwrap();
    assert_eq!(status.code(), Some(7), "{}", stderr.text);
    assert!(
        stderr.text.contains("nothing was changed"),
        "{}",
        stderr.text
    );
    let requests = env.requests().await;
    let written = requests.iter().filter(|event| event.is("patch", "nodes"));
    assert_eq!(written.count(), 0);
    env.check(&[]).await;
}

#[tokio::test]
async fn a_sign_of_life_takes_the_taint_back() {
    let (env, node, _) = bench("rescue-back").await;
    let nodes: Api<Node> = Api::all(env.namespace.client().clone());
    for by_lease in [true, false] {
        let mut process = start(&env, &[&node, OFF]);
        let mut stderr = Stderr::of(&env, &mut process);
        stderr.wait_for(&[TAINTED]).await;
        assert!(is_tainted(&env, &node).await);
        if by_lease {
            renew(&env, &node, 200).await;
        } else {
            let patch = Patch::Merge(json!({"status": {"conditions": ready("True", 0)}}));
            let params = PatchParams::default();
            nodes.patch_status(&node, &params, &patch).await.unwrap();
        }
        stderr.read_to_end().await;
        let status = process.wait().await.unwrap();
        assert_eq!(status.code(), Some(7), "{}", stderr.text);
        assert!(
            stderr.text.contains("the taint was removed"),
            "{}",
            stderr.text
        );
        assert!(!is_tainted(&env, &node).await, "{}", stderr.text);
    }
    env.check(&[]).await;
}

/// The Lease is no part of the Node: it is read again when the taint is there.
#[tokio::test]
async fn a_renewal_at_the_moment_of_the_taint_takes_it_back() {
    let (mut env, node, _) = bench("rescue-race").await;
    let proxy = env.go_through_proxy();
    let gate = nodelife_tests::proxy::Gate::closed();
    let hold = FaultRule::new(Fault::Hold(gate.clone())).method(Method::PATCH);
    proxy.fault(hold.path(&format!("/nodes/{node}")).times(1));
    let process = start(&env, &[&node, OFF]);
    until("the taint to be on its way", async || {
        Ok(gate.is_reached().then_some(()))
    })
    .await;
    renew(&env, &node, 200).await;
    gate.open();
    let (status, stderr) = end(&env, process).await;
    assert_eq!(status, Some(7), "{stderr}");
    assert!(!is_tainted(&env, &node).await, "{stderr}");
    env.check(&[]).await;
}

#[tokio::test]
async fn of_two_rescues_one_wins_and_the_other_is_told() {
    let (env, node, volume) = bench("rescue-two").await;
    let first = start(&env, &[&node, OFF]);
    until("the taint", async || {
        Ok(is_tainted(&env, &node).await.then_some(()))
    })
    .await;
    let second = rescue(&env, &[&node, OFF, "--yes"]).await;
    assert_eq!(second.status, Some(4), "{}", second.stderr);
    assert!(
        second.stderr.contains("another drain holds the lock"),
        "{}",
        second.stderr
    );
    remove_all(&env, &volume).await;
    replica(&env, |pod| pod.running_on(&env.node("b"))).await;
    let (status, stderr) = end(&env, first).await;
    assert_eq!(status, Some(0), "{stderr}");
    env.check(&[]).await;
}

/// The taint of a command that was killed stays on a dead node, and on no living one.
#[tokio::test]
async fn the_next_rescue_goes_on_after_a_kill_and_an_interrupt() {
    let (env, node, volume) = bench("rescue-killed").await;
    let mut process = start(&env, &[&node, OFF]);
    let mut stderr = Stderr::of(&env, &mut process);
    stderr.wait_for(&[TAINTED]).await;
    send(&process, Signal::SIGKILL);
    process.wait().await.unwrap();
    expire_locks(&env).await;
    // The taint says that somebody has seen the machine.
    let mut process = start(&env, &[&node]);
    let mut stderr = Stderr::of(&env, &mut process);
    stderr.wait_for(&[TAINTED]).await;
    send(&process, Signal::SIGINT);
    stderr.read_to_end().await;
    assert_eq!(process.wait().await.unwrap().code(), Some(130));
    assert!(
        stderr.text.contains("the taint stays on"),
        "{}",
        stderr.text
    );
    let late = rescue(&env, &[&node, "--yes", "--timeout=4s"]).await;
    assert_eq!(late.status, Some(6), "{}", late.stderr);
    let still = format!("volume {volume}: still there");
    assert!(late.stderr.contains(&still), "{}", late.stderr);
    renew(&env, &node, 0).await;
    let back = rescue(&env, &[&node]).await;
    assert_eq!(back.status, Some(0), "{}", back.stderr);
    assert!(!is_tainted(&env, &node).await, "{}", back.stderr);
    env.check(&[]).await;
}

#[tokio::test]
async fn a_missing_right_is_named_before_anything_changes() {
    let (mut env, node, _) = bench("rescue-rights").await;
    env.act_with(&[READ]).await;
    let refused = rescue(&env, &[&node, OFF, "--yes"]).await;
    assert_eq!(refused.status, Some(7), "{}", refused.stderr);
    assert!(
        refused.stderr.contains("kubectl auth can-i"),
        "{}",
        refused.stderr
    );
    env.act_without_lock(&[READ_OTHERS]).await;
    let refused = rescue(&env, &[&node, OFF, "--yes"]).await;
    assert_eq!(refused.status, Some(7), "{}", refused.stderr);
    assert!(
        refused.stderr.contains("not allowed to patch nodes"),
        "{}",
        refused.stderr
    );
    env.check_nothing_written().await;
    env.act_without_lock(&[CORDON]).await;
    let allowed = rescue(&env, &[&node, OFF, "--yes", "--timeout=4s"]).await;
    assert_eq!(allowed.status, Some(6), "{}", allowed.stderr);
    env.check(&[]).await;
}

/// Else the set replaces a pod that it adopts, since it is of no revision.
fn on_delete() -> Value {
    json!({"spec": {"updateStrategy": {"type": "OnDelete"}}})
}

async fn adopted(env: &TestEnvironment) {
    until("the adoption", async || {
        let pod = env.pods().get("db-0").await?;
        Ok(pod.metadata.owner_references.map(drop))
    })
    .await;
}

/// With Kubernetes' own controllers: the StatefulSet's pod is Ready elsewhere.
#[tokio::test]
async fn the_pod_of_a_stateful_set_moves_off_a_dead_node() {
    let env = TestEnvironment::new(ControlPlane::shared().await, "rescue-real").await;
    let client = env.namespace.client().clone();
    let (a, b) = (env.node("a"), env.node("b"));
    let silent = json!({"status": {"conditions": ready("Unknown", 300)}});
    let fixture = NodeFixture::new(&a).patch(silent);
    fixture.create(&client).await.unwrap();
    let fixture = NodeFixture::kwok(&b);
    fixture.create_schedulable(&client).await.unwrap();
    // The StatefulSet adopts the pod by its name, and replaces it where there is room.
    let pod = PodFixture::new("db-0").app("db").running_on(&a);
    let before = pod.create(&env.namespace).await.unwrap();
    let set = WorkloadFixture::stateful_set("db", 1).patch(on_delete());
    let set = set.pod_spec(json!({"nodeSelector": {"kubernetes.io/hostname": b}}));
    set.create(&env.namespace).await.unwrap();
    adopted(&env).await;
    let output = rescue(&env, &[&a, OFF, "--yes"]).await;
    assert_eq!(output.status, Some(0), "{}", output.stderr);
    let after = env.pods().get("db-0").await.unwrap();
    assert_ne!(after.metadata.uid, before.metadata.uid);
    assert!(is_ready(&after), "{}", output.stderr);
    env.check(&[]).await;
}
