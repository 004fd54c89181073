//! State of the Node authorizer and NodeRestriction, inferred from responses about a node that
//! does not exist.
//!
//! On managed clusters nobody sees the API server's flags. Its words give it away: those of the
//! Node authorizer (`plugin/pkg/auth/authorizer/node/node_authorizer.go`) and of the admission
//! plugin NodeRestriction (`plugin/pkg/admission/noderestriction/admission.go`), v1.36.3.

use serde::{Deserialize, Serialize};

use crate::text::Str;

/// The node that asks. No such node has to be there.
pub const ASKER: &str = "nodelife-probe";
/// The node that it asks about, which is not there either.
pub const OTHER: &str = "nodelife-probe-other";
pub const ASKER_USER: &str = "system:node:nodelife-probe";
pub const NODES_GROUP: &str = "system:nodes";
pub const MASTERS_GROUP: &str = "system:masters";

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase", tag = "state")]
pub enum NodeAuthorizer {
    /// It gave its own reason.
    On,
    Off,
    /// Another authorizer allows nodes to read each other, so the Node authorizer gave no reason.
    Unknown {
        allowed_by: Str,
    },
}

impl NodeAuthorizer {
    /// Judges the answer to a SubjectAccessReview: may [`ASKER`] get the node [`OTHER`]?
    pub fn judge(allowed: bool, reason: &str) -> Self {
        let own = format!("node '{ASKER}' cannot read '{OTHER}', only its own Node object");
        if reason.contains(&own) {
            Self::On
        } else if allowed {
            let allowed_by = if reason.is_empty() {
                "an authorizer that gives no reason"
            } else {
                reason
            };
            Self::Unknown {
                allowed_by: allowed_by.into(),
            }
        } else {
            Self::Off
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase", tag = "state")]
pub enum NodeRestriction {
    /// It refused, in its own words.
    On,
    /// The request got past it.
    Off {
        #[serde(skip_serializing_if = "Option::is_none")]
        denied_by: Option<Str>,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Probed {
    Known(NodeRestriction),
    /// An authorizer refused before: ask as somebody whom none refuses.
    NotAuthorized,
    Nothing(String),
}

impl Probed {
    /// Judges the answer to the dry-run creation of the node [`OTHER`] by [`ASKER`].
    ///
    /// NodeRestriction speaks before any webhook or policy does (it admits ahead of
    /// `MutatingAdmissionWebhook`, `AllOrderedPlugins` of `pkg/kubeapiserver/options/plugins.go`),
    /// so whatever they say means that it is off. Its words are compared as a whole, since a
    /// webhook may use them as well, behind its own.
    pub fn judge(code: u16, message: &str) -> Self {
        let in_tree = format!(
            "nodes \"{OTHER}\" is forbidden: node \"{ASKER}\" is not allowed to modify node \"{OTHER}\""
        );
        let off = |denied_by: Option<&str>| {
            let denied_by = denied_by.map(Str::from);
            Self::Known(NodeRestriction::Off { denied_by })
        };
        if message == in_tree {
            return Self::Known(NodeRestriction::On);
        }
        if (200..300).contains(&code) || code == 409 {
            return off(None);
        }
        for (words, kind) in [
            ("admission webhook \"", "webhook"),
            ("failed calling webhook \"", "webhook"),
            ("ValidatingAdmissionPolicy '", "policy"),
            ("MutatingAdmissionPolicy '", "policy"),
        ] {
            if let Some((_, rest)) = message.split_once(words) {
                let name = rest.split(['"', '\'']).next().unwrap_or_default();
                return off(Some(&format!("{kind} {name}")));
            }
        }
        if code == 403 && message.contains("cannot create resource \"nodes\"") {
            return Self::NotAuthorized;
        }
        Self::Nothing(format!("the API server answered {code}: {message}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const IN_TREE: &str = "nodes \"nodelife-probe-other\" is forbidden: node \"nodelife-probe\" is not allowed to modify node \"nodelife-probe-other\"";

    fn off(denied_by: &str) -> Probed {
        Probed::Known(NodeRestriction::Off {
            denied_by: Some(denied_by.into()),
        })
    }

    #[test]
    fn the_plugins_own_words_are_told_from_a_webhooks() {
        assert_eq!(
            Probed::judge(403, IN_TREE),
            Probed::Known(NodeRestriction::On)
        );
        let webhook =
            format!("admission webhook \"nodes.nodelife.dev\" denied the request: {IN_TREE}");
        assert_eq!(
            Probed::judge(403, &webhook),
            off("webhook nodes.nodelife.dev")
        );
        let policy = format!(
            "nodes \"nodelife-probe-other\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: {IN_TREE}"
        );
        assert_eq!(Probed::judge(422, &policy), off("policy p"));
    }

    #[test]
    fn a_webhook_that_fails_was_at_least_asked() {
        let failed = "Internal error occurred: failed calling webhook \"w.example\": timeout";
        assert_eq!(Probed::judge(500, failed), off("webhook w.example"));
        let no_dry_run = "admission webhook \"w.example\" does not support dry run";
        assert_eq!(Probed::judge(400, no_dry_run), off("webhook w.example"));
    }

    #[test]
    fn what_never_came_to_admission_says_nothing() {
        let rbac = "nodes is forbidden: User \"system:node:nodelife-probe\" cannot create resource \"nodes\" in API group \"\" at the cluster scope";
        assert_eq!(Probed::judge(403, rbac), Probed::NotAuthorized);
        let impersonation = "users \"system:node:nodelife-probe\" is forbidden: User \"u\" cannot impersonate resource \"users\" in API group \"\" at the cluster scope";
        assert!(matches!(
            Probed::judge(403, impersonation),
            Probed::Nothing(_)
        ));
        let created = Probed::Known(NodeRestriction::Off { denied_by: None });
        assert_eq!(Probed::judge(201, ""), created);
    }

    #[test]
    fn the_node_authorizer_is_known_by_its_reason() {
        let own =
            "node 'nodelife-probe' cannot read 'nodelife-probe-other', only its own Node object";
        assert_eq!(NodeAuthorizer::judge(false, own), NodeAuthorizer::On);
        assert_eq!(NodeAuthorizer::judge(false, ""), NodeAuthorizer::Off);
        let legacy = "RBAC: allowed by ClusterRoleBinding \"system:node\"";
        assert!(matches!(
            NodeAuthorizer::judge(true, legacy),
            NodeAuthorizer::Unknown { .. }
        ));
    }
}
