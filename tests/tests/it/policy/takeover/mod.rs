//! Attempts of a node, and of an agent, to come to another identity, in an API server with the
//! Node authorizer and without the in-tree plugin NodeRestriction.

mod agent;
mod node;
mod node_objects;

use nodelife_tests::installation::manifests;
use nodelife_tests::{ControlPlane, Installation, until};
use serde_json::{Value, json};

use super::requests::{is_served, world};
use super::{Call, PATIENT, PolicyResponse, make, pod, start};

/// Who refuses.
#[derive(Clone, Copy, Debug)]
enum Refused {
    /// A webhook of ours, with a part of its sentence.
    Webhook(&'static str),
    /// The node authorizer or RBAC: the webhook does not see the request.
    Authorizer,
    /// The API server itself, with a part of its sentence.
    ApiServer(&'static str),
}

impl Refused {
    fn is(self, response: &PolicyResponse) -> bool {
        let message = &response.message;
        match self {
            Self::Webhook(sentence) => {
                // 404 for a pod that is not there.
                [403, 404].contains(&response.code)
                    && message.starts_with("admission webhook ")
                    && message.contains(".nodelife.dev\" denied the request: ")
                    && message.contains(sentence)
            }
            Self::Authorizer => {
                response.code == 403
                    && message.contains("User \"system:")
                    && message.contains(" cannot ")
            }
            Self::ApiServer(sentence) => {
                (400..500).contains(&response.code) && message.contains(sentence)
            }
        }
    }
}

/// A request that would lead to another identity.
struct Attempt {
    name: String,
    refused: Refused,
    call: Call,
    /// The same for the requester's own objects: it passes.
    own: Option<Call>,
}

impl Attempt {
    fn by_webhook(name: impl Into<String>, sentence: &'static str, call: Call, own: Call) -> Self {
        Self {
            name: name.into(),
            refused: Refused::Webhook(sentence),
            call,
            own: Some(own),
        }
    }

    fn by_authorizer(name: impl Into<String>, call: Call) -> Self {
        Self {
            name: name.into(),
            refused: Refused::Authorizer,
            call,
            own: None,
        }
    }

    /// What is wrong, if it passes, or another refuses it, or the own request does not pass.
    async fn failure(&self, client: &kube::Client) -> Option<String> {
        let connects = ["/exec?", "/attach?", "/portforward", "/proxy/"];
        let call = self.call.clone();
        // There are no dry connections.
        let call = if connects.iter().any(|part| call.path.contains(part)) {
            call
        } else {
            call.dry()
        };
        let response = call.send(client).await.unwrap();
        if !self.refused.is(&response) {
            return Some(format!("{}: {response:?}", self.name));
        }
        let own = self.own.clone()?.dry().send(client).await.unwrap();
        (own.code >= 300).then(|| format!("{}: its own: {own:?}", self.name))
    }
}

/// A request as another user.
fn impersonate(what: &str) -> Attempt {
    let call = Call::new("GET", "/api/v1/nodes", Value::Null);
    let call = match what {
        "group" => call.by_user("somebody", &["system:masters"]),
        _ => call.by_user("system:node:other", &[]),
    };
    Attempt::by_authorizer(format!("impersonate a {what}"), call)
}

/// UIDs of the objects of the test's world.
struct Uids {
    node: String,
    other_node: String,
    /// A pod on each node, in one namespace.
    pods: Vec<(String, String, String)>,
}

impl Uids {
    async fn read(admin: &kube::Client) -> Self {
        let uid = async |path: String| {
            let response = Call::new("GET", path, Value::Null)
                .send(admin)
                .await
                .unwrap();
            let uid = response.body["metadata"]["uid"].as_str();
            uid.unwrap_or_default().to_owned()
        };
        let mut pods = Vec::new();
        for namespace in NAMESPACES.into_iter().chain([LABELLED]) {
            for pod in ["on-own", "on-other"] {
                let path = format!("/api/v1/namespaces/{namespace}/pods/{pod}");
                let uid = uid(path).await;
                pods.push((namespace.to_owned(), pod.to_owned(), uid));
            }
        }
        Self {
            node: uid("/api/v1/nodes/own".to_owned()).await,
            other_node: uid("/api/v1/nodes/other".to_owned()).await,
            pods,
        }
    }

    fn pod(&self, namespace: &str, name: &str) -> &str {
        let found = self
            .pods
            .iter()
            .find(|(of, pod, _)| of == namespace && pod == name);
        &found.unwrap().2
    }
}

/// Also those that are exempt from `Fail`.
const NAMESPACES: [&str; 3] = ["default", "kube-system", "nodelife-system"];
/// Exempt by its label.
const LABELLED: &str = "kube-flannel";

/// A pod that the Pod Security Standard `restricted` of nodelife-system allows.
fn restricted(namespace: &str, name: &str, node: &str) -> Value {
    let mut pod = pod(namespace, name, node);
    pod["spec"]["securityContext"] =
        json!({"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}});
    pod["spec"]["containers"][0]["securityContext"] =
        json!({"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}});
    pod
}

#[tokio::test]
async fn no_request_leads_to_another_identity() {
    let plane = ControlPlane::options()
        .without_admission("NodeRestriction")
        .start()
        .await
        .unwrap();
    let admin = plane.admin().await.unwrap();
    make(&admin, &world()).await;
    agent::prepare(&admin).await;
    let installation = Installation::prepare(&plane, "overlays/agents")
        .await
        .unwrap()
        .timeout(PATIENT)
        .unwrap();
    let config = manifests().join("overlays/agents/config.yaml");
    let config = config.display().to_string();
    let probe = Call::patch(
        "/api/v1/nodes/other",
        json!({"metadata": {"labels": {"a": "b"}}}),
    )
    .dry()
    .by_node("own");
    let _replica = start(&plane, &installation, &["--config", &config], &probe)
        .await
        .unwrap();
    let labels = json!({"nodelife.dev/webhook": "exempt"});
    let labelled = json!({"metadata": {"name": LABELLED, "labels": labels}});
    let accounts = format!("/api/v1/namespaces/{LABELLED}/serviceaccounts");
    let account = json!({"metadata": {"name": "runner"}});
    let namespaces = "/api/v1/namespaces".to_owned();
    make(&admin, &[(namespaces, labelled), (accounts, account)]).await;
    for (namespace, account) in [
        ("nodelife-system", "nodelife-webhook"),
        (LABELLED, "runner"),
    ] {
        for node in ["own", "other"] {
            let mut object = restricted(namespace, &format!("on-{node}"), node);
            object["spec"]["serviceAccountName"] = json!(account);
            let token = json!({"serviceAccountToken": {"path": "t", "audience": "backup"}});
            object["spec"]["volumes"] =
                json!([{"name": "token", "projected": {"sources": [token]}}]);
            let pods = format!("/api/v1/namespaces/{namespace}/pods");
            make(&admin, &[(pods, object)]).await;
        }
    }
    let uids = Uids::read(&admin).await;
    let mut nodes = node::attempts(&uids);
    nodes.retain(|attempt| is_served(&attempt.call.path));
    let node = plane.node("own").await.unwrap();
    // The authorizer learns of the pods from its informer.
    for own in nodes.iter().filter_map(|attempt| attempt.own.clone()) {
        until("the node's own request", async || {
            let response = own.clone().dry().send(&node).await?;
            anyhow::ensure!(response.code < 300, "{own:?} {response:?}");
            Ok(Some(()))
        })
        .await;
    }
    let agent = agent::client(&plane, &admin).await;
    let agents = agent::attempts();
    let mut failures = Vec::new();
    for (client, attempts) in [(&node, &nodes), (&agent, &agents)] {
        for attempt in attempts {
            failures.extend(attempt.failure(client).await);
        }
    }
    assert!(
        failures.is_empty(),
        "{} fail\n{}",
        failures.len(),
        failures.join("\n")
    );
}
