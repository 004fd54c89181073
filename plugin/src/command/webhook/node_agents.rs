//! Finds the pods that a node needs before the webhook can run there, and checks that the webhook is
//! not called for their tokens.

use nodelife_cluster::request::Call;
use nodelife_cluster::resource::Resource;
use nodelife_cluster::{ApiResult, Cluster};
use nodelife_core::format::join;
use nodelife_core::object::Labels;
use serde::Deserialize as _;
use serde_json::Value;

use super::chain::{Health, Link, at, exempts, items, link, may_close_tokens, ok};

pub(super) const LINK: &str = "nodeAgents";
const DAEMON_SETS: Resource = Resource::grouped("apps", "v1", "daemonsets");
const NAMESPACES: Resource = Resource::core("namespaces");
const FIX: &str =
    "before you use Fail: kubectl label namespace NAMESPACE nodelife.dev/webhook=exempt";

/// A `DaemonSet` of a network plugin, a CSI driver or kube-proxy.
pub(super) struct NodeAgent {
    namespace: String,
    name: String,
    /// Of the namespace.
    labels: Labels,
}

pub(super) async fn read(cluster: &Cluster) -> ApiResult<Vec<NodeAgent>> {
    let call = Call::get(DAEMON_SETS.all());
    let list: Value = cluster.read(&call).await?.json(&call)?;
    let sets = items(&list, "/items");
    let mut agents = Vec::new();
    for set in sets.filter(|one| is_node_agent(at(one, "/spec/template/spec"))) {
        let text = |path| at(set, path).as_str().unwrap_or_default().to_owned();
        let namespace = text("/metadata/namespace");
        let found: Option<Value> = cluster.get(NAMESPACES.all().named(&namespace)).await?;
        let labels = Labels::deserialize(at(&found.unwrap_or_default(), "/metadata/labels"));
        agents.push(NodeAgent {
            namespace,
            name: text("/metadata/name"),
            labels: labels.unwrap_or_default(),
        });
    }
    Ok(agents)
}

/// Whether such pods may have to run before the network of their node does: in the host's network,
/// and with the priority class `system-node-critical` or a CNI directory of the host. Tolerations do
/// not tell: exporters of metrics tolerate every taint, too.
fn is_node_agent(pod: &Value) -> bool {
    let mut paths = items(pod, "/volumes").filter_map(|one| at(one, "/hostPath/path").as_str());
    at(pod, "/hostNetwork") == true
        && (at(pod, "/priorityClassName") == "system-node-critical"
            || paths.any(|path| path.starts_with("/etc/cni") || path.starts_with("/opt/cni")))
}

/// `None` where no webhook could refuse tokens.
pub(super) fn inspect(webhooks: &[Value], agents: &Result<Vec<NodeAgent>, String>) -> Option<Link> {
    let webhooks = webhooks.iter().filter(|one| may_close_tokens(one));
    let webhooks: Vec<&Value> = webhooks.collect();
    if webhooks.is_empty() {
        return None;
    }
    let agents = match agents {
        Ok(agents) => agents,
        Err(reason) => return Some(link(LINK, Health::Unknown, reason, "")),
    };
    let is_caught = |agent: &&NodeAgent| webhooks.iter().any(|one| !exempts(one, &agent.labels));
    let (caught, exempt): (Vec<&NodeAgent>, Vec<_>) = agents.iter().partition(is_caught);
    let names = |agents: &[&NodeAgent]| {
        let names = agents.iter();
        let names = names.map(|one| format!("{}/{}", one.namespace, one.name));
        join(names, ", ")
    };
    if caught.is_empty() {
        let message = match exempt.as_slice() {
            [] => "found no DaemonSet that a node needs before the webhook".to_owned(),
            _ => format!("{} exempt: {}", exempt.len(), names(&exempt)),
        };
        return Some(ok(LINK, message));
    }
    let message = format!(
        "{} would get no tokens while the webhook is down, and no replica could start",
        names(&caught)
    );
    Some(link(LINK, Health::Warning, message, FIX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn cni_csi_and_kube_proxy_are_node_agents() {
        let critical = "system-node-critical";
        let cni = json!([{"hostPath": {"path": "/etc/cni/net.d"}}]);
        let exporter = json!([{"hostPath": {"path": "/"}}]);
        for (expected, pod) in [
            (
                true,
                json!({"hostNetwork": true, "priorityClassName": critical}),
            ),
            (true, json!({"hostNetwork": true, "volumes": cni})),
            (false, json!({"priorityClassName": critical})),
            (
                false,
                json!({"hostNetwork": true, "volumes": exporter,
                "tolerations": [{"operator": "Exists"}]}),
            ),
            (false, json!({})),
        ] {
            assert_eq!(is_node_agent(&pod), expected, "{pod}");
        }
    }

    fn found(labels: Value) -> Link {
        let webhook = json!({
            "rules": [{"resources": ["serviceaccounts/token"]}],
            "namespaceSelector": {"matchExpressions": [
                {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["a", "b"]},
                {"key": "nodelife.dev/webhook", "operator": "NotIn", "values": ["exempt"]},
            ]},
        });
        let agent = NodeAgent {
            namespace: "c".to_owned(),
            name: "cni".to_owned(),
            labels: serde_json::from_value(labels).unwrap(),
        };
        inspect(&[webhook], &Ok(vec![agent])).unwrap()
    }

    #[test]
    fn a_cluster_without_node_agents_is_ok() {
        let webhook = json!({"name": "node-tokens.nodelife.dev",
            "rules": [{"resources": ["serviceaccounts/token"]}]});
        let none = inspect(&[webhook], &Ok(Vec::new())).unwrap();
        assert_eq!(none.health, Health::Ok);
        assert!(none.message.starts_with("found no DaemonSet"), "{none:?}");
    }

    #[test]
    fn a_namespace_is_exempt_by_name_or_label() {
        let caught = found(json!({"kubernetes.io/metadata.name": "c"}));
        assert_eq!(caught.health, Health::Warning);
        assert!(caught.message.contains("c/cni"), "{caught:?}");
        let named = found(json!({"kubernetes.io/metadata.name": "b"}));
        assert_eq!(named.health, Health::Ok);
        let labelled = found(json!({"nodelife.dev/webhook": "exempt"}));
        assert_eq!(labelled.health, Health::Ok);
    }

    /// It is called for tokens in every installation, but always with `Ignore`.
    #[test]
    fn the_webhook_for_exempt_namespaces_catches_nobody() {
        let mut webhook = json!({"name": "exempt-node-tokens.nodelife.dev",
            "rules": [{"resources": ["serviceaccounts/token"]}], "failurePolicy": "Ignore"});
        assert_eq!(inspect(&[webhook.clone()], &Ok(Vec::new())), None);
        webhook["name"] = json!("node-tokens.nodelife.dev");
        assert!(inspect(&[webhook], &Ok(Vec::new())).is_some());
    }

    #[test]
    fn without_tokens_there_is_nothing_to_exempt() {
        assert_eq!(inspect(&[json!({})], &Err("forbidden".to_owned())), None);
    }
}
