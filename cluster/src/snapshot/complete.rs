//! Makes one snapshot of everything that was read: drops doubles, and names what is not there.

use std::collections::BTreeSet;

use foldhash::{HashMap, HashSet};
use nodelife_core::object::{Meta, Node, WorkloadKind};
use nodelife_core::snapshot::{Snapshot, Source};
use nodelife_core::text::Str;
use nodelife_core::{format, zone};

use super::gathered::Gathered;
use super::kinds::{Kind, Visitor, each_kind};
use crate::listing::Object;

/// Kinds that every cluster has some of: where they are there, the workloads are taken
/// for complete, since an owner that is in no list counts as gone.
const REQUIRED_WORKLOADS: [&str; 2] = ["ReplicaSet", "DaemonSet"];

pub(super) fn complete(all: Gathered) -> (Snapshot, Vec<Str>) {
    let Gathered {
        mut snapshot,
        snapshots,
        kinds,
        single_nodes,
        whole,
        undecodable,
        ..
    } = all;
    let contradictory_nodes = contradictory(&snapshot.nodes);
    if snapshot.is_declared() {
        share_namespace(&mut snapshot);
    }
    each_kind(&mut Once(&mut snapshot));
    for source in Source::ALL {
        let here = match source {
            Source::Workloads => REQUIRED_WORKLOADS
                .iter()
                .all(|kind| kinds.contains_key(kind)),
            // Components have theirs in other namespaces.
            Source::Leases => !snapshot.leases.is_empty(),
            Source::KubeletConfigs => !snapshot.kubelet_configs.is_empty(),
            Source::NodeAuthorizer => snapshot.node_authorizer.is_some(),
            Source::NodeRestriction => snapshot.node_restriction.is_some(),
            // The snapshot itself says whether it has one.
            Source::Clock => true,
            _ => kinds.values().any(|of| *of == source),
        };
        if here {
            snapshot.missing.remove(&source);
        } else if snapshots == 0 {
            let reason = format!("the input has none; add {}", how_to_get(source));
            snapshot.missing.insert(source, Str::from(reason));
        }
    }
    if snapshots == 0 {
        let is_single = single_nodes > 0 && snapshot.nodes.len() == 1;
        for (source, why) in [
            (Source::AllNodes, why_some_nodes(&snapshot, is_single)),
            (Source::AllPods, why_some_pods(&snapshot, &whole)),
            (Source::Workloads, why_some_workloads(&snapshot)),
        ] {
            note(&mut snapshot, source, why);
        }
    }
    for (source, _) in undecodable {
        note_undecodable(&mut snapshot, source);
    }
    (snapshot, contradictory_nodes)
}

pub(super) fn note_undecodable(snapshot: &mut Snapshot, source: Source) {
    let part = match source {
        Source::Nodes => Source::AllNodes,
        Source::Pods => Source::AllPods,
        other => other,
    };
    let why = "some objects cannot be decoded".to_owned();
    note(snapshot, part, Some(why));
}

/// Notes why a source is not here in full, unless it is not here at all.
fn note(snapshot: &mut Snapshot, source: Source, why: Option<String>) {
    if let Some(why) = why {
        snapshot.missing.entry(source).or_insert_with(|| why.into());
    }
}

fn why_some_nodes(snapshot: &Snapshot, is_single: bool) -> Option<String> {
    if is_single {
        return Some("the input is a single Node, not all nodes of a cluster".to_owned());
    }
    // As with a selector. A pod of a Node that was deleted lives for a minute.
    let here: HashSet<_> = snapshot
        .nodes
        .iter()
        .map(|node| &node.metadata.name)
        .collect();
    let bound = snapshot.pods.iter().map(|pod| &pod.spec.node_name);
    let absent: HashSet<_> = bound
        .filter(|name| !name.is_empty() && !here.contains(name))
        .collect();
    if snapshot.has(Source::Nodes) && absent.len() > here.len() {
        return Some(format!(
            "the input has {}, and pods of {} others; add {}",
            format::count(here.len(), "node"),
            absent.len(),
            how_to_get(Source::Nodes)
        ));
    }
    // The controller takes its NoExecute taints away when no node is ready (`handleDisruption`,
    // `pkg/controller/nodelifecycle/node_lifecycle_controller.go`, v1.36.3).
    let is_dead = |node: &Node| node.condition("Ready").is_some() && !node.is_ready();
    let mut nodes = snapshot.nodes.iter();
    let tainted = nodes
        .clone()
        .find(|node| zone::taints(node).next().is_some());
    let node = tainted.filter(|_| nodes.all(is_dead))?;
    Some(format!(
        "the input has no ready node, but node/{} has a NoExecute taint that lasts only while \
         another node is ready",
        node.metadata.name
    ))
}

fn why_some_pods(snapshot: &Snapshot, whole: &BTreeSet<Source>) -> Option<String> {
    if !snapshot.has(Source::Pods) {
        return None;
    }
    let here: BTreeSet<&str> = (snapshot.pods.iter())
        .map(|pod| pod.metadata.namespace.as_str())
        .collect();
    let add = how_to_get(Source::Pods);
    if !whole.contains(&Source::Pods) {
        let here = match here.len() {
            0 => "no pods".to_owned(),
            _ => format!("only the pods of {}", format::list(here)),
        };
        return Some(format!("the input has {here}; add {add}"));
    }
    let budgets = snapshot.budgets.iter();
    let budgets = budgets.filter(|budget| budget.status.expected_pods > 0);
    let workloads = snapshot.workloads.iter();
    let workloads = workloads.filter(|workload| workload.status.replicas > Some(0));
    let counted = (budgets.map(|budget| &budget.metadata))
        .chain(workloads.map(|workload| &workload.metadata));
    let absent: BTreeSet<&str> = counted
        .map(|meta| meta.namespace.as_str())
        .filter(|namespace| !here.contains(namespace))
        .collect();
    (!absent.is_empty()).then(|| {
        let absent = format::list(absent);
        format!("the input has no pods of {absent}, but objects that count some; add {add}")
    })
}

/// Why these are not all workloads: pods whose controller is gone do not live long, so where a
/// namespace has no workload of its kind, none was read.
fn why_some_workloads(snapshot: &Snapshot) -> Option<String> {
    let here: HashSet<_> = (snapshot.workloads.iter())
        .map(|workload| (&workload.metadata.namespace, workload.kind))
        .collect();
    let (owner, namespace) = snapshot.pods.iter().find_map(|pod| {
        let (owner, namespace) = (pod.metadata.controller()?, &pod.metadata.namespace);
        let kind = WorkloadKind::of(owner)?;
        (!here.contains(&(namespace, kind))).then_some((owner, namespace))
    })?;
    let add = how_to_get(Source::Workloads);
    let kind = &owner.kind;
    Some(format!(
        "the input has no {kind} of {namespace}, but pods of one; add {add}"
    ))
}

/// Where manifests name one namespace alone, those without are taken to be in it: `helm install -n` and
/// `kubectl apply -n` put them there.
fn share_namespace(snapshot: &mut Snapshot) {
    let autoscalers = snapshot.autoscalers.iter_mut().flatten();
    let mut all: Vec<&mut Meta> = (snapshot.budgets.iter_mut().map(|one| &mut one.metadata))
        .chain(snapshot.workloads.iter_mut().map(|one| &mut one.metadata))
        .chain(autoscalers.map(|one| &mut one.metadata))
        .collect();
    let named = all.iter().map(|meta| meta.namespace.clone());
    let named: BTreeSet<Str> = named.filter(|name| !name.is_empty()).collect();
    let mut named = named.into_iter();
    if let (Some(only), None) = (named.next(), named.next()) {
        for meta in &mut all {
            meta.namespace = only.clone();
        }
    }
}

fn contradictory(nodes: &[Node]) -> Vec<Str> {
    let mut uids: HashMap<&str, &str> = HashMap::default();
    let mut names = BTreeSet::new();
    for node in nodes {
        let meta = &node.metadata;
        let first = *uids.entry(&meta.name).or_insert(&meta.uid);
        if meta.uid != first {
            names.insert(meta.name.clone());
        }
    }
    names.into_iter().collect()
}

/// Drops objects that a list has already. Of versions of one object the newest stays, as in the output
/// of `kubectl get --watch` and in dumps of several times; of manifests the last, as `kubectl apply` leaves it.
struct Once<'a>(&'a mut Snapshot);

impl Visitor for Once<'_> {
    fn visit<T: Object>(&mut self, kind: &'static Kind<T>) {
        kind.change_list(self.0, |list| {
            let hasher = foldhash::fast::RandomState::default();
            let mut seen = HashSet::with_capacity_and_hasher(list.len(), hasher);
            let key = |object: &T| {
                let meta = object.metadata();
                let name = (meta.namespace.clone(), meta.name.clone());
                ((kind.rank_of)(object), name)
            };
            let version = |object: &T| object.metadata().resource_version.parse::<u64>().ok();
            let doubles = list.extract_if(.., |object| !seen.insert(key(object)));
            let mut doubles: Vec<T> = doubles.collect();
            let any = !doubles.is_empty();
            doubles.sort_by_key(version);
            let doubles = doubles.into_iter().map(|double| (key(&double), double));
            let mut newest: HashMap<_, T> = doubles.collect();
            for object in list.iter_mut().filter(|_| any) {
                let uid = &object.metadata().uid;
                let of_same = |double: &T| double.metadata().uid == *uid;
                let is_declared = uid.is_empty() && version(object).is_none();
                if let Some(double) = newest.remove(&key(object)).filter(of_same)
                    && (is_declared || version(&double) > version(object))
                {
                    *object = double;
                }
            }
            list.shrink_to_fit();
        });
    }
}

fn how_to_get(source: Source) -> &'static str {
    match source {
        Source::Nodes | Source::AllNodes => "`kubectl get nodes -o json`",
        Source::Leases => "`kubectl get leases -n kube-node-lease -o json`",
        Source::Pods | Source::AllPods => "`kubectl get pods -A -o json`",
        Source::Budgets => "`kubectl get poddisruptionbudgets -A -o json`",
        Source::Workloads => {
            "`kubectl get \
             deployments,replicasets,statefulsets,daemonsets,jobs,replicationcontrollers -A -o \
             json`"
        }
        Source::KubeletConfigs => {
            "`kubectl get --raw /api/v1/nodes/NODE/proxy/configz` as configz/NODE.json"
        }
        Source::Volumes => "`kubectl get persistentvolumes -o json`",
        Source::VolumeAttachments => "`kubectl get volumeattachments -o json`",
        Source::CsiNodes => "`kubectl get csinodes -o json`",
        Source::SigningRequests => "`kubectl get certificatesigningrequests -o json`",
        Source::ClusterRoles => "`kubectl get clusterroles -o json`",
        Source::ClusterRoleBindings => "`kubectl get clusterrolebindings -o json`",
        Source::Events => "`kubectl get events -A -o json`",
        Source::Autoscalers => "`kubectl get horizontalpodautoscalers -A -o json`",
        Source::NodeAuthorizer | Source::Clock => "a snapshot by `kubectl nodelife snapshot`",
        Source::NodeRestriction => "a snapshot by `kubectl nodelife snapshot --probe`",
    }
}
