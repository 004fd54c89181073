//! `audit`

use std::fs;

use serde_json::json;

use crate::{RULES, SMALL, nodelife, run, stdout};

#[test]
fn a_table_with_fixes_and_skipped_rules() {
    insta::assert_snapshot!(run(&["audit", "-f", SMALL, "--rule", RULES]));
}

#[test]
fn fail_on_decides_the_status_alone() {
    let status = |fail_on| {
        let words = ["audit", "-f", SMALL, "--fail-on", fail_on];
        nodelife(&words).output().unwrap().status.code()
    };
    assert_eq!(status("error"), Some(3));
    assert_eq!(status("warning"), Some(3));
    assert_eq!(status("never"), Some(0));
}

#[test]
fn only_what_was_asked_for() {
    let wanted = run(&[
        "audit",
        "node/node-b",
        "-f",
        SMALL,
        "--rule",
        "NL-HB-001,NL-HB-002",
        "--no-headers",
        "-q",
    ]);
    insta::assert_snapshot!(wanted);
    let words = [
        "audit",
        "-f",
        SMALL,
        "--rule",
        RULES,
        "-l",
        "disk=hdd,!gone",
        "--skip-rule",
        "PDB,NL-CAP-001",
        "-q",
    ];
    insta::assert_snapshot!(run(&words));
}

/// Two kubelets of 1.36 with the same settings, of which 1.37 refuses one and does not know another.
#[test]
fn a_target_reports_what_its_kubelet_refuses() {
    let folder = tempfile::tempdir().unwrap();
    let put = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    let node = |name: &str| {
        format!(
            r#"{{"apiVersion":"v1","kind":"Node","metadata":{{"name":"{name}"}},"status":{{"nodeInfo":
            {{"kubeletVersion":"v1.36.3","containerRuntimeVersion":"containerd://2.1.4"}}}}}}"#
        )
    };
    let nodes = [node("a"), node("b")].join(",");
    put(
        "nodes.json",
        &format!(r#"{{"apiVersion":"v1","kind":"List","items":[{nodes}]}}"#),
    );
    let config = r#"{"kubeletconfig":{"featureGates":{"SidecarContainers":true},
        "logging":{"format":"klog"},"dynamicConfigDir":"/var/lib/kubelet"}}"#;
    put("configz/a.json", config);
    put("configz/b.json", config);
    let files = folder.path().to_str().unwrap();
    let audit = |target| run(&["audit", "-f", files, "--target", target, "-q"]);
    insta::assert_snapshot!("a_target_that_refuses_a_gate", audit("1.37"));
    insta::assert_snapshot!("a_target_that_refuses_a_value", audit("v1.36.0"));
    let unknown = run(&["audit", "-f", files, "--target", "1.29"]);
    assert!(
        unknown.contains("expected a minor version of Kubernetes from 1.33 to 1.37"),
        "{unknown}"
    );
    assert!(unknown.starts_with("status: 2"), "{unknown}");
}

#[test]
fn one_node_has_nothing_to_do_with_others() {
    let node = "ip-10-0-16-11.eu-central-1.compute.internal";
    let words = [
        "audit",
        node,
        "-f",
        "examples/faulty-cluster.json",
        "-o",
        "json",
    ];
    let report: serde_json::Value = serde_json::from_str(&stdout(&words, 3)).unwrap();
    for finding in report["findings"].as_array().unwrap() {
        let kind = finding["subject"]["kind"].as_str().unwrap();
        let foreign = ["PersistentVolume", "ClusterRoleBinding"];
        assert!(!foreign.contains(&kind), "{finding:#}");
    }
    let nothing = [
        "audit",
        "-f",
        "examples/faulty-cluster.json",
        "-l",
        "nosuch=x",
    ];
    let text = run(&nothing);
    assert!(text.starts_with("status: 1\n"), "{text}");
    assert!(text.contains("matches --selector"), "{text}");
}

#[test]
fn the_document_is_the_documented_one() {
    let text = stdout(&["audit", "-f", SMALL, "-o", "json"], 3);
    let report: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(report["apiVersion"], "nodelife.dev/v1alpha1");
    assert_eq!(report["kind"], "AuditReport");
    let finding = &report["findings"][0];
    for field in [
        "rule",
        "title",
        "severity",
        "message",
        "confidence",
        "fix",
        "link",
    ] {
        assert!(finding[field].is_string(), "{field} of {finding}");
    }
    assert!(finding["subject"]["kind"].is_string() && finding["evidence"].is_object());
    for skipped in report["skipped"].as_array().unwrap() {
        assert!(skipped["rule"].is_string() && skipped["reason"].is_string());
    }
    let yaml = stdout(&["audit", "-f", SMALL, "-o", "yaml"], 3);
    let same: serde_json::Value = serde_saphyr::from_str(&yaml).unwrap();
    assert_eq!(same["findings"], report["findings"]);
}

#[test]
fn a_baseline_leaves_only_what_is_new() {
    let baseline = tempfile::NamedTempFile::new().unwrap();
    let path = baseline.path().to_str().unwrap();
    let audit = |more: &[&'static str], status| {
        let words = ["audit", "-f", SMALL, "--rule", RULES];
        stdout(&[words.as_slice(), more].concat(), status)
    };
    std::fs::write(&baseline, audit(&["-o", "json", "--skip-rule", "HB"], 3)).unwrap();
    let words = [
        "audit",
        "-f",
        SMALL,
        "--rule",
        RULES,
        "--no-headers",
        "--baseline",
        path,
    ];
    let new = stdout(&words, 3);
    let mut rows = new.lines().filter(|line| !line.starts_with(' ')).peekable();
    assert!(rows.peek().is_some());
    assert!(rows.all(|line| line.contains("NL-HB-")), "{new}");
    std::fs::write(&baseline, audit(&["-o", "yaml"], 3)).unwrap();
    assert_eq!(stdout(&words, 0), "");
}

#[test]
fn a_baseline_tells_what_is_fixed() {
    let baseline = tempfile::NamedTempFile::new().unwrap();
    let path = baseline.path().to_str().unwrap();
    let faulty = ["audit", "-f", "examples/faulty-cluster.json", "-o", "json"];
    std::fs::write(&baseline, stdout(&faulty, 3)).unwrap();
    let healthy = |more: &[&'static str]| {
        let words = ["audit", "-f", "examples/healthy-cluster.json", "-o", "json"];
        let words = [words.as_slice(), &["--baseline", path], more].concat();
        nodelife(&words).output().unwrap()
    };
    let fixed = |more: &[&'static str]| {
        let output = healthy(more);
        let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let fixed = report["fixed"].as_array().unwrap().len();
        assert_eq!(report["summary"]["fixed"], fixed);
        (fixed, String::from_utf8(output.stderr).unwrap())
    };
    let (all, stderr) = fixed(&[]);
    assert!(all > 20, "{all}");
    let sentence = format!("{all} findings of the baseline are gone");
    assert!(stderr.contains(&sentence), "{stderr}");
    // What was not looked at is not fixed.
    let (one, stderr) = fixed(&["--rule", "NL-HB-001"]);
    assert_eq!(one, 1);
    assert!(
        stderr.contains("1 finding of the baseline is gone: NL-HB-001 node/"),
        "{stderr}"
    );
    let (errors, _) = fixed(&["--severity", "error"]);
    assert!(0 < errors && errors < all);
    let (node, _) = fixed(&["ip-10-0-16-11.eu-central-1.compute.internal"]);
    assert!(0 < node && node < errors);
}

/// The input has nodes alone.
#[test]
fn a_target_says_first_what_was_not_checked() {
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "worker"},
        "status": {"nodeInfo": {"kubeletVersion": "v1.36.2"}}});
    let file = tempfile::NamedTempFile::with_suffix(".json").unwrap();
    fs::write(&file, node.to_string()).unwrap();
    let path = file.path().to_str().unwrap();
    let said = nodelife(&["audit", "-f", path, "--target", "1.37"]).output();
    let said = String::from_utf8(said.unwrap().stderr).unwrap();
    let first = "Warning: 4 rules not checked for want of kubelet configurations: ";
    let warning = said.lines().find(|line| line.starts_with("Warning"));
    assert!(warning.is_some_and(|w| w.starts_with(first)), "{said}");
    assert!(
        said.contains("an upgrade to 1.37 also needs budgets"),
        "{said}"
    );
}

#[test]
fn findings_group_and_sort_by_node_labels() {
    let words = [
        "audit",
        "-f",
        SMALL,
        "--rule",
        RULES,
        "--group-by",
        "disk",
        "-L",
        "topology.kubernetes.io/zone",
        "-q",
    ];
    insta::assert_snapshot!(run(&words));
    let by_node = [
        "audit",
        "-f",
        SMALL,
        "--rule",
        RULES,
        "--sort-by",
        "node",
        "-o",
        "wide",
    ];
    insta::assert_snapshot!(run(&by_node));
}

#[test]
fn the_healthy_example_is_clean_and_the_faulty_one_is_not() {
    let healthy = [
        "audit",
        "-f",
        "examples/healthy-cluster.json",
        "--fail-on",
        "info",
    ];
    assert_eq!(stdout(&healthy, 0), "");
    // Which faults are planted there is the business of core's tests.
    let faulty = ["audit", "-f", "examples/faulty-cluster.json", "-o", "name"];
    assert!(stdout(&faulty, 3).lines().count() > 12);
}

#[test]
fn what_severity_hides_is_counted_and_fails_the_command() {
    let words = |more: &[&'static str]| {
        let words = ["audit", "-f", "examples/faulty-cluster.json"];
        [words.as_slice(), more].concat()
    };
    let summary = |more: &[&'static str]| {
        let report = stdout(&words(&[more, &["-o", "json"]].concat()), 3);
        let report: serde_json::Value = serde_json::from_str(&report).unwrap();
        let shown = report["findings"].as_array().unwrap().len();
        (report["summary"].clone(), shown)
    };
    let (all, shown) = summary(&[]);
    assert_eq!(all["hidden"], 0);
    let (errors, fewer) = summary(&["--severity", "error"]);
    for severity in ["errors", "warnings", "infos"] {
        assert_eq!(errors[severity], all[severity]);
    }
    assert_eq!(errors["errors"], fewer);
    assert_eq!(errors["hidden"], shown - fewer);

    let hidden = ["--rule", "NL-RES-001", "--severity", "error"];
    let text = run(&words(
        &[hidden.as_slice(), &["--fail-on", "warning"]].concat(),
    ));
    assert!(text.starts_with("status: 3\n--- stdout\n---"), "{text}");
    assert!(
        text.contains("1 finding below --severity not shown\n"),
        "{text}"
    );
    assert!(text.contains("0 errors, 1 warning, 0 notes"), "{text}");
    assert!(!text.contains("no findings"), "{text}");
    let junit = stdout(&words(&[hidden.as_slice(), &["-o", "junit"]].concat()), 0);
    assert!(!junit.contains("NL-RES-001"), "{junit}");
}

#[test]
fn a_selection_without_rules_is_a_usage_error() {
    for (words, reason) in [
        (
            ["--rule", "NL-RES-001", "--skip-rule", "RES"],
            "--skip-rule excludes all rules that were asked for",
        ),
        (
            ["--rule", "NL-UPG-001", "--fail-on", "never"],
            "NL-UPG-001 is checked only with --target VERSION",
        ),
    ] {
        let text = run(&[["audit", "-f", SMALL].as_slice(), &words].concat());
        assert!(text.starts_with("status: 2\n--- stdout\n---"), "{text}");
        let error = format!("error: no rule is left to check: {reason}");
        assert!(text.contains(&error), "{text}");
    }
}

#[test]
fn a_removed_rule_is_a_warning_and_never_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("nodelife.yaml");
    let text = "apiVersion: nodelife.dev/v1alpha1\nkind: AuditConfig\n\
                exclude: [{rules: [NL-REG-007], reason: known}]\nseverities: {NL-VER-011: info}\n";
    std::fs::write(&config, text).unwrap();
    let config = config.to_str().unwrap();
    let audit = ["audit", "-f", SMALL, "--fail-on", "never"];
    for (flags, removed) in [
        (["--rule", "NL-REG-007"], "NL-REG-007"),
        (["--skip-rule", "nl-zon-005"], "NL-ZON-005"),
        (["--config", config], "NL-VER-011"),
    ] {
        let output = nodelife(&[&audit[..], &flags].concat()).output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        let warning = format!("Warning: {removed} was removed: ");
        assert!(stderr.contains(&warning), "{stderr}");
        assert_eq!(output.status.code(), Some(0), "{stderr}");
    }
    let checked = run(&["config", "check", config]);
    assert!(checked.contains("NL-REG-007 was removed: "), "{checked}");
    assert!(stdout(&["explain", "NL-REG-007"], 0).starts_with("NL-REG-007 was removed: "));
}

#[test]
fn rules_without_their_data_are_one_line_and_verbose_names_them() {
    let told = |more: &[&'static str]| {
        let words = ["audit", "-f", SMALL, "-o", "name"];
        let output = nodelife(&[words.as_slice(), more].concat()).output();
        String::from_utf8(output.unwrap().stderr).unwrap()
    };
    let short = told(&[]);
    let (warning, rest) = short.split_once('\n').unwrap();
    // A missing permission is no matter of course.
    let said = "Warning: 1 rule not checked for want of workloads: not allowed to list deployments";
    assert_eq!(warning, said);
    assert!(!rest.contains("Warning") && !rest.contains("NL-"), "{rest}");
    let (line, _) = rest.split_once('\n').unwrap();
    let reason = " not checked: 19 need kubelet configurations (--configz), ";
    assert!(line.contains(reason), "{line}");
    assert!(line.ends_with("; -v=1 names them"), "{line}");
    let long = told(&["-v=1"]);
    let reason = ": kubelet configurations not read: ";
    let line = long.lines().find(|line| line.contains(reason)).unwrap();
    assert!(line.starts_with("not checked: NL-"), "{line}");
    assert_eq!(told(&["-q"]), format!("{warning}\n"));
}

#[test]
fn the_next_command_runs_and_tells_more() {
    let next = |words: &[&str]| {
        let output = nodelife(words).output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        let next = stderr.lines().last().unwrap();
        next.strip_prefix("next: kubectl nodelife ")
            .unwrap_or_else(|| panic!("{stderr}"))
            .to_owned()
    };
    let follow = |line: &str, status| stdout(&line.split(' ').collect::<Vec<_>>(), status);
    let faulty = ["audit", "-f", "examples/faulty-cluster.json"];
    let with = |more: &[&'static str]| [faulty.as_slice(), more].concat();

    let line = next(&faulty);
    assert!(line.starts_with("explain failure ip-10-0-48-13."), "{line}");
    assert!(follow(&line, 0).contains("ip-10-0-48-13."));
    let line = next(&with(&["--rule", "NL-RES-001"]));
    assert!(line.starts_with("explain allocatable ip-"), "{line}");
    assert!(follow(&line, 0).contains("RESOURCE"));
    let line = next(&with(&["--rule", "PDB"]));
    assert_eq!(line, "explain NL-PDB-001");
    assert!(follow(&line, 0).contains("NL-PDB-001"));
}

/// Events of a pod that waits say why; others are not kept.
#[test]
fn a_pod_that_does_not_start_is_told_with_the_words_of_its_event() {
    let meta = |name: &str| json!({"name": name, "namespace": "shop"});
    let event = |pod: &str, reason: &str, message: &str, minute: u8| {
        json!({
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": meta(&format!("{pod}.{minute}")),
            "involvedObject": {"kind": "Pod", "namespace": "shop", "name": pod},
            "reason": reason,
            "message": message,
            "lastTimestamp": format!("2026-10-01T11:{minute}:00Z"),
        })
    };
    let ready = |kind: &str, status: &str| {
        json!({"type": kind, "status": status,
        "lastHeartbeatTime": "2026-10-01T12:00:00Z", "lastTransitionTime": "2026-10-01T11:20:00Z"})
    };
    let list = json!({"apiVersion": "v1", "kind": "List", "items": [
        {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "worker"},
            "status": {"conditions": [ready("Ready", "True")]}},
        {"apiVersion": "v1", "kind": "Pod", "metadata": meta("cart"),
            "spec": {"nodeName": "worker", "containers": []},
            "status": {"phase": "Pending",
                "conditions": [ready("PodReadyToStartContainers", "False")]}},
        event("cart", "FailedCreatePodSandBox", "no IP addresses available", 58),
        event("cart", "FailedMount", "volume is not there", 30),
        event("cart", "Pulled", "already present", 59),
        event("other", "FailedMount", "no such volume", 59),
    ]});
    let file = tempfile::NamedTempFile::with_suffix(".json").unwrap();
    fs::write(&file, list.to_string()).unwrap();
    let path = file.path().to_str().unwrap();
    let words = ["audit", "-f", path, "--rule", "NL-POD-006"];
    let said = stdout(&words, 0);
    assert!(
        said.contains("1 pod without a sandbox for up to 40m: cart; FailedCreatePodSandBox: no IP addresses available\n"),
        "{said}"
    );
}
