//! Evictions and deletions of pods, each sent once, each with the pod's UID.
//!
//! The body is our own: `Api::evict` of kube 5.0 writes `delete_options`, which the
//! API server drops without a word, and the grace period and the UID with it.

use http::Method;
use nodelife_core::response::ApiResponse;
use serde::Serialize;

use crate::client::Cluster;
use crate::error::ApiError;
use crate::request::Call;
use crate::resource::PODS;

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

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Eviction<'a> {
    api_version: &'static str,
    kind: &'static str,
    metadata: EvictionMeta<'a>,
    delete_options: DeleteOptions<'a>,
}

#[derive(Serialize)]
struct EvictionMeta<'a> {
    name: &'a str,
    namespace: &'a str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct DeleteOptions<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    api_version: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    kind: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    grace_period_seconds: Option<u32>,
    preconditions: Preconditions<'a>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    dry_run: Vec<&'static str>,
}

#[derive(Serialize)]
struct Preconditions<'a> {
    uid: &'a str,
}

impl Removal {
    fn options(&self) -> DeleteOptions<'_> {
        DeleteOptions {
            api_version: None,
            kind: None,
            grace_period_seconds: self.grace_period_seconds,
            preconditions: Preconditions { uid: &self.uid },
            dry_run: if self.dry_run {
                vec!["All"]
            } else {
                Vec::new()
            },
        }
    }

    fn eviction(&self) -> Result<Call, ApiError> {
        let target = PODS.all().in_namespace(&self.namespace).named(&self.name);
        let body = Eviction {
            api_version: "policy/v1",
            kind: "Eviction",
            metadata: EvictionMeta {
                name: &self.name,
                namespace: &self.namespace,
            },
            delete_options: self.options(),
        };
        // Strict: a field that the server does not know must fail and not vanish. A
        // dry run is said in the query as well: the two have to agree
        // (registry/core/pod/storage/eviction.go, v1.36.3).
        let call =
            Call::create(target.at("eviction"), &body)?.with_query("fieldValidation", "Strict");
        Ok(if self.dry_run {
            call.with_query("dryRun", "All")
        } else {
            call
        })
    }

    fn deletion(&self) -> Result<Call, ApiError> {
        let target = PODS.all().in_namespace(&self.namespace).named(&self.name);
        let body = DeleteOptions {
            api_version: Some("v1"),
            kind: Some("DeleteOptions"),
            ..self.options()
        };
        Call::on(Method::DELETE, "delete", target).with_json("application/json", &body)
    }
}

impl Cluster {
    /// Asks for an eviction, once. Whatever the server says is an answer.
    ///
    /// # Errors
    ///
    /// [`ApiError`] when no answer came: then nobody knows whether it was carried out.
    pub async fn evict(&self, removal: &Removal) -> Result<ApiResponse, ApiError> {
        Ok(self.exchange(&removal.eviction()?).await?.raw())
    }

    /// Deletes a pod bypassing its budgets, once. Whatever the server says is an answer.
    pub async fn delete_pod(&self, removal: &Removal) -> Result<ApiResponse, ApiError> {
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
        assert_eq!(
            call.sent(),
            r#"{"apiVersion":"policy/v1","kind":"Eviction","metadata":{"name":"p","namespace":"a"},"deleteOptions":{"gracePeriodSeconds":5,"preconditions":{"uid":"u-1"}}}"#
        );
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
        assert!(
            call.sent()
                .contains(r#""deleteOptions":{"preconditions":{"uid":"u-1"},"dryRun":["All"]}"#)
        );
    }

    #[test]
    fn the_bytes_of_a_deletion_hold_the_uid() {
        let call = removal().deletion().unwrap();
        assert_eq!(call.uri(), "/api/v1/namespaces/a/pods/p");
        assert_eq!(
            call.sent(),
            r#"{"apiVersion":"v1","kind":"DeleteOptions","gracePeriodSeconds":5,"preconditions":{"uid":"u-1"}}"#
        );
    }
}
