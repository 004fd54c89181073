//! TOL: tolerations of pods.

use std::collections::BTreeMap;

use crate::owners::{Owner, is_system_critical};
use crate::rule::rules;
use crate::{Context, Fact, Findings, Rule, Severity, Statement};
use nodelife_core::object::{Pod, Toleration};
use nodelife_core::taint::{
    NOT_READY, UNREACHABLE, UNSCHEDULABLE, no_execute, suppresses_default, toleration_time,
};

const DEAD: [&str; 2] = [NOT_READY, UNREACHABLE];

pub(super) const RULES: &[Rule] = rules! {
    "NL-TOL-001" Warning [Pods] All(for_ever),
    "NL-TOL-003" Info [Pods] All(without_default),
    "NL-TOL-004" Warning [Pods] All(odd_time),
    "NL-TOL-006" Error [Pods] All(void),
    "NL-TOL-011" Warning [Pods] All(on_cordoned),
};

fn time(tolerations: &[Toleration], key: &str) -> Option<i64> {
    toleration_time(&[no_execute(key)], tolerations)
}

fn owners_of<'c, 'a>(
    context: &'c Context<'a>,
    such: impl Fn(&[Toleration]) -> bool + 'c,
) -> impl Iterator<Item = (&'c Owner, Vec<&'a Pod>)> {
    let owned = context.owned_pods().iter();
    let pods = owned.map(move |owned| (&owned.owner, owned.tolerating(&such)));
    pods.filter(|(_, pods)| !pods.is_empty())
}

fn for_ever(context: &Context<'_>, findings: &mut Findings<'_>) {
    let is_for_ever = |tolerations: &[Toleration], key: &str| time(tolerations, key).is_none();
    let stay = |tolerations: &[Toleration]| DEAD.iter().any(|key| is_for_ever(tolerations, key));
    for (owner, pods) in owners_of(context, stay) {
        let Some(first) = pods.first() else { continue };
        let keys = DEAD.iter().copied();
        let keys = keys.filter(|key| is_for_ever(&first.spec.tolerations, key));
        let keys: Vec<_> = keys.collect();
        let says = if pods.len() == 1 {
            "{pods} tolerates {taints} without a time limit"
        } else {
            "{pods} tolerate {taints} without a time limit"
        };
        let taints = Fact::from(keys.join(" and ")).valued(keys);
        let found = owner.found(&pods, says).with("taints", taints);
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
            let says = "a toleration of {taint} suppresses the default of 300s but does not match \
                        the taint: {pods} would be deleted immediately";
            findings.push(owner.found(&pods, says).with("taint", key));
        }
    }
}

fn report(
    context: &Context<'_>,
    findings: &mut Findings<'_>,
    may_be: impl Fn(&[Toleration]) -> bool,
    wrong: impl Fn(&Pod) -> Option<Statement>,
) {
    for (owner, pods) in owners_of(context, may_be) {
        let mut wrongs: BTreeMap<String, (Statement, Vec<&Pod>)> = BTreeMap::new();
        for pod in pods {
            if let Some(what) = wrong(pod) {
                let alike = wrongs.entry(what.text());
                let (_, pods) = alike.or_insert_with(|| (what, Vec::new()));
                pods.push(pod);
            }
        }
        for (what, pods) in wrongs.into_values() {
            findings.push(owner.found(&pods, what));
        }
    }
}

fn without_default(context: &Context<'_>, findings: &mut Findings<'_>) {
    let are_bare = |tolerations: &[Toleration]| {
        let mut keys = DEAD.iter();
        keys.all(|key| !suppresses_default(tolerations, key))
    };
    for (owner, pods) in owners_of(context, are_bare) {
        let says = "{pods} without a toleration of not-ready and unreachable";
        findings.push(owner.found(&pods, says));
    }
}

fn odd_time(context: &Context<'_>, findings: &mut Findings<'_>) {
    const LONG: i64 = 600;
    const SHORT: i64 = 30;
    let odd = |tolerations: &[Toleration]| {
        let seconds = time(tolerations, UNREACHABLE)?;
        (seconds > LONG || (1..SHORT).contains(&seconds)).then_some(seconds)
    };
    let is_odd = |tolerations: &[Toleration]| odd(tolerations).is_some();
    report(context, findings, is_odd, |pod| {
        let seconds = odd(&pod.spec.tolerations)?;
        let kind = pod.metadata.controller().map(|owner| owner.kind.as_str());
        let stateful = pod.claims().next().is_some();
        if kind == Some("ReplicaSet") && !stateful && seconds > LONG {
            let says = "{pods}: stateless, and stays {seconds}s on a dead node";
            Some(Statement::from(says).with("seconds", seconds))
        } else if kind == Some("StatefulSet") && stateful && seconds < SHORT {
            let says = "{pods}: with volumes, and leaves after {seconds}s";
            Some(Statement::from(says).with("seconds", seconds))
        } else {
            None
        }
    });
}

fn on_cordoned(context: &Context<'_>, findings: &mut Findings<'_>) {
    let wrong = |tolerations: &[Toleration]| tolerations.iter().any(|t| t.key == UNSCHEDULABLE);
    for (owner, pods) in owners_of(context, wrong) {
        let found = owner.found(&pods, "{pods}: tolerates {taint}");
        findings.push(found.with("taint", UNSCHEDULABLE));
    }
}
