//! The manifests themselves: rendered, validated, applied again and removed.

use std::fs;
use std::process::Command;

use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration,
};
use k8s_openapi::api::core::v1::{Namespace, Pod};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
use kube::Api;
use kube::api::{ListParams, PostParams};
use nodelife_core::admission::{Policies, configurations};
use nodelife_tests::installation::{NAMESPACE, WEBHOOK, manifests};
use nodelife_tests::kubectl::{Kubectl, run};
use nodelife_tests::program::GoProgram;
use nodelife_tests::{
    ControlPlane, Identity, Installation, PATIENCE, Part, TestNamespace, wait_until,
};
use serde_json::{Value, json};

/// What `kubectl kustomize` makes of a folder of the manifests.
fn render(folder: &str) -> String {
    let output = Command::new(GoProgram::Kubectl.path().unwrap())
        .arg("kustomize")
        .arg(manifests().join(folder))
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{folder}: {errors}");
    assert!(errors.is_empty(), "{folder}: {errors}");
    String::from_utf8(output.stdout).unwrap()
}

/// `.` and every overlay.
fn folders() -> Vec<String> {
    let overlays = fs::read_dir(manifests().join("overlays")).unwrap();
    let mut all: Vec<String> = overlays
        .map(|one| format!("overlays/{}", one.unwrap().file_name().to_str().unwrap()))
        .collect();
    all.push(".".to_owned());
    all.sort();
    all
}

#[test]
fn the_rendered_files_are_the_manifests() {
    for (folder, file) in [(".", "install.yaml"), ("uninstall", "uninstall.yaml")] {
        let written = fs::read_to_string(manifests().join(file)).unwrap();
        assert!(
            render(folder) == written,
            "manifests/{file} is out of date: run manifests/render"
        );
    }
}

/// The webhooks of a configuration in `text`, sorted by name.
fn webhooks(text: &str, kind: &str) -> Vec<Value> {
    let documents = text
        .split("\n---\n")
        .map(|one| -> Value { serde_saphyr::from_str(one).unwrap() });
    let found = documents.filter(|one| one["kind"] == kind);
    let mut webhooks: Vec<Value> = found
        .flat_map(|one| one["webhooks"].as_array().unwrap().clone())
        .collect();
    webhooks.sort_by_key(|one| one["name"].as_str().map(str::to_owned));
    webhooks
}

/// What the API server sends is one with what the engine decides: the manifests hold the
/// rules and the filters that the code makes of the policies.
#[test]
fn the_webhooks_are_those_that_the_policies_call_for() {
    let config = fs::read_to_string(manifests().join("overlays/agents/config.yaml")).unwrap();
    let mut config: Value = serde_saphyr::from_str(&config).unwrap();
    let fields = config.as_object_mut().unwrap();
    fields.remove("apiVersion");
    fields.remove("kind");
    let agents: Policies = serde_json::from_value(config).unwrap();
    for (folder, policies) in [(".", Policies::default()), ("overlays/agents", agents)] {
        let text = render(folder);
        for configuration in configurations(&policies) {
            let kind = configuration["kind"].as_str().unwrap();
            let mut made = configuration["webhooks"].as_array().unwrap().clone();
            made.sort_by_key(|one| one["name"].as_str().map(str::to_owned));
            let written = webhooks(&text, kind);
            assert_eq!(
                written, made,
                "{folder}: compare with `nodelife-webhook export`"
            );
        }
    }
}

#[test]
fn nothing_holds_a_ca_bundle_or_a_secret() {
    for folder in folders() {
        let text = render(&folder);
        assert!(
            !text.contains("caBundle:"),
            "{folder} would empty the caBundle"
        );
        assert!(
            !text.contains("kind: Secret\n"),
            "{folder} would overwrite a Secret"
        );
    }
}

#[test]
fn the_image_is_what_the_manifests_run() {
    let read = |file: &str| fs::read_to_string(manifests().join(file)).unwrap();
    let containerfile = read("../Containerfile");
    let user = containerfile
        .lines()
        .find_map(|line| line.strip_prefix("USER "))
        .unwrap();
    let (user, group) = user.split_once(':').unwrap();
    for file in ["base/webhook.yaml", "base/certs.yaml"] {
        let pod = read(file);
        assert!(pod.contains(&format!("runAsUser: {user}\n")), "{file}");
        assert!(pod.contains(&format!("runAsGroup: {group}\n")), "{file}");
    }
    let version = env!("CARGO_PKG_VERSION");
    assert!(read("base/kustomization.yaml").contains(&format!("newTag: {version}\n")));
    assert!(containerfile.contains(&format!("nodelife-webhook:{version} ")));
    // What is copied passes the list of what is sent to the build at all.
    let copied = "target/${TARGET}/release/nodelife-webhook";
    assert!(containerfile.contains(&format!("COPY {copied} /nodelife-webhook\n")));
    let sent = copied.replace("${TARGET}", "*");
    assert_eq!(read("../.containerignore"), format!("*\n!{sent}\n"));
}

#[tokio::test]
async fn every_overlay_passes_strict_validation_and_pod_security() {
    let plane = ControlPlane::options().start().await.unwrap();
    let kubectl = Kubectl::new(&plane, &Identity::Admin).unwrap();
    for (group, kind, plural) in [
        ("cert-manager.io", "Issuer", "issuers"),
        ("cert-manager.io", "Certificate", "certificates"),
        ("monitoring.coreos.com", "PodMonitor", "podmonitors"),
        ("monitoring.coreos.com", "PrometheusRule", "prometheusrules"),
    ] {
        kubectl.apply(&stub(group, kind, plural)).await.unwrap();
    }
    // A dry run stores no namespace for the objects after it.
    kubectl
        .apply(&fs::read_to_string(manifests().join("base/namespace.yaml")).unwrap())
        .await
        .unwrap();
    for folder in folders() {
        let validate = || async {
            let command =
                kubectl.command(["apply", "--dry-run=server", "--validate=strict", "-f", "-"]);
            run(command, &render(&folder)).await
        };
        // The stubs are served a moment after they are stored.
        let output = wait_until("every kind", PATIENCE, async || {
            let output = validate().await?;
            let missing = output.stderr.contains("no matches for kind");
            Ok((!missing).then_some(output))
        })
        .await
        .unwrap();
        assert_eq!(output.status, Some(0), "{folder}: {}", output.stderr);
        // Warnings are how Pod Security speaks of a Deployment. This namespace is the
        // base's; the overlay that needs another level brings it along.
        if folder != "overlays/host-network" {
            assert!(
                !output.stderr.contains("Warning"),
                "{folder}: {}",
                output.stderr
            );
        }
    }
}

/// A kind that accepts anything, for operators that are not here.
fn stub(group: &str, kind: &str, plural: &str) -> String {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{group}")},
        "spec": {
            "group": group,
            "names": {"kind": kind, "plural": plural},
            "scope": "Namespaced",
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {
                    "type": "object", "x-kubernetes-preserve-unknown-fields": true,
                }},
            }],
        },
    })
    .to_string()
}

#[tokio::test]
async fn an_installation_stays_quiet_and_leaves_nothing() {
    let plane = ControlPlane::options()
        .with(Part::ControllerManager)
        .start()
        .await
        .unwrap();
    let installation = Installation::apply(&plane).await.unwrap();
    may_do_exactly_what_is_documented(&plane, &installation).await;
    pods_are_admitted(&installation).await;

    let mut certs = installation.certs(&["--once"]).await.unwrap();
    assert_eq!(
        certs.wait(PATIENCE).await.unwrap(),
        0,
        "{}",
        nodelife_tests::supervise::tail(certs.log())
    );
    let bundles = installation.bundles().await.unwrap();
    assert!(bundles.iter().all(|one| !one.is_empty()));
    applying_again_changes_nothing(&installation).await;
    assert_eq!(installation.bundles().await.unwrap(), bundles);

    // In the documented order, then with the namespace first, then as it was applied.
    let uninstall = manifests().join("uninstall").display().to_string();
    remove(&plane, &installation, &["delete", "-k", &uninstall]).await;
    for first in [
        &["delete", "namespace", NAMESPACE][..],
        &["delete", "clusterrole,clusterrolebinding", "nodelife-certs"][..],
    ] {
        installation
            .kubectl
            .run(installation.apply_command())
            .await
            .unwrap()
            .success()
            .unwrap();
        installation
            .kubectl
            .run(first)
            .await
            .unwrap()
            .success()
            .unwrap();
        let overlay = installation.overlay().display().to_string();
        remove(
            &plane,
            &installation,
            &["delete", "--ignore-not-found", "-k", &overlay],
        )
        .await;
    }
}

/// A kubeconfig of each account, and what `kubectl auth can-i --list` says of it beyond
/// what everybody may do.
async fn may_do_exactly_what_is_documented(plane: &ControlPlane, installation: &Installation<'_>) {
    for (account, documented) in [
        (
            "nodelife-webhook",
            &[
                "csidrivers.storage.k8s.io [] [] [get]",
                "nodes [] [] [get]",
                "persistentvolumeclaims [] [] [get]",
                "persistentvolumes [] [] [get]",
                "pods [] [] [get]",
                "serviceaccounts [] [] [get]",
                "subjectaccessreviews.authorization.k8s.io [] [] [create]",
            ][..],
        ),
        (
            "nodelife-certs",
            &[
                "leases.coordination.k8s.io [] [] [create]",
                "leases.coordination.k8s.io [] [nodelife-certs] [get patch]",
                "mutatingwebhookconfigurations.admissionregistration.k8s.io [] [nodelife-webhook] [get patch]",
                "secrets [] [] [create]",
                "secrets [] [nodelife-webhook-ca] [get patch]",
                "secrets [] [nodelife-webhook-tls] [get patch]",
                "validatingwebhookconfigurations.admissionregistration.k8s.io [] [nodelife-webhook] [get patch]",
            ][..],
        ),
    ] {
        let kubeconfig = installation.kubeconfig(account).await.unwrap();
        let kubectl = Kubectl::with_kubeconfig(kubeconfig, plane.folder()).unwrap();
        let list = ["auth", "can-i", "--list", "--no-headers", "-n", NAMESPACE];
        let said = kubectl.run(list).await.unwrap().success().unwrap();
        let mut rights: Vec<String> = said
            .lines()
            .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
            // Everybody: paths of the API itself, and reviews of oneself.
            .filter(|line| !line.starts_with('[') && !line.starts_with("selfsubject"))
            .collect();
        rights.sort();
        assert_eq!(rights, documented, "{account}");
    }
}

/// Pods as both Deployments would make them, in the namespace that enforces restricted.
async fn pods_are_admitted(installation: &Installation<'_>) {
    let pods: Api<Pod> = Api::namespaced(installation.admin.clone(), NAMESPACE);
    let dry = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    for name in [WEBHOOK, "nodelife-certs"] {
        let get = ["get", "deployment", name, "-n", NAMESPACE, "-o", "json"];
        let text = installation
            .kubectl
            .run(get)
            .await
            .unwrap()
            .success()
            .unwrap();
        let deployment: Value = serde_json::from_str(&text).unwrap();
        let mut pod = deployment["spec"]["template"].clone();
        pod["metadata"]["name"] = json!(name);
        let pod: Pod = serde_json::from_value(pod).unwrap();
        pods.create(&dry, &pod).await.unwrap();
    }
}

async fn applying_again_changes_nothing(installation: &Installation<'_>) {
    let overlay = installation.overlay().display().to_string();
    for words in [
        &["diff", "-k", &overlay][..],
        &["apply", "-k", &overlay],
        &["diff", "-k", &overlay],
        &["apply", "--server-side", "-k", &overlay],
        &["apply", "--server-side", "-k", &overlay],
        &["diff", "--server-side", "-k", &overlay],
    ] {
        let said = installation
            .kubectl
            .run(words)
            .await
            .unwrap()
            .success()
            .unwrap();
        // (A budget is always "configured": its selector is replaced as a whole.)
        let changed =
            "webhookconfiguration.admissionregistration.k8s.io/nodelife-webhook configured";
        assert!(!said.contains(changed), "{words:?}: {said}");
        assert!(words[0] != "diff" || said.is_empty(), "{words:?}: {said}");
    }
    // Back to the client's way: kubectl writes its annotation anew, and nothing else.
    let apply = installation.apply_command();
    installation
        .kubectl
        .run(apply)
        .await
        .unwrap()
        .success()
        .unwrap();
}

/// Removes the rest; every request is answered, and nothing is left.
async fn remove(plane: &ControlPlane, installation: &Installation<'_>, words: &[&str]) {
    installation
        .kubectl
        .run(words)
        .await
        .unwrap()
        .success()
        .unwrap();
    let namespaces: Api<Namespace> = Api::all(installation.admin.clone());
    wait_until("the namespace's end", PATIENCE, async || {
        Ok(namespaces.get_opt(NAMESPACE).await?.is_none().then_some(()))
    })
    .await
    .unwrap();
    let client = || installation.admin.clone();
    assert!(
        Api::<MutatingWebhookConfiguration>::all(client())
            .get_opt(WEBHOOK)
            .await
            .unwrap()
            .is_none()
    );
    assert!(
        Api::<ValidatingWebhookConfiguration>::all(client())
            .get_opt(WEBHOOK)
            .await
            .unwrap()
            .is_none()
    );
    let ours = ListParams::default().labels("app.kubernetes.io/name=nodelife");
    assert!(
        Api::<ClusterRole>::all(client())
            .list(&ours)
            .await
            .unwrap()
            .items
            .is_empty()
    );
    assert!(
        Api::<ClusterRoleBinding>::all(client())
            .list(&ours)
            .await
            .unwrap()
            .items
            .is_empty()
    );
    // The cluster is usable.
    TestNamespace::create(plane, "after").await.unwrap();
}
