//! Requests of kubelets, valid ones and near misses, for every resource of NodeRestriction. All
//! are dry runs, so their order does not matter.

use nodelife_tests::Kubernetes;
use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair};
use serde_json::{Value, json};

use super::{Call, pod};

/// The node that asks, the other one, and one that does not exist.
pub(super) const NODES: [&str; 2] = ["own", "other"];

/// The second one is exempt, from `Fail` for tokens alone.
pub(super) const NAMESPACES: [&str; 2] = ["default", "kube-system"];

/// What both clusters hold before the requests.
pub(super) fn world() -> Vec<(String, Value)> {
    let account = |namespace| {
        (
            format!("/api/v1/namespaces/{namespace}/serviceaccounts"),
            json!({"metadata": {"name": "runner"}}),
        )
    };
    let mut objects = vec![
        account("default"),
        account("kube-system"),
        (
            "/apis/storage.k8s.io/v1/csidrivers".to_owned(),
            json!({"metadata": {"name": "driver"},
            "spec": {"tokenRequests": [{"audience": "vault"}]}}),
        ),
    ];
    for node in NODES {
        objects.push((
            "/api/v1/nodes".to_owned(),
            json!({"metadata": {"name": node, "labels": {
            "kubernetes.io/hostname": node, "node-role.kubernetes.io/worker": "", "team": "a"}},
            "spec": {"taints": [{"key": "dedicated", "effect": "NoSchedule"}]}}),
        ));
        for namespace in NAMESPACES {
            let path = |resource: &str| format!("/api/v1/namespaces/{namespace}/{resource}");
            let mut object = pod(namespace, &format!("on-{node}"), node);
            object["spec"]["serviceAccountName"] = json!("runner");
            object["spec"]["volumes"] = json!([
                {"name": "token", "projected": {"sources": [{"serviceAccountToken": {"path": "t", "audience": "backup"}}]}},
                {"name": "csi", "csi": {"driver": "driver"}}]);
            objects.push((path("pods"), object));
            objects.push((path("persistentvolumeclaims"), json!({
                "metadata": {"name": format!("claim-{node}")},
                "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}})));
        }
        objects.push((
            "/apis/storage.k8s.io/v1/csinodes".to_owned(),
            json!({"metadata": {"name": node}, "spec": {"drivers": []}}),
        ));
        objects.push((
            "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases".to_owned(),
            json!({"metadata": {"name": node}, "spec": {"holderIdentity": node}}),
        ));
        objects.push((
            "/apis/resource.k8s.io/v1/resourceslices".to_owned(),
            slice(&format!("slice-{node}"), node),
        ));
    }
    objects.retain(|(path, _)| is_served(path));
    objects
}

/// Whether the API server of this version serves the path: `resource.k8s.io/v1` came with 1.34.
pub(super) fn is_served(path: &str) -> bool {
    !path.starts_with("/apis/resource.k8s.io/v1/")
        || Kubernetes::current().unwrap().is_at_least("1.34").unwrap()
}

fn slice(name: &str, node: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {"driver": "driver.example.com", "nodeName": node,
        "pool": {"name": node, "resourceSliceCount": 1, "generation": 1}}})
}

/// Every request, and the nodes that send it. Pods are named with their namespace.
pub(super) fn all(node_uids: &[(String, String)], pod_uids: &[(String, String)]) -> Vec<Call> {
    let uid = |list: &[(String, String)], name: &str| {
        let found = list.iter().find(|(known, _)| known == name);
        found.map_or_else(|| "none".to_owned(), |(_, uid)| uid.clone())
    };
    let mut calls = Vec::new();
    for target in ["own", "other", "absent"] {
        nodes(target, &mut calls);
        for namespace in NAMESPACES {
            pods(namespace, target, &mut calls);
            mirror_pods(namespace, target, &uid(node_uids, target), &mut calls);
            let pod = uid(pod_uids, &format!("{namespace}/on-{target}"));
            tokens(namespace, target, &pod, &mut calls);
        }
        named(target, &mut calls);
    }
    signing_requests(&mut calls);
    let mut sent: Vec<Call> = calls
        .iter()
        .map(|call| call.clone().dry().by_node("own"))
        .collect();
    // The same from another node, and from a user who only looks like one.
    sent.extend(calls.iter().map(|call| call.clone().dry().by_node("other")));
    sent.extend(calls.iter().map(|call| {
        call.clone()
            .dry()
            .by_user("system:node:own", &["system:masters"])
    }));
    sent.retain(|call| is_served(&call.path));
    sent
}

fn nodes(node: &str, calls: &mut Vec<Call>) {
    let path = format!("/api/v1/nodes/{node}");
    for metadata in [
        json!({"labels": {"team": "b"}}),
        json!({"labels": {"team": null}}),
        json!({"labels": {"kubernetes.io/hostname": "x"}}),
        json!({"labels": {"node.kubernetes.io/x": "y"}}),
        json!({"labels": {"node-role.kubernetes.io/worker": null}}),
        json!({"labels": {"node-role.kubernetes.io/worker": "changed"}}),
        json!({"labels": {"node-restriction.kubernetes.io/a": "b"}}),
        json!({"labels": {"a.k8s.io/x": ""}}),
        json!({"annotations": {"a": "b"}}),
        json!({"finalizers": ["example.com/f"]}),
        json!({"ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "x", "uid": "x"}]}),
    ] {
        for suffix in ["", "/status"] {
            let body = json!({"metadata": metadata});
            calls.push(Call::patch(format!("{path}{suffix}"), body));
        }
    }
    for spec in [
        json!({"taints": []}),
        json!({"taints": [{"key": "a", "effect": "NoExecute"}]}),
        json!({"unschedulable": true}),
    ] {
        calls.push(Call::patch(&path, json!({"spec": spec})));
    }
    let status = json!({"status": {"conditions": [{"type": "Ready", "status": "False"}]}});
    calls.push(Call::patch(format!("{path}/status"), status));
    calls.push(Call::new("DELETE", &path, Value::Null));
    for object in [
        json!({"metadata": {"name": format!("{node}")}}),
        json!({"metadata": {"generateName": node}}),
        json!({"metadata": {"name": node, "labels": {"node-role.kubernetes.io/x": ""}}}),
        json!({"metadata": {"name": node}, "spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]}}),
    ] {
        calls.push(Call::new("POST", "/api/v1/nodes", object));
    }
}

fn pods(namespace: &str, node: &str, calls: &mut Vec<Call>) {
    let pod = format!("/api/v1/namespaces/{namespace}/pods/on-{node}");
    let status = format!("{pod}/status");
    for body in [
        json!({"status": {"phase": "Running"}}),
        json!({"metadata": {"labels": {"app": "x"}}}),
        json!({"metadata": {"labels": {"app": null}}}),
        json!({"metadata": {"annotations": {"a": "b"}}}),
        json!({"status": {"resourceClaimStatuses": [{"name": "r", "resourceClaimName": "c"}]}}),
        json!({"status": {"extendedResourceClaimStatus": {"resourceClaimName": "c",
            "requestMappings": [{"containerName": "c", "resourceName": "example.com/r", "requestName": "q"}]}}}),
    ] {
        calls.push(Call::patch(&status, body));
    }
    calls.push(Call::patch(
        &pod,
        json!({"metadata": {"labels": {"app": "x"}}}),
    ));
    calls.push(Call::new("DELETE", &pod, Value::Null));
    let eviction = json!({"apiVersion": "policy/v1", "kind": "Eviction",
        "metadata": {"name": format!("on-{node}"), "namespace": namespace}});
    calls.push(Call::new("POST", format!("{pod}/eviction"), eviction));
    let binding = json!({"metadata": {"name": format!("on-{node}")}, "target": {"kind": "Node", "name": "own"}});
    calls.push(Call::new("POST", format!("{pod}/binding"), binding));
}

fn mirror_pods(namespace: &str, node: &str, node_uid: &str, calls: &mut Vec<Call>) {
    let owner = json!({"apiVersion": "v1", "kind": "Node", "name": node, "uid": node_uid, "controller": true});
    let mut right = pod(namespace, &format!("mirror-{node}"), node);
    right["metadata"]["annotations"] = json!({"kubernetes.io/config.mirror": "hash"});
    right["metadata"]["ownerReferences"] = json!([owner]);
    let changed = |pointer: &str, value: Value| {
        let mut object = right.clone();
        let (parent, field) = pointer.rsplit_once('/').unwrap();
        object.pointer_mut(parent).unwrap()[field] = value;
        object
    };
    let objects = [
        right.clone(),
        changed("/metadata/annotations", json!({})),
        // With the account of a controller, its token would follow.
        {
            let mut object = changed("/metadata/annotations", json!({}));
            object["spec"]["serviceAccountName"] = json!("runner");
            object
        },
        changed("/metadata/ownerReferences", json!([])),
        changed(
            "/metadata/ownerReferences",
            json!([owner, {"apiVersion": "v1", "kind": "Node", "name": "z", "uid": "z"}]),
        ),
        changed("/metadata/ownerReferences/0/uid", json!("wrong")),
        changed("/metadata/ownerReferences/0/controller", json!(false)),
        changed(
            "/metadata/ownerReferences/0/blockOwnerDeletion",
            json!(true),
        ),
        changed("/metadata/ownerReferences/0/kind", json!("Pod")),
        changed("/spec/nodeName", json!("other")),
        changed("/spec/imagePullSecrets", json!([{"name": "s"}])),
        changed(
            "/spec/volumes",
            json!([{"name": "v", "hostPath": {"path": "/"}}]),
        ),
        changed(
            "/spec/volumes",
            json!([{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]),
        ),
        changed(
            "/spec/volumes",
            json!([{"name": "v", "configMap": {"name": "c"}}]),
        ),
    ];
    let path = format!("/api/v1/namespaces/{namespace}/pods");
    let posts = objects.map(|object| Call::new("POST", &path, object));
    calls.extend(posts);
}

fn tokens(namespace: &str, node: &str, pod_uid: &str, calls: &mut Vec<Call>) {
    let pod = format!("on-{node}");
    let bound = json!({"apiVersion": "v1", "kind": "Pod", "name": pod, "uid": pod_uid});
    for spec in [
        json!({"boundObjectRef": bound}),
        json!({"boundObjectRef": bound, "audiences": ["backup"]}),
        json!({"boundObjectRef": bound, "audiences": ["vault"]}),
        json!({"boundObjectRef": bound, "audiences": ["else"]}),
        json!({"boundObjectRef": bound, "audiences": ["backup", "vault"]}),
        json!({"boundObjectRef": {"apiVersion": "v1", "kind": "Pod", "name": pod}}),
        json!({"boundObjectRef": {"apiVersion": "v1", "kind": "Pod", "name": pod, "uid": "stale"}}),
        json!({}),
    ] {
        let mut spec = spec;
        if spec["audiences"].is_null() {
            spec["audiences"] = json!([]);
        }
        let path = format!("/api/v1/namespaces/{namespace}/serviceaccounts/runner/token");
        calls.push(Call::new("POST", path, json!({"spec": spec})));
    }
}

/// What belongs to a node by its name or a field.
fn named(node: &str, calls: &mut Vec<Call>) {
    let claim = format!("/api/v1/namespaces/default/persistentvolumeclaims/claim-{node}");
    for body in [
        json!({"status": {"capacity": {"storage": "1Gi"}}}),
        json!({"status": {"conditions": [{"type": "Resizing", "status": "True"}]}}),
        json!({"status": {"phase": "Lost"}}),
        json!({"metadata": {"labels": {"a": "b"}}}),
    ] {
        calls.push(Call::patch(format!("{claim}/status"), body));
    }
    calls.push(Call::patch(
        &claim,
        json!({"metadata": {"labels": {"a": "b"}}}),
    ));
    for namespace in ["kube-node-lease", "default"] {
        let leases = format!("/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases");
        let renewed = json!({"spec": {"holderIdentity": "x"}});
        calls.push(Call::patch(format!("{leases}/{node}"), renewed.clone()));
        calls.push(Call::new("DELETE", format!("{leases}/{node}"), Value::Null));
        let new = json!({"metadata": {"name": format!("{node}")}, "spec": {}});
        calls.push(Call::new("POST", &leases, new));
        calls.push(Call::new(
            "POST",
            &leases,
            json!({"metadata": {"generateName": node}}),
        ));
    }
    let csi = "/apis/storage.k8s.io/v1/csinodes";
    calls.push(Call::patch(
        format!("{csi}/{node}"),
        json!({"metadata": {"annotations": {"a": "b"}}}),
    ));
    calls.push(Call::new("DELETE", format!("{csi}/{node}"), Value::Null));
    calls.push(Call::new(
        "POST",
        csi,
        json!({"metadata": {"name": node}, "spec": {"drivers": []}}),
    ));
    let slices = "/apis/resource.k8s.io/v1/resourceslices";
    calls.push(Call::new(
        "POST",
        slices,
        slice(&format!("new-{node}"), node),
    ));
    calls.push(Call::new(
        "DELETE",
        format!("{slices}/slice-{node}"),
        Value::Null,
    ));
    calls.push(Call::patch(
        format!("{slices}/slice-{node}"),
        json!({"metadata": {"annotations": {"a": "b"}}}),
    ));
}

fn signing_requests(calls: &mut Vec<Call>) {
    use base64::Engine as _;
    let key = KeyPair::generate().unwrap();
    for name in ["system:node:own", "system:node:other", "own"] {
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        params
            .distinguished_name
            .push(DnType::OrganizationName, "system:nodes");
        params.distinguished_name.push(DnType::CommonName, name);
        let pem = params.serialize_request(&key).unwrap().pem().unwrap();
        let request = base64::prelude::BASE64_STANDARD.encode(pem);
        for signer in [
            "kubernetes.io/kube-apiserver-client-kubelet",
            "kubernetes.io/kubelet-serving",
            "example.com/s",
        ] {
            calls.push(Call::new(
                "POST",
                "/apis/certificates.k8s.io/v1/certificatesigningrequests",
                json!({
                "metadata": {"name": "new"},
                "spec": {"signerName": signer, "request": request,
                    "usages": ["digital signature", "client auth"]}}),
            ));
        }
    }
}
