//! Tests that switch an installation between overlays while nodes write, in each way to apply.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use futures::StreamExt as _;
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration,
};
use kube::api::{ApiResource, DynamicObject, WatchEvent, WatchParams};
use kube::{Api, Client};
use nodelife_tests::installation::{NAMESPACE, NODE_RESTRICTION, SELECTOR, manifests};
use nodelife_tests::kubectl::run;
use nodelife_tests::{ControlPlane, Installation, needs_kubernetes, program, until};
use tokio::process::Command;
use tokio::task::JoinSet;

use crate::rotation::Calls;

/// On a busy machine a call of two seconds may time out with nothing wrong.
const PATIENT: u8 = 30;
/// An account of `overlays/agents/config.yaml`.
const AGENT: &str = "system:serviceaccount:kubevirt:kubevirt-handler";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    ClientSide,
    ServerSide,
    /// Server-side, and what the manifests no longer contain is deleted.
    Prune,
}

#[tokio::test]
async fn overlays_come_and_go_without_a_failed_call() {
    if !needs_kubernetes(
        "1.34",
        "a node publishes a ResourceSlice of resource.k8s.io/v1",
    )
    .unwrap()
    {
        return;
    }
    let plane = ControlPlane::options().start().await.unwrap();
    let installation = Installation::prepare(&plane, NODE_RESTRICTION)
        .await
        .unwrap();
    let mut installation = installation.timeout(PATIENT).unwrap();
    installation.apply().await.unwrap();
    let mut certs = installation.certs(&[]).await.unwrap();
    installation.injected().await.unwrap();
    let config = manifests().join("overlays/agents/config.yaml");
    let flags = ["--config", config.to_str().unwrap()];
    let _replica = installation.replica(None, &flags).await.unwrap();
    let binding = [
        "create",
        "clusterrolebinding",
        "agent",
        "--clusterrole=cluster-admin",
    ];
    let binding = [&binding[..], &["--user", AGENT]].concat();
    kubectl(&installation, &binding).await;

    let calls = Calls::start(&plane, &installation).await;
    let bundles = Bundles::watch(&installation.admin);
    let before = failed_open(&installation).await;
    for way in [Way::ClientSide, Way::ServerSide, Way::Prune] {
        for folder in [
            "overlays/fail-closed",
            NODE_RESTRICTION,
            "overlays/agents",
            NODE_RESTRICTION,
        ] {
            println!("{way:?} {folder}");
            installation.switch(folder).unwrap();
            apply(&installation, way, folder).await;
            installation.injected().await.unwrap();
            agents_are_restricted(&installation, folder == "overlays/agents").await;
            calls.assert_none_failed(&format!("{way:?} {folder}"));
        }
    }
    without_tolerations(&installation).await;
    calls.assert_none_failed("without tolerations");
    assert_eq!(failed_open(&installation).await, before);
    assert_eq!(bundles.emptied(), BTreeSet::new());
    certs.check().unwrap();
    println!("{} calls", calls.total());
    assert!(calls.total() > 100);
}

async fn kubectl(installation: &Installation<'_>, words: &[&str]) -> String {
    let output = installation.kubectl.run(words).await.unwrap();
    output.success().unwrap()
}

/// As manifests/README.md says.
async fn apply(installation: &Installation<'_>, way: Way, folder: &str) {
    if folder == NODE_RESTRICTION && way != Way::Prune {
        let agents = [
            "delete",
            "--ignore-not-found",
            "validatingwebhookconfiguration",
        ];
        kubectl(installation, &[&agents[..], &["nodelife-agents"]].concat()).await;
    }
    let overlay = installation.overlay().display().to_string();
    let flags: &[&str] = match way {
        Way::ClientSide => &[],
        Way::ServerSide => &["--server-side"],
        Way::Prune => &[
            "--server-side",
            "--prune",
            "--applyset=nodelife",
            "-n",
            NAMESPACE,
        ],
    };
    let words = [&["apply", "-k", &overlay][..], flags].concat();
    let mut command = installation.kubectl.command(words);
    command.env("KUBECTL_APPLYSET", "true");
    run(command, "").await.unwrap().success().unwrap();
}

/// Whether an agent may write to a node that is not its own.
async fn agents_are_restricted(installation: &Installation<'_>, restricted: bool) {
    let words = [
        "label",
        "node",
        "writer-0",
        "a=b",
        "--overwrite",
        "--dry-run=server",
    ];
    let words = [&words[..], &["--as", AGENT]].concat();
    until("the verdict on an agent", async || {
        let output = installation.kubectl.run(&words).await?;
        let refused = output
            .stderr
            .contains("\"agents.nodelife.dev\" denied the request");
        anyhow::ensure!(refused == restricted, "{output:?}");
        anyhow::ensure!(refused || output.status == Some(0), "{output:?}");
        Ok(Some(()))
    })
    .await;
}

/// Takes `tolerations.enabled` away and brings it back, as `export` prints it.
async fn without_tolerations(installation: &Installation<'_>) {
    let configuration = [
        "delete",
        "mutatingwebhookconfiguration",
        "nodelife-tolerations",
    ];
    kubectl(installation, &configuration).await;
    for enabled in [false, true] {
        let mut export = Command::new(program::webhook().unwrap());
        export.args(["export", "--set", &format!("tolerations.enabled={enabled}")]);
        let exported = run(export, "").await.unwrap().success().unwrap();
        let patient = exported.replace("timeoutSeconds: 2", &format!("timeoutSeconds: {PATIENT}"));
        let apply = installation
            .kubectl
            .command(["apply", "--server-side", "-f", "-"]);
        run(apply, &patient).await.unwrap().success().unwrap();
        installation.injected().await.unwrap();
        let there = installation.bundles().await.unwrap().len();
        assert_eq!(there, 4 + usize::from(enabled));
    }
}

/// How many calls of the webhooks that are always there failed and were ignored.
async fn failed_open(installation: &Installation<'_>) -> u64 {
    let metrics = kubectl(installation, &["get", "--raw", "/metrics"]).await;
    let counted = metrics.lines().filter(|line| {
        line.starts_with("apiserver_admission_webhook_fail_open_count{")
            && line.contains(".nodelife.dev")
            && !line.contains("\"agents.nodelife.dev\"")
    });
    counted
        .map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap())
        .sum()
}

/// Every configuration that had a caBundle and lost it.
struct Bundles {
    emptied: Arc<Mutex<BTreeSet<String>>>,
    _watches: JoinSet<()>,
}

impl Bundles {
    fn watch(admin: &Client) -> Self {
        let emptied = Arc::<Mutex<BTreeSet<String>>>::default();
        let mut watches = JoinSet::new();
        for kind in [
            ApiResource::erase::<MutatingWebhookConfiguration>(&()),
            ApiResource::erase::<ValidatingWebhookConfiguration>(&()),
        ] {
            let (api, emptied) = (Api::all_with(admin.clone(), &kind), Arc::clone(&emptied));
            watches.spawn(async move {
                loop {
                    follow(&api, &emptied).await;
                }
            });
        }
        Self {
            emptied,
            _watches: watches,
        }
    }

    fn emptied(&self) -> BTreeSet<String> {
        self.emptied.lock().unwrap().clone()
    }
}

/// Reads one watch to its end.
async fn follow(api: &Api<DynamicObject>, emptied: &Mutex<BTreeSet<String>>) {
    let mut filled = BTreeSet::new();
    let params = WatchParams::default().labels(SELECTOR);
    let mut events = api.watch(&params, "0").await.unwrap().boxed();
    while let Some(event) = events.next().await {
        let (WatchEvent::Added(object) | WatchEvent::Modified(object)) = event.unwrap() else {
            continue;
        };
        let uid = object.metadata.uid.unwrap();
        let bundle = &object.data["webhooks"][0]["clientConfig"]["caBundle"];
        if bundle.as_str().is_some_and(|text| !text.is_empty()) {
            filled.insert(uid);
        } else if filled.contains(&uid) {
            let mut emptied = emptied.lock().unwrap();
            emptied.insert(object.metadata.name.unwrap());
        }
    }
}
