//! Client of etcd's JSON gateway.

use anyhow::{Context, Result};
use base64::{Engine, prelude::BASE64_STANDARD};
use futures::{StreamExt, TryStreamExt, stream};
use http::Method;
use kube::Client;
use serde_json::{Value, json};

use crate::request::request;

/// Writes of one transaction: 128 are allowed (`--max-txn-ops`), and 1.5 MiB
/// (`--max-request-bytes`) of objects that may be 12 KiB.
const BATCH: usize = 64;

/// Transactions under way at the same time.
const AT_ONCE: usize = 4;

/// What an API server keeps its objects in.
#[derive(Clone)]
pub struct Etcd {
    client: Client,
}

impl Etcd {
    pub(crate) fn new(client: Client) -> Self {
        Self { client }
    }

    /// The value of a key.
    pub async fn get(&self, key: &str) -> Result<Vec<u8>> {
        let answer = self
            .request("/v3/kv/range", &json!({"key": encode(key)}))
            .await?;
        let value = answer
            .pointer("/kvs/0/value")
            .and_then(Value::as_str)
            .with_context(|| format!("etcd has no {key}"))?;
        Ok(BASE64_STANDARD.decode(value)?)
    }

    /// Removes a key.
    pub async fn delete(&self, key: &str) -> Result<()> {
        let key = json!({"key": encode(key)});
        self.request("/v3/kv/deleterange", &key).await.map(drop)
    }

    /// All keys.
    pub(crate) async fn keys(&self) -> Result<Vec<String>> {
        let all = json!({"key": encode("/"), "range_end": encode("0"), "keys_only": true});
        let answer = self.request("/v3/kv/range", &all).await?;
        let found = answer.get("kvs").and_then(Value::as_array);
        let found = found.into_iter().flatten();
        found
            .map(|entry| {
                let key = entry
                    .get("key")
                    .and_then(Value::as_str)
                    .context("an entry has no key")?;
                Ok(String::from_utf8(BASE64_STANDARD.decode(key)?)?)
            })
            .collect()
    }

    /// Removes keys.
    pub(crate) async fn delete_all(&self, keys: &[String]) -> Result<()> {
        for batch in keys.chunks(BATCH) {
            let deletions: Vec<_> = batch
                .iter()
                .map(|key| json!({"requestDeleteRange": {"key": encode(key)}}))
                .collect();
            let all = json!({"success": deletions});
            self.request("/v3/kv/txn", &all).await?;
        }
        Ok(())
    }

    /// Writes keys and values, in no order.
    pub async fn put(&self, entries: Vec<(String, Vec<u8>)>) -> Result<()> {
        let batches: Vec<_> = entries.chunks(BATCH).map(<[_]>::to_vec).collect();
        stream::iter(batches)
            .map(|batch| async move {
                let writes: Vec<_> = batch
                    .iter()
                    .map(|(key, value)| {
                        let value = BASE64_STANDARD.encode(value);
                        json!({"requestPut": {"key": encode(key), "value": value}})
                    })
                    .collect();
                self.request("/v3/kv/txn", &json!({"success": writes}))
                    .await
                    .map(drop)
            })
            .buffer_unordered(AT_ONCE)
            .try_collect::<()>()
            .await
    }

    async fn request(&self, path: &str, body: &Value) -> Result<Value> {
        request(&self.client, Method::POST, path, Some(body)).await
    }
}

fn encode(key: &str) -> String {
    BASE64_STANDARD.encode(key)
}
