//! Reads the resources of operators that guard their pods, as far as they may be read.

use std::collections::BTreeSet;

use nodelife_cluster::list::ListFilter;
use nodelife_cluster::resource::Resource;
use nodelife_cluster::{ApiResult, Cluster, listing};
use nodelife_core::object::{Node, Pod};
use nodelife_core::operator::{OperatorObjects, OperatorResource, Sources, is_guarded};
use serde::Deserialize;
use serde_json::Value;

pub(crate) type Known<'a> = Option<(&'a [Pod], &'a [Node])>;

#[derive(Deserialize)]
struct List {
    #[serde(default)]
    items: Vec<Value>,
}

/// Reads how the operators of some pods act. Where it cannot, nothing is claimed about those pods.
pub(crate) async fn read(
    cluster: &Cluster,
    sources: &Sources,
    known: Known<'_>,
) -> OperatorObjects {
    let mut objects = OperatorObjects::default();
    let mut found = false;
    for (resource, namespace) in sources {
        match read_one(cluster, *resource, namespace).await {
            Ok(Some(items)) => {
                found |= !items.is_empty();
                objects.add(*resource, &items);
            }
            Ok(None) => {}
            Err(error) => tracing::debug!(?resource, %error, "not read"),
        }
    }
    let (pods, nodes) = match known {
        // As many as are kept later, when they are read again.
        Some((pods, nodes)) => {
            let theirs = |pod: &&Pod| {
                let mut namespaces = sources.iter().map(|(_, namespace)| namespace);
                namespaces.any(|namespace| **namespace == *pod.metadata.namespace)
                    || is_guarded(pod)
            };
            let nodes = (!sources.is_empty()).then(|| nodes.to_vec());
            (pods.iter().filter(theirs).cloned().collect(), nodes)
        }
        None if found => around(cluster, sources).await,
        None => return objects,
    };
    objects.around.pods = pods;
    objects.around.nodes = nodes;
    objects
}

async fn around(cluster: &Cluster, sources: &Sources) -> (Vec<Pod>, Option<Vec<Node>>) {
    let mut pods = Vec::new();
    let namespaces = sources.iter().map(|(_, namespace)| namespace.as_str());
    let namespaces: BTreeSet<&str> = namespaces.filter(|name| !name.is_empty()).collect();
    for namespace in namespaces {
        let filter = ListFilter::in_namespace(namespace);
        let listed = cluster.items(&listing::PODS, &filter).await;
        pods.extend(listed.unwrap_or_default());
    }
    let all = ListFilter::default();
    (pods, cluster.items(&listing::NODES, &all).await.ok())
}

/// The objects of a resource; none where the API server does not serve it.
async fn read_one(
    cluster: &Cluster,
    resource: OperatorResource,
    namespace: &str,
) -> ApiResult<Option<Vec<Value>>> {
    for version in resource.versions {
        let mut target = Resource::grouped(resource.group, version, resource.plural).all();
        if !namespace.is_empty() {
            target = target.in_namespace(namespace);
        }
        if let Some(name) = resource.name {
            // The resource itself is always served.
            let object = cluster.get::<Value>(target.named(name)).await?;
            return Ok(Some(object.into_iter().collect()));
        }
        if let Some(list) = cluster.get::<List>(target).await? {
            return Ok(Some(list.items));
        }
    }
    Ok(None)
}
