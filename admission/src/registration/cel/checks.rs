//! The in-tree rules in CEL, with the in-tree messages.

use super::pod_references;
use super::restriction::{Check, Restriction, SUBRESOURCE, nodes, pods};
use crate::config::{MinorVersion, NodeRestrictionConfig};
use crate::policy::node_restriction::ownership::NODE_LEASES;
use crate::policy::node_restriction::request::USER_PREFIX;
use crate::registration::match_conditions::{free_label, is_own, name_of};
use crate::registration::webhooks::{WRITES, csi_nodes, namespaced, resource_slices};
use crate::rule::AdmissionRule as Rule;
use nodelife_core::object::MIRROR_ANNOTATION;

pub(super) const NEW_LABELS: &str = "object.?metadata.?labels.orValue({})";
const OLD_LABELS: &str = "oldObject.?metadata.?labels.orValue({})";
pub(super) const CREATE: &str = "request.operation == 'CREATE'";
pub(super) const UPDATE: &str = "request.operation == 'UPDATE'";

pub(super) fn implies(when: &str, then: &str) -> String {
    format!("!({when}) || ({then})")
}

/// Whether a list or map is unchanged; empty equals absent.
pub(super) fn same(path: &str, absent: &str) -> String {
    let path = path.replace('.', ".?");
    format!("object.?{path}.orValue({absent}) == oldObject.?{path}.orValue({absent})")
}

fn same_but(path: &str, free: &str) -> String {
    let path = path.replace('.', ".?");
    let (new, old) = (
        format!("object.?{path}.orValue({{}})"),
        format!("oldObject.?{path}.orValue({{}})"),
    );
    format!(
        "{new}.all(key, ({free}) || (key in {old} && {old}[key] == {new}[key])) && \
         {old}.all(key, ({free}) || key in {new})"
    )
}

/// Whether all labels are unchanged, except those whose `key` is `free`; and the keys that changed.
pub(super) fn keeps_labels_but(free: &str) -> (String, String) {
    let changed = format!(
        "{NEW_LABELS}.filter(key, !({free}) && !(key in {OLD_LABELS} && \
         {OLD_LABELS}[key] == {NEW_LABELS}[key]))"
    );
    let removed = format!("{OLD_LABELS}.filter(key, !({free}) && !(key in {NEW_LABELS}))");
    // True for a heartbeat.
    let unchanged = format!("{NEW_LABELS} == {OLD_LABELS}");
    (
        format!("{unchanged} || ({})", same_but("metadata.labels", free)),
        format!("({unchanged} ? '' : ({changed} + {removed}).join(', '))"),
    )
}

pub(super) fn in_tree(config: &NodeRestrictionConfig) -> Vec<Restriction> {
    let claims = &["persistentvolumeclaims", "persistentvolumeclaims/*"];
    let all_pods = pods(&["pods", "pods/*"]);
    let leases = namespaced("coordination.k8s.io", &["leases"], &WRITES);
    let csi_nodes = csi_nodes(&WRITES);
    let every = [
        nodes(),
        all_pods.clone(),
        pods(claims),
        leases.clone(),
        csi_nodes.clone(),
        resource_slices(),
    ];
    let own_lease = [
        Check::new(
            format!("request.?namespace.orValue('') == '{NODE_LEASES}'"),
            "can only access leases in the \"kube-node-lease\" system namespace",
        ),
        Check::new(
            has_own_name(),
            "can only access node lease with the same name as the requesting node",
        ),
    ];
    let status = [pods(&["pods/status"])];
    vec![
        Restriction::new(Rule::Identity, every, identity()),
        Restriction::new(Rule::Nodes, [nodes()], node_checks()),
        Restriction::new(Rule::Pods, [all_pods], pod_checks()),
        Restriction::new(Rule::PodStatus, status, pod_status(config.version())),
        Restriction::new(Rule::Claims, [pods(claims)], claim_status()),
        Restriction::new(Rule::Leases, [leases], own_lease),
        Restriction::new(Rule::CsiNodes, [csi_nodes], csi_node_checks(config)),
        Restriction::new(Rule::ResourceSlices, [resource_slices()], slice_checks()),
    ]
}

fn identity() -> Vec<Check> {
    let named = format!("request.userInfo.username != '{USER_PREFIX}'");
    let message = format!("could not determine node from user \"{USER_PREFIX}\"");
    vec![Check::new(named, &message)]
}

/// On creation the name in the object counts; it is empty if it will be generated.
fn has_own_name() -> String {
    let (new, asked) = (name_of("object.?metadata"), name_of("request"));
    is_own(&format!("({CREATE} ? {new} : {asked})"))
}

fn node_checks() -> Vec<Check> {
    let source = "object.?spec.?configSource";
    let free = free_label();
    let (keeps, changed) = keeps_labels_but(&free);
    let set = format!("{NEW_LABELS}.filter(key, !({free})).join(', ')");
    vec![
        Check::new(
            is_own(&name_of("request")),
            "node {node} is not allowed to modify node {name}",
        ),
        Check::new(
            implies(CREATE, &format!("!{source}.hasValue()")),
            "node {node} is not allowed to create pods with a non-nil configSource",
        ),
        Check::with_value(
            implies(CREATE, &format!("{NEW_LABELS}.all(key, {free})")),
            "node {node} is not allowed to set the following labels: {}",
            &set,
        ),
        Check::new(
            implies(
                UPDATE,
                &format!("!{source}.hasValue() || {source} == oldObject.?spec.?configSource"),
            ),
            "node {node} is not allowed to update configSource to a new non-nil configSource",
        ),
        Check::new(
            implies(UPDATE, &same("spec.taints", "[]")),
            "node {node} is not allowed to modify taints",
        ),
        Check::new(
            implies(UPDATE, &same("metadata.ownerReferences", "[]")),
            "node {node} is not allowed to modify ownerReferences",
        ),
        Check::with_value(
            implies(UPDATE, &keeps),
            "is not allowed to modify labels: {}",
            &changed,
        ),
    ]
}

fn pod_checks() -> Vec<Check> {
    let on = |operation: &str| format!("{SUBRESOURCE} == '' && request.operation == '{operation}'");
    let create = on("CREATE");
    let owners = "object.?metadata.?ownerReferences.orValue([])";
    let owner = |holds: &str| implies(&create, &format!("{owners}.all(owner, {holds})"));
    let own_name = is_own("owner.?name.orValue('')");
    let mut checks = vec![
        Check::new(
            format!("{SUBRESOURCE} in ['', 'status', 'eviction']"),
            "unexpected pod subresource {subresource}, only 'status' and 'eviction' are allowed",
        ),
        Check::new(
            format!("!({})", on("UPDATE")),
            "unexpected operation {operation}, node {node} can only create and delete mirror pods",
        ),
        Check::new(
            implies(
                &on("DELETE"),
                &is_own("oldObject.?spec.?nodeName.orValue('')"),
            ),
            "node {node} can only delete pods with spec.nodeName set to itself",
        ),
        Check::new(
            implies(
                &create,
                &format!("'{MIRROR_ANNOTATION}' in object.?metadata.?annotations.orValue({{}})"),
            ),
            &format!(
                "pod does not have \"{MIRROR_ANNOTATION}\" annotation, node {{node}} can only \
                 create mirror pods"
            ),
        ),
        Check::new(
            implies(&create, &is_own("object.?spec.?nodeName.orValue('')")),
            "node {node} can only create pods with spec.nodeName set to itself",
        ),
        Check::new(
            implies(&create, &format!("{owners}.size() <= 1")),
            "node {node} can only create pods with a single owner reference set to itself",
        ),
        Check::new(
            implies(
                &create,
                &format!(
                    "{owners}.exists(owner, owner.?apiVersion.orValue('') == 'v1' && \
                     owner.?kind.orValue('') == 'Node' && {own_name})"
                ),
            ),
            "node {node} can only create pods with an owner reference set to itself",
        ),
        Check::new(
            owner("owner.?controller.orValue(false)"),
            "node {node} can only create pods with a controller owner reference set to itself",
        ),
        Check::new(
            owner("!owner.?blockOwnerDeletion.orValue(false)"),
            "node {node} must not set blockOwnerDeletion on an owner reference",
        ),
    ];
    let references = pod_references::references().into_iter();
    checks.extend(references.map(|(refers, resource)| {
        Check::with_value(
            implies(&create, &format!("!({refers})")),
            "node {node} can not create pods that reference {}",
            // The API server evaluates it for every request.
            &format!("({create} ? {resource} : '')"),
        )
    }));
    checks
}

/// Compares quantities as text, like [`claim_status`].
fn pod_status(version: MinorVersion) -> Vec<Check> {
    let on = |then: &str| implies(UPDATE, then);
    let mut checks = vec![
        Check::new(UPDATE, "unexpected operation {operation}"),
        Check::new(
            on(&is_own("oldObject.?spec.?nodeName.orValue('')")),
            "node {node} can only update pod status for pods with spec.nodeName set to itself",
        ),
        Check::new(
            on(&same("metadata.labels", "{}")),
            "node {node} cannot update labels through pod status",
        ),
        Check::new(
            on(&same("status.resourceClaimStatuses", "[]")),
            "node {node} cannot update resource claim statues",
        ),
        Check::new(
            on("object.?status.?extendedResourceClaimStatus == \
                oldObject.?status.?extendedResourceClaimStatus"),
            "node {node} cannot update extended resource claim status",
        ),
    ];
    if version.is_1_37_or_later() {
        checks.push(Check::new(
            on(&same("status.nodeAllocatableResourceClaimStatuses", "[]")),
            "node {node} cannot update node allocatable resource claim statuses",
        ));
    }
    checks
}

/// Compares quantities as text: `1Gi` must not become `1073741824`.
fn claim_status() -> Vec<Check> {
    let status = format!("{SUBRESOURCE} == 'status'");
    let free = |fields: &str| format!("key in [{fields}]");
    let compared = [
        same("spec", "{}"),
        same_but("metadata", &free("'resourceVersion', 'managedFields'")),
        same_but(
            "status",
            &free("'capacity', 'conditions', 'allocatedResourceStatuses', 'allocatedResources'"),
        ),
    ];
    vec![
        Check::new(&status, "may only update PVC status"),
        Check::new(implies(&status, UPDATE), "unexpected operation {operation}"),
        Check::new(
            implies(&format!("{status} && {UPDATE}"), &compared.join(" && ")),
            "node {node} is not allowed to update fields other than status.quantity and \
             status.conditions",
        ),
    ]
}

fn csi_node_checks(config: &NodeRestrictionConfig) -> Vec<Check> {
    let status = format!("{SUBRESOURCE} == 'status'");
    let mut checks = vec![Check::new(
        has_own_name(),
        "can only access CSINode with the same name as the requesting node",
    )];
    if !config.version().is_1_37_or_later() {
        return checks;
    }
    if config.csi_volume_health {
        checks.extend([
            Check::new(implies(&status, UPDATE), "unexpected operation {operation}"),
            Check::new(
                implies(&format!("{status} && {UPDATE}"), &same("spec", "{}")),
                "node {node} is not allowed to modify CSINode spec via status",
            ),
        ]);
    } else {
        let message = "CSIVolumeHealth feature gate is disabled";
        checks.push(Check::new(format!("!({status})"), message));
    }
    checks
}

fn slice_checks() -> Vec<Check> {
    let on = |operation: &str, object: &str| {
        implies(
            &format!("request.operation == '{operation}'"),
            &is_own(&format!("{object}.?spec.?nodeName.orValue('')")),
        )
    };
    let message = |verb: &str| {
        format!("can only {verb} ResourceSlice with the same NodeName as the requesting node")
    };
    vec![
        Check::new(on("CREATE", "object"), &message("create")),
        Check::new(on("DELETE", "oldObject"), &message("delete")),
    ]
}
