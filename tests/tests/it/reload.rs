//! Tests of certificate reload: a running `serve` whose mounted Secret a kubelet replaces twice,
//! with a mismatched pair in between.

use std::collections::BTreeMap;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use k8s_openapi::ByteString;
use nodelife_tests::installation::swap;
use nodelife_tests::pki::{KeyAndCertificate, TestCa};
use nodelife_tests::supervise::{Spec, Supervised};
use nodelife_tests::{port, program, until};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

const NAME: &str = "nodelife-webhook.nodelife-system.svc";

/// A Secret's content.
fn secret(pair: &KeyAndCertificate, authority: &TestCa) -> BTreeMap<String, ByteString> {
    let entry = |name: &str, text: &str| (name.to_owned(), ByteString(text.as_bytes().to_vec()));
    BTreeMap::from([
        entry("tls.crt", &pair.certificate),
        entry("tls.key", &pair.key),
        entry("ca.crt", &authority.certificate()),
    ])
}

/// A kubeconfig of a cluster that is not there: it keeps a program from finding another.
fn nowhere(parent: &Path) -> PathBuf {
    let kubeconfig = parent.join("kubeconfig");
    let nowhere = r#"{"apiVersion": "v1", "kind": "Config", "current-context": "none",
        "contexts": [{"name": "none", "context": {"cluster": "none", "user": "none"}}],
        "clusters": [{"name": "none", "cluster": {"server": "https://127.0.0.1:1"}}],
        "users": [{"name": "none", "user": {}}]}"#;
    fs::write(&kubeconfig, nowhere).unwrap();
    kubeconfig
}

/// `nodelife-webhook` without a cluster, and its plain port.
struct Health {
    program: Supervised,
    address: SocketAddr,
}

impl Health {
    /// Runs these words and waits until the plain port answers.
    async fn start(folder: &Path, words: &[&str], kubeconfig: &Path) -> Self {
        let address = SocketAddr::from(([127, 0, 0, 1], port::free().unwrap()));
        let program = Spec::new(program::webhook().unwrap(), folder.join("log"))
            .args(words.iter().copied())
            .args(["--health-listen".to_owned(), address.to_string()])
            .args(["--kubeconfig".to_owned(), kubeconfig.display().to_string()])
            .start()
            .unwrap();
        let mut this = Self { program, address };
        until("the plain port", async || {
            this.program.check()?;
            this.page("/livez").await.map(Some)
        })
        .await;
        this
    }

    /// A page of the plain port.
    async fn page(&self, path: &str) -> anyhow::Result<String> {
        let mut stream = TcpStream::connect(self.address).await?;
        let request = format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        Ok(answer)
    }
}

/// `serve` on a folder, and a client that trusts some CAs.
struct Server {
    health: Health,
    address: SocketAddr,
    connector: TlsConnector,
}

impl Server {
    async fn start(parent: &Path, mount: &Path, trusted: &[&TestCa]) -> Self {
        let address = SocketAddr::from(([127, 0, 0, 1], port::free().unwrap()));
        let (listen, mount) = (address.to_string(), mount.display().to_string());
        let words = ["serve", "--reload-interval", "1", "--tls-dir", &mount];
        let words = [&words[..], &["--listen", &listen]].concat();
        let health = Health::start(parent, &words, &nowhere(parent)).await;
        let mut roots = RootCertStore::empty();
        for authority in trusted {
            let pem = authority.certificate();
            roots
                .add(CertificateDer::from_pem_slice(pem.as_bytes()).unwrap())
                .unwrap();
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        Self {
            health,
            address,
            connector: TlsConnector::from(Arc::new(config)),
        }
    }

    /// The certificate that a new connection gets.
    async fn served(&self) -> anyhow::Result<CertificateDer<'static>> {
        let stream = TcpStream::connect(self.address).await?;
        let name = ServerName::try_from(NAME)?;
        let stream = self.connector.connect(name, stream).await?;
        let chain = stream.get_ref().1.peer_certificates().unwrap();
        Ok(chain[0].clone().into_owned())
    }

    async fn serves(&mut self, what: &str, pair: &KeyAndCertificate) {
        let wanted = CertificateDer::from_pem_slice(pair.certificate.as_bytes()).unwrap();
        until(what, async || {
            self.health.program.check()?;
            Ok((self.served().await? == wanted).then_some(()))
        })
        .await;
    }

    /// How often a pair was refused.
    async fn refused(&self) -> anyhow::Result<u64> {
        let text = self.health.page("/metrics").await?;
        let metric = "nodelife_certificate_reloads_total{result=\"refused\"} ";
        let line = text.lines().find_map(|line| line.strip_prefix(metric));
        Ok(line.map(str::parse).transpose()?.unwrap_or(0))
    }

    async fn refuses(&mut self, what: &str, times: u64) {
        until(what, async || {
            self.health.program.check()?;
            Ok((self.refused().await? == times).then_some(()))
        })
        .await;
    }

    /// The first line of the answer to the readiness probe.
    async fn readiness(&self) -> String {
        let page = self.health.page("/readyz").await.unwrap();
        page.lines().next().unwrap_or_default().to_owned()
    }
}

#[tokio::test]
async fn a_new_key_pair_is_reloaded_and_a_mismatched_one_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let mount = folder.path().join("mount");
    fs::create_dir(&mount).unwrap();
    let [old, new, foreign] = [0; 3].map(|_| TestCa::new().unwrap());
    let leaf = |authority: &TestCa| authority.server(&[NAME], &[]).unwrap();
    let [first, second, third] = [leaf(&old), leaf(&old), leaf(&new)];

    // Not ready without a certificate, and no reason to end.
    let mut server = Server::start(folder.path(), &mount, &[&old, &new]).await;
    assert!(server.readiness().await.contains(" 503 "));

    swap(&mount, &secret(&first, &old)).unwrap();
    server.serves("the first leaf", &first).await;
    assert!(server.readiness().await.contains(" 200 OK"));
    swap(&mount, &secret(&second, &old)).unwrap();
    server.serves("the second leaf", &second).await;

    // The key of another leaf; then a leaf that the CA beside it did not sign; then half a
    // certificate. The old one goes on through all of them.
    let mixed = KeyAndCertificate {
        certificate: third.certificate.clone(),
        key: second.key.clone(),
    };
    swap(&mount, &secret(&mixed, &new)).unwrap();
    server.refuses("a refused key", 1).await;
    swap(&mount, &secret(&third, &foreign)).unwrap();
    server.refuses("a refused CA", 2).await;
    let mut half = secret(&third, &new);
    half.get_mut("tls.crt").unwrap().0.truncate(200);
    swap(&mount, &half).unwrap();
    server.refuses("half a certificate", 3).await;
    server.serves("still the second leaf", &second).await;
    assert!(server.readiness().await.contains(" 200 OK"));
    // A file that is missing altogether is not even a pair.
    let mut keyless = secret(&third, &new);
    keyless.remove("tls.key");
    swap(&mount, &keyless).unwrap();
    server.serves("still the second leaf", &second).await;

    swap(&mount, &secret(&third, &new)).unwrap();
    server.serves("a leaf of the new CA", &third).await;
    assert_eq!(server.refused().await.unwrap(), 3);
}
