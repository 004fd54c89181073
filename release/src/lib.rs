//! Packages releases: an archive of the plugin per platform, checksums and licence notices; what comes beside
//! archives and images; and, for an address, krew's manifest, Homebrew's formula, the chart and README's table.

pub mod archive;
pub mod evidence;
pub mod krew;
pub mod notices;
pub mod platform;
pub mod published;
pub mod target;

/// The version of this workspace, as git tags and krew write it.
pub const VERSION: &str = concat!("v", env!("CARGO_PKG_VERSION"));

pub const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
