//! `Gates`: the feature gates of a kubelet, as its version and its configuration set them.
//!
//! Mirrors `unsafeSetFromMap` and `featureEnabled` of `component-base/featuregate/feature_gate.go`,
//! v1.33.13 to v1.37.2.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::{FEATURE_GATES, GATE_NEEDS, Refusal, Target, rows};

/// The first version that asks whether the gates that another one needs are on.
const DEPENDENCIES_SINCE: u32 = 35;

#[derive(Debug)]
pub(super) struct Gates<'a> {
    target: Target,
    known: BTreeMap<&'static str, Gate>,
    given: BTreeMap<&'a str, bool>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Gate {
    is_available: bool,
    /// The gate that sets all of its stage.
    of_stage: Option<&'static str>,
    default: bool,
    locked: bool,
}

impl Gate {
    fn of(letter: char) -> Option<Self> {
        let of_stage = match letter.to_ascii_lowercase() {
            'a' => Some("AllAlpha"),
            'b' => Some("AllBeta"),
            'p' | 'g' | 'd' | '0' | '1' => None,
            _ => return None,
        };
        Some(Self {
            is_available: !letter.eq_ignore_ascii_case(&'p'),
            of_stage,
            default: letter.is_ascii_uppercase() || letter == '1',
            locked: letter.is_ascii_digit(),
        })
    }
}

impl<'a> Gates<'a> {
    pub(super) fn new(target: Target, given: Option<&'a Map<String, Value>>) -> Self {
        let rows = rows(FEATURE_GATES, target.column());
        let given = given.into_iter().flatten();
        Self {
            target,
            known: rows
                .filter_map(|(name, state)| Some((name, Gate::of(state)?)))
                .collect(),
            // Go reads null as false.
            given: given
                .map(|(name, on)| (name.as_str(), on.as_bool().unwrap_or_default()))
                .collect(),
        }
    }

    pub(super) fn is_on(&self, name: &str) -> bool {
        if let Some(on) = self.given.get(name) {
            return *on;
        }
        let Some(gate) = self.known.get(name) else {
            return false;
        };
        let all = gate.of_stage.and_then(|all| self.given.get(all));
        let is_special = matches!(name, "AllAlpha" | "AllBeta");
        all.copied().filter(|_| !is_special).unwrap_or(gate.default)
    }

    pub(super) fn refusals(&self) -> Vec<Refusal> {
        let mut refusals: Vec<_> = (self.given.iter())
            .filter_map(|(name, on)| {
                let why = self.refusal(name, *on)?;
                Some(Refusal::Gate((*name).to_owned(), why))
            })
            .collect();
        if refusals.is_empty() && self.target.minor() >= DEPENDENCIES_SINCE {
            refusals.extend(self.lacking());
        }
        refusals
    }

    fn refusal(&self, name: &str, on: bool) -> Option<String> {
        let target = self.target;
        let Some(gate) = self.known.get(name) else {
            return Some(match Self::last_known(name, target) {
                Some(last) => format!("removed: {last} is the last version that knows it"),
                None => "unknown".to_owned(),
            });
        };
        if gate.locked && gate.default != on {
            return Some(format!("locked to {} since it is settled", gate.default));
        }
        (!gate.is_available).then(|| "not available yet".to_owned())
    }

    fn last_known(name: &str, target: Target) -> Option<Target> {
        Target::all()
            .filter(|version| *version < target)
            .filter(|version| {
                rows(FEATURE_GATES, version.column())
                    .any(|(row, state)| row == name && state != '-')
            })
            .last()
    }

    fn lacking(&self) -> impl Iterator<Item = Refusal> {
        rows(GATE_NEEDS, self.target.column())
            .filter(|(_, state)| *state == 'x')
            .filter_map(|(key, _)| key.split_once(' '))
            .filter(|(name, needed)| self.is_on(name) && !self.is_on(needed))
            .map(|(name, needed)| {
                Refusal::Gate(
                    name.to_owned(),
                    format!("on, but needs {needed}, which is off"),
                )
            })
    }
}
