//! `Notifier`: tells channels what has become of maintenances.
//!
//! What there is to tell follows from the status, and what a channel has taken is written there: another
//! leader tells it again only if this one ended in between. A channel is a key of a mounted Secret, and its
//! URL is said to nobody.

mod notification;
mod post;

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::Uri;
use jiff::Timestamp;
use nodelife_core::go_duration::{TimeLimit, time_limit};
use nodelife_core::node_maintenance::{MaintenanceStatus, NodeMaintenance, Notified};
use nodelife_core::text::Str;
use nodelife_drain::deadline;
use serde_json::Value;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use super::events;
use notification::{body, document};

/// The channel of a maintenance that names none.
const DEFAULT: &str = "default";
const BLOCKED: &str = "blocked";
const NO_KEY: &str = "the Secret nodelife-notify has no such key";

/// The pauses before each try, in seconds, and how long one may take.
const PAUSES: [u64; 5] = [0, 2, 10, 60, 300];
const TRY: Duration = Duration::from_secs(10);
/// Tries at the same time: each has a connection and the authorities of its own.
const TURNS: usize = 8;
/// What is older is no news: a channel that is new is not told of all that was.
const STALE: Duration = Duration::from_hours(1);

/// What channels there are, and how patient they are.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct NotifySettings {
    /// Directory with a file for each channel that is told of maintenances, which holds its URL, such
    /// as a mounted Secret; read whenever something is told.
    #[arg(long = "notify-dir", value_name = "DIR")]
    dir: Option<PathBuf>,
    /// How long a maintenance is blocked before channels are told.
    #[arg(long = "notify-blocked-after", value_name = "DURATION", default_value = "15m", value_parser = time_limit)]
    blocked_after: Duration,
}

/// Sends what workers tell, also after the end of their objects, until it is dropped.
pub(super) struct Notifier {
    settings: NotifySettings,
    turns: Arc<Semaphore>,
    sends: Mutex<JoinSet<()>>,
}

impl Notifier {
    pub(super) fn new(settings: &NotifySettings) -> Self {
        Self {
            settings: settings.clone(),
            turns: Arc::new(Semaphore::new(TURNS)),
            sends: Mutex::default(),
        }
    }

    fn send(&self, delivery: Delivery, told: watch::Sender<Vec<Notified>>) {
        let (dir, turns) = (self.settings.dir.clone(), Arc::clone(&self.turns));
        let mut sends = self.sends.lock().unwrap_or_else(PoisonError::into_inner);
        while sends.try_join_next().is_some() {}
        sends.spawn(async move {
            if let Some(error) = delivery.run(dir.as_deref(), &turns).await {
                let error = error.into();
                let one = Notified {
                    error,
                    ..delivery.told
                };
                told.send_modify(|all| put(all, one));
            }
        });
    }
}

/// What is told of one maintenance.
pub(super) struct Notices {
    notifier: Arc<Notifier>,
    /// What this leader has begun to tell.
    begun: Vec<Notified>,
    /// What has come of that.
    ended: watch::Sender<Vec<Notified>>,
    changes: watch::Receiver<Vec<Notified>>,
    /// When the blockage has lasted for long.
    next: Option<Instant>,
}

impl Notices {
    pub(super) fn new(notifier: &Arc<Notifier>) -> Self {
        let (ended, changes) = watch::channel(Vec::new());
        Self {
            notifier: Arc::clone(notifier),
            begun: Vec::new(),
            ended,
            changes,
            next: None,
        }
    }

    /// Waits until there is something to write, or to tell.
    pub(super) async fn changed(&mut self) {
        tokio::select! {
            _ = self.changes.changed() => {}
            () = deadline(self.next) => self.next = None,
        }
    }

    /// Whether something is to be written.
    pub(super) fn has_news(&self, status: &MaintenanceStatus) -> bool {
        let ended = self.ended.borrow();
        ended.iter().any(|one| !status.notified.contains(one))
    }

    /// Notes what channels have taken, in a status that is about to be written.
    pub(super) fn note(&self, status: &mut MaintenanceStatus) {
        for one in &*self.ended.borrow() {
            put(&mut status.notified, one.clone());
        }
    }

    /// Tells what the status says, as it was written, and no channel was told.
    pub(super) fn tell(&mut self, object: &NodeMaintenance, now: Timestamp) {
        self.next = None;
        if object.is_deleted() || object.unreadable().is_some() {
            return;
        }
        let blocked_after = self.notifier.settings.blocked_after;
        let (due, wait) = due(&object.status, blocked_after, now);
        self.next = wait.map(|wait| Instant::now() + wait);
        let by_default = [Str::from(DEFAULT)];
        let channels = object.spec.notify.as_deref().unwrap_or(&by_default);
        let all = channels
            .iter()
            .flat_map(|one| due.iter().map(move |notice| (one, notice)));
        for (channel, notice) in all {
            let begun = Notified {
                channel: channel.clone(),
                event: notice.0.into(),
                time: notice.1,
                error: Str::default(),
            };
            // Of what is so again after a short while, nobody is told again.
            let is_known = |one: &Notified| {
                (&one.channel, &one.event) == (&begun.channel, &begun.event)
                    && between(one.time, begun.time) <= blocked_after.saturating_mul(2)
            };
            let mut known = object.status.notified.iter().chain(&self.begun);
            if !known.any(is_known) {
                let delivery = Delivery {
                    told: begun.clone(),
                    is_named: object.spec.notify.is_some(),
                    document: document(object, notice),
                };
                self.notifier.send(delivery, self.ended.clone());
                put(&mut self.begun, begun);
            }
        }
    }
}

/// Takes it in, in the place of what the channel was told of that before.
fn put(all: &mut Vec<Notified>, one: Notified) {
    all.retain(|old| (&old.channel, &old.event) != (&one.channel, &one.event));
    all.push(one);
}

fn between(from: Timestamp, to: Timestamp) -> Duration {
    Duration::try_from(to.duration_since(from)).unwrap_or_default()
}

/// Something that channels are told: the event, since when it is so, and the sentence.
type Notice = (&'static str, Timestamp, String);

/// What there is to tell, and how long it takes until there is more.
fn due(
    status: &MaintenanceStatus,
    blocked_after: Duration,
    now: Timestamp,
) -> (Vec<Notice>, Option<Duration>) {
    let (mut due, mut wait) = (Vec::new(), None);
    let mut add = |event, time, text| {
        if event == BLOCKED || between(time, now) < STALE {
            due.push((event, time, text));
        }
    };
    if let Some(time) = status.started_at {
        let text = format!("has begun: {}", events::begun(status));
        add("begun", time, text);
    }
    if let Some(time) = status.finished_at {
        match events::ended(status) {
            (true, text) => add("done", time, format!("is done: {text}")),
            (false, text) => add("failed", time, format!("has failed: {text}")),
        }
    } else if let Some(why) = status.blocked() {
        // A budget that lets others go is at work, and the next leader keeps these times.
        let pods = status.pods.iter().filter_map(|pod| pod.blocked_since).min();
        let pods = pods.filter(|_| why.reason == *"PodsBlocked");
        let since = pods.unwrap_or(why.last_transition_time);
        let spent = between(since, now);
        if spent < blocked_after {
            wait = Some(blocked_after.saturating_sub(spent));
        } else {
            let spent = TimeLimit(Duration::from_secs(spent.as_secs()));
            let (reason, message) = (&why.reason, &why.message);
            let text = format!("has been blocked for {spent}: {reason}: {message}");
            add(BLOCKED, since, text);
        }
    }
    (due, wait)
}

/// A message on its way to one channel.
struct Delivery {
    /// What is written if it is taken.
    told: Notified,
    /// Else it is told if there is such a channel.
    is_named: bool,
    document: Value,
}

impl Delivery {
    /// Sends it; returns the error, empty if it was taken, and nothing if nobody is to be told.
    async fn run(&self, dir: Option<&Path>, turns: &Semaphore) -> Option<String> {
        let Notified { channel, event, .. } = &self.told;
        let mut why = String::new();
        for pause in PAUSES {
            sleep(Duration::from_secs(pause)).await;
            let url = match url(dir, channel).await {
                Ok(url) => url,
                Err(NO_KEY) if !self.is_named => return None,
                Err(error) => return Some(error.to_owned()),
            };
            let _turn = turns.acquire().await;
            let body = body(&self.document, url.host().unwrap_or_default());
            match timeout(TRY, post::post(url, body.to_string())).await {
                Ok(Ok(())) => return Some(String::new()),
                Ok(Err(error)) => why = format!("{error:#}"),
                Err(_elapsed) => why = format!("no answer within {}", TimeLimit(TRY)),
            }
        }
        let maintenance = self.document.get("maintenance").and_then(Value::as_str);
        tracing::warn!(maintenance, %channel, %event, "failed to tell a channel: {why}");
        Some(why)
    }
}

/// The URL of a channel, as the file says now.
async fn url(dir: Option<&Path>, channel: &str) -> Result<Uri, &'static str> {
    // The schema admits no other; it keeps the file in its directory.
    let is_key = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let is_key = channel.starts_with(|c| c != '.') && channel.chars().all(is_key);
    let dir = dir.filter(|_| is_key).ok_or(NO_KEY)?;
    let text = tokio::fs::read_to_string(dir.join(channel)).await;
    let text = text.map_err(|error| match error.kind() {
        ErrorKind::NotFound => NO_KEY,
        _ => "its value cannot be read",
    })?;
    let url = text.trim().parse::<Uri>().ok();
    let url = url.filter(|url| matches!(url.scheme_str(), Some("http" | "https")));
    url.ok_or("its value is no http:// or https:// URL")
}

#[cfg(test)]
mod tests {
    use nodelife_core::node_maintenance::{UnsettledPod, condition};

    use super::super::status::set_condition;
    use super::*;

    const BLOCKED_AFTER: Duration = Duration::from_mins(15);

    fn minute(minute: i64) -> Timestamp {
        Timestamp::from_second(minute * 60).unwrap()
    }

    fn told(status: &MaintenanceStatus, now: i64) -> (Vec<(&'static str, String)>, Option<u64>) {
        let (due, wait) = due(status, BLOCKED_AFTER, minute(now));
        let due = due.into_iter().map(|(event, _, text)| (event, text));
        (due.collect(), wait.map(|wait| wait.as_secs() / 60))
    }

    #[test]
    fn a_channel_is_told_what_is_so_now() {
        let mut status = MaintenanceStatus::default();
        assert_eq!(told(&status, 0), (vec![], None));
        status.started_at = Some(minute(0));
        let begun = ("begun", "has begun: drains ".to_owned());
        assert_eq!(told(&status, 1), (vec![begun.clone()], None));
        let blocked = (condition::BLOCKED, true);
        set_condition(&mut status, blocked, ("PodsBlocked", "web"), minute(10));
        assert_eq!(told(&status, 20), (vec![begun.clone()], Some(5)));
        let text = "has been blocked for 15m: PodsBlocked: web".to_owned();
        assert_eq!(told(&status, 25), (vec![begun, ("blocked", text)], None));
        // A budget lets others go: it is at work.
        let blocked_since = Some(minute(20));
        status.pods = vec![UnsettledPod {
            blocked_since,
            ..UnsettledPod::default()
        }];
        assert_eq!(
            told(&status, 70),
            (
                vec![(
                    "blocked",
                    "has been blocked for 50m: PodsBlocked: web".to_owned()
                )],
                None
            )
        );
        status.finished_at = Some(minute(80));
        status.progress = Some("0/1".into());
        let failed = ("failed", "has failed: 0/1 nodes drained".to_owned());
        assert_eq!(told(&status, 81), (vec![failed], None));
        // To a channel that is new, this is no news.
        assert_eq!(told(&status, 140), (vec![], None));
    }

    #[tokio::test]
    async fn a_blockage_is_told_again_after_a_while() {
        let settings = NotifySettings {
            dir: None,
            blocked_after: BLOCKED_AFTER,
        };
        let mut object = NodeMaintenance::default();
        object.spec.notify = Some(vec!["a".into()]);
        let mut tell = |leader: &mut Notices, since: i64, now: i64| {
            object.status.conditions.clear();
            let blocked = (condition::BLOCKED, true);
            set_condition(
                &mut object.status,
                blocked,
                ("NodeLocked", ""),
                minute(since),
            );
            leader.tell(&object, minute(now));
            leader
                .begun
                .iter()
                .map(|one| one.time.as_second() / 60)
                .collect::<Vec<_>>()
        };
        let mut leader = Notices::new(&Arc::new(Notifier::new(&settings)));
        assert!(tell(&mut leader, 0, 14).is_empty());
        for (since, now, expected) in [(0, 15, 0), (20, 35, 0), (30, 50, 0), (31, 46, 31)] {
            assert_eq!(tell(&mut leader, since, now), [expected]);
        }
    }

    #[tokio::test]
    async fn a_channel_is_a_file_of_its_directory() {
        let folder = std::env::temp_dir().join(format!("nodelife-notify-{}", std::process::id()));
        std::fs::create_dir_all(folder.join("sub")).unwrap();
        for (name, text) in [
            ("a.b-c_1", " https://x.example/y\n"),
            ("..data", "http://x"),
            ("ftp", "ftp://x"),
            ("sub/a", "http://x"),
        ] {
            std::fs::write(folder.join(name), text).unwrap();
        }
        let found = url(Some(&folder), "a.b-c_1").await.unwrap();
        assert_eq!(found, "https://x.example/y");
        for none in ["..data", "", "..", "sub/a", "../a", "none", "/etc/hostname"] {
            assert_eq!(url(Some(&folder), none).await, Err(NO_KEY), "{none}");
        }
        for wrong in ["ftp", "sub"] {
            assert_ne!(url(Some(&folder), wrong).await.unwrap_err(), NO_KEY);
        }
        std::fs::remove_dir_all(folder).unwrap();
    }
}
