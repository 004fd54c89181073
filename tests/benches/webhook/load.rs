//! Load generator: keep-alive connections, one request at a time on each.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Result, ensure};
use futures::future::try_join_all;
use nodelife_tests::https::{Connection, TlsClient, head};
use tokio::time::{Instant, sleep_until};

/// Where requests go.
pub(crate) struct Target<'a> {
    trust: &'a TlsClient,
    address: SocketAddr,
    path: String,
}

impl<'a> Target<'a> {
    pub(crate) fn new(trust: &'a TlsClient, address: SocketAddr, path: &str) -> Self {
        Self {
            trust,
            address,
            // The API server says how long it will wait.
            path: format!("{path}?timeout=10s"),
        }
    }

    /// Opens connections.
    pub(crate) async fn open(&self, connections: usize) -> Result<Vec<Connection>> {
        try_join_all((0..connections).map(|_| self.trust.connect(self.address))).await
    }

    /// The request, in one piece.
    fn request(&self, body: &[u8]) -> Vec<u8> {
        let mut request = head(&self.path, "application/json", body.len()).into_bytes();
        request.extend_from_slice(body);
        request
    }

    /// Sends `requests` in all, as fast as it goes.
    pub(crate) async fn hurry(
        &self,
        body: &[u8],
        connections: usize,
        requests: usize,
    ) -> Result<()> {
        let request = self.request(body);
        let open = self.open(connections).await?;
        let each = requests / connections;
        try_join_all(open.into_iter().map(|mut connection| {
            let request = &request;
            async move {
                for _ in 0..each {
                    ask(&mut connection, request).await?;
                }
                Ok::<_, anyhow::Error>(())
            }
        }))
        .await?;
        Ok(())
    }

    /// Sends `rate` a second for `time`, spread over the connections, and gives how long each
    /// took.
    pub(crate) async fn pace(
        &self,
        body: &[u8],
        connections: usize,
        rate: u32,
        time: Duration,
    ) -> Result<Vec<Duration>> {
        let request = self.request(body);
        let open = self.open(connections).await?;
        let start = Instant::now();
        let step = Duration::from_secs(1) / rate;
        let count = u32::try_from(connections)?;
        let times = open
            .into_iter()
            .zip(0_u32..)
            .map(|(mut connection, index)| {
                let request = &request;
                async move {
                    let mut times = Vec::new();
                    let mut next = start + step * index;
                    while next < start + time {
                        sleep_until(next).await;
                        let sent = Instant::now();
                        ask(&mut connection, request).await?;
                        times.push(sent.elapsed());
                        next += step * count;
                    }
                    Ok::<_, anyhow::Error>(times)
                }
            });
        Ok(try_join_all(times).await?.concat())
    }
}

async fn ask(connection: &mut Connection, request: &[u8]) -> Result<()> {
    connection.write(request).await?;
    let answer = connection.answer().await?;
    ensure!(answer.status == 200, "{answer:?}");
    Ok(())
}
