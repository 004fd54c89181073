//! The engine of drains: plans a drain of nodes, and carries it out on a cluster.
//!
//! [`prepare`] reads the cluster and plans, [`Drain::run`] locks, cordons, evicts and waits. The
//! decisions are those of [`nodelife_drain_plan`]; a [`Reporter`] is told what happens. Drains share
//! nothing but the [`Cluster`](nodelife_cluster::Cluster): many run side by side.

mod drain;
mod events;
mod executor;
mod gate;
mod identity;
mod maintenance;
mod node;
mod prepare;
mod removal;
mod reporter;
mod rescue;
pub mod sentences;
mod settings;
mod shared_state;
mod surge;
mod view;
mod window;

pub use drain::{Drain, Prepared, Refusals};
pub use executor::{deadline, sleep_until};
pub use gate::{Gate, GateDecision, GateLines};
pub use identity::DrainIdentity;
pub use maintenance::{NotGivenBack, TakeOff, cordoned_by_maintenance, give_back};
pub use node::uncordon::{UndoSettings, undo_drain};
pub use nodelife_drain_plan::Earlier;
pub use prepare::{
    PodSettings, drainable, is_forbidden, missing, plan_snapshot, prepare, prepare_pods,
};
pub use removal::{RemovalMethod, check_evictions};
pub use reporter::{DrainEnd, DrainStatus, Interrupts, Level, Progress, Reporter};
pub use rescue::{Rescue, remove_out_of_service};
pub use sentences::{warn_leaving, warn_of_pods};
pub use settings::{
    DrainRequest, DrainSettings, Journal, MaxUnavailable, NodeSelection, OnImpossible,
    SharedLimits, flags_as_fields,
};
pub use shared_state::SharedState;
pub use view::nodes::{SelectedNodes, select_nodes};
pub use window::CalendarWindow;

#[cfg(test)]
mod tests {
    use nodelife_cluster::Cluster;
    use nodelife_core::object::Node;

    use super::*;

    fn can_be_a_task<T: Send>(_: T) {}

    /// Compiles if programs can run many drains as tasks.
    fn drains(
        cluster: &Cluster,
        (request, undo): (&DrainRequest, &UndoSettings),
        (nodes, drain): (&[Node], Drain),
        interrupts: &mut dyn Interrupts,
        reporter: &mut dyn Reporter,
    ) {
        can_be_a_task(prepare(cluster, request, reporter));
        can_be_a_task(undo_drain(cluster, nodes, undo, reporter));
        can_be_a_task(drain.run(DrainIdentity::of_process(None), interrupts, reporter));
    }

    #[test]
    fn drains_can_be_tasks() {
        let _ = drains;
    }
}
