//! Packs the plugin for people who have no Rust: an archive for each platform, their
//! checksums, the licences of everything inside, and the manifest by which krew installs it.

pub mod archive;
pub mod krew;
pub mod notices;
pub mod platform;
pub mod target;

/// The version of this workspace, as git tags and krew write it.
pub const VERSION: &str = concat!("v", env!("CARGO_PKG_VERSION"));

/// The root of the workspace.
pub const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
