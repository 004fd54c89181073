//! Probes of the webhook by dry runs through the API server, and the API server's own counters.

use nodelife_cluster::request::Call;
use nodelife_cluster::resource::PODS;
use nodelife_cluster::snapshot::node_restriction as node_restriction_of;
use nodelife_cluster::{ApiResult, Cluster};
use nodelife_core::node_access::NodeRestriction;
use serde_json::{Value, json};

use super::chain::{Health, Installed, Link, at, items, link, needs, ok};

struct Probe {
    link: &'static str,
    webhook: &'static str,
    failed: &'static str,
    answered: &'static str,
    fix: &'static str,
}

const CALL: Probe = Probe {
    link: "call",
    webhook: "tolerations.nodelife.dev",
    failed: "unreachable: the API server could not call the webhook, and let the pod pass",
    answered: "a dry run reached the webhook",
    fix: "the API server has to reach the Service's pods: firewall (GKE), CNI overlay (EKS: overlay host-network), NetworkPolicy",
};

const LOOKUP: Probe = Probe {
    link: "lookup",
    webhook: "node-restriction.nodelife.dev",
    failed: "the webhook could not look up a pod, and the API server let the request pass",
    answered: "the webhook looked up a pod",
    fix: "the webhook's pods have to reach the API server (NetworkPolicy with egress), with the ClusterRole nodelife-webhook",
};

/// Whether the API server's plugin, before any webhook, or the webhook refuses what nodes may not write.
pub(super) async fn node_restriction(cluster: &Cluster, installed: &Installed) -> Link {
    const LINK: &str = "nodeRestriction";
    let restricts = installed.is_there() && needs(installed, "/webhooks/0/name", LOOKUP.webhook);
    match node_restriction_of(cluster).await {
        Ok(Ok(NodeRestriction::On)) => ok(
            LINK,
            "the in-tree plugin is on, and refuses what nodes may not write before any webhook is called: nothing or the default installation is enough",
        ),
        Ok(Ok(NodeRestriction::Off { .. })) if restricts => ok(
            LINK,
            "the in-tree plugin is off: the webhook alone restricts nodes",
        ),
        Ok(Ok(NodeRestriction::Off { .. })) => link(
            LINK,
            Health::Warning,
            "the in-tree plugin is off, and no webhook of ours restricts nodes either",
            "turn the plugin on, or `kubectl apply -k manifests/overlays/node-restriction`",
        ),
        Ok(Err(reason)) => link(LINK, Health::Unknown, reason, ""),
        Err(error) => link(LINK, Health::Unknown, error.to_string(), ""),
    }
}

pub(super) async fn call(cluster: &Cluster) -> Link {
    let pod = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"generateName": "nodelife-status-"},
        "spec": {"containers": [{"name": "none", "image": "none"}]},
    });
    let target = PODS.all().in_namespace("default");
    CALL.run(cluster, Call::create(target, &pod)).await
}

/// Evicts a replica as a dry run, in the name of its node: the webhook looks the pod up. `None`
/// where no endpoint names its pod.
pub(super) async fn lookup(cluster: &Cluster, namespace: &str, slices: &[Value]) -> Option<Link> {
    let mut endpoints = slices.iter().flat_map(|slice| items(slice, "/endpoints"));
    let (node, pod) = endpoints.find_map(|endpoint| {
        let pod = at(endpoint, "/targetRef/name").as_str()?;
        Some((at(endpoint, "/nodeName").as_str()?, pod))
    })?;
    let eviction = json!({
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": pod, "namespace": namespace},
    });
    let target = PODS.all().in_namespace(namespace).named(pod).at("eviction");
    let user = format!("system:node:{node}");
    let groups = ["system:nodes", "system:authenticated"];
    let made = Call::create(target, &eviction).map(|call| call.impersonating(&user, &groups));
    Some(LOOKUP.run(cluster, made).await)
}

impl Probe {
    /// Sends the request as a dry run. An API server that ignores failures does not report them
    /// in its response, so its own counters are read before and after.
    async fn run(&self, cluster: &Cluster, made: ApiResult<Call>) -> Link {
        let broken = |message: &str| link(self.link, Health::Broken, message, self.fix);
        let unknown = |message: String| link(self.link, Health::Unknown, message, "");
        let before = self.counters(cluster).await;
        let answered = match made {
            Ok(call) => cluster.call(&call.with_query("dryRun", "All")).await,
            Err(error) => Err(error),
        };
        if let Err(error) = &answered {
            let text = error.to_string();
            if text.contains("failed calling webhook") {
                return broken(&text);
            }
        }
        let after = self.counters(cluster).await;
        match (before, after) {
            (Ok(before), Ok(after)) if after.open > before.open => broken(self.failed),
            (Ok(before), Ok(after)) if after.answered > before.answered => {
                ok(self.link, self.answered)
            }
            (Ok(_), Ok(_)) => unknown(match answered {
                Ok(_) => format!(
                    "another API server may have answered the dry run, or {} is not installed",
                    self.webhook
                ),
                Err(error) => format!("the dry run did not get that far: {error}"),
            }),
            (Err(reason), _) | (_, Err(reason)) => unknown(reason),
        }
    }

    async fn counters(&self, cluster: &Cluster) -> Result<Counters, String> {
        let call = Call::path("/metrics").with_accept("text/plain");
        let answer = cluster.call(&call).await;
        let answer = answer.map_err(|error| error.to_string())?;
        let text = String::from_utf8_lossy(answer.body());
        let open = "apiserver_admission_webhook_fail_open_count{";
        let answered = "apiserver_admission_webhook_request_total{";
        Ok(Counters {
            open: self.sum(&text, open, ""),
            answered: self.sum(&text, answered, "code=\"200\""),
        })
    }

    /// Sums a metric over the lines of the webhook that contain `label`.
    fn sum(&self, text: &str, metric: &str, label: &str) -> f64 {
        let name = format!("name=\"{}\"", self.webhook);
        text.lines()
            .filter(|line| line.starts_with(metric) && line.contains(&name) && line.contains(label))
            .filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok())
            .sum()
    }
}

struct Counters {
    open: f64,
    answered: f64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_the_lines_of_our_webhook() {
        let text = "\
apiserver_admission_webhook_request_total{code=\"200\",name=\"tolerations.nodelife.dev\",operation=\"CREATE\"} 3
apiserver_admission_webhook_request_total{code=\"200\",name=\"tolerations.nodelife.dev\",operation=\"UPDATE\"} 2
apiserver_admission_webhook_request_total{code=\"500\",name=\"tolerations.nodelife.dev\",operation=\"CREATE\"} 7
apiserver_admission_webhook_request_total{code=\"200\",name=\"other\",operation=\"CREATE\"} 11
";
        let answered = CALL.sum(
            text,
            "apiserver_admission_webhook_request_total{",
            "code=\"200\"",
        );
        assert!((answered - 5.0).abs() < f64::EPSILON);
    }
}
