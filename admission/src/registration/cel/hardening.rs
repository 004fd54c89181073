//! The hardening rules in CEL.

use nodelife_core::object::MIRROR_ANNOTATION;

use super::checks::{CREATE, UPDATE, implies, same};
use super::restriction::{Check, Restriction, nodes, pods};
use crate::config::Policies;
use crate::registration::match_conditions::{is_own, name_of, text};
use crate::registration::webhooks::{WRITES, rule};
use crate::rule::AdmissionRule;

pub(super) fn all(policies: &Policies) -> Vec<Restriction> {
    let writes = &["CREATE", "UPDATE"];
    let events = |group| rule(group, &["v1"], &["events"], writes, "Namespaced");
    vec![
        Restriction {
            rule: AdmissionRule::PodStatusMetadata,
            name: "pod-status-metadata",
            resources: vec![pods(&["pods/status"])],
            checks: pod_status_metadata(),
        },
        Restriction {
            rule: AdmissionRule::MirrorPodLabels,
            name: "mirror-pod-labels",
            resources: vec![pods(&["pods"])],
            checks: vec![mirror_pod_labels(
                &policies.node_restriction.mirror_pod_labels,
            )],
        },
        Restriction {
            rule: AdmissionRule::SelfUncordon,
            name: "self-uncordon",
            resources: vec![nodes()],
            checks: vec![self_uncordon()],
        },
        Restriction {
            rule: AdmissionRule::RegistrationOwners,
            name: "registration-owners",
            resources: vec![rule("", &["v1"], &["nodes"], &WRITES, "Cluster")],
            checks: vec![registration_owners()],
        },
        Restriction {
            rule: AdmissionRule::Events,
            name: "events",
            resources: vec![events(""), events("events.k8s.io")],
            checks: ["source", "deprecatedSource"].map(event_host).into(),
        },
        Restriction {
            rule: AdmissionRule::SelfDeletion,
            name: "self-deletion",
            resources: vec![rule("", &["v1"], &["nodes"], &WRITES, "Cluster")],
            checks: vec![self_deletion()],
        },
        Restriction {
            rule: AdmissionRule::CsiDrivers,
            name: "csi-drivers",
            resources: vec![rule(
                "storage.k8s.io",
                &["v1"],
                &["csinodes"],
                writes,
                "Cluster",
            )],
            checks: vec![csi_drivers(&policies.node_restriction.csi_drivers)],
        },
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
    let labels = "object.?metadata.?labels.orValue({})";
    let prefixes: Vec<String> = prefixes.iter().map(|prefix| text(prefix)).collect();
    let allowed = format!(
        "[{}].exists(prefix, key.startsWith(prefix))",
        prefixes.join(", ")
    );
    let mirror =
        format!("{CREATE} && '{MIRROR_ANNOTATION}' in object.?metadata.?annotations.orValue({{}})");
    Check::with(
        implies(&mirror, &format!("{labels}.all(key, {allowed})")),
        "node {node} cannot create a mirror pod with the label \"{}\"",
        &format!("{labels}.filter(key, !{allowed})[0]"),
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
    Check::with(
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
    let names: Vec<String> = names.iter().map(|name| text(name)).collect();
    let (new, old) = (
        "object.?spec.?drivers.orValue([])",
        "oldObject.?spec.?drivers.orValue([])",
    );
    let allowed = format!(
        "(driver.name in [{}] || {old}.exists(one, one.name == driver.name))",
        names.join(", ")
    );
    Check::with(
        format!("{new}.all(driver, {allowed})"),
        "node {node} cannot announce the CSI driver \"{}\"",
        &format!("{new}.filter(driver, !{allowed})[0].name"),
    )
}
