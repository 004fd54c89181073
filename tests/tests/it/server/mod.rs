//! Tests of `nodelife-webhook serve` with hostile clients: too large, too slow, too many, without
//! a certificate, or connected during shutdown.

mod flood;
mod shared_port;

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;

use anyhow::Result;
use nodelife_tests::https::{Connection, NAME, TlsClient, head};
use nodelife_tests::pki::{KeyAndCertificate, TestCa};
use nodelife_tests::supervise::{Spec, Supervised};
use nodelife_tests::{TIMEOUT, port, program, until};
use serde_json::json;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// Two seconds, as the manifests give it.
const PATH: &str = "/validate?timeout=2s";

struct Server {
    program: Supervised,
    authority: Arc<TestCa>,
    folder: TempDir,
    address: SocketAddr,
    health: SocketAddr,
}

impl Server {
    async fn start(flags: &[&str]) -> Self {
        let authority = TestCa::new().unwrap();
        let server = Self::launch(authority.into(), free_address(), flags, None, |_| ());
        server.ready().await;
        server
    }

    /// With a soft limit of file descriptors such as a container may begin with.
    async fn start_with_few_files(flags: &[&str]) -> Self {
        let (authority, address) = (TestCa::new().unwrap(), free_address());
        let server = Self::launch(authority.into(), address, flags, Some(256), |_| ());
        server.ready().await;
        server
    }

    /// Starts it with a certificate of `authority`, after `change` had its way with the folder.
    fn launch(
        authority: Arc<TestCa>,
        address: SocketAddr,
        flags: &[&str],
        files: Option<u32>,
        change: impl FnOnce(&Path),
    ) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let leaf = authority.server(&[NAME], &[]).unwrap();
        mount(folder.path(), &authority, &leaf);
        change(folder.path());
        let health = free_address();
        let log = folder.path().join("webhook.log");
        let program = program::webhook().unwrap();
        let spec = match files {
            None => Spec::new(program, log),
            Some(files) => Spec::new("/bin/sh", log)
                .args(["-c", &format!("ulimit -Sn {files} && exec \"$0\" \"$@\"")])
                .args([program.display().to_string()]),
        };
        let program = spec
            .args(["serve", "--reload-interval", "1", "--tls-dir"])
            .args([folder.path().display().to_string()])
            .args(["--listen".to_owned(), address.to_string()])
            .args(["--health-listen".to_owned(), health.to_string()])
            .args(flags.iter().copied())
            .start()
            .unwrap();
        Self {
            program,
            authority,
            folder,
            address,
            health,
        }
    }

    /// The whole answer of the plain port.
    async fn plain(&self, path: &str) -> Result<String> {
        let mut stream = TcpStream::connect(self.health).await?;
        let request = format!("GET {path} HTTP/1.1\r\nhost: h\r\nconnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        Ok(answer)
    }

    async fn ready(&self) {
        self.says("/readyz", "200").await;
    }

    async fn says(&self, path: &str, status: &str) {
        until(&format!("{path} {status}"), async || {
            let answer = self.plain(path).await?;
            let wanted = format!("HTTP/1.1 {status} ");
            anyhow::ensure!(answer.starts_with(&wanted), "{answer}");
            Ok(Some(()))
        })
        .await;
    }

    /// A connection, with a certificate of one's own where one is given.
    async fn connect(&self, own: Option<&KeyAndCertificate>) -> Result<Connection> {
        let trust = TlsClient::new(&self.authority.certificate(), own)?;
        trust.connect(self.address).await
    }
}

fn free_address() -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, port::free().unwrap()))
}

/// Writes a Secret's files, as the kubelet does: behind a link that is swapped.
fn mount(folder: &Path, authority: &TestCa, leaf: &KeyAndCertificate) {
    let generation = tempfile::Builder::new()
        .prefix("..")
        .tempdir_in(folder)
        .unwrap()
        .keep();
    for (file, content) in [
        ("tls.crt", &leaf.certificate),
        ("tls.key", &leaf.key),
        ("ca.crt", &authority.certificate()),
    ] {
        fs::write(generation.join(file), content).unwrap();
        let link = folder.join(file);
        if !link.is_symlink() {
            std::os::unix::fs::symlink(format!("..data/{file}"), link).unwrap();
        }
    }
    let next = folder.join("..data_tmp");
    std::os::unix::fs::symlink(generation.file_name().unwrap(), &next).unwrap();
    fs::rename(next, folder.join("..data")).unwrap();
}

fn review() -> Vec<u8> {
    json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
        "uid": "u", "operation": "UPDATE", "name": "n2",
        "resource": {"group": "", "version": "v1", "resource": "nodes"},
        "object": {}, "oldObject": {},
        "userInfo": {"username": "system:node:n1", "groups": ["system:nodes"]}}})
    .to_string()
    .into_bytes()
}

#[tokio::test]
async fn invalid_reviews_get_their_status_and_harm_nobody() {
    let server = Server::start(&[]).await;
    let whole = review();
    let too_large = 48 * 1024 * 1024 + 1;
    let chunked = format!(
        "POST /validate HTTP/1.1\r\nhost: {NAME}\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n"
    );
    for (status, head, body) in [
        (415, head(PATH, "text/plain", whole.len()), &whole[..]),
        (413, head(PATH, "application/json", too_large), b"{"),
        (400, head(PATH, "application/json", 2), b"{}"),
        (400, head(PATH, "application/json", 1), b"["),
        (400, head(PATH, "application/json", 3), b"\xff\xfe\x00"),
        (400, chunked.clone(), b"2\r\n{}\r\n0\r\n\r\n"),
        (
            404,
            head(PATH, "application/json", 2).replace("/validate", "/else"),
            b"{}",
        ),
        (
            405,
            head(PATH, "application/json", 0).replace("POST", "GET"),
            b"",
        ),
    ] {
        let mut connection = server.connect(None).await.unwrap();
        let answer = connection.send(&head, body).await.unwrap();
        assert_eq!(answer.status, status, "{head} {answer:?}");
    }
    let mut connection = server.connect(None).await.unwrap();
    for _ in 0..2 {
        let answer = connection.post(PATH, &whole).await.unwrap();
        assert_eq!(answer.status, 200);
        assert!(
            answer.body.contains("is not allowed to modify node"),
            "{answer:?}"
        );
    }
    let metrics = server.plain("/metrics").await.unwrap();
    assert!(metrics.contains("\nnodelife_panics_total 0\n"), "{metrics}");
}

/// A container's log has 50 MB: no text of a review fills it, nor the answer.
#[tokio::test]
async fn a_log_holds_the_beginning_of_each_text() {
    let server = Server::start(&[]).await;
    let begun = fs::metadata(server.program.log()).unwrap().len();
    let text = "n".repeat(3 << 20);
    let label = format!("node-restriction.kubernetes.io/{text}");
    let labelled = json!({"metadata": {"name": "n1", "labels": {label: ""}}});
    let texts = [
        "/apiVersion",
        "/request/uid",
        "/request/operation",
        "/request/name",
        "/request/namespace",
        "/request/subResource",
        "/request/resource/group",
        "/request/resource/version",
        "/request/resource/resource",
        "/request/userInfo/uid",
    ];
    let user = (
        "/request/userInfo/username",
        json!(format!("system:node:{text}")),
    );
    let texts = texts.map(|place| (place, json!(text))).into_iter();
    let cases: Vec<_> = texts.chain([user, ("/request/object", labelled)]).collect();
    for (place, value) in &cases {
        let mut review: serde_json::Value = serde_json::from_slice(&review()).unwrap();
        let (parent, field) = place.rsplit_once('/').unwrap();
        review.pointer_mut(parent).unwrap()[field] = value.clone();
        if *field == *"object" {
            review["request"]["name"] = json!("n1");
        }
        let mut connection = server.connect(None).await.unwrap();
        let answer = connection.post(PATH, review.to_string().as_bytes()).await;
        let answer = answer.unwrap();
        assert!(answer.body.len() < 4096, "{place}: {}", answer.body.len());
    }
    let written = fs::metadata(server.program.log()).unwrap().len() - begun;
    assert!(written < 4096 * cases.len() as u64, "{written} bytes");
}

/// A node can make its own review too large, and must not get past the webhook by it.
#[tokio::test]
async fn a_review_that_is_too_large_gets_a_verdict_by_its_names() {
    let server = Server::start(&[]).await;
    let mut connection = server.connect(None).await.unwrap();
    // In the order of the API server.
    let update = |name: &str| {
        let padding = "x".repeat(9 << 20);
        let user = r#"{"username":"system:node:n1","groups":["system:nodes"]}"#;
        let resource = r#"{"group":"","version":"v1","resource":"nodes"}"#;
        format!(
            r#"{{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{{"uid":"u","resource":{resource},"name":"{name}","operation":"UPDATE","userInfo":{user},"object":{{"metadata":{{"annotations":{{"a":"{padding}"}}}}}},"oldObject":{{}}}}}}"#
        )
        .into_bytes()
    };
    let (foreign, own) = (update("n2"), update("n1"));
    for (body, text) in [
        (&foreign, "is not allowed to modify node"),
        (&own, "failed to read request.object"),
    ] {
        let answer = connection.post(PATH, body).await.unwrap();
        assert_eq!(answer.status, 200, "{answer:?}");
        assert!(answer.body.contains("\"allowed\":false"), "{answer:?}");
        assert!(answer.body.contains(text), "{answer:?}");
    }
}

#[tokio::test]
async fn a_client_ca_admits_only_its_own_certificates_of_one_name() {
    let authority = Arc::new(TestCa::new().unwrap());
    let next = TestCa::new().unwrap();
    let stranger = next.client("kube-apiserver", "x").unwrap();
    let own = authority.client("kube-apiserver", "x").unwrap();
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), authority.certificate()).unwrap();
    // The cluster's CA signs for kubelets, too.
    let kubelet = authority.client("system:node:n1", "x").unwrap();
    let prefixed = authority.client("kube-apiserver-2", "x").unwrap();
    let serving = authority.server(&["kube-apiserver"], &[]).unwrap();
    let flags = ["--client-ca", file.path().to_str().unwrap()];
    let named = Server::launch(
        Arc::clone(&authority),
        free_address(),
        &[&flags[..], &["--client-name", "system:node:n1"]].concat(),
        None,
        |_| (),
    );
    let server = Server::launch(authority, free_address(), &flags, None, |_| ());
    server.ready().await;
    let certificates = [&stranger, &kubelet, &prefixed, &serving];
    for other in certificates.into_iter().map(Some).chain([None]) {
        // In TLS 1.3 the refusal comes with the first answer.
        let asked = async { server.connect(other).await?.post(PATH, &review()).await };
        assert!(asked.await.is_err());
    }
    named.ready().await;
    let mut connection = named.connect(Some(&kubelet)).await.unwrap();
    let answer = connection.post(PATH, &review()).await.unwrap();
    assert_eq!(answer.status, 200);
    let admits = async |pair| {
        let mut connection = server.connect(Some(pair)).await?;
        Ok::<_, anyhow::Error>(connection.post(PATH, &review()).await?.status)
    };
    assert_eq!(admits(&own).await.unwrap(), 200);
    // The CA is rotated: a moment with no usable file, and then the next one.
    fs::write(file.path(), "").unwrap();
    assert_eq!(admits(&own).await.unwrap(), 200);
    fs::write(file.path(), next.certificate()).unwrap();
    until("the next client CA", async || {
        Ok((admits(&stranger).await? == 200).then_some(()))
    })
    .await;
    assert!(admits(&own).await.is_err());
}

#[tokio::test]
async fn shutdown_finishes_requests_and_a_second_signal_exits() {
    let mut server = Server::start(&["--lame-duck", "600", "--drain-timeout", "600"]).await;
    let mut before = server.connect(None).await.unwrap();
    let answer = before.post(PATH, &review()).await.unwrap();
    assert!(!answer.head.contains("connection: close"), "{answer:?}");
    server.program.interrupt().unwrap();
    server.says("/readyz", "503").await;
    // The old connection, and a new one.
    let mut after = server.connect(None).await.unwrap();
    for connection in [&mut before, &mut after] {
        let answer = connection.post(PATH, &review()).await.unwrap();
        assert_eq!(answer.status, 200);
        assert!(answer.head.contains("connection: close"), "{answer:?}");
    }
    server.program.interrupt().unwrap();
    assert_eq!(server.program.wait(TIMEOUT).await.unwrap(), 130);
}

/// A client that is about to use a connection can send its request again (client-go does).
#[tokio::test]
async fn shutdown_ends_idle_connections_with_a_response() {
    let mut server = Server::start(&["--lame-duck", "1"]).await;
    let mut late = server.connect(None).await.unwrap();
    assert_eq!(late.post(PATH, &review()).await.unwrap().status, 200);
    let mut idle = server.connect(None).await.unwrap();
    assert_eq!(idle.post(PATH, &review()).await.unwrap().status, 200);
    let mut unused = server.connect(None).await.unwrap();
    server.program.interrupt().unwrap();
    let farewell = async |connection: &mut Connection| {
        let answer = connection.answer().await.unwrap();
        assert_eq!(answer.status, 503);
        for header in ["connection: close", "retry-after: 0"] {
            assert!(answer.head.contains(header), "{answer:?}");
        }
        assert!(connection.answer().await.is_err());
    };
    farewell(&mut idle).await;
    // This one was idle for longer, and writes its request when the farewell is under way.
    let answer = late.post(PATH, &review()).await.unwrap();
    assert_eq!(answer.status, 503, "{answer:?}");
    farewell(&mut unused).await;
    drop((idle, late, unused));
    assert_eq!(server.program.wait(TIMEOUT).await.unwrap(), 0);
}
