//! AUT: permissions of nodes.

use crate::{Check, Context, Fact, FindingBuilder, Findings, Rule, Severity};
use nodelife_core::node_access::{ASKER_USER, NodeAuthorizer, NodeRestriction, OTHER};
use nodelife_core::snapshot::Source;

pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "NL-AUT-001",
        severity: Severity::Error,
        sources: &[Source::NodeRestriction],
        title: "a node may modify other nodes",
        why: "The admission plugin NodeRestriction is disabled. An attacker who controls one \
              kubelet can change the labels and taints of any node and the status of any pod, and \
              so attract workloads and their secrets.",
        fix: "Start kube-apiserver with --enable-admission-plugins=NodeRestriction. If you cannot \
              change its flags, nodelife's webhook enforces the same rules.",
        link: "https://kubernetes.io/docs/reference/access-authn-authz/admission-controllers/#noderestriction",
        check: Check::All(unrestricted),
    },
    Rule {
        id: "NL-AUT-002",
        severity: Severity::Error,
        sources: &[Source::SigningRequests],
        title: "a kubelet does not authenticate as its node",
        why: "A user other than system:node:NAME requests kubelet certificates. The Node \
              authorizer and NodeRestriction recognize nodes only by that name, so this kubelet \
              has too many or too few permissions.",
        fix: "Give the kubelet a certificate with CN=system:node:NAME and O=system:nodes.",
        link: "https://kubernetes.io/docs/reference/access-authn-authz/node/",
        check: Check::All(odd_user),
    },
    Rule {
        id: "NL-AUT-003",
        severity: Severity::Warning,
        sources: &[Source::ClusterRoleBindings],
        title: "every node has the permissions of all nodes",
        why: "The binding system:node grants the whole role to the group system:nodes through \
              RBAC. An attacker who controls one kubelet can read every secret, because RBAC \
              bypasses the Node authorizer.",
        fix: "Remove the subject system:nodes from the binding system:node.",
        link: "https://kubernetes.io/docs/reference/access-authn-authz/node/#migration-considerations",
        check: Check::All(legacy_binding),
    },
    Rule {
        id: "NL-AUT-005",
        severity: Severity::Warning,
        sources: &[Source::NodeAuthorizer],
        title: "the Node authorizer is disabled",
        why: "Nodes then get their permissions only from RBAC, which does not consider which pod \
              runs on which node. A node can read either nothing, or every secret and every pod.",
        fix: "Start kube-apiserver with --authorization-mode=Node,RBAC.",
        link: "https://kubernetes.io/docs/reference/access-authn-authz/node/",
        check: Check::All(without_authorizer),
    },
];

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

/// A finding about the API server's answer to a node that asks about another one.
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
