//! AUT: permissions of nodes.

use crate::rule::rules;
use crate::{Context, Fact, FindingBuilder, Findings, Rule, Severity};
use nodelife_core::node_access::{ASKER_USER, NodeAuthorizer, NodeRestriction, OTHER};

pub(super) const RULES: &[Rule] = rules! {
    "NL-AUT-001" Error [NodeRestriction] All(unrestricted),
    "NL-AUT-002" Error [SigningRequests] All(odd_user),
    "NL-AUT-003" Warning [ClusterRoleBindings] All(legacy_binding),
    "NL-AUT-005" Warning [NodeAuthorizer] All(without_authorizer),
};

fn unrestricted(context: &Context<'_>, findings: &mut Findings<'_>) {
    let Some(NodeRestriction::Off { denied_by }) = &context.snapshot.node_restriction else {
        return;
    };
    let probe = api_server("a dry run of {user} that creates the node {node}");
    findings.push(match denied_by {
        None => probe.and(" is allowed"),
        Some(denied_by) => probe
            .and(" passes NodeRestriction; {deniedBy} denies it")
            .with("deniedBy", denied_by)
            .severity(Severity::Info),
    });
}

fn api_server(says: &'static str) -> FindingBuilder<'static> {
    FindingBuilder::named("Cluster", "kube-apiserver", says)
        .with("user", ASKER_USER)
        .with("node", OTHER)
}

fn without_authorizer(context: &Context<'_>, findings: &mut Findings<'_>) {
    match &context.snapshot.node_authorizer {
        None | Some(NodeAuthorizer::On) => {}
        Some(NodeAuthorizer::Off) => findings.push(api_server(
            "{user} may not get the node {node}, but the Node authorizer is not the reason",
        )),
        // The Node authorizer may be on, but another authorizer already allows everything.
        Some(NodeAuthorizer::Unknown { allowed_by }) => {
            let found = api_server("{user} may get the node {node}: {allowedBy}");
            findings.push(found.with("allowedBy", allowed_by).inferred());
        }
    }
}

fn odd_user(context: &Context<'_>, findings: &mut Findings<'_>) {
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
        // A kubelet without a certificate yet, whatever its bootstrap token's user is called.
        let mut groups = request.spec.groups.iter();
        let is_bootstrapping = groups.any(|group| group.starts_with("system:bootstrappers"));
        let is_known = is_bootstrapping || known.iter().any(|prefix| user.starts_with(prefix));
        if kubelet && !is_known {
            let says = "user {user} requested a certificate from {signer}";
            let found =
                FindingBuilder::object("CertificateSigningRequest", &request.metadata, says);
            let found = found.with("user", Fact::name(user).shown(format!("{user:?}")));
            findings.push(found.with("signer", &request.spec.signer_name));
        }
    }
}

fn legacy_binding(context: &Context<'_>, findings: &mut Findings<'_>) {
    for binding in context.snapshot.cluster_role_bindings.iter().flatten() {
        let role = binding.role_ref.name == "system:node";
        let mut subjects = binding.subjects.iter();
        if role && subjects.any(|s| s.kind == "Group" && s.name == "system:nodes") {
            let says = "role system:node for the group system:nodes";
            let found = FindingBuilder::object("ClusterRoleBinding", &binding.metadata, says);
            findings.push(found);
        }
    }
}
