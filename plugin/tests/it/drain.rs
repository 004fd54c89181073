//! Tests of `drain -f`.

use std::fs;

use crate::{root, run, show};

pub(crate) const DRAIN: &str = "plugin/tests/it/fixtures/drain.yaml";

#[test]
fn the_plan_has_waves_duration_and_unschedulable_pods() {
    insta::assert_snapshot!(run(&["drain", "old", "-f", DRAIN]));
}

#[test]
fn a_node_that_is_not_in_the_file_is_one_clear_sentence() {
    let text = run(&["drain", "elsewhere", "-f", DRAIN]);
    assert!(
        text.starts_with("status: 1") && text.contains("nodes \"elsewhere\" not found"),
        "{text}"
    );
}

#[test]
fn a_plan_from_a_file_asks_no_server() {
    for flag in ["--dry-run=server", "--events=jsonl"] {
        let text = run(&["drain", "old", "-f", DRAIN, flag]);
        assert!(
            text.starts_with("status: 2") && text.contains("-f"),
            "{text}"
        );
    }
}

/// A single pod counts once, although it is both on the node and in its namespace.
#[test]
fn a_budget_over_one_bare_pod_never_allows() {
    let file = fs::read_to_string(root().join(DRAIN)).unwrap();
    let bare = "- metadata: {name: lone, namespace: shop, uid: lone, labels: {app: lone}}
  spec: {nodeName: old}
  status: {phase: Running, conditions: [{type: Ready, status: 'True'}]}
budgets:
- metadata: {name: lone, namespace: shop, uid: budget-lone, generation: 1}
  spec: {minAvailable: 1, selector: {matchLabels: {app: lone}}}
  status: {observedGeneration: 1, disruptionsAllowed: 0, currentHealthy: 1, desiredHealthy: 1, expectedPods: 1}
";
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("lone.yaml");
    fs::write(&path, file.replacen("budgets:\n", bare, 1)).unwrap();
    // A flag would not help.
    let unforced = ["drain", "old", "-f", path.to_str().unwrap()];
    let output = crate::nodelife(&unforced).output().unwrap();
    assert_eq!(output.status.code(), Some(7), "{}", show(&output));
    let words = ["drain", "old", "--force", "-f", path.to_str().unwrap()];
    // As the drain ends that leaves it behind.
    let partial = [&words[..], &["--on-impossible=partial"]].concat();
    let output = crate::nodelife(&partial).output().unwrap();
    assert_eq!(output.status.code(), Some(7), "{}", show(&output));
    let output = crate::nodelife(&words).output().unwrap();
    assert_eq!(output.status.code(), Some(7), "{}", show(&output));
    assert!(
        show(&output).contains("shop/lone (minAvailable: 1) needs 1 healthy pod of 1"),
        "{}",
        show(&output)
    );
}

/// Twelve Jobs that fail for good, and the only pod of the cluster's DNS.
#[test]
fn the_most_urgent_warning_is_the_first_of_many() {
    let pod = |namespace: &str, name: &str, (group, kind): (&str, &str), labels: &str| {
        format!(
            "- metadata:
    {{name: {name}, namespace: {namespace}, uid: {name}, labels: {labels}, ownerReferences:
      [{{apiVersion: {group}/v1, kind: {kind}, name: of-{name}, uid: of-{name}, controller: true}}]}}
  spec: {{nodeName: old}}
  status: {{phase: Running, conditions: [{{type: Ready, status: 'True'}}]}}
"
        )
    };
    let names: Vec<String> = (0..12).map(|i| format!("train-{i}")).collect();
    let pods = names
        .iter()
        .map(|name| pod("batch", name, ("batch", "Job"), "{}"));
    let labels = "{k8s-app: kube-dns}";
    let dns = pod("kube-system", "dns", ("apps", "ReplicaSet"), labels);
    let pods: String = pods.chain([dns]).collect();
    let jobs = names.iter().map(|name| {
        format!(
            "- kind: Job
  metadata: {{name: of-{name}, namespace: batch, uid: of-{name}}}
  spec: {{backoffLimit: 0}}
"
        )
    });
    let set = "- kind: ReplicaSet
  metadata: {name: of-dns, namespace: kube-system, uid: of-dns}
  spec: {replicas: 1}
";
    let jobs: String = jobs.chain([set.to_owned()]).collect();
    let file = fs::read_to_string(root().join(DRAIN)).unwrap();
    let file = file.replacen("budgets:\n", &format!("{pods}budgets:\n"), 1);
    let file = file.replacen("workloads:\n", &format!("workloads:\n{jobs}"), 1);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("many.yaml");
    fs::write(&path, file).unwrap();
    let text = run(&["drain", "old", "-f", path.to_str().unwrap()]);
    let warnings = text.lines().filter(|line| line.starts_with("Warning: "));
    let warnings: Vec<&str> = warnings.collect();
    let dns = "Warning: kube-system/dns: it goes last";
    assert!(warnings[0].starts_with(dns), "{text}");
    let jobs =
        "Warning: batch/train-0, batch/train-1, batch/train-2 and 9 more: its Job fails for good";
    assert!(warnings[1].starts_with(jobs), "{text}");
}

/// The only pod of a ReplicaSet, of which an autoscaler may run three.
#[test]
fn a_plan_from_a_file_knows_the_scales_of_autoscalers() {
    let file = fs::read_to_string(root().join(DRAIN)).unwrap();
    let pod = "- metadata:
    {name: lone, namespace: shop, uid: lone, labels: {app: lone}, ownerReferences:
      [{apiVersion: apps/v1, kind: ReplicaSet, name: lone, uid: set, controller: true}]}
  spec: {nodeName: old}
  status: {phase: Running, conditions: [{type: Ready, status: 'True'}]}
budgets:
- metadata: {name: lone, namespace: shop, uid: budget-lone, generation: 1}
  spec: {minAvailable: LEAST, selector: {matchLabels: {app: lone}}}
  status: {observedGeneration: 1, disruptionsAllowed: 0, currentHealthy: 1, desiredHealthy: LEAST, expectedPods: 1}
";
    let set = "autoscalers:
- metadata: {name: lone, namespace: shop}
  spec: {scaleTargetRef: {apiVersion: apps/v1, kind: ReplicaSet, name: lone}, maxReplicas: 3}
workloads:
- kind: ReplicaSet
  metadata: {name: lone, namespace: shop, uid: set}
  spec: {replicas: 1}
";
    let file = file.replacen("budgets:\n", pod, 1);
    let file = file.replacen("workloads:\n", set, 1);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("scaled.yaml");
    for (least, is_never, says) in [
        (
            "1",
            false,
            "it allows an eviction from 2 pods on, and their HorizontalPodAutoscaler may run 1 to 3",
        ),
        (
            "3",
            true,
            "it can never allow an eviction at any scale of their HorizontalPodAutoscaler (1 to 3)",
        ),
    ] {
        fs::write(&path, file.replace("LEAST", least)).unwrap();
        let words = ["drain", "old", "--force", "-f", path.to_str().unwrap()];
        let output = crate::nodelife(&words).output().unwrap();
        let shown = show(&output);
        assert_eq!(output.status.code() == Some(7), is_never, "{shown}");
        assert!(shown.contains(says), "{shown}");
        assert!(!shown.contains("at the present scale alone"), "{shown}");
    }
}

#[test]
fn a_plan_without_budgets_says_so() {
    let file = fs::read_to_string(root().join(DRAIN)).unwrap();
    let (before, rest) = file.split_once("\nbudgets:\n").unwrap();
    let (_, after) = rest.split_once("\nworkloads:\n").unwrap();
    let why = "missing: {budgets: 'not allowed to list poddisruptionbudgets.policy'}";
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("unseen.yaml");
    fs::write(&path, format!("{before}\n{why}\nworkloads:\n{after}")).unwrap();
    let words = ["drain", "old", "-f", path.to_str().unwrap()];
    insta::assert_snapshot!(show(&crate::nodelife(&words).output().unwrap()));
}

#[test]
fn a_plan_is_the_same_in_json_and_yaml() {
    let plan = |format| crate::nodelife(&["drain", "old", "-f", DRAIN, "-o", format]);
    let text = |format| String::from_utf8(plan(format).output().unwrap().stdout).unwrap();
    let json: serde_json::Value = serde_json::from_str(&text("json")).unwrap();
    let yaml: serde_json::Value = serde_saphyr::from_str(&text("yaml")).unwrap();
    assert_eq!(json["kind"], "DrainPlan");
    assert_eq!(json, yaml);
}

/// The drain would wait for the budget until its deadline.
#[test]
fn a_plan_that_a_budget_blocks_ends_as_its_drain() {
    let file = fs::read_to_string(root().join(DRAIN)).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("blocked.yaml");
    let full = "disruptionsAllowed: 1, currentHealthy: 4";
    let file = file.replacen(full, "disruptionsAllowed: 0, currentHealthy: 3", 1);
    let name = "{name: web, namespace: shop, uid: budget-web";
    let owned = "ownerReferences: [{apiVersion: a/v1, kind: Cluster, name: web, uid: w}]";
    let owned = file.replacen(name, &format!("{name}, {owned}"), 1);
    let bypass = "--force --bypass-pdb=shop/web --force-after=1m";
    // An operator may lift its own budget.
    for (file, flags, status) in [(&file, "", 5), (&file, bypass, 0), (&owned, "", 0)] {
        fs::write(&path, file).unwrap();
        let words = ["drain", "old", "-f", path.to_str().unwrap()];
        let words = words.into_iter().chain(flags.split_whitespace());
        let output = crate::nodelife(&words.collect::<Vec<_>>());
        let output = show(&{ output }.output().unwrap());
        assert!(
            output.starts_with(&format!("status: {status}\n")),
            "{output}"
        );
        assert!(output.contains("waits for budget shop/web"), "{output}");
    }
}

/// The time of a snapshot is no time of a drain.
#[test]
fn a_time_without_files_is_refused() {
    for flag in ["--detach=sat", "--undo", "--break-lock", "--plan=plan.json"] {
        let text = run(&["drain", "old", flag, "--at", "2026-11-28T22:00:00Z"]);
        let is_told = text.starts_with("status: 2") && text.contains("--at");
        assert!(is_told, "{flag}: {text}");
    }
}

#[test]
fn detach_prints_no_report() {
    let text = run(&["drain", "old", "--detach", "-o", "yaml"]);
    let why = "--detach prints its NodeMaintenance (-o) only with --dry-run";
    assert!(
        text.starts_with("status: 2") && text.contains(why),
        "{text}"
    );
}

/// Nobody waits at a terminal until Saturday.
#[test]
fn a_window_without_the_controller_is_refused() {
    let flags = [
        "--dry-run",
        "--undo",
        "--break-lock",
        "--output=json",
        "--events=jsonl",
        "--force",
    ];
    for flag in flags.into_iter().chain(["--timeout=1h"]) {
        let text = run(&["drain", "old", "--window=sat 22:00-02:00", flag]);
        let is_told = text.starts_with("status: 2") && text.contains("--window");
        assert!(is_told, "{flag}: {text}");
    }
    let text = run(&["drain", "old", "--detach", "--window=22:00-25:00"]);
    assert!(
        text.contains("25:00 is no time of day, as 22:00 is"),
        "{text}"
    );
}
