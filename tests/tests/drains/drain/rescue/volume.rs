//! A rescue with Kubernetes' own controllers, which attach and detach volumes.

use std::time::Duration;

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::storage::v1::VolumeAttachment;
use kube::Api;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use nodelife_tests::fixture::pod::{is_ready, running};
use nodelife_tests::fixture::{NodeFixture, WorkloadFixture, merge};
use nodelife_tests::{ControlPlane, until};
use serde_json::json;
use tokio::time::Instant;

use super::super::support::TestEnvironment;
use super::super::wait::pod_with_claim;
use super::{OFF, adopted, lease, on_delete, ready, renew, rescue};

/// The test is the attacher of a CSI driver and the kubelet of `node`: it attaches and detaches, and runs the
/// pod `db-0` there once its volume is attached.
async fn attach_and_run(env: &TestEnvironment, driver: &str, node: &str) -> anyhow::Result<()> {
    let attachments: Api<VolumeAttachment> = Api::all(env.namespace.client().clone());
    let params = PatchParams::default();
    loop {
        let mut attached = false;
        let all = attachments.list(&ListParams::default()).await?;
        for one in all.items.iter().filter(|one| one.spec.attacher == driver) {
            let name = one.metadata.name.as_deref().unwrap();
            let is_attached = one.status.as_ref().is_some_and(|status| status.attached);
            if one.metadata.deletion_timestamp.is_some() {
                let detached = Patch::Merge(json!({"metadata": {"finalizers": null}}));
                attachments.patch(name, &params, &detached).await?;
            } else if is_attached {
                attached |= one.spec.node_name == node;
            } else {
                let held = json!({"metadata": {"finalizers": ["disk.test/attached"]}});
                attachments
                    .patch(name, &params, &Patch::Merge(held))
                    .await?;
                let done = Patch::Merge(json!({"status": {"attached": true}}));
                attachments.patch_status(name, &params, &done).await?;
            }
        }
        if let Some(pod) = env.pods().get_opt("db-0").await?
            && pod.spec.as_ref().unwrap().node_name.as_deref() == Some(node)
            && attached
            && !is_ready(&pod)
        {
            let runs = Patch::Merge(json!({"status": running(&pod, true)}));
            env.pods().patch_status("db-0", &params, &runs).await?;
        }
        renew(env, node, 0).await;
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

/// A volume that is attached to one node at a time, and its claim `data`.
async fn claim(env: &TestEnvironment, driver: &str) {
    let namespace = &env.namespace.name;
    let common = json!({
        "accessModes": ["ReadWriteOnce"], "storageClassName": "", "capacity": {"storage": "1Gi"},
    });
    let mut volume = json!({
        "metadata": {"name": driver},
        "spec": {
            "claimRef": {"namespace": namespace, "name": "data"},
            "csi": {"driver": driver, "volumeHandle": driver},
        },
    });
    merge(&mut volume["spec"], common);
    let volume = serde_json::from_value(volume).unwrap();
    let volumes: Api<PersistentVolume> = Api::all(env.namespace.client().clone());
    let params = PostParams::default();
    volumes.create(&params, &volume).await.unwrap();
    let claim = json!({
        "metadata": {"name": "data"},
        "spec": {
            "accessModes": ["ReadWriteOnce"], "storageClassName": "", "volumeName": driver,
            "resources": {"requests": {"storage": "1Gi"}},
        },
    });
    let claim = serde_json::from_value(claim).unwrap();
    let claims: Api<PersistentVolumeClaim> = env.namespace.api();
    claims.create(&params, &claim).await.unwrap();
}

#[tokio::test]
async fn the_pod_of_a_stateful_set_is_ready_with_its_volume_within_30_s() {
    let env = TestEnvironment::new(ControlPlane::shared().await, "rescue-volume").await;
    let client = env.namespace.client().clone();
    let (a, b) = (env.node("a"), env.node("b"));
    let driver = format!("{}.disk.test", env.namespace.name);
    for (node, status, age) in [(&a, "Unknown", 300), (&b, "True", 0)] {
        lease(&env, node, age).await;
        let silent = json!({"status": {"conditions": ready(status, age)}});
        let fixture = NodeFixture::new(node).patch(silent);
        fixture.create(&client).await.unwrap();
    }
    claim(&env, &driver).await;
    let set = WorkloadFixture::stateful_set("db", 1).patch(on_delete());
    let disk = json!({"name": "disk", "persistentVolumeClaim": {"claimName": "data"}});
    let host = json!({"kubernetes.io/hostname": b});
    let set = set.pod_spec(json!({"nodeSelector": host, "volumes": [disk]}));
    let pod = pod_with_claim("db-0", "data").app("db").running_on(&a);
    let before = pod.create(&env.namespace).await.unwrap();
    let attachments: Api<VolumeAttachment> = Api::all(client.clone());
    let rescued = async {
        set.create(&env.namespace).await.unwrap();
        adopted(&env).await;
        until("the volume on the dead node", async || {
            let all = attachments.list(&ListParams::default()).await?.items;
            let mut here = all.iter().filter(|one| one.spec.node_name == a);
            let attached = |one: &VolumeAttachment| one.status.as_ref().is_some_and(|s| s.attached);
            Ok(here.any(attached).then_some(()))
        })
        .await;
        let begun = Instant::now();
        let output = rescue(&env, &[&a, OFF, "--yes"]).await;
        (output, begun.elapsed())
    };
    let (output, took) = tokio::select! {
        rescued = rescued => rescued,
        failed = attach_and_run(&env, &driver, &b) => panic!("{failed:?}"),
    };
    assert_eq!(output.status, Some(0), "{}", output.stderr);
    let after = env.pods().get("db-0").await.unwrap();
    assert_ne!(after.metadata.uid, before.metadata.uid);
    assert!(is_ready(&after), "{}", output.stderr);
    println!("Ready after {took:?}");
    assert!(
        took < Duration::from_secs(30),
        "{took:?}: {}",
        output.stderr
    );
    env.check(&[]).await;
}
