//! Tests of credentials: plugins, ID tokens, and those that have expired.

use std::fs;

use base64::{Engine as _, prelude::BASE64_STANDARD};
use nodelife_tests::fixture::{NodeFixture, PodFixture};
use nodelife_tests::proxy::{Fault, FaultRule, Proxy};
use nodelife_tests::{Identity, TestNamespace};
use serde_json::{Value, json};

use super::{Desk, refusal, sentence};

fn exec(command: &str) -> Value {
    json!({"exec": {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": command,
        "args": ["token", "--cluster", "blue"],
        "env": [{"name": "PROFILE", "value": "ops"}],
        "installHint": "Install it with:\n  brew install acme-login",
        "interactiveMode": "Never",
        "provideClusterInfo": true,
    }})
}

#[tokio::test]
async fn a_credential_plugin_runs_as_in_kubectl() {
    let desk = Desk::new().await;
    let namespace = TestNamespace::create(desk.plane, "exec").await.unwrap();
    namespace.service_account("robot").await.unwrap();
    let token = namespace.token("robot").await.unwrap();
    // Relative to the kubeconfig's folder, with arguments, environment and the cluster's address.
    desk.script(
        "acme-login",
        &format!(
            r#"[ "$*" = "token --cluster blue" ] && [ "$PROFILE" = ops ] || exit 9
case "$KUBERNETES_EXEC_INFO" in *"{url}"*) ;; *) exit 8 ;; esac
echo '{{"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": {{"token": "{token}"}}}}'"#,
            url = desk.plane.url(),
        ),
    );
    let config = desk.kubeconfig(exec("./acme-login"), |_| ());
    // The robot is known, and may do nothing: the refusal names it and the missing permission.
    let output = desk
        .kubectl(config)
        .run(["nodelife", "drain", "n1"])
        .await
        .unwrap();
    let line = refusal(&output);
    let robot = format!("system:serviceaccount:{}:robot", namespace.name);
    assert!(line.starts_with("not allowed to get nodes: "), "{line}");
    assert!(line.contains(&robot), "{line}");
    assert!(
        line.ends_with("check with: kubectl auth can-i get nodes/n1"),
        "{line}"
    );

    let output = desk
        .audit(desk.kubeconfig(exec("acme-login-x"), |_| ()))
        .await;
    assert!(
        sentence(&output).ends_with(
            "the credential plugin acme-login-x was not found; \
             Install it with: brew install acme-login"
        ),
        "{}",
        output.stderr
    );

    desk.script(
        "acme-login",
        "echo '{\"token\": \"hunter2\"}'; echo 'run: acme login' >&2; exit 3",
    );
    let output = desk
        .audit(desk.kubeconfig(exec("./acme-login"), |_| ()))
        .await;
    let line = sentence(&output);
    assert!(
        line.ends_with("acme-login failed with exit status: 3, saying: run: acme login"),
        "{line}"
    );

    desk.script("acme-login", "echo hunter2");
    let output = desk
        .audit(desk.kubeconfig(exec("./acme-login"), |_| ()))
        .await;
    let line = sentence(&output);
    assert!(
        line.ends_with("acme-login printed no ExecCredential with a status"),
        "{line}"
    );
    namespace.delete().await.unwrap();
}

/// A token without an expiry may be revoked at any time: a 401 is the only sign.
#[tokio::test]
async fn a_credential_plugin_runs_again_after_a_401() {
    let desk = Desk::new().await;
    let namespace = TestNamespace::create(desk.plane, "renew").await.unwrap();
    let node = format!("{}-a", namespace.name);
    let fixture = NodeFixture::new(&node);
    fixture.create(namespace.client()).await.unwrap();
    let pod = PodFixture::new("web").running_on(&node);
    pod.create(&namespace).await.unwrap();
    let runs = desk.path("runs");
    desk.script(
        "acme-login",
        &format!(
            r#"echo run >> {}
echo '{{"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": {{"token": "t"}}}}'"#,
            runs.display()
        ),
    );
    // It acts as an administrator whatever the token is.
    let proxy = Proxy::start(desk.plane, &Identity::Admin).unwrap();
    let kubeconfig = fs::read_to_string(proxy.kubeconfig_file().unwrap()).unwrap();
    let through: Value = serde_json::from_str(&kubeconfig).unwrap();
    let config = desk.kubeconfig(exec("./acme-login"), |config| {
        config["clusters"] = through["clusters"].clone();
    });
    let body = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": "Unauthorized", "reason": "Unauthorized", "code": 401,
    });
    let revoked = Fault::Answer {
        status: 401,
        headers: Vec::new(),
        body: body.to_string(),
    };
    let count = || fs::read_to_string(&runs).unwrap().lines().count();
    let kubectl = desk.kubectl(config);
    let plan = ["nodelife", "drain", &node, "--force", "--dry-run"];
    let output = kubectl.run(plan).await.unwrap();
    assert_eq!(output.status, Some(0), "{output:?}");
    // kube asks it for a token and for a certificate.
    let once = count();
    proxy.fault(FaultRule::new(revoked).path("/eviction").times(1));
    let words = ["nodelife", "drain", &node, "--force", "--timeout=60s"];
    let output = kubectl.run(words).await.unwrap();
    assert_eq!(output.status, Some(0), "{output:?}");
    assert_eq!(count(), 3 * once);
    namespace.delete().await.unwrap();
}

#[tokio::test]
async fn expired_credentials_are_named() {
    let desk = Desk::new().await;
    let pair = desk
        .plane
        .authority()
        .expired_client("me", "system:masters")
        .unwrap();
    let certificate = json!({
        "client-certificate-data": BASE64_STANDARD.encode(pair.certificate),
        "client-key-data": BASE64_STANDARD.encode(pair.key),
    });
    // {"alg":"none"}.{"exp":1735603200}
    let token = json!({"token": "eyJhbGciOiJub25lIn0.eyJleHAiOjE3MzU2MDMyMDB9.c2ln"});
    for (user, what) in [(certificate, "client certificate"), (token, "token")] {
        let output = desk.audit(desk.kubeconfig(user, |_| ())).await;
        assert_eq!(
            sentence(&output),
            format!(
                "the API server {} rejected the credentials (401): the {what} expired at \
                 2024-12-31T00:00:00Z; log in again, or renew it in the kubeconfig",
                desk.plane.url()
            )
        );
    }
}

/// A ServiceAccount's token is a JWT that this API server knows, as an ID token is.
#[tokio::test]
async fn an_oidc_id_token_is_sent_until_it_expires() {
    let desk = Desk::new().await;
    let namespace = TestNamespace::create(desk.plane, "oidc").await.unwrap();
    namespace.service_account("robot").await.unwrap();
    let token = namespace.token("robot").await.unwrap();
    let provider = |token: &str| {
        json!({"auth-provider": {"name": "oidc", "config": {
            "idp-issuer-url": "https://127.0.0.1:1",
            "client-id": "nodelife",
            "id-token": token,
        }}})
    };
    let kubectl = desk.kubectl(desk.kubeconfig(provider(&token), |_| ()));
    let output = kubectl.run(["nodelife", "drain", "n1"]).await.unwrap();
    let robot = format!("system:serviceaccount:{}:robot", namespace.name);
    assert!(refusal(&output).contains(&robot), "{output:?}");

    // What is logged at most names the requests, and no secret.
    let output = kubectl
        .run(["nodelife", "drain", "n1", "-v=9"])
        .await
        .unwrap();
    let line = format!("GET {}/api/v1/nodes/n1 403 Forbidden in ", desk.plane.url());
    assert!(output.stderr.contains(&line), "{output:?}");
    assert!(!output.stderr.contains(&token), "{}", output.stderr);

    // {"alg":"none"}.{"exp":1735603200}, and no refresh token.
    let expired = provider("eyJhbGciOiJub25lIn0.eyJleHAiOjE3MzU2MDMyMDB9.c2ln");
    let output = desk.audit(desk.kubeconfig(expired, |_| ())).await;
    let line = sentence(&output);
    assert!(line.contains("ID token expired"), "{line}");
    assert!(line.contains("log in again"), "{line}");
    namespace.delete().await.unwrap();
}
