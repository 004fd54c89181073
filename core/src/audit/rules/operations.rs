//! OPS: unfinished operations, cordons, drift and logs.

use serde_json::Value;
use std::collections::BTreeMap;

use crate::allocatable::KubeletConfiguration;
use crate::audit::context::{allocatable, belongs_to_node, capacity};
use crate::audit::pools::{self, most_common};
use crate::audit::{Check, Context, FindingBuilder, Findings, Group, Rule, Severity};
use crate::format;
use crate::object::Node;
use crate::quantity::Quantity;
use crate::snapshot::Source;
use crate::taint::{NO_SCHEDULE, UNSCHEDULABLE, find};

const HOUR: i64 = 3600;

pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "NL-OPS-001",
        group: Group::Operations,
        severity: Severity::Warning,
        sources: &[Source::Nodes, Source::Pods],
        title: "the node was cordoned and forgotten",
        why: "It is empty but for DaemonSets and has been for more than a day: it is paid \
              for and not used.",
        fix: "Uncordon it, or remove it.",
        link: "https://kubernetes.io/docs/concepts/architecture/nodes/#manual-node-administration",
        check: Check::Node(forgotten),
    },
    Rule {
        id: "NL-OPS-002",
        group: Group::Operations,
        severity: Severity::Warning,
        sources: &[Source::Nodes, Source::Pods],
        title: "a drain was not finished",
        why: "The node has been cordoned for more than an hour, yet workloads still run there: the \
              drain was interrupted or is blocked, and the node's room is lost to everyone else.",
        fix: "Finish with `kubectl nodelife drain`, which says what blocks it, or uncordon the node.",
        link: "https://kubernetes.io/docs/tasks/administer-cluster/safely-drain-node/",
        check: Check::Node(drain_unfinished),
    },
    Rule {
        id: "NL-OPS-003",
        group: Group::Operations,
        severity: Severity::Warning,
        sources: &[Source::Nodes],
        title: "images take more than half of the disk",
        why: "Images, the writable layers of containers, logs and emptyDirs share the ephemeral \
              storage. The node says the size of its 50 largest images alone: it is at least so \
              much, and image garbage collection and evictions are near.",
        fix: "Lower imageGCHighThresholdPercent or imageMaximumGCAge, give the node a larger \
              disk, or make the images smaller.",
        link: "https://kubernetes.io/docs/concepts/architecture/garbage-collection/#containers-images",
        check: Check::Node(images),
    },
    Rule {
        id: "NL-OPS-004",
        group: Group::Operations,
        severity: Severity::Warning,
        sources: &[Source::Nodes, Source::KubeletConfigs],
        title: "kubelets of one pool are configured differently",
        why: "What one node does with a pod, another does not. Nobody remembers which change \
              was meant.",
        fix: "Recreate the odd nodes.",
        link: "https://kubernetes.io/docs/reference/config-api/kubelet-config.v1beta1/",
        check: Check::All(config_drift),
    },
    Rule {
        id: "NL-OPS-006",
        group: Group::Operations,
        severity: Severity::Warning,
        sources: &[Source::Nodes, Source::KubeletConfigs],
        title: "container logs may fill half of the disk",
        why: "containerLogMaxSize × containerLogMaxFiles × maxPods, with one container in \
              each pod, is more than half of the ephemeral storage.",
        fix: "Lower containerLogMaxSize or containerLogMaxFiles.",
        link: "https://kubernetes.io/docs/concepts/cluster-administration/logging/#log-rotation",
        check: Check::Configuration(logs),
    },
    Rule {
        id: "NL-OPS-007",
        group: Group::Operations,
        severity: Severity::Info,
        sources: &[Source::Nodes, Source::KubeletConfigs],
        title: "images are pulled one after another",
        why: "A node with many pods takes long to come back after a restart or an upgrade.",
        fix: "Set serializeImagePulls: false and maxParallelImagePulls.",
        link: "https://kubernetes.io/docs/concepts/containers/images/#serial-and-parallel-image-pulls",
        check: Check::All(serial_pulls),
    },
];

/// Seconds since the node was cordoned, where the taint says so.
fn cordoned_for(context: &Context<'_>, node: &Node) -> Option<i64> {
    let taint = find(node, UNSCHEDULABLE, NO_SCHEDULE)?;
    taint.time_added.map(|then| context.seconds_since(then))
}

fn drain_unfinished<'a>(context: &Context<'a>, node: &'a Node) -> Option<FindingBuilder<'a>> {
    if !node.spec.unschedulable {
        return None;
    }
    let seconds = cordoned_for(context, node).filter(|seconds| *seconds > HOUR)?;
    let left: Vec<_> = context
        .active_pods_on(&node.metadata.name)
        .filter(|pod| !belongs_to_node(pod))
        .map(|pod| pod.metadata.name.as_str())
        .collect();
    if left.is_empty() {
        return None;
    }
    let message = format!(
        "cordoned for {}, and {} still there: {}",
        format::duration(seconds),
        format::count(left.len(), "workload pod"),
        format::list(left.iter().copied())
    );
    Some(
        FindingBuilder::node(node, message)
            .with("secondsCordoned", seconds)
            .with("pods", left.len()),
    )
}

fn forgotten<'a>(context: &Context<'a>, node: &'a Node) -> Option<FindingBuilder<'a>> {
    const DAY: i64 = 86_400;
    if !node.spec.unschedulable {
        return None;
    }
    let seconds = cordoned_for(context, node).filter(|seconds| *seconds > DAY)?;
    let busy = context
        .active_pods_on(&node.metadata.name)
        .any(|pod| !belongs_to_node(pod));
    if busy {
        return None;
    }
    let message = format!("cordoned for {}, and empty", format::duration(seconds));
    let found = FindingBuilder::node(node, message).with("secondsCordoned", seconds);
    Some(found.severity_if(seconds > 7 * DAY, Severity::Error))
}

fn images<'a>(_: &Context<'a>, node: &'a Node) -> Option<FindingBuilder<'a>> {
    let room = capacity(node, "ephemeral-storage").and_then(Quantity::value)?;
    let images = &node.status.images;
    let all: i128 = images.iter().map(|i| i128::from(i.size_bytes.max(0))).sum();
    (room > 0 && all > i128::from(room) / 2).then(|| {
        let message = format!(
            "{} take {} Gi or more of {} Gi",
            format::count(images.len(), "image"),
            all >> 30,
            room >> 30
        );
        FindingBuilder::node(node, message).with("images", images.len())
    })
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
    let configs = &context.snapshot.kubelet_configs;
    for (pool, nodes) in pools::pools(context) {
        let all: Vec<_> = nodes
            .iter()
            .filter_map(|node| Some((*node, fields(configs.get(&node.metadata.name)?))))
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
                let message = format!("unlike most of {pool}: {}", odd.join("; "));
                findings.push(FindingBuilder::node(node, message).with("fields", odd));
            }
        }
    }
}

fn logs(node: &Node, config: &KubeletConfiguration) -> Option<String> {
    /// The default (`pkg/kubelet/apis/config/v1beta1/defaults.go`, v1.36.3).
    const FILES: i64 = 5;
    let size = Quantity::parse(&config.container_log_max_size)
        .ok()?
        .value()?;
    let files = config.container_log_max_files.map_or(FILES, i64::from);
    let pods = config.pod_limit(capacity(node, "cpu")?.value()?);
    let room = allocatable(node, "ephemeral-storage")?.value()?;
    let all = i128::from(size) * i128::from(files) * i128::from(pods);
    (all > i128::from(room) / 2).then(|| {
        format!(
            "{} × {files} files × {pods} pods = {} Gi of {} Gi",
            config.container_log_max_size,
            all >> 30,
            room >> 30
        )
    })
}

fn serial_pulls(context: &Context<'_>, findings: &mut Findings<'_>) {
    const MANY: usize = 50;
    for (node, config) in context.configs() {
        let pods = context.active_pods_on(&node.metadata.name).count();
        if config.serialize_image_pulls != Some(false) && pods > MANY {
            let message = format!("{pods} pods, whose images are pulled one after another");
            findings.push(FindingBuilder::node(node, message).with("pods", pods));
        }
    }
}
