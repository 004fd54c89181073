//! Snapshots: collected from a cluster, read from files, written to a file.

mod access;
mod collect;
mod complete;
mod document;
mod file;
mod gathered;
mod go_names;
pub mod kinds;
mod piece;
mod place;
mod redact;
mod shape;
mod stream;
mod write;

pub use access::node_restriction;
pub use collect::{SourceProgress, collect};
pub use file::{FileError, FromFiles, read};
pub use place::place;
pub use redact::redact;
pub use write::{WriteError, write, write_to, write_whole};
