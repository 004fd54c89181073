//! Sets up the admission engine from the flags.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use anyhow::Context as _;
use nodelife_admission::{ConfigFile, ConfigFileError, Policies, RecordedCluster};

use crate::cli::EngineArgs;

/// The policies, and the objects to look up if there are any.
pub(super) fn read(args: &EngineArgs) -> anyhow::Result<(Policies, Option<RecordedCluster>)> {
    let file = match &args.config {
        Some(path) => parsed(path, ConfigFile::parse)?,
        None => ConfigFile::default(),
    };
    let objects = args.objects.as_deref();
    let objects = objects.map(|path| parsed(path, RecordedCluster::parse));
    Ok((file.policies(&args.set)?, objects.transpose()?))
}

fn parsed<T>(path: &Path, parse: fn(&str) -> Result<T, ConfigFileError>) -> anyhow::Result<T> {
    let failed = || format!("failed to read {}", path.display());
    let text = std::fs::read_to_string(path).with_context(failed)?;
    parse(&text).with_context(failed)
}

/// A file, or stdin for `-`.
pub(super) fn open(path: &Path) -> anyhow::Result<Box<dyn BufRead>> {
    if path == Path::new("-") {
        return Ok(Box::new(BufReader::new(std::io::stdin())));
    }
    let file = File::open(path).with_context(|| format!("failed to read {}", path.display()))?;
    Ok(Box::new(BufReader::new(file)))
}
