//! Tests of the detection of the Node authorizer and NodeRestriction, on API servers with each
//! combination of the two.

use kube::api::{Api, PostParams};
use kube::core::DynamicObject;
use kube::discovery::ApiResource;
use nodelife_tests::fixture::NodeFixture;
use nodelife_tests::kubectl::Kubectl;
use nodelife_tests::{ControlPlane, Identity, TestNamespace, until};
use serde_json::{Value, json};

const AUTHORIZER: &str = "NL-AUT-005";
const RESTRICTION: &str = "NL-AUT-001";

/// An audit of no node at all would be an error.
const NODE: &str = "audited";

#[tokio::test]
async fn each_combination_is_recognised() {
    for authorizer in [true, false] {
        for restriction in [true, false] {
            let what = format!("authorizer {authorizer}, restriction {restriction}");
            let plane = start(authorizer, restriction).await;
            let kubectl = Kubectl::new(&plane, &Identity::Admin).unwrap();
            let report = audit(&kubectl, &["--probe"]).await;
            assert_eq!(report["skipped"], json!([]), "{what}");
            let mut expected = Vec::new();
            if !restriction {
                expected.push(RESTRICTION);
            }
            if !authorizer {
                expected.push(AUTHORIZER);
            }
            assert_eq!(rules(&report), expected, "{what}: {report}");
            if !restriction {
                a_policy_is_told_from_the_plugin(&plane, &kubectl).await;
                a_webhook_is_told_from_the_plugin(&plane, &kubectl).await;
            }
            nothing_was_written(&plane).await;
        }
    }
}

#[tokio::test]
async fn without_permission_to_impersonate_the_rest_is_reported() {
    let plane = ControlPlane::shared_api().await;
    let namespace = TestNamespace::create(plane, "access").await.unwrap();
    let node = NodeFixture::new(&format!("{}-audited", namespace.name));
    node.create(namespace.client()).await.unwrap();
    // May read nodes and create reviews, and impersonate nobody.
    namespace.service_account("reader").await.unwrap();
    let reader = format!("system:serviceaccount:{}:reader", namespace.name);
    let admin = Kubectl::new(plane, &Identity::Admin).unwrap();
    let name = format!("{}-reader", namespace.name);
    let documents = json!({"apiVersion": "v1", "kind": "List", "items": [
        {
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
            "metadata": {"name": name},
            "rules": [
                {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "list"]},
                {
                    "apiGroups": ["authorization.k8s.io"],
                    "resources": ["subjectaccessreviews"], "verbs": ["create"],
                },
            ],
        },
        {
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
            "metadata": {"name": name},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
            "subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": reader}],
        },
    ]});
    admin.apply(&documents.to_string()).await.unwrap();
    let token = namespace.token("reader").await.unwrap();
    let kubectl = Kubectl::new(plane, &Identity::Token(token)).unwrap();
    let report = until("the reader's rights", async || {
        let report = audit(&kubectl, &["--probe"]).await;
        let skipped = report["skipped"].as_array().unwrap().len();
        Ok((skipped == 1).then_some(report))
    })
    .await;
    // The shared API server runs with both.
    assert_eq!(rules(&report), Vec::<&str>::new());
    assert_eq!(report["skipped"][0]["rule"], RESTRICTION);
    let reason = report["skipped"][0]["reason"].as_str().unwrap();
    assert!(reason.contains("cannot impersonate"), "{reason}");
}

async fn start(authorizer: bool, restriction: bool) -> ControlPlane {
    let mut options = ControlPlane::options();
    if !authorizer {
        options = options.authorization("RBAC");
    }
    if !restriction {
        options = options.without_admission("NodeRestriction");
    }
    let plane = options.start().await.unwrap();
    let admin = plane.admin().await.unwrap();
    NodeFixture::new(NODE).create(&admin).await.unwrap();
    plane
}

/// What the two rules say.
async fn audit(kubectl: &Kubectl, flags: &[&str]) -> Value {
    let selected = format!("{AUTHORIZER},{RESTRICTION}");
    let words = [
        "nodelife",
        "audit",
        "-o",
        "json",
        "--fail-on",
        "never",
        "--rule",
        &selected,
    ];
    let output = kubectl.run(words.iter().chain(flags)).await.unwrap();
    serde_json::from_str(&output.success().unwrap()).unwrap()
}

fn rules(report: &Value) -> Vec<&str> {
    let mut rules: Vec<_> = report["findings"]
        .as_array()
        .unwrap()
        .iter()
        .map(|finding| finding["rule"].as_str().unwrap())
        .collect();
    rules.sort_unstable();
    rules
}

/// A policy that says what NodeRestriction says is not taken for it.
async fn a_policy_is_told_from_the_plugin(plane: &ControlPlane, kubectl: &Kubectl) {
    let policy = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": "nodes-mind-themselves"},
        "spec": {
            "matchConstraints": {"resourceRules": [{
                "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["nodes"],
            }]},
            "validations": [{
                "expression": "!request.userInfo.username.startsWith('system:node:')",
                "message": "node \"nodelife-probe\" is not allowed to modify node \"nodelife-probe-other\"",
                "reason": "Forbidden",
            }],
        },
    });
    let binding = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": "nodes-mind-themselves"},
        "spec": {"policyName": "nodes-mind-themselves", "validationActions": ["Deny"]},
    });
    for (plural, object) in [
        ("validatingadmissionpolicies", policy),
        ("validatingadmissionpolicybindings", binding),
    ] {
        register(plane, plural, object).await;
    }
    takes_its_place(kubectl, "policy nodes-mind-themselves").await;
}

/// A webhook that is asked before the policy is, and lets no node through since it is not there.
async fn a_webhook_is_told_from_the_plugin(plane: &ControlPlane, kubectl: &Kubectl) {
    let configuration = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": "nodes-ask"},
        "webhooks": [{
            "name": "nodes-ask.example.com",
            "clientConfig": {"url": "https://127.0.0.1:1/"},
            "rules": [{
                "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["nodes"],
            }],
            "failurePolicy": "Fail",
            "sideEffects": "None",
            "timeoutSeconds": 1,
            "admissionReviewVersions": ["v1"],
        }],
    });
    register(plane, "mutatingwebhookconfigurations", configuration).await;
    takes_its_place(kubectl, "webhook nodes-ask.example.com").await;
}

/// Creates an object of admissionregistration.k8s.io/v1.
async fn register(plane: &ControlPlane, plural: &str, object: Value) {
    let resource = ApiResource {
        group: "admissionregistration.k8s.io".into(),
        version: "v1".into(),
        api_version: "admissionregistration.k8s.io/v1".into(),
        kind: object["kind"].as_str().unwrap().into(),
        plural: plural.into(),
    };
    let api: Api<DynamicObject> = Api::all_with(plane.admin().await.unwrap(), &resource);
    let object = serde_json::from_value(object).unwrap();
    api.create(&PostParams::default(), &object).await.unwrap();
}

/// The plugin is off, and this refuses instead of it.
async fn takes_its_place(kubectl: &Kubectl, who: &str) {
    until(&format!("the {who} at work"), async || {
        let report = audit(kubectl, &["--probe"]).await;
        let findings = report["findings"].as_array().unwrap();
        let finding = findings.iter().find(|one| one["rule"] == RESTRICTION);
        let Some(finding) = finding else {
            anyhow::bail!("taken for the plugin: {report}");
        };
        Ok((finding["evidence"]["deniedBy"] == who).then_some(()))
    })
    .await;
}

/// The probe's node never came to be.
async fn nothing_was_written(plane: &ControlPlane) {
    let nodes: Api<k8s_openapi::api::core::v1::Node> = Api::all(plane.admin().await.unwrap());
    let nodes = nodes.list(&kube::api::ListParams::default()).await.unwrap();
    let names: Vec<_> = nodes.iter().map(kube::ResourceExt::name_any).collect();
    assert_eq!(names, [NODE]);
}
