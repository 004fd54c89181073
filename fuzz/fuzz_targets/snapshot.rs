//! Fuzz target: a snapshot file. Each input is refused, or every rule runs on it.

#![no_main]

use std::io::Write;
use std::path::PathBuf;

use jiff::Timestamp;
use libfuzzer_sys::fuzz_target;
use nodelife_cluster::snapshot;
use nodelife_audit::Selection;
use nodelife_core::zone::{Settings, ZoneReport};

fuzz_target!(|bytes: &[u8]| {
    // The reader takes files; this one is never written to a disk.
    let path = PathBuf::from(format!(
        "/dev/shm/nodelife-fuzz-{}.json",
        std::process::id()
    ));
    let written = std::fs::File::create(&path).and_then(|mut file| file.write_all(bytes));
    assert!(written.is_ok(), "{written:?}");
    let Ok(read) = snapshot::read(&[path]) else {
        return;
    };
    let snapshot = read.snapshot;
    let audit = nodelife_audit::audit(&snapshot, &Selection::default(), Timestamp::UNIX_EPOCH);
    assert!(audit.checked + audit.skipped.len() == nodelife_audit::all().count());
    let settings = Settings::for_version(snapshot.server_version.as_deref());
    let _ = ZoneReport::of(&snapshot.nodes, &settings, snapshot.taken_at);
    let mut again = Vec::new();
    assert!(snapshot::write_to(&snapshot, &mut again).is_ok());
});
