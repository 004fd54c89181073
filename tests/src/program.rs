//! Builds or finds the programs that tests run: the control plane from Go modules or
//! `KUBEBUILDER_ASSETS`, nodelife's from this workspace.

use std::collections::BTreeMap;
use std::env;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{Write, stderr};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Error, Result, bail};

use crate::kubernetes::{DEFAULT, Kubernetes, MODULE};

/// A program that is built from a Go module.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum GoProgram {
    Etcd,
    KubeApiserver,
    /// Deployments, budgets, node lifecycle and the rest.
    KubeControllerManager,
    /// Binds pods to nodes.
    KubeScheduler,
    /// The command line that nodelife is a plugin of.
    Kubectl,
    /// Runs pods on a node; see [`crate::real_nodes`].
    Kubelet,
    /// Makes Services reachable from a node; tests with real nodes alone need it.
    KubeProxy,
    /// Plays nodes and pods.
    Kwok,
    /// Answers cases by Kubernetes' own code; see [`crate::oracle`].
    Oracle,
    /// Answers how a kubelet starts, by the code of its version; see [`crate::oracle`].
    KubeletStart,
    /// A webhook with typed objects, which benches measure nodelife beside.
    Webhook,
}

/// Programs that are built together, so that their links run side by side; a test that needs one of them
/// needs the others soon. What is in no group is for few tests and built alone.
const GROUPS: [&[GoProgram]; 2] = [
    &[
        GoProgram::Etcd,
        GoProgram::KubeApiserver,
        GoProgram::KubeControllerManager,
        GoProgram::KubeScheduler,
        GoProgram::Kubectl,
        GoProgram::Kwok,
    ],
    // Where real nodes can run.
    &[GoProgram::Kubelet, GoProgram::KubeProxy],
];

impl GoProgram {
    /// The name of the executable, as envtest names it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Etcd => "etcd",
            Self::KubeApiserver => "kube-apiserver",
            Self::KubeControllerManager => "kube-controller-manager",
            Self::KubeScheduler => "kube-scheduler",
            Self::Kubectl => "kubectl",
            Self::Kubelet => "kubelet",
            Self::KubeProxy => "kube-proxy",
            Self::Kwok => "kwok",
            Self::Oracle => "oracle",
            Self::KubeletStart => "kubelet-start",
            Self::Webhook => "webhook",
        }
    }

    fn package(self) -> &'static str {
        match self {
            Self::Etcd => "go.etcd.io/etcd/server/v3",
            Self::KubeApiserver => "k8s.io/kubernetes/cmd/kube-apiserver",
            Self::KubeControllerManager => "k8s.io/kubernetes/cmd/kube-controller-manager",
            Self::KubeScheduler => "k8s.io/kubernetes/cmd/kube-scheduler",
            Self::Kubectl => "k8s.io/kubernetes/cmd/kubectl",
            Self::Kubelet => "k8s.io/kubernetes/cmd/kubelet",
            Self::KubeProxy => "k8s.io/kubernetes/cmd/kube-proxy",
            Self::Kwok => "sigs.k8s.io/kwok/cmd/kwok",
            Self::Oracle => "./oracle",
            Self::KubeletStart => "./kubelet-start",
            Self::Webhook => "./webhook",
        }
    }

    /// The version of Kubernetes that it is built from. etcd and kwok belong to none and serve all:
    /// they come from the module by default, as the webhook in Go does.
    fn kubernetes(self) -> Result<Option<&'static Kubernetes>> {
        match self {
            Self::Etcd | Self::Kwok | Self::Webhook => Ok(None),
            _ => Kubernetes::current().map(Some),
        }
    }

    /// Where its sources lie, if they are ours and change with the repository.
    fn sources(self) -> Option<PathBuf> {
        match self {
            Self::Oracle | Self::KubeletStart | Self::Webhook => {
                Some(Path::new(MODULE).join(self.name()))
            }
            _ => None,
        }
    }

    /// The executable: from `KUBEBUILDER_ASSETS` when it is there and no other version of Kubernetes is
    /// named, else built once into the target folder, with its group and a line on stderr, as that takes
    /// minutes with a cold Go cache.
    pub fn path(self) -> Result<PathBuf> {
        let group = GROUPS.iter().find(|group| group.contains(&self));
        let group = group.map_or_else(|| vec![self], |group| group.to_vec());
        let names: Vec<&str> = group.iter().map(|program| program.name()).collect();
        once(&names.join(", "), || {
            build(&group)?;
            target_folder()
        })?;
        self.place()
    }

    /// Where it is, or is to be built.
    fn place(self) -> Result<PathBuf> {
        let kubernetes = self.kubernetes()?;
        if self.sources().is_none()
            && kubernetes.is_none_or(Kubernetes::is_default)
            && let Some(assets) = env::var_os("KUBEBUILDER_ASSETS")
        {
            let path = Path::new(&assets).join(self.name());
            if path.is_file() {
                return Ok(path);
            }
        }
        let folder = self.folder(kubernetes)?;
        Ok(built_programs()?.join(folder).join(self.name()))
    }

    /// Names the folder of a build by what it was built from.
    fn folder(self, kubernetes: Option<&Kubernetes>) -> Result<String> {
        let mut hasher = DefaultHasher::new();
        let sums = match kubernetes {
            Some(version) => version.sums(),
            None => Path::new(MODULE).join(DEFAULT).with_extension("sum"),
        };
        let mut files = vec![sums];
        if let Some(sources) = self.sources() {
            for folder in [sources, Path::new(MODULE).join("lines")] {
                for entry in fs::read_dir(folder)? {
                    files.push(entry?.path());
                }
            }
            files.sort();
        }
        for file in files {
            fs::read(&file)
                .with_context(|| format!("failed to read {}", file.display()))?
                .hash(&mut hasher);
        }
        let version = kubernetes.map_or("any", Kubernetes::git_version);
        Ok(format!("{version}-{:016x}", hasher.finish()))
    }
}

/// Builds those of the programs that are not there.
fn build(programs: &[GoProgram]) -> Result<()> {
    let folder = built_programs()?;
    fs::create_dir_all(&folder).with_context(|| format!("failed to make {}", folder.display()))?;
    let lock = File::create(folder.join("lock")).context("failed to make a lock file")?;
    lock.lock()
        .context("failed to lock the folder of the control plane's programs")?;
    // By the module: none is that of the version by default, which has etcd and kwok, too.
    let mut missing: BTreeMap<Option<&str>, Vec<(GoProgram, PathBuf)>> = BTreeMap::new();
    for program in programs {
        let place = program.place()?;
        if !place.is_file() {
            let other = program
                .kubernetes()?
                .filter(|version| !version.is_default());
            let of_module = missing.entry(other.map(Kubernetes::module)).or_default();
            of_module.push((*program, place));
        }
    }
    for (module, programs) in missing {
        go_build(&folder, module, &programs)?;
    }
    Ok(())
}

fn go_build(folder: &Path, module: Option<&str>, programs: &[(GoProgram, PathBuf)]) -> Result<()> {
    let kubernetes = Kubernetes::current()?;
    let names: Vec<&str> = programs.iter().map(|(program, _)| program.name()).collect();
    writeln!(
        stderr(),
        "nodelife-tests: building {} from Go modules (Kubernetes {}), once; a whole control plane takes about 7 minutes on two cores …",
        names.join(", "),
        kubernetes.git_version(),
    )?;
    let mut link = "-s -w".to_owned();
    let (major, minor) = kubernetes
        .minor()
        .split_once('.')
        .context("a version has a point")?;
    for (variable, value) in [
        ("gitVersion", kubernetes.git_version()),
        ("gitMajor", major),
        ("gitMinor", minor),
    ] {
        write!(link, " -X k8s.io/component-base/version.{variable}={value}")?;
    }
    let mut tags = format!("kubernetes{}", kubernetes.minor());
    let mut command = Command::new("go");
    command.args(["build", "-trimpath", "-ldflags", &link]);
    if let Some(module) = module {
        command.arg(format!("-modfile={module}"));
        // What else the oracle answers is built with the version by default alone.
        tags += ",onlyadmission";
    }
    // Built elsewhere: a build that is cut short leaves nothing that looks done.
    let unfinished = tempfile::tempdir_in(folder)?;
    let built = command
        .args(["-tags", &tags, "-o"])
        .arg(unfinished.path())
        .args(programs.iter().map(|(program, _)| program.package()))
        .current_dir(MODULE)
        .env("CGO_ENABLED", "0")
        .output()
        .context("failed to run go, which builds the control plane: install Go 1.26, or set KUBEBUILDER_ASSETS to a folder with etcd, kube-apiserver and kubectl")?;
    if !built.status.success() {
        bail!(
            "failed to build {}: go build ended with {}:\n{}",
            names.join(", "),
            built.status,
            last_lines(&String::from_utf8_lossy(&built.stderr))
        );
    }
    for (program, place) in programs {
        fs::create_dir_all(place.parent().context("a program has a folder")?)?;
        // Go names a program by the last part of its package that is no version.
        let last = program.package().trim_end_matches("/v3").rsplit('/').next();
        let name = last.context("a package has a name")?;
        fs::rename(unfinished.path().join(name), place)?;
    }
    Ok(())
}

/// The folder of all built programs.
fn built_programs() -> Result<PathBuf> {
    Ok(target_folder()?.join("control-plane"))
}

/// Builds a program of one source file by `build`, which gets the path to write to, once for a
/// version of its source.
pub(crate) fn compile(
    name: &str,
    source: &Path,
    build: impl FnOnce(&Path) -> Result<()>,
) -> Result<PathBuf> {
    once(name, || {
        let text =
            fs::read(source).with_context(|| format!("failed to read {}", source.display()))?;
        let mut hasher = DefaultHasher::new();
        text.hash(&mut hasher);
        let folder = built_programs()?.join(format!("{:016x}", hasher.finish()));
        fs::create_dir_all(&folder)?;
        let path = folder.join(name);
        let lock = File::create(folder.join("lock"))?;
        lock.lock()?;
        if !path.is_file() {
            let unfinished = folder.join(format!("{name}.unfinished"));
            build(&unfinished)?;
            fs::rename(&unfinished, &path)?;
        }
        Ok(path)
    })
}

/// Prometheus' tool that tests alerts, if `.ci/promtool` has put it there.
pub fn promtool() -> Option<PathBuf> {
    let path = target_folder().ok()?.join("tools/promtool");
    path.is_file().then_some(path)
}

/// The built `kubectl-nodelife`.
pub fn nodelife() -> Result<PathBuf> {
    workspace_program("kubectl-nodelife")
}

/// The built `nodelife-webhook`.
pub fn webhook() -> Result<PathBuf> {
    workspace_program("nodelife-webhook")
}

/// The built `nodelife-controller`.
pub fn controller() -> Result<PathBuf> {
    workspace_program("nodelife-controller")
}

/// The supervisor of [`crate::supervise`]. Cargo has built it beside the tests of this crate;
/// for the tests of another crate it is built here.
pub(crate) fn supervisor() -> Result<PathBuf> {
    let beside = profile_folder()?.join("supervise");
    if beside.is_file() {
        return Ok(beside);
    }
    workspace_program("supervise")
}

/// Builds a program of this workspace, with the profile of the running test, and gives its path.
/// Cargo does nothing when it is fresh. The whole workspace is named, as by `cargo test
/// --workspace`: for one package alone the features of shared dependencies come out otherwise,
/// and half of the tree would be built a second time.
fn workspace_program(name: &str) -> Result<PathBuf> {
    once(name, || {
        let folder = profile_folder()?;
        let mut command = Command::new(env!("CARGO"));
        command.args(["build", "--quiet", "--workspace", "--bin", name]);
        command.current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
        // What cargo says of this package to its tests is news to the build script of ring, which
        // then is built again, and with it all of TLS; and once more by the next `cargo test`.
        for (name, _) in env::vars_os() {
            let of_this_package =
                |name: &str| name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_");
            if name.to_str().is_some_and(of_this_package) {
                command.env_remove(name);
            }
        }
        command.arg("--target-dir").arg(target_folder()?);
        if folder.ends_with("release") {
            command.arg("--release");
        }
        let status = command.status().context("failed to run cargo")?;
        if !status.success() {
            bail!("failed to build {name}: cargo build ended with {status}");
        }
        Ok(folder.join(name))
    })
}

/// Cargo's target folder, found from the running program.
pub(crate) fn target_folder() -> Result<PathBuf> {
    let profile = profile_folder()?;
    let target = profile
        .parent()
        .context("the target folder has no parent")?;
    Ok(target.to_owned())
}

/// `target/debug` or `target/release`: where the running test or program was built into.
fn profile_folder() -> Result<PathBuf> {
    let program = env::current_exe().context("failed to find the running program")?;
    let folder = program
        .parent()
        .context("the running program is in no folder")?;
    let folder = if folder.ends_with("deps") {
        folder.parent().unwrap_or(folder)
    } else {
        folder
    };
    Ok(folder.to_owned())
}

/// The last lines of what a compiler wrote: the first ones say what it downloaded.
fn last_lines(text: &str) -> String {
    const MOST: usize = 20;
    let skipped = text.lines().count().saturating_sub(MOST);
    let lines: Vec<&str> = text.lines().skip(skipped).collect();
    lines.join("\n")
}

/// What came of the work for a key; nothing before its end.
type Done = Option<Result<PathBuf, String>>;

/// Does the work for `key` at the first call of this process; later calls get the same path, or the
/// same error: what cannot be built is not tried again by each test. Nobody waits for the work of
/// another key.
fn once(key: &str, work: impl FnOnce() -> Result<PathBuf>) -> Result<PathBuf> {
    static DONE: Mutex<BTreeMap<String, Arc<Mutex<Done>>>> = Mutex::new(BTreeMap::new());
    let of_key = {
        let mut done = DONE.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(done.entry(key.to_owned()).or_default())
    };
    let mut done = of_key.lock().unwrap_or_else(PoisonError::into_inner);
    done.get_or_insert_with(|| work().map_err(|error| format!("{error:#}")))
        .clone()
        .map_err(Error::msg)
}
