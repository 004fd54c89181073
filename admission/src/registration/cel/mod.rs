//! The policies as the API server's own: `ValidatingAdmissionPolicy` objects for the rules that
//! need no lookup, and a `MutatingAdmissionPolicy` for the default tolerations.
//!
//! The API server evaluates them itself. There is no webhook that could be down while a node
//! starts, so no namespace is exempt.
//!
//! Not covered: evictions, tokens, pod certificates and the UID of a mirror pod's owner (they
//! need a lookup), certificate requests (CEL cannot parse them), agents, budgets that refuse at the
//! scale of their pods, and tolerations that differ by pod.

mod checks;
mod drain_safety;
mod hardening;
mod pod_references;
mod restriction;

use nodelife_core::taint::{NOT_READY, UNREACHABLE};
use serde_json::{Value, json};

use restriction::Restriction;

use super::match_conditions::{self, covered};
use super::webhooks::Webhook;
use crate::config::Policies;
use crate::rule::{AdmissionRule, Mode};

/// `ValidatingAdmissionPolicy` objects with their bindings, and a `MutatingAdmissionPolicy` with
/// its own, for the rules of `policies` that need no lookup.
pub fn admission_policies(policies: &Policies) -> Vec<Value> {
    let mut objects = Vec::new();
    let restrictions = checks::in_tree(&policies.node_restriction).into_iter();
    for restriction in restrictions.chain(hardening::all(policies)) {
        if let Some(actions) = actions(policies.mode(restriction.rule)) {
            objects.extend(validating(&restriction, &actions));
        }
    }
    objects.extend(drain_safety::policies(policies));
    if policies.tolerations.enabled {
        objects.extend(tolerations(policies));
    }
    objects
}

/// A policy or a binding, in the version in which both are served: the validating ones since 1.30, the
/// mutating ones since 1.36.
fn object(kind: &str, name: &str, spec: &Value) -> Value {
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": kind,
        "metadata": {"name": name},
        "spec": spec,
    })
}

/// `validationActions` of a mode; none for `off`.
fn actions(mode: Mode) -> Option<Value> {
    match mode {
        Mode::Enforce => Some(json!(["Deny"])),
        Mode::Warn => Some(json!(["Warn", "Audit"])),
        Mode::Audit => Some(json!(["Audit"])),
        Mode::Off => None,
    }
}

fn validating(restriction: &Restriction, actions: &Value) -> [Value; 2] {
    let name = policy_name(restriction.rule);
    let checks = restriction.checks.iter().map(|check| {
        json!({
            "expression": check.holds,
            "messageExpression": check.message,
            "reason": "Forbidden",
        })
    });
    let checks: Vec<Value> = checks.collect();
    let mut conditions = vec![match_conditions::is_node()];
    if restriction.rule != AdmissionRule::Identity {
        conditions.push(match_conditions::is_named());
    }
    let policy = json!({
        "failurePolicy": "Fail",
        "matchConstraints": {"resourceRules": restriction.resources},
        "matchConditions": conditions,
        "validations": checks,
    });
    let binding = json!({"policyName": name, "validationActions": actions});
    [
        object("ValidatingAdmissionPolicy", &name, &policy),
        object("ValidatingAdmissionPolicyBinding", &name, &binding),
    ]
}

/// `nodelife-pod-status` for `podStatus`.
fn policy_name(rule: AdmissionRule) -> String {
    let words = rule.as_str().chars().map(|c| match c {
        'A'..='Z' => format!("-{}", c.to_ascii_lowercase()),
        _ => c.to_string(),
    });
    format!("nodelife-{}", words.collect::<String>())
}

/// Adds missing tolerations, with the cluster's seconds. Seconds for some pods, and rewriting what
/// the in-tree plugin added, need the webhook.
fn tolerations(policies: &Policies) -> [Value; 2] {
    let name = "nodelife-tolerations";
    let policy = &policies.tolerations;
    let step = |taint: &str, seconds: i64| {
        let covered = covered(taint);
        format!(
            "({covered} ? [] : [JSONPatch{{op: 'add', path: '/spec/tolerations/-', value: \
             Object.spec.tolerations{{key: '{taint}', operator: 'Exists', effect: 'NoExecute', \
             tolerationSeconds: {seconds}}}}}])"
        )
    };
    let list = "(object.?spec.?tolerations.hasValue() ? [] : \
        [JSONPatch{op: 'add', path: '/spec/tolerations', value: []}])";
    let expression = format!(
        "{list} + {} + {}",
        step(NOT_READY, policy.not_ready_seconds),
        step(UNREACHABLE, policy.unreachable_seconds)
    );
    let lacks = format!("!({} && {})", covered(NOT_READY), covered(UNREACHABLE));
    let policy = json!({
        // A pod without them does no harm.
        "failurePolicy": "Ignore",
        "reinvocationPolicy": "IfNeeded",
        "matchConstraints": {"resourceRules": Webhook::Tolerations.rules(policies)},
        "matchConditions": [{"name": "lacks-a-toleration", "expression": lacks}],
        "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": expression}}],
    });
    let binding = json!({"policyName": name});
    [
        object("MutatingAdmissionPolicy", name, &policy),
        object("MutatingAdmissionPolicyBinding", name, &binding),
    ]
}
