//! Tests of `kubectl nodelife audit` over time: `--watch`, and clocks that differ.

use std::fs::{self, File};

use k8s_openapi::api::core::v1::Node;
use k8s_openapi::jiff::fmt::rfc2822::DateTimePrinter;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::api::{Api, Patch, PatchParams};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use nodelife_tests::fixture::NodeFixture;
use nodelife_tests::proxy::{Fault, FaultRule, Proxy};
use nodelife_tests::{ControlPlane, Identity, TIMEOUT, TestNamespace, kubectl, program, until};
use serde_json::{Value, json};
use tokio::process::Command;

/// Fires for a node without a zone.
const RULE: &str = "NL-LBL-001";
const ZONE: &str = "topology.kubernetes.io/zone";

#[tokio::test]
async fn a_watching_audit_reports_each_change_of_findings() {
    let plane = ControlPlane::shared_api().await;
    let namespace = TestNamespace::create(plane, "watched").await.unwrap();
    let name = format!("{}-node", namespace.name);
    let client = namespace.client();
    let node = NodeFixture::new(&name).zone("a");
    node.create(client).await.unwrap();

    let folder = tempfile::tempdir().unwrap();
    let (out, err) = (folder.path().join("out"), folder.path().join("err"));
    let mut audit = Command::new(program::nodelife().unwrap())
        .env(
            "KUBECONFIG",
            plane.kubeconfig_file(&Identity::Admin).unwrap(),
        )
        .env("NO_COLOR", "1")
        .args(["audit", &name, "--rule", RULE, "--watch=1s"])
        .stdout(File::create(&out).unwrap())
        .stderr(File::create(&err).unwrap())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    // So many reports of each kind, whatever number of looks they took.
    let reports = async |clean: usize, with_finding: usize| {
        let what = format!("{clean} reports without and {with_finding} with the finding");
        until(&what, async || {
            let (out, err) = (fs::read_to_string(&out)?, fs::read_to_string(&err)?);
            let seen = (
                err.matches("no findings on 1 node, 1 rule checked").count(),
                out.matches(RULE).count(),
            );
            anyhow::ensure!(seen == (clean, with_finding), "{out}\n{err}");
            Ok(Some(()))
        })
        .await;
    };
    let nodes: Api<Node> = Api::all(client.clone());
    let set_zone = async |zone: Value| {
        let labels = Patch::Merge(json!({"metadata": {"labels": {ZONE: zone}}}));
        let patched = nodes.patch(&name, &PatchParams::default(), &labels).await;
        patched.unwrap();
    };
    reports(1, 0).await;
    set_zone(Value::Null).await;
    reports(1, 1).await;
    set_zone(json!("b")).await;
    reports(2, 1).await;

    let pid = Pid::from_raw(i32::try_from(audit.id().unwrap()).unwrap());
    kill(pid, Signal::SIGINT).unwrap();
    let end = tokio::time::timeout(TIMEOUT, audit.wait()).await;
    let status = end.expect("it does not end").unwrap();
    assert_eq!(status.code(), Some(130));
}

#[tokio::test]
async fn ages_use_the_servers_clock_and_a_skew_is_reported() {
    let plane = ControlPlane::shared_api().await;
    let namespace = TestNamespace::create(plane, "skewed").await.unwrap();
    let name = format!("{}-node", namespace.name);
    let node = NodeFixture::new(&name).zone("a");
    node.create(namespace.client()).await.unwrap();
    let hour = SignedDuration::from_hours(1);
    for (by, direction) in [(-hour, "ahead of"), (hour, "behind")] {
        let date = Timestamp::now() + by;
        let proxy = Proxy::start(plane, &Identity::Admin).unwrap();
        let header = DateTimePrinter::new().timestamp_to_rfc9110_string(&date);
        let version = json!({
            "major": "1", "minor": "36", "gitVersion": "v1.36.3",
        });
        let answer = Fault::Answer {
            status: 200,
            headers: vec![("date", header.unwrap())],
            body: version.to_string(),
        };
        proxy.fault(FaultRule::new(answer).path("/version"));
        let mut command = Command::new(program::nodelife().unwrap());
        command
            .env("KUBECONFIG", proxy.kubeconfig_file().unwrap())
            .args(["audit", &name, "--rule", RULE, "-o", "json"]);
        let output = kubectl::run(command, "").await.unwrap();
        assert_eq!(output.status, Some(0), "{}", output.stderr);
        let told = format!("{direction} the API server's; ages use the API server's clock");
        assert!(output.stderr.contains(&told), "{told}: {}", output.stderr);
        let report: Value = serde_json::from_str(&output.stdout).unwrap();
        let taken_at: Timestamp = report["takenAt"].as_str().unwrap().parse().unwrap();
        // Far nearer to the server's time than to ours, however long all of this took.
        assert!(
            taken_at.duration_since(date).abs() < hour / 2,
            "{taken_at}, not {date}"
        );
    }
}

/// What terminals show is in `terminals.rs`.
#[tokio::test]
async fn progress_of_lists_is_not_shown_in_a_pipe() {
    let plane = ControlPlane::shared_api().await;
    let namespace = TestNamespace::create(plane, "progress").await.unwrap();
    let name = format!("{}-node", namespace.name);
    let node = NodeFixture::new(&name).zone("a");
    node.create(namespace.client()).await.unwrap();
    let mut command = Command::new(program::nodelife().unwrap());
    command
        .env(
            "KUBECONFIG",
            plane.kubeconfig_file(&Identity::Admin).unwrap(),
        )
        .env("TERM", "xterm")
        .args(["audit", &name, "--rule", RULE]);
    let piped = kubectl::run(command, "").await.unwrap();
    assert_eq!(piped.status, Some(0), "{}", piped.stderr);
    assert!(!piped.stderr.contains("reading"), "{:?}", piped.stderr);
}
