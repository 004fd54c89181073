//! Compares two API servers, one with the in-tree plugins and one with the installed webhook: the
//! same verdicts on kubelets' requests. Then all replicas stop, and the exported policies replace
//! the webhook.

use futures::StreamExt as _;
use nodelife_tests::{ControlPlane, Installation, Kubernetes, needs_kubernetes};
use serde_json::{Value, json};

use super::requests::{NAMESPACES, all, world};
use super::{Call, PATIENT, PolicyResponse, cold_start, exported, make, start};

/// A diff follows this, which differs by design.
const OPEN_ENDED: &str = "is not allowed to update fields other than";
const AT_ONCE: usize = 8;

/// Name and UID of the objects of a list.
async fn uids(admin: &kube::Client, path: &str) -> Vec<(String, String)> {
    let response = Call::new("GET", path, Value::Null)
        .send(admin)
        .await
        .unwrap();
    let items = response.body["items"].as_array().unwrap().iter();
    let text = |item: &Value, field: &str| item["metadata"][field].as_str().unwrap().to_owned();
    items
        .map(|item| (text(item, "name"), text(item, "uid")))
        .collect()
}

pub(super) async fn answers(plane: &ControlPlane) -> Vec<(Call, PolicyResponse)> {
    let admin = plane.admin().await.unwrap();
    let nodes = uids(&admin, "/api/v1/nodes").await;
    let mut pods = Vec::new();
    for namespace in NAMESPACES {
        let found = uids(&admin, &format!("/api/v1/namespaces/{namespace}/pods")).await;
        let named = |(name, uid)| (format!("{namespace}/{name}"), uid);
        pods.extend(found.into_iter().map(named));
    }
    let calls = all(&nodes, &pods);
    futures::stream::iter(calls)
        .map(|call| {
            let admin = admin.clone();
            async move {
                let response = call.send(&admin).await.unwrap();
                (call, response)
            }
        })
        .buffered(AT_ONCE)
        .collect()
        .await
}

/// The sentence of the plugin, up to what differs between two clusters or what the webhook tells only its
/// log: UIDs and accounts that were looked up, and the name
/// that the registry has generated before a validating webhook is asked.
fn sentence<'m>(call: &Call, message: &'m str) -> &'m str {
    let sentence = message
        .split_once(" is forbidden: ")
        .map_or(message, |(_, rest)| rest);
    let ends: &[&str] = if call.body["metadata"]["generateName"].is_string() {
        &[" got ", " running pod (", " modify node "]
    } else {
        &[" got ", " running pod ("]
    };
    let cut = ends.iter().find_map(|end| sentence.find(end));
    cut.map_or(sentence, |at| &sentence[..at])
}

pub(super) fn compare(
    call: &Call,
    in_tree: &PolicyResponse,
    ours: &PolicyResponse,
) -> Result<(), String> {
    let theirs = sentence(call, &in_tree.message);
    let open = theirs.contains(OPEN_ENDED) && ours.message.contains(OPEN_ENDED);
    let same_words = open || in_tree.code != 403 || ours.message.contains(theirs);
    // The object's own validation comes between the two phases: refused either way.
    let invalid = in_tree.code == 403 && ours.code == 422 && ours.message.contains(" is invalid: ");
    // Where their feature gate is off, the API server drops these fields after the plugin and before
    // the webhook: nothing is written.
    let dropped = ours.code == 200
        && [
            ("1.34", "cannot update resource claim statues"),
            ("1.36", "cannot update extended resource claim status"),
        ]
        .iter()
        .any(|(since, sentence)| theirs.contains(sentence) && !has(since));
    if invalid || dropped || (in_tree.code == ours.code && same_words) {
        return Ok(());
    }
    Err(format!(
        "{} {} {}\n  in-tree {} {}\n  ours    {} {}",
        call.method, call.path, call.body, in_tree.code, in_tree.message, ours.code, ours.message
    ))
}

fn has(minor: &str) -> bool {
    Kubernetes::current().unwrap().is_at_least(minor).unwrap()
}

#[tokio::test]
async fn the_webhook_decides_as_in_tree_and_locks_nobody_out() {
    let in_tree = ControlPlane::options().start().await.unwrap();
    let ours = ControlPlane::options()
        .without_admission("NodeRestriction")
        .without_admission("DefaultTolerationSeconds")
        .start()
        .await
        .unwrap();
    for plane in [&in_tree, &ours] {
        make(&plane.admin().await.unwrap(), &world()).await;
    }
    let installation = Installation::prepare(&ours, "overlays/fail-closed")
        .await
        .unwrap()
        .timeout(PATIENT)
        .unwrap();
    let probe = Call::patch(
        "/api/v1/nodes/other",
        json!({"metadata": {"labels": {"a": "b"}}}),
    )
    .dry()
    .by_node("own");
    let replica = start(&ours, &installation, &[], &probe).await.unwrap();

    let (theirs, mine) = (answers(&in_tree).await, answers(&ours).await);
    let mut differences = Vec::new();
    let mut refused = 0;
    for ((call, in_tree), (_, ours)) in theirs.iter().zip(&mine) {
        refused += usize::from(in_tree.code == 403);
        differences.extend(compare(call, in_tree, ours).err());
    }
    assert!(
        differences.is_empty(),
        "{} differ\n{}",
        differences.len(),
        differences.join("\n")
    );
    for plane in [&in_tree, &ours] {
        exported::default_tolerations(plane).await;
    }
    println!("{} requests, {refused} refused", theirs.len());
    assert!(
        theirs.len() >= 300 && refused >= 100,
        "{} {refused}",
        theirs.len()
    );

    replica.program.kill().await.unwrap();
    cold_start::without_a_replica(&ours).await;
    // A MutatingAdmissionPolicy is among them.
    if needs_kubernetes(
        "1.36",
        "the exported policies need MutatingAdmissionPolicy v1",
    )
    .unwrap()
    {
        exported::take_its_place(&ours, &theirs).await;
    }
}
