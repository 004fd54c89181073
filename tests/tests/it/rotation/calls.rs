//! Writers whose writes all go through the webhook, and their results.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use k8s_openapi::api::resource::v1::ResourceSlice;
use kube::api::PostParams;
use kube::{Api, Client};
use nodelife_tests::fixture::NodeFixture;
use nodelife_tests::{ControlPlane, Installation, wait_until};
use serde_json::json;
use tokio::task::JoinSet;

/// How many write at the same time.
const WRITERS: usize = 20;

/// Between two writes of one writer, so that the machine has time for the rest.
const PAUSE: Duration = Duration::from_millis(400);

/// How many writes each has to have made in the end. The proof in full is 10,000, which
/// takes three quarters of an hour: `NODELIFE_CALLS=10000`.
fn wanted() -> u64 {
    let text = std::env::var("NODELIFE_CALLS").ok();
    text.and_then(|text| text.parse().ok()).unwrap_or(200)
}

/// A write that failed.
#[derive(Debug, Clone)]
pub(super) struct Failure {
    pub(super) began: Instant,
    pub(super) ended: Instant,
    pub(super) message: String,
}

pub(crate) struct Calls {
    tasks: JoinSet<()>,
    stop: Arc<AtomicBool>,
    done: Arc<[AtomicU64]>,
    failed: Arc<Mutex<Vec<Failure>>>,
}

impl Calls {
    /// Starts them, once the webhook is seen to be called.
    pub(crate) async fn start(plane: &ControlPlane, installation: &Installation<'_>) -> Self {
        let mut calls = Self {
            tasks: JoinSet::new(),
            stop: Arc::default(),
            done: (0..WRITERS).map(|_| AtomicU64::new(0)).collect(),
            failed: Arc::default(),
        };
        for writer in 0..WRITERS {
            let name = format!("writer-{writer}");
            NodeFixture::new(&name)
                .create(&installation.admin)
                .await
                .unwrap();
            let client = plane.node(&name).await.unwrap();
            if writer == 0 {
                accepted(&client, &name).await;
            }
            let (stop, done) = (Arc::clone(&calls.stop), Arc::clone(&calls.done));
            let failed = Arc::clone(&calls.failed);
            calls.tasks.spawn(async move {
                while !stop.load(Ordering::Relaxed) {
                    let round = done[writer].load(Ordering::Relaxed);
                    let began = Instant::now();
                    if let Err(error) = publish(&client, &name, round).await {
                        failed.lock().unwrap().push(Failure {
                            began,
                            ended: Instant::now(),
                            message: error.to_string(),
                        });
                    }
                    done[writer].fetch_add(1, Ordering::Relaxed);
                    tokio::time::sleep(PAUSE).await;
                }
            });
        }
        calls
    }

    /// What failed so far.
    pub(super) fn failures(&self) -> Vec<Failure> {
        self.failed.lock().unwrap().clone()
    }

    /// How many were made so far, by all.
    pub(crate) fn total(&self) -> u64 {
        self.done
            .iter()
            .map(|one| one.load(Ordering::Relaxed))
            .sum()
    }

    pub(crate) fn assert_none_failed(&self, when: &str) {
        let failures = self.failures();
        assert!(
            failures.is_empty(),
            "{when}: {} of {} calls failed, first: {}",
            failures.len(),
            self.total(),
            failures[0].message
        );
    }

    /// Waits until everybody has made enough calls, and ends them.
    pub(super) async fn enough(&self) {
        let wanted = wanted();
        let deadline = Duration::from_secs(120 + wanted);
        wait_until("enough calls of every writer", deadline, async || {
            let least = self.done.iter().map(|one| one.load(Ordering::Relaxed));
            Ok((least.min() >= Some(wanted)).then_some(()))
        })
        .await
        .unwrap();
    }

    /// Ends the writers; how many calls they made and what failed.
    pub(super) async fn stop(mut self) -> (u64, Vec<Failure>) {
        self.stop.store(true, Ordering::Relaxed);
        while let Some(ended) = self.tasks.join_next().await {
            ended.unwrap();
        }
        (self.total(), self.failures())
    }
}

/// A node publishes a `ResourceSlice` of its own: no filter lets that pass without a call. A dry run
/// takes the same way and stores nothing.
pub(crate) async fn publish(client: &Client, node: &str, round: u64) -> kube::Result<()> {
    let slices: Api<ResourceSlice> = Api::all(client.clone());
    let slice = json!({"metadata": {"name": format!("{node}-{round}")}, "spec": {
        "driver": "driver.example.com", "nodeName": node,
        "pool": {"name": node, "resourceSliceCount": 1, "generation": 1}}});
    let slice = serde_json::from_value(slice).map_err(kube::Error::SerdeError)?;
    let params = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    slices.create(&params, &slice).await.map(drop)
}

/// How long an API server may need to notice what was repaired.
const NOTICE: Duration = Duration::from_secs(30);

/// Waits until the API server has noticed and the webhook accepts.
pub(crate) async fn accepted(client: &Client, node: &str) {
    wait_until("an answer of the webhook", NOTICE, async || {
        publish(client, node, 0).await?;
        Ok(Some(()))
    })
    .await
    .unwrap();
}
