//! CRT: certificates and the kubelet's own API.

use crate::rule::rules;
use crate::{Context, Fact, FindingBuilder, Findings, Rule, Statement};
use nodelife_core::allocatable::KubeletConfiguration;
use nodelife_core::object::{ClusterRole, Node};

pub(super) const RULES: &[Rule] = rules! {
    "NL-CRT-001" Warning [Nodes, KubeletConfigs] Configuration(no_rotation),
    "NL-CRT-002" Warning [Nodes, KubeletConfigs] Configuration(self_signed),
    "NL-CRT-003" Error [SigningRequests] All(serving_pending),
    "NL-CRT-006" Error [Nodes, KubeletConfigs] Configuration(open_kubelet),
    "NL-CRT-008" Warning [ClusterRoles, ClusterRoleBindings] All(proxy),
    "NL-CRT-009" Error [SigningRequests] All(client_pending),
};

fn no_rotation(_: &Node, config: &KubeletConfiguration) -> Option<Statement> {
    let off = config.rotate_certificates != Some(true);
    off.then(|| "rotateCertificates is not set".into())
}

/// A kubelet that is told of no certificate makes one, and names it in its configuration (`InitializeTLS`,
/// `cmd/kubelet/app/server.go`, v1.36.3): `kubelet.crt` in `--cert-dir`, by default /var/lib/kubelet/pki.
fn self_signed(_: &Node, config: &KubeletConfiguration) -> Option<Statement> {
    let file = &config.tls_cert_file;
    if config.server_tls_bootstrap == Some(true) {
        return None;
    }
    if file == "/var/lib/kubelet/pki/kubelet.crt" {
        let says = "no serverTLSBootstrap, and tlsCertFile {file}, which the kubelet makes itself";
        return Some(Statement::from(says).with("file", file));
    }
    file.is_empty()
        .then(|| "neither serverTLSBootstrap nor tlsCertFile".into())
}

fn serving_pending(context: &Context<'_>, findings: &mut Findings<'_>) {
    pending(context, "kubernetes.io/kubelet-serving", findings);
}

fn client_pending(context: &Context<'_>, findings: &mut Findings<'_>) {
    let signer = "kubernetes.io/kube-apiserver-client-kubelet";
    pending(context, signer, findings);
}

fn pending(context: &Context<'_>, signer: &str, findings: &mut Findings<'_>) {
    const LONG: i64 = 600;
    for request in context.snapshot.signing_requests.iter().flatten() {
        let age = context.age(&request.metadata).unwrap_or_default();
        let to_signer = request.spec.signer_name == signer;
        if to_signer && request.status.conditions.is_empty() && age > LONG {
            let user = request.spec.username.as_str();
            let node = user.strip_prefix("system:node:");
            let says = "pending for {age}, from {node}";
            let found =
                FindingBuilder::object("CertificateSigningRequest", &request.metadata, says);
            let found = found.with("node", Fact::name(node.unwrap_or(user)));
            let found = found.with("age", Fact::seconds(age));
            findings.push(match node {
                Some(node) => found.on(node),
                // A node that joins has no certificate yet.
                None => found.fix(
                    "Approve them (kubectl certificate approve), and bind the group of the \
                     bootstrap tokens, system:bootstrappers, to the ClusterRole \
                     system:certificates.k8s.io:certificatesigningrequests:nodeclient. On \
                     OpenShift, check cluster-machine-approver.",
                ),
            });
        }
    }
}

fn open_kubelet(_: &Node, config: &KubeletConfiguration) -> Option<Statement> {
    let mut open = Vec::new();
    if config.authentication.anonymous.enabled == Some(true) {
        open.push("authentication.anonymous.enabled: true".to_owned());
    }
    if config.authorization.mode == "AlwaysAllow" {
        open.push("authorization.mode: AlwaysAllow".to_owned());
    }
    if let Some(port) = config.read_only_port.filter(|port| *port != 0) {
        open.push(format!("readOnlyPort: {port}"));
    }
    let settings = || Statement::from("{settings}").with("settings", open.join(", "));
    (!open.is_empty()).then(settings)
}

/// Whether the role lets its holders use `nodes/proxy`, without being allowed everything.
fn gives_proxy(role: &ClusterRole) -> bool {
    let has = |list: &[nodelife_core::text::Str], item: &str| list.iter().any(|x| x == item);
    role.rules.iter().any(|rule| {
        has(&rule.resources, "nodes/proxy")
            && (has(&rule.api_groups, "") || has(&rule.api_groups, "*"))
    })
}

fn proxy(context: &Context<'_>, findings: &mut Findings<'_>) {
    /// Subjects with this permission by default (`plugin/pkg/auth/authorizer/rbac/bootstrappolicy`, v1.36.3, and kubeadm).
    const KNOWN: [&str; 4] = [
        "system:masters",
        "kubeadm:cluster-admins",
        "kube-apiserver-kubelet-client",
        "kube-apiserver",
    ];
    let roles = context.snapshot.cluster_roles.iter().flatten();
    let roles: Vec<_> = roles
        .filter(|role| gives_proxy(role))
        .map(|role| role.metadata.name.as_str())
        .collect();
    for binding in context.snapshot.cluster_role_bindings.iter().flatten() {
        if !roles.contains(&binding.role_ref.name.as_str()) {
            continue;
        }
        let others: Vec<_> = binding
            .subjects
            .iter()
            .filter(|subject| !KNOWN.contains(&subject.name.as_str()))
            .map(|subject| format!("{} {}", subject.kind, subject.name))
            .collect();
        if !others.is_empty() {
            let says = "{subjects} through role {role}";
            let found = FindingBuilder::object("ClusterRoleBinding", &binding.metadata, says)
                .with("role", &binding.role_ref.name);
            let listed = others.join(", ");
            findings.push(found.with("subjects", Fact::from(others).shown(listed)));
        }
    }
}
