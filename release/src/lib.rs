//! Packages releases of the plugin: an archive per platform, checksums, licence notices and krew's
//! manifest.

pub mod archive;
pub mod krew;
pub mod notices;
pub mod platform;
pub mod target;

/// The version of this workspace, as git tags and krew write it.
pub const VERSION: &str = concat!("v", env!("CARGO_PKG_VERSION"));

pub const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
