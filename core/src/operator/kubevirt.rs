//! KubeVirt (1.9): `pod-eviction-admitter.go` (`admitLauncherPod`), `evacuation.go`, and
//! `VMIEvictionStrategy` in `pkg/util/migrations`.
//!
//! The webhook marks the virtual machine at the first eviction and denies this one; the evacuation
//! controller then migrates it. Since 1.6 there is no budget.

use serde::Deserialize;

use super::around::{Around, Outlook, named};
use super::{Object, Operator, OperatorResource, controller_of, objects};
use crate::format::count;
use crate::object::{Condition, Pod, nullable};
use crate::text::Str;

objects!(VirtualMachines {
    instances: Instance = kubevirt("virtualmachineinstances"),
    migrations: Migration = kubevirt("virtualmachineinstancemigrations"),
    kubevirts: KubeVirt = kubevirt("kubevirts").everywhere(),
});

const fn kubevirt(plural: &'static str) -> OperatorResource {
    OperatorResource::new("kubevirt.io", &["v1"], plural)
}

type Instance = Object<Spec, Status>;

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Spec {
    eviction_strategy: Option<Str>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Status {
    phase: Str,
    node_name: Str,
    evacuation_node_name: Str,
    #[serde(deserialize_with = "nullable")]
    conditions: Vec<Condition>,
    #[serde(deserialize_with = "nullable")]
    migration_state: MigrationState,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct MigrationState {
    failed: bool,
    failure_reason: Str,
    target_node: Str,
}

type Migration = Object<MigrationSpec, MigrationStatus>;

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct MigrationSpec {
    vmi_name: Str,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
struct MigrationStatus {
    phase: Str,
}

type KubeVirt = Object<KubeVirtSpec>;

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
struct KubeVirtSpec {
    #[serde(deserialize_with = "nullable")]
    configuration: Spec,
}

impl Operator for VirtualMachines {
    fn guards(&self, pod: &Pod) -> bool {
        controller_of(pod) == Some(("kubevirt.io", "VirtualMachineInstance"))
    }

    fn outlook(&self, around: &Around, pod: &Pod, _refused: bool) -> Option<Outlook> {
        let owner = pod.metadata.controller()?;
        let vmi = self
            .instances
            .iter()
            .find(|vmi| vmi.metadata.uid == owner.uid)?;
        if pod.is_terminal() {
            return None;
        }
        let (name, status) = (
            named("VirtualMachineInstance", pod, &owner.name),
            &vmi.status,
        );
        let ends = matches!(status.phase.as_str(), "Succeeded" | "Failed");
        if ends || vmi.metadata.deletion_timestamp.is_some() {
            return Some(Outlook::WillLift(format!("{name} is shutting down")));
        }
        if status.node_name != pod.spec.node_name && !status.node_name.is_empty() {
            return Some(Outlook::WillLift(format!(
                "{name} runs on node {}: its pod here ends or takes over with its migration",
                status.node_name
            )));
        }
        let of_cluster = self.kubevirts.iter();
        let mut of_cluster =
            of_cluster.filter_map(|k| k.spec.configuration.eviction_strategy.as_ref());
        let strategy = vmi.spec.eviction_strategy.as_ref();
        let strategy = strategy.or_else(|| of_cluster.next()).map(Str::as_str);
        let migratable = status
            .conditions
            .iter()
            .find(|c| c.kind == "LiveMigratable");
        let is_migratable = migratable.is_some_and(|c| c.status == "True");
        match strategy {
            Some("External") => Some(Outlook::NeedsFirst(format!(
                "{name} leaves evictions to another controller (evictionStrategy External): it has \
                 to stop or move the virtual machine"
            ))),
            Some("LiveMigrate") if !is_migratable => Some(match migratable {
                Some(condition) => Outlook::Never(format!(
                    "{name} cannot be migrated ({}: {}): shut the virtual machine down, or set its \
                     spec.evictionStrategy to LiveMigrateIfPossible and restart it",
                    condition.reason, condition.message
                )),
                None => Outlook::NeedsFirst(format!(
                    "{name} has just started: whether it can be migrated is not known yet"
                )),
            }),
            Some("LiveMigrate" | "LiveMigrateIfPossible") if is_migratable => {
                Some(self.migration_outlook(around, vmi, &name))
            }
            // It is shut down like any other pod.
            _ => None,
        }
    }
}

impl VirtualMachines {
    fn migration_outlook(&self, around: &Around, vmi: &Instance, name: &str) -> Outlook {
        let status = &vmi.status;
        let mark = &status.evacuation_node_name;
        if !mark.is_empty() && *mark != status.node_name {
            return Outlook::Never(format!(
                "{name} is marked to leave node {mark}, but runs on {}, so nothing migrates it: \
                 take the mark back with virtctl evacuate-cancel vmi {} -n {}",
                status.node_name, vmi.metadata.name, vmi.metadata.namespace
            ));
        }
        let mut mine: Vec<&Migration> = self.migrations.iter().collect();
        mine.retain(|migration| {
            migration.spec.vmi_name == vmi.metadata.name
                && migration.metadata.namespace == vmi.metadata.namespace
        });
        mine.sort_by_key(|migration| std::cmp::Reverse(migration.metadata.creation_timestamp));
        let phase = |migration: &&&Migration| migration.status.phase.clone();
        let active = |m: &&&Migration| !matches!(&*phase(m), "Succeeded" | "Failed");
        let Some(migration) = mine.iter().find(active) else {
            let failed = mine.iter().take_while(|m| phase(m) == "Failed").count();
            return match (failed, mark.is_empty()) {
                (0, false) => Outlook::WillLift(format!("KubeVirt is about to migrate {name}")),
                (0, true) => {
                    Outlook::WillLift(format!("KubeVirt migrates {name} at the first eviction"))
                }
                // It tries again, after a pause that doubles, and nothing says that it will succeed.
                _ => Outlook::NeedsFirst(format!(
                    "{} of {name} failed, the last: {}",
                    count(failed, "migration"),
                    match &*status.migration_state.failure_reason {
                        "" => "no reason given",
                        reason => reason,
                    }
                )),
            };
        };
        let job = &migration.metadata.name;
        if let Some(why) = migration.without_place(around) {
            return Outlook::NeedsFirst(format!("migration {job} of {name} finds no node: {why}"));
        }
        let state = &status.migration_state;
        Outlook::WillLift(match migration.status.phase.as_str() {
            "" | "Pending" if state.failed => format!(
                "{name} is migrated again ({job}); the last migration failed: {}",
                state.failure_reason
            ),
            "" | "Pending" => format!(
                "migration {job} of {name} waits for its turn (spec.configuration.migrations of \
                 KubeVirt limits them)"
            ),
            phase if state.target_node.is_empty() => format!("migration {job} of {name}: {phase}"),
            phase => format!(
                "migration {job} of {name} to node {}: {phase}",
                state.target_node
            ),
        })
    }
}

impl Migration {
    fn without_place(&self, around: &Around) -> Option<String> {
        let target = around.pods.iter().find(|pod| {
            let job = pod.metadata.labels.get("kubevirt.io/migrationJobUID");
            job == Some(&self.metadata.uid)
        })?;
        let name = &target.metadata.name;
        target
            .is_unschedulable()
            .then(|| format!("pod {name} is unschedulable"))
    }
}
