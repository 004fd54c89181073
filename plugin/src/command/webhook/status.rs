use nodelife_cluster::request::Call;
use nodelife_cluster::resource::{PODS, Resource};
use nodelife_cluster::{ApiError, ApiResult, Cluster};
use serde::Serialize;
use serde_json::Value;

use super::chain::{
    Health, Installed, Link, at, bytes, close_for, inspect, is_closed, items, link, names, ok,
    reviews_tokens,
};
use super::{StatusArgs, node_agents, probe, registration};
use crate::cli::ClusterArgs;
use crate::command::connect::connect;
use crate::exit::{Exit, ExitStatus};
use crate::output::{Cell, Printer, Table};

/// The configurations beside the one of the argument, mutating and validating. Which of them an
/// installation needs is up to its configuration (`registration`).
const OTHERS: [&[&str]; 2] = [
    &[
        "nodelife-exempt-tokens",
        "nodelife-labelled-tokens",
        "nodelife-tolerations",
    ],
    &["nodelife-agents", "nodelife-drain-safety"],
];
const GROUP: &str = "admissionregistration.k8s.io";
const CONFIGURATIONS: [Resource; 2] = [
    Resource::grouped(GROUP, "v1", "mutatingwebhookconfigurations"),
    Resource::grouped(GROUP, "v1", "validatingwebhookconfigurations"),
];
const SECRETS: Resource = Resource::core("secrets");
const SLICES: Resource = Resource::grouped("discovery.k8s.io", "v1", "endpointslices");

const STARTING: [&str; 2] = ["ContainerCreating", "PodInitializing"];

#[derive(Serialize)]
struct Report {
    links: Vec<Link>,
}

pub(crate) async fn run(args: StatusArgs, cluster: &ClusterArgs, printer: &mut Printer) -> Exit {
    let cluster = connect(cluster, printer).await?;
    let installed = read(&cluster, &args).await?;
    let mut links = inspect(&installed, cluster.clock().now());
    if installed.is_there() {
        // Whatever else is broken follows from it.
        let pod = waiting_pod(&cluster, &installed.namespace).await;
        links.splice(0..0, pod);
        let agents = node_agents::read(&cluster).await;
        let agents = agents.map_err(|error| error.to_string());
        let mutating = installed.webhooks[0].as_deref().unwrap_or_default();
        links.extend(node_agents::inspect(mutating, &agents));
        links.push(probe::call(&cluster).await);
        let slices = installed.endpoints.as_deref().unwrap_or_default();
        links.extend(probe::lookup(&cluster, &installed.namespace, slices).await);
        links.extend(fail_advice(&installed, &links));
    }
    links.push(probe::node_restriction(&cluster, &installed).await);
    let broken = links.iter().any(|one| one.health == Health::Broken);
    let report = Report { links };
    if !printer.document("WebhookStatus", &report, &args.output)? {
        print(&report.links, printer)?;
    }
    Ok(ExitStatus::of_findings(broken))
}

fn print(links: &[Link], printer: &mut Printer) -> anyhow::Result<()> {
    let mut table = Table::new(["LINK", "STATE", "WHAT"]);
    for one in links {
        let state = match one.health {
            Health::Ok => "ok",
            Health::Warning => "warning",
            Health::Broken => "BROKEN",
            Health::Unknown => "unknown",
        };
        let what = if one.fix.is_empty() || one.health == Health::Ok {
            one.message.clone()
        } else {
            format!("{}; {}", one.message, one.fix)
        };
        table.row([one.name, state, &what].map(Cell::from));
    }
    Ok(printer.table(&table)?)
}

async fn read(cluster: &Cluster, args: &StatusArgs) -> ApiResult<Installed> {
    let [mutating, validating] = CONFIGURATIONS;
    let [more_mutating, more_validating] = OTHERS;
    let (first, namespace) = (&args.configuration, &args.webhook_namespace);
    let text = |error: ApiError| error.to_string();
    let webhooks = [
        webhooks(cluster, mutating, first, more_mutating).await?,
        webhooks(cluster, validating, first, more_validating).await?,
    ];
    Ok(Installed {
        namespace: namespace.clone(),
        configuration: args.configuration.clone(),
        webhooks,
        policies: registration::policies(cluster, namespace).await,
        leaf: leaf(cluster, namespace).await.map_err(text),
        endpoints: endpoints(cluster, namespace).await.map_err(text),
    })
}

async fn webhooks(
    cluster: &Cluster,
    resource: Resource,
    first: &str,
    others: &[&str],
) -> ApiResult<Option<Vec<Value>>> {
    let mut webhooks: Option<Vec<Value>> = None;
    for name in std::iter::once(&first).chain(others) {
        let found: Option<Value> = cluster.get(resource.all().named(name)).await?;
        if let Some(found) = found {
            let all = items(&found, "/webhooks").cloned();
            webhooks.get_or_insert_default().extend(all);
        }
    }
    Ok(webhooks)
}

/// The first pod that does not start, in the words of its kubelet or the scheduler.
async fn waiting_pod(cluster: &Cluster, namespace: &str) -> Option<Link> {
    let call = Call::get(PODS.all().in_namespace(namespace)).with_query(
        "labelSelector",
        "app.kubernetes.io/name=nodelife,app.kubernetes.io/component in (webhook,certs)",
    );
    let list: Value = cluster.read(&call).await.ok()?.json(&call).ok()?;
    let message = items(&list, "/items").find_map(|pod| {
        let containers = items(pod, "/status/containerStatuses");
        let waiting = containers.map(|one| at(one, "/state/waiting"));
        let unscheduled = items(pod, "/status/conditions")
            .filter(|one| one["type"] == "PodScheduled" && one["status"] == "False");
        let mut reasons = waiting.chain(unscheduled).filter_map(|one| {
            let reason = one["reason"].as_str().filter(|it| !STARTING.contains(it))?;
            Some(format!("{reason}: {}", one["message"].as_str()?))
        });
        Some(format!(
            "{} does not start: {}",
            at(pod, "/metadata/name").as_str()?,
            reasons.next()?
        ))
    })?;
    let fix =
        "see `kubectl describe pod`; set an image that the nodes can pull (manifests/README.md)";
    Some(link("pods", Health::Broken, message, fix))
}

async fn leaf(cluster: &Cluster, namespace: &str) -> ApiResult<Option<Vec<u8>>> {
    let target = SECRETS.all().in_namespace(namespace);
    let secret: Option<Value> = cluster.get(target.named("nodelife-webhook-tls")).await?;
    Ok(secret.and_then(|secret| bytes(&secret, "/data/tls.crt")))
}

async fn endpoints(cluster: &Cluster, namespace: &str) -> ApiResult<Vec<Value>> {
    let call = Call::get(SLICES.all().in_namespace(namespace)).with_query(
        "labelSelector",
        "kubernetes.io/service-name=nodelife-webhook",
    );
    let list: Value = cluster.read(&call).await?.json(&call)?;
    Ok(at(&list, "/items").as_array().cloned().unwrap_or_default())
}

/// Webhook configurations are never sent to webhooks, so this always works.
const BREAK_GLASS: &str = "kubectl delete validatingwebhookconfiguration,mutatingwebhookconfiguration -l app.kubernetes.io/name=nodelife allows every request again";

/// Advises against Fail where it could lock the cluster: while a link is broken, where one
/// node takes every replica along, and where what the cluster needs to heal itself would
/// have to pass a webhook that is down. `None` where nothing fails closed.
fn fail_advice(installed: &Installed, links: &[Link]) -> Option<Link> {
    let closed = names(installed.all(), is_closed);
    if closed.is_empty() {
        return None;
    }
    let mut all = installed.all();
    let closes_tokens = all.any(|one| is_closed(one) && reviews_tokens(one));
    let mut reasons: Vec<String> = links
        .iter()
        .filter(|one| match one.name {
            node_agents::LINK => closes_tokens && one.health != Health::Ok,
            _ => matches!(one.health, Health::Broken | Health::Warning),
        })
        .map(|one| one.name.to_owned())
        .collect();
    let caught = close_for(installed, "kube-system");
    if !caught.is_empty() {
        reasons.push(format!("{caught} also fails closed in kube-system"));
    }
    if reasons.is_empty() {
        let message = format!("Fail for {closed}, with replicas on several nodes");
        return Some(ok("failurePolicy", message));
    }
    let message = format!(
        "Fail is not advised for {closed}: writes of nodes may be refused ({})",
        reasons.join(", ")
    );
    Some(link("failurePolicy", Health::Warning, message, BREAK_GLASS))
}

#[cfg(test)]
mod tests {
    use super::super::chain::inspect;
    use super::super::chain::tests::{now, sound};
    use super::*;
    use serde_json::json;

    fn closed() -> Installed {
        let mut installed = sound();
        if let Some(webhooks) = &mut installed.webhooks[1] {
            webhooks[0]["failurePolicy"] = json!("Fail");
        }
        installed
    }

    fn advice(installed: &Installed) -> Link {
        fail_advice(installed, &inspect(installed, now())).unwrap()
    }

    #[test]
    fn is_against_fail_only_where_it_could_lock_the_cluster() {
        assert_eq!(fail_advice(&sound(), &inspect(&sound(), now())), None);
        assert_eq!(advice(&closed()).health, Health::Ok);

        let mut lonely = closed();
        lonely.endpoints = Ok(Vec::new());
        let against = advice(&lonely);
        assert_eq!(against.health, Health::Warning);
        assert!(against.message.contains("(endpoints)"), "{against:?}");
        assert!(against.fix.starts_with("kubectl delete"), "{against:?}");

        let mut strict = closed();
        if let Some(webhooks) = &mut strict.webhooks[0] {
            webhooks[0]["failurePolicy"] = json!("Fail");
            webhooks[0]["namespaceSelector"]["matchExpressions"][0]["values"] =
                json!(["nodelife-system"]);
        }
        let against = advice(&strict);
        assert!(
            against
                .message
                .contains("node-tokens.nodelife.dev also fails closed in kube-system"),
            "{against:?}"
        );
    }

    #[test]
    fn a_node_agent_counts_only_where_tokens_fail_closed() {
        let unknown = link(node_agents::LINK, Health::Unknown, "forbidden", "");
        let mut installed = closed();
        let mut links = inspect(&installed, now());
        links.push(unknown);
        assert_eq!(fail_advice(&installed, &links).unwrap().health, Health::Ok);
        if let Some(webhooks) = &mut installed.webhooks[0] {
            webhooks[0]["failurePolicy"] = json!("Fail");
        }
        let against = fail_advice(&installed, &links).unwrap();
        assert!(against.message.contains("(nodeAgents)"), "{against:?}");
    }
}
