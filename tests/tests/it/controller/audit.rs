//! Tests of the audit in the controller, with exactly the rights of its manifests.

use std::collections::BTreeSet;
use std::fs;

use http::Method;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{Api, Patch, PatchParams, PostParams};
use nodelife_tests::audit_log::AuditEvent;
use nodelife_tests::fixture::NodeFixture;
use nodelife_tests::installation::NAMESPACE;
use nodelife_tests::proxy::{Fault, FaultRule, Proxy};
use nodelife_tests::supervise::Supervised;
use nodelife_tests::{ControlPlane, Part, TIMEOUT, until};
use serde_json::{Value, json};

use super::support::{Controller, NAME, USER};

/// Fires for a node without a zone.
const RULE: &str = "NL-LBL-001";
const ZONE: &str = "topology.kubernetes.io/zone";
/// A leader that cannot renew its Lease on a busy machine starts anew, and the first audit of a
/// term makes no Events.
const PATIENT: [&str; 2] = [
    "--leader-elect-lease-duration=300",
    "--leader-elect-renew-deadline=240",
];

#[tokio::test]
async fn reports_equal_an_audit_and_follow_a_fault() {
    let plane = ControlPlane::options()
        .with(Part::ControllerManager)
        .start()
        .await
        .unwrap();
    let mut controller = Controller::install(&plane).await;
    pods_are_admitted(&controller).await;
    for name in ["worker-1", "worker-2"] {
        let node = NodeFixture::new(name).zone("a");
        node.create(&controller.admin).await.unwrap();
    }
    // Without the resource the audit goes on, and says so once.
    let program = controller.start("one", &PATIENT);
    logs(&program, "no ClusterReports of openreports.io").await;
    program.terminate(TIMEOUT).await.unwrap();

    controller.define_reports().await;
    let proxy = Proxy::start(&plane, &controller.token).unwrap();
    controller.kubeconfig = proxy.kubeconfig_file().unwrap();
    let program = controller.start("two", &PATIENT);
    equal(&controller).await;
    refuses_huge_pages(&program);
    // An Event that did not arrive is sent again.
    let lost = FaultRule::new(Fault::Drop).method(Method::POST);
    proxy.fault(lost.path("/events").times(1));
    set_zone(&controller, Value::Null).await;
    until("the fault in the report", async || {
        let report = controller
            .get(&["clusterreport", "nodelife-node-worker-1"])
            .await?;
        let results = report["results"].as_array().unwrap();
        let rules: Vec<_> = results.iter().map(|result| &result["rule"]).collect();
        anyhow::ensure!(rules.contains(&&json!(RULE)), "the report has {rules:?}");
        let owner = &report["metadata"]["ownerReferences"][0];
        assert_eq!(
            (&owner["kind"], &owner["name"]),
            (&json!("Node"), &json!("worker-1"))
        );
        Ok(Some(()))
    })
    .await;
    equal(&controller).await;
    events(&controller, "AuditFinding").await;
    assert!(proxy.struck() > 0, "no Event was lost");
    set_zone(&controller, json!("a")).await;
    events(&controller, "AuditFindingResolved").await;
    equal(&controller).await;
    refused_nothing(&plane);

    a_team_sees_its_budgets(&controller).await;
    equal(&controller).await;

    // The report goes with its node.
    let delete = ["delete", "node", "worker-1"];
    controller
        .kubectl
        .run(delete)
        .await
        .unwrap()
        .success()
        .unwrap();
    until("the end of the node's report", async || {
        let reports = reports(&controller).await?;
        let is_gone = !reports.contains("nodelife-node-worker-1");
        anyhow::ensure!(is_gone, "there are {reports:?}");
        Ok(Some(()))
    })
    .await;
    program.terminate(TIMEOUT).await.unwrap();
    assert_eq!(
        controller.leader().await.unwrap(),
        "",
        "the Lease was not released"
    );
}

#[tokio::test]
async fn a_report_of_somebody_else_is_left_as_it_is() {
    let plane = ControlPlane::options().start().await.unwrap();
    let controller = Controller::install(&plane).await;
    controller.define_reports().await;
    let theirs = json!({
        "apiVersion": "openreports.io/v1alpha1",
        "kind": "ClusterReport",
        "metadata": {"name": "nodelife-cluster"},
        "source": "another tool",
        "results": [{"policy": "theirs", "source": "another tool"}],
    });
    controller.kubectl.apply(&theirs.to_string()).await.unwrap();
    let before = controller.get(&["clusterreport", "nodelife-cluster"]);
    let before = before.await.unwrap();
    let node = NodeFixture::new("worker-1");
    node.create(&controller.admin).await.unwrap();
    let program = controller.start("one", &PATIENT);
    logs(&program, "left a report of somebody else as it is").await;
    until("the node's report", async || {
        let reports = reports(&controller).await?;
        Ok(reports.contains("nodelife-node-worker-1").then_some(()))
    })
    .await;
    let after = controller.get(&["clusterreport", "nodelife-cluster"]);
    assert_eq!(after.await.unwrap(), before);
}

/// Who may read nothing but a namespace finds its budget, and the workload under it, in the report
/// there; the report goes with its last finding.
async fn a_team_sees_its_budgets(controller: &Controller<'_>) {
    let run = async |words: &[&str]| {
        let ran = controller.kubectl.run(words.iter().copied()).await;
        ran.unwrap().success().unwrap();
    };
    run(&["create", "namespace", "shop"]).await;
    let namespace = ["-n", "shop"];
    let workload = ["create", "deployment", "web", "--image=i", "--replicas=1"];
    run(&[&namespace[..], &workload].concat()).await;
    let budget = [
        "create",
        "pdb",
        "web",
        "--min-available=1",
        "--selector=app=web",
    ];
    run(&[&namespace[..], &budget].concat()).await;
    until("the budget in the report of its namespace", async || {
        let report = controller
            .get(&["report", "nodelife", "-n", "shop"])
            .await?;
        let results = report["results"].as_array().unwrap();
        let found = results.iter().find(|one| one["rule"] == "NL-PDB-001");
        let properties = found.map(|one| &one["properties"]);
        let workloads = properties.and_then(|all| all["workloads"].as_str());
        anyhow::ensure!(workloads == Some("[\"Deployment web\"]"), "{report}");
        Ok(Some(()))
    })
    .await;
    run(&["delete", "deployment,pdb", "web", "-n", "shop"]).await;
    until("the end of the report", async || {
        let reports = controller.get(&["reports", "-n", "shop"]).await?;
        anyhow::ensure!(reports["items"] == json!([]), "{reports}");
        Ok(Some(()))
    })
    .await;
}

/// They are a third of what is resident of a large cluster (docs/benchmarks.md).
fn refuses_huge_pages(program: &Supervised) {
    let status = fs::read_to_string(format!("/proc/{}/status", program.pid())).unwrap();
    let line = status.lines().find(|line| line.starts_with("THP_enabled:"));
    assert_eq!(line, Some("THP_enabled:\t0"));
}

/// Gives `worker-1` a zone, or takes it away.
async fn set_zone(controller: &Controller<'_>, zone: Value) {
    let nodes: Api<Node> = Api::all(controller.admin.clone());
    let labels = Patch::Merge(json!({"metadata": {"labels": {ZONE: zone}}}));
    let parameters = PatchParams::default();
    let patched = nodes.patch("worker-1", &parameters, &labels);
    patched.await.unwrap();
}

async fn logs(program: &Supervised, text: &str) {
    until(text, async || {
        let log = fs::read_to_string(program.log())?;
        let count = log.matches(text).count();
        anyhow::ensure!(count == 1, "{count} times in\n{log}");
        Ok(Some(()))
    })
    .await;
}

/// Waits for an Event of this reason about the planted fault.
async fn events(controller: &Controller<'_>, reason: &str) {
    until(reason, async || {
        let selector = format!("reason={reason}");
        let words = [
            "get",
            "events.events.k8s.io",
            "-n",
            "default",
            "-o",
            "json",
            "--field-selector",
            &selector,
        ];
        let text = controller.kubectl.run(words).await?.success()?;
        let events: Value = serde_json::from_str(&text)?;
        let events = events["items"].as_array().unwrap();
        let about = |event: &Value| {
            let note = event["note"].as_str().unwrap();
            format!("{}: {note}", event["regarding"]["name"].as_str().unwrap())
        };
        let notes: Vec<_> = events.iter().map(about).collect();
        let wanted = format!("worker-1: {RULE}");
        let is_there = notes.iter().any(|note| note.starts_with(&wanted));
        anyhow::ensure!(is_there, "the Events are {notes:#?}");
        Ok(Some(()))
    })
    .await;
}

/// Names of the reports.
async fn reports(controller: &Controller<'_>) -> anyhow::Result<BTreeSet<String>> {
    let reports = controller.get(&["clusterreports"]).await?;
    let reports = reports["items"].as_array().unwrap().iter();
    let name = |one: &Value| one["metadata"]["name"].as_str().unwrap().to_owned();
    Ok(reports.map(name).collect())
}

/// Waits until the reports hold the findings of an audit by the plugin: rule, outcome, object; and
/// the rules that were not checked.
async fn equal(controller: &Controller<'_>) {
    until("the findings of an audit in the reports", async || {
        let audit = controller.audit().await?;
        let mut expected = BTreeSet::new();
        for finding in audit["findings"].as_array().unwrap() {
            let severity = match finding["severity"].as_str().unwrap() {
                "error" => "high",
                "warning" => "medium",
                _ => "info",
            };
            let subject = &finding["subject"];
            let kind = subject["kind"].as_str().unwrap().to_lowercase();
            let namespace = subject["namespace"].as_str().map(|name| format!("{name}/"));
            let namespace = namespace.unwrap_or_default();
            let name = subject["name"].as_str().unwrap();
            let object = format!("{kind}/{namespace}{name}");
            let rule = finding["rule"].as_str().unwrap();
            expected.insert(format!("{rule} {severity} {object}"));
        }
        for skipped in audit["skipped"].as_array().unwrap() {
            expected.insert(format!("{} - skipped", skipped["rule"].as_str().unwrap()));
        }
        let reports = controller.get(&["clusterreports,reports", "-A"]).await?;
        let reports = reports["items"].as_array().unwrap();
        let results = reports.iter().filter_map(|one| one["results"].as_array());
        let found: BTreeSet<String> = results
            .flatten()
            .map(|result| {
                let severity = result["severity"].as_str().unwrap_or("-");
                let subject = result["properties"]["subject"].as_str().unwrap();
                format!("{} {severity} {subject}", result["rule"].as_str().unwrap())
            })
            .collect();
        anyhow::ensure!(
            found == expected,
            "only in the reports: {:?}; only in the audit: {:?}",
            found.difference(&expected).collect::<Vec<_>>(),
            expected.difference(&found).collect::<Vec<_>>()
        );
        anyhow::ensure!(!found.is_empty(), "there are no findings at all");
        Ok(Some(()))
    })
    .await;
}

/// The API server has refused no request but those for reports, before they were defined.
fn refused_nothing(plane: &ControlPlane) {
    let events = plane.audit_events().unwrap();
    let ours = events.iter().filter(|event| event.username() == USER);
    let says = |event: &AuditEvent, text: &str| {
        let status = event.response_status.as_ref();
        status.is_some_and(|status| status.message.contains(text))
    };
    let refused: Vec<_> = ours
        // 429: the resource was defined a moment ago.
        .filter(|event| event.code() >= 400 && !matches!(event.code(), 404 | 409 | 429))
        // Answered with 500: the first replica ended while its lists were under way.
        .filter(|event| !says(event, "context canceled"))
        // Before 1.34 a watch that begins with a list is asked for in vain, once for each resource.
        .filter(|event| !says(event, "sendInitialEvents is forbidden"))
        .collect();
    assert!(refused.is_empty(), "{refused:?}");
}

/// A pod as the Deployment would make it, in the namespace that enforces restricted.
async fn pods_are_admitted(controller: &Controller<'_>) {
    let deployment = controller.get(&["deployment", NAME]).await.unwrap();
    let mut pod = deployment["spec"]["template"].clone();
    pod["metadata"]["name"] = json!(NAME);
    let pod: Pod = serde_json::from_value(pod).unwrap();
    let pods: Api<Pod> = Api::namespaced(controller.admin.clone(), NAMESPACE);
    let dry = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    pods.create(&dry, &pod).await.unwrap();
}
