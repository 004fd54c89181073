//! Compares the generated tables of core with what the kubelet of a version says, or writes its
//! column with `NODELIFE_UPDATE_DOCS=1`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use nodelife_audit::kubelet_start::{FEATURE_GATES, FIELDS, GATE_NEEDS, Target};
use nodelife_tests::oracle::{FieldAnswer, GateAnswer, KubeletStart};
use serde_json::json;

use super::target;

#[test]
fn the_generated_tables_are_those_of_the_version() {
    let mut kubelet = KubeletStart::run().unwrap();
    let mut answers: Vec<Vec<GateAnswer>> = kubelet.ask("gates", &[json!({})]).unwrap();
    let gates = answers.remove(0);
    let mut answers: Vec<Vec<FieldAnswer>> = kubelet.ask("fields", &[json!({})]).unwrap();
    let fields = answers.remove(0);
    let states = gates.iter().map(|gate| (gate.name.clone(), state(gate)));
    check("feature_gates.txt", FEATURE_GATES, states);
    let needs = gates.iter().flat_map(|gate| {
        let pairs = gate.needs.iter();
        pairs.map(|other| (format!("{} {other}", gate.name), 'x'))
    });
    check("gate_needs.txt", GATE_NEEDS, needs);
    let fields = fields.iter();
    let fields = fields.map(|field| (format!("{} {}", field.path, field.kind), 'x'));
    check("fields.txt", FIELDS, fields);
}

fn state(gate: &GateAnswer) -> char {
    let stage = match gate.stage.as_str() {
        "PRE-ALPHA" => 'p',
        "ALPHA" => 'a',
        "BETA" => 'b',
        "DEPRECATED" => 'd',
        "" => 'g',
        other => panic!("{} has the stage {other}", gate.name),
    };
    if gate.locked {
        assert!(matches!(stage, 'g' | 'd'), "{} is locked early", gate.name);
        return if gate.default { '1' } else { '0' };
    }
    if gate.default {
        stage.to_ascii_uppercase()
    } else {
        stage
    }
}

fn check(name: &str, table: &str, rows: impl Iterator<Item = (String, char)>) {
    let column = Target::all().position(|version| version == target());
    let column = column.unwrap();
    let mut states: BTreeMap<String, Vec<char>> = BTreeMap::new();
    for line in table.lines() {
        let (key, row) = line.rsplit_once(' ').unwrap();
        let mut row: Vec<char> = row.chars().collect();
        row[column] = '-';
        states.insert(key.to_owned(), row);
    }
    let unknown = || vec!['-'; Target::all().count()];
    for (key, state) in rows {
        states.entry(key).or_insert_with(unknown)[column] = state;
    }
    states.retain(|_, row| row.iter().any(|state| *state != '-'));
    let mut wanted = String::new();
    for (key, row) in states {
        wanted.push_str(&key);
        wanted.push(' ');
        wanted.extend(row);
        wanted.push('\n');
    }
    if std::env::var_os("NODELIFE_UPDATE_DOCS").is_some() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../audit/src/kubelet_start");
        std::fs::write(PathBuf::from(folder).join(name), wanted).unwrap();
    } else {
        assert!(
            table == wanted,
            "audit/src/kubelet_start/{name} is out of date; audit/src/kubelet_start/table.rs says \
             how to write it"
        );
    }
}
