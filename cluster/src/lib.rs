//! API client of the plugin, and reader and writer of snapshot files.
//!
//! - [`client`]: from kubectl's flags to a [`Cluster`]
//! - [`request`]: one request, one answer; every byte goes through here
//! - [`listing`]: the resources that can be listed and watched, and how they decode
//! - [`list`], [`watch`]: paged lists, and streams that survive what networks do
//! - [`evict`], [`node`], `drain_lock`, [`maintenance`]: the few writes, each a minimal body of our own
//! - [`event_recorder`]: Events, written in the background
//! - [`LeaseLock`]: a Lease that one process holds at a time
//! - [`snapshot`]: all that an audit or a plan needs, from a cluster or from files

mod access;
pub mod client;
mod drain_lock;
mod error;
pub mod event_recorder;
pub mod evict;
mod frames;
mod json;
mod known;
mod kubelet;
mod lease_lock;
pub mod list;
pub mod listing;
pub mod maintenance;
pub mod node;
mod page;
pub mod request;
pub mod resource;
mod retry;
mod shared_watch;
pub mod snapshot;
mod warning;
pub mod watch;
mod watch_state;
pub mod wire;

pub use access::Permission;
pub use client::{ClientOptions, Cluster, Identity, USER_AGENT, without_user};
pub use error::{ApiError, ApiResult, ConnectError};
pub use known::Known;
pub use kubelet::{Configz, knock};
pub use lease_lock::{LeaseLock, LeaseName, unique_identity};
pub use retry::retry_on_conflict;
pub use shared_watch::SharedWatches;
pub use snapshot::{WriteError, write_whole};
pub use warning::ServerWarnings;
pub use watch_state::WatchStates;
