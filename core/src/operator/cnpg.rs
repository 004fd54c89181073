//! CloudNativePG (1.30.0): `internal/controller/replicas.go` (`setPrimaryOnSchedulableNode`),
//! `cluster_create.go` (`reconcilePodDisruptionBudget`), `cluster_controller.go` (`reconcile`).

use std::collections::BTreeMap;

use serde::Deserialize;

use super::around::{Around, Outlook, named};
use super::{Object, Operator, OperatorResource, controller_of, objects};
use crate::object::{Pod, nullable};
use crate::text::Str;

objects!(CloudNativePg {
    clusters: Cluster = OperatorResource::new("postgresql.cnpg.io", &["v1"], "clusters"),
});

type Cluster = Object<Spec, Status>;

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Spec {
    instances: usize,
    #[serde(rename = "enablePDB")]
    enable_pdb: Option<bool>,
    #[serde(deserialize_with = "nullable")]
    node_maintenance_window: Window,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Window {
    in_progress: bool,
    #[serde(rename = "reusePVC")]
    reuse_pvc: Option<bool>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Status {
    current_primary: Str,
    target_primary: Str,
    phase: Str,
    phase_reason: Str,
    ready_instances: usize,
    #[serde(rename = "instancesStatus", deserialize_with = "nullable")]
    instances: BTreeMap<Str, Vec<Str>>,
}

/// The phases in which `reconcile` returns before it looks for another primary.
const HALTED: [&str; 5] = [
    "Cluster is unrecoverable and needs manual intervention",
    "Not enough disk space",
    "Unable to create required cluster objects",
    "Cluster has incomplete or invalid image catalog",
    "Invalid cluster definition",
];

impl Cluster {
    fn annotation(&self, key: &str) -> Option<&str> {
        self.metadata.annotations.get(key).map(Str::as_str)
    }

    /// Whether PostgreSQL is stopped in this instance on request (`cnpg.io/fencedInstances`).
    fn is_fenced(&self, pod: &str) -> bool {
        let fenced = self.annotation("cnpg.io/fencedInstances");
        let fenced = fenced.and_then(|list| serde_json::from_str::<Vec<String>>(list).ok());
        fenced.is_some_and(|list| list.iter().any(|name| name == "*" || name == pod))
    }

    fn drops_budget(&self, is_primary: bool) -> bool {
        let window = &self.spec.node_maintenance_window;
        let reuses = window.in_progress && window.reuse_pvc.unwrap_or(true);
        self.spec.enable_pdb == Some(false) || reuses && (self.spec.instances == 1 || !is_primary)
    }
}

impl Operator for CloudNativePg {
    fn guards(&self, pod: &Pod) -> bool {
        controller_of(pod) == Some(("postgresql.cnpg.io", "Cluster"))
    }

    fn outlook(&self, around: &Around, pod: &Pod, refused: bool) -> Option<Outlook> {
        let owner = pod.metadata.controller()?;
        let cluster = self.clusters.iter().find(|c| c.metadata.uid == owner.uid)?;
        if !refused {
            return None;
        }
        let (name, status) = (named("Cluster", pod, &owner.name), &cluster.status);
        if cluster.metadata.deletion_timestamp.is_some() {
            return Some(Outlook::WillLift(format!("{name} is being deleted")));
        }
        if cluster.annotation("cnpg.io/reconciliationLoop") == Some("disabled") {
            return Some(Outlook::Never(format!(
                "{name} is not reconciled: remove its annotation cnpg.io/reconciliationLoop"
            )));
        }
        if status.target_primary != status.current_primary && !status.target_primary.is_empty() {
            return Some(Outlook::WillLift(format!(
                "{name} switches over from {} to {}",
                status.current_primary, status.target_primary
            )));
        }
        let is_primary = status.current_primary == pod.metadata.name;
        if cluster.drops_budget(is_primary) {
            return Some(Outlook::WillLift(format!(
                "the operator of {name} is removing its budget"
            )));
        }
        if HALTED.contains(&status.phase.as_str()) {
            let reason = &status.phase_reason;
            return Some(Outlook::NeedsFirst(format!(
                "fix {name}: {}{}{reason}",
                status.phase,
                if reason.is_empty() { "" } else { ": " }
            )));
        }
        if is_primary {
            Some(cluster.primary_outlook(around, &name, pod))
        } else {
            cluster.replica_outlook(around, &name, pod)
        }
    }
}

impl Cluster {
    fn instances<'a>(&'a self, around: &'a Around) -> impl Iterator<Item = &'a Pod> {
        let is_instance = |pod: &&Pod| {
            let role = pod.metadata.labels.get("cnpg.io/podRole");
            role.is_none_or(|role| role == "instance")
                && pod
                    .metadata
                    .controller()
                    .is_some_and(|owner| owner.uid == self.metadata.uid)
        };
        around.pods.iter().filter(is_instance)
    }

    fn replica_outlook(&self, around: &Around, name: &str, pod: &Pod) -> Option<Outlook> {
        let others = self.instances(around);
        let other = others
            .filter(|other| other.metadata.uid != pod.metadata.uid)
            .find(|other| !other.is_ready() || other.is_terminating())?;
        let replica = &other.metadata.name;
        Some(if self.is_fenced(replica) {
            Outlook::NeedsFirst(format!(
                "{name}: instance {replica} is fenced; remove it from the annotation \
                 cnpg.io/fencedInstances"
            ))
        } else {
            let (ready, all) = (self.status.ready_instances, self.spec.instances);
            Outlook::WillLift(format!(
                "{name} waits for instance {replica} to be Ready ({ready} of {all} are)"
            ))
        })
    }

    fn primary_outlook(&self, around: &Around, name: &str, pod: &Pod) -> Outlook {
        let (spec, primary) = (&self.spec, &pod.metadata.name);
        if spec.instances == 1 {
            return Outlook::Never(if spec.node_maintenance_window.in_progress {
                format!(
                    "{name} has one instance and spec.nodeMaintenanceWindow.reusePVC is false: set \
                     it to true, or spec.instances to 2"
                )
            } else {
                format!(
                    "{name} has one instance: set spec.instances to 2, or accept downtime with \
                     spec.enablePDB: false or spec.nodeMaintenanceWindow.inProgress: true"
                )
            });
        }
        if self.is_fenced(primary) {
            return Outlook::Never(format!(
                "{name}: the primary {primary} is fenced, so no other takes over; remove it from \
                 the annotation cnpg.io/fencedInstances"
            ));
        }
        let node = &pod.spec.node_name;
        let mut beside = None;
        let mut cordoned = None;
        let mut candidate = None;
        for other in self.instances(around) {
            let (replica, on) = (&other.metadata.name, &other.spec.node_name);
            if replica == primary || on.is_empty() {
                continue;
            }
            if on == node {
                beside = Some(replica);
            } else if around.is_cordoned(on) {
                cordoned = Some((replica, on));
            } else if other.is_ready() {
                candidate = Some(replica);
            }
        }
        let has_failed = self.status.instances.get("failed");
        let has_failed = has_failed.is_some_and(|failed| !failed.is_empty());
        match (beside, candidate, cordoned) {
            (Some(replica), ..) if !has_failed => Outlook::NeedsFirst(format!(
                "{name} does not switch over before its replica {replica} has left the same node"
            )),
            (_, Some(_), _) if self.status.ready_instances < spec.instances && !has_failed => {
                let ready = self.status.ready_instances;
                Outlook::WillLift(format!(
                    "{name} switches over when all instances are Ready ({ready} of {} are)",
                    spec.instances
                ))
            }
            (_, Some(replica), _) => Outlook::WillLift(format!(
                "{name} switches over, for example to {replica}, once the node of its primary is \
                 cordoned"
            )),
            (_, None, Some((replica, on))) if around.draining.contains(on) => {
                Outlook::NeedsFirst(format!(
                    "{name} switches over when {replica}, whose node {on} is drained as well, is \
                     Ready on another node"
                ))
            }
            (_, None, Some((replica, on))) => Outlook::NeedsFirst(format!(
                "{name} has no instance to switch over to: {replica} is on node {on}, which is \
                 cordoned; uncordon {on}, and annotate the Cluster so that its \
                 operator looks again"
            )),
            (_, None, None) => Outlook::NeedsFirst(format!(
                "{name} has no Ready instance on another node to switch over to"
            )),
        }
    }
}
