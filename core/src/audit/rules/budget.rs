//! PDB: disruption budgets, and whether nodes can be drained.

use std::collections::{BTreeMap, HashMap};

use crate::audit::context::BudgetPods;
use crate::audit::owners::full_name;
use crate::audit::{Context, FindingBuilder, Findings, Group, Rule, Severity};
use crate::format;
use crate::object::{Budget, IntOrString, Pod};
use crate::snapshot::Source;

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
        check: never_allows,
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
        check: several_budgets,
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
        check: selects_nothing,
    },
];

/// Whether the status was counted for the budget as it is now.
fn is_counted(budget: &Budget) -> bool {
    budget.status.observed_generation >= budget.metadata.generation.unwrap_or_default()
}

/// `minAvailable: 2`
fn wish(budget: &Budget) -> String {
    let text = |value: &IntOrString| match value {
        IntOrString::Int(number) => number.to_string(),
        IntOrString::String(text) => text.to_string(),
    };
    match (&budget.spec.min_available, &budget.spec.max_unavailable) {
        (Some(least), _) => format!("minAvailable: {}", text(least)),
        (None, Some(most)) => format!("maxUnavailable: {}", text(most)),
        (None, None) => "minAvailable: 1".into(),
    }
}

fn never_allows(context: &Context<'_>, findings: &mut Findings<'_>) {
    for entry in context.budgets() {
        let budget = entry.budget;
        let status = &budget.status;
        // During a rollout nothing is allowed either, but then fewer are wanted than there are.
        let never = status.expected_pods > 0 && status.desired_healthy >= status.expected_pods;
        if !never || !is_counted(budget) || status.disruptions_allowed > 0 {
            continue;
        }
        let message = format!(
            "{}: {} of {} pods have to be healthy, {} are; {} − {} = 0 evictions allowed, ever",
            wish(budget),
            status.desired_healthy,
            status.expected_pods,
            status.current_healthy,
            status.expected_pods,
            status.desired_healthy,
        );
        findings.push(
            FindingBuilder::budget(budget, message)
                .with("desiredHealthy", status.desired_healthy)
                .with("expectedPods", status.expected_pods)
                .with("currentHealthy", status.current_healthy)
                .on_all(entry.pods.iter().map(|pod| pod.spec.node_name.as_str())),
        );
    }
}

/// Whether the eviction API asks budgets at all (`canIgnorePDB`,
/// `pkg/registry/core/pod/storage/eviction.go`, v1.36.3).
fn budgets_count(pod: &Pod) -> bool {
    !pod.is_terminal() && !pod.is_terminating() && pod.status.phase != "Pending"
}

fn several_budgets(context: &Context<'_>, findings: &mut Findings<'_>) {
    let mut of_pod: HashMap<(&str, &str), (&Pod, Vec<&Budget>)> = HashMap::new();
    for entry in context.budgets() {
        for pod in entry.pods.iter().filter(|pod| budgets_count(pod)) {
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
