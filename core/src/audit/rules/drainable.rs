//! PDB: what stands in the way of a drain, besides budgets that can never allow.

use foldhash::HashSet;

use crate::audit::context::belongs_to_node;
use crate::audit::owners::by_owner;
use crate::audit::{Context, FindingBuilder, Findings, Group, Rule, Severity};
use crate::format;
use crate::object::{Pod, UnhealthyPodEvictionPolicy};
use crate::shutdown;
use crate::snapshot::Source;

pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "NL-PDB-004",
        group: Group::Budget,
        severity: Severity::Warning,
        sources: &[Source::Budgets, Source::Pods],
        title: "a pod that does not run blocks the drain of its node",
        why: "Without unhealthyPodEvictionPolicy a pod that is not Ready may be evicted only \
              while enough others are: a broken release cannot be drained.",
        fix: "Set unhealthyPodEvictionPolicy: AlwaysAllow.",
        link: "https://kubernetes.io/docs/tasks/run-application/configure-pdb/#unhealthy-pod-eviction-policy",
        check: unhealthy,
    },
    Rule {
        id: "NL-PDB-005",
        group: Group::Budget,
        severity: Severity::Warning,
        sources: &[Source::Pods],
        title: "pods without a controller are lost by a drain",
        why: "Nothing makes them anew. A drain refuses their node without --force.",
        fix: "Make them by a Deployment, StatefulSet or Job.",
        link: "https://kubernetes.io/docs/tasks/administer-cluster/safely-drain-node/",
        check: bare,
    },
    Rule {
        id: "NL-PDB-006",
        group: Group::Budget,
        severity: Severity::Warning,
        sources: &[Source::Nodes, Source::Pods],
        title: "all replicas of a workload are on one node",
        why: "When the node goes, planned or not, the workload is gone.",
        fix: "Add topologySpreadConstraints by kubernetes.io/hostname.",
        link: "https://kubernetes.io/docs/concepts/scheduling-eviction/topology-spread-constraints/",
        check: one_node,
    },
    Rule {
        id: "NL-PDB-007",
        group: Group::Budget,
        severity: Severity::Info,
        sources: &[Source::Pods, Source::Budgets, Source::Workloads],
        title: "nothing keeps the replicas from being evicted together",
        why: "A drain of several nodes may take all of them at once.",
        fix: "Add a PodDisruptionBudget with maxUnavailable: 1.",
        link: "https://kubernetes.io/docs/tasks/run-application/configure-pdb/",
        check: no_budget,
    },
    Rule {
        id: "NL-PDB-008",
        group: Group::Budget,
        severity: Severity::Info,
        sources: &[Source::Pods],
        title: "pods ask not to be disturbed",
        why: "Autoscalers keep the node as long as they run there; nodelife's drain respects \
              it with --respect-annotations.",
        fix: "Remove the annotation when the work is done.",
        link: "https://kubernetes.io/docs/tasks/administer-cluster/safely-drain-node/",
        check: do_not_disturb,
    },
    Rule {
        id: "NL-PDB-009",
        group: Group::Budget,
        severity: Severity::Warning,
        sources: &[Source::Pods],
        title: "a finalizer holds a deleted pod",
        why: "The pod has stopped, but whoever put the finalizer does not remove it: the \
              drain waits, and a StatefulSet does not go on.",
        fix: "Look at the controller that owns the finalizer; remove it by hand as a last \
              resort.",
        link: "https://kubernetes.io/docs/concepts/overview/working-with-objects/finalizers/",
        check: finalizer,
    },
    Rule {
        id: "NL-PDB-010",
        group: Group::Budget,
        severity: Severity::Info,
        sources: &[Source::Pods],
        title: "a pod may take more than an hour to stop",
        why: "A drain with a shorter timeout gives up on its node, and a graceful shutdown \
              cuts it short.",
        fix: "Shorten terminationGracePeriodSeconds, or give the drain the time.",
        link: "https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/#pod-termination",
        check: long_grace,
    },
];

fn evictable<'a>(context: &Context<'a>) -> impl Iterator<Item = &'a Pod> + use<'a> {
    let pods = context.snapshot.pods.iter();
    pods.filter(|pod| !pod.is_terminal() && !pod.is_terminating() && !belongs_to_node(pod))
}

fn unhealthy(context: &Context<'_>, findings: &mut Findings<'_>) {
    for entry in context.budgets() {
        let (spec, status) = (&entry.budget.spec, &entry.budget.status);
        let strict = matches!(
            spec.unhealthy_pod_eviction_policy,
            None | Some(UnhealthyPodEvictionPolicy::IfHealthyBudget)
        );
        let broken: Vec<_> = entry
            .pods
            .iter()
            .filter(|pod| pod.status.phase == "Running" && !pod.is_ready() && !pod.is_terminating())
            .map(|pod| pod.metadata.name.as_str())
            .collect();
        // With enough healthy pods the others may go; below that they are stuck.
        if strict && !broken.is_empty() && status.current_healthy < status.desired_healthy {
            let message = format!(
                "{} healthy, {} wanted: not even the broken ones may be evicted: {}",
                status.current_healthy,
                status.desired_healthy,
                format::list(broken.iter().copied())
            );
            let nodes = entry.pods.iter().map(|pod| pod.spec.node_name.as_str());
            findings.push(
                FindingBuilder::budget(entry.budget, message)
                    .with("pods", broken)
                    .on_all(nodes),
            );
        }
    }
}

fn bare(context: &Context<'_>, findings: &mut Findings<'_>) {
    for pod in evictable(context).filter(|pod| !pod.spec.node_name.is_empty()) {
        if pod.metadata.controller().is_none() {
            let message = format!("no controller; on {}", pod.spec.node_name);
            findings
                .push(FindingBuilder::pod(pod, message).with("node", pod.spec.node_name.as_str()));
        }
    }
}

fn one_node(context: &Context<'_>, findings: &mut Findings<'_>) {
    if context.snapshot.nodes.len() < 2 {
        return;
    }
    let bound = evictable(context).filter(|pod| !pod.spec.node_name.is_empty());
    for (owner, pods) in by_owner(context, bound) {
        let one_off = matches!(owner.kind.as_str(), "Job" | "CronJob" | "Pod");
        let mut nodes: Vec<_> = pods.iter().map(|pod| pod.spec.node_name.as_str()).collect();
        nodes.sort_unstable();
        nodes.dedup();
        if let ([node], true, false) = (nodes.as_slice(), pods.len() > 1, one_off) {
            let message = format!("all {} on {node}", format::count(pods.len(), "pod"));
            findings.push(owner.found(&pods, message).with("node", *node));
        }
    }
}

fn no_budget(context: &Context<'_>, findings: &mut Findings<'_>) {
    let protected: HashSet<_> = context
        .budgets()
        .iter()
        .flat_map(|entry| &entry.pods)
        .map(|pod| &pod.metadata.uid)
        .collect();
    for (owner, pods) in by_owner(context, evictable(context)) {
        let replicated = matches!(
            owner.kind.as_str(),
            "Deployment" | "StatefulSet" | "ReplicaSet"
        );
        let bare = pods
            .iter()
            .all(|pod| !protected.contains(&pod.metadata.uid));
        if replicated && pods.len() > 1 && bare {
            let message = format!(
                "{}, and no budget selects them",
                format::count(pods.len(), "replica")
            );
            findings.push(owner.found(&pods, message));
        }
    }
}

fn do_not_disturb(context: &Context<'_>, findings: &mut Findings<'_>) {
    for pod in evictable(context) {
        let annotations = &pod.metadata.annotations;
        let is = |key: &str, value: &str| annotations.get(key).is_some_and(|v| v == value);
        let key = if is("cluster-autoscaler.kubernetes.io/safe-to-evict", "false") {
            "cluster-autoscaler.kubernetes.io/safe-to-evict: false"
        } else if is("karpenter.sh/do-not-disrupt", "true") {
            "karpenter.sh/do-not-disrupt: true"
        } else {
            continue;
        };
        findings.push(FindingBuilder::pod(pod, key.to_owned()));
    }
}

fn finalizer(context: &Context<'_>, findings: &mut Findings<'_>) {
    const SETTLED: i64 = 60;
    for pod in &context.snapshot.pods {
        // The time of the deletion includes the grace period.
        let Some(deleted) = pod.metadata.deletion_timestamp else {
            continue;
        };
        let late = context.seconds_since(deleted);
        if late > SETTLED && !pod.metadata.finalizers.is_empty() {
            let names = pod.metadata.finalizers.iter().map(crate::text::Str::as_str);
            let message = format!(
                "{} past its end, held by {}",
                format::duration(late),
                format::list(names)
            );
            findings.push(FindingBuilder::pod(pod, message).with("seconds", late));
        }
    }
}

fn long_grace(context: &Context<'_>, findings: &mut Findings<'_>) {
    const HOUR: i64 = 3600;
    let slow = evictable(context).filter(|pod| shutdown::grace(pod) > HOUR);
    for (owner, pods) in by_owner(context, slow) {
        let most = pods
            .iter()
            .map(|pod| shutdown::grace(pod))
            .max()
            .unwrap_or_default();
        let message = format!(
            "terminationGracePeriodSeconds: {most} ({}) on {}",
            format::duration(most),
            format::count(pods.len(), "pod")
        );
        findings.push(owner.found(&pods, message).with("seconds", most));
    }
}
