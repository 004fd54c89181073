//! Eviction thresholds.
//!
//! Mirrors `parseThresholdStatement` and `parsePercentage` (`pkg/kubelet/eviction/helpers.go`)
//! and `GetThresholdQuantity` (`pkg/kubelet/eviction/api/types.go`) of Kubernetes v1.36.3.

use std::collections::BTreeMap;

use crate::quantity::{Format, Quantity};
use crate::text::Str;

const SIGNALS: [&str; 9] = [
    "memory.available",
    "allocatableMemory.available",
    "imagefs.available",
    "imagefs.inodesFree",
    "containerfs.available",
    "containerfs.inodesFree",
    "nodefs.available",
    "nodefs.inodesFree",
    "pid.available",
];

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Threshold {
    Amount(Quantity),
    /// A share of the capacity between 0 and 1. It is a 32-bit float in the kubelet as
    /// well: 10% of 100Gi is 160 bytes more than a tenth.
    Share(f32),
}

impl Threshold {
    /// Reads `100Mi` or `10%`. `0%` and `100%` switch the threshold off: none.
    pub fn parse(signal: &str, text: &str) -> Result<Option<Self>, String> {
        check_signal(signal)?;
        if text == "0%" || text == "100%" {
            return Ok(None);
        }
        if text.ends_with('%') {
            return parse_share(signal, text).map(|share| Some(Self::Share(share)));
        }
        let amount = Quantity::parse(text)
            .map_err(|error| format!("eviction threshold {signal}: {text:?} {error}"))?;
        if amount.is_negative() || amount.is_zero() {
            return Err(format!(
                "eviction threshold {signal} must be positive: {text}"
            ));
        }
        Ok(Some(Self::Amount(amount)))
    }

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_precision_loss,
        reason = "the kubelet computes int64(float64(capacity) * float64(float32))"
    )]
    pub fn of(self, capacity: Quantity) -> Quantity {
        match self {
            Self::Amount(amount) => amount,
            Self::Share(share) => {
                let bytes = capacity.value().unwrap_or(i64::MAX) as f64 * f64::from(share);
                Quantity::new(bytes as i64, Format::BinarySi)
            }
        }
    }

    pub fn percent(self) -> Option<f32> {
        match self {
            Self::Amount(_) => None,
            Self::Share(share) => Some(share * 100.0),
        }
    }
}

pub(super) fn check_signal(signal: &str) -> Result<(), String> {
    if SIGNALS.contains(&signal) {
        Ok(())
    } else {
        Err(format!("unsupported eviction signal {signal}"))
    }
}

/// The fault of an entry of `evictionMinimumReclaim` (`parseMinimumReclaims`): there a
/// share may be more than all, an amount may be nothing, and nothing switches it off.
pub(super) fn check_reclaim(signal: &str, text: &str) -> Result<(), String> {
    check_signal(signal)?;
    let what = format!("eviction minimum reclaim {signal}");
    if text.ends_with('%') {
        return match parse_percentage(&what, text)? {
            share if share > 0.0 => Ok(()),
            _ => Err(format!("{what} must be positive: {text}")),
        };
    }
    match Quantity::parse(text) {
        Ok(amount) if amount.is_negative() => Err(format!("{what} cannot be negative: {text}")),
        Ok(_) => Ok(()),
        Err(error) => Err(format!("{what}: {text:?} {error}")),
    }
}

/// A percentage as a share, computed as `parsePercentage` does.
fn parse_percentage(what: &str, text: &str) -> Result<f32, String> {
    let number = text.trim_end_matches('%');
    let value: f32 = number
        .parse()
        .map_err(|_| format!("{what}: {text:?} is not a percentage"))?;
    Ok(value / 100.0)
}

fn parse_share(signal: &str, text: &str) -> Result<f32, String> {
    let share = parse_percentage(&format!("eviction threshold {signal}"), text)?;
    if (0.0..=1.0).contains(&share) {
        Ok(share)
    } else {
        Err(format!(
            "eviction percentage threshold {signal} must be between 0% and 100%: {text}"
        ))
    }
}

/// All thresholds that are on, and what is wrong with the others.
pub fn parse_all(map: &BTreeMap<Str, Str>) -> (BTreeMap<&str, Threshold>, Vec<String>) {
    let mut thresholds = BTreeMap::new();
    let mut refusals = Vec::new();
    for (signal, text) in map {
        match Threshold::parse(signal, text) {
            Ok(Some(threshold)) => {
                thresholds.insert(signal.as_str(), threshold);
            }
            Ok(None) => {}
            Err(refusal) => refusals.push(refusal),
        }
    }
    (thresholds, refusals)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Option<Threshold>, String> {
        Threshold::parse("nodefs.available", text)
    }

    #[test]
    fn a_percentage_is_a_32_bit_float() {
        let threshold = parse("10%").unwrap().unwrap();
        let capacity = Quantity::parse("100Gi").unwrap();
        assert_eq!(threshold.of(capacity).value(), Some(10_737_418_400));
    }

    #[test]
    fn nothing_and_everything_switch_it_off() {
        assert_eq!(parse("0%"), Ok(None));
        assert_eq!(parse("100%"), Ok(None));
        assert_eq!(parse("0.0%"), Ok(Some(Threshold::Share(0.0))));
        assert_eq!(parse("10%%"), parse("10%"));
    }

    #[test]
    fn a_minimum_reclaim_has_rules_of_its_own() {
        for text in ["0", "101%", "2Gi", "0.5%"] {
            assert_eq!(check_reclaim("memory.available", text), Ok(()), "{text}");
        }
        for text in ["0%", "-1%", "-1Mi", "x", "%", ""] {
            assert!(check_reclaim("memory.available", text).is_err(), "{text}");
        }
        assert!(check_reclaim("memory.free", "1Gi").is_err());
    }

    #[test]
    fn what_the_kubelet_refuses() {
        for text in ["0", "-1Gi", "101%", "-1%", "x%", "1GB", ""] {
            assert!(parse(text).is_err(), "{text}");
        }
        assert!(Threshold::parse("disk.available", "10%").is_err());
    }
}
