//! TOL: tolerations of pods.

use std::collections::BTreeMap;

use crate::owners::{Owner, is_system_critical};
use crate::{Check, Context, Findings, Rule, Severity};
use nodelife_core::format;
use nodelife_core::object::{Pod, Toleration};
use nodelife_core::snapshot::Source;
use nodelife_core::taint::{
    NO_EXECUTE, NOT_READY, TolerationTime, UNREACHABLE, UNSCHEDULABLE, no_execute,
    suppresses_default, toleration_time,
};

const LINK: &str = "https://kubernetes.io/docs/concepts/scheduling-eviction/taint-and-toleration/#taint-based-evictions";

/// Taints of a dead node.
const DEAD: [&str; 2] = [NOT_READY, UNREACHABLE];

pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "NL-TOL-001",
        severity: Severity::Warning,
        sources: &[Source::Pods],
        title: "pods stay on a dead node forever",
        why: "They tolerate the not-ready or unreachable taint without a time limit. When their \
              node dies, they are never deleted, so nothing replaces them.",
        fix: "Set tolerationSeconds, or remove the toleration: the API server then adds 300 s.",
        link: LINK,
        check: Check::All(for_ever),
    },
    Rule {
        id: "NL-TOL-002",
        severity: Severity::Warning,
        sources: &[Source::Pods],
        title: "pods tolerate every taint",
        why: "A toleration with operator: Exists and without a key also covers NoExecute. These \
              pods stay on dead nodes and on nodes with full disks, and the scheduler places them \
              on a node again right after it was drained.",
        fix: "Tolerate only the taints that you need.",
        link: "https://kubernetes.io/docs/concepts/scheduling-eviction/taint-and-toleration/",
        check: Check::All(blanket),
    },
    Rule {
        id: "NL-TOL-003",
        severity: Severity::Info,
        sources: &[Source::Pods],
        title: "pods do not tolerate the taints of a dead node",
        why: "They were created while the admission plugin DefaultTolerationSeconds was disabled. \
              They are deleted as soon as their node is not ready.",
        fix: "Enable the plugin, or use nodelife's webhook.",
        link: "https://kubernetes.io/docs/concepts/scheduling-eviction/taint-and-toleration/#taint-based-evictions",
        check: Check::All(without_default),
    },
    Rule {
        id: "NL-TOL-004",
        severity: Severity::Warning,
        sources: &[Source::Pods],
        title: "the toleration time does not fit the workload",
        why: "A stateless workload lacks its replicas for as long as they tolerate a dead node. A \
              database that tolerates only seconds moves at every short network failure.",
        fix: "For stateless workloads, use 30 to 300 s. For workloads with volumes, use several \
              minutes.",
        link: "https://kubernetes.io/docs/concepts/scheduling-eviction/taint-and-toleration/#taint-based-evictions",
        check: Check::All(odd_time),
    },
    Rule {
        id: "NL-TOL-006",
        severity: Severity::Error,
        sources: &[Source::Pods],
        title: "a toleration suppresses the default but matches no taint",
        why: "The API server adds the default of 300 s unless a toleration has the same key and \
              effect. It ignores operator and value, but evictions do not: these pods are deleted \
              as soon as their node is not ready.",
        fix: "Use operator: Exists without a value.",
        link: LINK,
        check: Check::All(void),
    },
    Rule {
        id: "NL-TOL-011",
        severity: Severity::Warning,
        sources: &[Source::Pods],
        title: "pods can be scheduled to cordoned nodes",
        why: "They explicitly tolerate node.kubernetes.io/unschedulable. A drain never finishes, \
              because the scheduler places them on the node again.",
        fix: "Remove the toleration. DaemonSet pods get it automatically.",
        link: "https://kubernetes.io/docs/concepts/scheduling-eviction/taint-and-toleration/",
        check: Check::All(on_cordoned),
    },
];

fn time(tolerations: &[Toleration], key: &str) -> TolerationTime {
    toleration_time(&[no_execute(key)], tolerations)
}

/// Whether a toleration covers every `NoExecute` taint without a time limit.
fn tolerates_all(tolerations: &[Toleration]) -> bool {
    tolerations.iter().any(|t| {
        let covers = t.effect.is_empty() || t.effect == NO_EXECUTE;
        t.is_blanket() && covers && t.toleration_seconds.is_none()
    })
}

/// The owners of evictable pods with such tolerations, and these pods.
fn owners_of<'c, 'a>(
    context: &'c Context<'a>,
    such: impl Fn(&[Toleration]) -> bool + 'c,
) -> impl Iterator<Item = (&'c Owner, Vec<&'a Pod>)> {
    let owned = context.owned_pods().iter();
    let pods = owned.map(move |owned| (&owned.owner, owned.tolerating(&such)));
    pods.filter(|(_, pods)| !pods.is_empty())
}

fn for_ever(context: &Context<'_>, findings: &mut Findings<'_>) {
    let is_for_ever =
        |tolerations: &[Toleration], key: &str| time(tolerations, key) == TolerationTime::Forever;
    // NL-TOL-002 reports pods that tolerate everything.
    let stay = |tolerations: &[Toleration]| {
        DEAD.iter().any(|key| is_for_ever(tolerations, key)) && !tolerates_all(tolerations)
    };
    for (owner, pods) in owners_of(context, stay) {
        let Some(first) = pods.first() else { continue };
        let keys = DEAD.iter().copied();
        let keys = keys.filter(|key| is_for_ever(&first.spec.tolerations, key));
        let message = format!(
            "{} tolerate{} {} without a time limit",
            format::count(pods.len(), "pod"),
            if pods.len() == 1 { "s" } else { "" },
            keys.collect::<Vec<_>>().join(" and ")
        );
        let found = owner.found(&pods, message);
        // System-critical pods, such as network operators, often stay on purpose.
        findings.push(found.severity_if(is_system_critical(first), Severity::Info));
    }
}

fn void(context: &Context<'_>, findings: &mut Findings<'_>) {
    for key in DEAD {
        let taint = no_execute(key);
        let are_void = |tolerations: &[Toleration]| {
            suppresses_default(tolerations, key) && !tolerations.iter().any(|t| t.tolerates(&taint))
        };
        for (owner, pods) in owners_of(context, are_void) {
            let message = format!(
                "a toleration of {key} suppresses the default of 300s but does not match the \
                 taint: {} would be deleted immediately",
                format::count(pods.len(), "pod")
            );
            findings.push(owner.found(&pods, message).with("taint", key));
        }
    }
}

/// Reports pods whose tolerations may be `wrong`, with what is wrong.
fn report(
    context: &Context<'_>,
    findings: &mut Findings<'_>,
    may_be: impl Fn(&[Toleration]) -> bool,
    wrong: impl Fn(&Pod) -> Option<String>,
) {
    for (owner, pods) in owners_of(context, may_be) {
        let mut wrongs: BTreeMap<String, Vec<&Pod>> = BTreeMap::new();
        for pod in pods {
            if let Some(what) = wrong(pod) {
                wrongs.entry(what).or_default().push(pod);
            }
        }
        for (what, pods) in wrongs {
            let message = format!("{}: {what}", format::count(pods.len(), "pod"));
            findings.push(owner.found(&pods, message));
        }
    }
}

fn blanket(context: &Context<'_>, findings: &mut Findings<'_>) {
    for (owner, pods) in owners_of(context, tolerates_all) {
        let message = format!(
            "{} with operator: Exists and no key",
            format::count(pods.len(), "pod")
        );
        let found = owner.found(&pods, message);
        // Network and storage operators must run everywhere.
        let critical = pods.first().is_some_and(|pod| is_system_critical(pod));
        findings.push(found.severity_if(critical, Severity::Info));
    }
}

fn without_default(context: &Context<'_>, findings: &mut Findings<'_>) {
    let are_bare = |tolerations: &[Toleration]| {
        let mut keys = DEAD.iter();
        keys.all(|key| !suppresses_default(tolerations, key))
    };
    for (owner, pods) in owners_of(context, are_bare) {
        let message = format!(
            "{} without a toleration of not-ready and unreachable",
            format::count(pods.len(), "pod")
        );
        findings.push(owner.found(&pods, message));
    }
}

fn odd_time(context: &Context<'_>, findings: &mut Findings<'_>) {
    const LONG: i64 = 600;
    const SHORT: i64 = 30;
    let odd = |tolerations: &[Toleration]| {
        let seconds = time(tolerations, UNREACHABLE).seconds()?;
        (seconds > LONG || (1..SHORT).contains(&seconds)).then_some(seconds)
    };
    let is_odd = |tolerations: &[Toleration]| odd(tolerations).is_some();
    report(context, findings, is_odd, |pod| {
        let seconds = odd(&pod.spec.tolerations)?;
        let kind = pod.metadata.controller().map(|owner| owner.kind.as_str());
        let mut volumes = pod.spec.volumes.iter();
        let stateful = volumes.any(|volume| volume.persistent_volume_claim.is_some());
        if kind == Some("ReplicaSet") && !stateful && seconds > LONG {
            Some(format!("stateless, and stays {seconds}s on a dead node"))
        } else if kind == Some("StatefulSet") && stateful && seconds < SHORT {
            Some(format!("with volumes, and leaves after {seconds}s"))
        } else {
            None
        }
    });
}

fn on_cordoned(context: &Context<'_>, findings: &mut Findings<'_>) {
    let wrong = |tolerations: &[Toleration]| tolerations.iter().any(|t| t.key == UNSCHEDULABLE);
    report(context, findings, wrong, |_| {
        Some(format!("tolerates {UNSCHEDULABLE}"))
    });
}
