//! The hardening rules in CEL.

use nodelife_core::object::MIRROR_ANNOTATION;

use super::checks::{CREATE, NEW_LABELS, UPDATE, implies, keeps_labels_but, same};
use super::restriction::{Check, Restriction, nodes, pods};
use crate::config::Policies;
use crate::policy::node_restriction::hardening::TOPOLOGY;
use crate::registration::match_conditions::{is_own, list, listed_label, name_of};
use crate::registration::webhooks::{CHANGES, WRITES, cluster, csi_nodes, namespaced};
use crate::rule::AdmissionRule as Rule;

pub(super) fn all(policies: &Policies) -> Vec<Restriction> {
    let config = &policies.node_restriction;
    let core_nodes = || [cluster("", &["nodes"], &WRITES)];
    let events = |group| namespaced(group, &["events"], &CHANGES);
    let csi_nodes = csi_nodes(&CHANGES);
    let status = [pods(&["pods/status"])];
    let labels = [mirror_pod_labels(&config.mirror_pod_labels)];
    let owners = [registration_owners()];
    let hosts = ["source", "deprecatedSource"].map(event_host);
    let drivers = [csi_drivers(&config.csi_drivers)];
    let written_nodes = [cluster("", &["nodes", "nodes/*"], &CHANGES)];
    let own = [own_labels(&config.own_labels)];
    vec![
        Restriction::new(Rule::PodStatusMetadata, status, pod_status_metadata()),
        Restriction::new(Rule::MirrorPodLabels, [pods(&["pods"])], labels),
        Restriction::new(Rule::SelfUncordon, [nodes()], [self_uncordon()]),
        Restriction::new(Rule::RegistrationOwners, core_nodes(), owners),
        Restriction::new(Rule::Events, [events(""), events("events.k8s.io")], hosts),
        Restriction::new(Rule::SelfDeletion, core_nodes(), [self_deletion()]),
        Restriction::new(Rule::CsiDrivers, [csi_nodes], drivers),
        Restriction::new(Rule::OwnLabels, written_nodes, own),
    ]
}

fn pod_status_metadata() -> Vec<Check> {
    let fields = [("annotations", "{}"), ("finalizers", "[]")];
    let checks = fields.map(|(field, absent)| {
        Check::new(
            implies(UPDATE, &same(&format!("metadata.{field}"), absent)),
            &format!("node {{node}} cannot update {field} through pod status"),
        )
    });
    checks.into()
}

fn mirror_pod_labels(prefixes: &[String]) -> Check {
    let allowed = format!(
        "(key in [{}] || [{}].exists(prefix, key.startsWith(prefix)))",
        list(TOPOLOGY),
        list(prefixes)
    );
    let mirror =
        format!("{CREATE} && '{MIRROR_ANNOTATION}' in object.?metadata.?annotations.orValue({{}})");
    Check::with_value(
        implies(&mirror, &format!("{NEW_LABELS}.all(key, {allowed})")),
        "node {node} cannot create a mirror pod with the label \"{}\"",
        &format!("{NEW_LABELS}.filter(key, !{allowed})[0]"),
    )
}

fn self_uncordon() -> Check {
    let cordoned = |object: &str| format!("{object}.?spec.?unschedulable.orValue(false)");
    Check::new(
        implies(
            &format!("{UPDATE} && {}", cordoned("oldObject")),
            &cordoned("object"),
        ),
        "node {node} cannot make itself schedulable again",
    )
}

fn registration_owners() -> Check {
    Check::new(
        implies(
            CREATE,
            "object.?metadata.?ownerReferences.orValue([]).size() == 0",
        ),
        "node {node} cannot register with ownerReferences",
    )
}

fn event_host(source: &str) -> Check {
    let host = format!("object.?{source}.?host.orValue('')");
    Check::with_value(
        format!("{host} == '' || {}", is_own(&host)),
        "node {node} cannot write events of the host \"{}\"",
        &host,
    )
}

fn self_deletion() -> Check {
    Check::new(
        format!(
            "!(request.operation == 'DELETE' && {})",
            is_own(&name_of("request"))
        ),
        "node {node} cannot delete itself",
    )
}

fn csi_drivers(names: &[String]) -> Check {
    let (new, old) = (
        "object.?spec.?drivers.orValue([])",
        "oldObject.?spec.?drivers.orValue([])",
    );
    let allowed = format!(
        "(driver.name in [{}] || {old}.exists(one, one.name == driver.name))",
        list(names)
    );
    Check::with_value(
        format!("{new}.all(driver, {allowed})"),
        "node {node} cannot announce the CSI driver \"{}\"",
        &format!("{new}.filter(driver, !{allowed})[0].name"),
    )
}

fn own_labels(listed: &[String]) -> Check {
    let (keeps, changed) = keeps_labels_but(&listed_label(listed));
    Check::with_value(keeps, "node {node} cannot write the labels: {}", &changed)
}
