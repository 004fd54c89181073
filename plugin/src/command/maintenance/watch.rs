//! `maintenance watch`: prints what changes, in the words of a drain, until the end.

use std::collections::BTreeMap;

use anyhow::{Context as _, bail};
use nodelife_cluster::list::ListFilter;
use nodelife_cluster::watch::{Update, Watch};
use nodelife_cluster::{ApiError, Cluster, listing};
use nodelife_core::node_maintenance::{NodeMaintenance, NodeState, UnsettledPod};
use nodelife_core::text::Str;
use nodelife_drain::DrainStatus;

use super::object::{get, warn_without_controller, why};
use crate::exit::Exit;
use crate::output::Printer;

/// Follows a maintenance to its end, or until it is refused; the exit status is that of the drain.
pub(super) async fn watch(cluster: &Cluster, name: &str, printer: &mut Printer) -> Exit {
    let first = get(cluster, name).await?;
    let mut watch = follow(cluster, name);
    let mut seen = Seen::default();
    if first.state() == "New" {
        warn_without_controller(cluster, printer).await;
    }
    seen.print(&first, printer);
    let mut last = first;
    loop {
        if let Some(code) = last.status.exit_status {
            if last.status.finished_at.is_none() {
                let text = "refused as things are; the controller looks again from time to time";
                printer.note(format_args!("nodemaintenance/{name}: {text}"));
            } else {
                let drained = last.status.progress.as_deref().unwrap_or("no");
                printer.note(format_args!(
                    "nodemaintenance/{name}: {}: {drained} nodes drained",
                    last.state()
                ));
            }
            return Ok(DrainStatus::of_code(code).into());
        }
        match next(&mut watch, &last.metadata.uid, printer).await? {
            Some(now) => last = now,
            None => bail!("nodemaintenance/{name} was deleted before it ended"),
        }
        seen.print(&last, printer);
    }
}

pub(super) async fn until_gone(
    cluster: &Cluster,
    object: &NodeMaintenance,
    printer: &mut Printer,
) -> anyhow::Result<()> {
    let mut watch = follow(cluster, &object.metadata.name);
    // What held up its drain does not hold up its end.
    let before = object.status.blocked().filter(|_| !object.is_deleted());
    let mut told = before.map_or_else(String::new, |before| before.message.to_string());
    while let Some(now) = next(&mut watch, &object.metadata.uid, printer).await? {
        if let Some(blocked) = now.status.blocked()
            && blocked.message != told.as_str()
        {
            blocked.message.as_str().clone_into(&mut told);
            printer.note(format_args!("waiting: {told}"));
        }
    }
    Ok(())
}

fn follow(cluster: &Cluster, name: &str) -> Watch<NodeMaintenance> {
    cluster.watch(&listing::NODE_MAINTENANCES, ListFilter::named(name))
}

/// The next state of the object of this UID; none when it is gone.
async fn next(
    watch: &mut Watch<NodeMaintenance>,
    uid: &Str,
    printer: &mut Printer,
) -> anyhow::Result<Option<NodeMaintenance>> {
    loop {
        match watch.next().await.context("the watch has ended")? {
            Update::Listed(all) => {
                return Ok(all.into_iter().find(|one| one.metadata.uid == *uid));
            }
            Update::Applied(one) if one.metadata.uid == *uid => return Ok(Some(one)),
            Update::Deleted(one) if one.metadata.uid == *uid => return Ok(None),
            Update::Applied(_) | Update::Deleted(_) | Update::Unreadable(_) => {}
            Update::Failed { error, .. } => match error {
                ApiError::Forbidden(_) | ApiError::Untrusted { .. } => return Err(error.into()),
                error => printer.warn(format_args!(
                    "watch of nodemaintenances failed, retrying: {error}"
                )),
            },
        }
    }
}

type Pods = BTreeMap<(Str, Str), Str>;

#[derive(Default)]
struct Seen {
    state: String,
    blocked: Str,
    nodes: BTreeMap<Str, (NodeState, String)>,
    pods: Pods,
}

impl Seen {
    fn print(&mut self, one: &NodeMaintenance, printer: &mut Printer) {
        let name = &one.metadata.name;
        if self.state != one.state() {
            one.state().clone_into(&mut self.state);
            printer.note(format_args!("nodemaintenance/{name}: {}", self.state));
        }
        // What blocks pods is said of each pod.
        let blocked = one.status.blocked().filter(|b| b.reason != "PodsBlocked");
        let blocked = blocked.map(|b| b.message.clone()).unwrap_or_default();
        if blocked != self.blocked {
            if !blocked.is_empty() {
                printer.note(format_args!("nodemaintenance/{name}: {blocked}"));
            }
            self.blocked = blocked;
        }
        for node in &one.status.nodes {
            let now = (node.state, why(node));
            if self.nodes.get(&node.name) != Some(&now) {
                let colon = if now.1.is_empty() { "" } else { ": " };
                let state = super::describe::state(node);
                let of = match (node.state, &one.status.progress) {
                    (NodeState::Drained, Some(progress)) => format!(" ({progress})"),
                    _ => String::new(),
                };
                printer.note(format_args!(
                    "node/{}: {state}{of}{colon}{}",
                    node.name, now.1
                ));
                self.nodes.insert(node.name.clone(), now);
            }
        }
        let pods = shown(&self.pods, &one.status.pods);
        for line in changes(&self.pods, &pods, one.status.more_pods > 0) {
            printer.note(line);
        }
        self.pods = pods;
    }
}

/// The pods with their reasons. A blocked one is tried again and again, which is not told.
fn shown(before: &Pods, pods: &[UnsettledPod]) -> Pods {
    let shown = pods.iter().map(|pod| {
        let name = (pod.namespace.clone(), pod.name.clone());
        let told = before.get(&name).filter(|_| pod.reason == "evicting");
        let reason = told.unwrap_or(&pod.reason).clone();
        (name, reason)
    });
    shown.collect()
}

/// A line for each pod with something to say; `more`: whether there are pods beyond the list.
fn changes(before: &Pods, now: &Pods, more: bool) -> Vec<String> {
    let mut lines = Vec::new();
    for (pod, reason) in now {
        let is_news = before
            .get(pod)
            .is_none_or(|before| !is_countdown(before, reason));
        if is_news && reason != "waiting for its turn" {
            lines.push(format!("{}/{}: {reason}", pod.0, pod.1));
        }
    }
    // The list is sorted, and those behind its last may be among the others.
    let last = now.keys().next_back().filter(|_| more);
    let gone = before.keys().filter(|pod| !now.contains_key(pod));
    let gone = gone.filter(|pod| last.is_none_or(|last| *pod < last));
    lines.extend(gone.map(|(namespace, name)| format!("{namespace}/{name}: gone")));
    lines
}

/// Whether two reasons differ by their numbers at most, as the seconds of a grace period.
fn is_countdown(before: &str, now: &str) -> bool {
    let words = |text: &str| text.replace(|letter: char| letter.is_ascii_digit(), "");
    words(before) == words(now)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_has_a_line_for_each_change_but_none_for_each_second() {
        let pods = |all: &[(&str, &str)]| -> Pods {
            let all = all.iter();
            all.map(|(name, why)| (("shop".into(), (*name).into()), (*why).into()))
                .collect()
        };
        let first = pods(&[
            ("a", "waiting for its turn"),
            ("b", "terminating: 30 s left"),
        ]);
        let lines = changes(&Pods::new(), &first, false);
        assert_eq!(lines, ["shop/b: terminating: 30 s left"]);
        let then = pods(&[("a", "evicting"), ("b", "terminating: 9 s left")]);
        assert_eq!(changes(&first, &then, false), ["shop/a: evicting"]);
        let last = pods(&[("a", "evicting")]);
        assert_eq!(changes(&then, &last, false), ["shop/b: gone"]);
        // It may be one of those that are not listed.
        assert!(changes(&then, &last, true).is_empty());
    }

    #[test]
    fn a_blocked_pod_has_no_line_for_each_try() {
        let mut before = Pods::new();
        let mut lines = Vec::new();
        let budget = "blocked by budget shop/web: needs 2 healthy pods and has 2 of 3";
        for reason in [
            "evicting",
            budget,
            "evicting",
            budget,
            "terminating: 30 s left",
        ] {
            let pod = UnsettledPod {
                namespace: "shop".into(),
                name: "a".into(),
                node: "n".into(),
                reason: reason.into(),
                blocked_since: None,
            };
            let now = shown(&before, &[pod]);
            lines.extend(changes(&before, &now, false));
            before = now;
        }
        let told = ["evicting", budget, "terminating: 30 s left"];
        assert_eq!(lines, told.map(|reason| format!("shop/a: {reason}")));
    }
}
