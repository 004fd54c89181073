//! Tests of the page.

use nodelife_audit::{AuditReport, Selection};
use nodelife_core::allocatable::KubeletConfiguration;
use nodelife_core::object::Node;
use nodelife_core::snapshot::Snapshot;
use nodelife_core::zone::{Settings, ZoneReport};
use serde_json::json;

use super::super::document::tests::report;
use super::super::node_rows::NodeRows;
use super::*;

fn render(report: &AuditReport, snapshot: &Snapshot) -> String {
    let zones = ZoneReport::of(&snapshot.nodes, &Settings::default(), snapshot.taken_at);
    let node_rows = NodeRows::of(snapshot, zones);
    let rules: Vec<_> = nodelife_audit::all().collect();
    let command = "kubectl nodelife audit -o html";
    let page = Page::new(report, snapshot, &node_rows, &rules, command);
    let mut out = Vec::new();
    write(&page, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

fn page_of(snapshot: &Snapshot) -> String {
    render(&report(), snapshot)
}

fn page() -> String {
    let mut node = Node::default();
    node.metadata.name = "<b>&\"".into();
    node.status.capacity = [
        ("cpu".into(), "-1".into()),
        ("memory".into(), "1e30".into()),
    ]
    .into();
    let snapshot = Snapshot {
        nodes: vec![node],
        ..Snapshot::default()
    };
    page_of(&snapshot)
}

#[test]
fn a_bar_shows_reservations_that_add_up() {
    let mut node: Node = serde_json::from_value(json!({
        "metadata": {"name": "a"},
        "status": {
            "capacity": {"cpu": "4", "memory": "8Gi"},
            "allocatable": {"cpu": "3900m", "memory": "6Gi"},
        },
    }))
    .unwrap();
    let configuration = KubeletConfiguration::from_configz(json!({
        "kubeReserved": {"cpu": "100m", "memory": "1Gi"},
        "systemReserved": {"memory": "512Mi"},
        "evictionHard": {"memory.available": "512Mi"},
    }));
    let snapshot = |node: &Node| Snapshot {
        nodes: vec![node.clone()],
        kubelet_configs: [("a".into(), configuration.as_ref().unwrap().clone())].into(),
        ..Snapshot::default()
    };
    let page = page_of(&snapshot(&node));
    let bar = "<i style=--f:75%;--e:81%;--s:88%;--k:100%; title=\"6.0Gi free, 0.5Gi \
               eviction threshold, 0.5Gi system reserved, 1.0Gi kube reserved, of 8.0Gi\"></i>";
    assert!(page.contains(bar), "{page}");
    // Something else is held back besides: the parts would be a lie.
    node.status
        .allocatable
        .insert("memory".into(), "5Gi".into());
    let page = page_of(&snapshot(&node));
    assert!(
        page.contains("0% · 0.0Gi of 5.0Gi<i style=--f:62%;></i>"),
        "{page}"
    );
}

#[test]
fn nothing_in_the_page_asks_for_another_file() {
    let page = page();
    for reference in ["http://", "src=", "url(", "@import", "<link", "<iframe"] {
        assert!(!page.contains(reference), "{reference}");
    }
    // What a reader may follow, to the documentation or within the page.
    for link in page.split("href=").skip(1) {
        let link = link.trim_start_matches('"');
        let known = link.starts_with('#') || link.starts_with("https://kubernetes.io/");
        assert!(known, "{link}");
    }
    assert_eq!(
        page.matches("https://").count(),
        page.matches("href=\"https://").count()
    );
}

#[test]
fn only_the_pages_own_script_runs() {
    let page = page();
    let (_, script) = page.split_once("<script>").unwrap();
    let (script, _) = script.split_once("</script>").unwrap();
    let hash = BASE64_STANDARD.encode(digest(&SHA256, script.as_bytes()));
    assert!(
        page.contains(&format!("script-src 'sha256-{hash}'\"")),
        "{page}"
    );
    assert_eq!(page.matches("<script").count(), 1);
    assert!(!page.contains(" onclick="));
}

#[test]
fn names_are_text_and_absurd_amounts_draw_nothing_absurd() {
    let page = page();
    assert!(page.contains("<td>&lt;b&gt;&amp;&quot;<td"), "{page}");
    assert!(!page.contains("NaN") && !page.contains("inf%"), "{page}");
}

#[test]
fn the_page_says_of_what_it_is_and_what_was_checked() {
    let mut report = report();
    report.input.context = Some("prod<1>".into());
    report.tool.version = "1.2.3".into();
    let page = render(&report, &Snapshot::default());
    for text in [
        "<title>Node audit of prod&lt;1&gt;</title>",
        "<code>kubectl nodelife audit -o html</code>",
        " 1.2.3</footer>",
        // A rule's texts.
        "Pods can use all CPU, and all memory except the eviction threshold.",
        "id=\"NL-RES-001\"",
        "<summary>Not checked: 1 rule: needs kubelet configurations</summary><p>NL-CRT-001</p>",
        "<li><b>NL-PDB-001</b> ",
    ] {
        assert!(page.contains(text), "{text}\n{page}");
    }
    assert!(!page.contains("<li><b>NL-RES-001</b> "), "{page}");
}

/// Nodes with two faults each, nothing reserved and an old kubelet, and nodes without.
fn node_rows(faulty: usize, healthy: usize) -> Snapshot {
    let nodes = (0..faulty + healthy).map(|i| {
        let is_faulty = i < faulty;
        let version = if is_faulty { "v1.33.1" } else { "v1.36.3" };
        let memory = if is_faulty { "16284Mi" } else { "15391Mi" };
        json!({
            "metadata": {
                "name": format!("ip-10-0-{}-{}.eu-central-1.compute.internal", i / 256, i % 256),
                "creationTimestamp": "2026-06-01T00:00:00Z",
                "labels": {
                    "topology.kubernetes.io/zone": format!("eu-central-1{}", i % 3),
                    "node.kubernetes.io/instance-type": "m5.xlarge",
                    "karpenter.sh/nodepool": "general",
                },
            },
            "status": {
                "capacity": {"cpu": "4", "memory": "16Gi", "pods": "58"},
                "allocatable": {"cpu": "3920m", "memory": memory, "pods": "58"},
                "conditions": [{"type": "Ready", "status": "True",
                    "lastHeartbeatTime": "2026-07-01T00:00:00Z"}],
                "nodeInfo": {"kubeletVersion": version, "operatingSystem": "linux"},
            },
        })
    });
    let snapshot = json!({
        "takenAt": "2026-07-01T00:00:10Z",
        "serverVersion": "v1.36.3",
        "nodes": nodes.collect::<Vec<_>>(),
    });
    let mut snapshot: Snapshot = serde_json::from_value(snapshot).unwrap();
    let configuration = KubeletConfiguration::from_configz(json!({
        "kubeReserved": {"cpu": "80m", "memory": "893Mi"},
        "evictionHard": {"memory.available": "100Mi"},
    }))
    .unwrap();
    for node in &snapshot.nodes {
        let name = node.metadata.name.clone();
        snapshot.kubelet_configs.insert(name, configuration.clone());
    }
    snapshot
}

#[test]
fn a_thousand_nodes_with_two_faults_each_are_a_small_page() {
    let page = page_of_fleet(&node_rows(1000, 0));
    assert!(page.len() < 600_000, "{}", page.len());
    // Each node is there: as a square, as a row, and below both rules.
    assert_eq!(page.matches("<tr id=n").count(), 1000);
    assert_eq!(page.matches("class=error title=").count(), 1000);
    assert_eq!(
        page.matches("<li>ip-10-0-3-231\n").count() + page.matches("<li>ip-10-0-3-231<").count(),
        2
    );
    assert!(page.contains("<summary>1000 nodes of pool general</summary>"));
}

#[test]
fn thousands_of_healthy_nodes_are_counted() {
    let page = page_of_fleet(&node_rows(1000, 5000));
    assert!(page.len() < 600_000, "{}", page.len());
    assert_eq!(page.matches("<tr id=n").count(), 1000);
    assert!(page.contains("and 1667 without findings"));
    assert!(page.contains("5000 more nodes Ready, without findings"));
}

/// The page about two rules.
fn page_of_fleet(snapshot: &Snapshot) -> String {
    let selection = Selection {
        rules: vec!["NL-RES-002".to_owned(), "NL-VER-003".to_owned()],
        ..Selection::default()
    };
    let now = snapshot.taken_at.unwrap();
    let audit = nodelife_audit::audit(snapshot, &selection, now);
    assert_eq!(audit.findings.len(), 2000);
    let report = AuditReport::new(snapshot, snapshot.nodes.len(), audit, |_| false);
    render(&report, snapshot)
}
