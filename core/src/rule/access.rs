//! AUT: what nodes may do, as far as it can be read.

use super::{Context, Found, Group, Rule, Sink};
use crate::finding::Severity;
use crate::snapshot::Source;

pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "NL-AUT-002",
        group: Group::Authorization,
        severity: Severity::Error,
        sources: &[Source::SigningRequests],
        title: "a kubelet does not speak as its node",
        why: "Requests for kubelet certificates come from a user that is not \
              system:node:NAME. The Node authorizer and NodeRestriction know nodes by that \
              name alone: this kubelet either has too many rights or too few.",
        fix: "Give the kubelet a certificate of CN=system:node:NAME, O=system:nodes.",
        link: "https://kubernetes.io/docs/reference/access-authn-authz/node/",
        check: odd_user,
    },
    Rule {
        id: "NL-AUT-003",
        group: Group::Authorization,
        severity: Severity::Warning,
        sources: &[Source::ClusterRoleBindings],
        title: "every node may read what any node may",
        why: "The binding system:node gives the group system:nodes the whole role by RBAC. A \
              kubelet that was taken over can read every secret, past the Node authorizer.",
        fix: "Remove the subject system:nodes from the binding system:node.",
        link: "https://kubernetes.io/docs/reference/access-authn-authz/node/#migration-considerations",
        check: legacy_binding,
    },
];

fn odd_user(context: &Context<'_>, sink: &mut Sink<'_>) {
    for request in context.snapshot.signing_requests.iter().flatten() {
        let user = request.spec.username.as_str();
        let known = [
            "system:node:",
            "system:bootstrap:",
            "system:serviceaccount:",
            "kubernetes-admin",
        ];
        let kubelet = matches!(
            request.spec.signer_name.as_str(),
            "kubernetes.io/kubelet-serving" | "kubernetes.io/kube-apiserver-client-kubelet"
        );
        if kubelet && !known.iter().any(|prefix| user.starts_with(prefix)) {
            let message = format!(
                "{} was asked for by user {user:?}",
                request.spec.signer_name
            );
            let found = Found::object("CertificateSigningRequest", &request.metadata, message);
            sink.push(found.with("user", user));
        }
    }
}

fn legacy_binding(context: &Context<'_>, sink: &mut Sink<'_>) {
    for binding in context.snapshot.cluster_role_bindings.iter().flatten() {
        let role = binding.role_ref.name == "system:node";
        let mut subjects = binding.subjects.iter();
        if role && subjects.any(|s| s.kind == "Group" && s.name == "system:nodes") {
            let message = "role system:node for the group system:nodes".to_owned();
            sink.push(Found::object(
                "ClusterRoleBinding",
                &binding.metadata,
                message,
            ));
        }
    }
}
