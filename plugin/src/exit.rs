//! Exit statuses.

use std::io::{self, Write as _};
use std::process::ExitCode;

use nodelife_cluster::ConnectError;
use nodelife_drain::DrainStatus;

use crate::output::Printer;

/// How a command ends: with a status, or with an error, which has one by [`ExitStatus::of_error`].
pub(crate) type Exit = anyhow::Result<ExitStatus>;

/// The exit statuses of every command, ordered by which of two goes first. Those of drains have their
/// numbers from [`DrainStatus::code`], as the status of a NodeMaintenance has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ExitStatus {
    /// 0: done; no finding at or above `--fail-on`.
    Done,
    /// 3: findings, or a configuration that the kubelet would refuse.
    Findings,
    /// 4: drain refused a node, or all: a flag is needed; nothing was changed there.
    Refused,
    /// 5: a budget is in the way; may succeed later.
    Blocked,
    /// 6: evicted, but not gone.
    Stuck,
    /// 7: cannot succeed as things are.
    Impossible,
    /// 1: the API server could not be reached, the state is not known, or an internal error.
    Failed,
    /// 2: the command line does not make sense.
    Usage,
    /// 130: interrupted by SIGINT, SIGTERM or SIGHUP.
    Interrupted,
}

impl ExitStatus {
    pub(crate) fn of_findings(any: bool) -> Self {
        if any { Self::Findings } else { Self::Done }
    }

    /// That of a command whose data may lack what the API server did not give.
    pub(crate) fn of_reading(is_whole: bool) -> Self {
        if is_whole { Self::Done } else { Self::Failed }
    }

    pub(crate) fn code(self) -> u8 {
        match self {
            Self::Usage => 2,
            Self::Findings => 3,
            Self::Done => DrainStatus::Done.code(),
            Self::Failed => DrainStatus::Failed.code(),
            Self::Refused => DrainStatus::Refused.code(),
            Self::Blocked => DrainStatus::Blocked.code(),
            Self::Stuck => DrainStatus::Stuck.code(),
            Self::Impossible => DrainStatus::Impossible.code(),
            Self::Interrupted => DrainStatus::Interrupted.code(),
        }
    }

    /// The status of two things done in one command: 1 over 7 over 6 over 5 over 4.
    ///
    /// A part that was not known (1) hides how bad the rest is, so it goes first. The
    /// statuses that end a command on the spot stand above those.
    #[must_use]
    pub(crate) fn and(self, other: Self) -> Self {
        self.max(other)
    }

    pub(crate) fn of_error(error: &anyhow::Error, printer: &mut Printer) -> Self {
        printer.error(error);
        let connect = error.downcast_ref::<ConnectError>();
        if error.is::<UsageError>() || connect.is_some_and(ConnectError::is_usage) {
            Self::Usage
        } else if error.is::<KubeletRefuses>() {
            Self::Findings
        } else {
            Self::Failed
        }
    }
}

impl From<DrainStatus> for ExitStatus {
    fn from(status: DrainStatus) -> Self {
        match status {
            DrainStatus::Done => Self::Done,
            DrainStatus::Refused => Self::Refused,
            DrainStatus::Blocked => Self::Blocked,
            DrainStatus::Stuck => Self::Stuck,
            DrainStatus::Impossible => Self::Impossible,
            DrainStatus::Failed => Self::Failed,
            DrainStatus::Interrupted => Self::Interrupted,
        }
    }
}

impl From<ExitStatus> for ExitCode {
    fn from(status: ExitStatus) -> Self {
        Self::from(status.code())
    }
}

/// A command line that clap could not know to be wrong, such as an unknown rule.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct UsageError(pub(crate) String);

#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct KubeletRefuses(pub(crate) String);

/// Prints what clap has to say: help and version on stdout, mistakes on stderr.
pub(crate) fn of_usage(answer: &clap::Error) -> ExitStatus {
    let printed = answer.print().and_then(|()| io::stdout().flush());
    if answer.use_stderr() {
        return ExitStatus::Usage;
    }
    match printed {
        // A closed pipe under `--help | head` is no failure.
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            // Nobody is left to tell if that fails too.
            let _ = writeln!(io::stderr(), "error: failed to write the output: {error}");
            ExitStatus::Failed
        }
        _ => ExitStatus::Done,
    }
}

#[cfg(test)]
mod tests {
    use super::ExitStatus::*;

    #[test]
    fn one_outranks_seven_six_five_and_four() {
        let falling = [Failed, Impossible, Stuck, Blocked, Refused, Done];
        for (i, worse) in falling.iter().enumerate() {
            for better in &falling[i..] {
                assert_eq!(worse.and(*better), *worse);
                assert_eq!(better.and(*worse), *worse);
            }
        }
    }

    #[test]
    fn the_numbers_are_the_documented_ones() {
        let all = [
            Done,
            Failed,
            Usage,
            Findings,
            Refused,
            Blocked,
            Stuck,
            Impossible,
            Interrupted,
        ];
        let codes: Vec<u8> = all.iter().map(|s| s.code()).collect();
        assert_eq!(codes, [0, 1, 2, 3, 4, 5, 6, 7, 130]);
    }
}
