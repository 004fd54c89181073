//! Tests of the policy drainSafety: its warnings reach whoever runs kubectl.

use nodelife_tests::installation::manifests;
use nodelife_tests::{ControlPlane, Installation, TIMEOUT, wait_until};

use super::{PATIENT, install};

const BUDGET: &str = r#"{"apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
    "metadata": {"name": "web"},
    "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}}}"#;

#[tokio::test]
async fn whoever_makes_a_budget_refuse_is_told() {
    let plane = ControlPlane::options().start().await.unwrap();
    let overlay = "overlays/drain-safety";
    let installation = Installation::prepare(&plane, overlay).await.unwrap();
    let installation = installation.timeout(PATIENT).unwrap();
    install(&installation).await.unwrap();
    let config = manifests().join(overlay).join("config.yaml");
    let flags = ["--config", &config.display().to_string()];
    let replica = installation.replica(None, &flags).await.unwrap();
    let run = async |words: &str, input: &str| {
        let mut command = installation.kubectl.command(words.split(' '));
        command.kill_on_drop(true);
        let output = nodelife_tests::kubectl::run(command, input).await.unwrap();
        let stderr = output.stderr.clone();
        output.success().unwrap();
        stderr
    };
    let never = BUDGET.replace("\"minAvailable\": 1", "\"maxUnavailable\": 0");
    wait_until("the webhook to be called", TIMEOUT, async || {
        let told = run("apply --dry-run=server -f -", &never).await;
        Ok(told
            .contains("allows no eviction at any scale")
            .then_some(()))
    })
    .await
    .unwrap();
    let needs = |budget: &str, of: i32| {
        format!(
            "Warning: nodelife drainSafety: {budget} needs {of} of {of} pods, so none can be evicted"
        )
    };
    let mend = "set maxUnavailable: 1, or run at least 2 pods";

    let create = "create deployment web --image=i --replicas=1";
    assert_eq!(run(create, "").await, "");
    for apply in ["apply -f -", "apply --server-side --force-conflicts -f -"] {
        let told = run(&format!("{apply} --dry-run=server"), BUDGET).await;
        assert!(told.contains(&needs("minAvailable: 1", 1)), "{told}");
        assert!(told.contains(mend), "{told}");
    }
    assert_eq!(run("scale deployment web --replicas=3", "").await, "");
    assert_eq!(run("apply -f -", BUDGET).await, "");
    let named = "budget web (minAvailable: 1)";
    let told = run("scale deployment web --replicas=1 --dry-run=server", "").await;
    assert!(told.contains(&needs(named, 1)), "{told}");
    let told = run("autoscale deployment web --min=1 --max=3 --cpu=50%", "").await;
    assert!(told.contains(&needs(named, 1)), "{told}");
    let wider = r#"{"spec": {"minReplicas": 2}}"#;
    assert_eq!(
        run(&format!("patch hpa web -p {}", wider.replace(' ', "")), "").await,
        ""
    );
    let second = BUDGET.replace("\"name\": \"web\"", "\"name\": \"all\"");
    let told = run("apply --dry-run=server -f -", &second).await;
    assert!(
        told.contains("budgets all and web select the same pods"),
        "{told}"
    );

    // What changes neither scales nor labels is not sent, nor what the autoscaler scales.
    let validated = async || replica.requests("validate").await.unwrap();
    let before = validated().await;
    run("set image deployment web i=other", "").await;
    run("label deployment web a=b", "").await;
    run("annotate pdb web a=b", "").await;
    let account = "system:serviceaccount:kube-system:horizontal-pod-autoscaler";
    run(
        &format!("scale deployment web --replicas=2 --as={account} --as-group=system:masters"),
        "",
    )
    .await;
    assert_eq!(validated().await, before);
    run("scale deployment web --replicas=3", "").await;
    assert!(validated().await > before);

    // Without a replica every write passes.
    replica.program.kill().await.unwrap();
    assert_eq!(run("apply -f -", &never).await, "");
}
