//! Tests of the cluster itself, and of what nodelife says of a healthy one.

use nodelife_tests::ControlPlane;
use nodelife_tests::real_nodes::{RealNodes, is_left_out};

use super::support::{allocatable_equals, document, nothing_is_left};

/// What is true of nodes on a machine with cgroup v1 and Debian 12's containerd, and of a version of
/// Kubernetes whose support has ended: the tests take both as they find them.
const OF_THE_MACHINE: [&str; 4] = ["NL-VER-003", "NL-VER-004", "NL-VER-007", "NL-VER-010"];

#[tokio::test]
async fn a_healthy_cluster_gives_one_finding_and_leaves_nothing() {
    if is_left_out() {
        return;
    }
    let cluster = RealNodes::start(ControlPlane::options(), 2).await.unwrap();
    let report = document(&cluster, &["audit", "--configz"]).await;
    let findings = report["findings"].as_array().unwrap();
    let found: Vec<_> = findings
        .iter()
        .filter(|finding| finding["severity"] != "info")
        .filter(|finding| !OF_THE_MACHINE.contains(&finding["rule"].as_str().unwrap()))
        .collect();
    // Nobody gives these kubelets a serving certificate, so that each makes its own, and says so.
    let [own] = found[..] else {
        panic!("{found:#?}");
    };
    assert_eq!(own["rule"], "NL-CRT-002", "{own:#}");
    let message = own["message"].as_str().unwrap();
    assert!(
        message.contains("which the kubelet makes itself"),
        "{message}"
    );
    assert_eq!(report["summary"]["nodes"], 2, "{:#}", report["summary"]);
    for node in cluster.nodes() {
        allocatable_equals(&cluster, node).await;
    }

    let traces = cluster.traces().await;
    drop(cluster);
    nothing_is_left(&traces).await;
}
