//! References of a mirror pod to other API objects, in CEL (`HasAPIObjectReference`,
//! pkg/api/pod/util.go, v1.36.3): the kubelet would get access to the referenced objects.

use crate::policy::node_restriction::pod_references::{PLAIN, PROJECTED, REFERRING};

const CONTAINERS: [&str; 3] = ["initContainers", "containers", "ephemeralContainers"];
const SECRETS: [&str; 10] = [
    "azureFile.secretName",
    "cephfs.secretRef.name",
    "cinder.secretRef.name",
    "flexVolume.secretRef.name",
    "rbd.secretRef.name",
    "secret.secretName",
    "scaleIO.secretRef.name",
    "iscsi.secretRef.name",
    "storageos.secretRef.name",
    "csi.nodePublishSecretRef.name",
];
/// Conditions for a reference and its name in messages, in the in-tree order.
pub(super) fn references() -> Vec<(String, String)> {
    let quoted = |text: &str| format!("'{text}'");
    vec![
        (
            is_set("object.?spec", "serviceAccountName"),
            quoted("serviceaccounts"),
        ),
        (secrets(), quoted("secrets")),
        (config_maps(), quoted("configmaps")),
        (
            "object.?spec.?resourceClaims.orValue([]).size() > 0".to_owned(),
            quoted("resourceclaims"),
        ),
        volumes(),
    ]
}

/// Whether the string at `path` is not empty: empty names are skipped, as in-tree.
fn is_set(object: &str, path: &str) -> String {
    format!("{object}.?{}.orValue('') != ''", path.replace('.', ".?"))
}

/// The list at `path`; Go writes an empty one as `null` where the API asks for it.
fn list(object: &str, path: &str) -> String {
    let path = path.replace('.', ".?");
    format!("{object}.?{path}.optMap(list, list == null ? [] : list).orValue([])")
}

fn variables(kind: &str) -> String {
    let every = CONTAINERS.map(|containers| {
        format!(
            "{}.exists(c, {}.exists(e, {}) || {}.exists(e, {}))",
            list("object.?spec", containers),
            list("c", "env"),
            is_set("e", &format!("valueFrom.{kind}KeyRef.name")),
            list("c", "envFrom"),
            is_set("e", &format!("{kind}Ref.name")),
        )
    });
    every.join(" || ")
}

fn projected(kind: &str) -> String {
    format!(
        "{}.exists(s, {})",
        list("v", "projected.sources"),
        is_set("s", &format!("{kind}.name"))
    )
}

fn secrets() -> String {
    let sources = SECRETS.map(|path| is_set("v", path));
    format!(
        "{}.exists(s, {}) || {} || {}.exists(v, {} || {})",
        list("object.?spec", "imagePullSecrets"),
        is_set("s", "name"),
        variables("secret"),
        list("object.?spec", "volumes"),
        sources.join(" || "),
        projected("secret")
    )
}

fn config_maps() -> String {
    format!(
        "{} || {}.exists(v, {} || {})",
        variables("configMap"),
        list("object.?spec", "volumes"),
        is_set("v", "configMap.name"),
        projected("configMap")
    )
}

/// A volume of any kind except the plain ones, including kinds that do not exist yet.
fn volumes() -> (String, String) {
    let plain = PLAIN.map(|name| format!("'{name}'")).join(", ");
    let has_no_reference = format!(
        "v.exists(kind, kind in [{plain}]) || (v.all(kind, kind in ['name', 'projected']) && \
         {}.all(s, s.size() > 0 && s.all(kind, kind == 'downwardAPI')))",
        list("v", "projected.sources")
    );
    let all = list("object.?spec", "volumes");
    let first = format!("{all}.filter(v, !({has_no_reference}))[0]");
    // Of the first such volume.
    let mut found = "'an unknown volume'".to_owned();
    for (kind, name) in PROJECTED.iter().rev() {
        let sources = list(&first, "projected.sources");
        found = format!("({sources}.exists(s, '{kind}' in s) ? '{name}' : {found})");
    }
    for (kind, name) in REFERRING.iter().rev() {
        found = format!("('{kind}' in {first} ? '{name}' : {found})");
    }
    (format!("!{all}.all(v, {has_no_reference})"), found)
}
