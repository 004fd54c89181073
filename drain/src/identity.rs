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
    /// A drain of this process. `user`: as the API server knows them; else as this machine does.
    pub fn of_process(user: Option<String>) -> Self {
        let mut names = ["USER", "LOGNAME", "USERNAME"].iter();
        let user = user.or_else(|| names.find_map(|name| std::env::var(name).ok()));
        let user = user.filter(|user| !user.is_empty());
        let user = user.unwrap_or_else(|| "nodelife".to_owned());
        let (host, pid) = (host(), std::process::id());
        let holder = format!("{user} on {host}, process {pid}");
        let start = Timestamp::now().as_nanosecond();
        Self {
            lease: format!("drain-{pid}-{start:x}").into(),
            lock_lease: LOCK_LEASE,
            cordoned_by: user,
            instance: holder.clone(),
            holder,
            since: None,
        }
    }

    pub fn cordon_owner(&self, now: Timestamp) -> CordonOwner {
        CordonOwner::new(&self.cordoned_by, self.since.unwrap_or(now))
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
