//! PDB: disruption budgets, and whether nodes can be drained.

use foldhash::HashSet;
use std::collections::{BTreeMap, HashMap};

use crate::audit::context::BudgetPods;
use crate::audit::owners::{by_owner, full_name};
use crate::audit::{Check, Context, FindingBuilder, Findings, Group, Rule, Severity};
use crate::disruption::{ignores_budgets, protections};
use crate::object::{Budget, Pod, UnhealthyPodEvictionPolicy};
use crate::snapshot::Source;
use crate::{format, shutdown};

const LINK: &str = "https://kubernetes.io/docs/tasks/run-application/configure-pdb/";

pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "NL-PDB-001",
        group: Group::Budget,
        severity: Severity::Error,
        sources: &[Source::Budgets],
        title: "the budget can never allow an eviction",
        why: "It asks for as many healthy pods as there are. Every drain of a node with one of \
              them waits for ever, and so does every upgrade.",
        fix: "Leave room for one: maxUnavailable: 1, or more replicas than minAvailable.",
        link: LINK,
        check: Check::All(never_allows),
    },
    Rule {
        id: "NL-PDB-002",
        group: Group::Budget,
        severity: Severity::Error,
        sources: &[Source::Budgets, Source::Pods],
        title: "pods are selected by several budgets",
        why: "The eviction API refuses such a pod with status 500, whatever the budgets allow: \
              'This pod has more than one PodDisruptionBudget, which the eviction subresource \
              does not support.'",
        fix: "Narrow the selectors so that each pod is in one budget.",
        link: LINK,
        check: Check::All(several_budgets),
    },
    Rule {
        id: "NL-PDB-003",
        group: Group::Budget,
        severity: Severity::Warning,
        sources: &[Source::Budgets, Source::Pods],
        title: "the budget protects nothing",
        why: "No pod has the labels that it selects, so what it was made for can be evicted all \
              at once; or the controller has not counted for its present form.",
        fix: "Compare the selector with the labels of the pods' template.",
        link: LINK,
        check: Check::All(selects_nothing),
    },
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
        check: Check::All(unhealthy),
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
        check: Check::All(bare),
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
        check: Check::All(one_node),
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
        check: Check::All(no_budget),
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
        check: Check::All(do_not_disturb),
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
        check: Check::All(finalizer),
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
        check: Check::All(long_grace),
    },
];

/// Whether the status was counted for the budget as it is now.
fn is_counted(budget: &Budget) -> bool {
    budget.status.observed_generation >= budget.metadata.generation.unwrap_or_default()
}

fn never_allows(context: &Context<'_>, findings: &mut Findings<'_>) {
    let needed = [Source::Pods, Source::Workloads];
    let readable = needed.map(|source| context.snapshot.why_missing(source).is_none());
    let exhausted = |entry: &&BudgetPods<'_>| entry.budget.is_exhausted();
    for BudgetPods { budget, pods } in context.budgets().iter().filter(exhausted) {
        // The scale of the workloads tells; the status alone says too much while a pod is missing.
        let never = if readable == [true, true] {
            budget.refuses_at_scale(pods, &context.workloads_of(pods))
        } else {
            budget.refuses_by_status()
        };
        let Some((needed, reachable)) = never else {
            continue;
        };
        let status = &budget.status;
        let message = format!(
            "{}: {needed} of {reachable} pods have to be healthy, {} are; \
             {reachable} − {needed} = 0 evictions allowed, ever",
            budget.spec, status.current_healthy,
        );
        findings.push(
            FindingBuilder::budget(budget, message)
                .with("desiredHealthy", status.desired_healthy)
                .with("expectedPods", status.expected_pods)
                .with("currentHealthy", status.current_healthy)
                .on_all(pods.iter().map(|pod| pod.spec.node_name.as_str())),
        );
    }
}

fn several_budgets(context: &Context<'_>, findings: &mut Findings<'_>) {
    let mut of_pod: HashMap<(&str, &str), (&Pod, Vec<&Budget>)> = HashMap::new();
    for entry in context.budgets() {
        for pod in entry.pods.iter().filter(|pod| !ignores_budgets(pod)) {
            let key = (&*pod.metadata.namespace, &*pod.metadata.name);
            let (_, budgets) = of_pod.entry(key).or_insert((pod, Vec::new()));
            budgets.push(entry.budget);
        }
    }
    // One finding for each set of budgets, not for each pod.
    let mut sets: BTreeMap<(&str, Vec<&str>), BudgetPods<'_>> = BTreeMap::new();
    for (pod, mut budgets) in of_pod.into_values().filter(|(_, b)| b.len() > 1) {
        budgets.sort_by_key(|budget| &budget.metadata.name);
        let names = budgets.iter().map(|b| &*b.metadata.name).collect();
        let Some(first) = budgets.first() else {
            continue;
        };
        let key = (&*pod.metadata.namespace, names);
        let set = sets.entry(key).or_insert_with(|| BudgetPods {
            budget: first,
            pods: Vec::new(),
        });
        set.pods.push(pod);
    }
    for ((_, names), BudgetPods { budget, mut pods }) in sets {
        pods.sort_by_key(|pod| &pod.metadata.name);
        let message = format!(
            "budgets {} select the same {}: {}",
            names.join(" and "),
            format::count(pods.len(), "pod"),
            format::list(pods.iter().map(|pod| pod.metadata.name.as_str()))
        );
        let pod_names: Vec<_> = pods.iter().map(|pod| full_name(&pod.metadata)).collect();
        findings.push(
            FindingBuilder::budget(budget, message)
                .with("budgets", names)
                .with("pods", pod_names)
                .on_all(pods.iter().map(|pod| pod.spec.node_name.as_str())),
        );
    }
}

fn selects_nothing(context: &Context<'_>, findings: &mut Findings<'_>) {
    for entry in context.budgets() {
        let budget = entry.budget;
        if !is_counted(budget) {
            let message = format!(
                "the disruption controller counted for generation {}, the budget is at {}",
                budget.status.observed_generation,
                budget.metadata.generation.unwrap_or_default()
            );
            findings.push(FindingBuilder::budget(budget, message));
        } else if entry.pods.is_empty() && !is_scaled_down(context, budget) {
            let message = "no pod of the namespace has the selected labels".to_owned();
            findings.push(FindingBuilder::budget(budget, message));
        }
    }
}

/// Whether a workload of zero replicas would make pods that the budget selects.
fn is_scaled_down(context: &Context<'_>, budget: &Budget) -> bool {
    let Some(selector) = &budget.spec.selector else {
        return false;
    };
    context.snapshot.workloads.iter().any(|workload| {
        workload.metadata.namespace == budget.metadata.namespace
            && workload.spec.replicas == Some(0)
            && (workload.spec.selector.as_ref())
                .is_some_and(|own| selector.matches(&own.match_labels))
    })
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
    for pod in context
        .evictable_pods()
        .filter(|pod| !pod.spec.node_name.is_empty())
    {
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
    let bound = context
        .evictable_pods()
        .filter(|pod| !pod.spec.node_name.is_empty());
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
    for (owner, pods) in by_owner(context, context.evictable_pods()) {
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
    for pod in context.evictable_pods() {
        let Some((annotation, value)) = protections(pod).next() else {
            continue;
        };
        findings.push(FindingBuilder::pod(pod, format!("{annotation}: {value}")));
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
    let slow = context
        .evictable_pods()
        .filter(|pod| shutdown::grace(pod) > HOUR);
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
