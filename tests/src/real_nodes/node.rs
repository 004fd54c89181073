//! A real node: kubelet, containerd and kube-proxy in namespaces of their own.

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use tokio::sync::{Mutex, MutexGuard, SemaphorePermit};

use super::config;
use super::logind::Logind;
use super::namespaces::Namespaces;
use crate::kubectl::Output;
use crate::program::GoProgram;
use crate::supervise::{Spec, Supervised};
use crate::wait::{TIMEOUT, wait_until};
use crate::{cgroup, fixture};

/// What containerd logs last before it serves the kubelet (`Run` of pkg/cri/server/service.go, 1.6).
const SERVES_KUBELET: &str = "Start streaming server";

/// A program of a node, in the order in which they start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Agent {
    Containerd,
    Kubelet,
    KubeProxy,
}

impl Agent {
    fn name(self) -> &'static str {
        match self {
            Self::Containerd => "containerd",
            Self::Kubelet => "kubelet",
            Self::KubeProxy => "kube-proxy",
        }
    }
}

/// What a node is to be, before it starts.
#[derive(Debug, Clone, Default)]
pub struct NodeOptions {
    labels: Vec<(String, String)>,
    kubelet: Value,
    bootstrap: bool,
    systemd_cgroups: bool,
    huge_pages: u16,
    logind: bool,
}

impl NodeOptions {
    /// The kubelet registers the Node with this label.
    #[must_use]
    pub fn label(mut self, key: &str, value: &str) -> Self {
        self.labels.push((key.to_owned(), value.to_owned()));
        self
    }

    /// The kubelet registers the Node with the labels of a zone.
    #[must_use]
    pub fn zone(self, zone: &str) -> Self {
        self.label("topology.kubernetes.io/region", "region")
            .label("topology.kubernetes.io/zone", zone)
    }

    /// Changes the KubeletConfiguration by a JSON merge patch.
    #[must_use]
    pub fn kubelet(mut self, patch: Value) -> Self {
        fixture::merge(&mut self.kubelet, patch);
        self
    }

    /// containerd takes the cgroup driver systemd, and the kubelet does not: a node that starts no
    /// pod.
    #[must_use]
    pub fn systemd_cgroups_in_containerd(mut self) -> Self {
        self.systemd_cgroups = true;
        self
    }

    /// The machine seems to have so many huge pages of 2 MiB.
    #[must_use]
    pub fn huge_pages(mut self, count: u16) -> Self {
        self.huge_pages = count;
        self
    }

    /// The machine has systemd-logind, which the kubelet asks to delay a shutdown.
    #[must_use]
    pub fn logind(mut self) -> Self {
        self.logind = true;
        self
    }

    /// The kubelet begins as a bootstrapper and asks for its client and its serving certificate
    /// by CertificateSigningRequests. The client's is approved by kube-controller-manager if the
    /// bootstrappers may; see [`super::RealNodes::allow_bootstrap`].
    #[must_use]
    pub fn bootstrap(mut self) -> Self {
        self.bootstrap = true;
        self.kubelet(json!({"serverTLSBootstrap": true, "rotateCertificates": true}))
    }
}

impl NodeOptions {
    pub(super) fn begins_as_bootstrapper(&self) -> bool {
        self.bootstrap
    }
}

/// What every node of a cluster has in common.
#[derive(Debug)]
pub(super) struct Common {
    /// The programs' CA.
    pub authority: PathBuf,
    pub manners: PathBuf,
    /// Images that every node has.
    pub images: Vec<PathBuf>,
    /// kube-proxy's.
    pub proxy_kubeconfig: PathBuf,
    /// The cluster's cgroup.
    pub cgroup: String,
}

/// A node of [`super::RealNodes`].
#[derive(Debug)]
pub struct RealNode {
    /// The Node's name.
    pub name: String,
    pub address: Ipv4Addr,
    /// The cgroup that is the root of its pods', in every hierarchy.
    pub cgroup: String,
    /// The KubeletConfiguration that it began with.
    pub kubelet: Value,
    options: NodeOptions,
    index: u8,
    /// What it keeps over a reboot.
    folder: PathBuf,
    images: Vec<PathBuf>,
    manners: PathBuf,
    logind: Option<Logind>,
    /// None when it is powered off.
    running: Mutex<Option<Running>>,
    /// See [`super::room`]; that of a cluster's first nodes is the cluster's.
    room: Option<SemaphorePermit<'static>>,
}

/// Dropped in this order.
#[derive(Debug)]
struct Running {
    agents: BTreeMap<Agent, Supervised>,
    namespaces: Namespaces,
}

impl RealNode {
    /// Writes the files of a node. `kubeconfig` is the kubelet's, or the bootstrapper's.
    pub(super) fn new(
        index: u8,
        folder: &Path,
        common: &Common,
        options: NodeOptions,
        kubeconfig: &str,
    ) -> Result<Self> {
        let name = format!("node-{index}");
        let folder = folder.join(&name);
        for below in ["kubelet", "kubelet.d", "containerd", "log"] {
            fs::create_dir_all(folder.join(below))?;
        }
        let cgroup = format!("{}/{name}", common.cgroup);
        let address = config::address(index);
        let mut kubelet = config::kubelet(&common.authority, &format!("/{cgroup}"));
        if !options.kubelet.is_null() {
            fixture::merge(&mut kubelet, options.kubelet.clone());
        }
        let proxy = config::kube_proxy(&name, address, &common.proxy_kubeconfig);
        for (file, text) in [
            ("kube-proxy.json", proxy.to_string()),
            ("cni.conflist", config::cni(index).to_string()),
            (
                "containerd.toml",
                config::containerd(&folder, options.systemd_cgroups)?,
            ),
            ("kubeconfig", kubeconfig.to_owned()),
        ] {
            fs::write(folder.join(file), text)?;
        }
        let logind = options
            .logind
            .then(|| Logind::start(&folder.join("bus")))
            .transpose()?;
        let node = Self {
            name,
            address,
            cgroup,
            kubelet,
            options,
            index,
            folder,
            images: common.images.clone(),
            manners: common.manners.clone(),
            logind,
            running: Mutex::default(),
            room: None,
        };
        node.configure(&node.kubelet, &[])?;
        Ok(node)
    }

    pub(super) fn with_room(mut self, room: SemaphorePermit<'static>) -> Self {
        self.room = Some(room);
        self
    }

    /// Starts the machine and its programs.
    pub(super) async fn power_on(&self, cluster: &Namespaces) -> Result<()> {
        let mut running = self.running.lock().await;
        if running.is_some() {
            bail!("{} is on", self.name);
        }
        cgroup::create(&self.cgroup)?;
        let log = self.folder.join("log/init");
        let namespaces = Namespaces::start(Some(cluster), &self.manners, &log, |spec| {
            spec.remove_cgroup(&self.cgroup)
        })
        .await?;
        self.wire(cluster, &namespaces).await?;
        let setup = include_str!("../../real-nodes/node.sh");
        let (folder, address) = (self.path(""), self.address.to_string());
        let gateway = config::CONTROL_PLANE.to_string();
        let pages = self.options.huge_pages.to_string();
        namespaces
            .script(setup, &[&folder, &self.name, &address, &gateway, &pages])
            .await
            .context("failed to set a node up")?;
        let cni = self.path("cni.conflist");
        let copy = ["cp", &cni, "/run/cni/10-pods.conflist"];
        namespaces.run(&copy).await?.success()?;
        let mut agents = BTreeMap::new();
        let log = self.log(Agent::Containerd);
        let said_before = fs::read(&log).map_or(0, |said| said.len());
        agents.insert(
            Agent::Containerd,
            self.agent(Agent::Containerd, &namespaces)?,
        );
        wait_until("containerd", TIMEOUT, async || {
            namespaces.run(&["ctr", "version"]).await?.success()?;
            // It serves the kubelet last, and a kubelet that it does not serve yet ends.
            let said = fs::read(&log)?;
            let said = String::from_utf8_lossy(said.get(said_before..).unwrap_or_default());
            ensure!(
                said.contains(SERVES_KUBELET),
                "it does not serve the kubelet"
            );
            Ok(Some(()))
        })
        .await?;
        for image in &self.images {
            import(&namespaces, image).await?;
        }
        for agent in [Agent::Kubelet, Agent::KubeProxy] {
            agents.insert(agent, self.agent(agent, &namespaces)?);
        }
        *running = Some(Running { agents, namespaces });
        Ok(())
    }

    /// Plugs the node's cable into the bridge.
    async fn wire(&self, cluster: &Namespaces, node: &Namespaces) -> Result<()> {
        let target = format!("--target={}", cluster.init());
        let (pid, pods) = (node.init().to_string(), config::pods(self.index));
        let address = self.address.to_string();
        let text = "ip link delete \"$1\" 2> /dev/null || true
            ip link add \"$1\" type veth peer name eth0 netns \"$2\"
            ip link set \"$1\" master nodes up
            ip route replace \"$3\" via \"$4\"";
        let mut command = tokio::process::Command::new("nsenter");
        command
            .args([&target, "--net", "--", "sh", "-ec", text, "sh"])
            .args([&self.name, &pid, &pods, &address]);
        let output = crate::kubectl::run(command, "").await?;
        output
            .success()
            .map(drop)
            .context("failed to connect a node to the bridge")
    }

    fn agent(&self, agent: Agent, namespaces: &Namespaces) -> Result<Supervised> {
        let program: PathBuf = match agent {
            Agent::Containerd => "containerd".into(),
            Agent::Kubelet => GoProgram::Kubelet.path()?,
            Agent::KubeProxy => GoProgram::KubeProxy.path()?,
        };
        let bus = self.logind.as_ref().map(Logind::address);
        Spec::new(program, self.log(agent))
            .args(self.flags(agent))
            .env("DBUS_SYSTEM_BUS_ADDRESS", bus.unwrap_or_default())
            .run_by(&namespaces.enter())
            .start()
            .with_context(|| format!("failed to start {}", agent.name()))
    }

    fn flags(&self, agent: Agent) -> Vec<String> {
        match agent {
            Agent::Containerd => vec![format!("--config={}", self.path("containerd.toml"))],
            Agent::KubeProxy => vec![format!("--config={}", self.path("kube-proxy.json"))],
            Agent::Kubelet => {
                let mut flags = vec![
                    format!("--config={}", self.path("kubelet.json")),
                    format!("--config-dir={}", self.path("kubelet.d")),
                    format!("--hostname-override={}", self.name),
                    format!("--node-ip={}", self.address),
                    "--cert-dir=/var/lib/kubelet/pki".to_owned(),
                ];
                let own = self.path("kubeconfig");
                if self.options.bootstrap {
                    flags.push(format!("--bootstrap-kubeconfig={own}"));
                    flags.push("--kubeconfig=/var/lib/kubelet/kubeconfig".to_owned());
                } else {
                    flags.push(format!("--kubeconfig={own}"));
                }
                let labels = self.options.labels.iter();
                let labels: Vec<_> = labels
                    .map(|(key, value)| format!("{key}={value}"))
                    .collect();
                if !labels.is_empty() {
                    flags.push(format!("--node-labels={}", labels.join(",")));
                }
                flags
            }
        }
    }

    fn path(&self, name: &str) -> String {
        self.folder.join(name).display().to_string()
    }

    /// Where the output of a program goes.
    pub fn log(&self, agent: Agent) -> PathBuf {
        self.folder.join("log").join(agent.name())
    }

    /// Cuts the power: every process of the node ends at once, and what is on its disk stays.
    pub async fn power_off(&self) -> Result<()> {
        let running = self.running.lock().await.take();
        let Some(Running { agents, namespaces }) = running else {
            return Ok(());
        };
        namespaces.kill().await?;
        drop(agents);
        Ok(())
    }

    /// Announces a shutdown, as logind does it when an operator shuts the machine down: the kubelet
    /// ends the pods first. [`NodeOptions::logind`] gives a node that can do this.
    pub async fn prepare_for_shutdown(&self) -> Result<()> {
        let announced = self.logind()?.prepare_for_shutdown().await;
        announced.with_context(|| crate::supervise::tail(&self.log(Agent::Kubelet)))
    }

    /// Whether the kubelet delays the shutdown no more.
    pub fn may_shut_down(&self) -> Result<bool> {
        self.logind()?.is_released()
    }

    fn logind(&self) -> Result<&Logind> {
        let logind = self.logind.as_ref();
        logind.with_context(|| format!("{} has no logind", self.name))
    }

    /// Starts a program that was stopped. Nothing happens when it runs.
    pub async fn start(&self, agent: Agent) -> Result<()> {
        let mut running = self.running().await?;
        let Running { agents, namespaces } = &mut *running;
        if agents.get_mut(&agent).is_some_and(Supervised::is_running) {
            return Ok(());
        }
        agents.insert(agent, self.agent(agent, namespaces)?);
        Ok(())
    }

    /// Kills a program. What it has started stays: containers survive their kubelet and their
    /// containerd.
    pub async fn stop(&self, agent: Agent) -> Result<()> {
        let stopped = self.running().await?.agents.remove(&agent);
        if let Some(supervised) = stopped {
            supervised.kill().await?;
        }
        // What ended is nsenter. The program holds its ports until it has ended as well.
        let name = agent.name();
        let script = "! grep -qx \"$1\" /proc/[0-9]*/comm 2> /dev/null";
        wait_until(&format!("the end of {name}"), TIMEOUT, async || {
            let output = self.run(&["sh", "-c", script, "sh", name]).await?;
            Ok((output.status == Some(0)).then_some(()))
        })
        .await
    }

    /// Sends a signal to a program: with SIGSTOP it falls silent, with SIGCONT it speaks again.
    pub async fn signal(&self, agent: Agent, signal: Signal) -> Result<()> {
        let mut running = self.running().await?;
        let supervised = running.agents.get_mut(&agent);
        supervised
            .with_context(|| format!("{} does not run", agent.name()))?
            .signal(signal)
    }

    /// The process id of its init, unless it is powered off.
    pub(super) async fn init(&self) -> Option<i32> {
        let running = self.running.lock().await;
        running.as_ref().map(|running| running.namespaces.init())
    }

    /// Writes the KubeletConfiguration that the kubelet starts with the next time, and drop-ins, in
    /// their order.
    pub fn configure(&self, document: &Value, drop_ins: &[Value]) -> Result<()> {
        fs::write(self.folder.join("kubelet.json"), document.to_string())?;
        let folder = self.folder.join("kubelet.d");
        fs::remove_dir_all(&folder)?;
        fs::create_dir(&folder)?;
        for (number, drop_in) in drop_ins.iter().enumerate() {
            let path = folder.join(format!("{number:02}.conf"));
            fs::write(path, drop_in.to_string())?;
        }
        // A kubelet refuses to start with another policy than that of its state.
        for state in ["cpu_manager_state", "memory_manager_state"] {
            match fs::remove_file(self.folder.join("kubelet").join(state)) {
                Err(error) if error.kind() != ErrorKind::NotFound => return Err(error.into()),
                _ => {}
            }
        }
        Ok(())
    }

    /// Whether a program was started and has not ended.
    pub async fn is_running(&self, agent: Agent) -> Result<bool> {
        let mut running = self.running().await?;
        let supervised = running.agents.get_mut(&agent);
        Ok(supervised.is_some_and(Supervised::is_running))
    }

    /// Waits until a program has ended by itself, and gives its exit status.
    pub async fn ended(&self, agent: Agent) -> Result<i32> {
        let mut running = self.running().await?;
        let supervised = running.agents.get_mut(&agent);
        supervised
            .with_context(|| format!("{} was not started", agent.name()))?
            .wait(TIMEOUT)
            .await
    }

    /// Runs a command on the node.
    pub async fn run(&self, words: &[&str]) -> Result<Output> {
        self.running().await?.namespaces.run(words).await
    }

    /// The words that run the command after them on the node.
    pub async fn enter(&self) -> Result<Vec<String>> {
        Ok(self.running().await?.namespaces.enter())
    }

    /// Starts a program on the node: it reaches what a pod there reaches.
    pub async fn spawn(&self, spec: Spec) -> Result<Supervised> {
        let enter = self.running().await?.namespaces.enter();
        spec.run_by(&enter).start()
    }

    /// Runs a command on the node that reads `stdin`.
    pub async fn run_with(&self, words: &[&str], stdin: &str) -> Result<Output> {
        self.running()
            .await?
            .namespaces
            .run_with(words, stdin)
            .await
    }

    /// Loads an image, as [`super::Image::write`] wrote it.
    pub async fn load_image(&self, tar: &Path) -> Result<()> {
        import(&self.running().await?.namespaces, tar).await
    }

    /// Writes the manifest of a static pod, or removes it.
    pub async fn static_pod(&self, name: &str, manifest: Option<&Value>) -> Result<()> {
        let path = format!("{}/{name}.json", config::STATIC_PODS);
        let text = manifest.map(Value::to_string).unwrap_or_default();
        let script = if manifest.is_some() {
            // The kubelet watches the folder: the file appears whole.
            "printf %s \"$2\" > \"/run/manifest\" && mv /run/manifest \"$1\""
        } else {
            "rm \"$1\""
        };
        let words = ["sh", "-ec", script, "sh", &path, &text];
        self.run(&words).await?.success().map(drop)
    }

    /// The ids of the containers, sandboxes included, whose process containerd has running.
    pub async fn containers(&self) -> Result<Vec<String>> {
        let list = ["ctr", "--namespace=k8s.io", "tasks", "list"];
        let table = self.run(&list).await?.success()?;
        let rows = table.lines().skip(1).filter_map(|line| {
            let mut words = line.split_whitespace();
            let id = words.next()?;
            (words.nth(1)? == "RUNNING").then(|| id.to_owned())
        });
        Ok(rows.collect())
    }

    async fn running(&self) -> Result<tokio::sync::MappedMutexGuard<'_, Running>> {
        MutexGuard::try_map(self.running.lock().await, Option::as_mut)
            .ok()
            .with_context(|| format!("{} is powered off", self.name))
    }
}

async fn import(namespaces: &Namespaces, image: &Path) -> Result<()> {
    let image = image.display().to_string();
    let words = ["ctr", "--namespace=k8s.io", "images", "import", &image];
    namespaces.run(&words).await?.success().map(drop)
}
