//! The commands about maintenances, and what other programs read of them.

use nodelife_tests::fixture::{NodeFixture, PodFixture};
use nodelife_tests::kubectl::Kubectl;
use nodelife_tests::{Identity, TIMEOUT, TestNamespace, wait_until};
use serde_json::{Value, json};

use super::support::Scene;
use super::{plane, web};

/// Whoever is in this group may get and patch maintenances, and nothing else.
const APPROVERS: &str = "commands-approvers";

async fn grant_approvers(scene: &Scene<'_>) {
    let group = "rbac.authorization.k8s.io";
    let role = json!({
        "apiVersion": format!("{group}/v1"), "kind": "ClusterRole", "metadata": {"name": APPROVERS},
        "rules": [{
            "apiGroups": ["nodelife.dev"], "resources": ["nodemaintenances"], "verbs": ["get", "patch"],
        }],
    });
    let binding = json!({
        "apiVersion": format!("{group}/v1"), "kind": "ClusterRoleBinding",
        "metadata": {"name": APPROVERS},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": APPROVERS},
        "subjects": [{"apiGroup": group, "kind": "Group", "name": APPROVERS}],
    });
    for one in [role, binding] {
        scene.kubectl.apply(&one.to_string()).await.unwrap();
    }
}

#[tokio::test]
async fn a_plan_is_approved_by_who_may_get_and_patch_alone() {
    let plane = plane().await;
    let scene = Scene::install(&plane).await;
    let namespace = TestNamespace::create(&plane, "approve").await.unwrap();
    web(&scene, &namespace).await;
    grant_approvers(&scene).await;
    let identity = Identity::User {
        name: "approver".to_owned(),
        groups: vec![APPROVERS.to_owned()],
    };
    let kubectl = Kubectl::new(&plane, &identity).unwrap();
    let approve = async |words: &[&str]| {
        let words = [&["nodelife", "maintenance", "approve"], words].concat();
        kubectl.run(words).await.unwrap()
    };
    let fails = async |words: &[&str], why: &str| {
        let output = approve(words).await;
        let is_told = output.status == Some(1) && output.stderr.contains(why);
        assert!(is_told, "{words:?}: {why}: {output:?}");
    };
    // The right comes into force.
    wait_until("the answer to who may get", TIMEOUT, async || {
        let output = approve(&["nowhere"]).await;
        anyhow::ensure!(
            output.stderr.contains("\"nowhere\" not found"),
            "{output:?}"
        );
        Ok(Some(()))
    })
    .await
    .unwrap();
    let spec = json!({"nodes": ["a"], "approval": "Required", "drain": {"force": true}});
    scene.create("careful", &spec).await;
    let none = "nodemaintenance/careful has no plan yet";
    fails(&["careful"], none).await;
    let controller = scene.start("one");
    scene
        .wait_for("careful", "Progressing", "WaitsForApproval")
        .await;
    let digest = async || {
        let status = scene.status("careful").await.unwrap();
        status["plan"]["digest"].as_str().unwrap().to_owned()
    };
    let first = digest().await;
    // Its command is the one that `describe` ends with.
    let describe = ["maintenance", "describe", "careful"];
    let described = scene.nodelife(&describe).await;
    let next = format!("next: kubectl nodelife maintenance approve careful --digest {first}");
    assert_eq!(described.stderr.lines().last(), Some(next.as_str()));
    // A bare pod comes to the node: another plan, and what was shown is none any more.
    let bare = PodFixture::new("bare").bound_to("a");
    bare.create(&namespace).await.unwrap();
    let second = wait_until("the digest of another plan", TIMEOUT, async || {
        let now = digest().await;
        Ok((now != first).then_some(now))
    })
    .await
    .unwrap();
    let other = format!("the plan of nodemaintenance/careful is {second}, not {first}");
    fails(&["careful", "--digest", &first], &other).await;
    let stored = scene.get("careful").await;
    assert_eq!(stored["spec"]["approvedPlan"], Value::Null);
    let approved = approve(&["nodemaintenance/careful"]).await;
    let printed = approved.success().unwrap();
    for part in [&second, "Pod/bare", "Deployment/web", "Nodes to drain: a\n"] {
        assert!(printed.contains(part), "{part}: {printed}");
    }
    let last = printed.lines().last();
    assert_eq!(last, Some("nodemaintenance.nodelife.dev/careful approved"));
    let stored = scene.get("careful").await;
    assert_eq!(stored["spec"]["approvedPlan"], second.as_str());
    assert_eq!(scene.wait_for_end("careful").await, 0);
    let ended = "nodemaintenance/careful has ended: Drained";
    fails(&["careful", "--digest", &second], ended).await;

    // The right digest, and again.
    scene
        .create(
            "again",
            &json!({"nodes": ["b"], "approval": "Required", "soak": "1h"}),
        )
        .await;
    scene
        .wait_for("again", "Progressing", "WaitsForApproval")
        .await;
    let status = scene.status("again").await.unwrap();
    let third = status["plan"]["digest"].as_str().unwrap();
    let words = ["again", "--digest", third];
    approve(&words).await.success().unwrap();
    let kept = approve(&words).await;
    let already = format!("nodemaintenance/again is already approved: {third}");
    let is_told = kept.stderr.contains(&already) || kept.stderr.contains("has ended");
    assert!(kept.status == Some(1) && is_told, "{kept:?}");
    scene.cancel("again").await;
    scene.cancel("careful").await;
    controller.terminate(TIMEOUT).await.unwrap();
}

/// An object without what the API server adds to it.
fn asked(object: &Value) -> Value {
    let metadata = &object["metadata"];
    let mut kept = json!({});
    for field in ["name", "annotations", "labels"] {
        if let Some(value) = metadata.get(field) {
            kept[field] = value.clone();
        }
    }
    json!({
        "apiVersion": object["apiVersion"], "kind": object["kind"], "metadata": kept,
        "spec": object["spec"],
    })
}

#[tokio::test]
async fn a_dry_run_prints_what_detach_would_create() {
    let plane = plane().await;
    let scene = Scene::install(&plane).await;
    let namespace = TestNamespace::create(&plane, "dry-run").await.unwrap();
    web(&scene, &namespace).await;
    let plan = ["drain", "a", "--dry-run", "-o", "json"];
    let plan = scene.nodelife(&plan).await.success().unwrap();
    let file = plane.folder().join("dry-run.json");
    std::fs::write(&file, plan).unwrap();
    let plan = format!("--plan={}", file.display());
    let flags: [&[&str]; 4] = [
        &["a", "--notify=team-a", "--notify=b"],
        &[
            "-l",
            "kubernetes.io/hostname in (a,b)",
            "--concurrency=2",
            "--soak=5m",
        ],
        &[
            "a",
            "b",
            "--force",
            "--max-unavailable=50%",
            "--window=sat 22:00-02:00 Europe/Berlin",
        ],
        &["a", &plan],
    ];
    let object = async |name: &str| -> Option<Value> {
        let get = ["get", "nodemaintenance", name, "-o", "json"];
        let output = scene.kubectl.run(get).await.unwrap();
        let found = output.success().ok()?;
        Some(serde_json::from_str(&found).unwrap())
    };
    let delete = async |name: &str| {
        let delete = ["delete", "nodemaintenance", name];
        scene.kubectl.run(delete).await.unwrap().success().unwrap();
    };
    for flags in flags {
        let drain = async |more: &[&str]| {
            let words = [&["drain", "--detach=gitops"], flags, more].concat();
            scene.nodelife(&words).await.success().unwrap()
        };
        let yaml = drain(&["--dry-run", "-o", "yaml"]).await;
        assert!(!yaml.contains("{}") && !yaml.contains("status"), "{yaml}");
        let printed: Value = serde_saphyr::from_str(&yaml).unwrap();
        assert_eq!(asked(&printed), printed);
        let notify = flags.contains(&"--notify=b");
        let notify = notify.then(|| json!(["team-a", "b"]));
        assert_eq!(printed["spec"].get("notify"), notify.as_ref());
        let by_server = drain(&["--dry-run=server", "-o", "json"]).await;
        let by_server: Value = serde_json::from_str(&by_server).unwrap();
        assert_eq!(asked(&by_server), printed);
        assert!(by_server["metadata"]["uid"].is_string(), "{by_server}");
        for (flag, how) in [
            ("--dry-run", "dry run"),
            ("--dry-run=server", "server dry run"),
        ] {
            let said = format!("nodemaintenance.nodelife.dev/gitops created ({how})\n");
            assert_eq!(drain(&[flag]).await, said);
        }
        assert_eq!(object("gitops").await, None);
        drain(&[]).await;
        let mut detached = asked(&object("gitops").await.unwrap());
        delete("gitops").await;
        // The API server takes no approval at creation.
        detached["spec"]
            .as_object_mut()
            .unwrap()
            .remove("approvedPlan");
        let create = scene.kubectl.command(["create", "-f", "-"]);
        let created = nodelife_tests::kubectl::run(create, &yaml).await.unwrap();
        created.success().unwrap();
        let applied = object("gitops").await.unwrap();
        assert_eq!(applied["status"], json!({"observedGeneration": -1}));
        assert_eq!(asked(&applied), detached);
        delete("gitops").await;
    }

    // A name that the server makes is not known before.
    let words = ["drain", "a", "--detach", "--dry-run"];
    let said = scene.nodelife(&words).await.success().unwrap();
    assert_eq!(
        said,
        "nodemaintenance.nodelife.dev/<unknown> created (dry run)\n"
    );
    // What a drain would refuse is refused, and nothing is printed.
    let bare = PodFixture::new("bare").bound_to("a");
    bare.create(&namespace).await.unwrap();
    let words = ["drain", "a", "--detach=gitops", "--dry-run", "-o", "yaml"];
    let refused = scene.nodelife(&words).await;
    assert_eq!(
        (refused.status, &*refused.stdout),
        (Some(4), ""),
        "{}",
        refused.stderr
    );
}

/// What kstatus makes of an object (sigs.k8s.io/cli-utils, `pkg/kstatus/status/generic.go` and `core.go`).
fn kstatus(object: &Value) -> &'static str {
    let (metadata, status) = (&object["metadata"], &object["status"]);
    if metadata["deletionTimestamp"].is_string() {
        return "Terminating";
    }
    let observed = &status["observedGeneration"];
    if observed.is_number() && *observed != metadata["generation"] {
        return "InProgress";
    }
    let conditions = status["conditions"].as_array().cloned().unwrap_or_default();
    for one in &conditions {
        match (one["type"].as_str().unwrap(), one["status"] == "True") {
            ("Reconciling", true) => return "InProgress",
            ("Stalled", true) => return "Failed",
            _ => {}
        }
    }
    match conditions.iter().find(|one| one["type"] == "Ready") {
        Some(ready) if ready["status"] != "True" => "InProgress",
        _ => "Current",
    }
}

#[tokio::test]
async fn conditions_sum_up_the_life_of_a_maintenance() {
    let plane = plane().await;
    let scene = Scene::install(&plane).await;
    let namespace = TestNamespace::create(&plane, "kstatus").await.unwrap();
    web(&scene, &namespace).await;
    let budget =
        |most: u32| json!({"maxUnavailable": most, "selector": {"matchLabels": {"app": "web"}}});
    scene.budget(&namespace, "web", budget(0)).await;
    let is = async |name: &str, kind: &str, reason: &str, expected: &str| {
        let told = scene.wait_for(name, kind, reason).await;
        let object = scene.get(name).await;
        assert_eq!(kstatus(&object), expected, "{object:#}");
        told
    };
    let spec = json!({"nodes": ["a"], "drain": {"onImpossible": "wait"}});
    scene.create("life", &spec).await;
    let new = scene.get("life").await;
    assert_eq!(new["status"]["observedGeneration"], -1);
    assert_eq!(kstatus(&new), "InProgress");
    let controller = scene.start("one");
    let told = is("life", "Reconciling", "PodsBlocked", "InProgress").await;
    assert!(told.contains("/web"), "{told}");
    // A change of the spec is one that nobody has looked at.
    scene
        .patch("life", &json!({"deadline": "2099-12-31T23:59:59Z"}))
        .await;
    wait_until("the generation to be observed", TIMEOUT, async || {
        let object = scene.get("life").await;
        assert_eq!(kstatus(&object), "InProgress", "{object:#}");
        let observed = &object["status"]["observedGeneration"];
        Ok((*observed == object["metadata"]["generation"]).then_some(()))
    })
    .await
    .unwrap();
    scene.budget(&namespace, "web", budget(1)).await;
    let wait = [
        "wait",
        "nodemaintenance/life",
        "--for=condition=Ready",
        "--timeout=3m",
    ];
    scene.kubectl.run(wait).await.unwrap().success().unwrap();
    let told = is("life", "Ready", "Drained", "Current").await;
    assert_eq!(told, "1/1 nodes drained");
    scene
        .patch("life", &json!({"ttlSecondsAfterFinished": 36000}))
        .await;
    wait_until("the generation after the end", TIMEOUT, async || {
        let object = scene.get("life").await;
        Ok((object["metadata"]["generation"] == 3 && kstatus(&object) == "Current").then_some(()))
    })
    .await
    .unwrap();

    // Somebody has to delete the pod; then it goes on.
    NodeFixture::kwok("d").create(&scene.admin).await.unwrap();
    let bare = PodFixture::new("bare").bound_to("d");
    bare.create(&namespace).await.unwrap();
    scene.create("refused", &json!({"nodes": ["d"]})).await;
    let told = is("refused", "Stalled", "Refused", "Failed").await;
    assert!(told.contains("bare"), "{told}");
    let delete = [
        "delete",
        "pod",
        "bare",
        "-n",
        &namespace.name,
        "--grace-period=0",
        "--force",
    ];
    scene.kubectl.run(delete).await.unwrap().success().unwrap();
    is("refused", "Ready", "Drained", "Current").await;

    // It has ended, and not every node is drained.
    let late = json!({"nodes": ["b"], "deadline": "2001-01-01T00:00:00Z"});
    scene.create("late", &late).await;
    is("late", "Stalled", "Failed", "Failed").await;
    for name in ["late", "refused", "life"] {
        scene.cancel(name).await;
    }
    controller.terminate(TIMEOUT).await.unwrap();
}
