//! Policy that tells of budgets that no drain gets past, where they are made: at the write of the
//! budget, of a workload's scale, or of its `HorizontalPodAutoscaler`.
//!
//! The judgement is that of [`DeclaredPods`], at each scale that the workloads may have. What cannot
//! be read or looked up passes.

use nodelife_core::disruption::{Autoscalers, CountError, DeclaredPods};
use nodelife_core::object::{Autoscaler, Budget, Workload, WorkloadKind};
use serde::Deserialize;

use crate::decision::{Checked, Interrupted};
use crate::denial::Denial;
use crate::lookup::{Listed, Lookup, LookupResult, Lookups};
use crate::review::{Operation, Request};
use crate::rule::AdmissionRule;

const RULE: AdmissionRule = AdmissionRule::DrainSafety;
const REMEDY: &str = "https://kubernetes.io/docs/tasks/run-application/configure-pdb/";
/// It writes the scales that its objects allow, and those were judged when the objects were written.
pub(crate) const AUTOSCALER: &str = "system:serviceaccount:kube-system:horizontal-pod-autoscaler";

#[derive(Deserialize)]
struct Scale {
    spec: ScaleSpec,
}

#[derive(Deserialize)]
struct ScaleSpec {
    #[serde(default)]
    replicas: i32,
}

/// Checks objects that are created or changed; all other requests pass.
pub(crate) fn check(request: &Request<'_>, lookups: &Lookups) -> Checked {
    let is_write = matches!(request.operation(), Operation::Create | Operation::Update);
    let is_unknown =
        |found: &LookupResult| matches!(found, LookupResult::Failed(_) | LookupResult::Missing);
    if !is_write || request.user().name() == AUTOSCALER || lookups.values().any(is_unknown) {
        return Ok(());
    }
    let namespace = Namespace {
        name: request.namespace(),
        cached: request.subresource() == "scale",
        lookups,
    };
    let (group, resource) = request.group_resource();
    let checked = match (group, resource, request.subresource()) {
        ("policy", "poddisruptionbudgets", "") => read(request).map(|it| namespace.budget(&it)),
        ("autoscaling", "horizontalpodautoscalers", "") => {
            read(request).map(|it| namespace.autoscaler(&it))
        }
        ("apps", "deployments" | "statefulsets", "") => {
            read(request).map(|it| namespace.workload(&it, None))
        }
        ("apps", "deployments" | "statefulsets", "scale") => read(request)
            .map(|it: Scale| namespace.scale(resource, request.name(), it.spec.replicas)),
        _ => None,
    };
    checked.unwrap_or(Ok(()))
}

/// The object that is written; one that cannot be read is for the API server to refuse.
fn read<'a, T: Deserialize<'a>>(request: &Request<'a>) -> Option<T> {
    request.object(RULE).ok()
}

struct Namespace<'a> {
    name: &'a str,
    /// Objects that are made one after the other see each other; a scale comes later, and must not wait.
    cached: bool,
    lookups: &'a Lookups,
}

impl Namespace<'_> {
    fn list(&self, listed: Listed) -> Checked<&LookupResult> {
        let lookup = |listed| {
            let namespace = self.name.to_owned();
            let cached = self.cached;
            Lookup::List {
                namespace,
                listed,
                cached,
            }
        };
        let found = self.lookups.get(&lookup(listed));
        found.ok_or_else(|| match listed {
            // Without a budget, nothing else is asked.
            Listed::Budgets => lookup(listed).into(),
            _ => Interrupted::Needs(Listed::SCALES.map(lookup).into()),
        })
    }

    /// Those that nobody lifts.
    fn budgets(&self) -> Checked<Vec<&Budget>> {
        Ok(match self.list(Listed::Budgets)? {
            LookupResult::Budgets(budgets) => {
                let budgets = budgets.iter();
                budgets.filter(|budget| budget.owner().is_none()).collect()
            }
            _ => Vec::new(),
        })
    }

    fn autoscalers(&self) -> Checked<Vec<&Autoscaler>> {
        Ok(match self.list(Listed::Autoscalers)? {
            LookupResult::Autoscalers(autoscalers) => autoscalers.iter().collect(),
            _ => Vec::new(),
        })
    }

    fn workloads(&self) -> Checked<Vec<&Workload>> {
        let mut all = Vec::new();
        for listed in Listed::SCALES {
            if let LookupResult::Workloads(found) = self.list(listed)? {
                all.extend(found);
            }
        }
        Ok(all)
    }

    fn budget(&self, budget: &Budget) -> Checked {
        // The controller of its owner may lift it.
        if budget.owner().is_some() {
            return Ok(());
        }
        let (spec, remedy) = (&budget.spec, budget.spec.remedy());
        if budget.spec.least_evictable().is_none() {
            return refuse(format!("{spec} allows no eviction at any scale; {remedy}"));
        }
        let declared = DeclaredPods::of(self.workloads()?);
        let mut pods = declared.selected_by(budget).peekable();
        if pods.peek().is_none() {
            return Ok(());
        }
        let (name, others) = (&budget.metadata.name, self.budgets()?);
        let is_same = |other: &&&Budget| {
            let pods = declared.evictable_under(other);
            pods.iter().any(|pod| budget.selects(pod))
        };
        let mut others = others.iter().filter(|other| other.metadata.name != *name);
        if let Some(other) = others.find(is_same) {
            return refuse(several(name, &other.metadata.name));
        }
        judge(budget, &spec.to_string(), &declared, &self.autoscalers()?)
    }

    /// At a new scale, with the labels of other pods, or under a new autoscaler.
    fn workload(&self, workload: &Workload, autoscaler: Option<&Autoscaler>) -> Checked {
        let budgets = self.budgets()?;
        let own = DeclaredPods::of([workload]);
        let mut selects = budgets.into_iter().filter(|budget| is_over(budget, &own));
        let Some(budget) = selects.next() else {
            return Ok(());
        };
        if let Some(other) = selects.next() {
            return refuse(several(&budget.metadata.name, &other.metadata.name));
        }
        let mut workloads = self.workloads()?;
        workloads.retain(|other| other.key() != workload.key());
        workloads.push(workload);
        let mut autoscalers = self.autoscalers()?;
        if let Some(autoscaler) = autoscaler {
            autoscalers.retain(|other| other.metadata.name != autoscaler.metadata.name);
            autoscalers.push(autoscaler);
        }
        let name = format!("budget {} ({})", budget.metadata.name, budget.spec);
        judge(budget, &name, &DeclaredPods::of(workloads), &autoscalers)
    }

    fn scale(&self, resource: &str, name: &str, replicas: i32) -> Checked {
        if self.budgets()?.is_empty() {
            return Ok(());
        }
        let kind = match resource {
            "deployments" => WorkloadKind::Deployment,
            _ => WorkloadKind::StatefulSet,
        };
        let mut workloads = self.workloads()?.into_iter();
        let found = workloads.find(|one| one.kind == kind && one.metadata.name == name);
        let Some(mut workload) = found.cloned() else {
            return Ok(());
        };
        workload.spec.replicas = Some(replicas);
        self.workload(&workload, None)
    }

    fn autoscaler(&self, autoscaler: &Autoscaler) -> Checked {
        if self.budgets()?.is_empty() {
            return Ok(());
        }
        let workloads = self.workloads()?;
        let of = &autoscaler.spec.scale_target_ref;
        let is_target =
            |one: &&&Workload| one.kind.as_str() == &*of.kind && one.metadata.name == of.name;
        let Some(target) = workloads.iter().find(is_target) else {
            return Ok(());
        };
        self.workload(target, Some(autoscaler))
    }
}

fn is_over(budget: &Budget, declared: &DeclaredPods) -> bool {
    !declared.evictable_under(budget).is_empty()
}

/// Refuses the write where `budget`, called `name`, allows no eviction at a scale that the pods may have.
fn judge(
    budget: &Budget,
    name: &str,
    declared: &DeclaredPods,
    autoscalers: &[&Autoscaler],
) -> Checked {
    let autoscalers = Autoscalers::of(autoscalers.iter().copied());
    let remedy = budget.spec.remedy();
    match declared.refused_scale(budget, &autoscalers) {
        Ok(Some(refused)) => {
            let (needed, scale) = (refused.needed, refused.scale);
            refuse(format!(
                "{name} needs {needed} of {scale} pods, so none can be evicted; {remedy}"
            ))
        }
        // The disruption controller cannot count them.
        Err(CountError::NoScale(resource)) => refuse(format!(
            "{name} selects pods of {resource} too, so none can be evicted; narrow its selector"
        )),
        _ => Ok(()),
    }
}

fn several(one: &str, other: &str) -> String {
    format!(
        "budgets {one} and {other} select the same pods, so none can be evicted; narrow a selector"
    )
}

fn refuse(message: String) -> Checked {
    Err(Denial::forbidden(RULE, message).remedy(REMEDY).into())
}
