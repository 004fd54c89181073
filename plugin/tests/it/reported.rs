//! What people reported of real clusters and the audit once told wrongly or not at all: a whole
//! command for each, with the input in `fixtures/reported/`.

use std::path::PathBuf;

use crate::{nodelife, root};

fn folder(case: &str) -> PathBuf {
    root().join("plugin/tests/it/fixtures/reported").join(case)
}

/// What the command prints in the folder of this case, both streams, if it ends with this status.
fn told(case: &str, words: &[&str], status: i32) -> String {
    let mut command = nodelife(words);
    let output = command.current_dir(folder(case)).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let told = text(&output.stdout) + &text(&output.stderr);
    assert_eq!(output.status.code(), Some(status), "{told}");
    told
}

/// The findings of a file.
struct Findings(Vec<serde_json::Value>);

impl Findings {
    fn of(case: &str, file: &str) -> Self {
        let words = ["audit", "--fail-on", "never", "-o", "json", "-f", file];
        let mut command = nodelife(&words);
        let output = command.current_dir(folder(case)).output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{errors}");
        let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        Self(report["findings"].as_array().unwrap().clone())
    }

    /// Severity, rule and object of each, sorted.
    fn names(&self) -> Vec<String> {
        let name = |one: &serde_json::Value| {
            let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
            let parts = [&one["severity"], &one["rule"], &one["subject"]["name"]];
            parts.map(text).join(" ")
        };
        let mut names: Vec<_> = self.0.iter().map(name).collect();
        names.sort();
        names
    }

    /// Message and fix of the first finding of a rule.
    fn text(&self, rule: &str) -> String {
        let one = self.0.iter().find(|one| one["rule"] == rule);
        let one = one.unwrap_or_else(|| panic!("no {rule} in {:#?}", self.names()));
        format!("{}\n{}", one["message"], one["fix"])
    }

    fn has(&self, rule: &str) -> bool {
        self.0.iter().any(|one| one["rule"] == rule)
    }
}

fn assert_has(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "{part:?} is not in:\n{text}");
    }
}

fn assert_lacks(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(!text.contains(part), "{part:?} is in:\n{text}");
    }
}

/// A file of somebody else beside the nodes is named, and changes nothing else.
fn leaves_out(case: &str, named: &[&str]) {
    let with = told(case, &["audit", "-f", "bundle"], 0);
    let without = told(case, &["audit", "-f", "bundle/nodes.json"], 0);
    let (first, rest) = with.split_once('\n').unwrap();
    assert_has(first, named);
    assert_eq!(rest, without);
}

#[test]
fn case_01a_equal_keys_of_a_foreign_object() {
    leaves_out("01a", &["Warning: ", "bundle/engines.yaml", "line 13"]);
}

#[test]
fn case_01b_a_redacted_value_is_an_alias_of_nothing() {
    leaves_out("01b", &["Warning: ", "bundle/im.yaml", "alias"]);
}

#[test]
fn case_01c_a_kind_without_api_version() {
    leaves_out("01c", &["bundle/note.yaml"]);
}

#[test]
fn case_01d_a_foreign_file_that_was_cut() {
    leaves_out("01d", &["Warning: ", "bundle/crd.json", "truncated"]);
}

#[test]
fn case_01e_an_archive_compressed_with_xz() {
    let copy = tempfile::tempdir().unwrap();
    // What `tar cJf b.tar.xz a` begins with is enough to know it.
    let archive = [&b"\xfd7zXZ\x00\x00\x04"[..], &[0x5a; 512]].concat();
    std::fs::write(copy.path().join("b.tar.xz"), archive).unwrap();
    let output = nodelife(&["audit", "-f", "b.tar.xz"])
        .current_dir(copy.path())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    let error = String::from_utf8(output.stderr).unwrap();
    assert_has(
        &error,
        &["b.tar.xz is compressed with xz", "unpack it first"],
    );
    told("01e", &["audit", "-f", "a"], 0);
}

#[test]
fn case_02_a_formula_that_reserves_84_percent() {
    for (file, max_pods) in [
        ("t4g-110.json", "Lower maxPods"),
        ("t4g-11.json", "set maxPods"),
    ] {
        let findings = Findings::of("02", file);
        assert!(
            findings
                .names()
                .contains(&"error NL-RES-003 worker-1".to_owned())
        );
        assert_has(&findings.text("NL-RES-003"), &["1565Mi", max_pods]);
        // That maxPods and the formula differ is told there, and nowhere else.
        assert!(!findings.has("NL-RES-012"));
    }
}

#[test]
fn case_03_a_clock_that_is_45_minutes_behind() {
    let findings = Findings::of("03", "snapshot.json");
    assert_eq!(findings.names(), ["warning NL-HB-004 app-2"]);
    let text = findings.text("NL-HB-004");
    assert_has(
        &text,
        &["45m behind", "its clock is behind", "the node is Ready"],
    );
    assert_lacks(&text, &["becomes Unknown"]);
}

#[test]
fn case_04_the_documented_bootstrap_user() {
    assert_eq!(Findings::of("04", "in.json").names(), [""; 0]);
}

#[test]
fn case_05_a_taint_that_should_be_there() {
    let findings = Findings::of("05", "in.json");
    assert_has(
        &findings.text("NL-HB-002"),
        &["NoExecute taint is overdue by 19m"],
    );
    let taint = findings.text("NL-TNT-003");
    assert_has(
        &taint,
        &["kube-controller-manager", "19m ago", "is it the leader"],
    );
    let zones = told("05", &["explain", "zones", "-f", "in.json"], 0);
    assert_has(&zones, &["Normal", "overdue by 19m", "is it the leader"]);
}

#[test]
fn case_06_the_range_of_the_cluster_is_used_up() {
    let findings = Findings::of("06", "in.json");
    let text = findings.text("NL-HB-003");
    assert_has(
        &text,
        &["no spec.podCIDR, unlike other nodes", "CIDRNotAvailable"],
    );
    assert_has(&text, &["--cluster-cidr"]);
}

#[test]
fn case_07_a_pod_of_a_catalog_source() {
    assert!(!Findings::of("07", "in.json").has("NL-PDB-005"));
}

#[test]
fn case_08_one_machine_that_was_registered_twice() {
    let findings = Findings::of("08", "in.json");
    assert_eq!(findings.names(), ["error NL-REG-004 localhost.localdomain"]);
    let text = findings.text("NL-REG-004");
    assert_has(&text, &["localhost.localdomain", "worker-0", "renamed"]);
    assert_has(&text, &["delete localhost.localdomain"]);
}

#[test]
fn case_09_taints_of_agents_that_start() {
    let nodes = ["node-1", "node-2", "node-3", "node-4"];
    let right = nodes.map(|node| format!("warning NL-TNT-012 {node}"));
    assert_eq!(Findings::of("09", "in.json").names(), right);
}

#[test]
fn case_10_a_machine_of_another_provider() {
    let findings = Findings::of("10", "in.json");
    assert_eq!(findings.names(), ["warning NL-REG-008 h3"]);
    assert_has(
        &findings.text("NL-REG-008"),
        &["talos", "hcloud", "cloud controller"],
    );
}

#[test]
fn case_11_an_operator_has_given_up() {
    let findings = Findings::of("11", "in.json");
    let degraded = findings.text("NL-HB-013");
    assert_has(&degraded, &["Degraded", "failed to drain node", "es-1"]);
    assert_has(&findings.text("NL-OPS-002"), &["cordoned for 6h"]);
}

#[test]
fn case_12_a_node_that_no_cloud_controller_knows() {
    let findings = Findings::of("12", "in.json");
    assert_has(
        &findings.text("NL-HB-002"),
        &["without a providerID", "delete the Node object"],
    );
    assert!(!findings.has("NL-ZON-001"));
}

#[test]
fn case_13_a_zone_of_one_node() {
    assert_eq!(
        Findings::of("13", "in.json").names(),
        ["error NL-HB-002 nc"]
    );
}

#[test]
fn case_14_no_address_is_left_on_a_node() {
    let text = Findings::of("14", "in.json").text("NL-POD-006");
    assert_has(&text, &["FailedCreatePodSandBox"]);
    assert_has(
        &text,
        &["no IP addresses available in range set: 10.42.1.1-10.42.1.254"],
    );
}

#[test]
fn case_15_the_kernel_killed_processes_before_the_silence() {
    let findings = Findings::of("15", "in.json");
    assert_eq!(
        findings.names(),
        ["error NL-HB-002 n1", "warning NL-EVT-006 n1"]
    );
    assert_has(
        &findings.text("NL-EVT-006"),
        &["7 times", "Reserve more memory"],
    );
}

#[test]
fn case_16_configurations_that_no_kubelet_starts_with() {
    for (file, reason) in [
        ("gate.yaml", "featureGates.NoSuchGate: unknown"),
        ("topology.yaml", "topologyManagerPolicy \"bogus\""),
        ("log.yaml", "containerLogMaxSize: \"10MB\""),
        ("type.yaml", "maxPods: \"110\" is not of type int32"),
        ("cpu.yaml", "systemReserved.cpu: 500 is not of type string"),
    ] {
        let machine = ["--capacity", "cpu=4,memory=16Gi"];
        let words = [
            &["explain", "allocatable", "--kubelet-config", file],
            &machine[..],
        ];
        assert_has(&told("16", &words.concat(), 3), &[reason]);
    }
}

#[test]
fn case_17_a_threshold_as_it_is_configured() {
    let text = told("17", &["audit", "-o", "json", "-f", "snapshot.json"], 3);
    assert_lacks(&text, &["15.000001", "NL-RES-023"]);
    // The rule that prints it: images are collected too late.
    let snapshot = std::fs::read_to_string(folder("17").join("snapshot.json")).unwrap();
    let mut snapshot: serde_json::Value = serde_json::from_str(&snapshot).unwrap();
    snapshot["kubeletConfigs"]["n1"]["imageGCHighThresholdPercent"] = 95.into();
    let file = tempfile::NamedTempFile::with_suffix(".json").unwrap();
    std::fs::write(file.path(), snapshot.to_string()).unwrap();
    let text = Findings::of("17", file.path().to_str().unwrap()).text("NL-RES-015");
    assert_has(&text, &["imagefs.available<15% evicts"]);
}

#[test]
fn case_18_the_ranges_of_ovn_kubernetes() {
    for file in ["default.json", "maxpods500.json"] {
        assert_eq!(
            Findings::of("18", file).names(),
            ["warning NL-VER-003 node-1"]
        );
    }
}

#[test]
fn case_19_a_disk_without_a_threshold() {
    let findings = Findings::of("19", "in.json");
    assert_eq!(findings.names(), ["warning NL-RES-025 n1"]);
    assert_has(&findings.text("NL-RES-025"), &["nodefs.available"]);
}

#[test]
fn case_20_master_is_a_role() {
    assert_lacks(
        &told("20", &["audit", "-f", "in.json"], 0),
        &["no role", "role.kubernetes.io"],
    );
}

#[test]
fn case_21_the_two_roles_of_rke() {
    assert_eq!(Findings::of("21", "in.json").names(), [""; 0]);
}

#[test]
fn case_22_nodes_without_status_are_not_dead() {
    assert_eq!(Findings::of("22", "in.json").names(), [""; 0]);
    let unknown = "the input has no status of 3 nodes, so whether they are ready is not known";
    assert_has(&told("22", &["audit", "-f", "in.json"], 0), &[unknown]);
    let zones = told("22", &["explain", "zones", "-f", "ovn.json"], 0);
    assert_has(&zones, &[unknown, "0 (+3 unknown)"]);
    assert_lacks(&zones, &["Normal"]);
    assert_lacks(&told("22", &["nodes", "-f", "ovn.json"], 0), &["0/3 Ready"]);
}

#[test]
fn case_23_swap_where_k3s_allows_it() {
    assert_eq!(Findings::of("23", "in.json").names(), [""; 0]);
}

#[test]
fn case_24_pods_stay_ready_while_the_kubelet_lives() {
    let findings = Findings::of("24", "runtime-down.json");
    assert!(
        findings
            .names()
            .contains(&"info NL-POD-004 worker-1".to_owned())
    );
    let text = findings.text("NL-POD-004");
    assert_has(&text, &["they stay in Services while the kubelet lives"]);
    assert_lacks(&text, &["kube-controller-manager"]);
    let words = ["explain", "failure", "worker-1", "-f", "runtime-down.json"];
    let failure = told("24", &words, 0);
    assert_has(
        &failure,
        &["has been not ready for 3h", "its pods stay in Services"],
    );
    assert_lacks(&failure, &["pods leave Services", "died now"]);
}

#[test]
fn case_25_machines_have_addresses_of_the_pod_range() {
    let findings = Findings::of("25", "in.json");
    assert_eq!(findings.names(), ["error NL-CAP-007 node01"]);
    assert_has(
        &findings.text("NL-CAP-007"),
        &["192.168.1.0/24", "node01, node02, node03"],
    );
}

#[test]
fn case_26_a_node_that_is_silent_for_an_hour() {
    let failure = told("26", &["explain", "failure", "n1", "-f", "in.json"], 0);
    assert_has(
        &failure,
        &["has been silent for 59m, since 2026-10-01T11:00:10Z"],
    );
    assert_has(
        &failure,
        &["11:01:05Z (58m ago)   taint unreachable:NoExecute"],
    );
    assert_has(&failure, &["13:01:05Z (in 1h1m)", "web-6d4cf56db6-aaaaa"]);
    assert_lacks(&failure, &["died now"]);
}

#[test]
fn case_27_windows_nodes_of_aks() {
    let words = [
        "explain",
        "allocatable",
        "-f",
        "in.json",
        "--provider",
        "aks",
    ];
    let table = told("27", &words, 0);
    assert_has(
        &table,
        &["11591Mi", "122348084Ki (equal)", "133703676Ki (equal)"],
    );
    assert_lacks(&table, &["(differs)"]);
}

#[test]
fn case_28_the_next_command_works_without_pods() {
    let audit = told("28", &["audit", "-f", "nodes.json"], 3);
    let next = audit
        .lines()
        .find_map(|line| line.strip_prefix("next: kubectl nodelife "));
    let words: Vec<_> = next.unwrap().split(' ').collect();
    assert_eq!(words, ["explain", "failure", "n1", "-f", "nodes.json"]);
    let failure = told("28", &words, 0);
    assert_has(
        &failure,
        &["Ready becomes Unknown", "taint unreachable:NoExecute"],
    );
}

#[test]
fn case_29_every_kubelet_says_itself_that_it_is_not_ready() {
    let findings = Findings::of("29", "in.json");
    let nodes = findings
        .names()
        .iter()
        .filter(|name| name.contains("NL-HB-003"))
        .count();
    assert_eq!(nodes, 4);
    assert!(!findings.has("NL-ZON-001"));
    let zones = findings.text("NL-ZON-002");
    assert_has(
        &zones,
        &["hears from 4 nodes", "Repair what the Ready conditions"],
    );
    let taint = findings.text("NL-TNT-003");
    assert_has(&taint, &["The kubelet lives"]);
    assert_lacks(&taint, &["permanently gone"]);
}
