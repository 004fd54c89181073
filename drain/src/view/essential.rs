//! Pods that the cluster, or this drain itself, cannot do without: they go last, and the plan says
//! why.

use std::collections::{BTreeMap, BTreeSet};

use futures::future::join_all;
use nodelife_cluster::Cluster;
use nodelife_cluster::resource::Resource;
use nodelife_core::object::{Labels, Pod};
use nodelife_core::text::Str;
use serde::Deserialize;

use super::ClusterView;

/// A `ValidatingWebhookConfiguration` or `MutatingWebhookConfiguration`.
#[derive(Deserialize)]
struct Configuration {
    #[serde(default)]
    webhooks: Vec<Webhook>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Webhook {
    name: String,
    client_config: ClientConfig,
    /// `Fail` where it is left out.
    failure_policy: Option<Str>,
    #[serde(default)]
    rules: Vec<Rule>,
}

#[derive(Deserialize)]
struct ClientConfig {
    service: Option<ServiceName>,
}

#[derive(Clone, Deserialize, PartialEq, Eq, PartialOrd, Ord)]
struct ServiceName {
    namespace: Str,
    name: Str,
}

#[derive(Deserialize)]
#[serde(default)]
#[derive(Default)]
struct Rule {
    operations: Vec<String>,
    resources: Vec<String>,
}

#[derive(Deserialize)]
struct List<T> {
    items: Vec<T>,
}

#[derive(Deserialize)]
struct Service {
    spec: ServiceSpec,
}

#[derive(Deserialize)]
struct ServiceSpec {
    #[serde(default)]
    selector: Labels,
}

/// Why pods of the drained nodes go last, by UID. What may not be read is left out.
pub(crate) async fn read(cluster: &Cluster, view: &ClusterView) -> BTreeMap<Str, String> {
    let (own, webhooks) = tokio::join!(cluster.own_pod(), fail_closed(cluster, view));
    let mut essential = webhooks;
    essential.extend(view.cluster_dns());
    match own {
        Ok(Some(uid)) => {
            essential.insert(uid, "this drain runs in it, and ends with it".to_owned());
        }
        Ok(None) => {}
        Err(error) => tracing::debug!(%error, "not known in which pod this runs"),
    }
    essential
}

/// The last endpoints of webhooks without which the API server refuses requests.
async fn fail_closed(cluster: &Cluster, view: &ClusterView) -> BTreeMap<Str, String> {
    let lists = [
        "validatingwebhookconfigurations",
        "mutatingwebhookconfigurations",
    ];
    let lists = join_all(lists.map(|plural| {
        let resource = Resource::grouped("admissionregistration.k8s.io", "v1", plural);
        cluster.get::<List<Configuration>>(resource.all())
    }));
    let mut webhooks: BTreeMap<ServiceName, Vec<String>> = BTreeMap::new();
    for list in lists.await {
        let list = match list {
            Ok(list) => list,
            Err(error) => {
                tracing::debug!(%error, "webhooks were not read");
                continue;
            }
        };
        let configurations = list.into_iter().flat_map(|list| list.items);
        for webhook in configurations.flat_map(|one| one.webhooks) {
            if webhook.failure_policy.as_deref() != Some("Ignore")
                && let Some(service) = &webhook.client_config.service
            {
                let told = webhooks.entry(service.clone()).or_default();
                told.push(webhook.to_string());
            }
        }
    }
    let services = webhooks.into_iter().map(async |(service, webhooks)| {
        let target = Resource::core("services").all();
        let target = target.in_namespace(&service.namespace).named(&service.name);
        let found = cluster.get::<Service>(target).await.ok().flatten();
        let selector = found.map(|found| found.spec.selector).unwrap_or_default();
        let serves = |pod: &Pod| {
            let mut labels = selector.iter();
            pod.metadata.namespace == service.namespace
                && labels.all(|(key, value)| pod.metadata.labels.get(key.as_str()) == Some(value))
        };
        let last = if selector.is_empty() {
            Vec::new()
        } else {
            view.last_of(serves)
        };
        let reason = format!(
            "no other endpoint of webhook {}: until one is Ready the API server refuses these requests",
            webhooks.join(", ")
        );
        last.into_iter().map(move |uid| (uid, reason.clone())).collect()
    });
    let found: Vec<Vec<(Str, String)>> = join_all(services).await;
    found.into_iter().flatten().collect()
}

impl std::fmt::Display for Webhook {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let rules = self.rules.iter();
        let of: BTreeSet<String> = rules
            .map(|rule| format!("{} {}", rule.operations.join("/"), rule.resources.join("/")))
            .collect();
        let of: Vec<String> = of.into_iter().collect();
        write!(f, "{} (failurePolicy Fail, {})", self.name, of.join(", "))
    }
}

impl ClusterView {
    /// The last Ready pods of the cluster's DNS (`k8s-app: kube-dns`, which CoreDNS keeps).
    pub(super) fn cluster_dns(&self) -> BTreeMap<Str, String> {
        let is_dns = |pod: &Pod| {
            pod.metadata.namespace == "kube-system"
                && pod
                    .metadata
                    .labels
                    .get("k8s-app")
                    .is_some_and(|app| *app == "kube-dns")
        };
        let reason = "no other Ready pod of the cluster's DNS: until one is, no name is resolved";
        let last = self.last_of(is_dns).into_iter();
        last.map(|uid| (uid, reason.to_owned())).collect()
    }

    /// The UIDs of the Ready pods that are meant, where all of them are on drained nodes.
    fn last_of(&self, is_meant: impl Fn(&Pod) -> bool) -> Vec<Str> {
        let pods = self.objects.iter().flat_map(|objects| &objects.pods);
        let ready: Vec<&Pod> = pods.filter(|pod| pod.is_ready() && is_meant(pod)).collect();
        if ready
            .iter()
            .any(|pod| !self.pods.contains_key(&pod.spec.node_name))
        {
            return Vec::new();
        }
        ready.iter().map(|pod| pod.metadata.uid.clone()).collect()
    }
}
