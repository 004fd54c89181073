use nodelife_audit::{Selection, Severity};
use nodelife_core::object::{Autoscaler, BudgetStatus, IntOrString};
use nodelife_core::snapshot::Snapshot;

use super::cluster::{broken, condition, delete, first_pod, healthy};
use super::fixture::Fixture;

pub(super) const FIXTURES: &[Fixture] = &[
    Fixture {
        rule: "NL-PDB-001",
        fires: |s| {
            let budget = &mut s.budgets[2];
            budget.spec.max_unavailable = Some(IntOrString::Int(0));
            budget.status.desired_healthy = 6;
            budget.status.disruptions_allowed = 0;
        },
        silent: |s| {
            // A rollout: one pod is not ready yet, so nothing is allowed for now.
            let status = &mut s.budgets[2].status;
            status.current_healthy = 5;
            status.disruptions_allowed = 0;
        },
    },
    Fixture {
        rule: "NL-PDB-002",
        fires: |s| {
            let mut second = s.budgets[2].clone();
            second.metadata.name = "frontend-2".into();
            s.budgets.push(second);
        },
        silent: |s| {
            // The same selector in another namespace.
            let mut second = s.budgets[2].clone();
            second.metadata.namespace = "kube-system".into();
            s.budgets.push(second);
        },
    },
    Fixture {
        rule: "NL-PDB-003",
        fires: |s| {
            s.pods
                .retain(|pod| !pod.metadata.name.starts_with("frontend-"))
        },
        silent: |s| {
            // Scaled down on purpose.
            s.pods
                .retain(|pod| !pod.metadata.name.starts_with("frontend-"));
            for workload in &mut s.workloads {
                if workload.metadata.name.starts_with("frontend") {
                    workload.spec.replicas = Some(0);
                }
            }
        },
    },
    Fixture {
        rule: "NL-PDB-004",
        fires: |s| {
            broken(s);
            s.budgets[2].spec.unhealthy_pod_eviction_policy = None;
        },
        silent: |s| broken(s),
    },
    Fixture {
        rule: "NL-PDB-005",
        fires: |s| first_pod(s, "cart").metadata.owner_references.clear(),
        silent: |s| {
            let pod = first_pod(s, "cart");
            pod.metadata.owner_references.clear();
            pod.status.phase = "Succeeded".into();
        },
    },
    Fixture {
        rule: "NL-PDB-006",
        fires: |s| {
            let name = s.nodes[2].metadata.name.clone();
            for pod in &mut s.pods {
                if pod.metadata.name.starts_with("cart-") {
                    pod.spec.node_name = name.clone();
                }
            }
        },
        silent: |s| {
            // Two of three.
            let name = s.nodes[2].metadata.name.clone();
            for pod in s
                .pods
                .iter_mut()
                .filter(|pod| pod.metadata.name.starts_with("cart-"))
                .take(2)
            {
                pod.spec.node_name = name.clone();
            }
        },
    },
    Fixture {
        rule: "NL-PDB-007",
        fires: |s| {
            s.budgets.remove(3);
        },
        silent: |s| {
            s.budgets.remove(3);
            let mut seen = false;
            s.pods.retain(|pod| {
                !pod.metadata.name.starts_with("cart-") || !std::mem::replace(&mut seen, true)
            });
        },
    },
    Fixture {
        rule: "NL-PDB-008",
        fires: |s| {
            first_pod(s, "cart")
                .metadata
                .annotations
                .insert("karpenter.sh/do-not-disrupt".into(), "true".into());
        },
        silent: |s| {
            first_pod(s, "cart").metadata.annotations.insert(
                "cluster-autoscaler.kubernetes.io/safe-to-evict".into(),
                "true".into(),
            );
        },
    },
    Fixture {
        rule: "NL-PDB-009",
        fires: |s| {
            held(s, 120);
        },
        silent: |s| {
            held(s, 30);
        },
    },
];

/// A manifest beside the objects of a cluster has no status.
#[test]
fn a_budget_that_was_not_counted_has_no_healthy_pods_to_tell() {
    let mut snapshot = super::cluster::healthy();
    let budget = &mut snapshot.budgets[2];
    budget.spec = serde_json::from_value(serde_json::json!({
        "maxUnavailable": 0, "selector": {"matchLabels": {"app": "frontend"}},
    }))
    .unwrap();
    budget.status = BudgetStatus::default();
    budget.metadata.generation = None;
    let now = snapshot.taken_at.unwrap();
    let audit = nodelife_audit::audit(&snapshot, &Selection::default(), now);
    let message =
        "maxUnavailable: 0: 6 of 6 pods have to be healthy; 6 − 6 = 0 evictions allowed, ever";
    assert_eq!(audit.findings.len(), 1, "{:?}", audit.findings);
    assert_eq!(audit.findings[0].message, message);
}

/// Its unhealthy pods may be evicted as soon as one disruption is allowed.
#[test]
fn a_budget_that_never_allows_an_eviction_is_one_fault() {
    let mut snapshot = super::cluster::healthy();
    let budget = &mut snapshot.budgets[2];
    budget.spec = serde_json::from_value(serde_json::json!({
        "minAvailable": "100%", "selector": {"matchLabels": {"app": "frontend"}},
    }))
    .unwrap();
    budget.status.desired_healthy = 6;
    budget.status.current_healthy = 5;
    budget.status.disruptions_allowed = 0;
    let pod = &mut first_pod(&mut snapshot, "frontend").status;
    let ready = pod.conditions.iter_mut().find(|c| c.kind == *"Ready");
    ready.unwrap().status = "False".into();
    let now = snapshot.taken_at.unwrap();
    let audit = nodelife_audit::audit(&snapshot, &Selection::default(), now);
    let found: Vec<_> = audit.findings.iter().map(|found| &*found.rule).collect();
    assert_eq!(found, ["NL-PDB-001"]);
}

/// OLM's catalog operator makes the pods of its catalogs again, as others do that set no controller.
#[test]
fn a_pod_with_an_owner_that_is_no_controller_is_not_bare() {
    for kind in ["CatalogSource", "Workspace"] {
        let mut snapshot = super::cluster::healthy();
        let pod = first_pod(&mut snapshot, "cart");
        let mut owners: Vec<_> = pod.metadata.owner_references.to_vec();
        for owner in &mut owners {
            owner.kind = kind.into();
            owner.controller = false;
        }
        pod.metadata.owner_references = owners.into();
        assert!(!super::finds(&snapshot, "NL-PDB-005"), "{kind}");
    }
}

/// The six pods of `frontend` under an autoscaler.
fn scaled(budget: &str, range: (i32, i32), allowed: i32) -> Option<(Severity, String)> {
    let mut snapshot = super::cluster::healthy();
    let one = &mut snapshot.budgets[2];
    one.spec = serde_json::from_str(&format!(
        "{{{budget}, \"selector\": {{\"matchLabels\": {{\"app\": \"frontend\"}}}}}}"
    ))
    .unwrap();
    one.status.desired_healthy = 6 - allowed;
    one.status.disruptions_allowed = allowed;
    let mut autoscaler = Autoscaler::default();
    autoscaler.metadata.name = "web".into();
    autoscaler.metadata.namespace = "shop".into();
    autoscaler.spec.scale_target_ref.api_version = "apps/v1".into();
    autoscaler.spec.scale_target_ref.kind = "Deployment".into();
    autoscaler.spec.scale_target_ref.name = "frontend".into();
    autoscaler.spec.min_replicas = Some(range.0);
    autoscaler.spec.max_replicas = range.1;
    snapshot.autoscalers = Some(vec![autoscaler]);
    let selection = Selection {
        rules: vec!["NL-PDB-001".into()],
        ..Selection::default()
    };
    let audit = nodelife_audit::audit(&snapshot, &selection, snapshot.taken_at.unwrap());
    let found = audit.findings.first()?;
    Some((found.severity, found.message.clone()))
}

#[test]
fn a_budget_is_judged_at_the_least_scale_of_its_autoscaler() {
    let least_2 = "\"minAvailable\": 2";
    assert_eq!(scaled(least_2, (3, 9), 4), None);
    let (severity, message) = scaled(least_2, (2, 9), 4).unwrap();
    assert_eq!(severity, Severity::Warning);
    assert_eq!(
        message,
        "minAvailable: 2: at the least scale of its HorizontalPodAutoscaler, 2 of 2 pods have to be \
         healthy, so none can be evicted then; set maxUnavailable: 1, or run at least 3 pods"
    );
    // It may not be drained now, but it may when there is more to do.
    let least_6 = "\"minAvailable\": 6";
    let (severity, message) = scaled(least_6, (6, 9), 0).unwrap();
    assert_eq!(severity, Severity::Error);
    assert!(message.ends_with("or run at least 7 pods"), "{message}");
    // The autoscaler has not scaled it up yet.
    assert_eq!(scaled(least_6, (7, 9), 0), None);
    // No scale is enough.
    for range in [(6, 6), (1, 6)] {
        let (severity, message) = scaled(least_6, range, 0).unwrap();
        assert_eq!(severity, Severity::Error);
        assert!(
            message.ends_with("= 0 evictions allowed, ever"),
            "{message}"
        );
    }
}

/// A pod that has ended and is being deleted, since so many seconds after its grace period.
fn held(snapshot: &mut Snapshot, seconds: i64) {
    delete(snapshot, "cart", seconds);
    let pod = first_pod(snapshot, "cart");
    pod.metadata.finalizers.push("example.com/backup".into());
    pod.status.conditions[0].status = "False".into();
}

/// Its kubelet has to end it first: the pod would stay without the finalizer, too.
#[test]
fn a_finalizer_is_not_what_holds_a_pod_that_has_not_ended() {
    let mut runs = healthy();
    held(&mut runs, 120);
    first_pod(&mut runs, "cart").status.conditions[0].status = "True".into();
    assert!(!super::finds(&runs, "NL-PDB-009"));
    assert!(super::finds(&runs, "NL-POD-002"));
    let mut lost = healthy();
    held(&mut lost, 120);
    let on = first_pod(&mut lost, "cart").spec.node_name.clone();
    let index = (lost.nodes.iter()).position(|node| node.metadata.name == on);
    condition(&mut lost, index.unwrap(), "Ready", "Unknown", 600);
    assert!(!super::finds(&lost, "NL-PDB-009"));
    first_pod(&mut lost, "cart").status.phase = "Failed".into();
    assert!(super::finds(&lost, "NL-PDB-009"));
}
