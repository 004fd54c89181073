//! Probe of the webhook: a dry-run pod through the API server, and the webhook's metrics.

use http::Method;
use nodelife_cluster::Cluster;
use nodelife_cluster::request::Call;
use nodelife_cluster::resource::PODS;
use serde_json::json;

use super::chain::{Health, Link, link, ok};

/// The webhook that sees every pod.
const WEBHOOK: &str = "tolerations.nodelife.dev";
const FIX: &str = "the API server has to reach the Service's pods: firewall (GKE), CNI overlay (EKS: overlay host-network), NetworkPolicy";

/// Creates a pod as a dry run. An API server that ignores failures says nothing of them in
/// its answer, so its own counters are read before and after.
pub(super) async fn call(cluster: &Cluster) -> Link {
    let before = counters(cluster).await;
    let pod = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"generateName": "nodelife-status-"},
        "spec": {"containers": [{"name": "none", "image": "none"}]},
    });
    let target = PODS.all().in_namespace("default");
    let made = Call::on(Method::POST, "create", target)
        .with_query("dryRun", "All")
        .with_json("application/json", &pod);
    let answered = match made {
        Ok(call) => cluster.call(&call).await,
        Err(error) => Err(error),
    };
    if let Err(error) = &answered {
        let text = error.to_string();
        if text.contains("failed calling webhook") {
            return link("call", Health::Broken, text, FIX);
        }
    }
    let after = counters(cluster).await;
    match (before, after) {
        (Ok(before), Ok(after)) if after.open > before.open => {
            let message =
                "unreachable: the API server called the webhook in vain and let the pod pass";
            link("call", Health::Broken, message, FIX)
        }
        (Ok(before), Ok(after)) if after.answered > before.answered => {
            ok("call", "a dry run reached the webhook")
        }
        (Ok(_), Ok(_)) => {
            let message = match answered {
                Ok(_) => format!(
                    "another API server may have answered the dry run, or {WEBHOOK} is not installed"
                ),
                Err(error) => format!("the dry run did not get that far: {error}"),
            };
            link("call", Health::Unknown, message, "")
        }
        (Err(reason), _) | (_, Err(reason)) => link("call", Health::Unknown, reason, ""),
    }
}

/// What an API server has counted for our webhook.
struct Counters {
    /// Calls that failed and were ignored.
    open: f64,
    /// Calls that were answered.
    answered: f64,
}

async fn counters(cluster: &Cluster) -> Result<Counters, String> {
    let call = Call::path("/metrics").with_accept("text/plain");
    let answer = cluster
        .call(&call)
        .await
        .map_err(|error| error.to_string())?;
    let text = String::from_utf8_lossy(answer.body());
    Ok(Counters {
        open: sum(&text, "apiserver_admission_webhook_fail_open_count{", ""),
        answered: sum(
            &text,
            "apiserver_admission_webhook_request_total{",
            "code=\"200\"",
        ),
    })
}

/// Sums a metric over the lines of our webhook that contain `label`.
fn sum(text: &str, metric: &str, label: &str) -> f64 {
    let name = format!("name=\"{WEBHOOK}\"");
    text.lines()
        .filter(|line| line.starts_with(metric) && line.contains(&name) && line.contains(label))
        .filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok())
        .sum()
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
        let answered = sum(
            text,
            "apiserver_admission_webhook_request_total{",
            "code=\"200\"",
        );
        assert!((answered - 5.0).abs() < f64::EPSILON);
    }
}
