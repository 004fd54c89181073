//! Pods that the cluster or this drain cannot do without: they go last, and the plan says why.

use std::collections::{BTreeMap, BTreeSet};

use futures::future::join_all;
use nodelife_cluster::Cluster;
use nodelife_cluster::resource::Resource;
use nodelife_core::format::join;
use nodelife_core::object::Pod;
use nodelife_core::text::Str;
use serde_json::Value;

use super::{ClusterView, text, values};

const NETWORK: [(&str, &str, &str); 4] = [
    ("k8s-app", "kube-dns", "DNS"),
    ("k8s-app", "calico-typha", "Calico (Typha)"),
    ("io.cilium/app", "operator", "Cilium (operator)"),
    ("app", "ovn-central", "Kube-OVN (database)"),
];

const STORAGE: [&str; 3] = ["longhorn.io", "rook_cluster", "s3.csi.aws.com"];

/// Why pods of the drained nodes go last, by UID. What may not be read is left out.
pub(crate) async fn read(cluster: &Cluster, view: &ClusterView) -> BTreeMap<Str, String> {
    let (own, webhooks) = tokio::join!(cluster.own_pod(), fail_closed(cluster, view));
    let mut essential = view.essential();
    essential.extend(webhooks);
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
        cluster.get::<Value>(resource.all())
    }));
    let mut webhooks: BTreeMap<(String, String), Vec<String>> = BTreeMap::new();
    for list in lists.await {
        let list = list.unwrap_or_else(|error| {
            tracing::debug!(%error, "webhooks were not read");
            None
        });
        let configurations = list.iter().flat_map(|list| values(list, "items"));
        for webhook in configurations.flat_map(|one| values(one, "webhooks")) {
            let namespace = text(webhook, "/clientConfig/service/namespace").to_owned();
            let name = text(webhook, "/clientConfig/service/name").to_owned();
            // `Fail` where it is left out.
            if !name.is_empty() && text(webhook, "/failurePolicy") != "Ignore" {
                let told = webhooks.entry((namespace, name)).or_default();
                told.push(describe(webhook));
            }
        }
    }
    let services = webhooks
        .into_iter()
        .map(async |((namespace, name), webhooks)| {
            let target = Resource::core("services").all();
            let target = target.in_namespace(&namespace).named(&name);
            let found = cluster.get::<Value>(target).await.ok().flatten();
            let selector = found
                .as_ref()
                .and_then(|found| found.pointer("/spec/selector")?.as_object());
            let Some(selector) = selector.filter(|selector| !selector.is_empty()) else {
                return Vec::new();
            };
            let last = view.last_of(|pod| {
                let of_label = |key: &str| pod.metadata.labels.get(key);
                let is_selected = |(key, value): (&String, &Value)| {
                    of_label(key).is_some_and(|label| *value == **label)
                };
                pod.metadata.namespace == *namespace && selector.iter().all(is_selected)
            });
            let reason = format!(
                "{} of webhook {}: until one is Ready the API server refuses these requests",
                all_of(&last, "endpoint"),
                webhooks.join(", ")
            );
            last.into_iter()
                .map(move |uid| (uid, reason.clone()))
                .collect()
        });
    let found: Vec<Vec<(Str, String)>> = join_all(services).await;
    found.into_iter().flatten().collect()
}

/// That the nodes have all pods of their kind.
fn all_of(last: &[Str], noun: &str) -> String {
    match last.len() {
        1 => format!("no other {noun}"),
        more => format!("the nodes have all {more} {noun}s"),
    }
}

fn describe(webhook: &Value) -> String {
    let texts =
        |rule: &Value, field: &str| join(values(rule, field).filter_map(Value::as_str), "/");
    let rules = values(webhook, "rules");
    let of: BTreeSet<String> = rules
        .map(|rule| format!("{} {}", texts(rule, "operations"), texts(rule, "resources")))
        .collect();
    let name = text(webhook, "/name");
    format!("{name} (failurePolicy Fail, {})", join(of, ", "))
}

impl ClusterView {
    /// What the pods alone tell.
    pub(super) fn essential(&self) -> BTreeMap<Str, String> {
        let mut essential = self.storage();
        for (key, value, what) in NETWORK {
            let last = self.last_of(|pod| {
                let label = pod.metadata.labels.get(key);
                pod.metadata.namespace.ends_with("-system") && label.is_some_and(|l| *l == value)
            });
            let all = all_of(&last, "Ready pod");
            let reason = format!("{all} of the cluster's {what}: until one is Ready, pods lack it");
            essential.extend(last.into_iter().map(|uid| (uid, reason.clone())));
        }
        essential
    }

    /// The pods that may serve volumes which others use, and without which these are not unmounted
    /// (siderolabs/talos#10174): in the namespace of a CSI driver that registers with the kubelet, or
    /// with labels of one.
    fn storage(&self) -> BTreeMap<Str, String> {
        let registers = |pod: &&Pod| {
            let volumes = pod.spec.volumes.iter();
            let mut paths = volumes.filter_map(|volume| volume.host_path.as_ref());
            let is_driver = paths.any(|host| host.path.contains("/plugins_registry"));
            is_driver && pod.metadata.namespace != "kube-system"
        };
        let homes = self.all_pods().filter(registers);
        let homes: BTreeSet<&Str> = homes.map(|pod| &pod.metadata.namespace).collect();
        let serves = |pod: &&Pod| {
            let labels = pod.metadata.labels.iter();
            let mut domains = labels.filter_map(|(key, _)| key.split('/').next());
            homes.contains(&pod.metadata.namespace)
                || domains.any(|domain| STORAGE.contains(&domain))
        };
        let (serving, others): (Vec<&Pod>, Vec<&Pod>) = self.all_pods().partition(serves);
        let mut volumes = others.iter().flat_map(|pod| &pod.spec.volumes);
        if !volumes.any(|volume| volume.persistent_volume_claim.is_some()) {
            return BTreeMap::new();
        }
        let reason = "it may serve volumes that other pods of the nodes use";
        let serving = serving.into_iter().map(|pod| &pod.metadata.uid);
        serving
            .map(|uid| (uid.clone(), reason.to_owned()))
            .collect()
    }

    /// The UIDs of the Ready pods that are meant, where all of them are on drained nodes.
    fn last_of(&self, is_meant: impl Fn(&Pod) -> bool) -> Vec<Str> {
        if !self.all_pods().any(&is_meant) {
            return Vec::new();
        }
        let pods = self.objects.iter().flat_map(|objects| &*objects.pods);
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

#[cfg(test)]
mod tests {
    use nodelife_core::object::Node;
    use nodelife_core::snapshot::Snapshot;
    use serde_json::json;

    use super::*;

    fn pod(namespace: &str, name: &str, labels: &Value, volume: &Value) -> Pod {
        let pod = json!({
            "metadata": {"namespace": namespace, "name": name, "uid": name, "labels": labels},
            "spec": {"nodeName": "n", "volumes": [volume]},
            "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
        });
        serde_json::from_value(pod).unwrap()
    }

    fn last(pods: &[Pod]) -> Vec<String> {
        let node = json!({"metadata": {"name": "n"}});
        let node: Node = serde_json::from_value(node).unwrap();
        let snapshot = Snapshot {
            nodes: vec![node.clone()],
            pods: pods.to_vec(),
            ..Snapshot::default()
        };
        let essential = ClusterView::of(snapshot, vec![node]).essential();
        essential.into_keys().map(|uid| uid.to_string()).collect()
    }

    /// siderolabs/talos#10174, awslabs/mountpoint-s3-csi-driver#787.
    #[test]
    fn pods_that_serve_volumes_go_after_those_that_use_them() {
        let none = json!({"name": "v"});
        let socket =
            json!({"name": "v", "hostPath": {"path": "/var/lib/kubelet/plugins_registry/"}});
        let claim = json!({"name": "v", "persistentVolumeClaim": {"claimName": "c"}});
        let mut pods = vec![
            pod(
                "rook-ceph",
                "osd",
                &json!({"rook_cluster": "rook-ceph"}),
                &none,
            ),
            pod(
                "mount-s3",
                "mount",
                &json!({"s3.csi.aws.com/pod-uid": "u"}),
                &none,
            ),
            pod("storage", "plugin", &json!({}), &socket),
            pod("storage", "satellite", &json!({}), &none),
            pod("kube-system", "other-plugin", &json!({}), &socket),
            pod("kube-system", "metrics", &json!({}), &none),
            pod("shop", "web", &json!({}), &none),
        ];
        assert_eq!(last(&pods), [""; 0]);
        pods.push(pod("shop", "db", &json!({}), &claim));
        assert_eq!(last(&pods), ["mount", "osd", "plugin", "satellite"]);
    }

    #[test]
    fn the_last_pods_of_the_network_go_last() {
        let none = json!({"name": "v"});
        let labels = json!({"k8s-app": "calico-typha"});
        let mut pods = vec![pod("calico-system", "typha", &labels, &none)];
        assert_eq!(last(&pods), ["typha"]);
        let mut other = pod("calico-system", "typha-2", &labels, &none);
        other.spec.node_name = "elsewhere".into();
        pods.push(other);
        assert_eq!(last(&pods), [""; 0]);
    }
}
