//! Tests of the controller's rights: each half may do exactly what it needs.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::Node;
use kube::api::{Api, Patch, PatchParams};
use nodelife_core::operator;
use nodelife_tests::fixture::{BudgetFixture, NodeFixture, PodFixture, WorkloadFixture};
use nodelife_tests::installation::{NAMESPACE, manifests};
use nodelife_tests::kubectl::Kubectl;
use nodelife_tests::{
    AuditEvent, ControlPlane, Identity, Parts, PlaneLease, TIMEOUT, TestNamespace, until,
};
use serde_json::{Value, json};

use super::scene::{AUDIT, MAINTENANCE, Scene, USER};

/// The Lease of the election.
const ELECTION: &[&str] = &[
    "leases.coordination.k8s.io [] [] [create]",
    "leases.coordination.k8s.io [] [nodelife-controller] [get patch]",
];
const OF_AUDIT: &[&str] = &[
    "certificatesigningrequests.certificates.k8s.io [] [] [list watch]",
    "clusterreports.openreports.io [] [] [create delete get list patch]",
    "clusterrolebindings.rbac.authorization.k8s.io [] [] [list watch]",
    "clusterroles.rbac.authorization.k8s.io [] [] [list watch]",
    "csinodes.storage.k8s.io [] [] [list watch]",
    "daemonsets.apps [] [] [list watch]",
    "deployments.apps [] [] [list watch]",
    "events [] [] [list watch]",
    "events.events.k8s.io [] [] [create]",
    "horizontalpodautoscalers.autoscaling [] [] [list watch]",
    "jobs.batch [] [] [list watch]",
    "nodes [] [] [list watch]",
    "persistentvolumes [] [] [list watch]",
    "poddisruptionbudgets.policy [] [] [list watch]",
    "pods [] [] [list watch]",
    "replicasets.apps [] [] [list watch]",
    "replicationcontrollers [] [] [list watch]",
    "reports.openreports.io [] [] [create delete get list patch]",
    "statefulsets.apps [] [] [list watch]",
    "subjectaccessreviews.authorization.k8s.io [] [] [create]",
    "volumeattachments.storage.k8s.io [] [] [list watch]",
];
/// In the controller's namespace: the Leases of drains, and that of the election among them.
const LOCKS: &[&str] = &[
    "leases.coordination.k8s.io [] [] [create delete list patch watch]",
    "leases.coordination.k8s.io [] [nodelife-controller] [get patch]",
];
/// Without the resources of operators, which come from their list.
const OF_MAINTENANCE: &[&str] = &[
    "daemonsets.apps [] [] [get list]",
    "deployments.apps [] [] [get list]",
    "events [] [] [list]",
    "events.events.k8s.io [] [] [create]",
    "horizontalpodautoscalers.autoscaling [] [] [list]",
    "jobs.batch [] [] [get list]",
    "mutatingwebhookconfigurations.admissionregistration.k8s.io [] [] [list]",
    "nodemaintenances.nodelife.dev [] [] [delete list patch watch]",
    "nodemaintenances.nodelife.dev/status [] [] [patch]",
    "nodes [] [] [get list patch watch]",
    "nodes/status [] [] [patch]",
    "persistentvolumes [] [] [list]",
    "poddisruptionbudgets.policy [] [] [list watch]",
    "pods [] [] [get list watch]",
    "pods/eviction [] [] [create]",
    "replicasets.apps [] [] [get list watch]",
    "replicationcontrollers [] [] [get list watch]",
    "services [] [] [get]",
    "statefulsets.apps [] [] [get list watch]",
    "validatingwebhookconfigurations.admissionregistration.k8s.io [] [] [list]",
    "virtualmachineinstancemigrations.kubevirt.io [] [] [delete list]",
    "virtualmachineinstances.subresources.kubevirt.io/evacuate [] [] [update]",
    "virtualmachineinstances.subresources.kubevirt.io/evacuate/cancel [] [] [update]",
    "volumeattachments.storage.k8s.io [] [] [list watch]",
];

/// The role of the half that carries maintenances out.
const ROLE: &str = "nodelife-controller-maintenance";

/// A budget that lets no pod of an operator go.
const GUARDED: &str = "guarded";

#[tokio::test]
async fn each_half_may_do_exactly_what_is_documented() {
    let plane = PlaneLease::take(Parts::Api).await.unwrap();
    let scene = Scene::install(&plane).await;
    let heartbeats: &[&str] = &["leases.coordination.k8s.io [] [] [list watch]"];
    for (without, everywhere, own) in [
        (MAINTENANCE, OF_AUDIT, ELECTION),
        (AUDIT, OF_MAINTENANCE, LOCKS),
    ] {
        scene.without(without).await;
        for (namespace, own) in [
            ("default", &[][..]),
            (NAMESPACE, own),
            ("kube-node-lease", heartbeats),
        ] {
            let documented = everywhere.iter().chain(own);
            let mut documented: BTreeSet<String> =
                documented.map(|&line| line.to_owned()).collect();
            if without.file == AUDIT.file {
                add_operators(&mut documented);
            }
            let granted = granted(&plane, namespace).await;
            assert_eq!(granted, documented, "without {}: {namespace}", without.file);
        }
        scene.apply(&[]).await;
    }
}

/// Adds the rights to read operators' resources, unless there are more to the same resource.
fn add_operators(documented: &mut BTreeSet<String>) {
    for resource in operator::resources() {
        let name = resource.name.unwrap_or_default();
        let dot = if resource.group.is_empty() { "" } else { "." };
        let (plural, group) = (resource.plural, resource.group);
        let right = format!("{plural}{dot}{group} [] [{name}] ");
        if !documented.iter().any(|line| line.starts_with(&right)) {
            let verb = if name.is_empty() { "list" } else { "get" };
            documented.insert(format!("{right}[{verb}]"));
        }
    }
}

/// What `kubectl auth can-i --list` says of the account beyond what everybody may do.
async fn granted(plane: &ControlPlane, namespace: &str) -> BTreeSet<String> {
    let user = Identity::User {
        name: USER.to_owned(),
        groups: vec!["system:authenticated".to_owned()],
    };
    let kubectl = Kubectl::new(plane, &user).unwrap();
    let list = ["auth", "can-i", "--list", "--no-headers", "-n", namespace];
    let output = kubectl.run(list).await.unwrap().success().unwrap();
    let lines = output
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "));
    lines
        .filter(|line| !line.starts_with('[') && !line.starts_with("selfsubject"))
        .map(|line| {
            // Several rules bring their verbs in any order.
            let (resource, verbs) = line.rsplit_once('[').unwrap();
            let mut verbs: Vec<&str> = verbs.trim_end_matches(']').split(' ').collect();
            verbs.sort_unstable();
            format!("{resource}[{}]", verbs.join(" "))
        })
        .collect()
}

/// What the roles of a file grant, one right a line.
fn rules(file: &str, named: &str) -> BTreeSet<String> {
    let text = std::fs::read_to_string(manifests().join(file)).unwrap();
    let documents = text.split("\n---\n");
    let documents = documents.map(|one| serde_saphyr::from_str::<Value>(one).unwrap());
    let roles = documents.filter(|one| {
        let name = one["metadata"]["name"].as_str().unwrap();
        ["ClusterRole", "Role"]
            .iter()
            .any(|kind| one["kind"] == *kind)
            && name.starts_with(named)
    });
    let mut rights = BTreeSet::new();
    for role in roles {
        for rule in role["rules"].as_array().unwrap() {
            let words = |field: &str| rule[field].as_array().into_iter().flatten();
            for (group, resource) in words("apiGroups")
                .flat_map(|group| words("resources").map(move |resource| (group, resource)))
            {
                let only = &rule["resourceNames"];
                rights
                    .extend(words("verbs").map(|verb| format!("{verb} {resource} {group} {only}")));
            }
        }
    }
    rights
}

/// The folders whose rights an operator adds.
const OPTIONAL: [&str; 2] = ["surge", "delete-pods"];

/// A maintenance is a drain: its roles are those of the drain, and its objects.
#[test]
fn the_roles_of_maintenances_are_those_of_a_drain_and_their_objects() {
    let mut expected = rules("drain/clusterrole.yaml", "nodelife-drain");
    for (verb, resource) in [
        ("list", "nodemaintenances"),
        ("watch", "nodemaintenances"),
        ("patch", "nodemaintenances"),
        ("delete", "nodemaintenances"),
        ("patch", "nodemaintenances/status"),
    ] {
        expected.insert(format!(r#""{verb}" "{resource}" "nodelife.dev" null"#));
    }
    // A blocked maintenance waits for the locks of others.
    expected.insert(r#""watch" "leases" "coordination.k8s.io" null"#.to_owned());
    let mut granted = rules("controller/rbac-maintenance.yaml", ROLE);
    for folder in OPTIONAL {
        let file = format!("controller/{folder}/rbac.yaml");
        let more = rules(&file, "nodelife-controller-");
        assert!(granted.is_disjoint(&more), "{folder}");
        granted.extend(more);
    }
    assert_eq!(granted, expected);
}

/// Whoever may write a Deployment runs anything as any account: with its folder, the controller restarts
/// rollouts and changes nothing else.
#[tokio::test]
async fn with_surge_the_controller_may_restart_rollouts_alone() {
    let plane = PlaneLease::take(Parts::Api).await.unwrap();
    let scene = Scene::install(&plane).await;
    let namespace = TestNamespace::create(&plane, "surge").await.unwrap();
    let workload = WorkloadFixture::deployment("web", 0);
    workload.create(&namespace).await.unwrap();
    let change = async |pointer: &str, value: Value| {
        let mut patch = json!({});
        let fields = pointer.split('/').rev();
        for (index, field) in fields.enumerate() {
            patch = json!({field: if index == 0 { value.clone() } else { patch }});
        }
        let patch = patch.to_string();
        let words = [
            "patch",
            "deployment",
            "web",
            "-n",
            &namespace.name,
            "--as",
            USER,
            "-p",
            &patch,
        ];
        scene.kubectl.run(words).await
    };
    let restart = "spec/template/metadata/annotations";
    let at = |time: &str| json!({"kubectl.kubernetes.io/restartedAt": time});
    let refused = change(restart, at("1")).await.unwrap();
    assert!(refused.stderr.contains("cannot patch"), "{refused:?}");
    scene.add("surge").await;
    // The policy is in force when it refuses: another change each time, for it allows one that changes nothing.
    let mut tries = 0;
    until("the policy", async || {
        tries += 1;
        let other = json!({"other": tries.to_string()});
        let output = change(restart, other).await?;
        Ok(output.stderr.contains("may only restart").then_some(()))
    })
    .await;
    change(restart, at("2")).await.unwrap().success().unwrap();
    let containers = json!([{"name": "main", "image": "evil"}]);
    for (pointer, value) in [
        ("spec/template/spec/containers", containers),
        ("spec/template/spec/serviceAccountName", json!("powerful")),
        ("spec/template/metadata/labels", json!({"a": "b"})),
        ("spec/replicas", json!(1)),
        ("spec/paused", json!(true)),
        ("metadata/labels", json!({"a": "b"})),
        ("metadata/annotations", json!({"a": "b"})),
        ("metadata/finalizers", json!(["a.b/c"])),
    ] {
        let output = change(pointer, value).await.unwrap();
        assert!(
            output.stderr.contains("may only restart"),
            "{pointer}: {output:?}"
        );
    }
}

/// Every setting of a drain, with the rights of this half alone: the API server refuses nothing.
#[tokio::test]
async fn a_maintenance_with_every_setting_needs_no_other_right() {
    let plane = PlaneLease::take(Parts::All).await.unwrap();
    let scene = Scene::install(&plane).await;
    scene.without(AUDIT).await;
    for folder in OPTIONAL {
        scene.add(folder).await;
    }
    let namespace = TestNamespace::create(&plane, "rights").await.unwrap();
    workloads(&scene, &namespace).await;
    let before = [scene.untouched("a").await, scene.untouched("b").await];
    let controller = scene.start(&["--audit=false"]).await;

    let settings = json!({
        "force": true, "deleteEmptydirData": true, "surge": "restart",
        "onImpossible": "wait", "nodeConditions": true, "waitVolumes": true, "waitReady": true,
    });
    let gate = json!({"nodeCondition": {"type": "Upgraded", "status": "True"}});
    let spec = json!({
        "nodes": ["a", "b"], "drain": settings, "soak": "1s", "gate": gate, "maxUnavailable": "3",
    });
    scene.create("evicts", &spec).await;
    // While pods are blocked, their operators' resources are read again.
    until("operators' resources read after evictions", async || {
        let mut seen = requests(&plane)?.into_iter();
        let tried = seen.any(|event| event.is("create", "pods/eviction"));
        let read = tried && seen.any(|event| event.is("list", "clusters"));
        Ok(read.then_some(()))
    })
    .await;
    let open = r#"{"spec": {"minAvailable": 0}}"#;
    let patch = [
        "patch",
        "pdb",
        GUARDED,
        "-n",
        &namespace.name,
        "--type=merge",
        "-p",
        open,
    ];
    scene.run(&patch).await;
    scene.drained("evicts").await;
    scene.run(&["delete", "nlm", "evicts"]).await;
    let after = [scene.untouched("a").await, scene.untouched("b").await];
    assert_eq!(after, before);

    let deletes = json!({"nodes": ["c"], "drain": {"force": true, "disableEviction": true}});
    scene.create("deletes", &deletes).await;
    scene.drained("deletes").await;
    scene.run(&["delete", "nlm", "deletes"]).await;
    controller.terminate(TIMEOUT).await.unwrap();

    let requests = requests(&plane).unwrap();
    let refused: Vec<_> = requests.iter().filter(|one| one.code() == 403).collect();
    assert!(refused.is_empty(), "{refused:#?}");
    // Each setting was at work.
    for (verb, resource) in [
        ("create", "pods/eviction"),
        ("delete", "pods"),
        ("patch", "nodes"),
        ("patch", "nodes/status"),
        ("patch", "deployments"),
        ("watch", "volumeattachments"),
        ("create", "events"),
        ("list", "clusters"),
        ("list", "kafkas"),
        ("get", "validatingwebhookconfigurations"),
        ("list", "cephclusters"),
        ("list", "instancemanagers"),
        ("list", "virtualmachineinstances"),
        ("list", "virtualmachineinstancemigrations"),
        // Of `evacuate/cancel`.
        ("update", "virtualmachineinstances/evacuate"),
        ("patch", "nodemaintenances/status"),
    ] {
        let seen = requests.iter().any(|event| event.is(verb, resource));
        assert!(seen, "no {verb} {resource}");
    }
}

/// The controller's requests so far.
fn requests(plane: &ControlPlane) -> anyhow::Result<Vec<AuditEvent>> {
    let mut events = plane.audit_events()?;
    events.retain(|event| event.username() == USER);
    Ok(events)
}

/// On `a`: a Deployment that needs another pod first, a DaemonSet, pods of each operator under a
/// budget that lets none go, and a virtual machine that is to leave. Room is on `b` and `c`.
async fn workloads(scene: &Scene<'_>, namespace: &TestNamespace) {
    // The gate wants one that came after the drain of the node began.
    let upgraded = json!([{
        "type": "Upgraded", "status": "True", "reason": "Done", "message": "",
        "lastTransitionTime": "2100-01-01T00:00:00Z",
    }]);
    for name in ["a", "b", "c"] {
        NodeFixture::kwok(name).create(&scene.admin).await.unwrap();
        let nodes: Api<Node> = Api::all(scene.admin.clone());
        let status = Patch::Strategic(json!({"status": {"conditions": upgraded}}));
        let parameters = PatchParams::default();
        nodes
            .patch_status(name, &parameters, &status)
            .await
            .unwrap();
    }
    for name in ["b", "c"] {
        scene.run(&["cordon", name]).await;
    }
    let single = WorkloadFixture::deployment("single", 1);
    single.create_ready(namespace, 1).await.unwrap();
    let budget = BudgetFixture::min_available("single", "single", json!(1));
    budget.create_counted(namespace, 1).await.unwrap();
    for name in ["b", "c"] {
        scene.run(&["uncordon", name]).await;
    }
    let agent = WorkloadFixture::daemon_set("agent");
    agent.create_ready(namespace, 3).await.unwrap();

    let machine = machine(scene, namespace).await;
    let pods = [
        (
            "postgres",
            Some(("postgresql.cnpg.io/v1", "Cluster")),
            json!({}),
        ),
        (
            "machine",
            Some(("kubevirt.io/v1", "VirtualMachineInstance")),
            json!({}),
        ),
        (
            "manager",
            Some(("longhorn.io/v1beta2", "InstanceManager")),
            json!({}),
        ),
        (
            "kafka",
            None,
            json!({"strimzi.io/kind": "Kafka", "strimzi.io/broker-role": "true"}),
        ),
        (
            "ceph",
            None,
            json!({"app.kubernetes.io/managed-by": "rook-ceph-operator"}),
        ),
    ];
    let count = pods.len();
    for (name, owner, labels) in pods {
        let mut pod = PodFixture::new(name).app(GUARDED).bound_to("a");
        pod = pod.patch(json!({"metadata": {"labels": labels}}));
        if let Some((version, kind)) = owner {
            // The garbage collector leaves a pod alone whose owner's kind is not served.
            let reference = json!([{
                "apiVersion": version, "kind": kind, "name": "vm", "uid": machine,
                "controller": true,
            }]);
            pod = pod.patch(json!({"metadata": {"ownerReferences": reference}}));
        }
        pod.create(namespace).await.unwrap();
    }
    let budget = BudgetFixture::min_available(GUARDED, GUARDED, json!(count));
    let count = count.try_into().unwrap();
    budget.create_counted(namespace, count).await.unwrap();
}

/// A virtual machine that is marked to leave `a`: KubeVirt's resource, and no more of it. Its UID.
async fn machine(scene: &Scene<'_>, namespace: &TestNamespace) -> Value {
    for name in [
        "virtualmachineinstances",
        "virtualmachineinstancemigrations",
    ] {
        let file = format!(
            "{}/crds/{name}.kubevirt.io.json",
            env!("CARGO_MANIFEST_DIR")
        );
        scene.run(&["apply", "--server-side", "-f", &file]).await;
    }
    let vm = json!({
        "apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstance",
        "metadata": {"name": "vm", "namespace": namespace.name},
        "spec": {"domain": {"devices": {}}, "evictionStrategy": "None"},
        "status": {"phase": "Running", "nodeName": "a", "evacuationNodeName": "a"},
    });
    until("the virtual machine", async || {
        scene.kubectl.apply(&vm.to_string()).await?;
        let found = scene.get(&["vmi", "vm", "-n", &namespace.name]).await?;
        Ok(Some(found["metadata"]["uid"].clone()))
    })
    .await
}

/// Who took too much from the role reads in the status what is missing; with it the drain goes on.
#[tokio::test]
async fn a_maintenance_says_which_right_is_missing() {
    let plane = PlaneLease::take(Parts::Api).await.unwrap();
    let scene = Scene::install(&plane).await;
    scene.without(AUDIT).await;
    NodeFixture::new("a").create(&scene.admin).await.unwrap();
    let role = scene.get(&["clusterrole", ROLE]).await.unwrap();
    let controller = scene.start(&["--audit=false"]).await;
    for resource in ["pods", "nodes"] {
        give(&scene, &role, Some(resource)).await;
        scene.create(resource, &json!({"nodes": ["a"]})).await;
        until("the missing right in the status", async || {
            let object = scene.get(&["nlm", resource]).await?;
            let conditions = object["status"]["conditions"].as_array();
            let mut blocked = conditions.into_iter().flatten();
            let blocked = blocked.find(|one| one["type"] == "Blocked" && one["status"] == "True");
            let message = blocked.and_then(|one| one["message"].as_str());
            let says = |verb: &str| {
                message
                    .is_some_and(|text| text.contains(&format!("not allowed to {verb} {resource}")))
            };
            anyhow::ensure!(says("watch") || says("list"), "{object:#}");
            Ok(Some(()))
        })
        .await;
        give(&scene, &role, None).await;
        scene.drained(resource).await;
        scene.run(&["delete", "nlm", resource]).await;
    }
    controller.terminate(TIMEOUT).await.unwrap();
}

/// Gives the account this role, all but the right to see one resource.
async fn give(scene: &Scene<'_>, role: &Value, but: Option<&str>) {
    let mut role = json!({
        "apiVersion": role["apiVersion"],
        "kind": role["kind"],
        "metadata": {"name": ROLE},
        "rules": role["rules"],
    });
    for rule in role["rules"].as_array_mut().unwrap() {
        if but.is_some_and(|resource| rule["resources"] == json!([resource])) {
            rule["verbs"] = json!(["patch"]);
        }
    }
    scene.kubectl.apply(&role.to_string()).await.unwrap();
    for resource in ["pods", "nodes"] {
        let may = ["auth", "can-i", "watch", resource, "-A", "--as", USER];
        let status = i32::from(but == Some(resource));
        until("the role to be in force", async || {
            let said = scene.kubectl.run(may).await?;
            Ok((said.status == Some(status)).then_some(()))
        })
        .await;
    }
}
