//! Compares quantities with `k8s.io/apimachinery/pkg/api/resource`.

use std::collections::BTreeSet;

use nodelife_core::quantity::{Format, Quantity, QuantityError};
use nodelife_tests::oracle::{self, QuantityAnswer, QuantityCase};
use proptest::prelude::*;
use proptest::strategy::ValueTree;

use nodelife_tests::seed;

#[test]
fn quantities_are_parsed_and_printed_as_in_go() {
    let texts = texts();
    let cases: Vec<QuantityCase> = texts
        .iter()
        .map(|text| QuantityCase {
            text: text.clone(),
            add: None,
        })
        .collect();
    let answers: Vec<QuantityAnswer> = oracle::ask("quantity", &cases).unwrap();
    let mut coverage = Coverage::default();
    let mut differences = Vec::new();
    for (text, go) in texts.iter().zip(&answers) {
        if let Err(difference) = compare(Quantity::parse(text), go, &mut coverage) {
            differences.push(format!("{text:?}: {difference}; Go: {go:?}"));
        }
    }
    report(&differences);
    // A generator that makes one kind of text only would prove nothing.
    let Coverage {
        equal,
        refused,
        out_of_range,
    } = coverage;
    assert!(
        equal >= texts.len() / 2
            && refused >= texts.len() / 20
            && out_of_range >= texts.len() / 600,
        "{equal} equal, {refused} refused, {out_of_range} out of range"
    );
}

#[test]
fn sums_equal_those_of_go() {
    let texts: Vec<String> = texts()
        .into_iter()
        .filter(|text| Quantity::parse(text).is_ok_and(in_range))
        .collect();
    let pairs: Vec<_> = texts.windows(2).take(texts.len() / 2).collect();
    let cases: Vec<QuantityCase> = pairs
        .iter()
        .map(|pair| QuantityCase {
            text: pair[0].clone(),
            add: Some(pair[1].clone()),
        })
        .collect();
    let answers: Vec<QuantityAnswer> = oracle::ask("quantity", &cases).unwrap();
    let mut differences = Vec::new();
    for (pair, go) in pairs.iter().zip(&answers) {
        let mut sum = Quantity::parse(&pair[0]).unwrap();
        sum += Quantity::parse(&pair[1]).unwrap();
        if let Err(difference) = compare(Ok(sum), go, &mut Coverage::default()) {
            differences.push(format!(
                "{} + {}: {difference}; Go: {go:?}",
                pair[0], pair[1]
            ));
        }
    }
    report(&differences);
}

/// How many texts came to which end.
#[derive(Default)]
struct Coverage {
    equal: usize,
    refused: usize,
    out_of_range: usize,
}

fn compare(
    ours: Result<Quantity, QuantityError>,
    go: &QuantityAnswer,
    coverage: &mut Coverage,
) -> Result<(), String> {
    let refused = !go.error.is_empty();
    let ours = match ours {
        // By rule (core's quantity.rs): what does not fit is an error here, whatever Go does.
        Err(QuantityError::OutOfRange) => {
            coverage.out_of_range += 1;
            return Ok(());
        }
        Err(_) if refused => {
            coverage.refused += 1;
            return Ok(());
        }
        Err(error) => return Err(format!("ours refuses it: {error}")),
        Ok(quantity) if refused => return Err(format!("ours takes it for {quantity}")),
        Ok(quantity) => quantity,
    };
    let exact = nano(&go.dec).ok_or("Go's value does not fit, ours does")?;
    if ours.nano() != exact {
        return Err(format!("ours is {} billionths, Go's {exact}", ours.nano()));
    }
    if !in_range(ours) {
        coverage.out_of_range += 1;
        return Ok(());
    }
    // What does not fit into 64 bits overflows silently in Go, and is none here. Below zero
    // `scaledValue` (`math.go`) rounds and compares as if above, so that -15n has the value 1.
    if !ours.is_negative() {
        if ours.value().is_some_and(|value| value != go.value) {
            return Err(format!("its value is {:?}", ours.value()));
        }
        if ours.milli_value().is_some_and(|value| value != go.milli) {
            return Err(format!("its milli value is {:?}", ours.milli_value()));
        }
    }
    let format = match ours.format() {
        Format::DecimalSi => "DecimalSI",
        Format::BinarySi => "BinarySI",
        Format::DecimalExponent => "DecimalExponent",
    };
    if format != go.format {
        return Err(format!("its format is {format}"));
    }
    if ours.to_string() != go.canonical {
        return Err(format!("it is written {ours}"));
    }
    coverage.equal += 1;
    Ok(())
}

/// What fits into 64 bits of whole units: Go's arithmetic is exact there, and its suffixes suffice.
fn in_range(quantity: Quantity) -> bool {
    quantity.value().is_some()
}

/// A decimal number in billionths.
fn nano(dec: &str) -> Option<i128> {
    let (whole, fraction) = dec.split_once('.').unwrap_or((dec, ""));
    if fraction
        .get(9..)
        .is_some_and(|rest| rest.bytes().any(|digit| digit != b'0'))
    {
        return None;
    }
    let fraction: String = fraction
        .chars()
        .chain("000000000".chars())
        .take(9)
        .collect();
    format!("{whole}{fraction}").parse().ok()
}

fn report(differences: &[String]) {
    assert!(
        differences.is_empty(),
        "{} differ from Go, the first of them:\n{}",
        differences.len(),
        differences
            .iter()
            .take(20)
            .cloned()
            .collect::<Vec<_>>()
            .join("\n")
    );
}

fn texts() -> Vec<String> {
    let mut runner = seed::runner();
    let strategy = text();
    let mut texts = BTreeSet::new();
    while texts.len() < seed::cases(12_000) {
        texts.insert(strategy.new_tree(&mut runner).unwrap().current());
    }
    texts.into_iter().collect()
}

/// Mostly quantities; some that nearly are.
fn text() -> impl Strategy<Value = String> {
    let digits = prop_oneof![
        6 => "[0-9]{1,6}",
        2 => "[0-9]{7,19}",
        1 => "[0-9]{20,32}",
        1 => "0{1,12}[0-9]{1,4}",
        1 => "(9223372036854775807|9223372036854775808|1024|1048576|999|1000)",
    ];
    let number = prop_oneof![
        5 => digits.clone(),
        4 => (digits, "[0-9]{0,12}").prop_map(|(whole, fraction)| format!("{whole}.{fraction}")),
        1 => "\\.[0-9]{1,12}",
        1 => Just(String::new()),
    ];
    let suffix = prop_oneof![
        8 => prop::sample::select(vec!["", "n", "u", "m", "k", "M", "G", "T", "P", "E"]).prop_map(str::to_owned),
        5 => prop::sample::select(vec!["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"]).prop_map(str::to_owned),
        3 => "[eE][+-]?[0-9]{1,2}",
        1 => "(K|ki|Kib|B|i|e|E\\+|ee1|mm|e1\\.5|\\s|Zi|e-)",
    ];
    let sign = prop_oneof![8 => Just(""), 1 => Just("-"), 1 => Just("+")];
    let quantity =
        (sign, number, suffix).prop_map(|(sign, number, suffix)| format!("{sign}{number}{suffix}"));
    prop_oneof![30 => quantity, 1 => "[-+.0-9eEKMGinum ]{0,8}"]
}
