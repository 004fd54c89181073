//! Asks the API server what the user may do.

use serde::Deserialize;
use serde_json::json;

use crate::client::Cluster;
use crate::error::ApiError;
use crate::request::Call;
use crate::resource::Resource;

const REVIEWS: Resource =
    Resource::grouped("authorization.k8s.io", "v1", "selfsubjectaccessreviews");

#[derive(Deserialize)]
struct Review {
    status: ReviewStatus,
}

#[derive(Deserialize)]
struct ReviewStatus {
    #[serde(default)]
    allowed: bool,
}

/// What a user wants to do.
#[derive(Clone, Copy, Debug, Default)]
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
    /// Whether the user may do this.
    ///
    /// # Errors
    ///
    /// [`ApiError`]: the API server did not say.
    pub async fn is_allowed(&self, permission: &Permission<'_>) -> Result<bool, ApiError> {
        let review = json!({
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": {
                "verb": permission.verb,
                "group": permission.group,
                "resource": permission.resource,
                "subresource": permission.subresource,
                "namespace": permission.namespace,
                "name": permission.name,
            }},
        });
        let call = Call::create(REVIEWS.all(), &review)?;
        let review: Review = self.read(&call).await?.json(&call)?;
        Ok(review.status.allowed)
    }
}
