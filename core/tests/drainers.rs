//! What other drainers do with a pod, beside their own code: `tests/drainers/regenerate` asked it.

use std::collections::BTreeMap;

use nodelife_core::drainer::{DrainBy, Fate};
use nodelife_core::object::{Pod, WorkloadKind};
use nodelife_core::workload::Presence;
use serde::Deserialize;

#[derive(Deserialize)]
struct Line {
    pod: Pod,
    exists: bool,
    guarded: bool,
    verdicts: BTreeMap<String, String>,
}

fn words(fate: &Fate) -> String {
    match fate {
        Fate::Leaves => "leaves".to_owned(),
        Fate::Evicts => "evicts".to_owned(),
        Fate::Waits(_) => "waits".to_owned(),
        Fate::Refuses(_) => "refuses".to_owned(),
        Fate::Needs(needs) => {
            let flags = needs.iter().map(|(flag, _)| *flag);
            flags.fold("needs".to_owned(), |words, flag| format!("{words} {flag}"))
        }
    }
}

/// `NODELIFE_DRAINERS` is a file with more pods than those that are recorded.
#[test]
fn every_pod_meets_the_fate_that_the_drainers_code_has_for_it() {
    let lines = match std::env::var("NODELIFE_DRAINERS") {
        Ok(path) => std::fs::read_to_string(path).unwrap(),
        Err(_) => include_str!("drainers.jsonl").to_owned(),
    };
    let now = "2026-06-01T12:00:00Z".parse().unwrap();
    let (mut compared, mut wrong) = (0, Vec::new());
    for text in lines.lines() {
        let line: Line = serde_json::from_str(text).unwrap();
        let controller = match line.pod.metadata.controller().and_then(WorkloadKind::of) {
            Some(_) if line.exists => Presence::Present,
            Some(_) => Presence::Absent,
            // Of other kinds nobody knows whether they exist.
            None => Presence::Unknown,
        };
        for (drainer, verdict) in line.verdicts {
            let by: DrainBy = drainer.parse().unwrap();
            let fate = by.fate(&line.pod, controller, line.guarded, now);
            compared += 1;
            if words(&fate) != verdict {
                wrong.push(format!("{drainer}: {verdict}, not {fate:?}: {text}"));
            }
        }
    }
    assert!(compared > 1000, "{compared}");
    wrong.truncate(5);
    assert!(
        wrong.is_empty(),
        "{compared} compared:\n{}",
        wrong.join("\n")
    );
}
