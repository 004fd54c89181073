//! Tests of what a node hears that is asked for the configuration of its kubelet.

use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use nodelife_tests::fixture::NodeFixture;
use nodelife_tests::kubectl::{Output, run};
use nodelife_tests::pki::{KeyAndCertificate, TestCa};
use nodelife_tests::{ControlPlane, Identity, TIMEOUT, program, until};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use super::support::Controller;

/// A compromised kubelet: it answers everybody with a certificate, and keeps what it is sent.
struct FakeKubelet {
    port: u16,
    connections: Arc<Mutex<usize>>,
    heard: Arc<Mutex<String>>,
    _server: JoinSet<()>,
}

impl FakeKubelet {
    async fn start(pair: &KeyAndCertificate) -> Self {
        let body = r#"{"kubeletconfig":{"enableServer":true,"podsPerCore":7}}"#;
        let answer = format!(
            "HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        Self::answering(pair, answer).await
    }

    async fn answering(pair: &KeyAndCertificate, answer: String) -> Self {
        let certificate = CertificateDer::from_pem_slice(pair.certificate.as_bytes()).unwrap();
        let key = PrivateKeyDer::from_pem_slice(pair.key.as_bytes()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate], key)
            .unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (connections, heard) = (Arc::new(Mutex::new(0)), Arc::new(Mutex::new(String::new())));
        let mut server = JoinSet::new();
        let (count, ears) = (Arc::clone(&connections), Arc::clone(&heard));
        server.spawn(async move {
            loop {
                let (socket, _) = listener.accept().await.unwrap();
                listen(socket, &acceptor, &ears, &answer).await;
                *count.lock().unwrap() += 1;
            }
        });
        Self {
            port,
            connections,
            heard,
            _server: server,
        }
    }

    /// Waits until somebody has come and gone, and gives what was sent.
    async fn heard(&self) -> String {
        until("a caller of the kubelet", async || {
            let came = *self.connections.lock().unwrap() > 0;
            Ok(came.then(|| self.heard.lock().unwrap().clone()))
        })
        .await
    }
}

async fn listen(socket: TcpStream, acceptor: &TlsAcceptor, heard: &Mutex<String>, answer: &str) {
    let Ok(mut socket) = acceptor.accept(socket).await else {
        return;
    };
    let mut buffer = [0; 8192];
    let mut request = String::new();
    while !request.contains("\r\n\r\n") {
        match socket.read(&mut buffer).await {
            Ok(0) | Err(_) => break,
            Ok(count) => request.push_str(&String::from_utf8_lossy(&buffer[..count])),
        }
    }
    heard.lock().unwrap().push_str(&request);
    let _ = socket.write_all(answer.as_bytes()).await;
    let _ = socket.shutdown().await;
}

/// Adds a node whose kubelet listens there.
async fn add_node(controller: &Controller<'_>, name: &str, port: u16) {
    let address = json!([{"type": "InternalIP", "address": "127.0.0.1"}]);
    let endpoint = json!({"kubeletEndpoint": {"Port": port}});
    let status = json!({"status": {"addresses": address, "daemonEndpoints": endpoint}});
    let node = NodeFixture::new(name).patch(status);
    node.create(&controller.admin).await.unwrap();
}

/// The kubelet listens elsewhere now.
async fn patch_port(controller: &Controller<'_>, node: &str, port: u16) {
    let endpoint = json!({"status": {"daemonEndpoints": {"kubeletEndpoint": {"Port": port}}}});
    let endpoint = endpoint.to_string();
    let status = "--subresource=status";
    run_kubectl(controller, ["patch", "node", node, status, "-p", &endpoint]).await;
}

/// What the token in a request is, and the only thing in it that is worth something.
fn bearer(request: &str) -> (String, Value) {
    assert!(
        request.starts_with("GET /configz HTTP/1.1\r\n"),
        "{request}"
    );
    let mut lines = request.lines();
    let token = lines
        .find_map(|line| line.strip_prefix("authorization: Bearer "))
        .unwrap();
    let claims = token.split('.').nth(1).unwrap();
    let claims = BASE64_URL_SAFE_NO_PAD.decode(claims).unwrap();
    (token.to_owned(), serde_json::from_slice(&claims).unwrap())
}

/// Certificates with which the node of this name must get nothing: each is wrong in one respect or in several.
fn forged(plane: &ControlPlane, node: impl Fn(usize) -> String) -> Vec<KeyAndCertificate> {
    let (own, other) = (plane.authority(), TestCa::new().unwrap());
    let (here, elsewhere) = (Ipv4Addr::LOCALHOST, Ipv4Addr::new(127, 0, 0, 2));
    let users = [
        "system:node:NAME",
        "system:node:evil",
        "NAME",
        "system:node:NAME.evil",
        "system:node:NAME ",
        "SYSTEM:NODE:NAME",
        "system:node:",
        "kubernetes",
        "system:serviceaccount:nodelife-system:nodelife-controller",
    ];
    let groups = [
        "system:nodes",
        "system:bootstrappers",
        "system:masters",
        "System:Nodes",
    ];
    let mut all = Vec::new();
    for user in users {
        for group in groups {
            for authority in [own, &other] {
                for address in [Some(here), Some(elsewhere), None] {
                    let is_right = (user, group, address) == (users[0], groups[0], Some(here));
                    if is_right && std::ptr::eq(authority, own) {
                        continue;
                    }
                    let user = user.replace("NAME", &node(all.len()));
                    let pair = match address {
                        Some(address) => authority.kubelet(&user, group, address),
                        // For clients alone.
                        None => authority.client(&user, group),
                    };
                    all.push(pair.unwrap());
                }
            }
        }
    }
    all
}

/// A kubeconfig with a token that may do everything, as an administrator has it, and that token.
async fn boss(plane: &ControlPlane, controller: &Controller<'_>) -> (PathBuf, String) {
    for words in [
        &["create", "serviceaccount", "boss", "-n", "default"][..],
        &[
            "create",
            "clusterrolebinding",
            "boss",
            "--clusterrole=cluster-admin",
            "--serviceaccount=default:boss",
        ],
    ] {
        run_kubectl(controller, words.iter().copied()).await;
    }
    let words = ["create", "token", "boss", "-n", "default"];
    let token = controller.kubectl.run(words);
    let own = token.await.unwrap().success().unwrap().trim().to_owned();
    let kubeconfig = plane
        .kubeconfig_file(&Identity::Token(own.clone()))
        .unwrap();
    (kubeconfig, own)
}

async fn run_kubectl<'a>(controller: &Controller<'_>, words: impl IntoIterator<Item = &'a str>) {
    let done = controller.kubectl.run(words).await.unwrap();
    done.success().unwrap();
}

/// Nobody follows it elsewhere, and no terminal and no memory obeys it.
async fn whatever_it_answers(
    plane: &ControlPlane,
    controller: &Controller<'_>,
    right: &KeyAndCertificate,
    ask: impl AsyncFn(&[&str]) -> Output,
) {
    let evil = forged(plane, |_| "evil".to_owned()).remove(0);
    let evil = FakeKubelet::start(&evil).await;
    let spaces = " ".repeat(2 << 20);
    let head = "HTTP/1.1 200 OK\r\ncontent-length:";
    for (answer, said) in [
        (
            format!(
                "HTTP/1.1 302 Found\r\nlocation: https://127.0.0.1:{}/configz\r\ncontent-length: 0\r\n\r\n",
                evil.port
            ),
            "302 Found",
        ),
        (
            format!("{head} {}\r\n\r\n{spaces}", spaces.len()),
            "length limit exceeded",
        ),
        (
            "HTTP/1.1 403 No\r\ncontent-length: 8\r\n\r\n\u{1b}[2Jgone".to_owned(),
            "forbidden: [2Jgone",
        ),
        (format!("{head} 2\r\n\r\n[]"), "kubelet"),
    ] {
        let kubelet = FakeKubelet::answering(right, answer).await;
        patch_port(controller, "victim", kubelet.port).await;
        let output = ask(&["victim"]).await;
        assert_eq!(output.status, Some(0), "{}", output.stderr);
        assert!(output.stderr.contains(said), "{said}: {}", output.stderr);
        assert!(!output.stderr.contains('\u{1b}'), "{:?}", output.stderr);
    }
    assert_eq!(*evil.connections.lock().unwrap(), 0);
}

#[tokio::test]
async fn a_node_hears_no_token_that_is_worth_something() {
    let plane = ControlPlane::options().start().await.unwrap();
    let controller = Controller::install(&plane).await;
    let configz = nodelife_tests::installation::manifests().join("controller/configz");
    let apply = [
        "apply",
        "--validate=strict",
        "-k",
        configz.to_str().unwrap(),
    ];
    run_kubectl(&controller, apply).await;
    let (kubeconfig, own) = boss(&plane, &controller).await;
    let ask = async |nodes: &[&str]| {
        let mut ask = tokio::process::Command::new(program::nodelife().unwrap());
        ask.env_clear().env("KUBECONFIG", &kubeconfig);
        ask.args(["audit", "--configz=direct", "--fail-on=never"])
            .args(nodes);
        run(ask, "").await.unwrap()
    };

    let name = |index: usize| format!("forged-{index}");
    let mut kubelets = Vec::new();
    for (index, pair) in forged(&plane, name).iter().enumerate() {
        let kubelet = FakeKubelet::start(pair).await;
        add_node(&controller, &name(index), kubelet.port).await;
        kubelets.push(kubelet);
    }
    assert!(kubelets.len() >= 200, "{}", kubelets.len());
    let output = ask(&[]).await;
    assert!(
        output.stderr.contains("got no credentials"),
        "{}",
        output.stderr
    );
    for (index, kubelet) in kubelets.iter().enumerate() {
        assert_eq!(kubelet.heard().await, "", "{index}");
    }
    run_kubectl(&controller, ["delete", "nodes", "--all"]).await;

    // The kubelet of this very node gets a token that only kubelets take for something.
    let here = Ipv4Addr::LOCALHOST;
    let right = plane
        .authority()
        .kubelet("system:node:victim", "system:nodes", here)
        .unwrap();
    let kubelet = FakeKubelet::start(&right).await;
    add_node(&controller, "victim", kubelet.port).await;
    let output = ask(&["victim"]).await;
    assert!(!output.stderr.contains("kubelet at"), "{}", output.stderr);
    let heard = kubelet.heard().await;
    assert!(!heard.contains(&own), "{heard}");
    let (token, claims) = bearer(&heard);
    let account = "system:serviceaccount:nodelife-system:nodelife-controller-configz";
    assert_eq!(claims["sub"], account);
    assert_eq!(
        claims["exp"].as_i64().unwrap() - claims["iat"].as_i64().unwrap(),
        600
    );
    let thief = nodelife_tests::kubectl::Kubectl::new(&plane, &Identity::Token(token)).unwrap();
    let rights = thief
        .run(["auth", "can-i", "--list", "--no-headers"])
        .await
        .unwrap();
    let rights = rights.success().unwrap();
    let beyond = rights.lines().filter(|line| {
        let usual = ["selfsubject", "clustertrustbundles", "[/", "nodes/configz"];
        !usual.iter().any(|usual| line.contains(usual))
    });
    assert_eq!(beyond.collect::<Vec<_>>(), [""; 0], "{rights}");
    drop(kubelet);

    whatever_it_answers(&plane, &controller, &right, ask).await;

    // The controller asks with such a token, too.
    let kubelet = FakeKubelet::start(&right).await;
    patch_port(&controller, "victim", kubelet.port).await;
    let evil = forged(&plane, |_| "other".to_owned()).remove(0);
    let evil = FakeKubelet::start(&evil).await;
    add_node(&controller, "other", evil.port).await;
    let replica = controller.start("one", &["--audit-configz=true", "--maintenance=false"]);
    let (_, claims) = bearer(&kubelet.heard().await);
    assert_eq!(claims["sub"], account);
    assert_eq!(evil.heard().await, "");
    replica.terminate(TIMEOUT).await.unwrap();
}
