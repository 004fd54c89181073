//! The servers of the bench, each on one core, and their CPU time.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use nodelife_tests::https::{NAME, TlsClient};
use nodelife_tests::pki::TestCa;
use nodelife_tests::program::{self, GoProgram};
use nodelife_tests::supervise::{Spec, Supervised};
use nodelife_tests::{ControlPlane, Identity, TIMEOUT, port, wait_until};

/// A running server.
pub(crate) struct Contestant {
    program: Supervised,
    pub(crate) address: SocketAddr,
}

/// All of them, with one certificate.
pub(crate) struct Field {
    pub(crate) trust: TlsClient,
    pub(crate) echo: Contestant,
    pub(crate) ours: Contestant,
    pub(crate) typed: Contestant,
}

impl Field {
    pub(crate) async fn start(plane: &ControlPlane, webhook: Option<PathBuf>) -> Result<Self> {
        let folder = plane.folder().join("certificates");
        fs::create_dir(&folder)?;
        let authority = TestCa::new()?;
        let leaf = authority.server(&[NAME], &[])?;
        fs::write(folder.join("tls.crt"), leaf.certificate)?;
        fs::write(folder.join("tls.key"), leaf.key)?;
        fs::write(folder.join("ca.crt"), authority.certificate())?;
        let trust = TlsClient::new(&authority.certificate(), None)?;
        let text = |path: &Path| path.display().to_string();
        let kubeconfig = plane.kubeconfig_file(&Identity::Admin)?;
        let webhook = match webhook {
            Some(path) => path,
            None => program::webhook()?,
        };
        let health = format!("127.0.0.1:{}", port::free()?);
        let start = |name: &str, program: &Path, words: &dyn Fn(&str) -> Vec<String>| {
            let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port::free()?));
            let program = Spec::new("taskset", plane.folder().join(format!("{name}.log")))
                .args(["-c".to_owned(), "0".to_owned(), text(program)])
                .args(words(&address.to_string()))
                .start()?;
            Ok::<_, anyhow::Error>(Contestant { program, address })
        };
        let echo = start("echo", &std::env::current_exe()?, &|address| {
            ["--echo", address, "--tls-dir", &text(&folder)]
                .map(str::to_owned)
                .to_vec()
        })?;
        let ours = start("ours", &webhook, &|address| {
            let words = [
                "serve",
                "--listen",
                address,
                "--health-listen",
                &health,
                "--tls-dir",
                &text(&folder),
                "--kubeconfig",
                &text(&kubeconfig),
            ];
            words.map(str::to_owned).to_vec()
        })?;
        let typed = start("typed", &GoProgram::Webhook.path()?, &|address| {
            let (cert, key) = (folder.join("tls.crt"), folder.join("tls.key"));
            let words = [
                "-listen",
                address,
                "-cert",
                &text(&cert),
                "-key",
                &text(&key),
            ];
            words.map(str::to_owned).to_vec()
        })?;
        for one in [&echo, &ours, &typed] {
            wait_until("a server", TIMEOUT, async || {
                trust.connect(one.address).await?;
                Ok(Some(()))
            })
            .await?;
        }
        Ok(Self {
            trust,
            echo,
            ours,
            typed,
        })
    }
}

impl Contestant {
    /// CPU time of all its threads, to the nanosecond (`/proc/PID/task/*/schedstat`).
    pub(crate) fn cpu(&self) -> Result<Duration> {
        let mut nanoseconds = 0;
        for task in fs::read_dir(format!("/proc/{}/task", self.program.pid()))? {
            // A thread may end in between.
            let Ok(text) = fs::read_to_string(task?.path().join("schedstat")) else {
                continue;
            };
            let first = text.split(' ').next().context("schedstat is empty")?;
            nanoseconds += first.parse::<u64>()?;
        }
        Ok(Duration::from_nanos(nanoseconds))
    }

    /// Resident memory, in KiB.
    pub(crate) fn resident(&self) -> Result<u64> {
        self.status("VmRSS:")
    }

    /// The most that it ever was, in KiB.
    pub(crate) fn peak(&self) -> Result<u64> {
        self.status("VmHWM:")
    }

    fn status(&self, field: &str) -> Result<u64> {
        let text = fs::read_to_string(format!("/proc/{}/status", self.program.pid()))?;
        let line = text.lines().find_map(|line| line.strip_prefix(field));
        let line = line.with_context(|| format!("no {field}"))?;
        Ok(line.trim().trim_end_matches(" kB").parse()?)
    }
}
