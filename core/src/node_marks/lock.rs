//! Drain lock: an annotation on the node, so that only one drain works on it.
//!
//! An annotation of the node itself needs no right that a drain does not have anyway (`patch
//! nodes`, for the cordon), and it is gone with the node. A Lease would need two more, in a
//! namespace that would have to be agreed on.

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use crate::object::Node;

/// The annotation that holds a [`Lock`] as JSON.
pub const LOCK_ANNOTATION: &str = "nodelife.dev/drain-lock";

/// For how long a lock holds that nobody renews.
pub const LOCK_LEASE: SignedDuration = SignedDuration::from_mins(1);

/// How often the holder renews: three renewals may fail before the lock passes on.
pub const LOCK_RENEWAL: SignedDuration = SignedDuration::from_secs(15);

/// A drain that has a node to itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Lock {
    /// Who, for people: user, machine and process id.
    pub holder: String,
    /// Since when, by the API server's clock.
    pub since: Timestamp,
    /// When the holder was last heard of, by the API server's clock.
    pub renewed_at: Timestamp,
}

impl Lock {
    /// The lock on a node. A text that is not a lock counts as none.
    pub fn on(node: &Node) -> Option<Self> {
        serde_json::from_str(Self::text_on(node)?).ok()
    }

    /// The text of the annotation, which only a swap of exactly this text may replace.
    pub fn text_on(node: &Node) -> Option<&str> {
        let annotations = &node.metadata.annotations;
        annotations.get(LOCK_ANNOTATION).map(AsRef::as_ref)
    }

    /// Whether this is the same run of the same drain, renewed or not.
    pub fn is_of(&self, other: &Self) -> bool {
        (&self.holder, self.since) == (&other.holder, other.since)
    }

    /// Whether the holder was not heard of for too long. A time in the future is no better than
    /// one in the past: nobody may hold a node by a clock that was wrong.
    pub fn has_expired(&self, now: Timestamp) -> bool {
        now.duration_since(self.renewed_at).abs() > LOCK_LEASE
    }

    /// Who, since when, and when the lock passes on if nobody renews it.
    pub fn describe(&self, now: Timestamp) -> String {
        let silent = now.duration_since(self.renewed_at).as_secs();
        let renewed = if silent > 0 {
            format!("last renewed {silent} s ago")
        } else {
            "renewed just now".to_owned()
        };
        let left = (LOCK_LEASE.as_secs() - silent).max(0);
        format!(
            "{} has been draining it since {:.0}, {renewed}; if that drain is dead, its lock \
             expires in {left} s",
            self.holder, self.since
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::UNIX_EPOCH + SignedDuration::from_secs(seconds)
    }

    fn lock() -> Lock {
        Lock {
            holder: "ann@desk, process 7".to_owned(),
            since: at(100),
            renewed_at: at(160),
        }
    }

    fn node(text: &str) -> Node {
        let mut node = Node::default();
        let annotations = &mut node.metadata.annotations;
        annotations.insert(LOCK_ANNOTATION.into(), text.into());
        node
    }

    #[test]
    fn reads_its_own_lock_and_ignores_invalid_text() {
        let text = serde_json::to_string(&lock()).unwrap();
        assert_eq!(
            text,
            r#"{"holder":"ann@desk, process 7","since":"1970-01-01T00:01:40Z","renewedAt":"1970-01-01T00:02:40Z"}"#
        );
        assert_eq!(Lock::on(&node(&text)), Some(lock()));
        assert_eq!(Lock::on(&node("mine!")), None);
        assert_eq!(Lock::on(&Node::default()), None);
    }

    #[test]
    fn silence_and_a_wrong_clock_both_end_a_lock() {
        assert!(!lock().has_expired(at(160)));
        assert!(!lock().has_expired(at(220)));
        assert!(lock().has_expired(at(221)));
        assert!(lock().has_expired(at(99)), "from the future");
    }

    #[test]
    fn a_renewed_lock_is_of_the_same_run() {
        let renewed = Lock {
            renewed_at: at(175),
            ..lock()
        };
        assert!(renewed.is_of(&lock()));
        let again = Lock {
            since: at(101),
            ..lock()
        };
        assert!(!again.is_of(&lock()));
    }

    #[test]
    fn describes_the_holder_and_the_time_to_expiry() {
        assert_eq!(
            lock().describe(at(164)),
            "ann@desk, process 7 has been draining it since 1970-01-01T00:01:40Z, last renewed \
             4 s ago; if that drain is dead, its lock expires in 56 s"
        );
    }
}
