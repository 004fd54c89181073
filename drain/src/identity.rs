//! `DrainIdentity`: under which name a drain locks and cordons.

use jiff::{SignedDuration, Timestamp};
use nodelife_core::node_marks::{CordonOwner, LOCK_LEASE};
use nodelife_core::text::Str;

/// Who drains. The same identity is the same drain, gone on elsewhere, with its lock and cordons.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DrainIdentity {
    pub lease: Str,
    /// For how long it holds that nobody renews.
    pub lock_lease: SignedDuration,
    pub holder: String,
    /// Who cordons, for people; with `since` it is the annotation of a cordoned node.
    pub cordoned_by: String,
    /// Who reports the Events.
    pub instance: String,
    /// When the drain began first; none where it begins now.
    pub since: Option<Timestamp>,
}

impl DrainIdentity {
    pub fn of_process() -> Self {
        let holder = this_process();
        let start = Timestamp::now().as_nanosecond();
        Self {
            lease: format!("drain-{}-{start:x}", std::process::id()).into(),
            lock_lease: LOCK_LEASE,
            cordoned_by: std::env::var("USER").unwrap_or_else(|_| "nodelife".to_owned()),
            instance: holder.clone(),
            holder,
            since: None,
        }
    }

    pub fn cordon_owner(&self, now: Timestamp) -> CordonOwner {
        CordonOwner::new(&self.cordoned_by, self.since.unwrap_or(now))
    }
}

fn this_process() -> String {
    let mut names = ["USER", "LOGNAME", "USERNAME"].iter();
    let user = names.find_map(|name| std::env::var(name).ok());
    let (host, pid) = (host(), std::process::id());
    match user.filter(|user| !user.is_empty()) {
        Some(user) => format!("{user}@{host}, process {pid}"),
        None => format!("{host}, process {pid}"),
    }
}

#[cfg(unix)]
fn host() -> String {
    let name = rustix::system::uname();
    name.nodename().to_string_lossy().into_owned()
}

#[cfg(not(unix))]
fn host() -> String {
    std::env::var("COMPUTERNAME").unwrap_or_default()
}
