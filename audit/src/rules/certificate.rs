//! CRT: certificates and the kubelet's own API.

use crate::{Check, Context, Fact, FindingBuilder, Findings, Rule, Severity, Statement};
use nodelife_core::allocatable::KubeletConfiguration;
use nodelife_core::object::{ClusterRole, Node};
use nodelife_core::snapshot::Source;

pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "NL-CRT-001",
        severity: Severity::Warning,
        sources: &[Source::Nodes, Source::KubeletConfigs],
        title: "the kubelet does not renew its client certificate",
        why: "When the certificate expires, the node is lost and can join the cluster again only \
              by hand.",
        fix: "Set rotateCertificates: true.",
        link: "https://kubernetes.io/docs/reference/access-authn-authz/kubelet-tls-bootstrapping/#certificate-rotation",
        check: Check::Configuration(no_rotation),
    },
    Rule {
        id: "NL-CRT-002",
        severity: Severity::Warning,
        sources: &[Source::Nodes, Source::KubeletConfigs],
        title: "the kubelet uses a self-signed serving certificate",
        why: "The API server cannot verify the kubelet's identity. An attacker in between can \
              intercept logs, exec and port-forward.",
        fix: "Set serverTLSBootstrap: true, and run an approver for kubelet-serving requests.",
        link: "https://kubernetes.io/docs/reference/access-authn-authz/kubelet-tls-bootstrapping/#client-and-serving-certificates",
        check: Check::Configuration(self_signed),
    },
    Rule {
        id: "NL-CRT-003",
        severity: Severity::Error,
        sources: &[Source::SigningRequests],
        title: "requests for kubelet serving certificates are not approved",
        why: "Kubernetes does not approve kubernetes.io/kubelet-serving requests by itself. \
              Pending requests are deleted after a day. The kubelet then has an expired serving \
              certificate, or none.",
        fix: "Approve them, or run an approver (kubelet-csr-approver, or your cloud provider's).",
        link: "https://kubernetes.io/docs/reference/access-authn-authz/certificate-signing-requests/",
        check: Check::All(|context, findings| {
            pending(context, "kubernetes.io/kubelet-serving", findings);
        }),
    },
    Rule {
        id: "NL-CRT-006",
        severity: Severity::Error,
        sources: &[Source::Nodes, Source::KubeletConfigs],
        title: "anyone who can reach the kubelet can control it",
        why: "Anonymous access, AlwaysAllow and the read-only port expose pods and logs to the \
              whole network. The first two also allow exec in every pod.",
        fix: "Set authentication.anonymous.enabled: false, authorization.mode: Webhook and \
              readOnlyPort: 0.",
        link: "https://kubernetes.io/docs/reference/access-authn-authz/kubelet-authn-authz/",
        check: Check::Configuration(open_kubelet),
    },
    Rule {
        id: "NL-CRT-008",
        severity: Severity::Warning,
        sources: &[Source::ClusterRoles, Source::ClusterRoleBindings],
        title: "a role binding allows nodes/proxy",
        why: "The API server forwards these requests to kubelets. Even the verb get alone allows \
              exec in every pod, because a WebSocket starts as a GET request.",
        fix: "Grant nodes/metrics, nodes/stats, nodes/log or nodes/configz instead.",
        link: "https://kubernetes.io/docs/reference/access-authn-authz/kubelet-authn-authz/",
        check: Check::All(proxy),
    },
    Rule {
        id: "NL-CRT-009",
        severity: Severity::Error,
        sources: &[Source::SigningRequests],
        title: "requests for kubelet client certificates are not approved",
        why: "A kubelet asks for a new certificate when 70 to 90 % of the old one's lifetime are \
              over. Without the new one its node is lost when the old one expires, and one that joins \
              does not become ready.",
        fix: "Approve them (kubectl certificate approve), bind the group system:nodes to the \
              ClusterRole system:certificates.k8s.io:certificatesigningrequests:selfnodeclient, \
              and check the csrapproving controller in kube-controller-manager.",
        link: "https://kubernetes.io/docs/reference/access-authn-authz/kubelet-tls-bootstrapping/#approval-controller",
        check: Check::All(|context, findings| {
            let signer = "kubernetes.io/kube-apiserver-client-kubelet";
            pending(context, signer, findings);
        }),
    },
];

fn no_rotation(_: &Node, config: &KubeletConfiguration) -> Option<Statement> {
    let off = config.rotate_certificates != Some(true);
    off.then(|| "rotateCertificates is not set".into())
}

fn self_signed(_: &Node, config: &KubeletConfiguration) -> Option<Statement> {
    let signed = config.server_tls_bootstrap == Some(true) || !config.tls_cert_file.is_empty();
    (!signed).then(|| "neither serverTLSBootstrap nor tlsCertFile".into())
}

/// Requests to this signer that nobody has approved or denied for a while.
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
