//! Licence notices of all crates linked into the plugin.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, bail};
use serde::Deserialize;

use crate::target::metadata;

/// How the files that hold a licence, or what it demands to be passed on, begin.
const NAMES: [&str; 5] = ["license", "licence", "copying", "notice", "copyright"];

#[derive(Deserialize)]
pub(crate) struct Metadata {
    packages: Vec<Package>,
    resolve: Resolve,
}

#[derive(Deserialize)]
pub(crate) struct Package {
    id: String,
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) license: Option<String>,
    repository: Option<String>,
    source: Option<String>,
    manifest_path: String,
}

#[derive(Deserialize)]
struct Resolve {
    nodes: Vec<Node>,
}

#[derive(Deserialize)]
struct Node {
    id: String,
    deps: Vec<Dependency>,
}

#[derive(Deserialize)]
struct Dependency {
    pkg: String,
    dep_kinds: Vec<Kind>,
}

#[derive(Deserialize)]
struct Kind {
    /// None: linked; else `build` or `dev`.
    kind: Option<String>,
}

/// The notices of `package` as it is built for `target`: each licence's text once, under the
/// crates that it is for. Reads cargo's own sources of these crates; asks no network.
pub fn of(package: &str, target: &str) -> Result<String> {
    let metadata: Metadata = metadata(&["--filter-platform", target])?;
    let linked = linked(&metadata, package)?;
    let mut texts: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut page = format!(
        "{package} contains the following crates, each under the licence that it names.\n\
         The texts follow the list.\n\n"
    );
    for package in &linked {
        let Some(license) = &package.license else {
            bail!("{} {} names no licence", package.name, package.version);
        };
        let home = package.repository.as_deref().unwrap_or_default();
        writeln!(
            page,
            "{} {}  {license}  {home}",
            package.name, package.version
        )?;
        for text in license_texts(Path::new(&package.manifest_path))? {
            let crates = texts.entry(text).or_default();
            crates.push(format!("{} {}", package.name, package.version));
        }
    }
    let mut texts: Vec<_> = texts.into_iter().collect();
    texts.sort_by(|(_, a), (_, b)| a.cmp(b));
    for (text, crates) in texts {
        let line = "-".repeat(80);
        write!(
            page,
            "\n{line}\n{}\n{line}\n\n{}\n",
            crates.join(", "),
            text.trim_end()
        )?;
    }
    Ok(page)
}

/// The crates of others that are reached by dependencies that are linked, by name and version.
pub(crate) fn linked<'a>(metadata: &'a Metadata, package: &str) -> Result<Vec<&'a Package>> {
    let nodes = metadata.resolve.nodes.iter();
    let nodes: BTreeMap<&str, &Node> = nodes.map(|node| (node.id.as_str(), node)).collect();
    let mut packages = metadata.packages.iter();
    let start = packages.find(|one| one.name == package && one.source.is_none());
    let start = start.with_context(|| format!("no package {package} in this workspace"))?;
    let mut reached = BTreeSet::new();
    let mut open = vec![start.id.as_str()];
    while let Some(id) = open.pop() {
        if !reached.insert(id) {
            continue;
        }
        let dependencies = nodes.get(id).into_iter().flat_map(|node| &node.deps);
        let linked =
            dependencies.filter(|one| one.dep_kinds.iter().any(|kind| kind.kind.is_none()));
        open.extend(linked.map(|one| one.pkg.as_str()));
    }
    let is_linked = |one: &&Package| reached.contains(one.id.as_str()) && one.source.is_some();
    let mut packages: Vec<&Package> = metadata.packages.iter().filter(is_linked).collect();
    packages.sort_by(|a, b| (&a.name, &a.version).cmp(&(&b.name, &b.version)));
    Ok(packages)
}

/// What stands in the licence files beside a manifest, in the order of their names.
fn license_texts(manifest: &Path) -> Result<Vec<String>> {
    let folder = manifest.parent().context("a manifest is in no folder")?;
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().to_lowercase();
        if entry.file_type()?.is_file() && NAMES.iter().any(|start| name.starts_with(start)) {
            files.push(entry.path());
        }
    }
    files.sort();
    let texts = files.iter().map(|file| {
        let bytes = fs::read(file).with_context(|| format!("failed to read {}", file.display()))?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    });
    texts.collect()
}
