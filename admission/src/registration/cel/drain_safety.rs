//! `drainSafety` as a policy: budgets that allow no eviction at any scale. What depends on the scale of the pods
//! needs lookups, and so the webhook.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::object;
use crate::config::{DrainSafetyException, Policies};
use crate::registration::match_conditions;
use crate::registration::webhooks::{CHANGES, namespaced};
use crate::rule::{AdmissionRule, Mode};

const NAME: &str = "nodelife-drain-safety";
const NAMESPACE_LABEL: &str = "kubernetes.io/metadata.name";

/// `least_evictable` of the budget, `nodelife_core::disruption`, is not none.
const HOLDS: &str = "has(object.spec.maxUnavailable) \
    ? !string(object.spec.maxUnavailable).matches('^0+%?$') \
    : has(object.spec.minAvailable) && !string(object.spec.minAvailable).matches('^0*100%$')";

const MESSAGE: &str = "'nodelife drainSafety: ' + (has(object.spec.maxUnavailable) \
    ? 'maxUnavailable: ' + string(object.spec.maxUnavailable) \
    : has(object.spec.minAvailable) ? 'minAvailable: ' + string(object.spec.minAvailable) \
    : 'a budget without minAvailable and maxUnavailable') + \
    ' allows no eviction at any scale; set maxUnavailable: 1'";

/// As `Budget::owner` has it: owners of other kinds may lift it.
const IS_NOBODYS: &str = "!object.metadata.?ownerReferences.orValue([]).exists(owner, \
    !(owner.apiVersion.startsWith('apps/') \
        && owner.kind in ['Deployment', 'ReplicaSet', 'StatefulSet', 'DaemonSet'] \
    || owner.apiVersion.startsWith('batch/') && owner.kind == 'Job' \
    || owner.apiVersion == 'v1' && owner.kind == 'ReplicationController'))";

/// The policy, and a binding for each mode with its namespaces; none where every mode is off.
pub(super) fn policies(policies: &Policies) -> Vec<Value> {
    let default = policies.mode(AdmissionRule::DrainSafety);
    let mut named: BTreeMap<Mode, Vec<&str>> = BTreeMap::new();
    for (namespace, mode) in &policies.drain_safety_namespaces {
        named.entry(*mode).or_default().push(namespace);
    }
    let others: Vec<&str> = named.values().flatten().copied().collect();
    let mut bindings: Vec<Value> = binding(NAME, default, "NotIn", &others)
        .into_iter()
        .collect();
    for (mode, namespaces) in named {
        let name = format!("{NAME}-{}", mode.as_str());
        bindings.extend(binding(&name, mode, "In", &namespaces));
    }
    if bindings.is_empty() {
        return bindings;
    }
    let mut conditions = vec![
        json!(match_conditions::changes_scale()),
        json!({"name": "is-nobodys", "expression": IS_NOBODYS}),
    ];
    let exceptions = policies.drain_safety_exceptions.iter().map(is_of);
    let exceptions: Vec<String> = exceptions.collect();
    if !exceptions.is_empty() {
        let none = format!("!({})", exceptions.join(" || "));
        conditions.push(json!({"name": "is-no-exception", "expression": none}));
    }
    let policy = json!({
        "failurePolicy": "Ignore",
        "matchConstraints": {
            "resourceRules": [namespaced("policy", &["poddisruptionbudgets"], &CHANGES)],
        },
        "matchConditions": conditions,
        "validations": [
            {"expression": HOLDS, "messageExpression": MESSAGE, "reason": "Forbidden"},
        ],
    });
    let policy = object("ValidatingAdmissionPolicy", NAME, &policy);
    [vec![policy], bindings].concat()
}

fn binding(name: &str, mode: Mode, operator: &str, namespaces: &[&str]) -> Option<Value> {
    let actions = super::actions(mode)?;
    let is_in = json!({"key": NAMESPACE_LABEL, "operator": operator, "values": namespaces});
    let is_in: Vec<Value> = [is_in]
        .into_iter()
        .filter(|_| !namespaces.is_empty())
        .collect();
    let matched = json!({"namespaceSelector": {"matchExpressions": is_in}});
    let binding = json!({
        "policyName": NAME,
        "validationActions": actions,
        "matchResources": matched,
    });
    Some(object("ValidatingAdmissionPolicyBinding", name, &binding))
}

/// JSON's notation of a text is one of CEL's.
fn is_of(exception: &DrainSafetyException) -> String {
    let namespace = format!("request.namespace == {}", json!(exception.namespace));
    match &exception.name {
        Some(name) => format!(
            "{namespace} && object.metadata.?name.orValue('') == {}",
            json!(name)
        ),
        None => namespace,
    }
}
