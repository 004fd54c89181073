//! The webhook's certificates: a CA, a leaf, and their rotation without one failed call.
//!
//! ```text
//! cluster ──read──▶ Observed ──step(history, now)──▶ Actions ──write──▶ cluster
//! ```
//!
//! [`step`] decides and knows neither a client nor a key; `run` reads, asks it and
//! carries out what it says. Every write is conditional on the resourceVersion that was
//! read, so any number of writers may run; a Lease only keeps them from doing the same
//! work twice.
//!
//! The promise is publish-ahead: a leaf replaces a working one only after its CA was
//! seen in every webhook configuration for [`Lifetimes::propagation`], because API
//! servers learn a caBundle through watches that nobody acknowledges. The old CA stays
//! in the bundle until the last leaf that it signed is dead.

mod authority;
mod certificate;
mod error;
mod history;
mod leaf;
mod lease;
mod lifetimes;
mod names;
mod observed;
mod offline;
mod rotator;
mod step;
mod store;
mod trust;

pub use authority::Authority;
pub use certificate::{Certificate, Fingerprint};
pub use error::Error;
pub use history::History;
pub use leaf::Leaf;
pub use lifetimes::Lifetimes;
pub use names::ObjectNames;
pub use observed::{Configuration, Now, Observed, Rotation, Serving};
pub use offline::{certificates, offline};
pub use rotator::{Report, Rotator, RotatorStatus};
pub use step::{RotationAction, step};
pub use trust::{Trust, trust};
