//! The audit and the drain judge a budget alike.

use jiff::Timestamp;
use nodelife_audit::Selection;
use nodelife_core::disruption::{BudgetRefusal, Budgets, EvictionDecision};
use nodelife_core::object::{Budget, Pod, Workload, WorkloadKind};
use nodelife_core::snapshot::Snapshot;
use nodelife_core::workload::Workloads;
use nodelife_drain_plan::{
    Consent, Impossible, InventoryContext, PodPolicy, PodVerdict, inventory,
};

/// Whether the audit finds NL-PDB-001, after checking that the drain calls the eviction of exactly
/// those pods impossible that this budget holds back.
pub(super) fn never_allows(
    budget: &Budget,
    pods: &[Pod],
    workloads: &[Workload],
    now: Timestamp,
) -> Result<bool, String> {
    let snapshot = Snapshot {
        budgets: vec![budget.clone()],
        pods: pods.to_vec(),
        workloads: workloads.to_vec(),
        ..Snapshot::default()
    };
    let selection = Selection {
        rules: vec!["NL-PDB-001".into()],
        ..Selection::default()
    };
    let found = !nodelife_audit::audit(&snapshot, &selection, now)
        .findings
        .is_empty();
    let mut known = Workloads::default();
    known.add_listed(WorkloadKind::ALL, workloads.iter().cloned());
    let policy = PodPolicy {
        consent: Consent {
            force: true,
            delete_emptydir_data: true,
            ..Consent::default()
        },
        ..PodPolicy::default()
    };
    let context = InventoryContext {
        budgets: &Budgets::of([budget.clone()]),
        workloads: &known,
        operators: &nodelife_core::operator::OperatorObjects::default(),
        essential: &std::collections::BTreeMap::new(),
        pods: &pods.iter().collect::<Vec<_>>(),
        controlled: None,
        now,
    };
    for item in inventory(pods, &policy, context) {
        let impossible = match item.verdict {
            PodVerdict::Impossible(Impossible::NeverAllows { .. }) => true,
            PodVerdict::Evict(EvictionDecision::Refused {
                refusal: BudgetRefusal::Exhausted { .. },
                ..
            }) => false,
            _ => continue,
        };
        if impossible != found {
            return Err(format!(
                "audit finds {found}, drain {impossible} for {}",
                item.pod.metadata.name
            ));
        }
    }
    Ok(found)
}
