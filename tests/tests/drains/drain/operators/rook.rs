//! Rook.

use serde_json::{Value, json};

use super::cnpg::json_patch;
use super::scene::{Expect, Scene, exhausted, owner, pod};

fn daemon(name: &str, app: &str, domain: &str) -> Value {
    json!({
        "app": app, "app.kubernetes.io/managed-by": "rook-ceph-operator",
        "topology-location-host": domain, "ceph_daemon_id": name,
    })
}

fn replica_set() -> Value {
    let labels = json!({"app": "daemon"});
    json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "daemon"},
        "spec": {"replicas": 1, "selector": {"matchLabels": labels}, "template": {
            "metadata": {"labels": labels},
            "spec": {"containers": [{"name": "main", "image": "example.com/main"}]},
        }},
    })
}

/// A cluster with its changes, the daemon on node `a`, and its budget.
fn cluster(changes: Value, app: &str, maximum: i32, beside: &[Value]) -> Vec<Value> {
    let mut cluster = json!({
        "apiVersion": "ceph.rook.io/v1", "kind": "CephCluster", "metadata": {"name": "ceph"},
        "spec": {
            "dataDirHostPath": "/var/lib/rook", "mon": {"count": 3},
            "disruptionManagement": {"managePodBudgets": true},
        },
    });
    json_patch(&mut cluster, changes);
    let owners = owner("apps/v1", "ReplicaSet", "daemon");
    let mut objects = vec![
        cluster,
        replica_set(),
        pod("daemon-0", "a", &daemon("0", app, "host-a"), &owners, true),
        exhausted(
            app,
            &json!({"app": app}),
            json!({"maxUnavailable": maximum}),
            1,
        ),
    ];
    objects.extend_from_slice(beside);
    objects
}

/// Which failure domain drains.
fn drain(domain: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "rook-ceph-pdbstatemap"},
        "data": {"draining-failure-domain": domain},
    })
}

/// The Deployment of a daemon on node `b`.
fn deployment(name: &str, app: &str, ready: i32) -> Value {
    let mut labels = daemon("1", app, "host-b");
    labels["app.kubernetes.io/instance"] = name.into();
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": name, "labels": labels},
        "spec": {
            "selector": {"matchLabels": {"app.kubernetes.io/instance": name}},
            "template": {"metadata": {"labels": labels}, "spec": {
                "nodeSelector": {"kubernetes.io/hostname": "$b$"},
                "containers": [{"name": "main", "image": "example.com/main"}],
            }},
        },
        "status": {"replicas": 1, "readyReplicas": ready},
    })
}

fn degraded() -> Value {
    json!({"status": {"ceph": {"health": "HEALTH_WARN", "details": {
        "PG_DEGRADED": {"severity": "HEALTH_WARN", "message": "20 pgs degraded"},
    }}}})
}

pub(super) fn scenes() -> Vec<Scene> {
    let mut scenes = scenes_of_osds();
    scenes.extend(scenes_of_mons());
    scenes
}

fn scenes_of_osds() -> Vec<Scene> {
    let osd = "rook-ceph-osd";
    vec![
        Scene::new(
            "another failure domain drains, its node is cordoned",
            cluster(
                degraded(),
                osd,
                0,
                &[drain("host-b"), deployment("osd-1", osd, 0)],
            ),
            Expect::Stays(
                "CephCluster $ns/ceph drains failure domain host-b before this one: osd-1 is down, \
                 and its node $b$ is cordoned; uncordon $b$ first",
            ),
        )
        .cordoned(&["b"]),
        Scene::new(
            "another failure domain is down",
            cluster(
                degraded(),
                osd,
                0,
                &[drain("host-b"), deployment("osd-1", osd, 0)],
            ),
            Expect::Stays(
                "CephCluster $ns/ceph waits for osd-1, which is down, or for its data to be copied: \
                 20 pgs degraded",
            ),
        ),
        Scene::new(
            "another failure domain is back, and data is copied",
            cluster(
                degraded(),
                osd,
                0,
                &[drain("host-b"), deployment("osd-1", osd, 1)],
            ),
            Expect::Lifts(
                "CephCluster $ns/ceph lifts the budget of this failure domain when all placement \
                 groups are clean after the drain of host-b: 20 pgs degraded",
            ),
        ),
        Scene::new(
            "the failure domain that drains",
            cluster(json!({}), osd, 0, &[drain("host-a")]),
            Expect::Lifts(
                "CephCluster $ns/ceph is removing the budget of host-a, the failure domain that \
                 drains",
            ),
        ),
        Scene::new(
            "a warning of health without placement groups refuses nothing",
            cluster(
                json!({"status": {"ceph": {"health": "HEALTH_WARN"}}}),
                osd,
                1,
                &[drain("")],
            ),
            Expect::Lifts(
                "CephCluster $ns/ceph changes its budgets as soon as placement groups are clean",
            ),
        ),
    ]
}

fn scenes_of_mons() -> Vec<Scene> {
    let osd = "rook-ceph-osd";
    vec![
        Scene::new(
            "budgets that nobody manages",
            cluster(
                json!({"spec": {"disruptionManagement": {"managePodBudgets": false}}}),
                osd,
                0,
                &[drain("")],
            ),
            Expect::Never(
                "CephCluster $ns/ceph does not manage budgets: set its \
                 spec.disruptionManagement.managePodBudgets to true, or delete the budget",
            ),
        ),
        Scene::new(
            "a mon whose node is cordoned",
            cluster(
                json!({}),
                "rook-ceph-mon",
                0,
                &[drain(""), deployment("mon-b", "rook-ceph-mon", 0)],
            ),
            Expect::Stays(
                "CephCluster $ns/ceph: mon-b cannot run, since its node $b$ is cordoned; uncordon \
                 $b$ first",
            ),
        )
        .cordoned(&["b"]),
        Scene::new(
            "a mon that is down",
            cluster(
                json!({}),
                "rook-ceph-mon",
                0,
                &[drain(""), deployment("mon-b", "rook-ceph-mon", 0)],
            ),
            Expect::Lifts(
                "CephCluster $ns/ceph waits for mon-b to return; Rook replaces it after 10 minutes",
            ),
        ),
        Scene::new(
            "a budget of mons that were more once",
            cluster(
                json!({"spec": {"mon": {"count": 1}}}),
                "rook-ceph-mon",
                0,
                &[drain("")],
            ),
            Expect::Never(
                "CephCluster $ns/ceph has spec.mon.count 1, and Rook keeps a budget of mons for 3 or \
                 more: delete the budget, or set it to 3",
            ),
        ),
    ]
}
