//! Rook (1.20): `pkg/operator/ceph/disruption/clusterdisruption` (`osd.go`, `pools.go`) and
//! `pkg/operator/ceph/cluster/mon/drain.go`.
//!
//! While the OSDs of one failure domain are down, Rook replaces the budget of all OSDs by one for each
//! other domain that allows nothing, until all placement groups are clean.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::around::{Around, Outlook, named};
use super::{Object, Operator, OperatorResource, objects};
use crate::object::{Meta, Pod, nullable};
use crate::text::Str;

objects!(Ceph {
    clusters: Cluster = OperatorResource::new("ceph.rook.io", &["v1"], "cephclusters"),
    // The `ConfigMap` that names the failure domain which is draining.
    drains: DrainMap =
        OperatorResource::new("", &["v1"], "configmaps").named("rook-ceph-pdbstatemap"),
    // Those of Rook's daemons.
    deployments: Deployment = OperatorResource::new("apps", &["v1"], "deployments"),
});

type Cluster = Object<Spec, Status>;

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Spec {
    #[serde(deserialize_with = "nullable")]
    disruption_management: Management,
    #[serde(deserialize_with = "nullable")]
    mon: Mon,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Management {
    manage_pod_budgets: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
struct Mon {
    count: i32,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
struct Status {
    #[serde(deserialize_with = "nullable")]
    ceph: CephStatus,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
struct CephStatus {
    #[serde(deserialize_with = "nullable")]
    details: BTreeMap<Str, Detail>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
struct Detail {
    message: String,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
struct DrainMap {
    metadata: Meta,
    #[serde(deserialize_with = "nullable")]
    data: BTreeMap<Str, Str>,
}

type Deployment = Object<DeploymentSpec, DeploymentStatus>;

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
struct DeploymentSpec {
    template: Template,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
struct Template {
    spec: PodSpec,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct PodSpec {
    #[serde(deserialize_with = "nullable")]
    node_selector: BTreeMap<Str, Str>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct DeploymentStatus {
    ready_replicas: i32,
}

impl Deployment {
    fn app(&self) -> Option<&Str> {
        self.metadata.labels.get("app")
    }

    fn node(&self) -> Option<&Str> {
        self.spec
            .template
            .spec
            .node_selector
            .get("kubernetes.io/hostname")
    }
}

impl Operator for Ceph {
    fn guards(&self, pod: &Pod) -> bool {
        let manager = pod.metadata.labels.get("app.kubernetes.io/managed-by");
        manager.is_some_and(|manager| manager == "rook-ceph-operator")
    }

    fn outlook(&self, around: &Around, pod: &Pod, refused: bool) -> Option<Outlook> {
        if !refused {
            return None;
        }
        let namespace = &pod.metadata.namespace;
        let app = pod.metadata.labels.get("app")?.as_str();
        let cluster = self
            .clusters
            .iter()
            .find(|c| c.metadata.namespace == *namespace);
        let Some(cluster) = cluster else {
            return Some(Outlook::Never(format!(
                "no CephCluster is left in {namespace}, so nothing changes its budgets: delete them"
            )));
        };
        let name = named("CephCluster", pod, &cluster.metadata.name);
        let managed = cluster.spec.disruption_management.manage_pod_budgets;
        if !managed && app != "rook-ceph-mgr" {
            return Some(Outlook::Never(format!(
                "{name} does not manage budgets: set its spec.disruptionManagement.managePodBudgets \
                 to true, or delete the budget"
            )));
        }
        match app {
            "rook-ceph-osd" => Some(self.osd_outlook(around, cluster, &name, pod)),
            "rook-ceph-mon" if cluster.spec.mon.count < 3 => Some(Outlook::Never(format!(
                "{name} has spec.mon.count {}, and Rook keeps a budget of mons for 3 or more: delete \
                 the budget, or set it to 3",
                cluster.spec.mon.count
            ))),
            "rook-ceph-mon" => Some(self.mon_outlook(around, &name, pod)),
            _ => {
                let other = around.pods.iter().find(|other| {
                    let labels = &other.metadata.labels;
                    labels.get("app").is_some_and(|other| other == app)
                        && other.metadata.namespace == *namespace
                        && other.metadata.uid != pod.metadata.uid
                        && !other.is_ready()
                })?;
                let other = &other.metadata.name;
                Some(Outlook::WillLift(format!(
                    "{name} waits for pod {other} to be Ready"
                )))
            }
        }
    }
}

impl Ceph {
    fn down<'a>(&'a self, pod: &'a Pod, app: &'a str) -> impl Iterator<Item = &'a Deployment> {
        self.deployments.iter().filter(move |deployment| {
            deployment.metadata.namespace == pod.metadata.namespace
                && deployment.app().is_some_and(|known| known == app)
                && deployment.status.ready_replicas < 1
        })
    }

    fn osd_outlook(&self, around: &Around, cluster: &Cluster, name: &str, pod: &Pod) -> Outlook {
        let namespace = &pod.metadata.namespace;
        let map = self
            .drains
            .iter()
            .find(|m| m.metadata.namespace == *namespace);
        let draining = map.and_then(|map| map.data.get("draining-failure-domain"));
        let draining = draining.filter(|domain| !domain.is_empty());
        let domains = |meta: &Meta| -> Vec<Str> {
            let labels = meta.labels.iter();
            let labels = labels.filter(|(key, _)| key.starts_with("topology-location-"));
            labels.map(|(_, value)| value.clone()).collect()
        };
        let down = self.down(pod, "rook-ceph-osd");
        let down = down.filter(|d| draining.is_none_or(|f| domains(&d.metadata).contains(f)));
        let down: Vec<&Deployment> = down.collect();
        let details = &cluster.status.ceph.details;
        let groups = details.iter().find(|(code, _)| code.starts_with("PG_"));
        let groups = groups.map_or("placement groups are clean", |(_, d)| d.message.as_str());
        let Some(domain) = draining else {
            return Outlook::WillLift(match down.first() {
                Some(osd) => format!(
                    "{name} makes room for the failure domain of {}, which is down",
                    osd.metadata.name
                ),
                None => format!("{name} changes its budgets as soon as {groups}"),
            });
        };
        if domains(&pod.metadata).contains(domain) {
            return Outlook::WillLift(format!(
                "{name} is removing the budget of {domain}, the failure domain that drains"
            ));
        }
        let on_cordoned = down.iter().find_map(|osd| {
            let node = osd.node().filter(|node| around.is_cordoned(node))?;
            Some((&osd.metadata.name, node))
        });
        match (on_cordoned, down.first()) {
            (Some((osd, node)), _) => Outlook::NeedsFirst(format!(
                "{name} drains failure domain {domain} before this one: {osd} is down, and its node \
                 {node} is cordoned; uncordon {node} first"
            )),
            (None, Some(osd)) => Outlook::NeedsFirst(format!(
                "{name} waits for {}, which is down, or for its data to be copied: {groups}",
                osd.metadata.name
            )),
            (None, None) => Outlook::WillLift(format!(
                "{name} lifts the budget of this failure domain when all placement groups are clean \
                 after the drain of {domain}: {groups}"
            )),
        }
    }

    fn mon_outlook(&self, around: &Around, name: &str, pod: &Pod) -> Outlook {
        let Some(mon) = self.down(pod, "rook-ceph-mon").next() else {
            return Outlook::WillLift(format!(
                "{name} sets the budget of its mons again at the next check, within a minute"
            ));
        };
        let down = &mon.metadata.name;
        match mon.node().filter(|node| around.is_cordoned(node)) {
            Some(node) => Outlook::NeedsFirst(format!(
                "{name}: {down} cannot run, since its node {node} is cordoned; uncordon {node} first"
            )),
            None => Outlook::WillLift(format!(
                "{name} waits for {down} to return; Rook replaces it after 10 minutes"
            )),
        }
    }
}
