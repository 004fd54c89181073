//! `Start`: what a kubelet makes of a configuration.

use std::fmt;

/// What a kubelet makes of a configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Start {
    /// Why it does not start; empty: it starts.
    pub refusals: Vec<Refusal>,
    /// Fields that it does not know, and ignores.
    pub ignored: Vec<String>,
}

/// Why a kubelet does not start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// A feature gate, and what is wrong with it.
    Gate(String, String),
    /// A value of a field.
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
