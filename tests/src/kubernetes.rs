//! The version of Kubernetes that the tests of this process run with: that of
//! `control-plane/go.mod`, or the one of `control-plane/kubernetes/` that `NODELIFE_KUBERNETES`
//! names by its minor version, such as `1.34`.
//!
//! Modules name the version to build, and nothing else does: see `control-plane/kubernetes/write`.

use std::io::{Write, stderr};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::{env, fs, thread};

use anyhow::{Context, Result, bail};

/// The Go module whose tools are the control plane's programs.
pub(crate) const MODULE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/control-plane");

/// The module of the version by default.
pub(crate) const DEFAULT: &str = "go.mod";

/// A version of Kubernetes, and the module that builds it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kubernetes {
    /// Below [`MODULE`].
    module: String,
    minor: String,
    git_version: String,
}

impl Kubernetes {
    /// The version of this process.
    pub fn current() -> Result<&'static Self> {
        static CURRENT: OnceLock<Kubernetes> = OnceLock::new();
        if let Some(known) = CURRENT.get() {
            return Ok(known);
        }
        let named = env::var("NODELIFE_KUBERNETES").ok();
        let named = named.filter(|minor| !minor.is_empty());
        let found = Self::named(named.as_deref())?;
        Ok(CURRENT.get_or_init(|| found))
    }

    /// The versions that have a module, the oldest first; the last one is the version by default.
    pub fn all() -> Result<Vec<Self>> {
        let mut modules = Vec::new();
        for entry in fs::read_dir(Path::new(MODULE).join("kubernetes"))? {
            let name = entry?.file_name();
            let name = name.to_str().context("a file's name is not UTF-8")?;
            if Path::new(name).extension() == Some("mod".as_ref()) {
                modules.push(format!("kubernetes/{name}"));
            }
        }
        modules.sort();
        modules.push(DEFAULT.to_owned());
        modules.into_iter().map(Self::of_module).collect()
    }

    fn named(minor: Option<&str>) -> Result<Self> {
        let Some(minor) = minor else {
            return Self::of_module(DEFAULT.to_owned());
        };
        let all = Self::all()?;
        if let Some(found) = all.iter().find(|version| version.minor == minor) {
            return Ok(found.clone());
        }
        let known: Vec<&str> = all.iter().map(Self::minor).collect();
        bail!(
            "NODELIFE_KUBERNETES is {minor:?}, which tests/control-plane has no Go module for: name one of {}",
            known.join(", ")
        );
    }

    /// Reads the version that a module requires.
    fn of_module(module: String) -> Result<Self> {
        let path = Path::new(MODULE).join(&module);
        let text = fs::read_to_string(&path)
            .with_context(|| format!("failed to read {}", path.display()))?;
        let git_version = text
            .split_ascii_whitespace()
            .skip_while(|word| *word != "k8s.io/kubernetes")
            .nth(1)
            .with_context(|| format!("{} requires no k8s.io/kubernetes", path.display()))?
            .to_owned();
        let minor = git_version
            .strip_prefix('v')
            .and_then(|version| version.rsplit_once('.'))
            .with_context(|| {
                format!(
                    "{} requires k8s.io/kubernetes {git_version}, which is no version",
                    path.display()
                )
            })?
            .0
            .to_owned();
        Ok(Self {
            module,
            minor,
            git_version,
        })
    }

    /// Such as `1.34`.
    pub fn minor(&self) -> &str {
        &self.minor
    }

    /// Such as `v1.34.4`, as its programs tell it.
    pub fn git_version(&self) -> &str {
        &self.git_version
    }

    /// Whether it is the version of tests that name none.
    pub fn is_default(&self) -> bool {
        self.module == DEFAULT
    }

    /// The file that `go build` takes as `-modfile`.
    pub(crate) fn module(&self) -> &str {
        &self.module
    }

    /// The checksums beside the module.
    pub(crate) fn sums(&self) -> PathBuf {
        Path::new(MODULE).join(&self.module).with_extension("sum")
    }

    /// Whether it is `minor`, such as `1.35`, or newer.
    pub fn is_at_least(&self, minor: &str) -> Result<bool> {
        Ok(number(&self.minor)? >= number(minor)?)
    }
}

/// 1.34 → (1, 34)
fn number(minor: &str) -> Result<(u32, u32)> {
    let read = |text: &str| text.parse().ok();
    minor
        .split_once('.')
        .and_then(|(major, minor)| Some((read(major)?, read(minor)?)))
        .with_context(|| format!("{minor:?} is not a minor version, such as 1.35"))
}

/// Whether the control plane of this process is of `minor` or newer. If it is older, says on
/// stderr which test is left out, and why; the test then returns:
///
/// ```no_run
/// use nodelife_tests::needs_kubernetes;
///
/// if !needs_kubernetes("1.35", "pods can be resized in place").unwrap() {
///     return;
/// }
/// ```
pub fn needs_kubernetes(minor: &str, reason: &str) -> Result<bool> {
    let current = Kubernetes::current()?;
    if current.is_at_least(minor)? {
        return Ok(true);
    }
    let test = thread::current();
    writeln!(
        stderr(),
        "nodelife-tests: left out on Kubernetes {}: {} needs {minor}: {reason}",
        current.minor(),
        test.name().unwrap_or("a test"),
    )?;
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_version_has_a_module_that_names_it() {
        let all = Kubernetes::all().unwrap();
        let minors: Vec<&str> = all.iter().map(Kubernetes::minor).collect();
        assert_eq!(minors, ["1.33", "1.34", "1.35", "1.36", "1.37"]);
        for version in &all {
            let begins = format!("v{}.", version.minor());
            assert!(version.git_version().starts_with(&begins), "{version:?}");
            assert!(version.sums().is_file(), "{version:?}");
            let by_name = Kubernetes::named(Some(version.minor())).unwrap();
            assert_eq!(&by_name, version);
        }
        let default = Kubernetes::named(None).unwrap();
        assert!(default.is_default());
        assert_eq!(Some(&default), all.last());
    }

    #[test]
    fn an_unknown_version_is_an_error_that_names_the_known() {
        let error = Kubernetes::named(Some("1.32")).unwrap_err().to_string();
        assert_eq!(
            error,
            "NODELIFE_KUBERNETES is \"1.32\", which tests/control-plane has no Go module for: name one of 1.33, 1.34, 1.35, 1.36, 1.37"
        );
    }

    #[test]
    fn versions_compare_by_number() {
        let version = Kubernetes::named(Some("1.34")).unwrap();
        assert!(version.is_at_least("1.9").unwrap());
        assert!(version.is_at_least("1.34").unwrap());
        assert!(!version.is_at_least("1.35").unwrap());
        assert!(version.is_at_least("later").is_err());
    }
}
