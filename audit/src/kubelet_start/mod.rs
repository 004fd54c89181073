//! Whether the kubelet of another version starts with a configuration.
//!
//! Mirrors what `NewKubeletCommand` (`cmd/kubelet/app/server.go`) of Kubernetes v1.33.13, v1.34.4,
//! v1.35.4, v1.36.3 and v1.37.2 does with its file before it looks at the machine: decode, default,
//! set feature gates, validate (`pkg/kubelet/apis/config/validation`), prepare TLS. What the machine
//! decides is in [`nodelife_core::allocatable`].

mod fields;
mod file;
mod gate;
mod image;
mod logging;
mod number;
mod option;
mod schema;
#[cfg(test)]
mod tests;

use std::fmt;
use std::str::FromStr;

use nodelife_core::version::Version;
use serde_json::{Map, Value};

pub use file::Document;

use fields::Fields;
use gate::Gates;
use schema::Schema;

// Tables that are generated from Kubernetes' source, one column for each version.
//
// A program that links the kubelet of a version prints what it knows
// (`tests/control-plane/kubelet-start`), and the test `oracle::kubelet_start::tables` of the
// crate `nodelife-tests` compares it with the column of that version, or writes the column:
//
// ```sh
// for version in 1.33 1.34 1.35 1.36 1.37; do
//   NODELIFE_UPDATE_DOCS=1 NODELIFE_KUBERNETES=$version \
//     cargo test -p nodelife-tests --test it -- oracle::kubelet_start::tables
// done
// ```

/// Feature gates: name and state. `-` unknown, `p` not yet alpha, `a` alpha, `b` beta, `g` GA, `d`
/// deprecated; a capital: on by default; `0` and `1`: locked to off or on.
pub const FEATURE_GATES: &str = include_str!("feature_gates.txt");

/// Feature gates that need others: name, name of the other, and `x` for the versions that ask it.
pub const GATE_NEEDS: &str = include_str!("gate_needs.txt");

/// Fields of KubeletConfiguration: path, Go's type, and `x` for the versions that have it.
pub const FIELDS: &str = include_str!("fields.txt");

/// A row: its key, and its state in one version.
fn rows(table: &'static str, column: usize) -> impl Iterator<Item = (&'static str, char)> {
    table.lines().filter_map(move |line| {
        let (key, states) = line.rsplit_once(' ')?;
        Some((key, states.chars().nth(column)?))
    })
}

/// A minor version whose kubelet nodelife knows: 1.33 to 1.37.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Target(u32);

impl Target {
    pub const RANGE: (Self, Self) = (Self(33), Self(37));

    /// Every known version, the oldest first.
    pub fn all() -> impl Iterator<Item = Self> {
        let (oldest, newest) = Self::RANGE;
        (oldest.0..=newest.0).map(Self)
    }

    pub fn of_minor(minor: u32) -> Option<Self> {
        Self::all().find(|target| target.0 == minor)
    }

    pub fn minor(self) -> u32 {
        self.0
    }

    fn column(self) -> usize {
        let (oldest, _) = Self::RANGE;
        usize::try_from(self.0 - oldest.0).unwrap_or_default()
    }
}

impl FromStr for Target {
    type Err = String;

    /// Reads `1.37`, `v1.37` or `v1.37.2`.
    fn from_str(text: &str) -> Result<Self, String> {
        let version = Version::parse(text).filter(|version| version.major == 1);
        let known = version.and_then(|version| Self::of_minor(version.minor));
        let (oldest, newest) = Self::RANGE;
        known.ok_or_else(|| {
            format!("expected a minor version of Kubernetes from {oldest} to {newest}")
        })
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "1.{}", self.0)
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Judgement {
    /// Why it does not start; empty: it starts.
    pub refusals: Vec<Refusal>,
    pub ignored: Vec<String>,
    /// Fields that its file has more than once: the last value counts.
    pub doubled: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// A feature gate, and what is wrong with it.
    Gate(String, String),
    Value(String),
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Gate(name, why) => write!(f, "featureGates.{name}: {why}"),
            Self::Value(text) => f.write_str(text),
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Cgroups {
    V1,
    #[default]
    V2,
}

#[derive(Clone, Copy)]
struct Input<'a> {
    target: Target,
    gates: &'a Gates<'a>,
    fields: Fields<'a>,
    cgroups: Cgroups,
}

impl Input<'_> {
    fn is_on(&self, gate: &str) -> bool {
        self.gates.is_on(gate)
    }

    /// Whether the feature gate that `field` needs is on; else that is a refusal.
    fn has_gate(&self, field: &str, gate: &str, refusals: &mut Vec<String>) -> bool {
        let is_on = self.is_on(gate);
        if !is_on {
            refusals.push(format!(
                "{field} needs the feature gate {gate}, which is off"
            ));
        }
        is_on
    }

    fn since(&self, minor: u32) -> bool {
        self.target.minor() >= minor
    }
}

const TYPE: [(&str, &str); 2] = [
    ("apiVersion", "kubelet.config.k8s.io/v1beta1"),
    ("kind", "KubeletConfiguration"),
];

/// Judges the files of `--config` and `--config-dir`, as the kubelet of `target` does.
pub fn judge_files(files: &Document, target: Target, cgroups: Cgroups) -> Judgement {
    let mut refusals = files.refusals.clone();
    if refusals.is_empty() {
        let schema = Schema::of(target);
        // It is decoded before drop-ins replace its values.
        let alone = files.alone.iter().map(|fields| schema.decode(fields));
        refusals.extend(alone.flat_map(|decoded| decoded.refusals));
        let former = files.former.iter();
        let former = former.map(|(path, value)| schema.decode_one(path, value));
        refusals.extend(former.flat_map(|decoded| decoded.refusals));
    }
    let mut start = if files.refusals.is_empty() {
        judge(&files.fields, target, cgroups)
    } else {
        Judgement::default()
    };
    let refusals = refusals.into_iter().map(Refusal::Value);
    start.refusals.splice(0..0, refusals);
    start.refusals.dedup();
    start.doubled.clone_from(&files.doubled);
    start
}

/// Judges `document`, the content of the file of `--config`, as the kubelet of `target` does.
pub fn judge(document: &Map<String, Value>, target: Target, cgroups: Cgroups) -> Judgement {
    let mut start = Judgement::default();
    for (field, expected) in TYPE {
        let found = document.get(field).and_then(Value::as_str);
        if found != Some(expected) {
            let message = format!("{field} must be {expected}");
            start.refusals.push(Refusal::Value(message));
        }
    }
    let decoded = Schema::of(target).decode(document);
    start.ignored = decoded.unknown;
    let unread = decoded.refusals.into_iter().map(Refusal::Value);
    start.refusals.extend(unread);
    if !start.refusals.is_empty() {
        return start;
    }
    let fields = Fields::of(document);
    let gates = Gates::new(target, fields.map("featureGates"));
    start.refusals = gates.refusals();
    // The kubelet stops here if a gate is refused. The rest is worth knowing, too.
    let subject = Input {
        target,
        gates: &gates,
        fields,
        cgroups,
    };
    let mut refusals = Vec::new();
    number::check(subject, &mut refusals);
    option::check(subject, &mut refusals);
    logging::check(subject, &mut refusals);
    image::check(subject, &mut refusals);
    let refusals = refusals.into_iter().map(Refusal::Value);
    start.refusals.extend(refusals);
    start
}
