//! The ClusterRoles have the rights to read the operators' resources.
//!
//! `NODELIFE_UPDATE_DOCS=1 cargo test -p nodelife-core --lib operator` writes them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;

use super::*;

const BEGIN: &str = "  # Operators' resources, generated from core/src/operator/.\n";
const END: &str = "  # End of the operators' resources.\n";

/// The rules of a role that may read the resources of all operators.
fn rules() -> String {
    let mut groups: BTreeMap<(&str, Option<&str>), BTreeSet<&str>> = BTreeMap::new();
    for resource in resources() {
        let rule = groups.entry((resource.group, resource.name)).or_default();
        rule.insert(resource.plural);
    }
    let mut text = String::new();
    for ((group, name), plurals) in groups {
        let group = if group.is_empty() { "\"\"" } else { group };
        let plurals = Vec::from_iter(plurals).join(", ");
        let _ = writeln!(text, "  - apiGroups: [{group}]\n    resources: [{plurals}]");
        if let Some(name) = name {
            let _ = writeln!(text, "    resourceNames: [{name}]");
        }
        let verb = if name.is_some() { "get" } else { "list" };
        let _ = writeln!(text, "    verbs: [{verb}]");
    }
    text
}

#[test]
fn the_cluster_roles_may_read_what_operators_show() {
    let expected = rules();
    for file in ["drain/clusterrole.yaml", "controller/rbac-maintenance.yaml"] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../manifests");
        let path = path.join(file);
        let text = std::fs::read_to_string(&path).unwrap();
        let (before, rest) = text.split_once(BEGIN).expect(file);
        let (written, after) = rest.split_once(END).expect(file);
        if std::env::var_os("NODELIFE_UPDATE_DOCS").is_some() {
            let text = format!("{before}{BEGIN}{expected}{END}{after}");
            std::fs::write(&path, text).unwrap();
            continue;
        }
        assert_eq!(
            written, expected,
            "{file} is out of date: NODELIFE_UPDATE_DOCS=1 cargo test -p nodelife-core --lib operator"
        );
    }
}

#[test]
fn a_pod_is_guarded_by_one_operator_at_most() {
    use crate::fixtures::pod;
    let mut rook = pod("osd", "n");
    rook.metadata.labels = [(
        "app.kubernetes.io/managed-by".into(),
        "rook-ceph-operator".into(),
    )]
    .into();
    let mut csi = pod("csi-attacher-x", "n");
    csi.metadata.labels = [
        ("longhorn.io/managed-by".into(), "longhorn-manager".into()),
        ("app".into(), "csi-attacher".into()),
    ]
    .into();
    let guards = |pod: &Pod| KNOWN.all().filter(|operator| operator.guards(pod)).count();
    assert_eq!(
        [rook, csi, pod("web", "n")].map(|pod| guards(&pod)),
        [1, 1, 0]
    );
}
