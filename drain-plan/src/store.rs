//! The budgets and workloads as the watches last showed them, and what was read of operators.

use std::collections::BTreeMap;

use super::machine::event::DrainEvent;
use nodelife_core::disruption::Budgets;
use nodelife_core::operator::OperatorObjects;
use nodelife_core::text::Str;
use nodelife_core::workload::Workloads;

#[derive(Clone, Debug, Default)]
pub struct Store {
    pub budgets: Budgets,
    pub workloads: Workloads,
    pub operators: OperatorObjects,
    /// Why pods go last that much depends on, by UID.
    pub essential: BTreeMap<Str, String>,
}

impl Store {
    /// Takes in an event about budgets or workloads, and gives back any other.
    pub fn apply(&mut self, event: DrainEvent) -> Option<DrainEvent> {
        match event {
            DrainEvent::Budgets(budgets) => self.budgets.replace(budgets),
            DrainEvent::BudgetsUnreadable => self.budgets.set_unreadable(),
            DrainEvent::Budget(budget) => self.budgets.insert(*budget),
            DrainEvent::BudgetGone(key) => self.budgets.remove(&key),
            DrainEvent::Workloads { kind, workloads } => {
                self.workloads.add_listed([kind], workloads);
            }
            DrainEvent::Workload(workload) => self.workloads.update(*workload),
            DrainEvent::WorkloadGone(uid) => self.workloads.remove(&uid),
            other => return Some(other),
        }
        None
    }
}
