//! cert-manager's own controllers over the overlay that leaves the certificates to them.

use std::env;
use std::path::PathBuf;

use nodelife_tests::fixture::NodeFixture;
use nodelife_tests::installation::NAMESPACE;
use nodelife_tests::supervise::Spec;
use nodelife_tests::{ControlPlane, Identity, Installation, PATIENCE, definition, wait_until};
use serde_json::json;

use super::fail_closed;
use crate::rotation::{accepted, relabel};

/// The folder with `controller` and `cainjector`, built from cert-manager's `cmd/controller` and
/// `cmd/cainjector`. These are no Go modules that could be had by themselves, so this test runs
/// only where somebody has built them, and says so where nobody has.
fn programs() -> Option<PathBuf> {
    let folder = env::var_os("NODELIFE_CERT_MANAGER").map(PathBuf::from);
    if folder.is_none() {
        println!("not run: NODELIFE_CERT_MANAGER names no folder with cert-manager's programs");
    }
    folder
}

#[tokio::test]
async fn the_overlay_is_served_and_renewed_by_cert_manager_itself() {
    let Some(programs) = programs() else { return };
    let plane = ControlPlane::options().start().await.unwrap();
    let installation = Installation::prepare(&plane, "overlays/cert-manager")
        .await
        .unwrap();
    let kubectl = &installation.kubectl;
    for file in definition::cert_manager().unwrap() {
        let words = ["apply", "--server-side", "-f", file.to_str().unwrap()];
        kubectl.run(words).await.unwrap().success().unwrap();
    }
    for plural in ["certificates", "issuers"] {
        let definition = format!("crd/{plural}.cert-manager.io");
        let words = ["wait", "--for=condition=Established", &definition];
        kubectl.run(words).await.unwrap().success().unwrap();
    }
    let kubeconfig = plane.kubeconfig_file(&Identity::Admin).unwrap();
    let kubeconfig = format!("--kubeconfig={}", kubeconfig.display());
    let start = |name: &str, flags: &[&str]| {
        let log = plane.folder().join(format!("cert-manager-{name}.log"));
        Spec::new(programs.join(name), log)
            .args([kubeconfig.as_str(), "--leader-elect=false"])
            .args(["--metrics-listen-address=127.0.0.1:0"])
            .args(flags.iter().copied())
            .start()
            .unwrap()
    };
    let health = "--internal-healthz-listen-address=127.0.0.1:0";
    let mut controller = start("controller", &[health]);
    let mut injector = start("cainjector", &[]);

    fail_closed(&installation).await;
    wait_until("cert-manager's caBundles", PATIENCE, async || {
        controller.check()?;
        injector.check()?;
        let bundles = installation.bundles().await?;
        Ok(bundles.iter().all(|one| !one.is_empty()).then_some(()))
    })
    .await
    .unwrap();
    let _replica = installation.replica(None, &[]).await.unwrap();
    NodeFixture::new("caller")
        .create(&installation.admin)
        .await
        .unwrap();
    let caller = plane.node("caller").await.unwrap();
    accepted(&caller, "caller").await;

    // A name more makes cert-manager issue at once, with a new key under the same CA.
    let names =
        ["", ".cluster.local", ".more"].map(|end| format!("nodelife-webhook.{NAMESPACE}.svc{end}"));
    let patch = json!({"spec": {"dnsNames": names}}).to_string();
    let certificate = "certificate/nodelife-webhook";
    let words = [
        "-n",
        NAMESPACE,
        "patch",
        certificate,
        "--type=merge",
        "-p",
        &patch,
    ];
    kubectl.run(words).await.unwrap().success().unwrap();
    wait_until("calls over the renewed leaf", PATIENCE, async || {
        relabel(&caller, "caller", 1).await.unwrap();
        let log = std::fs::read_to_string(plane.folder().join("webhook.log"))?;
        Ok((log.matches("certificate loaded").count() >= 2).then_some(()))
    })
    .await
    .unwrap();
    relabel(&caller, "caller", 2).await.unwrap();
}
