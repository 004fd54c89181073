//! Inventory: a verdict for each pod of the nodes to drain.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::behavior::{self, Behavior};
use super::options::{Consent, PodPolicy};
use super::return_reason::ReturnReason;
use super::scope::PlanScope;
use super::stuck::kept_by;
use super::verdict::{Impossible, MissingFlag, PodVerdict, SkipReason, WaitReason};
use nodelife_core::disruption::{
    BudgetKey, BudgetRefusal, Budgets, EvictionDecision, Exemption, decide, ends_by_itself,
    is_tried_again, may_be_lifted, protections, unknown_keeper,
};
use nodelife_core::format::list;
use nodelife_core::object::{Pod, PodFailureRule, Workload, WorkloadKind};
use nodelife_core::operator::{OperatorObjects, Outlook, is_guarded};
use nodelife_core::text::Str;
use nodelife_core::workload::{GROUP_INDEX, GROUP_SET, Presence, Workloads};

#[derive(Clone, Copy, Debug)]
pub struct InventoryContext<'a> {
    pub budgets: &'a Budgets,
    pub workloads: &'a Workloads,
    pub operators: &'a OperatorObjects,
    /// Why pods go last that much depends on, by UID.
    pub essential: &'a BTreeMap<Str, String>,
    /// Pods by which budgets are judged: all that the budgets of the nodes' pods
    /// select, as far as known. In the order of their namespaces.
    pub pods: &'a [&'a Pod],
    /// Those of them that other pods control, where they were looked for.
    pub controlled: Option<&'a [&'a Pod]>,
    pub now: Timestamp,
}

#[derive(Clone, Debug)]
pub struct InventoryItem {
    pub pod: Pod,
    pub verdict: PodVerdict,
    /// It goes when the pods of a lower order are gone.
    pub order: i32,
    pub granted: Vec<MissingFlag>,
    /// The urgent ones first.
    pub warnings: Vec<String>,
    /// How many of them tell of a loss that no replacement makes good.
    pub urgent: usize,
    /// Why it cannot be evicted before an autoscaler has changed the scale.
    pub at_scale: Option<Impossible>,
    /// What has to happen before its operator lets it go.
    pub needs_first: Option<String>,
}

pub fn inspect(pod: &Pod, policy: &PodPolicy, context: InventoryContext<'_>) -> InventoryItem {
    let mut notes = Notes::default();
    let mut verdict = verdict(pod, policy, context, &mut notes);
    let losses = notes.granted.iter().map(MissingFlag::loss).collect();
    let covers = |scope: &PlanScope| scope.covers(pod, &losses);
    let removes = matches!(
        verdict,
        PodVerdict::Evict(_)
            | PodVerdict::Impossible(_)
            | PodVerdict::Await(WaitReason::Completion(_))
    );
    if removes && !policy.consent.approved.as_deref().is_none_or(covers) {
        verdict = PodVerdict::Refuse(vec![MissingFlag::NotPlanned], None);
    }
    let order = match (&verdict, behavior::order(pod, &policy.filter.rules)) {
        // Its owner does not wait for it.
        (PodVerdict::Await(WaitReason::Owner(_)), _) => i32::MAX,
        (_, 0) if context.essential.contains_key(&pod.metadata.uid) => i32::MAX,
        (_, order) => order,
    };
    InventoryItem {
        pod: pod.clone(),
        verdict,
        order,
        granted: notes.granted,
        urgent: notes.urgent.len(),
        warnings: [notes.urgent, notes.warnings].concat(),
        at_scale: notes.at_scale,
        needs_first: notes.needs_first,
    }
}

#[derive(Default)]
struct Notes {
    granted: Vec<MissingFlag>,
    /// Of losses that no replacement makes good.
    urgent: Vec<String>,
    warnings: Vec<String>,
    at_scale: Option<Impossible>,
    needs_first: Option<String>,
}

/// The verdicts for all pods of `nodes`, by namespace and name.
pub fn inventory<'a>(
    pods: impl IntoIterator<Item = &'a Pod>,
    policy: &PodPolicy,
    context: InventoryContext<'_>,
) -> Vec<InventoryItem> {
    let mut items: Vec<InventoryItem> = pods
        .into_iter()
        .map(|pod| {
            let pods = of_namespace(context.pods, &pod.metadata.namespace);
            inspect(pod, policy, InventoryContext { pods, ..context })
        })
        .collect();
    items.sort_by_cached_key(|item| {
        let meta = &item.pod.metadata;
        (meta.namespace.clone(), meta.name.clone())
    });
    items
}

/// Budgets and controllers have to do with the pods of their namespace alone.
fn of_namespace<'a>(pods: &'a [&'a Pod], namespace: &Str) -> &'a [&'a Pod] {
    let before = pods.partition_point(|pod| pod.metadata.namespace < *namespace);
    let (_, pods) = pods.split_at(before);
    let end = pods.partition_point(|pod| pod.metadata.namespace == *namespace);
    pods.split_at(end).0
}

fn verdict(
    pod: &Pod,
    policy: &PodPolicy,
    context: InventoryContext<'_>,
    notes: &mut Notes,
) -> PodVerdict {
    if pod.is_mirror() {
        return PodVerdict::Skip(SkipReason::Mirror);
    }
    if let Some(selector) = &policy.filter.pod_selector
        && !selector.matches(&pod.metadata.labels)
    {
        return PodVerdict::Skip(SkipReason::NotSelected);
    }
    let asked = behavior::behavior(pod, &policy.filter.rules).filter(|_| !policy.filter.named);
    let controller = pod.metadata.controller();
    let presence = controller.map(|reference| context.workloads.presence(reference));
    let of_daemon_set = controller.is_some_and(|c| c.kind == "DaemonSet") && !policy.filter.named;
    if of_daemon_set && presence != Some(Presence::Absent) {
        return PodVerdict::Skip(SkipReason::DaemonSet);
    }
    if let Some((Behavior::Skip, origin)) = asked {
        return PodVerdict::Skip(SkipReason::Asked(origin));
    }
    if let Some(due) = pod.metadata.deletion_timestamp {
        let overdue = policy
            .filter
            .skip_overdue
            .is_some_and(|limit| context.now.duration_since(due) > limit);
        return if overdue {
            PodVerdict::Skip(SkipReason::Overdue)
        } else {
            PodVerdict::Await(WaitReason::Terminating)
        };
    }
    if let Some(finalizers) = kept_by(pod) {
        notes.warnings.push(format!(
            "it stays after the eviction until its finalizers are removed: {finalizers}"
        ));
    }
    if pod.is_terminal() {
        // It runs no more: neither its data nor its budget is at stake.
        return PodVerdict::Evict(decide(pod, context.budgets));
    }
    notes.warnings.extend(behavior::objection(pod));
    if let Some((Behavior::WaitCompleted, origin)) = asked {
        return PodVerdict::Await(WaitReason::Completion(origin));
    }
    if let Some(owner) = context.operators.guarded_owner(pod)
        && !policy.filter.named
    {
        return PodVerdict::Await(WaitReason::Owner(owner.metadata.name.clone()));
    }
    let needs = needs(pod, &policy.consent, context, notes);
    let decision = decide(pod, context.budgets);
    let bypassed = |why: &Impossible| {
        policy.consent.disable_eviction
            || why
                .budget()
                .is_some_and(|b| policy.consent.bypass.contains(b))
    };
    let outlook = context.operators.outlook(pod, decision.is_refused());
    let never = outlook
        .clone()
        .filter(|outlook| matches!(outlook, Outlook::Never(_)));
    let held = impossible(pod, &decision, context, notes).filter(|why| !bypassed(why));
    let (at_scale, held): (Option<_>, _) = match held {
        Some(why) if why.may_be_scaled() => (Some(why), None),
        held => (None, held),
    };
    let impossible = held
        .or_else(|| never.map(|why| Impossible::Operator(why.to_string())))
        .filter(|why| !bypassed(why));
    if !needs.is_empty() {
        return PodVerdict::Refuse(needs, impossible);
    }
    if let Some(reason) = ReturnReason::foreseen(pod, context.workloads) {
        notes.warnings.push(format!(
            "may come back to its node after the eviction: {reason}"
        ));
    }
    consequences(pod, &decision, context, notes);
    if let Some(impossible) = impossible {
        return PodVerdict::Impossible(impossible);
    }
    notes
        .warnings
        .extend(outlook.as_ref().map(ToString::to_string));
    notes
        .warnings
        .extend(at_scale.as_ref().map(ToString::to_string));
    notes.at_scale = at_scale;
    if let Some(Outlook::NeedsFirst(what)) = outlook
        && !matches!(decision, EvictionDecision::Counted { .. })
    {
        notes.needs_first = Some(what);
    }
    PodVerdict::Evict(decision)
}

fn consequences(
    pod: &Pod,
    decision: &EvictionDecision,
    context: InventoryContext<'_>,
    notes: &mut Notes,
) {
    let controller = pod.metadata.controller();
    let workload = controller.and_then(|one| context.workloads.workload(&one.uid));
    let jobs = workload.filter(|workload| workload.kind == WorkloadKind::Job);
    notes.urgent.extend(jobs.and_then(|job| {
        let here = context.pods.iter().filter(|other| {
            other.metadata.controller().map(|c| &c.uid) == controller.map(|c| &c.uid)
                && other.spec.node_name == pod.spec.node_name
                && !other.is_terminal()
        });
        failed_job(job, pod, here.count().max(1))
    }));
    notes.urgent.extend(dependents(pod, context));
    if let Some(workload) = workload
        && let Some(why) = workload.status.creation_failure()
    {
        let key = workload.key();
        let text = format!("nothing would replace it: {key} cannot create pods: {why}");
        notes.urgent.push(text);
    }
    let essential = context.essential.get(&pod.metadata.uid);
    if let Some(why) = essential {
        notes.urgent.insert(0, format!("it goes last: {why}"));
    }
    if let Some(set) = pod.metadata.labels.get(GROUP_SET) {
        let group = pod
            .metadata
            .labels
            .get(GROUP_INDEX)
            .map_or("?", Str::as_str);
        notes.urgent.push(format!(
            "its eviction restarts group {group} of LeaderWorkerSet {set}, unless its restartPolicy is \
             None: one group goes at a time"
        ));
    }
    notes.urgent.extend(unguarded(pod, decision, context));
}

/// The UID of the pod that controls this one.
pub(super) fn controlling_pod(pod: &Pod) -> Option<&Str> {
    let owner = pod.metadata.controller()?;
    (owner.kind == "Pod").then_some(&owner.uid)
}

/// What ends with the pod: pods that it controls, which the garbage collector deletes after it, or
/// jobs of a Ray cluster, whose state is in its head.
fn dependents(pod: &Pod, context: InventoryContext<'_>) -> Option<String> {
    if pod.metadata.labels.get("ray.io/node-type").map(Str::as_str) == Some("head") {
        let text = "the jobs of its Ray cluster fail with it, unless GCS fault tolerance is on";
        return Some(text.to_owned());
    }
    let of_pod = |other: &&&Pod| controlling_pod(other).is_some_and(|uid| *uid == pod.metadata.uid);
    let known = context.controlled.unwrap_or(context.pods);
    let names = names(known.iter().filter(of_pod).copied());
    (!names.is_empty()).then(|| format!("pods that it controls end with it: {}", list(names)))
}

fn unguarded(
    pod: &Pod,
    decision: &EvictionDecision,
    context: InventoryContext<'_>,
) -> Option<String> {
    let owner = pod.metadata.controller()?;
    let (kind, name, policy) = (&owner.kind, &owner.name, &pod.spec.restart_policy);
    match decision {
        EvictionDecision::Counted { budget, .. } if pod.is_ready() => {
            let known = context.budgets.get(budget)?;
            let (spec, status) = (&known.spec, &known.status);
            let (allowed, expected) = (status.disruptions_allowed, status.expected_pods);
            let only = "the only pod that its budget counts: nothing serves until its replacement is Ready";
            let only = (expected == 1).then(|| only.to_owned());
            let few = known.most(pod).map(|most| {
                format!(
                    "budget {budget} ({spec}) allows {allowed}, as it expects only {expected} pods: {most} \
                     at a time"
                )
            });
            few.or(only)
        }
        _ if WorkloadKind::of(owner).is_some() || kind == "Pod" || is_guarded(pod) => None,
        _ if !policy.is_empty() => Some(format!(
            "its restartPolicy is {policy}: whether {kind} {name} makes another pod is not known"
        )),
        EvictionDecision::Exempt(Exemption::NoBudget) if unknown_keeper(pod).is_some() => {
            let mut pods = context.pods.iter().copied();
            let is_sibling = |other: &Pod| {
                other.metadata.uid != pod.metadata.uid
                    && unknown_keeper(other).is_some_and(|keeper| keeper.uid == owner.uid)
            };
            pods.any(is_sibling).then(|| {
                format!(
                    "no budget protects the pods of {kind} {name}: they go one after the other, \
                     and drain does not wait for their replacements"
                )
            })
        }
        _ => None,
    }
}

/// How many pods of the index have failed before this one, as the Job controller notes it
/// (`getIndexFailureCount` of `pkg/controller/job/indexed_job_utils.go`, v1.36.3).
const INDEX_FAILURES: &str = "batch.kubernetes.io/job-index-failure-count";

/// That the evictions fail a Job for good, or the pod's index of it. Each counts as a failure, unless
/// the first rule of the policy for failures that matches says otherwise (`isPodFailed`,
/// `matchPodFailurePolicy` and `isIndexFailed` of pkg/controller/job, v1.36.3).
fn failed_job(job: &Workload, pod: &Pod, evictions: usize) -> Option<String> {
    let spec = &job.spec;
    // The code after a signal is among those that are not listed, unless the program handles it.
    let by_code = |rule: &PodFailureRule| {
        let codes = rule.on_exit_codes.as_ref();
        codes.is_some_and(|codes| codes.operator == "NotIn")
    };
    let mut rules = spec.pod_failure_policy.rules.iter();
    let rule = rules.find(|rule| {
        let mut conditions = rule.on_pod_conditions.iter();
        by_code(rule) || conditions.any(|condition| condition.kind == "DisruptionTarget")
    });
    let of_index = pod.metadata.annotations.get(INDEX_FAILURES);
    let of_index = of_index.map_or(0, |count| count.parse().unwrap_or(0));
    let failed = usize::try_from(job.status.failed.unwrap_or(0)).unwrap_or(0) + evictions;
    // The API server's default (`SetDefaults_Job` of pkg/apis/batch/v1/defaults.go, v1.36.3).
    let most = spec.backoff_limit_per_index.map_or(6, |_| i32::MAX);
    let most = spec.backoff_limit.unwrap_or(most);
    let counts = |field: &str, limit: i32| {
        format!("an eviction counts as a failure, and the {field} is {limit}")
    };
    let action = rule.map(|rule| &*rule.action);
    let (what, why) = match (action, spec.backoff_limit_per_index) {
        (Some("Ignore"), _) => return None,
        (Some("FailJob"), _) => ("Job", "its podFailurePolicy says so".to_owned()),
        (Some("FailIndex"), _) => (
            "index of its Job",
            "its podFailurePolicy says so".to_owned(),
        ),
        (_, Some(limit)) if of_index >= limit => {
            ("index of its Job", counts("backoffLimitPerIndex", limit))
        }
        _ if i64::try_from(failed).is_ok_and(|failed| failed > i64::from(most)) => {
            ("Job", counts("backoffLimit", most))
        }
        _ => return None,
    };
    let fails = match action {
        Some("FailJob" | "FailIndex") if rule.is_some_and(by_code) => "may fail",
        _ => "fails",
    };
    let set = job.metadata.controller().filter(|set| set.kind == "JobSet");
    let then = set.map_or_else(
        || "for good".to_owned(),
        |set| {
            format!(
                "and {} {} restarts all of its Jobs as one, or fails",
                set.kind, set.name
            )
        },
    );
    // Without its name, so that the same is told once of many.
    Some(format!(
        "its {what} {fails} {then}: {why}; wait-completed lets it finish (--pod-rule, or label \
         cluster.x-k8s.io/drain)"
    ))
}

/// The flags that are missing; those that were given become warnings.
fn needs(
    pod: &Pod,
    consent: &Consent,
    context: InventoryContext<'_>,
    notes: &mut Notes,
) -> Vec<MissingFlag> {
    let mut needs = Vec::new();
    let mut weigh = |need: MissingFlag, allowed: bool| {
        if allowed {
            notes.warnings.push(need.to_string());
            notes.granted.push(need);
        } else {
            needs.push(need);
        }
    };
    for (annotation, _) in protections(pod, context.now) {
        weigh(
            MissingFlag::Unprotect(annotation),
            !consent.respect_annotations,
        );
    }
    let mut volumes = pod.spec.volumes.iter().filter_map(|v| v.empty_dir.as_ref());
    if let Some(first) = volumes.next() {
        let memory = first.medium == "Memory" && volumes.all(|v| v.medium == "Memory");
        weigh(
            MissingFlag::DeleteEmptyDir { memory },
            consent.delete_emptydir_data,
        );
    }
    match pod.metadata.controller() {
        None => {
            let owner = pod.metadata.owner_references.first();
            let owner = owner.map(|owner| format!("{} {}", owner.kind, owner.name));
            weigh(MissingFlag::NoController { owner }, consent.force);
        }
        Some(reference) if context.workloads.presence(reference) == Presence::Absent => {
            let (kind, name) = (reference.kind.clone(), reference.name.clone());
            weigh(MissingFlag::ControllerGone { kind, name }, consent.force);
        }
        Some(_) => {}
    }
    needs
}

fn impossible(
    pod: &Pod,
    decision: &EvictionDecision,
    context: InventoryContext<'_>,
    notes: &mut Notes,
) -> Option<Impossible> {
    let never = match decision {
        EvictionDecision::SeveralBudgets(budgets) => {
            Some(Impossible::SeveralBudgets(budgets.clone()))
        }
        EvictionDecision::Refused {
            budget,
            refusal: BudgetRefusal::SyncFailed(message),
        } if !is_tried_again(message) => match without_scale(pod, budget, message, context) {
            (ending, lasting) if lasting.is_empty() && !ending.is_empty() => {
                notes.warnings.push(format!(
                    "budget {budget} cannot be counted while it selects pods without a scale ({}): it \
                     is counted again once they have ended and are deleted",
                    list(ending)
                ));
                None
            }
            (_, lasting) => Some(Impossible::SyncFailed {
                budget: budget.clone(),
                message: message.clone(),
                finished: list(lasting),
            }),
        },
        EvictionDecision::Refused {
            budget,
            refusal: BudgetRefusal::Exhausted { .. },
        } => never(pod, budget, context),
        _ => None,
    };
    if ends_by_itself(pod)
        && let Some(budget) = never.as_ref().and_then(Impossible::budget)
    {
        let text = format!("budget {budget} keeps it until it has ended");
        notes.warnings.push(text);
    }
    never.filter(|_| !may_be_lifted(pod, decision, context.budgets))
}

/// The pods that the budget selects and that keep it from being counted: those that will be gone, and
/// those that have finished and stay. It counts both (`getPodsForPdb` and `getScaleController` of
/// pkg/controller/disruption/disruption.go, v1.36.3).
fn without_scale<'a>(
    pod: &'a Pod,
    key: &BudgetKey,
    message: &str,
    context: InventoryContext<'a>,
) -> (Vec<&'a str>, Vec<&'a str>) {
    let (kind, rest) = message.split_once(' ').unwrap_or_default();
    if kind == "daemonsets.apps" || rest != "does not implement the scale subresource" {
        return Default::default();
    }
    let expires = |pod: &Pod| {
        let job = pod.metadata.controller();
        let job = job.and_then(|job| context.workloads.workload(&job.uid));
        job.is_some_and(|job| job.spec.ttl_seconds_after_finished.is_some())
    };
    let selected = selected(pod, key, context).into_iter();
    let (lasting, ending): (Vec<&Pod>, Vec<&Pod>) = selected
        .filter(|pod| ends_by_itself(pod))
        .partition(|pod| pod.is_terminal() && !expires(pod));
    (names(ending), names(lasting))
}

/// In order: a watch gives the pods in any, and what is told must not change with it.
fn names<'a>(pods: impl IntoIterator<Item = &'a Pod>) -> Vec<&'a str> {
    let pods = pods.into_iter();
    let mut names: Vec<&str> = pods.map(|pod| &*pod.metadata.name).collect();
    names.sort_unstable();
    names
}

fn selected<'a>(pod: &'a Pod, key: &BudgetKey, context: InventoryContext<'a>) -> Vec<&'a Pod> {
    let budget = context.budgets.get(key);
    let pods = context.pods.iter().copied();
    let mut selected: Vec<&Pod> = pods
        .filter(|p| budget.is_some_and(|b| b.selects(p)))
        .collect();
    if !selected.iter().any(|p| p.metadata.uid == pod.metadata.uid) {
        selected.push(pod);
    }
    selected
}

fn never(pod: &Pod, key: &BudgetKey, context: InventoryContext<'_>) -> Option<Impossible> {
    let budget = context.budgets.get(key)?;
    let selected = selected(pod, key, context);
    if budget.is_over_bare_pods(&selected) {
        return Some(Impossible::BarePods {
            budget: key.clone(),
            spec: budget.spec.to_string(),
        });
    }
    let (needs, most) = budget.refuses_at_scale(&selected, context.workloads)?;
    let scaling = budget.scaling(&selected, context.workloads);
    Some(Impossible::NeverAllows {
        budget: key.clone(),
        spec: budget.spec.to_string(),
        needs,
        most,
        scaling: scaling.ok().flatten(),
    })
}

#[cfg(test)]
mod tests;
