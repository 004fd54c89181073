//! An attacker in the pod network, beside 20 nodes whose writes must all get through the webhook.
//!
//! The attacker has an address of its own (127.0.0.2), as a pod has. `NODELIFE_ATTACK=60` attacks
//! for so many seconds with each method, and limits how long the writes take.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim, Pod, ServiceAccount};
use kube::api::{Api, PostParams};
use kube::{Client, Resource};
use nodelife_tests::fixture::NodeFixture;
use nodelife_tests::https::{NAME, TlsClient, head};
use nodelife_tests::installation::{Balancer, Replica};
use nodelife_tests::{ControlPlane, Installation, port};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpSocket, TcpStream};
use tokio::runtime::Builder;
use tokio::time::Instant;

use crate::rotation::{accepted, publish};

const PATH: &str = "/validate?timeout=2s";
/// Seconds for a call on a machine that has much else to do.
const PATIENT: u8 = 30;

const ATTACKER: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);
const WRITERS: usize = 20;
/// Between two reviews of a writer.
const PAUSE: Duration = Duration::from_millis(20);
/// Bytes of a forged review; more are dropped unread.
const LARGE: usize = (7 << 20) - 1000;

/// 99 of 100 writes take less.
const SOON: Duration = Duration::from_secs(1);
/// What the manifests give the container.
const LIMIT_KIB: u64 = 128 * 1024;

/// How long each attack takes, if somebody asks for it.
fn seconds() -> Option<u64> {
    std::env::var("NODELIFE_ATTACK").ok()?.parse().ok()
}

/// What the attacker does on each of its connections.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Attack {
    SilentTls,
    SilentTcp,
    PromisedBodies,
    ByteASecond,
    ForgedReviews,
    /// Each has the webhook ask the API server.
    Lookups,
    /// Each has it ask for 62 objects.
    Claims,
    HealthPort,
}

impl Attack {
    const ALL: [Self; 8] = [
        Self::SilentTls,
        Self::SilentTcp,
        Self::PromisedBodies,
        Self::ByteASecond,
        Self::ForgedReviews,
        Self::Lookups,
        Self::Claims,
        Self::HealthPort,
    ];

    fn connections(self) -> usize {
        match self {
            Self::SilentTls | Self::SilentTcp | Self::HealthPort => 2_000,
            Self::PromisedBodies | Self::ByteASecond => 200,
            Self::ForgedReviews => 10,
            Self::Lookups | Self::Claims => 40,
        }
    }
}

/// What all connections of the attacker share.
struct Attacker {
    tls: TlsClient,
    /// Where each replica answers over TLS, and where it answers probes.
    replicas: Vec<(SocketAddr, SocketAddr)>,
    forged: Vec<Vec<u8>>,
    lookup: Vec<u8>,
    claims: Vec<u8>,
}

impl Attacker {
    async fn tcp(&self, to: SocketAddr) -> Result<TcpStream> {
        let socket = TcpSocket::new_v4()?;
        socket.bind((ATTACKER, 0).into())?;
        Ok(socket.connect(to).await?)
    }

    /// One connection, until the replica closes it.
    async fn strike(&self, attack: Attack, index: usize) -> Result<()> {
        let (address, health) = self.replicas[index % self.replicas.len()];
        let tls = async || self.tls.over(self.tcp(address).await?).await;
        match attack {
            Attack::SilentTls => {
                tls().await?.answer().await?;
            }
            Attack::SilentTcp => self.tcp(address).await?.readable().await?,
            Attack::PromisedBodies => {
                let promise = head("/validate?timeout=30s", "application/json", 7 << 20);
                tls().await?.send(&promise, b"{").await?;
            }
            Attack::ByteASecond => {
                let mut connection = tls().await?;
                let head = format!("POST {PATH} HTTP/1.1\r\nhost: {NAME}\r\n");
                for byte in head.bytes() {
                    connection.write(&[byte]).await?;
                    tokio::time::sleep(Duration::from_secs(1)).await;
                }
            }
            Attack::ForgedReviews => {
                let mut connection = tls().await?;
                for body in self.forged.iter().cycle() {
                    connection.post(PATH, body).await?;
                }
            }
            Attack::Lookups | Attack::Claims => {
                let (path, body) = match attack {
                    Attack::Lookups => (PATH, &self.lookup),
                    _ => ("/mutate?timeout=30s", &self.claims),
                };
                let mut connection = tls().await?;
                loop {
                    connection.post(path, body).await?;
                }
            }
            Attack::HealthPort => {
                let mut stream = self.tcp(health).await?;
                stream.write_all(b"GET /metr").await?;
                stream.readable().await?;
            }
        }
        Ok(())
    }
}

/// A node creates the subresource of an object of this name.
fn creation(resource: &str, subresource: &str, name: &str, object: &Value) -> Vec<u8> {
    json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
        "uid": "u", "operation": "CREATE", "name": name, "namespace": "default",
        "resource": {"group": "", "version": "v1", "resource": resource},
        "subResource": subresource, "object": object,
        "userInfo": {"username": "system:node:writer-0", "groups": ["system:nodes"]}}})
    .to_string()
    .into_bytes()
}

/// The review of a token for a pod with 30 claims, none of whose drivers asks for such a token.
async fn claims(admin: &Client) -> Vec<u8> {
    let mut volumes = Vec::new();
    for index in 0..30 {
        let (claim, volume) = (format!("claim-{index}"), format!("volume-{index}"));
        let access = json!(["ReadWriteOnce"]);
        let spec = json!({"capacity": {"storage": "1Gi"}, "accessModes": access,
            "csi": {"driver": "driver.example.com", "volumeHandle": volume},
            "claimRef": {"namespace": "default", "name": claim}});
        let object = json!({"metadata": {"name": volume}, "spec": spec});
        create::<PersistentVolume>(Api::all(admin.clone()), object).await;
        let spec = json!({"accessModes": access, "volumeName": volume,
            "resources": {"requests": {"storage": "1Gi"}}});
        let object = json!({"metadata": {"name": claim}, "spec": spec});
        create::<PersistentVolumeClaim>(Api::default_namespaced(admin.clone()), object).await;
        volumes.push(json!({"name": claim, "persistentVolumeClaim": {"claimName": claim}}));
    }
    let uid = pod(admin, "claims", "writer-0", &volumes).await;
    let bound = json!({"apiVersion": "v1", "kind": "Pod", "name": "claims", "uid": uid});
    let object = json!({"spec": {"audiences": ["elsewhere"], "boundObjectRef": bound}});
    creation("serviceaccounts", "token", "default", &object)
}

async fn create<K>(api: Api<K>, object: Value) -> String
where
    K: Resource + Clone + Serialize + DeserializeOwned + std::fmt::Debug,
{
    let object = serde_json::from_value(object).unwrap();
    let created = api.create(&PostParams::default(), &object).await.unwrap();
    created.meta().uid.clone().unwrap()
}

/// The UID of a new pod on a node.
async fn pod(admin: &Client, name: &str, node: &str, volumes: &[Value]) -> String {
    let spec = json!({"nodeName": node, "serviceAccountName": "default", "volumes": volumes,
        "containers": [{"name": "c", "image": "i"}]});
    let object = json!({"metadata": {"name": name}, "spec": spec});
    create::<Pod>(Api::default_namespaced(admin.clone()), object).await
}

/// A node asks for the token of its pod: the webhook looks the pod up.
async fn token(client: &Client, node: &str, uid: &str) {
    let bound = json!({"apiVersion": "v1", "kind": "Pod", "name": node, "uid": uid});
    let request = json!({"metadata": {}, "spec": {"audiences": [], "boundObjectRef": bound}});
    let request = serde_json::from_value(request).unwrap();
    let accounts: Api<ServiceAccount> = Api::default_namespaced(client.clone());
    let params = PostParams::default();
    let asked = accounts.create_token_request("default", &params, &request);
    asked.await.unwrap();
}

/// Reviews whose bytes would become the largest structures: `resource`, `user`, and the old and
/// the new object, where `repeated` fills one of them.
fn forged() -> Vec<Vec<u8>> {
    let node = json!({"username": "system:node:n1", "groups": ["system:nodes"]});
    let review = |resource: &str, subresource: &str, operation: &str, user: Value| {
        json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
            "uid": "u", "operation": operation, "name": "n1", "namespace": "default",
            "resource": {"group": "", "version": "v1", "resource": resource},
            "subResource": subresource, "userInfo": user,
            "object": "OBJECT", "oldObject": "OLD"}})
        .to_string()
    };
    let fill = |begin: &str, part: &str, end: &str| {
        let count = LARGE / part.len();
        format!("{begin}{}{end}", part.repeat(count))
    };
    let claim = review("persistentvolumeclaims", "status", "UPDATE", node.clone());
    let own = review("nodes", "", "UPDATE", node.clone());
    let pod = review("pods", "", "CREATE", node.clone());
    let labels = (0..LARGE / 12).fold(String::new(), |all, n| all + &format!("\"{n:07}\":\"\","));
    let labels = format!("{{\"metadata\":{{\"labels\":{{{labels}\"x\":\"\"}}}}}}");
    let groups = fill("", "\"\",", "\"system:nodes\"");
    let both = |review: &str, old: &str| review.replace("\"OBJECT\"", "{}").replace("\"OLD\"", old);
    let new =
        |review: &str, new: &str| review.replace("\"OBJECT\"", new).replace("\"OLD\"", "null");
    [
        both(&claim, &fill("{\"a\":[", "[0],", "0]}")),
        both(&claim, &fill("{\"a\":[", "{\"\":0},", "0]}")),
        both(
            &claim,
            &format!(
                "{{\"a\":{}{}}}",
                "[".repeat(LARGE / 2),
                "]".repeat(LARGE / 2)
            ),
        ),
        both(&claim, &labels),
        both(&own, &labels),
        new(&own, &fill("{\"spec\":{\"taints\":[", "{},", "{}]}}")),
        new(&pod, &fill("{\"spec\":{\"containers\":[", "{},", "{}]}}")),
        new(
            &pod,
            &fill("{\"spec\":{\"volumes\":[", "{\"\":{}},", "{}]}}"),
        ),
        new(
            &pod,
            &fill("{\"metadata\":{\"ownerReferences\":[", "{},", "{}]}}"),
        ),
        new(&own, "{}").replace("\"system:nodes\"", &groups),
    ]
    .map(String::into_bytes)
    .into()
}

/// The name of a node, its client, and the UID of its pod.
type Writer = (String, Client, String);

/// Writes of all nodes until `end`; returns how long they took, the longest last.
async fn writes(nodes: &[Writer], end: Instant) -> Vec<Duration> {
    let writers = nodes.iter().map(|(name, client, pod)| async move {
        let mut took = Vec::new();
        while Instant::now() < end {
            let begun = Instant::now();
            publish(client, name, took.len() as u64).await.unwrap();
            took.push(begun.elapsed());
            let begun = Instant::now();
            token(client, name, pod).await;
            took.push(begun.elapsed());
            tokio::time::sleep(PAUSE).await;
        }
        took
    });
    let mut took = futures::future::join_all(writers).await.concat();
    took.sort_unstable();
    took
}

/// Attacks beside the writes of `nodes`.
async fn withstand(
    attack: Attack,
    attacker: &Arc<Attacker>,
    nodes: &[Writer],
    replicas: &mut [Replica],
) {
    // Not on the threads of the writers.
    let runtime = Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build();
    let runtime = runtime.unwrap();
    for index in 0..attack.connections() {
        let attacker = Arc::clone(attacker);
        runtime.spawn(async move {
            loop {
                let _ = attacker.strike(attack, index).await;
                // The replica closed it. Both share a processor here, so it does not come back at
                // once.
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        });
    }
    let duration = Duration::from_secs(seconds().unwrap_or(5));
    let took = writes(nodes, Instant::now() + duration).await;
    runtime.shutdown_background();
    let p99 = took[took.len() * 99 / 100];
    let peaks: Vec<u64> = replicas
        .iter()
        .map(|one| one.program.peak().unwrap())
        .collect();
    println!(
        "{attack:?}: {} writes, p99 {p99:?}, peaks {peaks:?} KiB",
        took.len()
    );
    assert!(
        peaks.iter().all(|peak| *peak < LIMIT_KIB),
        "{attack:?}: {peaks:?} KiB"
    );
    assert!(seconds().is_none() || p99 < SOON, "{attack:?}: {p99:?}");
    for replica in replicas {
        // It did not end, and its health port answers.
        replica.program.check().unwrap();
        replica.requests("validate").await.unwrap();
    }
}

/// `failurePolicy: Fail`: a write fails if no replica answers in time.
#[tokio::test(flavor = "multi_thread")]
async fn nobody_in_the_pod_network_mutes_the_webhook() {
    let plane = ControlPlane::options().start().await.unwrap();
    let installation = Installation::prepare(&plane, "overlays/fail-closed")
        .await
        .unwrap()
        .timeout(PATIENT)
        .unwrap();
    installation.apply().await.unwrap();
    let _certs = installation.certs(&[]).await.unwrap();
    let balancer = Balancer::listen(installation.address()).await.unwrap();
    let mut replicas = Vec::new();
    for _ in 0..2 {
        let listen = SocketAddr::from((Ipv4Addr::LOCALHOST, port::free().unwrap()));
        let replica = installation.replica(Some(listen), &[]).await.unwrap();
        balancer.add(replica.address, replica.health);
        replicas.push(replica);
    }
    installation.injected().await.unwrap();
    let account = json!({"metadata": {"name": "default"}});
    let accounts: Api<ServiceAccount> = Api::default_namespaced(installation.admin.clone());
    create(accounts, account).await;
    let mut nodes = Vec::new();
    for index in 0..WRITERS {
        let name = format!("writer-{index}");
        let fixture = NodeFixture::new(&name);
        fixture.create(&installation.admin).await.unwrap();
        let client = plane.node(&name).await.unwrap();
        accepted(&client, &name).await;
        let source = json!({"serviceAccountToken": {"path": "token"}});
        let volume = json!({"name": "token", "projected": {"sources": [source]}});
        let uid = pod(&installation.admin, &name, &name, &[volume]).await;
        nodes.push((name, client, uid));
    }
    let ca = fs::read_to_string(replicas[0].mount.folder().join("ca.crt")).unwrap();
    let attacker = Arc::new(Attacker {
        tls: TlsClient::new(&ca, None).unwrap(),
        replicas: replicas
            .iter()
            .map(|one| (one.address, one.health))
            .collect(),
        forged: forged(),
        lookup: creation("pods", "eviction", "p", &json!({})),
        claims: claims(&installation.admin).await,
    });
    // A forged review is one that has everything looked up.
    let before = replicas[0].lookups("found").await.unwrap();
    let mut connection = attacker.tls.connect(replicas[0].address).await.unwrap();
    let answer = connection.post("/mutate?timeout=30s", &attacker.claims);
    assert_eq!(answer.await.unwrap().status, 200);
    let found = replicas[0].lookups("found").await.unwrap() - before;
    assert!(found > 60, "{found} lookups");
    for attack in Attack::ALL {
        withstand(attack, &attacker, &nodes, &mut replicas).await;
    }
}
