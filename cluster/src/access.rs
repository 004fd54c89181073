//! Asks the API server what somebody may do.

use nodelife_core::text::Str;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::client::Cluster;
use crate::error::ApiResult;
use crate::request::Call;
use crate::resource::Resource;

const SELF_REVIEWS: Resource =
    Resource::grouped("authorization.k8s.io", "v1", "selfsubjectaccessreviews");
const REVIEWS: Resource = Resource::grouped("authorization.k8s.io", "v1", "subjectaccessreviews");
const WHO_AM_I: Resource = Resource::grouped("authentication.k8s.io", "v1", "selfsubjectreviews");

#[derive(Deserialize)]
struct Review {
    status: AccessStatus,
}

#[derive(Deserialize)]
pub(crate) struct AccessStatus {
    #[serde(default)]
    pub(crate) allowed: bool,
    #[serde(default)]
    pub(crate) reason: String,
}

#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Permission<'a> {
    pub verb: &'a str,
    /// The API group, empty for the core.
    pub group: &'a str,
    pub resource: &'a str,
    /// Empty for the resource itself.
    pub subresource: &'a str,
    /// Empty for all.
    pub namespace: &'a str,
    /// Empty for all objects: a role may name some.
    pub name: &'a str,
}

impl Cluster {
    pub async fn is_allowed(&self, permission: &Permission<'_>) -> ApiResult<bool> {
        let spec = json!({"resourceAttributes": permission});
        let answer = self.access(SELF_REVIEWS, "SelfSubjectAccessReview", &spec);
        Ok(answer.await?.allowed)
    }

    pub async fn own_pod(&self) -> ApiResult<Option<Str>> {
        let review = self.who_am_i().await?;
        // `PodUIDKey` of staging/src/k8s.io/apiserver/pkg/authentication/serviceaccount/util.go, v1.36.3.
        let extra = review.pointer("/status/userInfo/extra");
        let uid = extra.and_then(|extra| extra.get("authentication.kubernetes.io/pod-uid")?.get(0));
        Ok(uid.and_then(Value::as_str).map(Str::from))
    }

    /// The user of this client, as the API server knows them.
    pub async fn user(&self) -> ApiResult<Option<String>> {
        let review = self.who_am_i().await?;
        let user = review.pointer("/status/userInfo/username");
        Ok(user.and_then(Value::as_str).map(str::to_owned))
    }

    /// A `SelfSubjectReview`, asked for once: a client stays the same user.
    async fn who_am_i(&self) -> ApiResult<&Value> {
        let ask = async || {
            let kind = "SelfSubjectReview";
            let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": kind});
            let call = Call::create(WHO_AM_I.all(), &review)?;
            self.read(&call).await?.json(&call)
        };
        self.user.get_or_try_init(ask).await
    }

    /// The answer to the `spec` of a `SubjectAccessReview`. Needs the right to create these.
    pub(crate) async fn subject_access(&self, spec: &Value) -> ApiResult<AccessStatus> {
        self.access(REVIEWS, "SubjectAccessReview", spec).await
    }

    async fn access(&self, reviews: Resource, kind: &str, spec: &Value) -> ApiResult<AccessStatus> {
        let review = json!({"apiVersion": "authorization.k8s.io/v1", "kind": kind, "spec": spec});
        let call = Call::create(reviews.all(), &review)?;
        let review: Review = self.read(&call).await?.json(&call)?;
        Ok(review.status)
    }
}
