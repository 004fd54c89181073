//! `--dry-run=server`: sends each eviction to the API server as a dry run.

use nodelife_cluster::Cluster;
use nodelife_core::drain::{Action, DrainPlan};

use super::removal::{RemovalMethod, objection, remove};
use crate::output::Printer;

/// Asks the API server about each eviction of the plan, once: webhooks and missing rights
/// show. A refusal of a budget is not repeated (kubectl v1.36 waits for ever), and what the
/// server says of budgets is not taken: a dry run does not count what the ones before took.
pub(crate) async fn check_evictions(
    cluster: &Cluster,
    plan: &DrainPlan,
    method: RemovalMethod,
    printer: &mut Printer,
) {
    for pod in plan.with(Action::Evict).chain(plan.with(Action::Delete)) {
        let which = (&pod.namespace, &pod.name, &pod.uid);
        let reply = remove(cluster, method, which, true).await;
        if let Some(objection) = objection(&reply) {
            printer.warn(format_args!(
                "{}/{}: the API server says: {objection}",
                pod.namespace, pod.name
            ));
        }
    }
}
