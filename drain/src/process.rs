//! Identity of this process as a lock holder, and liveness of other holders on this machine.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use nodelife_core::node_marks::Lock;

/// Who runs this process, for people: user, machine and process id.
pub(crate) fn name() -> String {
    let user = ["USER", "LOGNAME", "USERNAME"]
        .iter()
        .find_map(|name| std::env::var(name).ok())
        .filter(|user| !user.is_empty());
    let host = host();
    let pid = std::process::id();
    match user {
        Some(user) => format!("{user}@{host}, process {pid}"),
        None => format!("{host}, process {pid}"),
    }
}

/// The name of this machine.
#[cfg(unix)]
fn host() -> String {
    let name = rustix::system::uname();
    name.nodename().to_string_lossy().into_owned()
}

#[cfg(not(unix))]
fn host() -> String {
    std::env::var("COMPUTERNAME").unwrap_or_default()
}

/// This process as the locks name it; empty where that is not known.
pub(crate) fn own() -> String {
    Process::own()
        .map(|own| own.to_string())
        .unwrap_or_default()
}

/// Whether the holder is known to have ended: a process of this machine that is no longer
/// there. Of other machines nothing is known.
pub(crate) fn is_dead(lock: &Lock) -> bool {
    let (Some(theirs), Some(own)) = (Process::parse(&lock.process), Process::own()) else {
        return false;
    };
    theirs.space == own.space && theirs.has_ended()
}

/// A process of a Linux kernel, of any machine: process ids are only unique within one start of
/// one kernel and one namespace, and even there they come again.
#[derive(Debug, PartialEq, Eq)]
struct Process {
    /// Start of the kernel, and the namespace of process ids.
    space: String,
    pid: u32,
    /// In ticks since the kernel's start.
    started: u64,
}

impl std::fmt::Display for Process {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}/{}", self.space, self.pid, self.started)
    }
}

impl Process {
    /// This one; nothing where there is no `/proc`.
    fn own() -> Option<Self> {
        let kernel = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
        let namespace = fs::read_link("/proc/self/ns/pid").ok()?;
        let namespace = namespace.to_str()?;
        let namespace = namespace.trim_start_matches("pid:[").trim_end_matches(']');
        let pid = std::process::id();
        Some(Self {
            space: format!("{}/{namespace}", kernel.trim()),
            pid,
            started: Stat::read(pid).ok()??.started,
        })
    }

    fn parse(text: &str) -> Option<Self> {
        let mut parts = text.rsplitn(3, '/');
        let started = parts.next()?.parse().ok()?;
        let pid = parts.next()?.parse().ok()?;
        Some(Self {
            space: parts.next()?.to_owned(),
            pid,
            started,
        })
    }

    fn has_ended(&self) -> bool {
        match Stat::read(self.pid) {
            Ok(Some(stat)) => stat.started != self.started || stat.ended,
            // With `hidepid` those of other users are not shown, and neither is the first.
            Err(error) => error.kind() == ErrorKind::NotFound && Path::new("/proc/1").exists(),
            Ok(None) => false,
        }
    }
}

/// What `/proc/PID/stat` says.
struct Stat {
    started: u64,
    /// Only its parent has not asked for its exit status yet.
    ended: bool,
}

impl Stat {
    fn read(pid: u32) -> std::io::Result<Option<Self>> {
        Ok(Self::parse(&fs::read_to_string(format!(
            "/proc/{pid}/stat"
        ))?))
    }

    /// `proc_pid_stat(5)`: field 2 is the name, in parentheses and with anything in it, field 3
    /// the state, field 22 the start.
    fn parse(text: &str) -> Option<Self> {
        let (_, fields) = text.rsplit_once(')')?;
        let mut fields = fields.split_ascii_whitespace();
        let state = fields.next()?;
        Some(Self {
            ended: matches!(state, "Z" | "X"),
            started: fields.nth(18)?.parse().ok()?,
        })
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use jiff::Timestamp;

    use super::*;

    fn held_by(process: &Process) -> Lock {
        Lock {
            holder: name(),
            process: process.to_string(),
            since: Timestamp::UNIX_EPOCH,
            renewed_at: Timestamp::UNIX_EPOCH,
        }
    }

    #[test]
    fn a_reused_pid_is_another_process() {
        let own = Process::own().unwrap();
        assert_eq!(
            Process::parse(&own.to_string()),
            Some(Process::own().unwrap())
        );
        assert!(!is_dead(&held_by(&own)));
        let earlier = Process {
            started: own.started + 1,
            ..own
        };
        assert!(is_dead(&held_by(&earlier)));
    }

    #[test]
    fn processes_of_other_machines_are_unknown() {
        let elsewhere = Process {
            space: "another/1".to_owned(),
            pid: u32::MAX,
            started: 1,
        };
        assert!(!is_dead(&held_by(&elsewhere)));
        assert!(!is_dead(&Lock {
            process: String::new(),
            ..held_by(&elsewhere)
        }));
    }

    #[test]
    fn a_process_that_is_gone_is_dead() {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let pid = child.id();
        // It has ended or not: its start can be read until it is waited for.
        let started = Stat::read(pid).unwrap().unwrap().started;
        child.wait().unwrap();
        let gone = Process {
            pid,
            started,
            ..Process::own().unwrap()
        };
        assert!(is_dead(&held_by(&gone)));
    }

    #[test]
    fn a_process_name_may_have_parentheses() {
        let text = "7 (a) S (b) Z 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 4711 0";
        let stat = Stat::parse(text).unwrap();
        assert_eq!((stat.ended, stat.started), (true, 4711));
    }
}
