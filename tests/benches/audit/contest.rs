//! Contestants of the bench, their costs and their limits.

use std::path::{Path, PathBuf};

use anyhow::Result;

use crate::meter::{Cost, measure};
use crate::say;

/// One that takes part.
pub(crate) struct Contestant<'a> {
    pub(crate) name: &'a str,
    pub(crate) program: PathBuf,
    pub(crate) arguments: Vec<&'a str>,
    pub(crate) kubeconfig: Option<&'a Path>,
    /// 3 is an audit with findings.
    pub(crate) accepted: &'a [i32],
    pub(crate) costs: Vec<Cost>,
}

impl<'a> Contestant<'a> {
    /// The bare download: this program again.
    pub(crate) fn floor(kubeconfig: &'a Path) -> Result<Self> {
        let program = std::env::current_exe()?;
        Ok(Self {
            arguments: vec!["--floor"],
            ..Self::peer("bare download", &program, kubeconfig)
        })
    }

    pub(crate) fn audit(name: &'a str, nodelife: &Path, kubeconfig: &'a Path) -> Self {
        Self {
            arguments: vec!["audit", "-o", "json"],
            accepted: &[0, 3],
            ..Self::peer(name, nodelife, kubeconfig)
        }
    }

    /// A program that is called as it is.
    pub(crate) fn peer(name: &'a str, program: &Path, kubeconfig: &'a Path) -> Self {
        Self {
            name,
            program: program.to_owned(),
            arguments: Vec::new(),
            kubeconfig: Some(kubeconfig),
            accepted: &[0],
            costs: Vec::new(),
        }
    }

    pub(crate) fn with(mut self, arguments: &[&'a str]) -> Self {
        self.arguments.extend(arguments);
        self
    }

    pub(crate) fn run(&mut self) -> Result<()> {
        let cost = measure(
            &self.program,
            &self.arguments,
            self.kubeconfig,
            self.accepted,
        )?;
        self.costs.push(cost);
        Ok(())
    }

    /// Seconds, the median of all runs.
    pub(crate) fn wall(&self) -> f64 {
        median(self.costs.iter().map(|cost| cost.wall.as_secs_f64()))
    }

    /// Seconds of all its threads, the median of all runs.
    pub(crate) fn cpu(&self) -> f64 {
        median(self.costs.iter().map(|cost| cost.cpu.as_secs_f64()))
    }

    /// The most of all runs, in MiB.
    pub(crate) fn peak(&self) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "far below 2^52 bytes")]
        let mib = |cost: &Cost| cost.peak as f64 / f64::from(1 << 20);
        self.costs.iter().map(mib).fold(0.0, f64::max)
    }
}

/// Lets everybody take turns, and prints medians beside the first one's.
///
/// After a large list or two the API server collects its garbage, which takes it as long as the
/// list did, and the next one in the row finds it at that. So the row turns around each time, and
/// an even number of rounds does nobody wrong.
pub(crate) fn compete(
    contestants: &mut [Contestant<'_>],
    title: &str,
    repeats: usize,
) -> Result<()> {
    for round in 0..repeats {
        let mut row: Vec<_> = contestants.iter_mut().collect();
        if round % 2 == 1 {
            row.reverse();
        }
        row.into_iter().try_for_each(Contestant::run)?;
    }
    say(&format!(
        "\n{title}, medians of {repeats}, peak of all\n{:<28} {:>9} {:>9} {:>10} {:>7} {:>7} {:>7}",
        "", "wall s", "CPU s", "peak MiB", "x wall", "x CPU", "x peak",
    ))?;
    let Some((first_wall, first_cpu, first_peak)) = contestants
        .first()
        .map(|one| (one.wall(), one.cpu(), one.peak()))
    else {
        return Ok(());
    };
    for one in contestants.iter() {
        let (wall, cpu, peak) = (one.wall(), one.cpu(), one.peak());
        say(&format!(
            "{:<28} {wall:>9.2} {cpu:>9.2} {peak:>10.1} {:>7.2} {:>7.2} {:>7.2}",
            one.name,
            wall / first_wall,
            cpu / first_cpu,
            peak / first_peak,
        ))?;
    }
    for one in contestants.iter() {
        let walls = one
            .costs
            .iter()
            .map(|cost| format!("{:.2}", cost.wall.as_secs_f64()));
        say(&format!(
            "  {}: {}",
            one.name,
            walls.collect::<Vec<_>>().join(" ")
        ))?;
    }
    Ok(())
}

/// What was wanted, and whether it was so.
#[derive(Default)]
pub(crate) struct Verdict {
    /// What was passed, in words.
    missed: Vec<String>,
}

impl Verdict {
    /// Holds a number against its limit and says so.
    pub(crate) fn at_most(&mut self, what: &str, measured: f64, limit: f64) -> Result<()> {
        self.judge(what, measured, measured <= limit, "at most", limit)
    }

    /// Holds a number against what it has to reach and says so.
    pub(crate) fn at_least(&mut self, what: &str, measured: f64, limit: f64) -> Result<()> {
        self.judge(what, measured, measured >= limit, "at least", limit)
    }

    fn judge(
        &mut self,
        what: &str,
        measured: f64,
        kept: bool,
        word: &str,
        limit: f64,
    ) -> Result<()> {
        let line = format!("{what}: {measured:.2}, wanted {word} {limit}");
        say(&format!(
            "{} {line}",
            if kept { "kept  " } else { "MISSED" }
        ))?;
        if !kept {
            self.missed.push(line);
        }
        Ok(())
    }

    /// An error when a limit was passed.
    pub(crate) fn end(self) -> Result<()> {
        anyhow::ensure!(self.missed.is_empty(), "{}", self.missed.join("; "));
        Ok(())
    }
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    let at = |place: usize| values.get(place).copied().unwrap_or(f64::NAN);
    if values.len() % 2 == 1 {
        return at(middle);
    }
    f64::midpoint(at(middle.wrapping_sub(1)), at(middle))
}
