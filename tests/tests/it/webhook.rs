//! Compares the webhook, called by a real API server over TLS, with the in-tree plugins on another
//! API server.

use std::fs;
use std::path::PathBuf;

use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration,
};
use k8s_openapi::api::core::v1::{Namespace, Node, Pod, Service};
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client, Error};
use nodelife_tests::supervise::{Spec, Supervised};
use nodelife_tests::{ControlPlane, Identity, program, until};
use serde_json::{Value, json};
use tokio::sync::OnceCell;

const NAMESPACE: &str = "nodelife-system";
const SERVICE: &str = "nodelife-webhook";
const PORT: u16 = 8443;

/// Two control planes: one with the in-tree plugins, one with ours in their place.
struct Planes {
    in_tree: ControlPlane,
    ours: ControlPlane,
    _webhook: Supervised,
}

impl Planes {
    async fn shared() -> &'static Self {
        static SHARED: OnceCell<Planes> = OnceCell::const_new();
        SHARED.get_or_init(Self::start).await
    }

    async fn start() -> Self {
        let in_tree = ControlPlane::options().start().await.unwrap();
        let ours = ControlPlane::options()
            .without_admission("NodeRestriction")
            .without_admission("DefaultTolerationSeconds")
            .start()
            .await
            .unwrap();
        let webhook = serve(&ours).await;
        Self {
            in_tree,
            ours,
            _webhook: webhook,
        }
    }

    /// A client of the same node on each.
    async fn nodes(&self, node: &str) -> [Client; 2] {
        [
            self.in_tree.node(node).await.unwrap(),
            self.ours.node(node).await.unwrap(),
        ]
    }

    async fn admins(&self) -> [Client; 2] {
        [
            self.in_tree.admin().await.unwrap(),
            self.ours.admin().await.unwrap(),
        ]
    }
}

/// Starts the webhook on the address of its Service and registers it.
async fn serve(plane: &ControlPlane) -> Supervised {
    let admin = plane.admin().await.unwrap();
    let address = plane.service_ip(10);
    let namespace = json!({"metadata": {"name": NAMESPACE}});
    create::<Namespace>(&Api::all(admin.clone()), &namespace)
        .await
        .unwrap();
    let service = json!({"metadata": {"name": SERVICE}, "spec":
        {"clusterIP": address.to_string(), "ports": [{"port": PORT}]}});
    let services: Api<Service> = Api::namespaced(admin.clone(), NAMESPACE);
    create(&services, &service).await.unwrap();

    let health = nodelife_tests::port::free().unwrap();
    let webhook = Spec::new(
        program::webhook().unwrap(),
        plane.folder().join("webhook.log"),
    )
    .args(["serve", "--tls-dir"])
    .args([tls_folder(plane).to_string_lossy()])
    .args(["--listen".to_owned(), format!("{address}:{PORT}")])
    .args(["--health-listen".to_owned(), format!("127.0.0.1:{health}")])
    .args(["--kubeconfig".to_owned()])
    .args([plane
        .kubeconfig_file(&Identity::Admin)
        .unwrap()
        .to_string_lossy()])
    .start()
    .unwrap();
    until("the webhook's port", async || {
        tokio::net::TcpStream::connect((address, PORT)).await?;
        Ok(Some(()))
    })
    .await;
    register(plane, &admin).await;
    webhook
}

/// A folder as a Secret is mounted: files that are links through `..data`.
fn tls_folder(plane: &ControlPlane) -> PathBuf {
    let authority = plane.authority();
    let name = format!("{SERVICE}.{NAMESPACE}.svc");
    let leaf = authority.server(&[&name], &[]).unwrap();
    let folder = plane.folder().join("webhook-tls");
    let generation = folder.join("..2026_11_21");
    fs::create_dir_all(&generation).unwrap();
    for (file, content) in [
        ("tls.crt", leaf.certificate),
        ("tls.key", leaf.key),
        ("ca.crt", authority.certificate()),
    ] {
        fs::write(generation.join(file), content).unwrap();
        std::os::unix::fs::symlink(format!("..data/{file}"), folder.join(file)).unwrap();
    }
    std::os::unix::fs::symlink("..2026_11_21", folder.join("..data")).unwrap();
    folder
}

async fn register(plane: &ControlPlane, admin: &Client) {
    use base64::Engine as _;
    let bundle = base64::prelude::BASE64_STANDARD.encode(plane.authority().certificate());
    let webhook = |path: &str, rules: Value, nodes_only: bool| {
        let mut webhook = json!({
            "name": format!("{path}.nodelife.dev"),
            "clientConfig": {
                "caBundle": bundle,
                "service": {"namespace": NAMESPACE, "name": SERVICE, "port": PORT, "path": format!("/{path}")},
            },
            "rules": rules,
            "sideEffects": "None",
            "failurePolicy": "Fail",
            "admissionReviewVersions": ["v1"],
            "timeoutSeconds": 5,
        });
        if nodes_only {
            webhook["matchConditions"] = json!([{"name": "nodes", "expression":
                "'system:nodes' in request.userInfo.?groups.orValue([])"}]);
        }
        webhook
    };
    let rule = |group: &str, versions: &str, resources: Value, operations: Value| {
        json!({"apiGroups": [group], "apiVersions": [versions], "resources": resources,
            "operations": operations})
    };
    let writes = json!(["CREATE", "UPDATE", "DELETE"]);
    let restricted = json!([
        rule(
            "",
            "v1",
            json!([
                "nodes",
                "nodes/*",
                "pods",
                "pods/*",
                "persistentvolumeclaims",
                "persistentvolumeclaims/*",
                "serviceaccounts/token"
            ]),
            writes.clone()
        ),
        rule(
            "coordination.k8s.io",
            "*",
            json!(["leases"]),
            writes.clone()
        ),
        rule("storage.k8s.io", "*", json!(["csinodes"]), writes.clone()),
        rule(
            "resource.k8s.io",
            "*",
            json!(["resourceslices"]),
            writes.clone()
        ),
        rule(
            "certificates.k8s.io",
            "*",
            json!(["certificatesigningrequests"]),
            writes
        ),
    ]);
    let pods = json!([rule("", "v1", json!(["pods"]), json!(["CREATE", "UPDATE"]))]);
    let mut defaults = webhook("mutate", pods, false);
    defaults["name"] = json!("tolerations.nodelife.dev");
    let mutating = json!({"metadata": {"name": "nodelife"}, "webhooks":
        [webhook("mutate", restricted.clone(), true), defaults]});
    let validating = json!({"metadata": {"name": "nodelife"}, "webhooks":
        [webhook("validate", restricted, true)]});
    create::<MutatingWebhookConfiguration>(&Api::all(admin.clone()), &mutating)
        .await
        .unwrap();
    create::<ValidatingWebhookConfiguration>(&Api::all(admin.clone()), &validating)
        .await
        .unwrap();
    // The API server learns of a configuration a moment after it has stored it.
    let pods: Api<Pod> = Api::namespaced(admin.clone(), "default");
    until("the webhook to be called", async || {
        let params = PostParams {
            dry_run: true,
            ..PostParams::default()
        };
        let made = pods
            .create(&params, &serde_json::from_value(pod("probe", None))?)
            .await?;
        Ok(made.spec.and_then(|spec| spec.tolerations).map(drop))
    })
    .await;
}

fn pod(name: &str, tolerations: Option<Value>) -> Value {
    let mut pod = json!({"metadata": {"name": name}, "spec": {
        "containers": [{"name": "c", "image": "i"}], "automountServiceAccountToken": false}});
    if let Some(tolerations) = tolerations {
        pod["spec"]["tolerations"] = tolerations;
    }
    pod
}

async fn create<K>(api: &Api<K>, object: &Value) -> Result<K, Error>
where
    K: kube::Resource + Clone + std::fmt::Debug + serde::de::DeserializeOwned + serde::Serialize,
{
    let object = serde_json::from_value(object.clone()).unwrap();
    api.create(&PostParams::default(), &object).await
}

/// Code and text of a refusal.
fn refusal<T: std::fmt::Debug>(answer: Result<T, Error>) -> (u16, String) {
    match answer {
        Err(Error::Api(status)) => (status.code, status.message.clone()),
        other => panic!("expected a refusal, got {other:?}"),
    }
}

#[tokio::test]
async fn pods_get_the_tolerations_of_the_in_tree_plugin() {
    let planes = Planes::shared().await;
    let [in_tree, ours] = planes.admins().await;
    for plane in [&in_tree, &ours] {
        // Nobody makes it where the controllers do not run.
        let accounts: Api<k8s_openapi::api::core::v1::ServiceAccount> =
            Api::namespaced(plane.clone(), "default");
        let _ = create(&accounts, &json!({"metadata": {"name": "default"}})).await;
    }
    let lists = [
        None,
        Some(json!([])),
        Some(json!([{"operator": "Exists"}])),
        Some(
            json!([{"key": "node.kubernetes.io/not-ready", "operator": "Exists",
            "effect": "NoExecute", "tolerationSeconds": 10}]),
        ),
        Some(json!([{"key": "node.kubernetes.io/unreachable", "value": "x"}])),
        Some(
            json!([{"key": "a", "operator": "Exists", "effect": "NoSchedule"},
            {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoSchedule"}]),
        ),
    ];
    for (index, list) in lists.into_iter().enumerate() {
        let name = format!("tolerations-{index}");
        let mut got = Vec::new();
        for plane in [&in_tree, &ours] {
            let pods: Api<Pod> = Api::namespaced(plane.clone(), "default");
            let made = create(&pods, &pod(&name, list.clone())).await.unwrap();
            got.push(serde_json::to_value(made.spec.unwrap().tolerations).unwrap());
        }
        assert_eq!(got[0], got[1], "{list:?}");
    }
}

#[tokio::test]
async fn a_node_that_labels_itself_gets_the_in_tree_denial() {
    let planes = Planes::shared().await;
    let mut sentences = Vec::new();
    for kubelet in planes.nodes("labeller").await {
        let nodes: Api<Node> = Api::all(kubelet);
        create(&nodes, &json!({"metadata": {"name": "labeller"}}))
            .await
            .unwrap();
        let label = |value: &str| {
            Patch::Merge(json!({"metadata": {"labels": {
            "node-role.kubernetes.io/control-plane": value}}}))
        };
        let patched = nodes
            .patch("labeller", &PatchParams::default(), &label(""))
            .await;
        let (code, message) = refusal(patched);
        assert_eq!(code, 403);
        sentences.push(message);
    }
    let (_, sentence) = sentences[0].split_once("is forbidden: ").unwrap();
    assert!(sentences[1].contains(sentence), "{sentences:?}");
}

#[tokio::test]
async fn an_eviction_of_another_nodes_pod_is_denied_after_a_lookup() {
    let planes = Planes::shared().await;
    let admins = planes.admins().await;
    let kubelets = planes.nodes("evictor").await;
    let mut codes = Vec::new();
    for (admin, kubelet) in admins.into_iter().zip(kubelets) {
        let accounts: Api<k8s_openapi::api::core::v1::ServiceAccount> =
            Api::namespaced(admin.clone(), "default");
        let _ = create(&accounts, &json!({"metadata": {"name": "default"}})).await;
        let pods: Api<Pod> = Api::namespaced(admin, "default");
        for (name, node) in [("theirs", "another"), ("own", "evictor")] {
            let mut pod = pod(name, None);
            pod["spec"]["nodeName"] = json!(node);
            create(&pods, &pod).await.unwrap();
        }
        let pods: Api<Pod> = Api::namespaced(kubelet, "default");
        for name in ["theirs", "own", "missing"] {
            let evict = async || match pods.evict(name, &kube::api::EvictParams::default()).await {
                Ok(_) => (200, String::new()),
                Err(Error::Api(status)) => (status.code, status.message.clone()),
                Err(error) => panic!("{error}"),
            };
            // The in-tree plugin reads an informer, which may be a moment behind.
            let answer = until("an answer about the pod", async || {
                let (code, message) = evict().await;
                Ok((name == "missing" || code != 404).then_some((code, message)))
            })
            .await;
            codes.push(answer);
        }
    }
    let (in_tree, ours) = codes.split_at(3);
    for (in_tree, ours) in in_tree.iter().zip(ours) {
        assert_eq!(in_tree.0, ours.0, "{codes:?}");
    }
    assert_eq!(in_tree[0].0, 403);
    assert!(
        ours[0]
            .1
            .contains("node evictor can only evict pods with spec.nodeName set to itself")
    );
}
