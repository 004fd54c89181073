//! OPS: unfinished operations, cordons, drift and logs.

use serde_json::Value;
use std::collections::BTreeMap;

use crate::context::{allocatable, belongs_to_node, capacity};
use crate::pools;
use crate::pools::most_common;
use crate::{Check, Context, Fact, FindingBuilder, Findings, Rule, Severity, Statement};
use nodelife_core::allocatable::KubeletConfiguration;
use nodelife_core::object::Node;
use nodelife_core::quantity::Quantity;
use nodelife_core::snapshot::Source;
use nodelife_core::taint::{NO_SCHEDULE, UNSCHEDULABLE, find};

const HOUR: i64 = 3600;

pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "NL-OPS-001",
        severity: Severity::Warning,
        sources: &[Source::Nodes, Source::Pods, Source::AllPods],
        title: "the node was cordoned and forgotten",
        why: "It has run only DaemonSet pods for more than a day, so it costs money without being \
              used.",
        fix: "Uncordon or remove the node.",
        link: "https://kubernetes.io/docs/concepts/architecture/nodes/#manual-node-administration",
        check: Check::Node(forgotten),
    },
    Rule {
        id: "NL-OPS-002",
        severity: Severity::Warning,
        sources: &[Source::Nodes],
        title: "a drain did not finish",
        why: "The node has been cordoned for more than an hour, but workload pods still run \
              there, as far as is known. The drain was interrupted or is blocked, and other pods \
              cannot use the node's free capacity.",
        fix: "Finish the drain with `kubectl nodelife drain`, which shows what blocks it, or \
              uncordon the node.",
        link: "https://kubernetes.io/docs/tasks/administer-cluster/safely-drain-node/",
        check: Check::Node(drain_unfinished),
    },
    Rule {
        id: "NL-OPS-004",
        severity: Severity::Warning,
        sources: &[Source::Nodes, Source::KubeletConfigs],
        title: "kubelets in the same pool are configured differently",
        why: "Pods behave differently depending on their node, and it is unclear which \
              configuration is intended.",
        fix: "Recreate the nodes that differ.",
        link: "https://kubernetes.io/docs/reference/config-api/kubelet-config.v1beta1/",
        check: Check::All(config_drift),
    },
    Rule {
        id: "NL-OPS-006",
        severity: Severity::Warning,
        sources: &[Source::Nodes, Source::KubeletConfigs],
        title: "container logs may fill half of the disk",
        why: "containerLogMaxSize × containerLogMaxFiles × maxPods is more than half of the \
              ephemeral storage, even with only one container in each pod.",
        fix: "Lower containerLogMaxSize or containerLogMaxFiles.",
        link: "https://kubernetes.io/docs/concepts/cluster-administration/logging/#log-rotation",
        check: Check::Configuration(logs),
    },
];

/// Seconds since the node was cordoned, where it is and the taint says so.
fn cordoned_for(context: &Context<'_>, node: &Node) -> Option<i64> {
    let taint = find(node, UNSCHEDULABLE, NO_SCHEDULE).filter(|_| node.spec.unschedulable)?;
    taint.time_added.map(|then| context.seconds_since(then))
}

fn drain_unfinished<'a>(context: &Context<'a>, node: &'a Node) -> Option<FindingBuilder<'a>> {
    let seconds = cordoned_for(context, node).filter(|seconds| *seconds > HOUR)?;
    let left: Vec<_> = context
        .active_pods_on(&node.metadata.name)
        .filter(|pod| !belongs_to_node(pod))
        .map(|pod| pod.metadata.name.as_str())
        .collect();
    let says = match (left.is_empty(), context.snapshot.has(Source::Pods)) {
        (false, _) => "cordoned for {secondsCordoned}, but {pods} still there: {names}",
        (true, false) => "cordoned for {secondsCordoned}; pods not read",
        (true, true) => return None,
    };
    Some(
        FindingBuilder::node(node, says)
            .with("secondsCordoned", Fact::seconds(seconds))
            .with("pods", Fact::count(left.len(), "workload pod"))
            .with("names", Fact::names(left)),
    )
}

fn forgotten<'a>(context: &Context<'a>, node: &'a Node) -> Option<FindingBuilder<'a>> {
    const DAY: i64 = 86_400;
    let seconds = cordoned_for(context, node).filter(|seconds| *seconds > DAY)?;
    let mut pods = context.active_pods_on(&node.metadata.name);
    if pods.any(|pod| !belongs_to_node(pod)) {
        return None;
    }
    let found = FindingBuilder::node(node, "cordoned for {secondsCordoned}, and empty")
        .with("secondsCordoned", Fact::seconds(seconds));
    Some(found.severity_if(seconds > 7 * DAY, Severity::Error))
}

/// The fields of a configuration as text.
fn fields(config: &KubeletConfiguration) -> BTreeMap<String, String> {
    let Ok(Value::Object(fields)) = serde_json::to_value(config) else {
        return BTreeMap::new();
    };
    fields
        .into_iter()
        .map(|(name, value)| (name, value.to_string()))
        .collect()
}

fn config_drift(context: &Context<'_>, findings: &mut Findings<'_>) {
    for (pool, nodes) in pools::pools(context) {
        let all: Vec<_> = nodes
            .iter()
            .filter_map(|node| Some((*node, fields(context.config(&node.metadata.name)?))))
            .collect();
        let Some(usual) = most_common(all.iter().map(|(_, fields)| fields.clone())) else {
            continue;
        };
        for (node, own) in all {
            let odd: Vec<_> = own
                .iter()
                .filter(|(name, value)| usual.get(*name) != Some(value))
                .map(|(name, value)| {
                    let usual = usual.get(name).map_or("absent", String::as_str);
                    format!("{name}: {value}, not {usual}")
                })
                .collect();
            if !odd.is_empty() {
                let fields = Fact::from(odd.join("; ")).valued(odd);
                let found =
                    FindingBuilder::node(node, "differs from most nodes of {pool}: {fields}")
                        .with("pool", pool.to_string())
                        .with("fields", fields);
                findings.push(found);
            }
        }
    }
}

fn logs(node: &Node, config: &KubeletConfiguration) -> Option<Statement> {
    /// The default (`pkg/kubelet/apis/config/v1beta1/defaults.go`, v1.36.3).
    const FILES: i64 = 5;
    let size = Quantity::parse(&config.container_log_max_size)
        .ok()?
        .value()?;
    let files = config.container_log_max_files.map_or(FILES, i64::from);
    let pods = config.pod_limit(capacity(node, "cpu")?.value()?);
    let room = allocatable(node, "ephemeral-storage")?.value()?;
    let all = (i128::from(size) * i128::from(files)).saturating_mul(i128::from(pods));
    (all > i128::from(room) / 2).then(|| {
        let bytes = i64::try_from(all).unwrap_or(i64::MAX);
        Statement::from(
            "{size} × {files} files × {pods} pods = {bytes} Gi of {allocatableBytes} Gi",
        )
        .with("size", &config.container_log_max_size)
        .with("files", files)
        .with("pods", pods)
        .with("bytes", Fact::from(bytes).shown((all >> 30).to_string()))
        .with(
            "allocatableBytes",
            Fact::from(room).shown((room >> 30).to_string()),
        )
    })
}
