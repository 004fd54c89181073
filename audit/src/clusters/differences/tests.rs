use super::*;
use crate::{Exclude, ExcludedBy, ObjectPattern, Severity};

fn clusters(versions: &[(&str, &str)]) -> Vec<(Str, Profile)> {
    let cluster = |(context, version): &(&str, &str)| {
        let profile = Profile {
            version: (!version.is_empty()).then(|| (*version).to_owned()),
            ..Profile::default()
        };
        (Str::from(*context), profile)
    };
    versions.iter().map(cluster).collect()
}

fn told(clusters: &[(Str, Profile)], selection: &Selection) -> Vec<(String, String)> {
    let findings = differences(clusters, selection, Timestamp::UNIX_EPOCH).into_iter();
    findings
        .map(|found| (found.subject.name.to_string(), found.message))
        .collect()
}

fn said(versions: &[(&str, &str)]) -> Vec<(String, String)> {
    told(&clusters(versions), &Selection::default())
}

#[test]
fn clusters_that_agree_have_no_differences() {
    assert_eq!(said(&[]), []);
    assert_eq!(said(&[("a", "1.36")]), []);
    assert_eq!(said(&[("a", "1.36"), ("b", "1.36")]), []);
    // What could not be read is no difference.
    assert_eq!(said(&[("a", "1.36"), ("b", ""), ("c", "1.36")]), []);
}

#[test]
fn the_minority_is_named_with_the_majority() {
    let found = said(&[("a", "1.36"), ("b", "1.35"), ("c", "1.36"), ("d", "")]);
    let expected = "Kubernetes 1.35; 1.36 in 2 of 3 clusters";
    assert_eq!(found, [("b".to_owned(), expected.to_owned())]);
}

#[test]
fn without_a_majority_all_values_are_named_together() {
    let found = said(&[("a", "1.36"), ("b", "1.35")]);
    let expected = "Kubernetes 1.35 in b; 1.36 in a";
    assert_eq!(found, [("a, b".to_owned(), expected.to_owned())]);
    assert_eq!(
        said(&[("a", "1.36"), ("b", "1.35"), ("c", "1.34")]).len(),
        1
    );
}

#[test]
fn the_settings_of_a_cluster_are_one_finding() {
    let mut three = clusters(&[("a", ""), ("b", ""), ("c", "")]);
    for (_, profile) in &mut three {
        profile
            .settings
            .insert("maxPods".to_owned(), "110".to_owned());
        profile
            .settings
            .insert("failSwapOn".to_owned(), "true".to_owned());
    }
    assert_eq!(told(&three, &Selection::default()), []);
    let own = &mut three[1].1.settings;
    own.insert("maxPods".to_owned(), "250".to_owned());
    own.insert("failSwapOn".to_owned(), "false".to_owned());
    let expected =
        "failSwapOn false (true in 2 of 3 clusters), maxPods 250 (110 in 2 of 3 clusters)";
    assert_eq!(
        told(&three, &Selection::default()),
        [("b".to_owned(), expected.to_owned())]
    );
    let evidence = &differences(&three, &Selection::default(), Timestamp::UNIX_EPOCH)[0].evidence;
    assert_eq!(
        evidence["settings"].value()["maxPods"],
        json!({"value": "250", "usual": "110"})
    );
}

#[test]
fn differences_are_selected_and_graded_as_rules_are() {
    let two = clusters(&[("a", "1.36"), ("b", "1.35")]);
    let selected = |rules: &[&str], skip: &[&str]| Selection {
        rules: rules.iter().map(|rule| (*rule).to_owned()).collect(),
        skip: skip.iter().map(|rule| (*rule).to_owned()).collect(),
        ..Selection::default()
    };
    assert_eq!(told(&two, &selected(&["RES"], &[])), []);
    assert_eq!(told(&two, &selected(&["FLT"], &[])).len(), 1);
    assert_eq!(told(&two, &selected(&[], &["NL-FLT-001"])), []);
    let excluded = Selection {
        excludes: vec![Exclude {
            rules: vec!["FLT".to_owned()],
            objects: vec![ObjectPattern::parse("context/a, *").unwrap()],
            nodes: None,
            by: ExcludedBy {
                file: "f".into(),
                reason: "r".into(),
                until: None,
            },
        }],
        ..Selection::default()
    };
    assert_eq!(told(&two, &excluded), []);
    let graded = Selection {
        severities: [("FLT".to_owned(), Severity::Error)].into_iter().collect(),
        ..Selection::default()
    };
    assert_eq!(
        differences(&two, &graded, Timestamp::UNIX_EPOCH)[0].severity,
        Severity::Error
    );
}

#[test]
fn a_profile_is_what_most_nodes_and_pods_have() {
    let mut snapshot = nodelife_core::snapshot::Snapshot {
        server_version: Some("v1.36.3+k3s1".into()),
        ..nodelife_core::snapshot::Snapshot::default()
    };
    for (name, runtime) in [
        ("a", "containerd://2.1.4"),
        ("b", "containerd://1.7.2"),
        ("c", "containerd://2.1.0-k3s1"),
    ] {
        let mut node = crate::fixtures::node(name);
        node.status.node_info.container_runtime_version = runtime.into();
        snapshot.nodes.push(node);
    }
    for seconds in [Some(300), Some(300), Some(30), None] {
        let mut pod = crate::fixtures::pod("p", "a");
        pod.spec
            .tolerations
            .push(nodelife_core::object::Toleration {
                key: nodelife_core::taint::UNREACHABLE.into(),
                operator: "Exists".into(),
                effect: nodelife_core::taint::NO_EXECUTE.into(),
                toleration_seconds: seconds,
                ..nodelife_core::object::Toleration::default()
            });
        snapshot.pods.push(pod);
    }
    let config = nodelife_core::allocatable::KubeletConfiguration {
        max_pods: Some(110),
        ..nodelife_core::allocatable::KubeletConfiguration::default()
    };
    snapshot.kubelet_configs = [("a".into(), config)].into();
    let profile = Profile::of(&snapshot);
    assert_eq!(profile.version.as_deref(), Some("1.36"));
    assert_eq!(profile.runtime.as_deref(), Some("containerd 2.1"));
    assert_eq!(profile.toleration.as_deref(), Some("300s"));
    assert_eq!(profile.settings["maxPods"], "110");
}
