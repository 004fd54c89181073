//! PDB: disruption budgets, and whether nodes can be drained.

use foldhash::HashSet;
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::context::{BudgetPods, is_lost};
use crate::owners::OwnedPods;
use crate::rule::rules;
use crate::{Context, Fact, FindingBuilder, Findings, Rule, Severity};
use nodelife_core::disruption::{CountError, ignores_budgets, protections};
use nodelife_core::format;
use nodelife_core::object::{Budget, Pod, UnhealthyPodEvictionPolicy};
use nodelife_core::snapshot::Source;

pub(super) const RULES: &[Rule] = rules! {
    "NL-PDB-001" Error [Budgets] All(never_allows),
    "NL-PDB-002" Error [Budgets, Pods] All(several_budgets),
    "NL-PDB-003" Warning [Budgets, Pods] All(selects_nothing),
    "NL-PDB-004" Warning [Budgets, Pods] All(unhealthy),
    "NL-PDB-005" Warning [Pods] All(bare),
    "NL-PDB-006" Warning [Nodes, Pods] All(one_node),
    "NL-PDB-007" Info [Pods, Budgets, Workloads] All(no_budget),
    "NL-PDB-008" Info [Pods] All(do_not_disturb),
    "NL-PDB-009" Warning [Pods] All(finalizer),
};

/// `getExpectedPodCount` of pkg/controller/disruption/disruption.go (v1.37.2).
const EXPECTS_NOTHING: &str =
    "{spec}: the disruption controller expects no pod, and allows no eviction";

fn is_counted(budget: &Budget) -> bool {
    budget.status.observed_generation >= budget.metadata.generation.unwrap_or_default()
}

fn never_allows(context: &Context<'_>, findings: &mut Findings<'_>) {
    if context.snapshot.is_declared() {
        return will_never_allow(context, findings);
    }
    for entry in context.budgets() {
        let BudgetPods { budget, pods } = entry;
        if is_lifted(entry) {
            continue;
        }
        let may_scale = is_read(context, entry) && !context.autoscalers().is_empty();
        if may_scale && at_least_scale(context, entry, findings) {
            continue;
        }
        let Some((needed, reachable)) = refuses_always(context, entry) else {
            continue;
        };
        let status = &budget.status;
        // A budget of a manifest, beside the objects of a cluster, was not counted.
        let says = if budget.spec.expects_nothing() {
            EXPECTS_NOTHING
        } else if status.expected_pods > 0 {
            "{spec}: {needed} of {reachable} pods have to be healthy, {currentHealthy} are; \
             {reachable} − {needed} = 0 evictions allowed, ever"
        } else {
            "{spec}: {needed} of {reachable} pods have to be healthy; {reachable} − {needed} = 0 \
             evictions allowed, ever"
        };
        findings.push(
            FindingBuilder::budget(budget, says)
                .with("spec", Fact::quote(&budget.spec.to_string()))
                .with("needed", needed)
                .with("reachable", reachable)
                .with("desiredHealthy", status.desired_healthy)
                .with("expectedPods", status.expected_pods)
                .with("currentHealthy", status.current_healthy)
                .with("workloads", workloads(context, pods))
                .on_all(pods.iter().map(|pod| pod.spec.node_name.as_str())),
        );
    }
}

/// Those whose scale decides how many of these pods there are.
fn workloads(context: &Context<'_>, pods: &[&Pod]) -> Fact {
    let workloads = context.workloads_of(pods);
    let scalers = pods.iter().filter_map(|pod| workloads.scaler(pod));
    let names: BTreeSet<_> = scalers
        .map(|one| format!("{} {}", one.kind, one.metadata.name))
        .collect();
    Fact::names(names.iter().map(String::as_str))
}

fn is_lifted(BudgetPods { budget, pods }: &BudgetPods<'_>) -> bool {
    let mut guarded = pods.iter().map(|pod| budget.may_be_lifted(pod));
    budget.owner().is_some() || !pods.is_empty() && guarded.all(|is_lifted| is_lifted)
}

fn is_read(context: &Context<'_>, entry: &BudgetPods<'_>) -> bool {
    let mut needed = [Source::Pods, Source::Workloads].into_iter();
    needed.all(|source| context.snapshot.has(source)) && !has_unread_pods(context, entry)
}

/// How many pods have to be healthy of how many, if that allows no eviction ever: by the workloads'
/// scale, as the status is too strict while a pod is missing.
fn refuses_always(context: &Context<'_>, entry: &BudgetPods<'_>) -> Option<(i32, i32)> {
    let BudgetPods { budget, pods } = entry;
    if is_read(context, entry) {
        budget.refuses_at_scale(pods, &context.workloads_of(pods))
    } else {
        budget.refuses_by_status()
    }
}

/// Tells of a budget that allows evictions at some scales that its autoscalers may choose, and none
/// at the least of them. Whether it allows one at some scale: a workload whose autoscaler has not
/// scaled it up yet says nothing of what will be.
fn at_least_scale(
    context: &Context<'_>,
    BudgetPods { budget, pods }: &BudgetPods<'_>,
    findings: &mut Findings<'_>,
) -> bool {
    let (workloads, autoscalers) = (context.workloads_of(pods), context.autoscalers());
    let refused = budget.refused_scale(pods, &workloads, autoscalers);
    let refused = match refused {
        Ok(None) => return true,
        Ok(Some(refused)) if !refused.always => refused,
        _ => return false,
    };
    let says = "{spec}: at the least scale of its HorizontalPodAutoscaler, {needed} of {reachable} \
                pods have to be healthy, so none can be evicted then; {remedy}";
    findings.push(
        FindingBuilder::budget(budget, says)
            .with("spec", Fact::quote(&budget.spec.to_string()))
            .with("needed", refused.needed)
            .with("reachable", refused.scale)
            .with("remedy", Fact::quote(&budget.spec.remedy()))
            .with("workloads", self::workloads(context, pods))
            .severity_if(!budget.is_exhausted(), Severity::Warning)
            .on_all(pods.iter().map(|pod| pod.spec.node_name.as_str())),
    );
    true
}

/// The same of manifests, by what the budget says of the pods that their workloads will have.
fn will_never_allow(context: &Context<'_>, findings: &mut Findings<'_>) {
    let declared = context.declared();
    let budgets = context.snapshot.budgets.iter();
    for budget in budgets.filter(|budget| budget.owner().is_none()) {
        let found = match declared.refused_scale(budget, context.autoscalers()) {
            Ok(Some(_)) if budget.spec.expects_nothing() => {
                FindingBuilder::budget(budget, EXPECTS_NOTHING).and("; {remedy}")
            }
            Ok(Some(refused)) => {
                let pods = declared.evictable_under(budget);
                let owners = pods.iter().filter_map(|pod| pod.metadata.controller());
                let names: Vec<_> = owners.map(|o| format!("{} {}", o.kind, o.name)).collect();
                let says = "{spec}: {needed} of {reachable} pods of {workloads} have to be healthy, \
                            so none can be evicted";
                let found = FindingBuilder::budget(budget, says)
                    .with("needed", refused.needed)
                    .with("reachable", refused.scale)
                    .with("workloads", Fact::names(names.iter().map(String::as_str)))
                    .severity_if(!refused.always, Severity::Warning);
                let at = " at the least scale of their HorizontalPodAutoscaler";
                if refused.always { found } else { found.and(at) }.and("; {remedy}")
            }
            // Its pods are of another manifest, or of an operator.
            Ok(None)
                if budget.spec.least_evictable().is_none()
                    && declared.selected_by(budget).next().is_none() =>
            {
                FindingBuilder::budget(budget, "{spec} allows no eviction at any scale; {remedy}")
            }
            Err(error @ (CountError::NoScale(_) | CountError::Value(_))) => {
                let says = "{spec}: the disruption controller cannot count it, and allows no \
                            eviction: {error}";
                FindingBuilder::budget(budget, says).with("error", Fact::quote(&error.to_string()))
            }
            _ => continue,
        };
        let found = found.with("spec", Fact::quote(&budget.spec.to_string()));
        findings.push(found.with("remedy", Fact::quote(&budget.spec.remedy())));
    }
}

/// Each budget with its pods; those of a manifest with the pods that its workloads will have.
fn budgets<'c>(context: &'c Context<'_>) -> Cow<'c, [BudgetPods<'c>]> {
    if !context.snapshot.is_declared() {
        return Cow::Borrowed(context.budgets());
    }
    let budgets = context.snapshot.budgets.iter().map(|budget| BudgetPods {
        budget,
        pods: context.declared().evictable_under(budget),
    });
    budgets.collect()
}

fn several_budgets(context: &Context<'_>, findings: &mut Findings<'_>) {
    let mut of_pod: HashMap<*const Pod, (&Pod, Vec<&Budget>)> = HashMap::new();
    let budgets = budgets(context);
    for entry in budgets.iter() {
        for pod in entry.pods.iter().filter(|pod| !ignores_budgets(pod)) {
            let key = std::ptr::from_ref::<Pod>(pod);
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
        let listed = format::list(pods.iter().map(|pod| pod.metadata.name.as_str()));
        let pod_names: Vec<_> = pods.iter().map(|pod| pod.metadata.full_name()).collect();
        let says = if context.snapshot.is_declared() {
            "budgets {budgets} select the same pods, those of {pods}"
        } else {
            "budgets {budgets} select the same {count}: {pods}"
        };
        findings.push(
            FindingBuilder::budget(budget, says)
                .with(
                    "budgets",
                    Fact::names(names.iter().copied()).shown(names.join(" and ")),
                )
                .with("count", Fact::count(pods.len(), "pod"))
                .with("pods", Fact::from(pod_names).shown(listed))
                .on_all(pods.iter().map(|pod| pod.spec.node_name.as_str())),
        );
    }
}

fn selects_nothing(context: &Context<'_>, findings: &mut Findings<'_>) {
    for entry in context.budgets() {
        let budget = entry.budget;
        if !is_counted(budget) {
            let says = "the disruption controller has processed generation {observed}, but the \
                        budget is at {generation}";
            let found = FindingBuilder::budget(budget, says)
                .with("observed", budget.status.observed_generation)
                .with("generation", budget.metadata.generation.unwrap_or_default());
            findings.push(found);
        } else if entry.pods.is_empty()
            && !has_unread_pods(context, entry)
            && !is_scaled_down(context, budget)
        {
            let says = "no pod in the namespace matches the selector";
            findings.push(FindingBuilder::budget(budget, says));
        }
    }
}

fn has_unread_pods(context: &Context<'_>, entry: &BudgetPods<'_>) -> bool {
    let mut pods = context.snapshot.pods.iter().map(|pod| &pod.metadata);
    let counted = entry.budget.status.expected_pods > 0 && entry.pods.is_empty();
    counted
        && !context.snapshot.has(Source::AllPods)
        && !pods.any(|meta| meta.namespace == entry.budget.metadata.namespace)
}

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
    // NL-PDB-001 says what is wrong where no pod may be evicted ever.
    let may_allow = |entry: &_| is_lifted(entry) || refuses_always(context, entry).is_none();
    for entry in context.budgets() {
        let (spec, status) = (&entry.budget.spec, &entry.budget.status);
        let strict = matches!(
            spec.unhealthy_pod_eviction_policy,
            None | Some(UnhealthyPodEvictionPolicy::IfHealthyBudget)
        );
        let broken: Vec<&str> = entry
            .pods
            .iter()
            .filter(|pod| pod.status.phase == "Running" && !pod.is_ready() && !pod.is_terminating())
            .map(|pod| pod.metadata.name.as_str())
            .collect();
        // With enough healthy pods the unhealthy ones can be evicted; below that they cannot.
        let is_short = status.current_healthy < status.desired_healthy;
        if strict && !broken.is_empty() && is_short && may_allow(entry) {
            let says = "{healthy} healthy, {wanted} wanted: not even the unhealthy pods may be \
                        evicted: {pods}";
            let nodes = entry.pods.iter().map(|pod| pod.spec.node_name.as_str());
            findings.push(
                FindingBuilder::budget(entry.budget, says)
                    .with("healthy", status.current_healthy)
                    .with("wanted", status.desired_healthy)
                    .with("pods", Fact::names(broken))
                    .on_all(nodes),
            );
        }
    }
}

fn bare(context: &Context<'_>, findings: &mut Findings<'_>) {
    let pods = context.evictable_pods().filter(|pod| is_bound(pod));
    // Owners that do not call themselves a controller make their pods again too: OLM's catalogs.
    for pod in pods.filter(|pod| pod.metadata.owner_references.is_empty()) {
        let node = pod.spec.node_name.as_str();
        let found = FindingBuilder::pod(pod, "no controller; on {node}");
        findings.push(found.with("node", Fact::name(node)));
    }
}

fn is_bound(pod: &Pod) -> bool {
    !pod.spec.node_name.is_empty()
}

fn one_node(context: &Context<'_>, findings: &mut Findings<'_>) {
    if context.snapshot.nodes.len() < 2 {
        return;
    }
    for OwnedPods { owner, pods, .. } in context.owned_pods() {
        if matches!(owner.kind.as_str(), "Job" | "CronJob" | "Pod") {
            continue;
        }
        let bound = pods.iter().filter(|pod| is_bound(pod));
        let mut nodes = bound.clone().map(|pod| pod.spec.node_name.as_str());
        let Some(node) = nodes.next() else { continue };
        // One pod alone is nowhere else.
        if nodes.clone().next().is_some() && nodes.all(|other| other == node) {
            let pods: Vec<_> = bound.copied().collect();
            let spread = pods.iter().all(|pod| spreads_over_nodes(pod));
            let says = if spread {
                "all {pods} on {node}, although they have a topology spread constraint over nodes"
            } else {
                "all {pods} on {node}"
            };
            findings.push(owner.found(&pods, says).with("node", Fact::name(node)));
        }
    }
}

fn spreads_over_nodes(pod: &Pod) -> bool {
    let mut constraints = pod
        .spec
        .topology_spread_constraints
        .iter()
        .flat_map(|c| c.iter());
    constraints.any(|constraint| constraint.topology_key == "kubernetes.io/hostname")
}

fn no_budget(context: &Context<'_>, findings: &mut Findings<'_>) {
    let protected: HashSet<*const Pod> = context
        .budgets()
        .iter()
        .flat_map(|entry| &entry.pods)
        .map(|pod| std::ptr::from_ref(*pod))
        .collect();
    for OwnedPods { owner, pods, .. } in context.owned_pods() {
        let replicated = matches!(
            owner.kind.as_str(),
            "Deployment" | "StatefulSet" | "ReplicaSet"
        );
        let is_protected = |pod: &&Pod| protected.contains(&std::ptr::from_ref(*pod));
        if replicated && pods.len() > 1 && !pods.iter().any(is_protected) {
            let found = owner.found(pods, "{pods}, and no budget selects them");
            findings.push(found.with("pods", Fact::count(pods.len(), "replica")));
        }
    }
}

fn do_not_disturb(context: &Context<'_>, findings: &mut Findings<'_>) {
    for pod in context.evictable_pods() {
        if let Some((annotation, value)) = protections(pod, context.now).next() {
            let found = FindingBuilder::pod(pod, "{annotation}: {value}");
            findings.push(found.with("annotation", annotation).with("value", value));
        }
    }
}

fn finalizer(context: &Context<'_>, findings: &mut Findings<'_>) {
    for (pod, late) in context.overdue_pods() {
        // Until its kubelet has ended it, a pod would stay without finalizers too. A Job that replaces
        // failed pods alone keeps its own till then (`isPodFailed`,
        // `pkg/controller/job/job_controller.go`, v1.36.3).
        let node = context.node(&pod.spec.node_name);
        let is_left = pod.is_terminal() || !pod.is_ready() && !node.is_some_and(is_lost);
        if !pod.metadata.finalizers.is_empty() && is_left {
            let names = pod.metadata.finalizers.iter();
            let names = Fact::names(names.map(nodelife_core::text::Str::as_str));
            let says = "{seconds} past its grace period, held by {finalizers}";
            let found = FindingBuilder::pod(pod, says).with("seconds", Fact::seconds(late));
            findings.push(found.with("finalizers", names));
        }
    }
}
