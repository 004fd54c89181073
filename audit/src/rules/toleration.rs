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
        id: "NL-TOL-005",
        severity: Severity::Info,
        sources: &[Source::Pods],
        title: "pods tolerate not-ready and unreachable for different times",
        why: "For users, both are the same outage. The difference is rarely intended.",
        fix: "Set the same tolerationSeconds for both taints.",
        link: "https://kubernetes.io/docs/concepts/scheduling-eviction/taint-and-toleration/#taint-based-evictions",
        check: Check::All(unequal),
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
        id: "NL-TOL-008",
        severity: Severity::Info,
        sources: &[Source::Pods, Source::Workloads, Source::Budgets],
        title: "a single replica with a budget is unavailable for minutes",
        why: "If its node dies, the replica is unavailable for the grace period plus the \
              toleration time. The budget does not help: it limits only voluntary disruptions.",
        fix: "Run two replicas, or shorten the toleration.",
        link: "https://kubernetes.io/docs/concepts/scheduling-eviction/taint-and-toleration/#taint-based-evictions",
        check: Check::All(single),
    },
    Rule {
        id: "NL-TOL-010",
        severity: Severity::Warning,
        sources: &[Source::Pods],
        title: "tolerations contradict each other",
        why: "For each taint, only the first matching toleration counts. Their order decides, not \
              the longer or shorter time.",
        fix: "Keep only one of them.",
        link: "https://kubernetes.io/docs/concepts/scheduling-eviction/taint-and-toleration/",
        check: Check::All(contradiction),
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
    Rule {
        id: "NL-TOL-012",
        severity: Severity::Info,
        sources: &[Source::Pods],
        title: "tolerations use operators that have no effect yet",
        why: "Lt and Gt match no taint while the feature gate TaintTolerationComparisonOperators \
              is disabled, which is the default.",
        fix: "Use Equal or Exists.",
        link: "https://kubernetes.io/docs/concepts/scheduling-eviction/taint-and-toleration/",
        check: Check::All(comparison),
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

/// Reports pods whose tolerations are wrong, with what is wrong.
fn report_tolerations(
    context: &Context<'_>,
    findings: &mut Findings<'_>,
    wrong: impl Fn(&[Toleration]) -> Option<String>,
) {
    let are_wrong = |tolerations: &[Toleration]| wrong(tolerations).is_some();
    report(context, findings, are_wrong, |pod| {
        wrong(&pod.spec.tolerations)
    });
}

fn unequal(context: &Context<'_>, findings: &mut Findings<'_>) {
    report_tolerations(context, findings, |tolerations| {
        let not_ready = time(tolerations, NOT_READY).seconds()?;
        let unreachable = time(tolerations, UNREACHABLE).seconds()?;
        // NL-TOL-006 reports a time of 0, unless it is intended.
        (not_ready != unreachable && not_ready > 0 && unreachable > 0)
            .then(|| format!("not-ready {not_ready}s, unreachable {unreachable}s"))
    });
}

fn single(context: &Context<'_>, findings: &mut Findings<'_>) {
    for entry in context.budgets() {
        let [pod] = entry.pods.as_slice() else {
            continue;
        };
        let seconds = time(&pod.spec.tolerations, UNREACHABLE).seconds();
        let owner = context.owner_of(pod);
        let one = context.snapshot.workloads.iter().any(|workload| {
            workload.metadata.name == *owner.name
                && workload.metadata.namespace == *owner.namespace
                && workload.spec.replicas == Some(1)
        });
        if let Some(seconds) = seconds.filter(|seconds| one && *seconds >= 60) {
            let grace = i64::from(context.settings.grace_period);
            let message = format!(
                "one replica: unavailable for about {grace}s + 5s + {seconds}s = {} if its node \
                 dies",
                format::duration(grace + 5 + seconds)
            );
            let found = owner.found(&entry.pods, message);
            findings.push(found.with("seconds", grace + 5 + seconds));
        }
    }
}

fn contradiction(context: &Context<'_>, findings: &mut Findings<'_>) {
    report_tolerations(context, findings, |tolerations| {
        tolerations.iter().enumerate().find_map(|(index, first)| {
            let same = |second: &&Toleration| {
                (&second.key, &second.operator, &second.value, &second.effect)
                    == (&first.key, &first.operator, &first.value, &first.effect)
                    && second.toleration_seconds != first.toleration_seconds
            };
            let second = tolerations.iter().skip(index + 1).find(same)?;
            Some(format!(
                "{} {} {} and then {}: the first counts",
                first.key,
                first.effect,
                seconds(first),
                seconds(second)
            ))
        })
    });
}

fn seconds(toleration: &Toleration) -> String {
    let seconds = toleration.toleration_seconds;
    seconds.map_or_else(|| "forever".into(), |seconds| format!("for {seconds}s"))
}

fn on_cordoned(context: &Context<'_>, findings: &mut Findings<'_>) {
    report_tolerations(context, findings, |tolerations| {
        let mut tolerations = tolerations.iter();
        tolerations
            .any(|t| t.key == UNSCHEDULABLE)
            .then(|| format!("tolerates {UNSCHEDULABLE}"))
    });
}

fn comparison(context: &Context<'_>, findings: &mut Findings<'_>) {
    report_tolerations(context, findings, |tolerations| {
        let mut tolerations = tolerations.iter();
        let odd = tolerations.find(|t| t.operator == "Lt" || t.operator == "Gt")?;
        Some(format!("{} {} {}", odd.key, odd.operator, odd.value))
    });
}
