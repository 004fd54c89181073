//! Objects of the large cluster, as in a well-used one.

use k8s_openapi::jiff::{Timestamp, Unit};
use serde_json::{Value, json};

use crate::fixture::merge;

fn word(words: &[String], index: usize) -> &str {
    words.get(index).map_or("", String::as_str)
}

fn now() -> String {
    let now = Timestamp::now();
    now.round(Unit::Second).unwrap_or(now).to_string()
}

fn controller(api_version: &str, kind: &str, name: &str, uid: &str) -> Value {
    json!([{
        "apiVersion": api_version, "kind": kind, "name": name, "uid": uid,
        "controller": true, "blockOwnerDeletion": true,
    }])
}

/// Words: UID, name, address, pod range, machine, system and boot id, zone.
pub(super) fn node(words: &[String]) -> Value {
    let word = |index| word(words, index);
    let condition = |kind: &str, status: &str, reason: &str| {
        json!({
            "type": kind, "status": status, "reason": reason,
            "message": format!("kubelet says {reason}"),
            "lastHeartbeatTime": now(), "lastTransitionTime": now(),
        })
    };
    let images: Vec<_> = (0..40)
        .map(|number| {
            let repository = format!("registry.example.com/platform/component-{number:02}");
            json!({
                "names": [
                    format!("{repository}@sha256:{:064x}", number * 7919),
                    format!("{repository}:v1.{number}.0"),
                ],
                "sizeBytes": 50_000_000 + number,
            })
        })
        .collect();
    let range = format!("10.{}/32", word(3));
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {
            "name": word(1),
            "labels": {
                "kubernetes.io/hostname": word(1),
                "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64",
                "topology.kubernetes.io/region": "test",
                "topology.kubernetes.io/zone": word(7),
                "node.kubernetes.io/instance-type": "m7.2xlarge",
                "example.com/pool": "general", "example.com/lifecycle": "on-demand",
            },
            "annotations": {
                "node.alpha.kubernetes.io/ttl": "300",
                "volumes.kubernetes.io/controller-managed-attach-detach": "true",
            },
        },
        "spec": {
            "providerID": format!("test:///{}", word(1)),
            "podCIDR": range, "podCIDRs": [range],
        },
        "status": {
            "capacity": {"cpu": "8", "memory": "32Gi", "ephemeral-storage": "100Gi", "pods": "110"},
            "allocatable": {"cpu": "7910m", "memory": "29Gi", "ephemeral-storage": "90Gi", "pods": "110"},
            "addresses": [
                {"type": "InternalIP", "address": word(2)},
                {"type": "Hostname", "address": word(1)},
            ],
            "conditions": [
                condition("MemoryPressure", "False", "KubeletHasSufficientMemory"),
                condition("DiskPressure", "False", "KubeletHasNoDiskPressure"),
                condition("PIDPressure", "False", "KubeletHasSufficientPID"),
                condition("Ready", "True", "KubeletReady"),
            ],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
            "images": images,
            "nodeInfo": {
                "kubeletVersion": "v1.36.3", "kubeProxyVersion": "", "kernelVersion": "6.12.0",
                "containerRuntimeVersion": "containerd://2.1.0", "osImage": "Debian GNU/Linux 13",
                "operatingSystem": "linux", "architecture": "amd64",
                "machineID": word(4), "systemUUID": word(5), "bootID": word(6),
            },
        },
    })
}

/// Words: UID, node, UID of the node.
pub(super) fn lease(words: &[String]) -> Value {
    let word = |index| word(words, index);
    json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": word(1), "ownerReferences": [
            {"apiVersion": "v1", "kind": "Node", "name": word(1), "uid": word(2)},
        ]},
        "spec": {
            "holderIdentity": word(1), "leaseDurationSeconds": 40,
            "renewTime": format!("{:.6}", Timestamp::now()),
        },
    })
}

/// Words: UID, node, UID of the node.
pub(super) fn csi_node(words: &[String]) -> Value {
    let word = |index| word(words, index);
    json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "CSINode",
        "metadata": {"name": word(1), "ownerReferences": [
            {"apiVersion": "v1", "kind": "Node", "name": word(1), "uid": word(2)},
        ]},
        "spec": {"drivers": [{
            "name": "disk.csi.example.com", "nodeID": word(1),
            "topologyKeys": ["topology.kubernetes.io/zone"], "allocatable": {"count": 24},
        }]},
    })
}

fn labels(app: &str) -> Value {
    json!({"app.kubernetes.io/name": app, "app.kubernetes.io/part-of": "shop", "app": app})
}

fn pod_labels(app: &str) -> Value {
    let mut labels = labels(app);
    merge(&mut labels, json!({"pod-template-hash": "7d9c5b8f64"}));
    labels
}

/// Words: UID, name, namespace.
pub(super) fn deployment(words: &[String]) -> Value {
    let word = |index| word(words, index);
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": word(1), "namespace": word(2), "labels": labels(word(1))},
        "spec": {
            "replicas": 10, "selector": {"matchLabels": {"app": word(1)}},
            "template": {"metadata": {"labels": labels(word(1))}, "spec": pod_spec(&container("2", "1Gi"))},
        },
        "status": {
            "observedGeneration": 1, "replicas": 10, "updatedReplicas": 10,
            "readyReplicas": 10, "availableReplicas": 10,
        },
    })
}

/// Words: UID, name, namespace, Deployment, its UID.
pub(super) fn replica_set(words: &[String]) -> Value {
    let word = |index| word(words, index);
    json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet",
        "metadata": {
            "name": word(1), "namespace": word(2), "labels": pod_labels(word(3)),
            "ownerReferences": controller("apps/v1", "Deployment", word(3), word(4)),
        },
        "spec": {
            "replicas": 10,
            "selector": {"matchLabels": {"app": word(3), "pod-template-hash": "7d9c5b8f64"}},
            "template": {"metadata": {"labels": pod_labels(word(3))}, "spec": pod_spec(&container("2", "1Gi"))},
        },
        "status": {
            "observedGeneration": 1, "replicas": 10, "fullyLabeledReplicas": 10,
            "readyReplicas": 10, "availableReplicas": 10,
        },
    })
}

/// Words: UID, name (that of the Deployment), namespace.
pub(super) fn budget(words: &[String]) -> Value {
    let word = |index| word(words, index);
    json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
        "metadata": {"name": word(1), "namespace": word(2)},
        "spec": {"maxUnavailable": 1, "selector": {"matchLabels": {"app": word(1)}}},
        "status": {
            "observedGeneration": 1, "disruptionsAllowed": 1, "currentHealthy": 10,
            "desiredHealthy": 9, "expectedPods": 10,
        },
    })
}

pub(super) fn small_pod(words: &[String]) -> Value {
    pod(words, &json!([container("100m", "256Mi")]))
}

pub(super) fn large_pod(words: &[String]) -> Value {
    pod(words, &json!([container("300m", "768Mi")]))
}

pub(super) fn sidecar_pod(words: &[String]) -> Value {
    let mut proxy = container("50m", "64Mi");
    let env = json!([{"name": "LOG_LEVEL", "value": "warning"}]);
    merge(&mut proxy, json!({"name": "proxy", "env": env}));
    pod(words, &json!([container("100m", "256Mi"), proxy]))
}

/// Words: UID, name, namespace, app, UID of its ReplicaSet, node, address, address of the
/// node, id of the container, hash of the configuration.
fn pod(words: &[String], containers: &Value) -> Value {
    let word = |index| word(words, index);
    let mut spec = pod_spec(&Value::Null);
    merge(
        &mut spec,
        json!({"containers": containers, "nodeName": word(5)}),
    );
    let condition = |kind: &str| json!({"type": kind, "status": "True", "lastProbeTime": null, "lastTransitionTime": now()});
    let statuses: Vec<_> = containers
        .as_array()
        .into_iter()
        .flatten()
        .map(|container| {
            json!({
                "name": container.get("name"), "image": container.get("image"),
                "imageID": format!("registry.example.com/shop/server@sha256:{}", word(9)),
                "containerID": format!("containerd://{}", word(8)),
                "ready": true, "started": true, "restartCount": 0,
                "state": {"running": {"startedAt": now()}}, "lastState": {},
            })
        })
        .collect();
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": word(1), "namespace": word(2),
            "generateName": format!("{}-7d9c5b8f64-", word(3)),
            "labels": pod_labels(word(3)),
            "annotations": {
                "checksum/config": word(9),
                "prometheus.io/scrape": "true", "prometheus.io/port": "9090",
                "prometheus.io/path": "/metrics",
            },
            "ownerReferences": controller(
                "apps/v1", "ReplicaSet", &format!("{}-7d9c5b8f64", word(3)), word(4),
            ),
        },
        "spec": spec,
        "status": {
            "phase": "Running", "qosClass": "Guaranteed", "startTime": now(),
            "hostIP": word(7), "hostIPs": [{"ip": word(7)}],
            "podIP": word(6), "podIPs": [{"ip": word(6)}],
            "conditions": [
                condition("PodReadyToStartContainers"), condition("Initialized"),
                condition("Ready"), condition("ContainersReady"), condition("PodScheduled"),
            ],
            "containerStatuses": statuses,
        },
    })
}

fn pod_spec(container: &Value) -> Value {
    json!({
        "serviceAccountName": "server",
        "terminationGracePeriodSeconds": 30,
        "priorityClassName": "",
        "securityContext": {"runAsNonRoot": true, "runAsUser": 1000, "fsGroup": 1000},
        "topologySpreadConstraints": [{
            "maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone",
            "whenUnsatisfiable": "ScheduleAnyway",
        }],
        "containers": [container],
        "volumes": [
            {"name": "configuration", "configMap": {"name": "server"}},
            {"name": "credentials", "secret": {"secretName": "server"}},
            {"name": "scratch", "emptyDir": {}},
            {"name": "kube-api-access", "projected": {"sources": [
                {"serviceAccountToken": {"path": "token", "expirationSeconds": 3607}},
                {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
                {"downwardAPI": {"items": [{"path": "namespace", "fieldRef": {"fieldPath": "metadata.namespace"}}]}},
            ]}},
        ],
    })
}

fn container(cpu: &str, memory: &str) -> Value {
    let variables = [
        ("LOG_LEVEL", "info"),
        ("LOG_FORMAT", "json"),
        ("HTTP_PORT", "8080"),
        ("DATABASE_HOST", "database.team.svc.cluster.local"),
        ("DATABASE_NAME", "shop"),
        ("CACHE_HOST", "cache.team.svc.cluster.local"),
        ("QUEUE_BROKERS", "queue-0.queue:9092,queue-1.queue:9092"),
        ("TRACING_ENDPOINT", "http://collector.observability:4317"),
        ("TRACING_RATIO", "0.05"),
        ("FEATURE_FLAGS", "checkout-v2,recommendations"),
        ("TIMEOUT_SECONDS", "15"),
    ];
    let mut env: Vec<_> = variables
        .iter()
        .map(|(name, value)| json!({"name": name, "value": value}))
        .collect();
    env.push(json!({"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}));
    env.push(json!({"name": "DATABASE_PASSWORD", "valueFrom": {"secretKeyRef": {"name": "server", "key": "password"}}}));
    let probe = |path: &str| json!({"httpGet": {"path": path, "port": 8080}, "periodSeconds": 10});
    json!({
        "name": "server",
        "image": "registry.example.com/shop/server:v3.14.1",
        "args": ["--config=/etc/server/config.yaml", "--listen=:8080"],
        "ports": [{"name": "http", "containerPort": 8080}, {"name": "metrics", "containerPort": 9090}],
        "env": env,
        "resources": {
            "requests": {"cpu": cpu, "memory": memory},
            "limits": {"cpu": cpu, "memory": memory},
        },
        "livenessProbe": probe("/livez"), "readinessProbe": probe("/readyz"),
        "securityContext": {
            "allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": [
            {"name": "configuration", "mountPath": "/etc/server", "readOnly": true},
            {"name": "credentials", "mountPath": "/etc/credentials", "readOnly": true},
            {"name": "scratch", "mountPath": "/tmp"},
            {"name": "kube-api-access", "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount", "readOnly": true},
        ],
    })
}
