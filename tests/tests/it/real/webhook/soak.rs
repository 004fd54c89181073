//! A long time with everything that may happen to an installation.

use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::{ContainerStatus, Node, Pod};
use kube::Api;
use nodelife_tests::installation::{CA_SECRET, NAMESPACE, NODE_RESTRICTION, TLS_SECRET};
use nodelife_tests::real_nodes::{Agent, RealNode, leave_out};
use nodelife_tests::supervise::tail;
use nodelife_tests::{Installation, Part, TIMEOUT, until, wait_until};
use serde_json::json;

use super::scene::{Failures, Scene, failures};
use super::traffic::Traffic;

/// Lives of certificates for a rotation within seconds.
const CERTS: [&str; 5] = [
    "certs",
    "--ca-life=30m",
    "--leaf-life=10m",
    "--propagation=5s",
    "--interval=1",
];

/// The containers of a replica, and their ports of metrics.
const CONTAINERS: [&str; 2] = ["webhook", "webhook-2"];
const PORTS: [u16; 2] = [8081, 8082];

/// How long it goes on at least, all disturbances included: the seconds of `NODELIFE_SOAK`, 1800 for
/// a proof. Beside other tests a call may take longer than the webhook's timeout, so it is left out
/// unless it is asked for.
fn wanted() -> Option<Duration> {
    let text = std::env::var("NODELIFE_SOAK").ok()?;
    text.parse().ok().map(Duration::from_secs)
}

struct Soak<'a> {
    scene: &'a Scene,
    installation: &'a Installation<'a>,
    traffic: Traffic,
    /// Since when each node is Ready.
    ready: Vec<(String, String)>,
    failures: Failures,
    /// What should not have happened.
    wrong: Vec<String>,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_call_fails_while_pods_come_and_go() {
    let Some(wanted) = wanted() else {
        leave_out("NODELIFE_SOAK does not say for how many seconds it is to run");
        return;
    };
    let Some((scene, _turn)) = Scene::shared().await else {
        return;
    };
    let installation = scene.installation(NODE_RESTRICTION).await;
    let args =
        json!([{"op": "replace", "path": "/spec/template/spec/containers/0/args", "value": CERTS}]);
    let args = args.to_string();
    let certs = [
        "-n",
        NAMESPACE,
        "patch",
        "deployment",
        "nodelife-certs",
        "--type=json",
        "-p",
        &args,
    ];
    kubectl(&installation, &certs).await;
    rollout(&installation, "nodelife-certs").await;
    let mut soak = Soak {
        scene,
        installation: &installation,
        traffic: Traffic::start(scene).await,
        ready: scene.ready_since(&installation).await,
        failures: failures(&installation).await,
        wrong: Vec::new(),
    };
    assert_eq!(soak.ready.len(), scene.nodes().len());
    let (began, mut rounds) = (Instant::now(), 0);
    while rounds == 0 || began.elapsed() < wanted {
        rounds += 1;
        soak.rotate().await;
        soak.check("a rotation").await;
        soak.restart_a_node().await;
        soak.check("a restarted node").await;
        soak.roll_out().await;
        soak.check("a rollout").await;
        soak.delete_a_replica(rounds).await;
        soak.check("a replica deleted by force").await;
        let container = soak.kill_a_container(rounds).await;
        soak.check(&format!("a killed container {container}")).await;
    }
    let (pods, writes) = soak.traffic.totals();
    let long = began.elapsed().as_secs();
    println!("{rounds} rounds in {long} s: {pods} pods and {writes} writes");
    soak.traffic.stop().await;
    assert!(soak.wrong.is_empty(), "{:#?}", soak.wrong);
}

impl Soak<'_> {
    /// Notes what failed, and nodes that were not Ready all the time.
    async fn check(&mut self, when: &str) {
        self.traffic.more(3).await;
        let slowest = self.traffic.slowest().as_millis();
        println!(
            "{} {when}: the slowest write took {slowest} ms",
            jiff::Timestamp::now()
        );
        let mut wrong = self.failed().await;
        let ready = self.scene.ready_since(self.installation).await;
        if ready != self.ready {
            wrong.push(format!(
                "a node was not Ready: {:?}, then {ready:?}",
                self.ready
            ));
            self.ready = ready;
        }
        for what in wrong {
            println!("{when}: {what}");
            self.wrong.push(format!("{when}: {what}"));
        }
    }

    /// What has failed since the last time.
    async fn failed(&mut self) -> Vec<String> {
        let mut failed = self.traffic.faults();
        let now = failures(self.installation).await;
        let mut all = 0;
        for (what, count) in &now {
            let more = count - self.failures.get(what).unwrap_or(&0);
            if more > 0 {
                failed.push(format!("{more} calls: {what}"));
            }
            all += more;
        }
        self.failures = now;
        let log = self.scene.cluster.plane.log(Part::ApiServer);
        let log = std::fs::read_to_string(log).unwrap();
        let reasons = log.lines().rev();
        let reasons = reasons.filter(|line| line.contains("Failed calling webhook"));
        failed.extend(reasons.take(all.try_into().unwrap()).map(str::to_owned));
        failed
    }

    /// All certificates anew, as docs/webhook.md says, until each replica serves them.
    async fn rotate(&self) {
        let secrets = self.installation.secrets();
        let leaf = async || {
            let secret = secrets.get(TLS_SECRET).await?;
            let data = secret.data.unwrap_or_default();
            anyhow::Ok(data.get("tls.crt").map(|bytes| bytes.0.clone()))
        };
        let (old, expired) = (leaf().await.unwrap(), self.expiries().await.unwrap());
        kubectl(
            self.installation,
            &["-n", NAMESPACE, "delete", "secret", CA_SECRET],
        )
        .await;
        until("a leaf of a new CA", async || {
            Ok((leaf().await? != old).then_some(()))
        })
        .await;
        until("each replica to serve it", async || {
            let now = self.expiries().await?;
            let is_new = now.iter().all(|one| !expired.contains(one));
            anyhow::ensure!(is_new && now.len() == 4, "{expired:?}, then {now:?}");
            Ok(Some(()))
        })
        .await;
    }

    /// When the certificate that each container of the replicas serves will expire, by its own metrics.
    async fn expiries(&self) -> anyhow::Result<Vec<String>> {
        let mut expiries = Vec::new();
        let replicas = self.scene.replicas(self.installation).await;
        for (pod, port) in replicas
            .iter()
            .flat_map(|pod| PORTS.map(|port| (pod, port)))
        {
            let name = pod.metadata.name.clone().unwrap_or_default();
            let path = format!("/api/v1/namespaces/{NAMESPACE}/pods/{name}:{port}/proxy/metrics");
            let metrics = self.installation.kubectl.run(["get", "--raw", &path]);
            let metrics = metrics.await?.success()?;
            let metric = "nodelife_certificate_expiry_timestamp_seconds";
            let lines = metrics.lines().filter(|line| line.starts_with(metric));
            expiries.push(lines.collect::<Vec<_>>().join(" "));
        }
        Ok(expiries)
    }

    /// Drains a node with a replica, reboots it and lets pods come back.
    async fn restart_a_node(&mut self) {
        let [.., node] = self.scene.nodes() else {
            panic!("no node")
        };
        let began = Instant::now();
        kubectl(self.installation, &["nodelife", "drain", &node.name]).await;
        println!(
            "the drain of a node with a replica took {:.1} s",
            began.elapsed().as_secs_f32()
        );
        self.scene.cluster.reboot(node).await.unwrap();
        self.rebooted(node).await;
        kubectl(self.installation, &["uncordon", &node.name]).await;
        self.ready.retain(|(name, _)| *name != node.name);
        let now = self.scene.ready_since(self.installation).await;
        let since = now.into_iter().filter(|(name, _)| *name == node.name);
        self.ready.extend(since);
        self.ready.sort();
    }

    /// Waits until a node is Ready by the word of its new kubelet.
    async fn rebooted(&self, node: &RealNode) {
        let boot = node.run(&["cat", "/proc/sys/kernel/random/boot_id"]).await;
        let boot = boot.unwrap().success().unwrap();
        let nodes: Api<Node> = Api::all(self.installation.admin.clone());
        let reported = wait_until("the rebooted node to report", TIMEOUT, async || {
            let status = nodes.get(&node.name).await?.status.unwrap_or_default();
            let info = status.node_info.unwrap_or_default();
            anyhow::ensure!(info.boot_id == boot.trim(), "its boot is {}", info.boot_id);
            Ok(Some(()))
        });
        if let Err(error) = reported.await {
            let log = |agent| tail(&node.log(agent));
            let (kubelet, containerd) = (log(Agent::Kubelet), log(Agent::Containerd));
            panic!("{error}\nkubelet:\n{kubelet}\ncontainerd:\n{containerd}");
        }
        self.scene.cluster.ready(node).await.unwrap();
    }

    async fn roll_out(&self) {
        let restart = [
            "-n",
            NAMESPACE,
            "rollout",
            "restart",
            "deployment/nodelife-webhook",
        ];
        kubectl(self.installation, &restart).await;
        rollout(self.installation, "nodelife-webhook").await;
        // The old replicas end, and pods are on both nodes again.
        self.two_replicas().await;
    }

    async fn two_replicas(&self) {
        self.scene.sound(self.installation).await;
        until("two replicas", async || {
            let replicas = self.scene.replicas(self.installation).await;
            anyhow::ensure!(replicas.len() == 2, "there are {}", replicas.len());
            Ok(Some(()))
        })
        .await;
    }

    /// Deletes a replica as those do who do not want to wait for its end.
    async fn delete_a_replica(&self, round: usize) {
        let replicas = self.scene.replicas(self.installation).await;
        let name = replicas[round % replicas.len()].metadata.name.clone();
        let name = name.unwrap_or_default();
        let force = ["delete", "pod", &name, "--force", "--grace-period=0"];
        kubectl(
            self.installation,
            &[&["-n", NAMESPACE], &force[..]].concat(),
        )
        .await;
        until("its replacement", async || {
            let replicas = self.scene.replicas(self.installation).await;
            let names = replicas.iter().map(|pod| pod.metadata.name.as_ref());
            let is_gone = !names.into_iter().any(|other| other == Some(&name));
            let ready = replicas.iter().filter(|pod| {
                let containers = CONTAINERS.map(|name| container(pod, name));
                containers.iter().all(|one| one.ready)
            });
            Ok((is_gone && ready.count() == 2).then_some(()))
        })
        .await;
        self.two_replicas().await;
    }

    /// Kills the process of a container on its node, and waits until it is started again. Four rounds
    /// have each container of each replica. Gives its name.
    async fn kill_a_container(&self, round: usize) -> &'static str {
        let replicas = self.scene.replicas(self.installation).await;
        let pod = &replicas[round % replicas.len()];
        let name = CONTAINERS[round / replicas.len() % CONTAINERS.len()];
        let spec = pod.spec.as_ref().unwrap();
        let node = self.scene.node(spec.node_name.as_ref().unwrap());
        let before = container(pod, name);
        let id = before.container_id.unwrap_or_default();
        let id = id.trim_start_matches("containerd://");
        let kill = [
            "ctr",
            "--namespace=k8s.io",
            "tasks",
            "kill",
            "--signal=SIGKILL",
            id,
        ];
        node.run(&kill).await.unwrap().success().unwrap();
        until("the container's restart", async || {
            let now = self.scene.replicas(self.installation).await;
            let mut same = now
                .iter()
                .filter(|one| one.metadata.uid == pod.metadata.uid);
            let now = same.next().map(|pod| container(pod, name));
            let now = now.unwrap_or_default();
            let is_back = now.restart_count > before.restart_count && now.ready;
            anyhow::ensure!(is_back, "{now:?}");
            Ok(Some(()))
        })
        .await;
        name
    }
}

/// The state of a pod's container.
fn container(pod: &Pod, name: &str) -> ContainerStatus {
    let status = pod.status.clone().unwrap_or_default();
    let containers = status.container_statuses.unwrap_or_default();
    let container = containers.into_iter().find(|one| one.name == name);
    container.unwrap_or_default()
}

/// Waits for the end of a rollout; of one that does not end, the failure has the pods and events.
async fn rollout(installation: &Installation<'_>, name: &str) {
    let deployment = format!("deployment/{name}");
    let status = ["rollout", "status", &deployment, "--timeout=120s"];
    let kubectl = async |words: &[&str]| {
        let words = [&["--namespace", NAMESPACE], words].concat();
        installation.kubectl.run(&words).await.unwrap()
    };
    if let Err(error) = kubectl(&status).await.success() {
        let pods = kubectl(&["get", "pods", "-o", "yaml"]).await.stdout;
        let events = kubectl(&["get", "events", "--sort-by=.lastTimestamp"]).await;
        panic!("{error}\n{pods}\n{}", events.stdout);
    }
}

async fn kubectl(installation: &Installation<'_>, words: &[&str]) {
    let output = installation.kubectl.run(words).await.unwrap();
    output.success().unwrap();
}
