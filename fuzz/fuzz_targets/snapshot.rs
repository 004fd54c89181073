//! Any bytes as a snapshot file (JSON, YAML, gzip), and what can be read of them through every
//! rule.
#![no_main]

use std::path::Path;

use jiff::Timestamp;
use libfuzzer_sys::fuzz_target;
use nodelife_cluster::snapshot;
use nodelife_core::rule::{self, Selection};

fuzz_target!(|bytes: &[u8]| {
    // What it says about broken bytes is for its tests: here it must only come to an end.
    let Ok(snapshot) = snapshot::read_from(Path::new("fuzz.json"), bytes) else {
        return;
    };
    let audit = rule::audit(&snapshot, &Selection::default(), Timestamp::UNIX_EPOCH);
    let _ = serde_json::to_vec(&audit.findings);
});
