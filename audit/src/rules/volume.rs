//! VOL: volumes left over.

use std::collections::{BTreeMap, HashMap};

use crate::rule::rules;
use crate::{Context, Fact, FindingBuilder, Findings, Rule};
use nodelife_core::object::{PersistentVolume, VolumeAttachment};

pub(super) const RULES: &[Rule] = rules! {
    "NL-VOL-001" Error [Nodes, VolumeAttachments] Cluster(gone_node),
    "NL-VOL-002" Warning [VolumeAttachments] All(stuck_detach),
    "NL-VOL-005" Error [Volumes, VolumeAttachments] All(twice),
};

fn attachments<'a>(context: &Context<'a>) -> impl Iterator<Item = &'a VolumeAttachment> + use<'a> {
    context.snapshot.volume_attachments.iter().flatten()
}

fn volume_of(attachment: &VolumeAttachment) -> Option<&str> {
    attachment.spec.source.persistent_volume_name.as_deref()
}

fn found<'a>(attachment: &'a VolumeAttachment, says: &'static str) -> FindingBuilder<'a> {
    FindingBuilder::object("VolumeAttachment", &attachment.metadata, says)
        .on(&attachment.spec.node_name)
        .with("node", &attachment.spec.node_name)
        .with("volume", volume_of(attachment).map(Fact::name))
}

fn gone_node(context: &Context<'_>, findings: &mut Findings<'_>) {
    for attachment in attachments(context) {
        let node = &attachment.spec.node_name;
        if context.node(node).is_none() {
            let says = match volume_of(attachment) {
                Some(_) => "{volume} is attached to {node}, which does not exist",
                None => "an inline volume is attached to {node}, which does not exist",
            };
            findings.push(found(attachment, says));
        }
    }
}

fn stuck_detach(context: &Context<'_>, findings: &mut Findings<'_>) {
    /// After this the controller detaches by force (`pkg/controller/volume/attachdetach`, v1.36.3).
    const FORCE: i64 = 360;
    for attachment in attachments(context) {
        let deleted = attachment.metadata.deletion_timestamp;
        let waits = deleted.map(|then| context.seconds_since(then));
        let status = &attachment.status;
        let error = status
            .detach_error
            .as_ref()
            .or(status.attach_error.as_ref());
        if waits.is_some_and(|seconds| seconds > FORCE) || (error.is_some() && !status.attached) {
            let says = match waits {
                Some(_) => "waits for {seconds} for {attacher}: ",
                None => "waits for {attacher}: ",
            };
            let found = found(attachment, says)
                .with("seconds", waits.map(Fact::seconds))
                .with("attacher", &attachment.spec.attacher);
            findings.push(match error {
                None => found.and("the driver reports no error"),
                Some(error) => found
                    .and("{error}")
                    .with("error", Fact::quote(&error.message)),
            });
        }
    }
}

fn volumes<'a>(context: &Context<'a>) -> HashMap<&'a str, &'a PersistentVolume> {
    let volumes = context.snapshot.volumes.iter().flatten();
    volumes
        .map(|volume| (volume.metadata.name.as_str(), volume))
        .collect()
}

fn twice(context: &Context<'_>, findings: &mut Findings<'_>) {
    let volumes = volumes(context);
    let mut nodes: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for attachment in attachments(context).filter(|a| a.status.attached) {
        if let Some(name) = volume_of(attachment) {
            let node = attachment.spec.node_name.as_str();
            nodes.entry(name).or_default().push(node);
        }
    }
    for (name, nodes) in nodes.into_iter().filter(|(_, nodes)| nodes.len() > 1) {
        let Some(volume) = volumes.get(name) else {
            continue;
        };
        let modes = &volume.spec.access_modes;
        if !modes.is_empty() && modes.iter().all(|mode| mode.starts_with("ReadWriteOnce")) {
            let meta = &volume.metadata;
            let found = FindingBuilder::object("PersistentVolume", meta, "attached to {nodes}");
            let listed = Fact::names(nodes.iter().copied()).shown(nodes.join(" and "));
            findings.push(found.with("nodes", listed).on_all(nodes));
        }
    }
}
