//! Longhorn (1.12): `canDeleteInstanceManagerPDB` of `controller/instance_manager_controller.go`,
//! `ListVolumePDBProtectedHealthyReplicasRO` of `datastore/longhorn.go`.
//!
//! The budget of a node's instance manager always allows nothing. Longhorn deletes it when the node is
//! cordoned, no volume is attached there, and the copies on the node may be away. Those of its CSI pods
//! it deletes as well when no volume is attached.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use serde_json::Value;

use super::around::{Around, Outlook};
use super::{Object, Operator, OperatorResource, controller_of, objects};
use crate::format::join;
use crate::object::{Meta, Pod, nullable};
use crate::text::Str;

objects!(Longhorn {
    settings: Setting = longhorn("settings"),
    managers: InstanceManager = longhorn("instancemanagers"),
    engines: Engine = longhorn("engines"),
    volumes: Volume = longhorn("volumes"),
    replicas: Replica = longhorn("replicas"),
    attachments: Attachment = longhorn("volumeattachments"),
});

const fn longhorn(plural: &'static str) -> OperatorResource {
    OperatorResource::new("longhorn.io", &["v1beta2"], plural)
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
struct Setting {
    metadata: Meta,
    value: Str,
}

type InstanceManager = Object<OnNode, ManagerStatus>;

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
struct OnNode {
    #[serde(rename = "nodeID")]
    node: Str,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ManagerStatus {
    current_state: Str,
    #[serde(deserialize_with = "nullable")]
    instance_engines: BTreeMap<Str, Value>,
    #[serde(deserialize_with = "nullable")]
    instance_engine_frontends: BTreeMap<Str, Value>,
}

type Engine = Object<OfVolume>;

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct OfVolume {
    volume_name: Str,
}

type Volume = Object<VolumeSpec>;

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct VolumeSpec {
    number_of_replicas: i32,
    data_locality: Str,
}

type Replica = Object<ReplicaSpec, ReplicaStatus>;

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ReplicaSpec {
    volume_name: Str,
    #[serde(rename = "nodeID")]
    node: Str,
    healthy_at: Str,
    failed_at: Str,
    desire_state: Str,
    eviction_requested: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ReplicaStatus {
    current_state: Str,
}

type Attachment = Object<AttachmentSpec>;

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct AttachmentSpec {
    volume: Str,
    #[serde(deserialize_with = "nullable")]
    attachment_tickets: BTreeMap<Str, Ticket>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
struct Ticket {
    #[serde(rename = "type")]
    kind: Str,
    #[serde(rename = "nodeID")]
    node: Str,
}

impl Replica {
    fn is_healthy(&self) -> bool {
        !self.spec.healthy_at.is_empty() && self.spec.failed_at.is_empty()
    }

    fn is_unused(&self) -> bool {
        self.spec.healthy_at.is_empty() && self.spec.failed_at.is_empty()
    }

    fn is_stopped(&self) -> bool {
        self.spec.desire_state == "stopped" && self.status.current_state == "stopped"
    }
}

/// Whether it is one of the CSI pods that Longhorn deploys, and whose budgets it makes and deletes.
fn is_csi(pod: &Pod) -> bool {
    let label = |key| pod.metadata.labels.get(key).map(Str::as_str);
    label("longhorn.io/managed-by") == Some("longhorn-manager")
        && label("app").is_some_and(|app| app.starts_with("csi-"))
}

impl Operator for Longhorn {
    fn guards(&self, pod: &Pod) -> bool {
        controller_of(pod) == Some(("longhorn.io", "InstanceManager")) || is_csi(pod)
    }

    fn outlook(&self, around: &Around, pod: &Pod, refused: bool) -> Option<Outlook> {
        if !refused {
            return None;
        }
        if is_csi(pod) {
            let attached = self.attached_outlook(&pod.spec.node_name);
            return Some(attached.unwrap_or_else(|| {
                Outlook::NeedsFirst(
                    "Longhorn lifts the budget when no volume is attached any more".to_owned(),
                )
            }));
        }
        let owner = pod.metadata.controller()?;
        let mut managers = self.managers.iter();
        let manager = managers.find(|manager| manager.metadata.name == owner.name)?;
        let (node, state) = (&manager.spec.node, &manager.status.current_state);
        if state != "running" {
            return Some(Outlook::NeedsFirst(format!(
                "Longhorn keeps the budget of InstanceManager {} until that runs; it is {state}",
                owner.name
            )));
        }
        if let Some(attached) = self.attached_outlook(node) {
            return Some(attached);
        }
        let policy = self.setting("node-drain-policy")?;
        let on_node = self.replicas.iter();
        let mut on_node: Vec<&Replica> = on_node.filter(|r| r.spec.node == *node).collect();
        let soon =
            || Outlook::WillLift(format!("Longhorn lifts the budget once {node} is cordoned"));
        if policy == "always-allow" || on_node.is_empty() {
            return Some(soon());
        }
        if policy == "allow-if-replica-is-stopped" {
            on_node.retain(|replica| !replica.is_stopped());
        }
        if policy == "block-for-eviction" {
            return Some(self.moving(node, &on_node));
        }
        let last = on_node.iter().filter(|replica| !replica.is_unused());
        let last = last.filter_map(|replica| self.unprotected(around, replica, policy));
        // The worst of them decides.
        let worst = last.max();
        if policy == "block-for-eviction-if-contains-last-replica" && worst.is_some() {
            return Some(self.moving(node, &on_node));
        }
        Some(worst.unwrap_or_else(soon))
    }
}

impl Longhorn {
    fn setting(&self, name: &str) -> Option<&str> {
        let mut settings = self.settings.iter();
        let setting = settings.find(|setting| setting.metadata.name == name)?;
        Some(&setting.value)
    }

    fn attached_outlook(&self, node: &Str) -> Option<Outlook> {
        let managers = self.managers.iter();
        let engines: BTreeSet<&Str> = managers
            .filter(|manager| manager.spec.node == *node)
            .flat_map(|manager| {
                let status = &manager.status;
                let engines = status.instance_engines.keys();
                engines.chain(status.instance_engine_frontends.keys())
            })
            .collect();
        let engine = engines.into_iter().next()?;
        let mut known = self.engines.iter();
        let volume = known.find(|known| known.metadata.name == *engine);
        let volume = volume.map_or(engine, |engine| &engine.spec.volume_name);
        let attachments = self.attachments.iter();
        let of_volume = attachments.filter(|attachment| attachment.spec.volume == *volume);
        let tickets = of_volume.flat_map(|attachment| attachment.spec.attachment_tickets.values());
        let here = tickets.filter(|ticket| ticket.node == *node);
        let kinds: BTreeSet<&str> = here.map(|ticket| ticket.kind.as_str()).collect();
        let detaches = "detach-manually-attached-volumes-when-cordoned";
        Some(if kinds.contains("csi-attacher") || kinds.is_empty() {
            Outlook::WillLift(format!(
                "Longhorn lifts the budget when volume {volume} is detached: the pods that use it on \
                 {node} go first"
            ))
        } else if kinds.contains("longhorn-api") && self.setting(detaches) != Some("true") {
            Outlook::Never(format!(
                "volume {volume} was attached to {node} by hand: detach it, or set Longhorn's setting \
                 {detaches} to true"
            ))
        } else {
            Outlook::WillLift(format!(
                "Longhorn lifts the budget when volume {volume} is detached ({} is at work)",
                join(kinds, ", ")
            ))
        })
    }

    /// Longhorn copies what is on the node elsewhere.
    fn moving(&self, node: &Str, on_node: &[&Replica]) -> Outlook {
        let local = on_node.iter().find(|replica| {
            let mut volumes = self.volumes.iter();
            volumes.any(|volume| {
                volume.metadata.name == replica.spec.volume_name
                    && volume.spec.data_locality == "strict-local"
            })
        });
        if let Some(replica) = local {
            return Outlook::NeedsFirst(format!(
                "volume {} is strict-local and cannot leave {node}: change its dataLocality or \
                 Longhorn's setting node-drain-policy",
                replica.spec.volume_name
            ));
        }
        let asked = on_node
            .iter()
            .filter(|replica| replica.spec.eviction_requested);
        let (asked, all) = (asked.count(), on_node.len());
        Outlook::WillLift(if asked == 0 {
            format!("Longhorn moves {all} replicas off {node} once it is cordoned")
        } else {
            format!("Longhorn moves replicas off {node}; {all} are left")
        })
    }

    /// The step before this replica may be away; none if another protects the volume.
    fn unprotected(&self, around: &Around, replica: &Replica, policy: &str) -> Option<Outlook> {
        let (name, volume) = (&replica.metadata.name, &replica.spec.volume_name);
        let others = self.replicas.iter().filter(|other| {
            other.spec.volume_name == *volume && other.spec.node != replica.spec.node
        });
        let mut healthy = others.filter(|other| other.is_healthy());
        let is_missing = |other: &&Replica| around.is_missing(&other.spec.node);
        if let Some(lost) = healthy.clone().find(is_missing) {
            return Some(Outlook::Never(format!(
                "replica {} of volume {volume} is on node {}, which does not exist, and Longhorn \
                 fails at it: delete the replica",
                lost.metadata.name, lost.spec.node
            )));
        }
        let is_cordoned = |other: &Replica| around.is_cordoned(&other.spec.node);
        if !healthy.clone().all(is_cordoned) {
            return None;
        }
        if let Some(other) = healthy.next() {
            let on = &other.spec.node;
            return Some(Outlook::NeedsFirst(format!(
                "the other copy of volume {volume} is on node {on}, which is cordoned or drained \
                 too: uncordon {on} first"
            )));
        }
        if !replica.spec.failed_at.is_empty() {
            return Some(Outlook::NeedsFirst(format!(
                "volume {volume} is faulted, and its replica {name} counts as the last copy: salvage \
                 or delete it"
            )));
        }
        let mut volumes = self.volumes.iter();
        let known = volumes.find(|known| known.metadata.name == *volume);
        let single = known.is_some_and(|volume| volume.spec.number_of_replicas <= 1);
        if !single {
            return Some(Outlook::NeedsFirst(format!(
                "replica {name} is the only healthy copy of volume {volume}: another has to be \
                 rebuilt first, and that needs the volume attached"
            )));
        }
        if policy == "allow-if-replica-is-stopped" {
            return Some(Outlook::NeedsFirst(format!(
                "replica {name}, the only copy of volume {volume}, is in use: stop the pods that \
                 use the volume"
            )));
        }
        let is_local = known.is_some_and(|volume| volume.spec.data_locality == "strict-local");
        let other = if is_local {
            ""
        } else {
            "set the volume's numberOfReplicas to 2, or "
        };
        Some(Outlook::Never(format!(
            "replica {name} is the only copy of volume {volume}: {other}set Longhorn's setting \
             node-drain-policy to allow-if-replica-is-stopped"
        )))
    }
}
