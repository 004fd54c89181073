//! Tests of approval by a second person (manifests/controller/approval), with users whom RBAC refuses
//! nothing.

use nodelife_tests::kubectl::{self, Output};
use nodelife_tests::{Parts, PlaneLease, until};
use serde_json::{Value, json};

use super::scene::{Scene, USER};

const REQUESTER: &str = "nodelife.dev/requested-by";

/// A digest, and another one.
fn digest(which: u8) -> String {
    format!("sha256:{which:064}")
}

fn maintenance(name: &str, requester: &str, spec: &Value) -> Value {
    let mut all = json!({"nodes": ["n"], "approval": "Required"});
    for (field, value) in spec.as_object().unwrap() {
        all[field] = value.clone();
    }
    json!({"apiVersion": "nodelife.dev/v1alpha1", "kind": "NodeMaintenance", "spec": all,
        "metadata": {"name": name, "annotations": {REQUESTER: requester}}})
}

const OWN: &str = "who asks for a maintenance cannot approve it";

/// The approval of a plan, with another change.
fn approve(mut patch: Value) -> Value {
    patch["spec"]["approvedPlan"] = json!(digest(1));
    patch
}

fn deadline() -> Value {
    json!({"spec": {"deadline": "2040-01-01T00:00:00Z"}})
}

/// Who tries what on alice's maintenance, and what refuses it.
fn attempts() -> Vec<(&'static str, &'static str, Value, &'static str)> {
    let fixed = "the requester of a maintenance cannot be changed";
    let alone = "an approval changes nothing but spec.approvedPlan";
    let by_requester = "only who asks for a maintenance changes it";
    let named = |who: Value| json!({"metadata": {"annotations": {REQUESTER: who}}});
    vec![
        ("alice", "her own", approve(json!({})), OWN),
        ("alice", "another requester", named(json!("bob")), fixed),
        ("alice", "no requester", named(Value::Null), fixed),
        ("alice", "both at once", approve(named(json!("bob"))), fixed),
        ("bob", "her name", named(json!("bob")), fixed),
        ("bob", "a deadline with it", approve(deadline()), alone),
        (
            "bob",
            "a window with it",
            approve(json!({"spec": {"window": {"end": "2040-01-01T00:00:00Z"}}})),
            alone,
        ),
        (
            "bob",
            "a label with it",
            approve(json!({"metadata": {"labels": {"a": "b"}}})),
            alone,
        ),
        (
            "bob",
            "a finalizer with it",
            approve(json!({"metadata": {"finalizers": ["a.b/c"]}})),
            alone,
        ),
        ("bob", "her deadline", deadline(), by_requester),
        (
            "bob",
            "no approval needed",
            json!({"spec": {"approval": "None"}}),
            "approval cannot be changed",
        ),
    ]
}

struct Users<'a>(&'a Scene<'a>);

impl Users<'_> {
    async fn run(&self, user: &str, group: &str, words: &[&str], stdin: &str) -> Output {
        let identity = [
            "--as",
            user,
            "--as-group",
            "system:masters",
            "--as-group",
            group,
        ];
        let command = self.0.kubectl.command([words, &identity].concat());
        kubectl::run(command, stdin).await.unwrap()
    }

    async fn create(&self, user: &str, object: &Value) -> Output {
        self.run(user, "people", &["create", "-f", "-"], &object.to_string())
            .await
    }

    async fn patch(&self, user: &str, patch: Value) -> Output {
        let patch = patch.to_string();
        let words = ["patch", "nlm", "upgrade", "--type=merge", "-p", &patch];
        self.run(user, "people", &words, "").await
    }
}

fn refused(what: &str, output: &Output, words: &str) {
    assert_ne!(output.status, Some(0), "{what}");
    assert!(output.stderr.contains(words), "{what}: {}", output.stderr);
}

async fn refused_at_creation(users: &Users<'_>) {
    let plain = json!({});
    let approved = json!({"approvedPlan": digest(1)});
    let mut nameless = maintenance("upgrade", "", &plain);
    nameless["metadata"]["annotations"] = json!({});
    let generated = json!({"generateName": "x-", "annotations": {REQUESTER: "bob"}});
    let mut other_name = maintenance("", "", &plain);
    other_name["metadata"] = generated;
    for (what, object, words) in [
        (
            "an approval at creation",
            maintenance("upgrade", "alice", &approved),
            "approvedPlan cannot be set at creation",
        ),
        ("no requester", nameless, "set the annotation"),
        (
            "another requester",
            maintenance("upgrade", "bob", &plain),
            "set the annotation nodelife.dev/requested-by to alice",
        ),
        ("a name of the server", other_name, "set the annotation"),
    ] {
        refused(what, &users.create("alice", &object).await, words);
    }
}

/// The same by other verbs, kinds of patches and objects.
async fn by_other_ways(scene: &Scene<'_>, users: &Users<'_>) {
    let approved = json!({"approvedPlan": digest(1)});
    let full = maintenance("upgrade", "alice", &approved).to_string();
    let mut stored = scene.get(&["nlm", "upgrade"]).await.unwrap();
    stored["spec"]["approvedPlan"] = json!(digest(1));
    let stored = stored.to_string();
    let second = maintenance("second", "alice", &json!({}));
    users.create("alice", &second).await.success().unwrap();
    let second = maintenance("second", "alice", &approved).to_string();
    let merge = approve(json!({})).to_string();
    let add = json!([{"op": "add", "path": "/spec/approvedPlan", "value": digest(1)}]).to_string();
    let at_creation = "approvedPlan cannot be set at creation";
    for (who, words, stdin, refusal) in [
        (
            "alice",
            &["apply", "--server-side", "--force-conflicts", "-f", "-"][..],
            &full,
            OWN,
        ),
        ("alice", &["replace", "-f", "-"], &stored, OWN),
        (
            "alice",
            &["patch", "nlm", "upgrade", "--type=json", "-p", &add],
            &add,
            OWN,
        ),
        // Nobody knows who asks for it, so nobody is the second.
        (
            "bob",
            &["patch", "nlm", "earlier", "--type=merge", "-p", &merge],
            &merge,
            OWN,
        ),
        (
            "alice",
            &["create", "--dry-run=server", "-f", "-"],
            &second,
            at_creation,
        ),
        // It deletes the object first.
        (
            "alice",
            &["replace", "--force", "-f", "-"],
            &second,
            at_creation,
        ),
    ] {
        let output = users.run(who, "people", words, stdin).await;
        refused(&words.join(" "), &output, refusal);
    }
    // The status takes no spec along.
    let status = [
        "patch",
        "nlm",
        "upgrade",
        "--subresource=status",
        "--type=merge",
        "-p",
        &merge,
    ];
    let output = users.run("alice", "people", &status, "").await;
    output.success().unwrap();
    let stored = scene.get(&["nlm", "upgrade"]).await.unwrap();
    assert_eq!(stored["spec"]["approvedPlan"], Value::Null);
}

#[tokio::test]
async fn a_second_person_approves_and_changes_nothing_else() {
    let plane = PlaneLease::take(Parts::Api).await.unwrap();
    let scene = Scene::install(&plane).await;
    let users = Users(&scene);
    // Before there was a policy nobody had to say who asks.
    let mut earlier = maintenance("earlier", "", &json!({}));
    earlier["metadata"]["annotations"] = json!({});
    let made = users.create("alice", &earlier).await;
    made.success().unwrap();
    scene.add("approval").await;
    let unapproved = json!({"approval": "None"});
    until("the policy", async || {
        let output = users
            .create("alice", &maintenance("early", "alice", &unapproved))
            .await;
        if output.status == Some(0) {
            scene.run(&["delete", "nlm", "early"]).await;
        }
        Ok(output
            .stderr
            .contains("set spec.approval to Required")
            .then_some(()))
    })
    .await;

    refused_at_creation(&users).await;
    let plain = json!({});
    let made = users
        .create("alice", &maintenance("upgrade", "alice", &plain))
        .await;
    made.success().unwrap();

    for (user, what, patch, words) in attempts() {
        refused(what, &users.patch(user, patch).await, words);
    }
    by_other_ways(&scene, &users).await;

    // What is left is allowed: the controller's finalizer, her deadline, his approval.
    let finalizer = json!({"metadata": {"finalizers": ["nodelife.dev/give-back"]}});
    users.patch(USER, finalizer).await.success().unwrap();
    users.patch("alice", deadline()).await.success().unwrap();
    users
        .patch("bob", approve(json!({})))
        .await
        .success()
        .unwrap();
    // Whoever asks approves no later plan either.
    let again = json!({"spec": {"approvedPlan": digest(2)}});
    refused("again", &users.patch("alice", again).await, OWN);
    let withdrawn = json!({"spec": {"approvedPlan": null}});
    users.patch("alice", withdrawn).await.success().unwrap();
    let made = maintenance("unapproved", "alice", &unapproved).to_string();
    let group = "nodelife:maintenance-without-approval";
    let made = users
        .run("alice", group, &["create", "-f", "-"], &made)
        .await;
    made.success().unwrap();
}
