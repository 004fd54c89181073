//! Evictions and deletions of pods, each sent once, each with the pod's UID.
//!
//! The body is our own: `Api::evict` of kube 5.0 writes `delete_options`, which the
//! API server drops without a word, and the grace period and the UID with it.

use http::Method;
use nodelife_core::response::ApiResponse;
use serde_json::{Map, Value, json};

use crate::client::Cluster;
use crate::error::ApiResult;
use crate::request::Call;
use crate::resource::{PODS, Target};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Removal {
    pub namespace: String,
    pub name: String,
    /// Its UID: a pod that took the name over is left alone (409).
    pub uid: String,
    /// Seconds between the signal and the kill; absent: the pod's own.
    pub grace_period_seconds: Option<u32>,
    pub dry_run: bool,
}

impl Removal {
    /// The fields of `DeleteOptions`, without its kind.
    fn options(&self) -> Map<String, Value> {
        let mut options = Map::new();
        options.insert("preconditions".to_owned(), json!({"uid": self.uid}));
        if let Some(seconds) = self.grace_period_seconds {
            options.insert("gracePeriodSeconds".to_owned(), json!(seconds));
        }
        if self.dry_run {
            options.insert("dryRun".to_owned(), json!(["All"]));
        }
        options
    }

    fn target(&self) -> Target {
        PODS.all().in_namespace(&self.namespace).named(&self.name)
    }

    fn eviction(&self) -> ApiResult<Call> {
        let body = json!({
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": self.name, "namespace": self.namespace},
            "deleteOptions": self.options(),
        });
        // Strict: a field that the server does not know must fail and not vanish. A
        // dry run is said in the query as well: the two have to agree
        // (registry/core/pod/storage/eviction.go, v1.36.3).
        let call = Call::create(self.target().at("eviction"), &body)?
            .with_query("fieldValidation", "Strict");
        Ok(if self.dry_run {
            call.with_query("dryRun", "All")
        } else {
            call
        })
    }

    fn deletion(&self) -> ApiResult<Call> {
        let mut options = self.options();
        options.insert("apiVersion".to_owned(), json!("v1"));
        options.insert("kind".to_owned(), json!("DeleteOptions"));
        Call::on(Method::DELETE, "delete", self.target()).with_json("application/json", &options)
    }
}

impl Cluster {
    /// Asks for an eviction, once. Whatever the server says is an answer.
    /// Fails when no answer came: then nobody knows whether it was carried out.
    pub async fn evict(&self, removal: &Removal) -> ApiResult<ApiResponse> {
        Ok(self.exchange(&removal.eviction()?).await?.raw())
    }

    /// Deletes a pod bypassing its budgets, once. Whatever the server says is an answer.
    pub async fn delete_pod(&self, removal: &Removal) -> ApiResult<ApiResponse> {
        Ok(self.exchange(&removal.deletion()?).await?.raw())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn removal() -> Removal {
        Removal {
            namespace: "a".to_owned(),
            name: "p".to_owned(),
            uid: "u-1".to_owned(),
            grace_period_seconds: Some(5),
            dry_run: false,
        }
    }

    #[test]
    fn an_eviction_has_uid_and_grace_period() {
        let call = removal().eviction().unwrap();
        assert_eq!(
            call.uri(),
            "/api/v1/namespaces/a/pods/p/eviction?fieldValidation=Strict"
        );
        let body = json!({
            "apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p", "namespace": "a"},
            "deleteOptions": {"gracePeriodSeconds": 5, "preconditions": {"uid": "u-1"}},
        });
        assert_eq!(call.sent(), body);
    }

    #[test]
    fn a_dry_run_is_in_the_query_and_in_the_body() {
        let dry = Removal {
            dry_run: true,
            grace_period_seconds: None,
            ..removal()
        };
        let call = dry.eviction().unwrap();
        assert!(call.uri().ends_with("&dryRun=All"));
        assert_eq!(
            call.sent()["deleteOptions"],
            json!({"preconditions": {"uid": "u-1"}, "dryRun": ["All"]})
        );
    }

    #[test]
    fn the_bytes_of_a_deletion_hold_the_uid() {
        let call = removal().deletion().unwrap();
        assert_eq!(call.uri(), "/api/v1/namespaces/a/pods/p");
        let body = json!({
            "apiVersion": "v1", "kind": "DeleteOptions",
            "gracePeriodSeconds": 5, "preconditions": {"uid": "u-1"},
        });
        assert_eq!(call.sent(), body);
    }
}
