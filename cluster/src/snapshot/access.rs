//! Detects the Node authorizer and NodeRestriction. Writes nothing: it sends a SubjectAccessReview
//! and a dry run about a node that does not exist.

use nodelife_core::node_access::{
    ASKER_USER, MASTERS_GROUP, NODES_GROUP, NodeAuthorizer, NodeRestriction, OTHER, Probed,
};
use serde_json::json;

use crate::client::Cluster;
use crate::error::ApiResult;
use crate::request::Call;
use crate::resource::NODES;

/// Whether the Node authorizer is on. Needs the right to create `SubjectAccessReviews`.
pub(super) async fn node_authorizer(cluster: &Cluster) -> ApiResult<NodeAuthorizer> {
    let attributes = json!({"verb": "get", "version": "v1", "resource": "nodes", "name": OTHER});
    let spec = json!({
        "user": ASKER_USER,
        "groups": [NODES_GROUP, "system:authenticated"],
        "resourceAttributes": attributes,
    });
    let answer = cluster.subject_access(&spec).await?;
    Ok(NodeAuthorizer::judge(answer.allowed, &answer.reason))
}

/// Whether the admission plugin NodeRestriction is on, or why that can't be told. Needs the
/// right to impersonate a node, and where nodes may create no nodes, the group system:masters.
pub async fn node_restriction(cluster: &Cluster) -> ApiResult<Result<NodeRestriction, String>> {
    if cluster.impersonates {
        return Ok(Err(
            "the probe impersonates a node, which --as prevents".to_owned()
        ));
    }
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": OTHER}});
    let create = Call::create(NODES.all(), &node)?.with_query("dryRun", "All");
    for groups in [&[NODES_GROUP][..], &[NODES_GROUP, MASTERS_GROUP]] {
        let call = create.clone().impersonating(ASKER_USER, groups);
        let answer = cluster.exchange(&call).await?.raw();
        let message = answer.status.as_ref().map_or("", |status| &status.message);
        match Probed::judge(answer.code, message) {
            Probed::Known(restriction) => return Ok(Ok(restriction)),
            Probed::Nothing(reason) => return Ok(Err(reason)),
            Probed::NotAuthorized => {}
        }
    }
    Ok(Err(
        "neither nodes nor system:masters may create nodes".to_owned()
    ))
}
