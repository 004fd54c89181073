//! The engine with what the flags give it.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use anyhow::Context as _;
use nodelife_admission::{Policies, Recorded};
use nodelife_cluster::policies::{load, recorded};

use crate::cli::EngineArgs;

/// The policies, and the objects to look up if there are any.
pub(super) fn read(args: &EngineArgs) -> anyhow::Result<(Policies, Option<Recorded>)> {
    let policies = load(args.config.as_deref(), &args.set)?;
    let objects = args.objects.as_deref().map(recorded).transpose()?;
    Ok((policies, objects))
}

/// A file, or stdin for `-`.
pub(super) fn open(path: &Path) -> anyhow::Result<Box<dyn BufRead>> {
    if path == Path::new("-") {
        return Ok(Box::new(BufReader::new(std::io::stdin())));
    }
    let file = File::open(path).with_context(|| format!("failed to read {}", path.display()))?;
    Ok(Box::new(BufReader::new(file)))
}
