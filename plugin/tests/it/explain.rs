//! `explain`

use std::fs;

use crate::{SMALL, run, stdout};

const HEALTHY: &str = "examples/healthy-cluster.json";

#[test]
fn a_group_is_a_list_of_its_rules() {
    for code in ["RES", "nl-res"] {
        let text = stdout(&["explain", code, "-o", "name"], 0);
        assert!(text.lines().count() > 10, "{text}");
        assert!(text.lines().all(|id| id.starts_with("NL-RES-")), "{text}");
        assert!(text.lines().is_sorted(), "{text}");
    }
}

#[test]
fn every_rule_has_a_text() {
    let ids = stdout(&["explain", "--list", "-o", "name"], 0);
    assert!(ids.lines().count() >= 15);
    for id in ids.lines() {
        let text = stdout(&["explain", id], 0);
        assert!(text.starts_with(id) && text.contains("\nwhy"), "{text}");
    }
}

#[test]
fn a_rule_reads_as_one_page() {
    insta::assert_snapshot!(run(&["explain", "nl-hb-001"]));
}

#[test]
fn the_documented_machine_has_the_documented_allocatable() {
    let configuration = tempfile::NamedTempFile::new().unwrap();
    fs::write(
        &configuration,
        "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n\
         kubeReserved: {cpu: '1', memory: 2Gi, ephemeral-storage: 1Gi}\n\
         systemReserved: {cpu: 500m, memory: 1Gi, ephemeral-storage: 1Gi}\n",
    )
    .unwrap();
    let path = configuration.path().to_str().unwrap();
    let words = |output| {
        let thresholds = "memory.available<500Mi,nodefs.available<10%";
        let capacity = "cpu=16,memory=32Gi,ephemeral-storage=100Gi";
        [
            "explain",
            "allocatable",
            "--capacity",
            capacity,
            "--kubelet-config",
            path,
            "--eviction-hard",
            thresholds,
            "-o",
            output,
        ]
    };
    insta::assert_snapshot!(run(&words("table")));
    let report: serde_json::Value = serde_json::from_str(&stdout(&words("json"), 0)).unwrap();
    assert_eq!(report["kind"], "AllocatableReport");
    let item = &report["items"][0];
    assert_eq!(item["accepted"], true);
    assert_eq!(item["resources"]["cpu"]["allocatable"], "14500m");
    assert_eq!(item["resources"]["memory"]["allocatable"], "29196Mi");
    assert_eq!(
        item["resources"]["ephemeral-storage"]["allocatable"],
        "94489280352"
    );
    assert_eq!(item["kubepodsMemoryLimit"], "29Gi");
}

#[test]
fn a_configuration_that_the_kubelet_would_refuse_is_a_finding() {
    let words = [
        "explain",
        "allocatable",
        "--capacity",
        "cpu=1,memory=512Mi",
        "--eviction-hard",
        "memory.available<1Gi",
    ];
    insta::assert_snapshot!(run(&words));
}

#[test]
fn reservations_by_flag_replace_those_of_the_file() {
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(
        &file,
        "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n\
         kubeReserved: {cpu: '1', memory: 2Gi}\nsystemReserved: {cpu: 500m}\n",
    )
    .unwrap();
    let words = |more: &[&'static str]| {
        let path = file.path().to_str().unwrap();
        let all = ["explain", "allocatable", "--capacity", "cpu=4,memory=8Gi"];
        run(&[&all as &[_], &["--kubelet-config", path], more].concat())
    };
    let computed = words(&["--kube-reserved=cpu=100m,memory=1Gi", "-o", "json"]);
    for amount in [
        "\"kubeReserved\": \"100m\"",
        "\"systemReserved\": \"500m\"",
        "\"kubeReserved\": \"1Gi\"",
        "\"allocatable\": \"3400m\"",
    ] {
        assert!(computed.contains(amount), "{amount}: {computed}");
    }
    for (flag, status, says) in [
        (
            "--system-reserved=memory=1GiB",
            3,
            "systemReserved: failed to parse quantity \"1GiB\" for \"memory\" resource: ",
        ),
        (
            "--system-reserved=memory=-1Gi",
            3,
            "systemReserved: resource quantity for \"memory\" cannot be negative: -1Gi",
        ),
        (
            "--kube-reserved=pods=10",
            3,
            "kubeReserved: cannot reserve \"pods\" resource",
        ),
        (
            "--kube-reserved=memory",
            2,
            "expected RESOURCE=AMOUNT, such as memory=32Gi",
        ),
    ] {
        let refused = words(&[flag]);
        assert!(
            refused.starts_with(&format!("status: {status}\n")),
            "{refused}"
        );
        assert!(refused.contains(says), "{refused}");
    }
}

#[test]
fn a_providers_formula_is_compared_with_the_node() {
    let node = "ip-10-0-16-11.eu-central-1.compute.internal";
    let words = |more: &[&'static str]| {
        let all = ["explain", "allocatable", node, "-f", HEALTHY];
        [all.as_slice(), more].concat()
    };
    let same = stdout(&words(&["--provider", "eks"]), 0);
    assert!(
        same.contains("(equal)") && !same.contains("(differs)"),
        "{same}"
    );
    assert!(same.contains("11 Mi × maxPods + 255 Mi"), "{same}");
    // Of another provider's formula, or for other pods, the same node differs, which is no fault.
    let gke = stdout(&words(&["--provider", "gke"]), 0);
    assert!(gke.contains("(differs)"), "{gke}");
    let other = stdout(
        &words(&["--provider", "eks", "--max-pods", "29", "-o", "json"]),
        0,
    );
    let report: serde_json::Value = serde_json::from_str(&other).unwrap();
    let memory = &report["items"][0]["resources"]["memory"];
    assert_eq!(memory["kubeReserved"], "574Mi");
    assert_ne!(memory["allocatable"], memory["published"]);
    // A flag that would do nothing is a mistake.
    let idle = run(&words(&["--max-pods", "29"]));
    assert!(idle.starts_with("status: 2\n"), "{idle}");
    assert!(
        idle.contains("--max-pods requires --capacity or --provider"),
        "{idle}"
    );
}

/// Both forms of the graceful shutdown, of files that are not rolled out yet.
#[test]
fn a_shutdown_by_periods_and_by_priorities() {
    let foretold = |configuration: &str| {
        let file = tempfile::NamedTempFile::new().unwrap();
        let text = format!(
            "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n{configuration}"
        );
        fs::write(&file, text).unwrap();
        run(&[
            "explain",
            "shutdown",
            "ip-10-0-16-11.eu-central-1.compute.internal",
            "-f",
            HEALTHY,
            "--kubelet-config",
            file.path().to_str().unwrap(),
        ])
    };
    let periods = "shutdownGracePeriod: 30s\nshutdownGracePeriodCriticalPods: 10s\n";
    insta::assert_snapshot!(foretold(periods));
    // Unsorted, as the kubelet takes them as well.
    let priorities = "shutdownGracePeriodByPodPriority:\n\
                      - {priority: 2000001000, shutdownGracePeriodSeconds: 15}\n\
                      - {priority: 1000, shutdownGracePeriodSeconds: 60}\n\
                      - {priority: 2000000000, shutdownGracePeriodSeconds: 20}\n";
    insta::assert_snapshot!(foretold(priorities));
    let off = foretold("maxPods: 110\n");
    assert!(
        off.contains("no graceful shutdown is configured: all pods are killed at once"),
        "{off}"
    );
}

#[test]
fn an_unknown_configuration_is_not_guessed() {
    insta::assert_snapshot!(run(&["explain", "allocatable", "node-a", "-f", SMALL]));
}

#[test]
fn zones_by_the_controllers_flags() {
    insta::assert_snapshot!(run(&["explain", "zones", "-f", SMALL]));
    let words = [
        "explain",
        "zones",
        "-f",
        SMALL,
        "--node-eviction-rate",
        "0.5",
        "--node-monitor-grace-period",
        "1m",
        "-o",
        "json",
    ];
    let report: serde_json::Value = serde_json::from_str(&stdout(&words, 0)).unwrap();
    assert_eq!(report["kind"], "ZoneReport");
    assert_eq!(report["zones"][0]["evictionRate"], 0.5);
}

/// What every kubelet refuses before it looks at the machine, and what it would read.
#[test]
fn a_configuration_that_no_kubelet_takes_is_refused() {
    let explain = |configuration: &str, status| {
        let file = tempfile::NamedTempFile::new().unwrap();
        let text = format!(
            "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n{configuration}"
        );
        fs::write(&file, text).unwrap();
        let path = file.path().to_str().unwrap();
        let words = ["explain", "allocatable", "--capacity", "cpu=4,memory=16Gi"];
        let said = run(&[&words[..], &["--kubelet-config", path]].concat());
        assert!(said.starts_with(&format!("status: {status}\n")), "{said}");
        said
    };
    for (configuration, why) in [
        (
            "featureGates: {NoSuchGate: true}",
            "kubelets of 1.33 to 1.37 refuse to start with this configuration: featureGates.NoSuchGate: unknown",
        ),
        ("topologyManagerPolicy: bogus", "topologyManagerPolicy"),
        ("containerLogMaxSize: 10MB", "containerLogMaxSize: \"10MB\""),
        ("maxPods: '110'", "maxPods"),
        ("systemReserved: {cpu: 500}", "systemReserved"),
        (
            "registerWithTaints: [{key: a, effect: No}]",
            "registerWithTaints",
        ),
    ] {
        let said = explain(configuration, 3);
        assert!(said.contains(why), "{configuration}: {said}");
        assert!(said.contains("to start"), "{said}");
    }
    for configuration in ["topologyManagerPolicy: restricted", "someField: 1"] {
        assert!(!explain(configuration, 0).contains("refuse"));
    }
}

/// Half of a zone is silent for 21 minutes, and has no taint of the controller.
#[test]
fn a_taint_that_should_be_there_is_overdue() {
    let items: Vec<_> = (0..6)
        .map(|i| {
            let (status, since) = if i < 3 {
                ("Unknown", "2026-10-01T11:39:00Z")
            } else {
                ("True", "2026-09-01T00:00:00Z")
            };
            let heartbeat = if i < 3 {
                "2026-10-01T11:38:00Z"
            } else {
                "2026-10-01T12:00:00Z"
            };
            serde_json::json!({
                "metadata": {"name": format!("node-{i}"), "uid": format!("{i}")},
                "status": {"conditions": [{
                    "type": "Ready", "status": status,
                    "lastHeartbeatTime": heartbeat, "lastTransitionTime": since,
                }], "nodeInfo": {"kubeletVersion": "v1.36.3"}},
            })
        })
        .collect();
    let list = serde_json::json!({"apiVersion": "v1", "kind": "NodeList", "items": items});
    let file = tempfile::Builder::new().suffix(".json").tempfile().unwrap();
    fs::write(&file, list.to_string()).unwrap();
    let file = file.path().to_str().unwrap();
    for (words, status) in [
        (&["explain", "zones", "-f", file][..], 0),
        (&["explain", "failure", "node-0", "-f", file], 0),
        (&["audit", "node-0", "-f", file, "--rule=HB"], 3),
    ] {
        let text = stdout(words, status);
        assert!(text.contains("overdue by 19m"), "{text}");
    }
    for topic in [&["zones"][..], &["failure", "node-0"]] {
        let text = stdout(&[&["explain"], topic, &["-f", file]].concat(), 0);
        let check = "Check kube-controller-manager: does it run";
        assert!(text.contains(check), "{text}");
    }
    let text = stdout(&["explain", "failure", "node-0", "-f", file], 0);
    let begun = "node/node-0 has been silent for 22m, since 2026-10-01T11:38:00Z";
    assert!(text.starts_with(begun), "{text}");
}
