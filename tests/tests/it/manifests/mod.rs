//! Tests of the manifests: rendered, validated, applied again and removed.

mod accounts;
mod chart;
mod controller;
mod rendered;
mod transitions;

use std::fs;
use std::process::Command;

use k8s_openapi::api::core::v1::{Namespace, Pod};
use kube::Api;
use kube::api::PostParams;
use nodelife_tests::installation::{NAMESPACE, SELECTOR, WEBHOOK, manifests};
use nodelife_tests::kubectl::{Kubectl, run};
use nodelife_tests::program::GoProgram;
use nodelife_tests::{
    ControlPlane, Identity, Installation, Part, TIMEOUT, TestNamespace, crds, until,
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

/// `.`, every overlay and the controller.
fn folders() -> Vec<String> {
    let overlays = fs::read_dir(manifests().join("overlays")).unwrap();
    let mut all: Vec<String> = overlays
        .map(|one| format!("overlays/{}", one.unwrap().file_name().to_str().unwrap()))
        .collect();
    all.extend([".", "controller"].map(str::to_owned));
    all.sort();
    all
}

#[tokio::test]
async fn every_overlay_passes_strict_validation_and_pod_security() {
    let plane = ControlPlane::options().start().await.unwrap();
    let kubectl = Kubectl::new(&plane, &Identity::Admin).unwrap();
    // A definition is too long for the annotation of a client-side apply.
    for file in crds::operators().unwrap() {
        let file = file.to_str().unwrap();
        let words = ["apply", "--server-side", "-f", file];
        kubectl.run(words).await.unwrap().success().unwrap();
    }
    // A dry run stores no namespace for the objects after it.
    kubectl
        .apply(&fs::read_to_string(manifests().join("base/namespace.yaml")).unwrap())
        .await
        .unwrap();
    let strict = |text: String| {
        let command =
            kubectl.command(["apply", "--dry-run=server", "--validate=strict", "-f", "-"]);
        async move { run(command, &text).await }
    };
    for folder in folders() {
        let validate = || strict(render(&folder));
        // A kind is served a moment after it is stored, and its schema a moment later.
        let output = until("every kind", async || {
            let output = validate().await?;
            let missing = output.stderr.contains("no matches for kind");
            Ok((!missing).then_some(output))
        })
        .await;
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
    // As docs/ci.md makes one of the alerts of the audit.
    let alerts = fs::read_to_string(manifests().join("audit/alerts.yaml")).unwrap();
    let rule = "apiVersion: monitoring.coreos.com/v1\nkind: PrometheusRule\n\
        metadata:\n  name: nodelife-audit\n  namespace: nodelife-system\nspec:\n  ";
    let rule = format!("{rule}{}\n", alerts.trim_end().replace('\n', "\n  "));
    strict(rule).await.unwrap().success().unwrap();
    // And the operators' own kinds are validated in earnest.
    let typo = render("overlays/cert-manager").replace("dnsNames:", "dnsName:");
    let output = strict(typo).await.unwrap();
    assert!(
        output.stderr.contains("unknown field \"spec.dnsName\""),
        "{}",
        output.stderr
    );
}

#[tokio::test]
async fn an_installation_stays_quiet_and_leaves_nothing() {
    let plane = ControlPlane::options()
        .with(Part::ControllerManager)
        .start()
        .await
        .unwrap();
    let installation = Installation::applied(&plane).await.unwrap();
    may_do_exactly_what_is_documented(&plane, &installation).await;
    pods_are_admitted(&installation).await;

    let mut certs = installation.certs(&["--once"]).await.unwrap();
    assert_eq!(
        certs.wait(TIMEOUT).await.unwrap(),
        0,
        "{}",
        nodelife_tests::supervise::tail(certs.log())
    );
    let bundles = installation.bundles().await.unwrap();
    assert!(bundles.iter().all(|one| !one.is_empty()));
    applying_again_changes_nothing(&installation).await;
    assert_eq!(installation.bundles().await.unwrap(), bundles);

    // In the documented order, then with the namespace first, then as it was applied.
    let webhooks = "validatingwebhookconfiguration,mutatingwebhookconfiguration";
    for first in [
        &["delete", webhooks, "-l", SELECTOR][..],
        &["delete", "namespace", NAMESPACE],
        &["delete", "clusterrole,clusterrolebinding", "nodelife-certs"],
    ] {
        installation.apply().await.unwrap();
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
                "mutatingwebhookconfigurations.admissionregistration.k8s.io [] [nodelife-agents] [get patch]",
                "mutatingwebhookconfigurations.admissionregistration.k8s.io [] [nodelife-drain-safety] [get patch]",
                "mutatingwebhookconfigurations.admissionregistration.k8s.io [] [nodelife-exempt-tokens] [get patch]",
                "mutatingwebhookconfigurations.admissionregistration.k8s.io [] [nodelife-labelled-tokens] [get patch]",
                "mutatingwebhookconfigurations.admissionregistration.k8s.io [] [nodelife-tolerations] [get patch]",
                "mutatingwebhookconfigurations.admissionregistration.k8s.io [] [nodelife-webhook] [get patch]",
                "secrets [] [] [create]",
                "secrets [] [nodelife-webhook-ca] [get patch]",
                "secrets [] [nodelife-webhook-tls] [get patch]",
                "validatingwebhookconfigurations.admissionregistration.k8s.io [] [nodelife-agents] [get patch]",
                "validatingwebhookconfigurations.admissionregistration.k8s.io [] [nodelife-drain-safety] [get patch]",
                "validatingwebhookconfigurations.admissionregistration.k8s.io [] [nodelife-exempt-tokens] [get patch]",
                "validatingwebhookconfigurations.admissionregistration.k8s.io [] [nodelife-labelled-tokens] [get patch]",
                "validatingwebhookconfigurations.admissionregistration.k8s.io [] [nodelife-tolerations] [get patch]",
                "validatingwebhookconfigurations.admissionregistration.k8s.io [] [nodelife-webhook] [get patch]",
            ][..],
        ),
    ] {
        let kubeconfig = installation.kubeconfig(account).await.unwrap();
        let kubectl = Kubectl::with_kubeconfig(kubeconfig, plane.folder()).unwrap();
        let list = ["auth", "can-i", "--list", "--no-headers", "-n", NAMESPACE];
        let output = kubectl.run(list).await.unwrap().success().unwrap();
        let mut permissions: Vec<String> = output
            .lines()
            .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
            // Everybody: paths of the API itself, and reviews of oneself; every ServiceAccount
            // since 1.37: trust bundles.
            .filter(|line| {
                let granted = ["[", "selfsubject", "clustertrustbundles."];
                !granted.iter().any(|begin| line.starts_with(begin))
            })
            .collect();
        permissions.sort();
        assert_eq!(permissions, documented, "{account}");
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
        let output = installation
            .kubectl
            .run(words)
            .await
            .unwrap()
            .success()
            .unwrap();
        // (A budget is always "configured": its selector is replaced as a whole.)
        let changed = output.lines().any(|line| {
            line.contains("webhookconfiguration.admissionregistration.k8s.io/")
                && line.ends_with(" configured")
        });
        assert!(!changed, "{words:?}: {output}");
        assert!(
            words[0] != "diff" || output.is_empty(),
            "{words:?}: {output}"
        );
    }
    // Back to the client's way: kubectl writes its annotation anew, and nothing else.
    installation.apply().await.unwrap();
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
    until("the namespace's end", async || {
        Ok(namespaces.get_opt(NAMESPACE).await?.is_none().then_some(()))
    })
    .await;
    let kinds = "mutatingwebhookconfigurations,validatingwebhookconfigurations,clusterroles,\
        clusterrolebindings";
    let ours = ["get", kinds, "-l", SELECTOR, "-o", "name"];
    let left = installation.kubectl.run(ours).await.unwrap();
    assert_eq!(left.success().unwrap(), "");
    // The cluster is usable.
    TestNamespace::create(plane, "after").await.unwrap();
}
