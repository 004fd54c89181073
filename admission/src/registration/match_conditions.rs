//! `matchConditions`: CEL that the API server evaluates before it calls a webhook.
//!
//! A request that a condition excludes costs no call and passes even when every replica is down,
//! so a condition must never exclude what a rule refuses. An error in a condition would skip the
//! call under `Ignore` and refuse the request under `Fail`, so every field is read as optional.

use nodelife_core::format::join;
use nodelife_core::taint::{NOT_READY, UNREACHABLE};
use serde::Serialize;

use crate::config::{Agent, Policies};
use crate::policy::agent;
use crate::policy::drain_safety::AUTOSCALER;
use crate::policy::node_restriction::labels::{EVERY_KUBELETS, KUBELETS, RESERVED, WELL_KNOWN};
use crate::policy::node_restriction::ownership::NODE_LEASES;
use crate::policy::node_restriction::request::{GROUP, USER_PREFIX};
use crate::rule::{AdmissionRule, Mode};

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MatchCondition {
    pub name: &'static str,
    /// CEL, on one line.
    pub expression: String,
}

fn condition(name: &'static str, expression: String) -> MatchCondition {
    MatchCondition { name, expression }
}

/// The name is not empty: an empty one would count as the own name of the user `system:node:`.
const NAMED: &str = "request.?name.orValue('') != ''";
const USER: &str = "request.userInfo.?username.orValue('')";

pub(super) fn is_node() -> MatchCondition {
    condition(
        "is-node",
        format!(
            "'{GROUP}' in request.userInfo.?groups.orValue([]) && {USER}.startsWith('{USER_PREFIX}')"
        ),
    )
}

/// The node has a name: the rule `identity` handles the one without.
pub(super) fn is_named() -> MatchCondition {
    condition("is-named", format!("{USER} != '{USER_PREFIX}'"))
}

/// What a budget, an autoscaler or a workload says of scales and of the pods that count.
pub(super) fn changes_scale() -> MatchCondition {
    const FIELDS: &str = "['minAvailable', 'maxUnavailable', 'selector', 'replicas', 'minReplicas', \
                          'maxReplicas', 'scaleTargetRef']";
    let labels = unchanged("spec.template.metadata.labels");
    condition(
        "changes-scale",
        format!(
            "request.operation == 'CREATE' || \
             !{FIELDS}.all(field, object.?spec[?field] == oldObject.?spec[?field]) || !({labels})"
        ),
    )
}

pub(super) fn is_not_the_autoscaler() -> MatchCondition {
    condition("is-not-the-autoscaler", format!("{USER} != '{AUTOSCALER}'"))
}

/// The conditions of NodeRestriction, in the order of their cost.
pub(super) fn node_restriction(policies: &Policies) -> Vec<MatchCondition> {
    let on = |rule| policies.mode(rule) != Mode::Off;
    let mut free = free_label();
    if on(AdmissionRule::OwnLabels) {
        let listed = listed_label(&policies.node_restriction.own_labels);
        free = format!("{listed} && ({free})");
    }
    let mut conditions = vec![
        is_node(),
        quiet_node_update(on(AdmissionRule::SelfUncordon), &free),
        clean_registration(on(AdmissionRule::RegistrationOwners), &free),
        quiet_pod_status(on(AdmissionRule::PodStatusMetadata)),
        own_pod_deletion(),
        own_lease(),
        own_csi_node(
            on(AdmissionRule::CsiDrivers).then_some(&policies.node_restriction.csi_drivers),
        ),
    ];
    if on(AdmissionRule::Events) {
        conditions.push(own_event());
    }
    conditions
}

fn unless(name: &'static str, parts: &[String]) -> MatchCondition {
    condition(name, format!("!({})", parts.join(" && ")))
}

/// Matches resource (`pods`, `pods/status`, `nodes/*`) and operation.
fn asks(group: &str, resource: &str, operation: &str) -> String {
    let (resource, subresource) = match resource.split_once('/') {
        Some((resource, "*")) => (resource, None),
        Some((resource, subresource)) => (resource, Some(subresource)),
        None => (resource, Some("")),
    };
    let subresource = subresource.map_or_else(String::new, |subresource| {
        format!(" && request.?subResource.orValue('') == '{subresource}'")
    });
    format!(
        "request.resource.group == '{group}' && request.resource.resource == '{resource}'\
         {subresource} && request.operation == '{operation}'"
    )
}

pub(super) fn name_of(object: &str) -> String {
    format!("{object}.?name.orValue('')")
}

pub(super) fn is_own(name: &str) -> String {
    format!("'{USER_PREFIX}' + {name} == {USER}")
}

/// `object.?metadata.?labels == oldObject.?metadata.?labels`
fn unchanged(path: &str) -> String {
    let optional = path.replace('.', ".?");
    format!("object.?{optional} == oldObject.?{optional}")
}

/// Excludes updates of a node by itself that change no label except those that are `free`, and no
/// owners, taints or configSource.
fn quiet_node_update(uncordon: bool, free: &str) -> MatchCondition {
    let mut parts = vec![
        asks("", "nodes/*", "UPDATE"),
        NAMED.to_owned(),
        is_own("request.name"),
    ];
    let compared = [
        "metadata.ownerReferences",
        "spec.taints",
        "spec.configSource",
    ];
    parts.extend(compared.map(unchanged));
    let (new, old) = ("object.?metadata.?labels", "oldObject.?metadata.?labels");
    let quiet = |labels: &str| {
        format!(
            "{few} && {labels}.orValue({{}}).all(key, {new}[?key] == {old}[?key] || {free})",
            few = few(labels),
        )
    };
    parts.push(format!(
        "({new} == {old} || {} && {})",
        quiet(new),
        quiet(old)
    ));
    if uncordon {
        parts.push(unchanged("spec.unschedulable"));
    }
    unless("not-a-quiet-node-update", &parts)
}

/// Excludes registrations with `free` labels: a cold cluster has to get the webhook's own nodes.
fn clean_registration(owners: bool, free: &str) -> MatchCondition {
    let labels = format!(
        "{} && object.?metadata.?labels.orValue({{}}).all(key, {free})",
        few("object.?metadata.?labels"),
    );
    let mut parts = vec![
        asks("", "nodes", "CREATE"),
        NAMED.to_owned(),
        is_own("request.name"),
        "!object.?spec.?configSource.hasValue()".to_owned(),
        labels,
    ];
    if owners {
        parts.push("object.?metadata.?ownerReferences.orValue([]).size() == 0".to_owned());
    }
    unless("not-a-clean-registration", &parts)
}

/// Bounds the cost of matching every label: beyond the API server's budget, a condition fails, and
/// under `Ignore` the call would be skipped (`PerCallLimit`, apiserver pkg/apis/cel/config.go).
fn few(labels: &str) -> String {
    format!("{labels}.orValue({{}}).size() <= 100")
}

pub(super) fn free_label() -> String {
    let below = |names: &[&str]| {
        let escaped = names.iter().map(|name| name.replace('.', "[.]"));
        format!("key.matches('^([^/]*[.])?({})/')", join(escaped, "|"))
    };
    format!(
        "!{} || {} || key in [{}]",
        below(&RESERVED),
        below(&KUBELETS),
        list(WELL_KNOWN)
    )
}

pub(super) fn listed_label(listed: &[String]) -> String {
    let listed = listed.iter().map(String::as_str);
    let (prefixes, keys): (Vec<&str>, Vec<&str>) = EVERY_KUBELETS
        .into_iter()
        .chain(listed)
        .partition(|one| one.ends_with('/'));
    format!(
        "(key in [{}] || key.substring(0, key.indexOf('/') + 1) in [{}])",
        list(keys),
        list(prefixes)
    )
}

/// Excludes status reports on a kubelet's own pod that do not change labels or claims.
fn quiet_pod_status(metadata: bool) -> MatchCondition {
    let node = "oldObject.?spec.?nodeName.orValue('')";
    let mut parts = vec![
        asks("", "pods/status", "UPDATE"),
        format!("{node} != ''"),
        is_own(node),
    ];
    let compared = [
        "metadata.labels",
        "status.resourceClaimStatuses",
        "status.extendedResourceClaimStatus",
        "status.nodeAllocatableResourceClaimStatuses",
    ];
    parts.extend(compared.map(unchanged));
    if metadata {
        parts.extend(["metadata.annotations", "metadata.finalizers"].map(unchanged));
    }
    unless("not-a-quiet-pod-status", &parts)
}

/// Excludes the deletion of a kubelet's own pods: without it none would end while the webhook is down.
fn own_pod_deletion() -> MatchCondition {
    let node = "oldObject.?spec.?nodeName.orValue('')";
    let parts = [
        asks("", "pods", "DELETE"),
        format!("{node} != ''"),
        is_own(node),
    ];
    unless("not-a-deletion-of-its-own-pod", &parts)
}

/// Excludes a node's own events, which nearly all are.
fn own_event() -> MatchCondition {
    let host = |field: &str| {
        let host = format!("object.?{field}.?host.orValue('')");
        format!("({host} == '' || {})", is_own(&host))
    };
    unless(
        "not-its-own-event",
        &[
            "request.resource.resource == 'events'".to_owned(),
            "request.operation in ['CREATE', 'UPDATE']".to_owned(),
            host("source"),
            host("deprecatedSource"),
        ],
    )
}

/// Excludes a node's first heartbeat; later ones are updates, which the webhook is not registered
/// for. The rule checks the name in the object, so this does, too.
fn own_lease() -> MatchCondition {
    let name = "object.?metadata.?name.orValue('')";
    unless(
        "not-its-own-lease",
        &[
            asks("coordination.k8s.io", "leases", "CREATE"),
            format!("request.?namespace.orValue('') == '{NODE_LEASES}'"),
            format!("{name} != ''"),
            is_own(name),
        ],
    )
}

/// Excludes a node's own CSINode, without which a kubelet does not become Ready, and its status. If
/// `drivers` are given, the CSINode may announce no other. Where the gate of the status is off, the
/// node authorizer refuses it (`node_authorizer.go`, v1.37.2).
fn own_csi_node(drivers: Option<&Vec<String>>) -> MatchCondition {
    let name =
        "(request.operation == 'CREATE' ? object.?metadata.?name : request.?name).orValue('')";
    let subresource = |name: &str| format!("request.?subResource.orValue('') == '{name}'");
    let announced = drivers.map(|drivers| {
        format!(
            " && (request.operation == 'DELETE' || object.?spec.?drivers.orValue([])\
             .all(driver, driver.?name.orValue('') in [{}]))",
            list(drivers)
        )
    });
    let parts = [
        "request.resource.group == 'storage.k8s.io' && request.resource.resource == 'csinodes'"
            .to_owned(),
        format!("{name} != ''"),
        is_own(name),
        format!(
            "({}{} || {} && request.operation == 'UPDATE' && {})",
            subresource(""),
            announced.unwrap_or_default(),
            subresource("status"),
            unchanged("spec")
        ),
    ];
    unless("not-its-own-csinode", &parts)
}

pub(super) fn is_agent(agents: &[Agent]) -> MatchCondition {
    let mut names: Vec<String> = agents
        .iter()
        .map(|one| format!("{}{}", agent::USER_PREFIX, one.service_account))
        .collect();
    names.sort_unstable();
    condition("is-agent", format!("{USER} in [{}]", list(names)))
}

/// Excludes updates of pods that have both tolerations: only on creation is there more to do.
pub(super) fn tolerations() -> Vec<MatchCondition> {
    vec![unless(
        "not-an-update-that-lacks-nothing",
        &[
            "request.operation == 'UPDATE'".to_owned(),
            covered(NOT_READY),
            covered(UNREACHABLE),
        ],
    )]
}

pub(super) fn covered(taint: &str) -> String {
    format!(
        "object.?spec.?tolerations.orValue([]).exists(t, t.?key.orValue('') in ['', '{taint}'] \
         && t.?effect.orValue('') in ['', 'NoExecute'])"
    )
}

pub(super) fn list<T: AsRef<str>>(values: impl IntoIterator<Item = T>) -> String {
    let quoted = values.into_iter().map(|value| {
        let escaped = value.as_ref().replace('\\', "\\\\").replace('\'', "\\'");
        format!("'{escaped}'")
    });
    join(quoted, ", ")
}
