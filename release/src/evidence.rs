//! What a release says about itself: the bill of materials of a program, and the provenance of files
//! and images. Nothing in them names the machine, the user or the time of the build.

use std::collections::BTreeMap;
use std::process::Command;

use anyhow::{Result, bail};
use serde_json::{Value, json};

use crate::notices::{self, Metadata, Package};
use crate::target::{metadata, output};
use crate::{VERSION, archive};

const LOCK: &str = include_str!("../../Cargo.lock");

/// The bill of materials of `package` as it is built for `target`, as `CycloneDX` 1.5: each crate that
/// is linked, with its licence and the checksum of Cargo.lock.
pub fn materials(package: &str, target: &str) -> Result<String> {
    let metadata: Metadata = metadata(&["--filter-platform", target])?;
    let sums = checksums(LOCK);
    let components = notices::linked(&metadata, package)?
        .into_iter()
        .map(|one| component(one, &sums));
    text(&json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": {
            "type": "application", "name": package, "version": VERSION.trim_start_matches('v'),
        }},
        "components": components.collect::<Vec<_>>(),
    }))
}

fn component(package: &Package, sums: &BTreeMap<(&str, &str), &str>) -> Value {
    let (name, version) = (package.name.as_str(), package.version.as_str());
    let license = package.license.as_deref().unwrap_or_default();
    let reference = format!("pkg:cargo/{name}@{version}");
    // deny.toml allows crates of the registry alone, and each has a checksum.
    json!({
        "type": "library", "name": name, "version": version,
        "bom-ref": reference, "purl": reference,
        "licenses": [{"expression": license.replace('/', " OR ")}],
        "hashes": [{"alg": "SHA-256", "content": sums.get(&(name, version))}],
    })
}

fn checksums(lock: &str) -> BTreeMap<(&str, &str), &str> {
    fn value<'a>(package: &'a str, key: &str) -> Option<&'a str> {
        let (_, rest) = package.split_once(&format!("\n{key} = \""))?;
        Some(rest.split_once('"')?.0)
    }
    let packages = lock.split("[[package]]");
    let found = packages.filter_map(|one| {
        Some((
            (value(one, "name")?, value(one, "version")?),
            value(one, "checksum")?,
        ))
    });
    found.collect()
}

/// The provenance of `subjects`, a name and a SHA-256 each, as an in-toto statement with SLSA's
/// predicate: the commit, Cargo.lock, the compiler and the command.
pub fn provenance(subjects: &[(String, String)], command: &str) -> Result<String> {
    let changes = output(Command::new("git").args(["status", "--porcelain"]))?;
    if let Some(change) = changes.lines().next() {
        bail!("the sources are those of no commit ('{change}'): commit or stash your changes");
    }
    let commit = output(Command::new("git").args(["rev-parse", "HEAD"]))?;
    let compiler = output(Command::new("rustc").arg("--version"))?;
    let lock = archive::sha256(LOCK.as_bytes());
    let subject =
        |(name, sha256): &(String, String)| json!({"name": name, "digest": {"sha256": sha256}});
    text(&json!({
        "_type": "https://in-toto.io/Statement/v1",
        "subject": subjects.iter().map(subject).collect::<Vec<_>>(),
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": {
            "buildDefinition": {
                "buildType": "https://nodelife.dev/release/v1",
                "externalParameters": {"command": command},
                "internalParameters": {"compiler": compiler.trim_end()},
                "resolvedDependencies": [
                    {"name": "nodelife", "digest": {"gitCommit": commit.trim_end()}},
                    {"name": "Cargo.lock", "digest": {"sha256": lock}},
                ],
            },
            "runDetails": {"builder": {"id": "https://nodelife.dev/release"}},
        },
    }))
}

fn text(value: &Value) -> Result<String> {
    Ok(serde_json::to_string_pretty(value)? + "\n")
}
