//! Sample objects: one of each kind, with every field that core reads.

use nodelife_cluster::listing::{self, Listing};
use nodelife_cluster::resource::Target;
use serde_json::{Value, json};

/// An object, its status, and what core has to have read of both.
pub(super) struct Sample {
    pub(super) list: Target,
    pub(super) object: Value,
    pub(super) status: Option<Value>,
    pub(super) status_at: &'static str,
    pub(super) read: Value,
}

fn sample<T>(
    listing: &Listing<T>,
    namespace: &str,
    mut object: Value,
    status: Option<Value>,
    read: Value,
) -> Sample {
    let group = listing.resource.group;
    let version = listing.resource.version;
    object["apiVersion"] = if group.is_empty() {
        json!(version)
    } else {
        json!(format!("{group}/{version}"))
    };
    object["kind"] = json!(listing.kind);
    object["metadata"] = json!({
        "name": "sample",
        "labels": {"app": "web"},
        "annotations": {"nodelife.dev/note": "x", "kubectl.kubernetes.io/last-applied-configuration": "{}"},
        "finalizers": ["nodelife.test/hold"],
        "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "u",
                             "controller": true}],
    });
    let list = listing.resource.all();
    let mut read = read;
    read["metadata"] = json!({
        "name": "sample",
        "labels": {"app": "web"},
        "annotations": {"nodelife.dev/note": "x"},
        "finalizers": ["nodelife.test/hold"],
        "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "u",
                             "controller": true}],
    });
    Sample {
        list: if namespace.is_empty() {
            list
        } else {
            list.in_namespace(namespace)
        },
        object,
        status: status.map(|status| json!({"status": status})),
        status_at: "status",
        read,
    }
}

/// In the order in which the test lists them.
pub(super) fn samples() -> Vec<Sample> {
    let mut all = vec![node(), pod(), lease(), budget()];
    all.extend(volumes());
    all.extend(access());
    all.push(event());
    all.push(autoscaler());
    all.extend(workloads());
    all
}

fn node() -> Sample {
    let spec = json!({
        "unschedulable": true, "providerID": "aws:///z/i", "podCIDR": "10.0.0.0/24",
        "podCIDRs": ["10.0.0.0/24"],
        "taints": [{"key": "k", "value": "v", "effect": "NoExecute",
                    "timeAdded": "2026-01-02T03:04:05Z"}],
    });
    let status = json!({
        "capacity": {"cpu": "4", "memory": "8Gi"},
        "allocatable": {"cpu": "3920m", "memory": "7Gi"},
        "conditions": [{"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown",
                        "message": "Kubelet stopped posting node status.",
                        "lastHeartbeatTime": "2026-01-02T03:04:05Z",
                        "lastTransitionTime": "2026-01-02T03:05:05Z"}],
        "addresses": [{"type": "InternalIP", "address": "10.1.1.1"}],
        "nodeInfo": {"machineID": "a", "systemUUID": "b", "bootID": "c", "kernelVersion": "d",
                     "osImage": "e", "containerRuntimeVersion": "f", "kubeletVersion": "g",
                     "kubeProxyVersion": "h", "operatingSystem": "i", "architecture": "j",
                     "swap": {"capacity": 7}},
        "images": [{"names": ["registry.example.com/a:1"], "sizeBytes": 9}],
        "volumesAttached": [{"name": "kubernetes.io/csi/d^v", "devicePath": ""}],
    });
    let mut read = json!({"spec": spec, "status": {
        "capacity": status["capacity"], "allocatable": status["allocatable"],
        "conditions": status["conditions"], "addresses": status["addresses"],
        "nodeInfo": status["nodeInfo"],
        "volumesAttached": [{"name": "kubernetes.io/csi/d^v"}],
    }});
    let info = read["status"]["nodeInfo"].as_object_mut().unwrap();
    info.remove("kubeProxyVersion");
    sample(
        &listing::NODES,
        "",
        json!({"spec": spec}),
        Some(status),
        read,
    )
}

fn pod() -> Sample {
    let spec = json!({
        "nodeName": "n1", "terminationGracePeriodSeconds": 7,
        "serviceAccountName": "default",
        "automountServiceAccountToken": false, "priorityClassName": "system-node-critical",
        "nodeSelector": {"a": "b"},
        "topologySpreadConstraints": [{
            "topologyKey": "zone", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"a": "b"}}, "minDomains": 2,
            "nodeAffinityPolicy": "Ignore", "nodeTaintsPolicy": "Honor",
        }],
        "tolerations": [{"key": "k", "operator": "Equal", "value": "v", "effect": "NoExecute",
                         "tolerationSeconds": 30}],
        "containers": [{"name": "c", "image": "i", "resources": {
            "requests": {"cpu": "100m", "memory": "64Mi"}, "limits": {"cpu": "200m"}}}],
        "initContainers": [{"name": "s", "image": "i", "restartPolicy": "Always"}],
        "volumes": [{"name": "e", "emptyDir": {"medium": "Memory"}},
                    {"name": "p", "persistentVolumeClaim": {"claimName": "claim"}},
                    {"name": "h", "hostPath": {"path": "/x"}}],
    });
    let status = json!({
        "phase": "Running", "reason": "Odd", "startTime": "2026-01-02T03:04:05Z",
        "conditions": [{"type": "Ready", "status": "True", "reason": "r",
                        "lastTransitionTime": "2026-01-02T03:04:05Z"}],
    });
    let mut read = json!({"spec": spec, "status": status});
    // The sample needs these, and core does not read them.
    let fields = read["spec"].as_object_mut().unwrap();
    fields.remove("automountServiceAccountToken");
    for list in ["containers", "initContainers"] {
        let container = read["spec"][list][0].as_object_mut().unwrap();
        container.remove("image");
    }
    read["spec"]["priority"] = json!(2_000_001_000);
    sample(
        &listing::PODS,
        "default",
        json!({"spec": spec}),
        Some(status),
        read,
    )
}

fn lease() -> Sample {
    let spec = json!({
        "holderIdentity": "sample", "leaseDurationSeconds": 40,
        "renewTime": "2026-01-02T03:04:05.678900Z",
    });
    let mut read = json!({"spec": spec});
    read["spec"]["renewTime"] = json!("2026-01-02T03:04:05.6789Z");
    sample(
        &listing::LEASES,
        "kube-node-lease",
        json!({"spec": spec}),
        None,
        read,
    )
}

fn budget() -> Sample {
    let spec = json!({
        "maxUnavailable": "25%", "unhealthyPodEvictionPolicy": "AlwaysAllow",
        "selector": {"matchLabels": {"app": "web"}, "matchExpressions": [
            {"key": "tier", "operator": "In", "values": ["a", "b"]},
            {"key": "x", "operator": "Exists"}]},
    });
    let status = json!({
        "observedGeneration": 1, "disruptionsAllowed": 2, "currentHealthy": 3,
        "desiredHealthy": 4, "expectedPods": 5,
        "disruptedPods": {"web-1": "2026-01-02T03:04:05Z"},
        "conditions": [{"type": "DisruptionAllowed", "status": "False", "reason": "r",
                        "message": "m", "lastTransitionTime": "2026-01-02T03:04:05Z"}],
    });
    let mut read = json!({"spec": spec, "status": status});
    let condition = read["status"]["conditions"][0].as_object_mut().unwrap();
    condition.remove("lastTransitionTime");
    sample(
        &listing::BUDGETS,
        "default",
        json!({"spec": spec}),
        Some(status),
        read,
    )
}

fn volumes() -> Vec<Sample> {
    let terms = json!([{"matchExpressions": [
        {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["a"]}]}]);
    let volume = json!({"spec": {
        "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"],
        "claimRef": {"namespace": "default", "name": "claim"},
        "csi": {"driver": "d", "volumeHandle": "v"},
        "nodeAffinity": {"required": {"nodeSelectorTerms": terms}}}});
    let volume_read = json!({"spec": {
        "accessModes": ["ReadWriteOnce"],
        "claimRef": {"namespace": "default", "name": "claim"},
        "nodeAffinity": {"required": {"nodeSelectorTerms": terms}}}});
    let attachment = json!({"spec": {
        "attacher": "d", "nodeName": "n1", "source": {"persistentVolumeName": "sample"}}});
    let attached = json!({
        "attached": true,
        "attachError": {"time": "2026-01-02T03:04:05Z", "message": "a"},
        "detachError": {"time": "2026-01-02T03:04:05Z", "message": "d"}});
    let mut attachment_read = attachment.clone();
    attachment_read["status"] = attached.clone();
    let drivers = json!([{"name": "d", "allocatable": {"count": 25}}]);
    let csi_node = json!({"spec": {"drivers": [
        {"name": "d", "nodeID": "i", "topologyKeys": [], "allocatable": {"count": 25}}]}});
    vec![
        sample(&listing::VOLUMES, "", volume, None, volume_read),
        sample(
            &listing::VOLUME_ATTACHMENTS,
            "",
            attachment,
            Some(attached),
            attachment_read,
        ),
        sample(
            &listing::CSI_NODES,
            "",
            csi_node,
            None,
            json!({"spec": {"drivers": drivers}}),
        ),
    ]
}

/// A PKCS#10 request for CN=x, in PEM, as the API carries it.
fn signing_request() -> String {
    use base64::{Engine, prelude::BASE64_STANDARD};
    let key = rcgen::KeyPair::generate().unwrap();
    let request = rcgen::CertificateParams::default()
        .serialize_request(&key)
        .unwrap();
    BASE64_STANDARD.encode(request.pem().unwrap())
}

fn access() -> Vec<Sample> {
    let request = json!({"spec": {
        "request": signing_request(), "signerName": "nodelife.test/x", "usages": ["digital signature"]}});
    let approved = json!({"conditions": [
        {"type": "Approved", "status": "True", "reason": "r", "message": "m"}]});
    let mut request_read = json!({"spec": {"signerName": "nodelife.test/x",
                                           "username": "nodelife-admin"}});
    request_read["status"] = approved.clone();
    let mut request = sample(
        &listing::SIGNING_REQUESTS,
        "",
        request,
        Some(approved),
        request_read,
    );
    request.status_at = "approval";
    let rules = json!([{"verbs": ["get"], "apiGroups": [""], "resources": ["nodes"]}]);
    let subjects = json!([{"kind": "ServiceAccount", "name": "x", "namespace": "default"}]);
    vec![
        request,
        sample(
            &listing::CLUSTER_ROLES,
            "",
            json!({"rules": rules}),
            None,
            json!({"rules": [{"apiGroups": [""], "resources": ["nodes"]}]}),
        ),
        sample(
            &listing::CLUSTER_ROLE_BINDINGS,
            "",
            json!({"subjects": subjects, "roleRef": {
                "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "sample"}}),
            None,
            json!({"subjects": subjects, "roleRef": {"name": "sample"}}),
        ),
    ]
}

fn event() -> Sample {
    let event = json!({
        "involvedObject": {"kind": "Node", "name": "n1"}, "reason": "NodeNotReady",
        "type": "Warning", "count": 3, "lastTimestamp": "2026-01-02T03:04:05Z",
        "firstTimestamp": "2026-01-02T03:04:05Z", "message": "m"});
    let read = json!({
        "involvedObject": {"kind": "Node", "name": "n1"}, "reason": "NodeNotReady",
        "count": 3, "lastTimestamp": "2026-01-02T03:04:05Z", "message": "m"});
    sample(&listing::EVENTS, "default", event, None, read)
}

fn autoscaler() -> Sample {
    let spec = json!({
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
        "minReplicas": 2, "maxReplicas": 5});
    let read = json!({"spec": spec});
    let autoscaler = json!({"spec": spec});
    sample(&listing::AUTOSCALERS, "default", autoscaler, None, read)
}

/// In the order of `listing::WORKLOADS`.
fn workloads() -> Vec<Sample> {
    let template = json!({"metadata": {"labels": {"app": "web"}}, "spec": {
        "containers": [{"name": "c", "image": "i"}]}});
    let selector = json!({"matchLabels": {"app": "web"}});
    let counted = json!({"replicas": 3, "readyReplicas": 2, "availableReplicas": 2});
    let read = json!({"replicas": 3, "readyReplicas": 2});
    let scaled = json!({"spec": {"replicas": 3, "selector": selector, "template": template}});
    let scaled_read = json!({"spec": {"replicas": 3, "selector": selector}, "status": read});
    let once = json!({"metadata": {"labels": {"app": "web"}}, "spec": {
        "restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}});
    let policy = json!({"rules": [
        {"action": "FailIndex", "onExitCodes": {"operator": "NotIn", "values": [42]}},
        {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
    ]});
    let mut failing = counted.clone();
    let failure = json!([{
        "type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": "quota",
    }]);
    failing["conditions"] = failure.clone();
    let mut failing_read = read.clone();
    failing_read["conditions"] = failure;
    listing::WORKLOADS
        .iter()
        .map(|listing| match listing.kind {
            "DaemonSet" => sample(
                listing,
                "default",
                json!({"spec": {"selector": selector, "template": template}}),
                None,
                json!({"kind": "DaemonSet", "spec": {"selector": selector}}),
            ),
            "Job" => sample(
                listing,
                "default",
                json!({"spec": {
                    "template": once, "completionMode": "Indexed", "completions": 1,
                    "backoffLimit": 2, "backoffLimitPerIndex": 1, "ttlSecondsAfterFinished": 100,
                    "podFailurePolicy": policy,
                }}),
                None,
                json!({"kind": "Job", "spec": {
                    "backoffLimit": 2, "backoffLimitPerIndex": 1, "ttlSecondsAfterFinished": 100,
                    "podFailurePolicy": {"rules": [
                        {"action": "FailIndex", "onExitCodes": {"operator": "NotIn"}},
                        {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]},
                    ]},
                }}),
            ),
            "ReplicationController" => sample(
                listing,
                "default",
                json!({"spec": {"replicas": 3, "selector": {"app": "web"}, "template": template}}),
                Some(failing.clone()),
                json!({
                    "kind": "ReplicationController", "spec": {"replicas": 3},
                    "status": failing_read,
                }),
            ),
            _ => sample(
                listing,
                "default",
                scaled.clone(),
                Some(counted.clone()),
                scaled_read.clone(),
            ),
        })
        .collect()
}
