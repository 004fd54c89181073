//! [`History`]: for how long this process has observed a state without a break.

use std::time::Duration;

use crate::certificate::Fingerprint;
use crate::observed::{Now, Observed};

/// Since when this process has observed a state without a break.
///
/// It is not stored, on purpose: a writer that restarts waits again, which costs minutes while the
/// lifetimes leave days, and only its own observations count.
#[derive(Clone, Debug, Default)]
pub struct History {
    /// CAs that every configuration held, since when.
    published: Vec<(Fingerprint, Duration)>,
    /// The CA that had signed the leaf in the serving Secret, since when.
    serving: Option<(Fingerprint, Duration)>,
}

impl History {
    /// Records `observed`, once per reading, before [`step`].
    ///
    /// `read` is the monotonic time after the reading, while [`step`] gets the time before it: an
    /// observation counts from the end of the first reading to the start of the last, however long
    /// one took.
    ///
    /// [`step`]: crate::step()
    pub fn note(&mut self, observed: &Observed, read: Duration) {
        self.published.retain(|(id, _)| observed.everywhere(*id));
        let bundle = observed.rotation.iter().flat_map(|one| &one.bundle);
        for certificate in bundle {
            let id = certificate.id;
            let known = self.published.iter().any(|(one, _)| *one == id);
            if !known && observed.everywhere(id) {
                self.published.push((id, read));
            }
        }
        let issuer = observed.serving.map(|serving| serving.issuer.id);
        if self.serving.map(|(id, _)| id) != issuer {
            self.serving = issuer.map(|id| (id, read));
        }
    }

    /// How long every configuration has held `id`; `None` when one does not.
    pub fn published(&self, id: Fingerprint, now: Now) -> Option<Duration> {
        let (_, since) = self.published.iter().find(|(one, _)| *one == id)?;
        Some(now.steady.saturating_sub(*since))
    }

    pub fn served(&self, id: Fingerprint, now: Now) -> Option<Duration> {
        let (issuer, since) = self.serving?;
        (issuer == id).then(|| now.steady.saturating_sub(since))
    }
}
