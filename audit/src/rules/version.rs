//! VER: versions and operating systems.

use jiff::civil::{Date, date};
use jiff::tz::TimeZone;
use serde_json::Value;

use crate::rule::rules;
use crate::{Context, Fact, FindingBuilder, Findings, Rule, Statement, pools};
use nodelife_core::allocatable::KubeletConfiguration;
use nodelife_core::allocatable::provider::Provider;
use nodelife_core::format::join;
use nodelife_core::machine::{Class, NodeMachine};
use nodelife_core::object::Node;
use nodelife_core::version::Version;

pub(super) const RULES: &[Rule] = rules! {
    "NL-VER-001" Error [Nodes] Node(skew),
    "NL-VER-002" Warning [Nodes] All(mixed),
    "NL-VER-003" Warning [Nodes] Machine(unsupported),
    "NL-VER-004" Warning [Nodes] Machine(runtime),
    "NL-VER-005" Warning [Nodes] Machine(kernel),
    "NL-VER-007" Error [Nodes, KubeletConfigs] Configuration(cgroup_v1),
    "NL-VER-008" Warning [Nodes, KubeletConfigs] Node(swap),
    "NL-VER-010" Warning [Nodes, KubeletConfigs] Configuration(two_managers),
};

pub(super) fn kubelet(node: &Node) -> Option<Version> {
    Version::parse(&node.status.node_info.kubelet_version)
}

fn skew<'a>(context: &Context<'a>, node: &'a Node) -> Option<FindingBuilder<'a>> {
    // A virtual kubelet is a program of its own, and has its own versions.
    if NodeMachine::of(node).class == Class::VirtualKubelet {
        return None;
    }
    let server = context.server?;
    let own = kubelet(node).filter(|own| own.major == server.major)?;
    let says = if own.minor > server.minor {
        "kubelet {kubelet} is newer than the API server {server}"
    } else if own.minor + 3 < server.minor {
        "kubelet {kubelet} is {minorVersionsBehind} minor versions older than the API server \
         {server}; 3 are allowed"
    } else {
        return None;
    };
    Some(
        FindingBuilder::node(node, says)
            .with("kubelet", own.to_string())
            .with("server", server.to_string())
            .with(
                "minorVersionsBehind",
                i64::from(server.minor) - i64::from(own.minor),
            ),
    )
}

/// The last day of support of each minor version from 1.20 on. Those up to 1.31 are from
/// data/releases/eol.yaml of github.com/kubernetes/website (0637786), the later ones as planned
/// at their release.
const LAST_DAYS: [(u32, Date); 16] = [
    (20, date(2022, 2, 28)),
    (21, date(2022, 6, 28)),
    (22, date(2022, 12, 8)),
    (23, date(2023, 2, 28)),
    (24, date(2023, 7, 28)),
    (25, date(2023, 10, 28)),
    (26, date(2024, 2, 28)),
    (27, date(2024, 7, 16)),
    (28, date(2024, 10, 22)),
    (29, date(2025, 2, 28)),
    (30, date(2025, 7, 15)),
    (31, date(2025, 11, 11)),
    (32, date(2026, 2, 28)),
    (33, date(2026, 6, 28)),
    (34, date(2026, 10, 27)),
    (35, date(2027, 2, 28)),
];

/// The last day of support at the latest; none for versions newer than the table.
fn last_day(version: Version) -> Option<Date> {
    let known = LAST_DAYS.iter().find(|(minor, _)| version.minor <= *minor);
    known.filter(|_| version.major == 1).map(|(_, day)| *day)
}

fn unsupported<'a>(context: &Context<'a>, node: &'a Node) -> Option<FindingBuilder<'a>> {
    let today = context.now.to_zoned(TimeZone::UTC).date();
    let own = kubelet(node)?;
    let day = last_day(own).filter(|day| *day < today)?;
    let says = if own.minor < LAST_DAYS.first()?.0 {
        "kubelet {kubelet}; support for {minor} ended before {since}"
    } else {
        "kubelet {kubelet}; support for {minor} ended on {since}"
    };
    let found = FindingBuilder::node(node, says)
        .with("kubelet", own.to_string())
        .with("minor", format!("{}.{}", own.major, own.minor))
        .with("since", day.to_string());
    Some(match longer_support(node) {
        None => found,
        Some(name) => found
            .and("; {longerSupport} may last longer")
            .with("longerSupport", name),
    })
}

/// Support that a provider sells after the project's last day.
fn longer_support(node: &Node) -> Option<&'static str> {
    match NodeMachine::of(node).provider? {
        Provider::Eks => Some("extended support of EKS"),
        Provider::Gke => Some("the Extended channel of GKE"),
        Provider::Aks => Some("long-term support of AKS"),
        Provider::OpenShift => Some("Extended Update Support of OpenShift"),
        Provider::K3s | Provider::Rke2 => None,
    }
}

fn mixed(context: &Context<'_>, findings: &mut Findings<'_>) {
    for (pool, nodes) in pools::pools(context) {
        let versions = nodes.iter();
        let versions = versions.map(|node| node.status.node_info.kubelet_version.as_str());
        let counts = pools::counts(versions);
        if counts.len() > 1 {
            let each = counts.iter().map(|(text, n)| format!("{text} ({n})"));
            let names = nodes.iter().map(|node| node.metadata.name.as_str());
            let numbers = counts
                .iter()
                .map(|(text, n)| ((*text).to_owned(), Value::from(*n)));
            let numbers: serde_json::Map<String, Value> = numbers.collect();
            findings.push(
                FindingBuilder::named("Pool", pool.name, "kubelets: {nodesByValue}")
                    .on_all(names)
                    .with("nodesByValue", Fact::from(join(each, ", ")).valued(numbers)),
            );
        }
    }
}

/// The last day of support of containerd 1.0 to 1.6 (`RELEASES.md`).
const CONTAINERD_LAST_DAYS: [(u32, Date); 7] = [
    (0, date(2018, 12, 5)),
    (1, date(2019, 10, 23)),
    (2, date(2020, 10, 15)),
    (3, date(2021, 3, 4)),
    (4, date(2022, 3, 3)),
    (5, date(2023, 2, 28)),
    (6, date(2025, 8, 23)),
];

fn runtime<'a>(context: &Context<'a>, node: &'a Node) -> Option<FindingBuilder<'a>> {
    let text = &node.status.node_info.container_runtime_version;
    let own = kubelet(node);
    let is_from = |minor| own.is_some_and(|own| (own.major, own.minor) >= (1, minor));
    let today = context.now.to_zoned(TimeZone::UTC).date();
    let mut ended = None;
    let says = match text.split_once("://") {
        // From 1.24 on, docker:// is cri-dockerd, which is maintained.
        Some(("docker", _)) if is_from(24) => return None,
        Some(("docker", _)) => {
            "{runtime} with kubelet {kubelet}: dockershim, which Kubernetes 1.24 removed"
        }
        Some(("containerd", version)) => {
            let version = Version::parse(version)?;
            if version.major < 2 && is_from(36) {
                "{runtime} with kubelet {kubelet}: kubelets from 1.36 on do not support containerd \
                 1.x"
            } else if version.major < 2 {
                let mut days = CONTAINERD_LAST_DAYS.iter();
                let (_, day) = days.find(|(minor, _)| version.minor == *minor)?;
                ended = Some((*day < today).then_some(day)?.to_string());
                "{runtime} with kubelet {kubelet}: no fixes for this version since {ended}"
            } else {
                return None;
            }
        }
        _ if text.contains("Unknown") => {
            "{runtime} with kubelet {kubelet}: the kubelet does not know it"
        }
        _ => return None,
    };
    let found = FindingBuilder::node(node, says)
        .with("runtime", text)
        .with("kubelet", &node.status.node_info.kubelet_version);
    let found = if NodeMachine::of(node).provider.is_some() {
        found.fix("Upgrade the node: its image or distribution brings the runtime.")
    } else if is_from(23) {
        found
    } else {
        // containerd 2.0 has dropped CRI v1alpha2, and these know nothing else.
        found.fix("Upgrade the kubelet together with the runtime: containerd 2.x needs 1.23.")
    };
    Some(match ended {
        None => found,
        Some(ended) => found.with("ended", ended),
    })
}

fn kernel<'a>(_: &Context<'a>, node: &'a Node) -> Option<FindingBuilder<'a>> {
    let text = &node.status.node_info.kernel_version;
    let old = Version::parse(text).is_some_and(|v| (v.major, v.minor) < (4, 19));
    // 4.18 of RHEL 8 has cgroup v2 as of later kernels.
    let backported = text.contains(".el8");
    (old && !backported && node.status.node_info.operating_system == "linux").then(|| {
        FindingBuilder::node(node, "kernel {kernel} is older than 4.19").with("kernel", text)
    })
}

/// Before 1.35 false is the default, and configz shows it where nobody has set it
/// (`SetDefaults_KubeletConfiguration`, `pkg/kubelet/apis/config/v1beta1/defaults.go`).
fn cgroup_v1(node: &Node, config: &KubeletConfiguration) -> Option<Statement> {
    let is_given = kubelet(node).is_none_or(|own| (own.major, own.minor) >= (1, 35));
    (is_given && config.fail_cgroup_v1 == Some(false)).then(|| "failCgroupV1: false".into())
}

/// `NewContainerManager` refuses (`container_manager_linux.go`, v1.36.3); `failSwapOn` is the default.
fn swap<'a>(context: &Context<'a>, node: &'a Node) -> Option<FindingBuilder<'a>> {
    let config = context.config(&node.metadata.name)?;
    let swap = node.status.node_info.swap?.capacity;
    (swap > 0 && config.fail_swap_on != Some(false)).then(|| {
        FindingBuilder::node(node, "{bytes} Mi of swap, and failSwapOn is true")
            .with("bytes", Fact::from(swap).shown((swap >> 20).to_string()))
    })
}

fn two_managers(node: &Node, config: &KubeletConfiguration) -> Option<Statement> {
    const SYSTEMD: [&str; 9] = [
        "Ubuntu",
        "Debian",
        "Red Hat",
        "CentOS",
        "Rocky",
        "Alma",
        "Amazon Linux",
        "Flatcar",
        "SUSE",
    ];
    let image = &node.status.node_info.os_image;
    let systemd = SYSTEMD.iter().any(|name| image.contains(name));
    (systemd && config.cgroup_driver == "cgroupfs").then(|| {
        Statement::from("cgroupDriver: cgroupfs on {osImage}, whose init is usually systemd")
            .with("osImage", image)
    })
}
