//! The webhook's certificates: a CA, a leaf, and a rotation that fails no call.
//!
//! ```text
//! cluster ──read──▶ Observed ──step(Situation)──▶ Actions ──write──▶ cluster
//! ```
//!
//! [`step`] decides, and knows neither a client nor a key; [`Rotator`] reads the cluster, calls it
//! and carries out its actions. Every write is conditional on the resourceVersion that was
//! read, so any number of writers may run; a Lease only avoids duplicate work.
//!
//! The invariant is publish-ahead: a leaf replaces a working one only after its CA was observed
//! in every webhook configuration for [`Lifetimes::propagation`], because API servers learn a
//! caBundle through watches that they do not acknowledge. The old CA stays in the bundle until
//! the last leaf that it signed has expired.

mod authority;
mod certificate;
mod error;
mod history;
mod leaf;
mod lifetimes;
mod names;
mod observed;
mod rotator;
mod step;
mod store;

pub use authority::Authority;
pub use certificate::{Certificate, Fingerprint, Trust, trust};
pub use error::Error;
pub use history::History;
pub use leaf::Leaf;
pub use lifetimes::Lifetimes;
pub use names::ObjectNames;
pub use observed::{Configuration, Now, Observed, Rotation, Serving};
pub use rotator::{Report, Rotator, RotatorStatus};
pub use step::{RotationAction, Situation, step};
