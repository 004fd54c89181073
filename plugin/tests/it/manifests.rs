//! `audit -f` on manifests, before they are in a cluster

use std::fs;

use crate::{run, stdout};

/// What `helm template` prints, but for the values.
fn chart(replicas: &str, budget: &str, more: &str) -> String {
    format!(
        "---
# Source: shop/templates/service.yaml
apiVersion: v1
kind: Service
metadata: {{name: web}}
spec: {{selector: {{app: web}}, ports: [{{port: 80}}]}}
---
# Source: shop/templates/deployment.yaml
apiVersion: apps/v1
kind: Deployment
metadata: {{name: web, labels: {{chart: shop-1.0.0}}}}
spec:
  {replicas}
  selector: {{matchLabels: {{app: web}}}}
  template:
    metadata: {{labels: {{app: web, tier: front}}}}
    spec: {{containers: [{{name: web, image: web}}]}}
---
# Source: shop/templates/pdb.yaml
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {{name: web}}
spec:
  {budget}
  selector: {{matchLabels: {{tier: front}}}}
---
{more}"
    )
}

fn audit(text: &str, more: &[&str]) -> String {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("chart.yaml");
    fs::write(&path, text).unwrap();
    run(&[&["audit", "-f", path.to_str().unwrap()], more].concat())
}

const DAEMONS: &str = "apiVersion: apps/v1
kind: DaemonSet
metadata: {name: agent}
spec:
  selector: {matchLabels: {app: agent}}
  template: {metadata: {labels: {app: agent, tier: front}}}
";

const SECOND: &str = "apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: all}
spec: {maxUnavailable: 1, selector: {}}
";

#[test]
fn a_budget_is_judged_by_what_its_spec_says_of_the_declared_replicas() {
    let autoscaler = "apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: web}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}
  minReplicas: 2
  maxReplicas: 9
";
    for (replicas, budget, more, told) in [
        (
            "replicas: 1",
            "minAvailable: 1",
            "",
            Some(
                "minAvailable: 1: 1 of 1 pods of Deployment web have to be healthy, so none can be \
                 evicted; set maxUnavailable: 1, or run at least 2 pods",
            ),
        ),
        // Absent means 1.
        (
            "{}",
            "minAvailable: 50%",
            "",
            Some("minAvailable: 50%: 1 of 1 pods"),
        ),
        (
            "replicas: 3",
            "minAvailable: 75%",
            "",
            Some("or run at least 4 pods"),
        ),
        (
            "replicas: 3",
            "maxUnavailable: 0",
            "",
            Some("so none can be evicted; set maxUnavailable: 1 "),
        ),
        ("replicas: 2", "minAvailable: 1", "", None),
        ("replicas: 1", "maxUnavailable: 1", "", None),
        ("replicas: 0", "maxUnavailable: 0", "", None),
        (
            "replicas: 5",
            "minAvailable: 2",
            autoscaler,
            Some(
                "2 of 2 pods of Deployment web have to be healthy, so none can be evicted at the \
                 least scale of their HorizontalPodAutoscaler; set maxUnavailable: 1, or run at \
                 least 3 pods",
            ),
        ),
        ("{}", "minAvailable: 1", autoscaler, None),
        (
            "replicas: 2",
            "maxUnavailable: 1",
            DAEMONS,
            Some("daemonsets.apps does not implement the scale subresource"),
        ),
        (
            "replicas: 2",
            "maxUnavailable: 1",
            SECOND,
            Some("budgets all and web select the same pods, those of web"),
        ),
    ] {
        judge((replicas, budget, more), told);
    }
}

#[test]
fn a_budget_is_judged_as_the_disruption_controller_will_count() {
    let job = DAEMONS.replace("apps/v1\nkind: DaemonSet", "batch/v1\nkind: Job");
    let same_name = DAEMONS
        .replace("DaemonSet", "StatefulSet")
        .replace("agent", "web");
    let same_budget = SECOND.replace("all", "web");
    for (replicas, budget, more, told) in [
        // Ended pods of a Job count as well.
        (
            "replicas: 2",
            "maxUnavailable: 1",
            job.as_str(),
            Some("jobs.batch does not implement the scale subresource"),
        ),
        (
            "replicas: 2",
            "unhealthyPodEvictionPolicy: AlwaysAllow",
            "",
            Some(
                "neither minAvailable nor maxUnavailable: the disruption controller expects no \
                 pod, and allows no eviction; set maxUnavailable: 1",
            ),
        ),
        // One budget over two workloads of one name.
        ("replicas: 2", "maxUnavailable: 1", &same_name, None),
        // As `kubectl apply` leaves it.
        ("replicas: 1", "minAvailable: 1", &same_budget, None),
    ] {
        judge((replicas, budget, more), told);
    }
}

#[test]
fn the_page_about_budgets_has_each_message() {
    let page = include_str!("../../../docs/drainable-budgets.md");
    let (_, messages) = page.split_once("```text\n").unwrap();
    let (messages, _) = messages.split_once("```").unwrap();
    let autoscaler = "apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: web}
spec: {scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}, minReplicas: 2, maxReplicas: 9}
";
    let cases = [
        ("replicas: 1", "minAvailable: 1", ""),
        ("replicas: 2", "unhealthyPodEvictionPolicy: AlwaysAllow", ""),
        ("replicas: 5", "minAvailable: 2", autoscaler),
        ("replicas: 3", "maxUnavailable: 0", ""),
        ("replicas: 2", "minAvailable: 2", ""),
        ("replicas: 3", "minAvailable: 75%", ""),
        ("replicas: 2", "maxUnavailable: 1", SECOND),
        ("replicas: 3", "minAvailable: 100%", ""),
        ("replicas: 2", "maxUnavailable: 1", DAEMONS),
    ];
    assert_eq!(messages.lines().count(), cases.len());
    for (case, message) in cases.into_iter().zip(messages.lines()) {
        judge(case, Some(message));
    }
}

/// A chart may give the namespace of its release to some of its objects.
#[test]
fn manifests_that_name_one_namespace_are_in_it() {
    let all = chart("replicas: 1", "minAvailable: 1", "");
    let other = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: api, namespace: other}\n";
    for kind in ["Deployment", "PodDisruptionBudget"] {
        let name = format!("kind: {kind}\nmetadata: {{name: web");
        let named = all.replace(&name, &format!("{name}, namespace: shop"));
        assert_ne!(named, all);
        let text = audit(&named, &["-o", "wide"]);
        assert!(text.contains("poddisruptionbudget/shop/web"), "{text}");
        // The field is found all the same.
        let sarif = audit(&named, &["-o", "sarif"]);
        assert!(sarif.contains("\"startLine\": 24"), "{sarif}");
        let text = audit(&format!("{named}{other}"), &[]);
        assert!(text.starts_with("status: 0\n"), "{text}");
    }
}

#[test]
fn a_scaled_object_is_the_autoscaler_that_keda_makes_of_it() {
    let keda = "apiVersion: keda.sh/v1alpha1
kind: ScaledObject
metadata: {name: web}
spec:
  scaleTargetRef: {name: web}
";
    let two = format!("{keda}  minReplicaCount: 2\n");
    judge(("{}", "minAvailable: 1", &two), None);
    let told =
        "1 of 1 pods of Deployment web have to be healthy, so none can be evicted at the least";
    judge(("replicas: 3", "minAvailable: 1", keda), Some(told));
}

/// What is told of a chart with these replicas, this budget, and more.
fn judge((replicas, budget, more): (&str, &str, &str), told: Option<&str>) {
    let replicas = replicas.replace("{}", "paused: false");
    let flags = ["-o", "wide", "--fail-on", "warning"];
    let text = audit(&chart(&replicas, budget, more), &flags);
    let status = if told.is_some() { 3 } else { 0 };
    let case = format!("{replicas}, {budget}: {text}");
    assert!(text.starts_with(&format!("status: {status}\n")), "{case}");
    match told {
        Some(told) => assert!(text.contains(told), "{case}"),
        None => assert!(
            text.contains("no findings in the manifests, 2 rules checked"),
            "{case}"
        ),
    }
    assert!(
        text.contains("not checked: the input has manifests, and no nodes"),
        "{case}"
    );
}

#[test]
fn a_budget_alone_is_judged_at_every_scale() {
    let budget = |spec: &str| {
        format!(
            "apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {{name: web, namespace: shop}}
spec: {{{spec}, selector: {{matchLabels: {{app: web}}}}}}
"
        )
    };
    for (spec, says) in [
        ("maxUnavailable: 0", true),
        ("maxUnavailable: 0%", true),
        ("minAvailable: 100%", true),
        ("minAvailable: 1", false),
        ("maxUnavailable: 1%", false),
    ] {
        let text = audit(&budget(spec), &["-o", "json"]);
        let told = text.contains(" allows no eviction at any scale; set maxUnavailable: 1");
        assert_eq!(told, says, "{text}");
    }
    let mut owned = budget("maxUnavailable: 0").replace(
        "namespace: shop",
        "namespace: shop, ownerReferences: [{apiVersion: postgresql.cnpg.io/v1, kind: Cluster, \
         name: db, uid: u, controller: true}]",
    );
    owned.push('\n');
    assert!(audit(&owned, &[]).contains("no findings"), "{owned}");
}

/// What a cluster has is judged by its status.
#[test]
fn objects_of_a_cluster_are_no_manifests() {
    let text = chart("replicas: 1", "minAvailable: 1", "");
    let stored = text.replace("{name: web}", "{name: web, uid: u-1}");
    let text = audit(&stored, &[]);
    assert!(text.contains("error: no node was audited: "), "{text}");
    assert!(!text.contains("evicted"), "{text}");
}

const KUBELET: &str =
    "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nmaxPods: 60\n";

/// A kubelet's file and its folder of drop-ins, judged for a version.
fn kubelet(more: &str, drop_ins: &[&str], target: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("kubelet.yaml");
    fs::write(&path, format!("{KUBELET}{more}")).unwrap();
    let mut words = vec!["audit", "-f", path.to_str().unwrap(), "--target", target];
    let conf = folder.path().join("conf.d");
    if !drop_ins.is_empty() {
        fs::create_dir(&conf).unwrap();
        for (i, text) in drop_ins.iter().enumerate() {
            fs::write(conf.join(format!("{i}.conf")), text).unwrap();
        }
        words.extend(["--kubelet-config-dir", conf.to_str().unwrap()]);
    }
    run(&words)
}

#[test]
fn a_file_of_a_kubelet_is_judged_for_the_version() {
    for (more, why) in [
        (
            "featureGates: {NodeSwap: false}",
            "NodeSwap: locked to true",
        ),
        ("featureGates: {Nope: true}", "featureGates.Nope: unknown"),
        (
            "topologyManagerPolicy: bogus",
            "topologyManagerPolicy \"bogus\"",
        ),
        (
            "podPidsLimit: '5'",
            "podPidsLimit: \"5\" is not of type int64",
        ),
        ("systemReserved: [", "line 4"),
        (
            "evictionHard: {memory.available: 100MB}",
            "memory.available: \"100MB\"",
        ),
        (
            "cpuManagerPolicyOptions: {full-pcpus-only: 'true'}",
            "does not take",
        ),
    ] {
        let text = kubelet(more, &[], "1.37");
        assert!(text.starts_with("status: 3\n"), "{more}: {text}");
        assert!(
            text.contains(why) && text.contains("kubelet.yaml"),
            "{more}: {text}"
        );
        assert!(
            text.contains("the kubelet of 1.37 does not start"),
            "{text}"
        );
    }
    for (more, why) in [
        (
            "someField: 1",
            "the kubelet of 1.37 does not know someField",
        ),
        (
            "maxPods: 70",
            "the file has maxPods more than once: the kubelet of 1.37 uses the last",
        ),
    ] {
        let text = kubelet(more, &[], "1.37");
        assert!(text.starts_with("status: 0\n"), "{more}: {text}");
        assert!(
            text.contains("W warning   NL-UPG-003") && text.contains(why),
            "{text}"
        );
    }
    // What a YAML of Go reads as a number or a truth, and what only an older version takes.
    for (more, target) in [
        (
            "failSwapOn: no\npodPidsLimit: 0x100\n---\nkind: Other",
            "1.37",
        ),
        ("featureGates: {NodeSwap: false}", "1.33"),
    ] {
        let text = kubelet(more, &[], target);
        let said = "no findings in the kubelet configurations, 3 rules checked";
        assert!(
            text.starts_with("status: 0\n") && text.contains(said),
            "{text}"
        );
        assert!(!text.contains("Warning"), "{text}");
    }
}

#[test]
fn drop_ins_are_merged_into_the_file_of_a_kubelet() {
    let low = format!("{KUBELET}imageGCHighThresholdPercent: 70\n");
    let text = kubelet("", &[&low], "1.37");
    assert!(text.starts_with("status: 3\n"), "{text}");
    assert!(
        text.contains("imageGCLowThresholdPercent 80 must be less than"),
        "{text}"
    );
    let mended = format!("{KUBELET}imageGCLowThresholdPercent: 60\n");
    let text = kubelet("", &[&low, &mended], "1.37");
    assert!(text.starts_with("status: 0\n"), "{text}");
    // The kubelet decodes a drop-in strictly, and the file before it merges anything.
    for (more, drop_in, why) in [
        (
            "",
            "maxPods: 5\n",
            "0.conf: apiVersion must be kubelet.config.k8s.io/v1beta1",
        ),
        (
            "",
            &format!("{KUBELET}maxPods: 5\n"),
            "0.conf: maxPods is there more than once",
        ),
        (
            "podPidsLimit: x",
            &format!("{KUBELET}podPidsLimit: 5\n"),
            "podPidsLimit: \"x\" is no",
        ),
    ] {
        let text = kubelet(more, &[drop_in], "1.37");
        assert!(
            text.starts_with("status: 3\n") && text.contains(why),
            "{text}"
        );
    }
}

#[test]
fn a_file_of_a_kubelet_needs_a_version() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("kubelet.yaml");
    fs::write(&path, KUBELET).unwrap();
    let path = path.to_str().unwrap();
    let text = run(&["audit", "-f", path]);
    assert!(text.starts_with("status: 2\n"), "{text}");
    assert!(
        text.contains("is a configuration of a kubelet: name the version"),
        "{text}"
    );
    // Beside a cluster it is judged as well as the nodes.
    fs::write(path, format!("{KUBELET}podsPerCore: -1\n")).unwrap();
    let cluster = "examples/healthy-cluster.json";
    let text = run(&["audit", "-f", path, "-f", cluster, "--target", "1.37"]);
    assert!(text.starts_with("status: 3\n"), "{text}");
    assert!(
        text.contains("podsPerCore -1 must be 0 or greater"),
        "{text}"
    );
    assert!(
        text.contains("1 finding on 9 nodes, 8 rules checked"),
        "{text}"
    );
}

/// Each result of SARIF points at the line of the field that is wrong, also in a folder.
#[test]
fn a_result_points_at_the_field() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("shop.yaml");
    let second = "apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: all}
spec:
  minAvailable: 0
  selector: {}
";
    let text = chart("replicas: 2", "minAvailable: 2", second);
    fs::write(&file, &text).unwrap();
    for input in [file.as_path(), folder.path()] {
        let output = stdout(&["audit", "-f", input.to_str().unwrap(), "-o", "sarif"], 3);
        let log: serde_json::Value = serde_json::from_str(&output).unwrap();
        let results = log["runs"][0]["results"].as_array().unwrap();
        let pointed = results.iter().map(|result| {
            let place = &result["locations"][0]["physicalLocation"];
            let uri = place["artifactLocation"]["uri"].as_str().unwrap();
            assert!(uri.ends_with("shop.yaml"), "{uri}");
            let line = place["region"]["startLine"].as_u64().unwrap();
            let line = text
                .lines()
                .nth(usize::try_from(line).unwrap() - 1)
                .unwrap();
            (result["ruleId"].as_str().unwrap(), line.trim())
        });
        let pointed: Vec<_> = pointed.collect();
        assert_eq!(
            pointed,
            [
                ("NL-PDB-001", "minAvailable: 2"),
                ("NL-PDB-002", "selector: {}")
            ]
        );
    }
}

/// The patch applies, and the audit finds nothing after it.
#[test]
fn a_patch_mends_the_budgets_of_files() {
    let folder = tempfile::tempdir().unwrap();
    let budget = |name: &str, spec: &str| {
        format!(
            "apiVersion: policy/v1\nkind: PodDisruptionBudget\nmetadata: {{name: {name}}}\nspec: {spec}\n"
        )
    };
    let second = budget(
        "other",
        "{maxUnavailable: 0%, selector: {matchLabels: {app: other}}}",
    );
    let third = budget("none", "\n  selector: {matchLabels: {app: none}}");
    let fourth = budget(
        "right",
        "{minAvailable: 1, selector: {matchLabels: {app: right}}}",
    );
    let text = chart(
        "replicas: 2",
        "minAvailable: 2",
        &format!("{second}---\n{third}---\n{fourth}"),
    );
    fs::write(folder.path().join("shop.yaml"), &text).unwrap();
    let audit = |format: &str, status: i32| {
        let mut command = crate::nodelife(&["audit", "-f", ".", "-o", format]);
        let output = command.current_dir(folder.path()).output().unwrap();
        assert_eq!(output.status.code(), Some(status), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let patch = audit("patch", 3);
    assert_eq!(
        patch.matches("+  maxUnavailable: 1\n").count(),
        2,
        "{patch}"
    );
    fs::write(folder.path().join("mend.patch"), &patch).unwrap();
    let mut git = std::process::Command::new("git");
    let applied = git.args(["apply", "mend.patch"]).current_dir(folder.path());
    let applied = applied.output().unwrap();
    assert!(applied.status.success(), "{applied:?}: {patch}");
    fs::remove_file(folder.path().join("mend.patch")).unwrap();
    let mended = fs::read_to_string(folder.path().join("shop.yaml")).unwrap();
    assert_eq!(mended.matches("maxUnavailable: 1").count(), 3, "{mended}");
    assert_eq!(audit("patch", 0), "");
    let rendered = folder.path().join("rendered.yaml");
    fs::write(&rendered, &text).unwrap();
    let mut command = crate::nodelife(&["audit", "-f", "-", "-o", "patch"]);
    let output = command
        .stdin(fs::File::open(rendered).unwrap())
        .output()
        .unwrap();
    let named = String::from_utf8(output.stdout).unwrap();
    assert!(named.contains("/web is in no file\n"), "{named}");
    assert!(!named.contains("@@"), "{named}");
}
