//! Tests of the exported admission policies: the API server's own code evaluates them as the
//! engine does, and a real API server enforces them (with [`super::parity`]).

use std::collections::BTreeMap;

use nodelife_admission::{Mode, Policies, admission_policies, webhook_configurations};
use nodelife_tests::kubectl::{Kubectl, run};
use nodelife_tests::oracle::{self, FilterAnswer, PoliciesAnswer, PolicyAnswer};
use nodelife_tests::{ControlPlane, Identity, program, seed, until};
use serde_json::{Value, json};

use super::{Call, PolicyResponse, parity, pod, soundness};
use crate::oracle::admission::cases::{case, node_case};
use crate::oracle::admission::engine::{self, Decision};
use crate::oracle::admission::random::Random;
use crate::oracle::admission::tolerations;

/// Asked at once: a bound on what lies in memory.
const BATCH: usize = 5_000;
/// Differences that a failure shows.
const SHOWN: usize = 6;

/// Asks the policies that `policies` comes to about each of the cases.
fn judge(policies: &Policies, cases: &[Value]) -> Vec<PolicyAnswer> {
    let objects = admission_policies(policies);
    let of_kind =
        |kind: &str| -> Vec<&Value> { objects.iter().filter(|one| one["kind"] == kind).collect() };
    let question = json!({
        "validating": of_kind("ValidatingAdmissionPolicy"),
        "mutating": of_kind("MutatingAdmissionPolicy"),
        "cases": cases,
    });
    let answers: Vec<PoliciesAnswer> = oracle::ask("policies", &[question]).unwrap();
    answers.into_iter().flat_map(|one| one.answers).collect()
}

/// Whether a refusal of the engine needs what a policy cannot have, or meets a request that the
/// API server has no such subresource for.
fn is_left_to_the_webhook(case: &Value, code: u16, sentence: &str) -> bool {
    let resource = case["resource"]["resource"].as_str().unwrap();
    let subresource = case["subresource"].as_str().unwrap_or_default();
    let with_a_lookup = matches!(
        (resource, subresource),
        ("pods", "eviction")
            | (
                "serviceaccounts" | "podcertificaterequests" | "certificatesigningrequests",
                _
            )
    );
    let is_nowhere = match resource {
        "leases" | "resourceslices" => !subresource.is_empty(),
        _ => false,
    };
    // The nameless node is turned away where the rules look, and not elsewhere.
    let is_no_ones = matches!(resource, "configmaps" | "events");
    with_a_lookup
        || is_nowhere
        || is_no_ones
        || code != 403
        || sentence.contains("UID mismatch: expected")
}

/// Near misses of the generator that no API server has: a write without a body, an object outside
/// of its scope. The plugin refuses them; policies are made for what is sent.
fn is_impossible(case: &Value) -> bool {
    let lacks = match case["operation"].as_str().unwrap() {
        "CREATE" => case["object"].is_null(),
        "UPDATE" => case["object"].is_null() || case["oldObject"].is_null(),
        "DELETE" => case["oldObject"].is_null(),
        _ => false,
    };
    let resource = case["resource"]["resource"].as_str().unwrap();
    let clusters = matches!(
        resource,
        "nodes" | "csinodes" | "resourceslices" | "certificatesigningrequests"
    );
    let is_namespaced = !case["namespace"].as_str().unwrap_or_default().is_empty();
    lacks || clusters == is_namespaced
}

/// Lists of labels have no order in CEL, and the diff of a claim is the webhook's.
fn same_sentence(engine: &str, policy: &str) -> bool {
    let claim = "is not allowed to update fields other than";
    if engine.contains(claim) {
        return policy.contains(claim);
    }
    // A volume that nobody knows is refused by another word.
    if engine.starts_with("error checking mirror pod for API references") {
        return policy.contains("can not create pods that reference");
    }
    let sorted = |text: &str| {
        let (head, list) = text.split_once("labels: ").unwrap_or((text, ""));
        let mut list: Vec<String> = list.split(", ").map(str::to_owned).collect();
        list.sort_unstable();
        (head.to_owned(), list)
    };
    sorted(engine) == sorted(policy)
}

fn compare(case: &Value, engine: Decision, policy: &PolicyAnswer) -> Result<bool, String> {
    if !policy.error.is_empty() {
        return Err(policy.error.clone());
    }
    match engine {
        Decision::Allowed(_) if policy.denied.is_empty() => Ok(true),
        Decision::Allowed(_) => Err(format!("allowed; {} denies", policy.denied)),
        Decision::Denied { code, sentence } if policy.denied.is_empty() => {
            if is_left_to_the_webhook(case, code, &sentence) {
                return Ok(true);
            }
            Err(format!("{code} {sentence}; allowed by {:?}", policy.asked))
        }
        // What the engine looks up comes before the references of a mirror pod.
        Decision::Denied { code, sentence } if is_left_to_the_webhook(case, code, &sentence) => {
            Ok(false)
        }
        Decision::Denied { sentence, .. } => {
            // CEL prints a name as it is, Go with escapes.
            let plain = |name: &Value| {
                let name = name.as_str().unwrap_or_default();
                name.bytes().all(|b| b.is_ascii_graphic() && b != b'"')
            };
            let is_plain = plain(&case["user"]["name"]) && plain(&case["name"]);
            let is_same = policy.reason == "Forbidden" && same_sentence(&sentence, &policy.denied);
            if is_plain && !is_same {
                return Err(format!(
                    "{sentence}; denied with {} {}",
                    policy.reason, policy.denied
                ));
            }
            Ok(false)
        }
    }
}

#[test]
fn the_exported_policies_decide_like_the_engine() {
    let seed = seed::seed();
    let count = seed::cases(20_000);
    // Others than the engine is compared over.
    let mut random = Random::new(seed + 3);
    let (mut refused, mut asked, mut defaulted) = (0, 0, 0);
    for first in (0..count).step_by(BATCH) {
        let cases = (first..count.min(first + BATCH)).map(|_| case(&mut random));
        let (tolerated, mut restricted): (Vec<Value>, Vec<Value>) =
            cases.partition(|case| case["plugin"] == "defaulttolerationseconds");
        restricted.retain(|case| !is_impossible(case));
        let mut differences = Vec::new();
        let (healthy, others): (Vec<Value>, Vec<Value>) = restricted
            .into_iter()
            .partition(|case| case["features"]["CSIVolumeHealth"] == true);
        for (gate, cases) in [(true, healthy), (false, others)] {
            let features = json!({"features": {"CSIVolumeHealth": gate}});
            let answers = judge(&engine::policies(&features), &cases);
            assert_eq!(answers.len(), cases.len());
            for (case, answer) in cases.iter().zip(&answers) {
                match compare(case, engine::ask(case), answer) {
                    Ok(passes) => refused += usize::from(!passes),
                    Err(difference) => differences.push(format!("{difference}\n{case:#}")),
                }
                asked += usize::from(!answer.asked.is_empty());
            }
        }
        let (changed, different) = tolerate(&tolerated);
        defaulted += changed;
        differences.extend(different);
        assert!(
            differences.is_empty(),
            "seed {seed}: {} differ in a batch\n{}",
            differences.len(),
            differences[..differences.len().min(SHOWN)].join("\n")
        );
    }
    println!(
        "{count} cases: {asked} were judged by a policy and {refused} refused, {defaulted} pods got \
         tolerations; all as by the engine"
    );
    assert!(
        refused > count / 20 && asked - refused > count / 20 && defaulted > count / 100,
        "{asked} {refused} {defaulted}"
    );
}

/// Every stricter rule, enforced.
fn strictest_policies() -> Policies {
    let mut policies = soundness::stricter_policies();
    for mode in policies.node_restriction.modes.values_mut() {
        *mode = Mode::Enforce;
    }
    policies
}

/// Under the stricter rules too: what is written to nodes, by the engine, the policies and the filters.
#[test]
fn writes_of_nodes_are_judged_alike_under_the_stricter_rules() {
    let policies = strictest_policies();
    let seed = seed::seed();
    let mut random = Random::new(seed + 5);
    let conditions = &webhook_configurations(&policies)[1]["webhooks"][0]["matchConditions"];
    let cases = (0..seed::cases(4_000)).map(|_| node_case(&mut random));
    let cases: Vec<Value> = cases
        .filter(|case| !is_impossible(case))
        .map(|mut case| {
            case["matchConditions"] = conditions.clone();
            case
        })
        .collect();
    let answers = judge(&policies, &cases);
    let filters: Vec<FilterAnswer> = oracle::ask("filter", &cases).unwrap();
    let (mut refused, mut labels, mut quiet) = (0, 0, 0);
    for ((case, answer), filter) in cases.iter().zip(&answers).zip(&filters) {
        let passes = compare(case, engine::ask_with(case, &policies), answer);
        let passes = passes.unwrap_or_else(|error| panic!("seed {seed}: {error}\n{case:#}"));
        assert_eq!(filter.error, "", "{case:#}");
        assert!(passes || filter.matches, "{} {case:#}", filter.failed);
        refused += usize::from(!passes);
        labels += usize::from(answer.denied.contains("cannot write the labels"));
        quiet += usize::from(!filter.matches);
    }
    println!(
        "{} cases: {refused} refused, {labels} of them for labels, {quiet} not sent",
        cases.len()
    );
    assert!(refused > cases.len() / 4 && labels > cases.len() / 20 && quiet > cases.len() / 10);
}

/// The rules that the plugin does not have: each refuses something, and lets something pass.
#[test]
fn the_hardening_rules_are_exported_too() {
    let policies = strictest_policies();
    let cases: Vec<Value> = soundness::stricter()
        .into_iter()
        .map(|(_, mut case)| {
            case["lookups"] = json!({"nodes": [{"metadata": {"name": "n1", "uid": "u1"}}]});
            case
        })
        .collect();
    let answers = judge(&policies, &cases);
    let mut refused = Vec::new();
    for (case, answer) in cases.iter().zip(&answers) {
        assert_eq!(answer.error, "", "{case:#}");
        let ours = match engine::ask_with(case, &policies) {
            Decision::Allowed(_) => String::new(),
            Decision::Denied { sentence, .. } => sentence,
        };
        assert_eq!(answer.denied, ours, "{case:#}");
        if !ours.is_empty() {
            refused.push(ours);
        }
    }
    for sentence in [
        "annotations through pod status",
        "finalizers through pod status",
        "a mirror pod with the label",
        "schedulable again",
        "register with ownerReferences",
        "events of the host",
        "cannot delete itself",
        "announce the CSI driver",
        "write the labels: zone",
    ] {
        assert!(
            refused.iter().any(|one| one.contains(sentence)),
            "{sentence}"
        );
    }
    assert!(refused.len() < cases.len());
}

/// The checks that only the plugin of 1.37 has, whichever version the oracle is of. (The generated
/// cases hold all others.)
#[test]
#[expect(clippy::too_many_lines, reason = "a table")]
fn the_checks_of_1_37_are_exported_too() {
    let nothing = Value::Null;
    let claims = |names: &[&str]| {
        let claims = names
            .iter()
            .map(|name| json!({"resourceClaimName": name, "resources": {"cpu": "1"}}));
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "d"},
            "spec": {"nodeName": "n1", "containers": [{"name": "c", "image": "i"}]},
            "status": {"nodeAllocatableResourceClaimStatuses": claims.collect::<Value>()}})
    };
    let csi_node = |name: &str, drivers: &[&str]| {
        let drivers = drivers
            .iter()
            .map(|name| json!({"name": name, "nodeID": "i"}));
        json!({"apiVersion": "storage.k8s.io/v1", "kind": "CSINode", "metadata": {"name": name},
            "spec": {"drivers": drivers.collect::<Value>()}})
    };
    let allocatable = "cannot update node allocatable resource claim statuses";
    let (pods, csi) = ("pods/status", "csinodes.storage.k8s.io/status");
    let (one, two) = (csi_node("n1", &["a"]), csi_node("n1", &["a", "b"]));
    for (is_on, sentence, resource, operation, new, old) in [
        (false, "", pods, "UPDATE", claims(&["a"]), claims(&["a"])),
        (false, "", pods, "UPDATE", claims(&[]), claims(&[])),
        (
            false,
            allocatable,
            pods,
            "UPDATE",
            claims(&["a", "b"]),
            claims(&["a"]),
        ),
        (
            false,
            allocatable,
            pods,
            "UPDATE",
            claims(&[]),
            claims(&["a"]),
        ),
        (
            false,
            "CSIVolumeHealth feature gate is disabled",
            csi,
            "UPDATE",
            one.clone(),
            one.clone(),
        ),
        (true, "", csi, "UPDATE", one.clone(), one.clone()),
        (
            true,
            "to modify CSINode spec via status",
            csi,
            "UPDATE",
            two.clone(),
            one.clone(),
        ),
        (
            true,
            "to modify CSINode spec via status",
            csi,
            "UPDATE",
            one.clone(),
            two,
        ),
        (
            true,
            "unexpected operation \"CREATE\"",
            csi,
            "CREATE",
            one.clone(),
            nothing.clone(),
        ),
        (
            true,
            "unexpected operation \"DELETE\"",
            csi,
            "DELETE",
            nothing,
            one,
        ),
        (
            true,
            "same name as the requesting node",
            csi,
            "UPDATE",
            csi_node("n2", &[]),
            csi_node("n2", &[]),
        ),
    ] {
        let mut policies = engine::policies(&json!({}));
        let restriction = &mut policies.node_restriction;
        restriction.version = Some("1.37".to_owned().try_into().unwrap());
        restriction.csi_volume_health = is_on;
        let case = soundness::ask(resource, operation, &new, &old);
        let answer = judge(&policies, std::slice::from_ref(&case)).remove(0);
        let ours = match engine::ask_with(&case, &policies) {
            Decision::Allowed(_) => String::new(),
            Decision::Denied { sentence, .. } => sentence,
        };
        assert_eq!(
            (answer.error.as_str(), &answer.denied),
            ("", &ours),
            "{case:#}"
        );
        assert_eq!(ours.is_empty(), sentence.is_empty(), "{ours} {case:#}");
        assert!(ours.contains(sentence), "{ours} {case:#}");
        assert!(!answer.asked.is_empty(), "{case:#}");
    }
}

/// Holds the mutating policy against the engine: how many pods it changed, and what differs.
fn tolerate(cases: &[Value]) -> (usize, Vec<String>) {
    let mut by_seconds: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for case in cases {
        let seconds = format!("{} {}", case["notReadySeconds"], case["unreachableSeconds"]);
        by_seconds.entry(seconds).or_default().push(case.clone());
    }
    let mut changed = 0;
    let mut differences = Vec::new();
    for cases in by_seconds.values() {
        let answers = judge(&engine::policies(&cases[0]), cases);
        for (case, answer) in cases.iter().zip(answers) {
            let Decision::Allowed(ours) = engine::ask(case) else {
                continue;
            };
            let theirs = answer.object.as_ref().unwrap_or_else(|| &case["object"]);
            if !answer.error.is_empty() || tolerations(theirs) != tolerations(&ours) {
                differences.push(format!("{answer:?} {case:#}"));
            }
            changed += usize::from(answer.object.is_some());
        }
    }
    (changed, differences)
}

/// Puts the policies in the place of the webhook: what kubelets send is judged as by the in-tree
/// plugin, which gave the answers `theirs`.
pub(super) async fn take_its_place(plane: &ControlPlane, theirs: &[(Call, PolicyResponse)]) {
    let kubectl = Kubectl::new(plane, &Identity::Admin).unwrap();
    let webhooks = "validatingwebhookconfigurations,mutatingwebhookconfigurations";
    let gone = kubectl.run(["delete", webhooks, "--all"]).await.unwrap();
    gone.success().unwrap();
    let mut export = tokio::process::Command::new(program::webhook().unwrap());
    export.args(["export", "--as", "policies"]);
    let exported = run(export, "").await.unwrap();
    let file = plane.folder().join("policies.yaml");
    std::fs::write(&file, exported.success().unwrap()).unwrap();
    let file = file.display().to_string();
    let applied = kubectl.run(["apply", "--server-side", "-f", &file]);
    applied.await.unwrap().success().unwrap();

    // They take effect a moment after they are stored.
    until("the policies' verdicts", async || {
        let ours = parity::answers(plane).await;
        let mut differences = Vec::new();
        let mut refused = 0;
        for ((call, in_tree), (_, ours)) in theirs.iter().zip(&ours) {
            refused += usize::from(ours.message.contains("ValidatingAdmissionPolicy"));
            if in_tree.code != 403 || !needs_a_lookup(call, in_tree) {
                differences.extend(parity::compare(call, in_tree, ours).err());
            }
        }
        anyhow::ensure!(
            differences.is_empty() && refused > theirs.len() / 6,
            "{refused} refused, {} differ\n{}",
            differences.len(),
            differences.join("\n")
        );
        println!(
            "{refused} of {} requests were refused by policies",
            theirs.len()
        );
        Ok(Some(()))
    })
    .await;
    default_tolerations(plane).await;
}

/// Whether the refusal of a request stays with the webhook.
fn needs_a_lookup(call: &Call, in_tree: &PolicyResponse) -> bool {
    let paths = [
        "/eviction",
        "/token",
        "/certificatesigningrequests",
        "/podcertificaterequests",
    ];
    paths.iter().any(|path| call.path.contains(path)) || in_tree.message.contains("UID mismatch")
}

/// Whether pods get the tolerations of `DefaultTolerationSeconds`.
pub(super) async fn default_tolerations(plane: &ControlPlane) {
    let admin = plane.admin().await.unwrap();
    let created = |list: Value| {
        let mut object = pod("default", "new", "other");
        object["spec"]["tolerations"] = list;
        let call = Call::new("POST", "/api/v1/namespaces/default/pods", object).dry();
        let admin = admin.clone();
        async move {
            let response = call.send(&admin).await?;
            let list = response.body["spec"]["tolerations"].as_array().cloned();
            Ok::<_, anyhow::Error>(list.unwrap_or_default())
        }
    };
    let of = |taint: &str, seconds: i64| {
        json!({"key": format!("node.kubernetes.io/{taint}"), "operator": "Exists",
            "effect": "NoExecute", "tolerationSeconds": seconds})
    };
    let (not_ready, unreachable) = (of("not-ready", 300), of("unreachable", 300));
    until("the default tolerations", async || {
        let list = created(Value::Null).await?;
        anyhow::ensure!(list == [not_ready.clone(), unreachable.clone()], "{list:?}");
        Ok(Some(()))
    })
    .await;
    let short = of("not-ready", 5);
    let list = created(json!([short])).await.unwrap();
    assert_eq!(list, [short, unreachable]);
    let all = json!([{"operator": "Exists"}]);
    assert_eq!(json!(created(all.clone()).await.unwrap()), all);
}
