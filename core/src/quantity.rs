//! Quantities, exactly as k8s.io/apimachinery reads and writes them.
//!
//! Mirrors `pkg/api/resource/{quantity,amount,suffix}.go` of k8s.io/apimachinery
//! v0.36.3, with two deliberate differences:
//!
//! - A value is kept as a number of billionths in an `i128` (up to 1.7 × 10²⁹
//!   units). What does not fit is an error ([`QuantityError::OutOfRange`]), where
//!   Go goes on with a big decimal whose `Value()` silently overflows.
//! - What is printed is always canonical. Go prints a freshly parsed value as it
//!   was written (`1e+3`), and changes its mind after the first addition.

use std::cmp::Ordering;
use std::fmt;
use std::ops::{AddAssign, Sub};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Billionths in a unit: the finest step of a quantity.
const NANO: i128 = 1_000_000_000;

/// The largest binary quantity; larger ones are cut to it (`maxAllowed` in `quantity.go`).
const MAX_BINARY: i128 = i64::MAX as i128 * NANO;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Format {
    /// Powers of 1000: `500m`, `12k`, `3G`.
    #[default]
    DecimalSi,
    /// Powers of 1024: `100Mi`.
    BinarySi,
    /// Powers of ten: `12e6`.
    DecimalExponent,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QuantityError {
    #[error("is not a number followed by a suffix such as m, k, Mi or Gi")]
    Format,
    #[error("has no digits")]
    Number,
    #[error(
        "has a suffix that Kubernetes does not know (n u m k M G T P E, Ki Mi Gi Ti Pi Ei, e3)"
    )]
    Suffix,
    /// More than 1.7 × 10²⁹ units.
    #[error("is out of range")]
    OutOfRange,
}

/// An amount of a resource. Compared by value, whatever the format.
#[derive(Clone, Copy, Debug, Default)]
pub struct Quantity {
    nano: i128,
    format: Format,
}

impl Quantity {
    pub fn new(value: i64, format: Format) -> Self {
        let nano = i128::from(value) * NANO;
        Self { nano, format }
    }

    pub fn from_milli(value: i64, format: Format) -> Self {
        let nano = i128::from(value) * (NANO / 1000);
        Self { nano, format }
    }

    /// Reads what an API server or the kubelet would accept (`ParseQuantity`),
    /// a lone suffix (`Gi` is 0) included. Finer than a billionth is rounded away
    /// from zero; a binary quantity is cut at 2⁶³ − 1.
    pub fn parse(text: &str) -> Result<Self, QuantityError> {
        if text.is_empty() {
            return Err(QuantityError::Format);
        }
        let (negative, rest) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text.strip_prefix('+').unwrap_or(text)),
        };
        let (whole, rest) = digits(rest);
        let (fraction, suffix) = match rest.strip_prefix('.') {
            Some(rest) => digits(rest),
            None => ("", rest),
        };
        let suffix = Suffix::parse(suffix)?;
        // Without digits Go takes 0 on its fast path, and fails on the slow one.
        let slow = match suffix {
            Suffix::Binary(power) => power >= 50,
            Suffix::Decimal(power) | Suffix::Exponent(power) => power < -9,
        };
        if whole.is_empty() && fraction.is_empty() && slow {
            return Err(QuantityError::Number);
        }
        let (magnitude, format) = match suffix {
            Suffix::Decimal(power) => (decimal(whole, fraction, power)?, Format::DecimalSi),
            Suffix::Exponent(power) => (decimal(whole, fraction, power)?, Format::DecimalExponent),
            Suffix::Binary(power) => match binary(whole, fraction, power) {
                below_one @ 1..NANO => (below_one, Format::DecimalSi),
                magnitude => (magnitude, Format::BinarySi),
            },
        };
        let nano = if negative { -magnitude } else { magnitude };
        Ok(Self { nano, format })
    }

    /// Reads what a person wrote: like [`Quantity::parse`], but without digits it is an error.
    pub fn parse_strict(text: &str) -> Result<Self, QuantityError> {
        let quantity = Self::parse(text)?;
        let number = text.trim_start_matches(['+', '-']);
        let leads = number.starts_with(|c: char| c.is_ascii_digit());
        let fraction = number.strip_prefix('.');
        if leads || fraction.is_some_and(|f| f.starts_with(|c: char| c.is_ascii_digit())) {
            Ok(quantity)
        } else {
            Err(QuantityError::Number)
        }
    }

    pub fn format(self) -> Format {
        self.format
    }

    pub fn is_zero(self) -> bool {
        self.nano == 0
    }

    pub fn is_negative(self) -> bool {
        self.nano < 0
    }

    /// The value in billionths, exactly.
    pub fn nano(self) -> i128 {
        self.nano
    }

    /// Whole units, rounded away from zero; none beyond 64 bits, where Go's `Value()` is garbage.
    pub fn value(self) -> Option<i64> {
        i64::try_from(divide_up(self.nano, NANO)).ok()
    }

    /// Thousandths, rounded away from zero; none beyond 64 bits, where Go's `MilliValue()` is garbage.
    pub fn milli_value(self) -> Option<i64> {
        i64::try_from(divide_up(self.nano, NANO / 1000)).ok()
    }

    /// The value as a floating-point number: for ratios and bars, not for arithmetic.
    #[expect(clippy::cast_precision_loss, reason = "an approximation is what is asked for")]
    pub fn approximate(self) -> f64 {
        self.nano as f64 / NANO as f64
    }

    /// The larger of the two, by value; `self` when they are equal.
    #[must_use]
    pub fn at_least(self, floor: Self) -> Self {
        if self.nano < floor.nano { floor } else { self }
    }
}

/// Keeps the format of the left side, unless that is zero (`Quantity.Add`).
/// Beyond the range it stays at the border.
impl AddAssign for Quantity {
    fn add_assign(&mut self, other: Self) {
        if self.nano == 0 {
            self.format = other.format;
        }
        self.nano = self.nano.saturating_add(other.nano);
    }
}

/// Keeps the format of the left side, unless that is zero (`Quantity.Sub`).
/// Beyond the range it stays at the border.
impl Sub for Quantity {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        let kept = if self.nano == 0 { other } else { self };
        Self {
            nano: self.nano.saturating_sub(other.nano),
            ..kept
        }
    }
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.nano == other.nano
    }
}

impl Eq for Quantity {}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Quantity {
    fn cmp(&self, other: &Self) -> Ordering {
        self.nano.cmp(&other.nano)
    }
}

/// The canonical form (`CanonicalizeBytes`).
impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.nano == 0 {
            return f.write_str("0");
        }
        let binary = self.format == Format::BinarySi
            && self.nano.unsigned_abs() >= 1024 * NANO.unsigned_abs()
            && self.nano % NANO == 0;
        if binary {
            write_binary(f, self.nano / NANO)
        } else {
            write_decimal(f, self.nano, self.format)
        }
    }
}

fn write_binary(f: &mut fmt::Formatter<'_>, mut value: i128) -> fmt::Result {
    let mut suffix = "";
    for (next, _) in binary_suffixes() {
        if value % 1024 != 0 {
            break;
        }
        value /= 1024;
        suffix = next;
    }
    write!(f, "{value}{suffix}")
}

fn write_decimal(f: &mut fmt::Formatter<'_>, mut value: i128, format: Format) -> fmt::Result {
    let mut exponent = -9;
    // Beyond E there is no suffix: the mantissa grows instead. (Go loses it: `1000E` prints `1`.)
    while value % 1000 == 0 && (format == Format::DecimalExponent || exponent < 18) {
        value /= 1000;
        exponent += 3;
    }
    let mut suffixes = decimal_suffixes();
    let suffix = suffixes.find_map(|(suffix, power)| (power == exponent).then_some(suffix));
    match (format, exponent) {
        (_, 0) => write!(f, "{value}"),
        (Format::DecimalExponent, _) => write!(f, "{value}e{exponent}"),
        _ => write!(f, "{value}{}", suffix.unwrap_or_default()),
    }
}

fn decimal_suffixes() -> impl Iterator<Item = (&'static str, i32)> {
    let suffixes = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];
    suffixes.into_iter().zip((-9..).step_by(3))
}

fn binary_suffixes() -> impl Iterator<Item = (&'static str, u32)> {
    let suffixes = ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
    suffixes.into_iter().zip((10..).step_by(10))
}

/// `a / b`, rounded away from zero.
fn divide_up(a: i128, b: i128) -> i128 {
    let exact = a % b == 0;
    a / b + if exact { 0 } else { a.signum() }
}

fn digits(text: &str) -> (&str, &str) {
    let end = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    text.split_at(end)
}

#[derive(Clone, Copy)]
enum Suffix {
    Decimal(i32),
    Exponent(i32),
    Binary(u32),
}

impl Suffix {
    fn parse(text: &str) -> Result<Self, QuantityError> {
        if let Some((_, power)) = decimal_suffixes().find(|(suffix, _)| *suffix == text) {
            Ok(Self::Decimal(power))
        } else if let Some((_, power)) = binary_suffixes().find(|(suffix, _)| *suffix == text) {
            Ok(Self::Binary(power))
        } else {
            Self::parse_exponent(text)
        }
    }

    fn parse_exponent(text: &str) -> Result<Self, QuantityError> {
        let Some(number) = text.strip_prefix(['e', 'E']) else {
            let letters = text.chars().all(|c| "eEinumkKMGTP".contains(c));
            return Err(if letters {
                QuantityError::Suffix
            } else {
                QuantityError::Format
            });
        };
        let plain = number.strip_prefix(['+', '-']).unwrap_or(number);
        if plain.is_empty() || !plain.bytes().all(|b| b.is_ascii_digit()) {
            return Err(QuantityError::Suffix);
        }
        // Go cuts the exponent to 32 bits, which makes 1e4294967296 a 1.
        let exponent = number.parse().map_err(|_| QuantityError::OutOfRange)?;
        Ok(Self::Exponent(exponent))
    }
}

/// `whole.fraction × 10^power` in billionths, rounded up.
fn decimal(whole: &str, fraction: &str, power: i32) -> Result<i128, QuantityError> {
    let all = || whole.bytes().chain(fraction.bytes());
    if all().all(|b| b == b'0') {
        return Ok(0);
    }
    // The digit at `index` stands for 10^(point - 1 - index) billionths.
    let point = i64::try_from(whole.len())
        .unwrap_or(i64::MAX)
        .saturating_add(i64::from(power) + 9);
    let point = usize::try_from(point).unwrap_or(0);
    let mut kept = all().chain(std::iter::repeat(b'0')).take(point);
    let value = kept.try_fold(0, push_digit);
    let remainder = all().skip(point).any(|digit| digit != b'0');
    value
        .and_then(|value| value.checked_add(i128::from(remainder)))
        .ok_or(QuantityError::OutOfRange)
}

fn push_digit(value: i128, digit: u8) -> Option<i128> {
    value.checked_mul(10)?.checked_add(i128::from(digit - b'0'))
}

/// `whole.fraction × 2^power` in billionths, rounded up and cut at [`MAX_BINARY`].
fn binary(whole: &str, fraction: &str, power: u32) -> i128 {
    let unit = NANO << power;
    let mut value: i128 = 0;
    for digit in whole.bytes() {
        value = push_digit(value, digit).map_or(MAX_BINARY, |v| v.min(MAX_BINARY));
    }
    // From the last digit to the first: (digit × unit + what came after it) / 10,
    // which stays small and loses nothing but whether a remainder was left.
    let mut part: i128 = 0;
    let mut remainder = false;
    for digit in fraction.bytes().rev() {
        let sum = i128::from(digit - b'0') * unit + part;
        remainder |= sum % 10 != 0;
        part = sum / 10;
    }
    value
        .saturating_mul(unit)
        .saturating_add(part + i128::from(remainder))
        .min(MAX_BINARY)
}

impl Serialize for Quantity {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl schemars::JsonSchema for Quantity {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Quantity".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "type": "string",
            "description": "A quantity of Kubernetes in canonical form: 3920m, 15061192Ki.",
        })
    }
}

impl<'de> Deserialize<'de> for Quantity {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = crate::text::Str::deserialize(deserializer)?;
        Self::parse(text.trim())
            .map_err(|error| serde::de::Error::custom(format_args!("quantity {text:?} {error}")))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn canonical(text: &str) -> String {
        Quantity::parse(text).unwrap().to_string()
    }

    #[test]
    fn canonical_forms_are_those_of_go() {
        for (text, expected) in [
            ("0", "0"),
            ("-0.0Ki", "0"),
            ("01", "1"),
            ("5.", "5"),
            (".5", "500m"),
            ("+1.5", "1500m"),
            ("1e-10", "1e-9"),
            ("0.9999999999", "1"),
            ("-1.5n", "-2n"),
            ("1E", "1E"),
            ("1E3", "1e3"),
            ("1e+3", "1e3"),
            ("1e19", "10e18"),
            ("5e-1", "500e-3"),
            ("12E", "12E"),
            ("100000000", "100M"),
            ("0.3Ki", "307200m"),
            ("1.1Gi", "1181116006400m"),
            ("0.0001Ki", "102400u"),
            ("1024", "1024"),
            ("1024Mi", "1Gi"),
            ("512Ki", "512Ki"),
            ("1000Ki", "1000Ki"),
            ("-2048Ki", "-2Mi"),
            ("8Ei", "9223372036854775807"),
            ("100Ei", "9223372036854775807"),
            ("9223372036854775807Ki", "9223372036854775807"),
            ("Gi", "0"),
            ("m", "0"),
            ("-", "0"),
            (".", "0"),
            ("1000E", "1000E"),
        ] {
            assert_eq!(canonical(text), expected, "{text:?}");
        }
    }

    #[test]
    fn what_go_refuses_is_refused() {
        for text in [
            "", " 1", "1 ", "1_000", "1K", "1ki", "1B", "1e", "1e+", "1e3Mi", "1..5", "--1",
            "1Ki5", "1-5", "Pi", "Ei", "e-10", "٣", "1µ", "NaN",
        ] {
            assert!(Quantity::parse(text).is_err(), "{text:?}");
        }
        assert_eq!(Quantity::parse("1e100"), Err(QuantityError::OutOfRange));
        // The largest value that fits, and what rounding up adds to it.
        let largest = "170141183460469231731687303715.884105727";
        assert_eq!(Quantity::parse(largest).unwrap().nano(), i128::MAX);
        assert_eq!(
            Quantity::parse(&format!("{largest}1")),
            Err(QuantityError::OutOfRange)
        );
    }

    #[test]
    fn a_person_has_to_write_digits() {
        for text in ["Gi", "m", "-", "+", ".", ".Ki"] {
            assert_eq!(
                Quantity::parse_strict(text),
                Err(QuantityError::Number),
                "{text:?}"
            );
        }
        assert!(Quantity::parse_strict("-.5Gi").is_ok());
    }

    #[test]
    fn values_round_away_from_zero() {
        let value = |text| Quantity::parse(text).unwrap().value();
        let milli = |text| Quantity::parse(text).unwrap().milli_value();
        assert_eq!(value("1n"), Some(1));
        assert_eq!(value("-1500m"), Some(-2));
        assert_eq!(milli("100u"), Some(1));
        assert_eq!(milli("1Ki"), Some(1_024_000));
        assert_eq!(value("12E"), None);
        assert_eq!(milli("1Ei"), None);
    }

    #[test]
    fn sums_keep_the_format_of_the_left_side() {
        let difference = Quantity::parse("1Gi").unwrap() - Quantity::parse("1000").unwrap();
        assert_eq!(difference.to_string(), "1073740824");
        let mut sum = Quantity::default();
        sum += Quantity::parse("1Gi").unwrap();
        assert_eq!(sum.to_string(), "1Gi");
    }

    #[test]
    fn equal_by_value() {
        assert_eq!(Quantity::parse("1024Mi"), Quantity::parse("1Gi"));
        assert_eq!(Quantity::parse("1000m"), Quantity::parse("1"));
        assert!(Quantity::parse("1G").unwrap() < Quantity::parse("1Gi").unwrap());
    }

    proptest! {
        /// The canonical form means the same, and is a fixed point.
        #[test]
        fn canonical_form_reads_back(
            text in "[+-]?([0-9]{1,20}|[0-9]{0,8}\\.[0-9]{1,12})([numkMGT]|[KMGTPE]i|[eE][+-]?[0-9])?"
        ) {
            if let Ok(quantity) = Quantity::parse(&text) {
                let written = quantity.to_string();
                let again = Quantity::parse(&written).unwrap();
                prop_assert_eq!(again, quantity);
                prop_assert_eq!(again.to_string(), written);
            }
        }

        /// Every text gets an answer, and no panic.
        #[test]
        fn any_text_is_answered(text in any::<String>()) {
            let _ = Quantity::parse(&text);
        }
    }
}
