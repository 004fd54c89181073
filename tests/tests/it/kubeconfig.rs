//! Tests of real-life kubeconfigs: each works, or one message on stderr says what to do.

mod credentials;

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use base64::{Engine as _, prelude::BASE64_STANDARD};
use k8s_openapi::api::core::v1::Node;
use kube::api::{Api, Patch, PatchParams};
use nodelife_tests::connect_proxy::ConnectProxy;
use nodelife_tests::fixture::NodeFixture;
use nodelife_tests::kubectl::{Kubectl, Output, run};
use nodelife_tests::proxy::{Fault, FaultRule, Proxy};
use nodelife_tests::{ControlPlane, Identity, TIMEOUT, TestNamespace, program, until};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::process::Command;

/// Reads nodes and leases, and succeeds whatever it finds on the node of a [`Desk`].
const AUDIT: [&str; 5] = [
    "nodelife",
    "audit",
    "--rule=NL-HB-001",
    "--fail-on=never",
    "--quiet",
];

/// A folder of kubeconfigs for one control plane.
struct Desk {
    plane: &'static ControlPlane,
    folder: TempDir,
}

impl Desk {
    async fn new() -> Self {
        static DESKS: AtomicUsize = AtomicUsize::new(0);
        let plane = ControlPlane::shared_api().await;
        // An audit of no nodes at all fails.
        let name = format!("desk-{}", DESKS.fetch_add(1, Ordering::Relaxed));
        let admin = plane.admin().await.unwrap();
        NodeFixture::new(&name).create(&admin).await.unwrap();
        Self {
            plane,
            folder: tempfile::tempdir().unwrap(),
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A kubeconfig of the control plane with this user, changed by `change`.
    fn kubeconfig(&self, user: Value, change: impl FnOnce(&mut Value)) -> PathBuf {
        let text = self.plane.kubeconfig(&Identity::Anonymous).unwrap();
        let mut document: Value = serde_json::from_str(&text).unwrap();
        document["users"][0]["user"] = user;
        change(&mut document);
        let path = self.path("config");
        fs::write(&path, document.to_string()).unwrap();
        path
    }

    fn admin(&self) -> Value {
        let pair = self
            .plane
            .authority()
            .client("nodelife-admin", "system:masters")
            .unwrap();
        json!({
            "client-certificate-data": BASE64_STANDARD.encode(pair.certificate),
            "client-key-data": BASE64_STANDARD.encode(pair.key),
        })
    }

    fn script(&self, name: &str, text: &str) {
        let path = self.path(name);
        fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn kubectl(&self, kubeconfig: impl Into<PathBuf>) -> Kubectl {
        Kubectl::with_kubeconfig(kubeconfig.into(), self.folder.path()).unwrap()
    }

    async fn audit(&self, kubeconfig: impl Into<PathBuf>) -> Output {
        self.kubectl(kubeconfig).run(AUDIT).await.unwrap()
    }
}

/// The output of a command that failed.
fn sentence(output: &Output) -> &str {
    line_of(output, 1)
}

/// The output of a command without a permission that it needs.
fn refusal(output: &Output) -> &str {
    line_of(output, 7)
}

/// It ended with this status, wrote one line and nothing that looks like a secret.
fn line_of(output: &Output, status: i32) -> &str {
    assert_eq!(output.status, Some(status), "{output:?}");
    assert_eq!(output.stdout, "");
    let line = output.stderr.strip_prefix("error: ").unwrap();
    assert_eq!(line.trim_end().lines().count(), 1, "{line}");
    assert!(!line.contains("hunter2"), "{line}");
    line.trim_end()
}

#[tokio::test]
async fn the_kubeconfigs_proxy_is_used() {
    let desk = Desk::new().await;
    let tunnel = ConnectProxy::start().await.unwrap();
    let through = |url: String| {
        desk.kubeconfig(desk.admin(), |config| {
            config["clusters"][0]["cluster"]["proxy-url"] = json!(url);
        })
    };
    let output = desk.audit(through(tunnel.url())).await;
    assert_eq!(output.status, Some(0), "{output:?}");
    assert!(tunnel.opened() > 0);

    let output = desk
        .audit(through("http://me:hunter2@127.0.0.1:1".to_owned()))
        .await;
    let line = sentence(&output);
    assert!(
        line.contains(" through the proxy 127.0.0.1:1: Connection refused"),
        "{line}"
    );
    assert!(
        line.ends_with("check --proxy-url, proxy-url of the kubeconfig, HTTPS_PROXY and NO_PROXY"),
        "{line}"
    );
}

#[tokio::test]
async fn the_flags_proxy_replaces_the_kubeconfigs() {
    let desk = Desk::new().await;
    let tunnel = ConnectProxy::start().await.unwrap();
    let elsewhere = desk.kubeconfig(desk.admin(), |config| {
        config["clusters"][0]["cluster"]["proxy-url"] = json!("http://127.0.0.1:1");
    });
    let flag = format!("--proxy-url={}", tunnel.url());
    let command: Vec<&str> = AUDIT.iter().copied().chain([flag.as_str()]).collect();
    let command = desk.kubectl(elsewhere).command(&command);
    let output = run(command, "").await.unwrap();
    assert_eq!(output.status, Some(0), "{output:?}");
    assert!(tunnel.opened() > 0);
}

#[tokio::test]
async fn the_environments_proxy_is_not_used_for_localhost() {
    let desk = Desk::new().await;
    let kubectl = desk.kubectl(desk.kubeconfig(desk.admin(), |_| ()));
    for command in [&AUDIT[..], &["get", "nodes"]] {
        let mut command = kubectl.command(command);
        command.env("HTTPS_PROXY", "http://127.0.0.1:1");
        let output = run(command, "").await.unwrap();
        assert_eq!(output.status, Some(0), "{output:?}");
    }
}

#[tokio::test]
async fn merged_files_keep_the_first_value() {
    let desk = Desk::new().await;
    let (one, two) = (desk.path("one"), desk.path("two"));
    fs::create_dir_all(&one).unwrap();
    fs::create_dir_all(&two).unwrap();
    fs::write(two.join("ca.crt"), desk.plane.authority().certificate()).unwrap();
    let context = |name: &str| json!({"name": name, "context": {"cluster": name, "user": "me"}});
    let cluster = |name: &str, server: &str| json!({"name": name, "cluster": {"server": server, "certificate-authority": "ca.crt"}});
    let config = |rest: Value| {
        let mut config = json!({"apiVersion": "v1", "kind": "Config"});
        config
            .as_object_mut()
            .unwrap()
            .extend(rest.as_object().unwrap().clone());
        config.to_string()
    };
    fs::write(
        one.join("config"),
        config(json!({"current-context": "blue", "contexts": [context("blue")]})),
    )
    .unwrap();
    fs::write(
        two.join("config"),
        config(json!({
            "current-context": "green",
            "contexts": [context("green")],
            "clusters": [cluster("blue", &desk.plane.url()), cluster("green", "https://127.0.0.1:1")],
            "users": [{"name": "me", "user": desk.admin()}],
        })),
    )
    .unwrap();
    let list = [one.join("config"), desk.path("absent"), two.join("config")];
    let list = std::env::join_paths(list).unwrap();
    let kubectl = desk.kubectl(&list);
    // kubectl itself, and then nodelife.
    for command in [&["get", "nodes"][..], &AUDIT] {
        let output = kubectl.run(command).await.unwrap();
        assert_eq!(output.status, Some(0), "{output:?}");
    }
    let other = AUDIT.iter().copied().chain(["--context=green"]);
    let output = kubectl.run(other).await.unwrap();
    assert!(
        sentence(&output).contains("https://127.0.0.1:1"),
        "{}",
        output.stderr
    );
    let other = AUDIT.iter().copied().chain(["--context=red"]);
    let output = kubectl.run(other).await.unwrap();
    assert_eq!(
        sentence(&output),
        "the kubeconfig has no context \"red\"; it has: blue, green"
    );
}

#[tokio::test]
async fn impersonation_sends_all_its_headers() {
    let desk = Desk::new().await;
    let kubectl = desk.kubectl(desk.kubeconfig(desk.admin(), |_| ()));
    let name = "impersonated-by-nodelife";
    let flags = [
        "--as=impersonated-by-nodelife",
        "--as-group=watchers",
        "--as-group=readers",
        "--as-uid=42",
        "--as-user-extra=acme.test/reason=ticket=7",
    ];
    let output = kubectl
        .run(AUDIT.iter().copied().chain(flags))
        .await
        .unwrap();
    // It may list nothing; the errors name the user of the requests.
    assert!(output.stderr.contains("nodes"), "{output:?}");
    let seen = until("the request in the audit log", async || {
        let events = desk.plane.audit_events()?;
        Ok(events.into_iter().find(|event| {
            event.username() == name && event.request_uri.starts_with("/api/v1/nodes")
        }))
    })
    .await;
    let user = seen.impersonated_user.unwrap();
    assert_eq!(user.uid, "42");
    assert_eq!(user.extra["acme.test/reason"], ["ticket=7"]);
    for group in ["watchers", "readers"] {
        assert!(user.groups.iter().any(|known| known == group), "{user:?}");
    }
    assert!(
        seen.user_agent.starts_with("nodelife/"),
        "{}",
        seen.user_agent
    );

    let nobody = AUDIT.iter().copied().chain(["--as-group=readers"]);
    let output = kubectl.run(nobody).await.unwrap();
    assert_eq!(output.status, Some(2), "{output:?}");
    assert!(
        output.stderr.ends_with("require --as USER\n"),
        "{}",
        output.stderr
    );
}

#[tokio::test]
async fn server_warnings_are_printed_once_as_in_kubectl() {
    let desk = Desk::new().await;
    let admin = desk.plane.admin().await.unwrap();
    let name = "warned-about";
    NodeFixture::new(name).create(&admin).await.unwrap();
    let kubectl = desk.kubectl(desk.kubeconfig(desk.admin(), |_| ()));
    kubectl
        .apply(
            &json!({"apiVersion": "v1", "kind": "List", "items": [
                {
                    "apiVersion": "admissionregistration.k8s.io/v1",
                    "kind": "ValidatingAdmissionPolicy",
                    "metadata": {"name": name},
                    "spec": {
                        "matchConstraints": {"resourceRules": [{
                            "apiGroups": [""], "apiVersions": ["v1"], "operations": ["UPDATE"],
                            "resources": ["nodes"], "resourceNames": [name],
                        }]},
                        "validations": [{"expression": "false", "message": "ask the owner first"}],
                    },
                },
                {
                    "apiVersion": "admissionregistration.k8s.io/v1",
                    "kind": "ValidatingAdmissionPolicyBinding",
                    "metadata": {"name": name},
                    "spec": {"policyName": name, "validationActions": ["Warn"]},
                },
            ]})
            .to_string(),
        )
        .await
        .unwrap();
    // The API server takes a moment to act on a policy.
    let warning = until("a warning of the policy", async || {
        let label = [
            "label",
            "node",
            name,
            "probe=1",
            "--overwrite",
            "--dry-run=server",
        ];
        let said = kubectl.run(label).await?.stderr;
        Ok(said
            .lines()
            .find(|line| line.starts_with("Warning: "))
            .map(ToOwned::to_owned))
    })
    .await;
    assert!(warning.ends_with("ask the owner first"), "{warning}");

    let output = kubectl.run(["nodelife", "drain", name]).await.unwrap();
    assert_eq!(output.status, Some(0), "{output:?}");
    let told = output
        .stderr
        .lines()
        .filter(|line| *line == warning)
        .count();
    assert_eq!(told, 1, "{}", output.stderr);

    let nodes: Api<Node> = Api::all(admin);
    let uncordon = Patch::Merge(json!({"spec": {"unschedulable": null}}));
    nodes
        .patch(name, &PatchParams::default(), &uncordon)
        .await
        .unwrap();
    let strict = ["nodelife", "drain", name, "--warnings-as-errors"];
    let output = kubectl.run(strict).await.unwrap();
    assert_eq!(output.status, Some(1), "{output:?}");
    assert!(
        output.stderr.ends_with("error: 1 warning received\n"),
        "{}",
        output.stderr
    );
    for kind in [
        "validatingadmissionpolicybinding",
        "validatingadmissionpolicy",
        "node",
    ] {
        kubectl
            .run(["delete", kind, name])
            .await
            .unwrap()
            .success()
            .unwrap();
    }
}

#[tokio::test]
async fn request_timeout_limits_each_request() {
    let desk = Desk::new().await;
    let proxy = Proxy::start(desk.plane, &Identity::Admin).unwrap();
    proxy.fault(FaultRule::new(Fault::Delay(TIMEOUT * 10)).path("/version"));
    let kubectl = desk.kubectl(proxy.kubeconfig_file().unwrap());
    for (flag, told) in [("1", "1 s"), ("1500ms", "1.5 s")] {
        let words = AUDIT.iter().copied().chain(["--request-timeout", flag]);
        let output = kubectl.run(words).await.unwrap();
        let line = sentence(&output);
        assert!(
            line.ends_with(&format!("did not answer within {told}")),
            "{line}"
        );
    }
    proxy.heal();
    let words = AUDIT.iter().copied().chain(["--request-timeout=0"]);
    assert_eq!(kubectl.run(words).await.unwrap().status, Some(0));
}

/// In a mount namespace of its own, where a folder can be put where a pod has it. Where the
/// system gives users no such namespaces there is nothing to try it in, and the test says so.
#[tokio::test]
async fn in_a_pod_the_service_account_is_used() {
    let namespaces = ["--map-root-user", "--mount"];
    let mut probe = Command::new("unshare");
    probe
        .args(namespaces)
        .args(["mount", "-t", "tmpfs", "none", "/mnt"]);
    if !run(probe, "")
        .await
        .is_ok_and(|output| output.status == Some(0))
    {
        println!("not tried: no mount namespaces for this user");
        return;
    }
    let desk = Desk::new().await;
    let namespace = TestNamespace::create(desk.plane, "in-cluster")
        .await
        .unwrap();
    namespace.service_account("robot").await.unwrap();
    fs::write(desk.path("token"), namespace.token("robot").await.unwrap()).unwrap();
    fs::write(desk.path("namespace"), &namespace.name).unwrap();
    fs::copy(desk.plane.ca_file(), desk.path("ca.crt")).unwrap();
    let url = desk.plane.url();
    let (_, port) = url.rsplit_once(':').unwrap();
    let script = r#"
mount -t tmpfs none "$(readlink -f /var/run)"
mkdir -p /var/run/secrets/kubernetes.io/serviceaccount
cp "$MATERIAL"/* /var/run/secrets/kubernetes.io/serviceaccount
exec "$@""#;
    let mut command = Command::new("unshare");
    command
        .args(namespaces)
        .args(["sh", "-ec", script, "sh"])
        .arg(program::nodelife().unwrap())
        .args(["drain", "n1"])
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap())
        .env("HOME", Path::new("/nonexistent"))
        .env("MATERIAL", desk.folder.path())
        .env("KUBERNETES_SERVICE_HOST", "127.0.0.1")
        .env("KUBERNETES_SERVICE_PORT", port);
    let output = tokio::time::timeout(TIMEOUT + Duration::from_secs(1), run(command, ""))
        .await
        .unwrap()
        .unwrap();
    let line = refusal(&output);
    let robot = format!("system:serviceaccount:{}:robot", namespace.name);
    assert!(line.starts_with("not allowed to get nodes: "), "{line}");
    assert!(line.contains(&robot), "{line}");
    namespace.delete().await.unwrap();
}
