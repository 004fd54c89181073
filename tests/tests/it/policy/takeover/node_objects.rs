//! What a node tries with objects other than pods and their tokens.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use nodelife_tests::Kubernetes;
use nodelife_tests::installation::manifests;
use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair};
use serde_json::{Value, json};

use super::{Attempt, Call, Refused};

pub(super) fn attempts() -> Vec<Attempt> {
    let mut attempts = Vec::new();
    nodes(&mut attempts);
    named(&mut attempts);
    certificates(&mut attempts);
    everything_else(&mut attempts);
    attempts
}

#[expect(clippy::too_many_lines, reason = "a table")]
fn nodes(attempts: &mut Vec<Attempt>) {
    let label = |key: &str| json!({"metadata": {"labels": {key: "x"}}});
    let taints = json!({"spec": {"taints": []}});
    let owner = json!({"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "x", "uid": "x"}]}});
    let full = |node: &str| json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": node}});
    let own = || Call::patch("/api/v1/nodes/own", label("team"));
    let other = "is not allowed to modify node";
    let steps = json!([{"op": "add", "path": "/metadata/annotations", "value": {"a": "b"}}]);
    let strategic = json!({"spec": {"taints": [{"key": "a", "effect": "NoExecute"}]}});
    let status = json!({"status": {"addresses": [{"type": "InternalIP", "address": "10.0.0.1"}]}});
    let name = |node: &str| format!("/api/v1/nodes/{node}");
    for (what, sentence, call, own) in [
        (
            "label another node",
            other,
            Call::patch(name("other"), label("team")),
            own(),
        ),
        (
            "change another node by a JSON patch",
            other,
            Call::patch_as("json-patch", name("other"), steps.clone()),
            Call::patch_as("json-patch", name("own"), steps),
        ),
        (
            "taint another node by a strategic patch",
            other,
            Call::patch_as("strategic-merge-patch", name("other"), strategic),
            own(),
        ),
        (
            "apply another node",
            other,
            Call::apply(name("other"), full("other")),
            Call::apply(name("own"), full("own")),
        ),
        (
            "register another node by an apply",
            other,
            Call::apply(name("third"), full("third")),
            Call::apply(name("own"), full("own")),
        ),
        (
            "register another node",
            other,
            Call::new("POST", "/api/v1/nodes", full("third")),
            own(),
        ),
        (
            "register a node with a generated name",
            other,
            Call::new(
                "POST",
                "/api/v1/nodes",
                json!({"metadata": {"generateName": "own"}}),
            ),
            own(),
        ),
        (
            "report another node's addresses",
            other,
            Call::patch(format!("{}/status", name("other")), status.clone()),
            Call::patch(format!("{}/status", name("own")), status),
        ),
        (
            "label itself for isolated workloads",
            "is not allowed to modify labels",
            Call::patch(name("own"), label("node-restriction.kubernetes.io/pci")),
            own(),
        ),
        (
            "label itself as a control plane",
            "is not allowed to modify labels",
            Call::patch(name("own"), label("node-role.kubernetes.io/control-plane")),
            own(),
        ),
        (
            "label itself by its status",
            "is not allowed to modify labels",
            Call::patch(
                format!("{}/status", name("own")),
                label("node-restriction.kubernetes.io/pci"),
            ),
            own(),
        ),
        (
            "remove its taints",
            "is not allowed to modify taints",
            Call::patch(name("own"), taints),
            own(),
        ),
        (
            "give itself an owner, to be deleted and register anew",
            "is not allowed to modify ownerReferences",
            Call::patch(name("own"), owner),
            own(),
        ),
    ] {
        attempts.push(Attempt::by_webhook(what, sentence, call, own));
    }
    for node in ["own", "other"] {
        let call = Call::new("DELETE", name(node), Value::Null);
        attempts.push(Attempt::by_authorizer(
            format!("delete the node {node}"),
            call,
        ));
    }
}

/// What belongs to a node by its name or a field.
#[expect(clippy::too_many_lines, reason = "a table")]
fn named(attempts: &mut Vec<Attempt>) {
    let leases = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";
    let lease = |name: &str| {
        json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": name}, "spec": {"holderIdentity": "own"}})
    };
    let csi = "/apis/storage.k8s.io/v1/csinodes";
    let csi_node = |name: &str| json!({"metadata": {"name": name}, "spec": {"drivers": []}});
    let slices = "/apis/resource.k8s.io/v1/resourceslices";
    let slice = |node: &str| {
        json!({"metadata": {"name": format!("new-{node}")}, "spec": {
        "driver": "driver.example.com", "nodeName": node,
        "pool": {"name": node, "resourceSliceCount": 1, "generation": 1}}})
    };
    let mut everywhere = slice("own");
    everywhere["spec"]["nodeName"] = Value::Null;
    everywhere["spec"]["allNodes"] = json!(true);
    let lease_name = "can only access node lease with the same name";
    let own_lease = || {
        Call::patch(
            format!("{leases}/own"),
            json!({"spec": {"holderIdentity": "own"}}),
        )
    };
    let own_csi = || {
        Call::patch(
            format!("{csi}/own"),
            json!({"metadata": {"annotations": {"a": "b"}}}),
        )
    };
    let generated = json!({"metadata": {"generateName": "own"}, "spec": {}});
    for (what, sentence, call, own) in [
        (
            "create another node's lease",
            lease_name,
            Call::new("POST", leases, lease("third")),
            own_lease(),
        ),
        (
            "create a lease with a generated name",
            lease_name,
            Call::new("POST", leases, generated),
            own_lease(),
        ),
        (
            "create another node's CSINode",
            "can only access CSINode with the same name",
            Call::new("POST", csi, csi_node("third")),
            own_csi(),
        ),
        (
            "announce another node's devices",
            "can only create ResourceSlice with the same NodeName",
            Call::new("POST", slices, slice("other")),
            Call::new("POST", slices, slice("own")),
        ),
        (
            "announce devices of all nodes",
            "can only create ResourceSlice with the same NodeName",
            Call::new("POST", slices, everywhere),
            Call::new("POST", slices, slice("own")),
        ),
    ] {
        attempts.push(Attempt::by_webhook(what, sentence, call, own));
    }
    let elections = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases";
    let renewed = json!({"spec": {"holderIdentity": "own"}});
    for (what, call) in [
        (
            "renew another node's lease",
            Call::patch(format!("{leases}/other"), renewed.clone()),
        ),
        (
            "apply another node's lease",
            Call::apply(format!("{leases}/third"), lease("third")),
        ),
        (
            "create another node's lease by an update",
            Call::new("PUT", format!("{leases}/third"), lease("third")),
        ),
        (
            "delete another node's lease",
            Call::new("DELETE", format!("{leases}/other"), Value::Null),
        ),
        (
            "delete all leases",
            Call::new("DELETE", leases, Value::Null),
        ),
        (
            "become the leader of the controllers",
            Call::new("POST", elections, lease("kube-controller-manager")),
        ),
        (
            "change another node's CSINode",
            Call::patch(
                format!("{csi}/other"),
                json!({"metadata": {"annotations": {"a": "b"}}}),
            ),
        ),
        (
            "delete another node's CSINode",
            Call::new("DELETE", format!("{csi}/other"), Value::Null),
        ),
        (
            "change another node's devices",
            Call::patch(
                format!("{slices}/slice-other"),
                json!({"metadata": {"annotations": {"a": "b"}}}),
            ),
        ),
        (
            "delete all devices",
            Call::new("DELETE", slices, Value::Null),
        ),
        (
            "report the status of another node's claim",
            Call::patch(
                "/api/v1/namespaces/default/persistentvolumeclaims/claim-other/status",
                json!({"status": {"phase": "Lost"}}),
            ),
        ),
        (
            "change a claim",
            Call::patch(
                "/api/v1/namespaces/default/persistentvolumeclaims/claim-own",
                json!({"spec": {"volumeName": "x"}}),
            ),
        ),
    ] {
        attempts.push(Attempt::by_authorizer(what, call));
    }
}

fn certificates(attempts: &mut Vec<Attempt>) {
    let path = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
    let request = |signer: &str, name: &str, group: &str| {
        let spec = json!({"signerName": format!("kubernetes.io/{signer}"),
            "request": signing_request(name, group),
            "usages": ["digital signature", if signer == "kubelet-serving" { "server auth" } else { "client auth" }]});
        Call::new(
            "POST",
            path,
            json!({"metadata": {"name": "new"}, "spec": spec}),
        )
    };
    let node = |signer: &str, name: &str| request(signer, name, "system:nodes");
    let read = |file: &str| {
        let folder = manifests().join("../admission/tests/signing_requests");
        let pem = std::fs::read(folder.join(file)).unwrap();
        let mut call = node("kube-apiserver-client-kubelet", "");
        call.body["spec"]["request"] = json!(BASE64_STANDARD.encode(pem));
        call
    };
    let sentence = "can only create a node CSR with CN=system:node:own";
    for signer in ["kube-apiserver-client-kubelet", "kubelet-serving"] {
        for (what, name) in [
            ("another node", "system:node:other"),
            ("an administrator", "admin"),
        ] {
            attempts.push(Attempt::by_webhook(
                format!("request a certificate of {what} from {signer}"),
                sentence,
                node(signer, name),
                node(signer, "system:node:own"),
            ));
        }
    }
    for (what, file, sentence) in [
        (
            "a block inside a line",
            "block-inside-a-line.pem",
            "PEM block type must be CERTIFICATE REQUEST",
        ),
        (
            "a second block that a header hides",
            "header-own-first.pem",
            "PEM block type must be CERTIFICATE REQUEST",
        ),
        (
            "a first block that a header hides",
            "header-own-last.pem",
            "PEM block type must be CERTIFICATE REQUEST",
        ),
        (
            "a name that is no string",
            "name-in-an-octet-string.pem",
            "exactly one common name",
        ),
        ("a second name", "two-names.pem", "exactly one common name"),
    ] {
        attempts.push(Attempt::by_webhook(
            format!("request a certificate of another node by {what}"),
            sentence,
            read(file),
            read("own.pem"),
        ));
    }
    attempts.push(Attempt {
        name: "request a certificate of the group system:masters".to_owned(),
        refused: Refused::ApiServer("system:masters group is not allowed"),
        call: request("kube-apiserver-client", "admin", "system:masters"),
        own: None,
    });
    let pods = "/apis/certificates.k8s.io/v1beta1/namespaces/default/podcertificaterequests";
    attempts.push(Attempt {
        name: "request a certificate of a pod, where the API server has none".to_owned(),
        // Since 1.37 a node has the permission, and v1 alone is served.
        refused: if Kubernetes::current().unwrap().is_at_least("1.37").unwrap() {
            Refused::ApiServer("could not find the requested resource")
        } else {
            Refused::Authorizer
        },
        call: Call::new("POST", pods, json!({"metadata": {"name": "new"}})),
        own: None,
    });
    for (what, call) in [
        (
            "approve a certificate",
            Call::new(
                "PUT",
                format!("{path}/new/approval"),
                json!({"metadata": {"name": "new"}}),
            ),
        ),
        (
            "sign a certificate",
            Call::new(
                "PUT",
                format!("{path}/new/status"),
                json!({"metadata": {"name": "new"}}),
            ),
        ),
    ] {
        attempts.push(Attempt::by_authorizer(what, call));
    }
}

/// PEM in base64.
fn signing_request(name: &str, group: &str) -> String {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params
        .distinguished_name
        .push(DnType::OrganizationName, group);
    params.distinguished_name.push(DnType::CommonName, name);
    let key = KeyPair::generate().unwrap();
    let pem = params.serialize_request(&key).unwrap().pem().unwrap();
    BASE64_STANDARD.encode(pem)
}

/// What a node has no permission for.
fn everything_else(attempts: &mut Vec<Attempt>) {
    let core = "/api/v1/namespaces/kube-system";
    let secret = json!({"metadata": {"name": "t", "annotations": {"kubernetes.io/service-account.name": "runner"}},
        "type": "kubernetes.io/service-account-token"});
    let job = json!({"metadata": {"name": "j"}, "spec": {"template": {"spec": {"restartPolicy": "Never",
        "serviceAccountName": "runner", "containers": [{"name": "c", "image": "i"}]}}}});
    let binding = json!({"metadata": {"name": "b"}, "subjects": [{"kind": "Group", "name": "system:nodes", "apiGroup": "rbac.authorization.k8s.io"}],
        "roleRef": {"kind": "ClusterRole", "name": "cluster-admin", "apiGroup": "rbac.authorization.k8s.io"}});
    let hooks =
        "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/nodelife-webhook";
    for (what, call) in [
        (
            "create a token Secret",
            Call::new("POST", format!("{core}/secrets"), secret),
        ),
        (
            "read a Secret of another node's pod",
            Call::new("GET", format!("{core}/secrets/s"), Value::Null),
        ),
        (
            "create an account",
            Call::new(
                "POST",
                format!("{core}/serviceaccounts"),
                json!({"metadata": {"name": "a"}}),
            ),
        ),
        (
            "create a Job with another account",
            Call::new("POST", "/apis/batch/v1/namespaces/kube-system/jobs", job),
        ),
        (
            "bind itself to cluster-admin",
            Call::new(
                "POST",
                "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
                binding,
            ),
        ),
        (
            "switch the webhook off",
            Call::new("DELETE", hooks, Value::Null),
        ),
        (
            "change a ConfigMap of the control plane",
            Call::patch(
                format!("{core}/configmaps/extension-apiserver-authentication"),
                json!({"data": {}}),
            ),
        ),
        (
            "create a volume of the host",
            Call::new(
                "POST",
                "/api/v1/persistentvolumes",
                json!({"metadata": {"name": "v"}}),
            ),
        ),
        (
            "attach a volume",
            Call::new(
                "POST",
                "/apis/storage.k8s.io/v1/volumeattachments",
                json!({"metadata": {"name": "v"}}),
            ),
        ),
        (
            "report the allocation of a resource claim",
            Call::patch(
                "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims/c/status",
                json!({"status": {}}),
            ),
        ),
    ] {
        attempts.push(Attempt::by_authorizer(what, call));
    }
}
