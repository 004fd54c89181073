//! Processes that share a port, as the two containers of a webhook pod do.

use std::fs;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::Result;
use nodelife_tests::https::{NAME, TlsClient};
use nodelife_tests::pki::TestCa;
use nodelife_tests::supervise::tail;
use nodelife_tests::{TIMEOUT, until};
use tokio::task::JoinSet;

use super::{PATH, Server, free_address, mount, review};

const CALLERS: usize = 4;
const ROUNDS: usize = 6;

/// Calls at each stage: if half of the connections led to nobody, one of them would surely fail.
const MANY: u64 = 100;

#[derive(Debug)]
struct Failure {
    began: Instant,
    error: String,
}

/// Callers that open a connection for each call.
struct Calls {
    _tasks: JoinSet<()>,
    done: Arc<AtomicU64>,
    failed: Arc<Mutex<Vec<Failure>>>,
}

impl Calls {
    fn start(address: SocketAddr, authority: &TestCa) -> Self {
        let client = TlsClient::new(&authority.certificate(), None).unwrap();
        let (mut tasks, done) = (JoinSet::new(), Arc::<AtomicU64>::default());
        let failed = Arc::<Mutex<Vec<Failure>>>::default();
        for _ in 0..CALLERS {
            let (client, done, failed) = (client.clone(), Arc::clone(&done), Arc::clone(&failed));
            tasks.spawn(async move {
                loop {
                    let began = Instant::now();
                    if let Err(error) = call(&client, address).await {
                        let error = format!("{error:#}");
                        failed.lock().unwrap().push(Failure { began, error });
                    }
                    done.fetch_add(1, Ordering::Relaxed);
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
            });
        }
        Self {
            _tasks: tasks,
            done,
            failed,
        }
    }

    /// Waits for many calls more.
    async fn go_on(&self) {
        let wanted = self.done.load(Ordering::Relaxed) + MANY;
        until("calls", async || {
            Ok((self.done.load(Ordering::Relaxed) >= wanted).then_some(()))
        })
        .await;
    }

    fn failed(&self) -> Vec<Failure> {
        std::mem::take(&mut self.failed.lock().unwrap())
    }
}

async fn call(client: &TlsClient, address: SocketAddr) -> Result<()> {
    let mut connection = client.connect(address).await?;
    let answer = connection.post(PATH, &review()).await?;
    anyhow::ensure!(answer.status == 200, "{answer:?}");
    Ok(())
}

/// Waits until the process has answered a call.
async fn answers(server: &Server) {
    until("a call that it answers", async || {
        let metrics = server.plain("/metrics").await?;
        let counted = metrics.contains("\nnodelife_admission_requests_total{");
        Ok(counted.then_some(()))
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_of_two_processes_answers_while_the_other_is_dead() {
    let (authority, address) = (Arc::new(TestCa::new().unwrap()), free_address());
    let launch = |has_certificate: bool| {
        let flags = ["--share-port"];
        Server::launch(Arc::clone(&authority), address, &flags, None, |folder| {
            if !has_certificate {
                fs::remove_file(folder.join("..data")).unwrap();
            }
        })
    };
    let (mut first, mut second) = (launch(true), launch(true));
    first.ready().await;
    second.ready().await;
    let calls = Calls::start(address, &authority);
    answers(&first).await;
    answers(&second).await;
    calls.go_on().await;

    for _ in 0..ROUNDS {
        first.program.kill().await.unwrap();
        let dead = Instant::now();
        calls.go_on().await;
        // The kubelet has started it again, and its Secret comes late.
        let started = launch(false);
        started.says("/livez", "200").await;
        started.says("/readyz", "503").await;
        calls.go_on().await;
        let leaf = authority.server(&[NAME], &[]).unwrap();
        mount(started.folder.path(), &authority, &leaf);
        started.ready().await;
        answers(&started).await;
        calls.go_on().await;

        // A process that is killed takes the calls with it that it had begun.
        let failed = calls.failed();
        println!("calls of the killed process: {failed:?}");
        assert!(failed.len() <= CALLERS, "{failed:?}");
        for Failure { began, error } in failed {
            let refused = error.contains("refused");
            assert!(began < dead && !refused, "{error}");
        }
        (first, second) = (second, started);
    }
    drop(second);
}

/// Otherwise any process could take calls by this flag.
#[tokio::test]
async fn a_port_is_shared_only_if_both_have_the_flag() {
    let (authority, address) = (Arc::new(TestCa::new().unwrap()), free_address());
    for flags in [[&[][..], &["--share-port"]], [&["--share-port"], &[]]] {
        let [first, second] = flags;
        let launch = |flags| Server::launch(Arc::clone(&authority), address, flags, None, |_| ());
        let first = launch(first);
        first.ready().await;
        let mut second = launch(second);
        assert_eq!(second.program.wait(TIMEOUT).await.unwrap(), 1);
        let log = tail(second.program.log());
        let text = format!("failed to listen on {address}");
        assert!(log.contains(&text), "{log}");
        first.program.kill().await.unwrap();
    }
}
