//! Tests of the policy drainSafety: its warnings reach whoever runs kubectl.

use nodelife_core::object::Budget;
use nodelife_tests::installation::{Replica, manifests};
use nodelife_tests::kubectl::{self, Kubectl};
use nodelife_tests::{
    ControlPlane, Identity, Installation, TIMEOUT, TestNamespace, program, until, wait_until,
};
use serde_json::{Value, json};

use super::{PATIENT, install};

const BUDGET: &str = r#"{"apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
    "metadata": {"name": "web"},
    "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}}}"#;

/// The webhook with the policy, and a replica that answers.
pub(super) async fn installed(plane: &ControlPlane) -> (Installation<'_>, Replica) {
    let overlay = "overlays/drain-safety";
    let installation = Installation::prepare(plane, overlay).await.unwrap();
    let installation = installation.timeout(PATIENT).unwrap();
    install(&installation).await.unwrap();
    let config = manifests().join(overlay).join("config.yaml");
    let flags = ["--config", &config.display().to_string()];
    let replica = installation.replica(None, &flags).await.unwrap();
    (installation, replica)
}

#[tokio::test]
async fn whoever_makes_a_budget_refuse_is_told() {
    let plane = ControlPlane::options().start().await.unwrap();
    let (installation, replica) = installed(&plane).await;
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
    let autoscaler = r#"{"apiVersion": "autoscaling/v1", "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "web"}, "spec": {"minReplicas": 1, "maxReplicas": 3, "scaleTargetRef":
        {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}}}"#;
    let told = run("apply -f -", autoscaler).await;
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

    let definitions = concat!(env!("CARGO_MANIFEST_DIR"), "/crds");
    run(&format!("apply --server-side -f {definitions}"), "").await;
    for budget in budgets_of_operators() {
        assert_eq!(run("create --dry-run=server -f -", &budget).await, "");
    }

    // Without a replica every write passes.
    replica.program.kill().await.unwrap();
    assert_eq!(run("apply -f -", &never).await, "");
}

/// As operators make them for their pods; `core/src/operator` names their sources. KubeVirt
/// did so up to 1.5.
fn budgets_of_operators() -> impl Iterator<Item = String> {
    let owned = |version: &str, kind: &str, controller: bool| json!([{"apiVersion": version, "kind": kind, "name": "o", "uid": "o", "controller": controller}]);
    let budgets = [
        (
            owned("postgresql.cnpg.io/v1", "Cluster", true),
            json!({"minAvailable": 1, "selector": {"matchLabels": {"cnpg.io/instanceRole": "primary"}}}),
        ),
        (
            json!([]),
            json!({"minAvailable": 1, "selector": {"matchLabels": {"longhorn.io/component": "instance-manager"}}}),
        ),
        (
            owned("ceph.rook.io/v1", "CephCluster", true),
            json!({"maxUnavailable": 0, "selector": {"matchLabels": {"app": "rook-ceph-osd"}}}),
        ),
        (
            owned("kafka.strimzi.io/v1", "Kafka", false),
            json!({"maxUnavailable": 0, "selector": {"matchLabels": {"strimzi.io/cluster": "kafka"}}}),
        ),
        (
            owned("kubevirt.io/v1", "VirtualMachineInstance", true),
            json!({"minAvailable": 2, "selector": {"matchLabels": {"kubevirt.io/created-by": "uid"}}}),
        ),
    ];
    budgets.into_iter().map(|(owners, spec)| {
        let metadata = json!({"generateName": "operator-", "ownerReferences": owners});
        json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": metadata, "spec": spec}).to_string()
    })
}

/// Budgets of all kinds, by the numbers and the owner that they have.
fn budgets() -> Vec<Value> {
    let amounts = [
        json!({}),
        json!({"maxUnavailable": 0}),
        json!({"maxUnavailable": 1}),
        json!({"maxUnavailable": "0%"}),
        json!({"maxUnavailable": "00%"}),
        json!({"maxUnavailable": "1%"}),
        json!({"maxUnavailable": "100%"}),
        json!({"minAvailable": 0}),
        json!({"minAvailable": 1}),
        json!({"minAvailable": 100}),
        json!({"minAvailable": "0%"}),
        json!({"minAvailable": "99%"}),
        json!({"minAvailable": "100%"}),
        json!({"minAvailable": "0100%"}),
    ];
    let owner = |version: &str, kind: &str| json!([{"apiVersion": version, "kind": kind, "name": "o", "uid": "o", "controller": true}]);
    let owners = [
        json!([]),
        owner("apps/v1", "Deployment"),
        owner("batch/v1", "Job"),
        owner("postgresql.cnpg.io/v1", "Cluster"),
        owner("apps.example.com/v1", "Deployment"),
    ];
    let all = amounts.iter().flat_map(|spec| {
        // Owners matter where the numbers do.
        let least = if spec == &json!({"maxUnavailable": 0}) {
            5
        } else {
            1
        };
        owners.iter().take(least).map(move |owners| {
            let mut spec = spec.clone();
            spec["selector"] = json!({"matchLabels": {"app": "web"}});
            let metadata = json!({"name": "web", "ownerReferences": owners});
            json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
                   "metadata": metadata, "spec": spec})
        })
    });
    all.collect()
}

/// What the webhook would say without a look at any pod.
#[tokio::test]
async fn policies_tell_of_budgets_that_allow_nothing_at_any_scale() {
    const TOLD: &str = "allows no eviction at any scale; set maxUnavailable: 1";
    let plane = ControlPlane::shared_api().await;
    let kubectl = Kubectl::new(plane, &Identity::Admin).unwrap();
    let mut names = Vec::new();
    for name in ["strict", "free", "warned"] {
        names.push(TestNamespace::create(plane, name).await.unwrap().name);
    }
    let [strict, free, warned] = &names[..] else {
        unreachable!("there are three");
    };
    let config = json!({
        "apiVersion": "nodelife.dev/v1alpha1", "kind": "WebhookConfig",
        "drainSafety": "off", "nodeRestriction": {"mode": "off"}, "tolerations": {"enabled": false},
        "drainSafetyNamespaces": {strict: "enforce", free: "off", warned: "warn"},
        "drainSafetyExceptions": [{"namespace": warned, "name": "excepted", "reason": "moves on \"Friday\"",
                                   "until": "2999-12-31"}],
    });
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("config.json");
    std::fs::write(&file, config.to_string()).unwrap();
    let mut export = tokio::process::Command::new(program::webhook().unwrap());
    export.args(["export", "--as", "policies", "--config"]);
    export.arg(&file).kill_on_drop(true);
    let exported = kubectl::run(export, "").await;
    let exported = exported.unwrap().success().unwrap();
    kubectl.apply(&exported).await.unwrap();
    let apply = async |namespace: &str, budget: &Value| {
        let words = ["apply", "-n", namespace, "--dry-run=server", "-f", "-"];
        let output = kubectl::run(kubectl.command(words), &budget.to_string()).await;
        output.unwrap()
    };
    let all = budgets();
    let never = &all[1];
    until("the policy in each namespace", async || {
        let warns = apply(warned, never).await.stderr.contains(TOLD);
        Ok((warns && apply(strict, never).await.status != Some(0)).then_some(()))
    })
    .await;
    let mut told = 0;
    for budget in &all {
        let known: Budget = serde_json::from_value(budget.clone()).unwrap();
        let expected = known.spec.least_evictable().is_none() && known.owner().is_none();
        told += usize::from(expected);
        let warns = apply(warned, budget).await;
        assert_eq!(warns.status, Some(0), "{}: {budget}", warns.stderr);
        assert_eq!(
            warns.stderr.contains(TOLD),
            expected,
            "{}: {budget}",
            warns.stderr
        );
        let refused = apply(strict, budget).await;
        assert_eq!(
            refused.status != Some(0),
            expected,
            "{}: {budget}",
            refused.stderr
        );
        let silent = apply(free, budget).await;
        assert!(
            silent.status == Some(0) && !silent.stderr.contains(TOLD),
            "{}",
            silent.stderr
        );
    }
    assert!(told > 6, "{told}");
    let mut excepted = never.clone();
    excepted["metadata"]["name"] = json!("excepted");
    let silent = apply(warned, &excepted).await;
    assert!(
        silent.status == Some(0) && !silent.stderr.contains(TOLD),
        "{}",
        silent.stderr
    );
}
