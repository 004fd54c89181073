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

impl Cluster {
    /// Whether the user may do this with all objects of a resource, in all namespaces. `group`: the
    /// API group, empty for the core.
    pub async fn is_allowed(
        &self,
        verb: &str,
        (group, resource): (&str, &str),
    ) -> Result<bool, ApiError> {
        let review = json!({
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": {"verb": verb, "group": group, "resource": resource}},
        });
        let call = Call::create(REVIEWS.all(), &review)?;
        let review: Review = self.read(&call).await?.json(&call)?;
        Ok(review.status.allowed)
    }
}
