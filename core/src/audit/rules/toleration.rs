//! TOL: tolerations of pods.

use crate::audit::context::belongs_to_node;
use crate::audit::owners::{by_owner, is_system_critical};
use crate::audit::{Context, Findings, Group, Rule, Severity};
use crate::format;
use crate::object::{Pod, Toleration};
use crate::snapshot::Source;
use crate::taint::{
    NO_EXECUTE, NOT_READY, TolerationTime, UNREACHABLE, no_execute, suppresses_default,
    toleration_time,
};

const LINK: &str = "https://kubernetes.io/docs/concepts/scheduling-eviction/taint-and-toleration/#taint-based-evictions";

/// Taints of a dead node.
pub(super) const DEAD: [&str; 2] = [NOT_READY, UNREACHABLE];

pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "NL-TOL-001",
        group: Group::Toleration,
        severity: Severity::Warning,
        sources: &[Source::Pods],
        title: "pods stay on a dead node for ever",
        why: "They tolerate the not-ready or unreachable taint without an end. When their node \
              dies they are never deleted, so nothing replaces them.",
        fix: "Give the toleration tolerationSeconds, or remove it: the API server adds 300 s.",
        link: LINK,
        check: for_ever,
    },
    Rule {
        id: "NL-TOL-006",
        group: Group::Toleration,
        severity: Severity::Error,
        sources: &[Source::Pods],
        title: "a toleration keeps the default away but tolerates nothing",
        why: "The API server adds the default of 300 s unless a toleration has the key and the \
              effect. It does not look at operator and value, but the eviction does: these pods \
              are deleted the moment their node is not ready.",
        fix: "Use operator: Exists without a value.",
        link: LINK,
        check: void,
    },
];

/// Pods that are bound and would be evicted, of workloads that are not tied to a node.
pub(super) fn evictable<'a>(context: &Context<'a>) -> impl Iterator<Item = &'a Pod> + use<'a> {
    let pods = context.snapshot.pods.iter();
    pods.filter(|pod| !pod.is_terminal() && !pod.is_terminating() && !belongs_to_node(pod))
}

pub(super) fn time(tolerations: &[Toleration], key: &str) -> TolerationTime {
    toleration_time(&[no_execute(key)], tolerations)
}

/// Whether a toleration covers every `NoExecute` taint, without an end.
pub(super) fn tolerates_all(pod: &Pod) -> bool {
    pod.spec.tolerations.iter().any(|t| {
        let covers = t.effect.is_empty() || t.effect == NO_EXECUTE;
        t.is_blanket() && covers && t.toleration_seconds.is_none()
    })
}

fn for_ever(context: &Context<'_>, findings: &mut Findings<'_>) {
    let stays = |pod: &&Pod| {
        DEAD.iter()
            .any(|key| time(&pod.spec.tolerations, key) == TolerationTime::Forever)
    };
    // Those that tolerate everything are NL-TOL-002.
    let pods = evictable(context).filter(|pod| !tolerates_all(pod));
    for (owner, pods) in by_owner(context, pods.filter(stays)) {
        let Some(first) = pods.first() else { continue };
        let keys = DEAD
            .iter()
            .copied()
            .filter(|key| time(&first.spec.tolerations, key) == TolerationTime::Forever);
        let message = format!(
            "{} tolerate{} {} without an end",
            format::count(pods.len(), "pod"),
            if pods.len() == 1 { "s" } else { "" },
            keys.collect::<Vec<_>>().join(" and ")
        );
        let found = owner.found(&pods, message);
        // What keeps the cluster alive is often meant to stay (network operators).
        findings.push(if is_system_critical(first) {
            found.severity(Severity::Info)
        } else {
            found
        });
    }
}

fn void(context: &Context<'_>, findings: &mut Findings<'_>) {
    let is_void = |pod: &Pod, key: &str| {
        let tolerations = &pod.spec.tolerations;
        let taint = no_execute(key);
        suppresses_default(tolerations, key) && !tolerations.iter().any(|t| t.tolerates(&taint))
    };
    for key in DEAD {
        let pods = evictable(context).filter(|pod| is_void(pod, key));
        for (owner, pods) in by_owner(context, pods) {
            let message = format!(
                "a toleration of {key} keeps the default of 300s away, but does not match the \
                 taint: {} would be deleted at once",
                format::count(pods.len(), "pod")
            );
            findings.push(owner.found(&pods, message).with("taint", key));
        }
    }
}
