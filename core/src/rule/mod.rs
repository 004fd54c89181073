//! The rules of the audit.
//!
//! A rule is defined once, here, in the module of its group: its id, how bad it is,
//! the data it needs, its texts and its check. The catalogue, `explain RULE` and the
//! reports all read that definition.
//!
//! ```text
//! Snapshot ─► Context (indices, zones) ─► check of each rule ─► Sink ─► Audit
//! ```

mod access;
mod budget;
mod capacity;
mod certificate;
mod condition;
mod configured;
mod context;
mod drainable;
mod eviction;
mod fit;
mod formula;
mod headroom;
mod heartbeat;
mod identity;
mod label;
mod lease;
mod leftover;
mod network;
mod operations;
mod owner;
mod pod;
mod pool;
mod registration;
mod reservation;
mod reserved;
mod say;
mod selection;
mod shutdown;
mod sink;
mod stale_taint;
mod taints;
mod tolerance;
mod toleration;
mod topology;
mod upkeep;
mod version;
mod volume;
mod zone_size;
mod zones;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

pub use context::Context;
pub use headroom::{Loss, Lost, losses};
pub use pool::pool_of;
pub use selection::{Selection, SkipOn};
pub use sink::{Found, SKIP_ANNOTATION, Sink};

use crate::finding::{Finding, Severity};
use crate::snapshot::{Snapshot, Source};
use crate::text::Str;

/// What the rules of a group are about. The order is that of the reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Group {
    /// Registration and identity.
    Registration,
    /// Heartbeats, leases and conditions.
    Heartbeat,
    /// Taints against conditions.
    Taint,
    /// Capacity, reservations and Allocatable.
    Reserved,
    /// Overcommitment, pod counts and addresses.
    Capacity,
    /// Tolerations of pods.
    Toleration,
    /// Whether nodes can be drained.
    Budget,
    /// Graceful and other shutdowns.
    Shutdown,
    /// Versions and operating systems.
    Version,
    /// Certificates and the kubelet's API.
    Certificate,
    /// What nodes are allowed to do.
    Authorization,
    /// Labels and topology.
    Label,
    /// Health of zones.
    Zone,
    /// Volumes left over.
    Volume,
    /// Pods left over.
    Pod,
    /// Operations left half done.
    Operations,
}

impl Group {
    /// The part of the id between the dashes.
    pub fn code(self) -> &'static str {
        match self {
            Self::Registration => "REG",
            Self::Heartbeat => "HB",
            Self::Taint => "TNT",
            Self::Reserved => "RES",
            Self::Capacity => "CAP",
            Self::Toleration => "TOL",
            Self::Budget => "PDB",
            Self::Shutdown => "SHD",
            Self::Version => "VER",
            Self::Certificate => "CRT",
            Self::Authorization => "AUT",
            Self::Label => "LBL",
            Self::Zone => "ZON",
            Self::Volume => "VOL",
            Self::Pod => "POD",
            Self::Operations => "OPS",
        }
    }

    /// A heading.
    pub fn title(self) -> &'static str {
        match self {
            Self::Registration => "Registration and identity",
            Self::Heartbeat => "Heartbeats, leases and conditions",
            Self::Taint => "Taints and conditions",
            Self::Reserved => "Capacity, reservations and Allocatable",
            Self::Capacity => "Overcommitment, pod counts and addresses",
            Self::Toleration => "Tolerations",
            Self::Budget => "Disruption budgets and drains",
            Self::Shutdown => "Shutdowns",
            Self::Version => "Versions and operating systems",
            Self::Certificate => "Certificates and the kubelet's API",
            Self::Authorization => "What nodes may do",
            Self::Label => "Labels and topology",
            Self::Zone => "Zones",
            Self::Volume => "Volumes left over",
            Self::Pod => "Pods left over",
            Self::Operations => "Operations left half done",
        }
    }
}

/// One rule.
#[derive(Debug)]
pub struct Rule {
    /// `NL-RES-001`; never given to another rule.
    pub id: &'static str,
    /// Group; its code is in the id.
    pub group: Group,
    /// How bad it is as a rule; a finding may say otherwise where its numbers do.
    pub severity: Severity,
    /// Without these lists the rule is skipped.
    pub sources: &'static [Source],
    /// What is wrong, in a few words.
    pub title: &'static str,
    /// Why it matters: what will happen, and under which condition.
    pub why: &'static str,
    /// What to do.
    pub fix: &'static str,
    /// Where to read on.
    pub link: &'static str,
    /// Looks at the snapshot and reports.
    pub check: fn(&Context<'_>, &mut Sink<'_>),
}

/// Every rule, by group.
pub fn catalogue() -> impl Iterator<Item = &'static Rule> {
    const GROUPS: &[&[Rule]] = &[
        registration::RULES,
        identity::RULES,
        heartbeat::RULES,
        lease::RULES,
        condition::RULES,
        taints::RULES,
        stale_taint::RULES,
        reserved::RULES,
        reservation::RULES,
        eviction::RULES,
        formula::RULES,
        capacity::RULES,
        network::RULES,
        fit::RULES,
        toleration::RULES,
        tolerance::RULES,
        budget::RULES,
        drainable::RULES,
        shutdown::RULES,
        version::RULES,
        certificate::RULES,
        access::RULES,
        label::RULES,
        topology::RULES,
        zones::RULES,
        zone_size::RULES,
        volume::RULES,
        pod::RULES,
        leftover::RULES,
        operations::RULES,
        upkeep::RULES,
    ];
    GROUPS.iter().copied().flatten()
}

/// The rule with this id, in any case of letters.
pub fn find(id: &str) -> Option<&'static Rule> {
    catalogue().find(|rule| rule.id.eq_ignore_ascii_case(id))
}

/// A rule that was not checked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Skipped {
    /// Its id.
    pub rule: Str,
    /// Which data was not at hand, and why.
    pub reason: String,
}

/// The result of all rules that were asked for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Audit {
    /// Worst first, then by rule and subject.
    pub findings: Vec<Finding>,
    /// Rules that could not be checked, in the order of the catalogue.
    pub skipped: Vec<Skipped>,
    /// How many rules were checked.
    pub checked: usize,
    /// How many findings were left out because an annotation of the object or
    /// [`Selection::skip_on`] says so.
    pub suppressed: usize,
}

impl Audit {
    /// The worst severity found.
    pub fn worst(&self) -> Option<Severity> {
        self.findings.iter().map(|finding| finding.severity).max()
    }
}

/// Checks `snapshot` by the selected rules. Ages are judged by the time at which it
/// was taken, or by `now` where that is not known.
pub fn audit(snapshot: &Snapshot, selection: &Selection, now: Timestamp) -> Audit {
    let now = snapshot.taken_at.unwrap_or(now);
    let context = Context::new(snapshot, selection.zone_settings, now);
    let mut audit = Audit::default();
    for rule in catalogue().filter(|rule| selection.wants(rule)) {
        if let Some(reason) = missing(snapshot, rule) {
            let rule = rule.id.into();
            audit.skipped.push(Skipped { rule, reason });
            continue;
        }
        audit.checked += 1;
        let mut sink = Sink::new(rule, selection, &context);
        (rule.check)(&context, &mut sink);
        audit.suppressed += sink.suppressed;
        audit.findings.append(&mut sink.findings);
    }
    audit.findings.sort_by(|a, b| {
        (b.severity.cmp(&a.severity))
            .then_with(|| a.rule.cmp(&b.rule))
            .then_with(|| a.subject.cmp(&b.subject))
            .then_with(|| a.message.cmp(&b.message))
    });
    audit
}

/// Why the rule cannot be checked, if so.
fn missing(snapshot: &Snapshot, rule: &Rule) -> Option<String> {
    rule.sources.iter().find_map(|source| {
        let why = snapshot.why_missing(*source)?;
        Some(format!("{} not read: {why}", source.noun()))
    })
}
