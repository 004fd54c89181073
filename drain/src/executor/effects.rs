//! Carries out what the state machine decides.

use std::sync::Arc;

use jiff::Timestamp;
use nodelife_cluster::list::ListFilter;
use nodelife_drain_plan::Effect;

use super::{Executor, requests};
use crate::view::watches::pod_filter;

impl Executor<'_> {
    pub(super) fn carry_out(&mut self, effect: Effect, now: Timestamp) -> anyhow::Result<()> {
        let cluster = self.cluster.clone();
        let method = self.request.settings.method();
        let requests = &mut self.requests;
        match effect {
            Effect::Evict {
                namespace,
                name,
                uid,
                budget,
            } => {
                let pod = (namespace, name, uid);
                let turn = (Arc::clone(&self.request.process), budget);
                requests.spawn(requests::send_removal(cluster, method, pod, turn));
            }
            Effect::Bypass {
                namespace,
                name,
                uid,
                budget,
                at_least,
            } => {
                self.reporter.warn(format_args!(
                    "{namespace}/{name}: deleted, bypassing budget {budget} (--force-after, \
                     --bypass-pdb)"
                ));
                let method = method.past_budgets(at_least);
                let pod = (namespace, name, uid);
                let turn = (Arc::clone(&self.request.process), None);
                requests.spawn(requests::send_removal(cluster, method, pod, turn));
            }
            Effect::Count {
                namespace,
                workload,
                labels,
                groups,
            } => {
                let filter = ListFilter {
                    labels: Some(labels).filter(|labels| !labels.is_empty()),
                    ..ListFilter::in_namespace(&namespace)
                };
                requests.spawn(requests::count(cluster, filter, workload, groups));
            }
            Effect::Get {
                namespace,
                name,
                uid,
            } => {
                requests.spawn(requests::get_pod(cluster, namespace, name, uid));
            }
            Effect::GetOwner { namespace, owner } => {
                requests.spawn(requests::look_up_owner(cluster, namespace, owner));
            }
            Effect::Confirm { node, request } => {
                let filter = pod_filter(&node, self.view.namespace.as_deref());
                requests.spawn(requests::confirm(cluster, node, filter, request));
            }
            Effect::Changed { uid } => {
                if let Some(tracked) = self.machine.pod(&uid) {
                    self.reporter.pod_changed(tracked, now)?;
                }
            }
            Effect::Cordon { node } => self.start_cordon(node),
            Effect::Outlook { uid } => {
                if let Some(tracked) = self.machine.pod(&uid)
                    && let Some(outlook) = &tracked.outlook
                {
                    let name = tracked.pod.metadata.full_name();
                    self.reporter.note(format_args!("{name}: {outlook}"));
                }
            }
            Effect::Left { node, loss } => self.node_left(&node, loss),
            Effect::Awaits { node } => self.print_awaited(&node),
            Effect::Gate { node } => self.start_gate(node),
            Effect::Soaks { .. } | Effect::TooManyUnavailable { .. } | Effect::Yielded { .. } => {
                self.print_turn(&effect);
            }
            // Its pod was reported.
            Effect::Done { .. } if self.machine.pods_are_named() => {}
            Effect::Done { node } => self.node_done(&node),
        }
        Ok(())
    }
}
