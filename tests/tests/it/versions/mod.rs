//! What differs between the supported versions of Kubernetes, for docs/versions.md: fixed questions
//! to the API server of each version, with its answers in `observed/`, and nodelife's own tables.
//!
//! ```sh
//! NODELIFE_UPDATE_DOCS=1 NODELIFE_KUBERNETES=1.34 cargo test -p nodelife-tests --test it -- versions::probes
//! NODELIFE_UPDATE_DOCS=1 cargo test -p nodelife-tests --test it -- versions::page
//! ```

mod page;
mod probes;
mod questions;

use std::path::PathBuf;

/// Where the answers of a version are kept: a line for each question, with its name.
fn observed(minor: &str) -> PathBuf {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/versions/observed");
    PathBuf::from(folder).join(format!("{minor}.txt"))
}

fn is_update() -> bool {
    std::env::var_os("NODELIFE_UPDATE_DOCS").is_some()
}
