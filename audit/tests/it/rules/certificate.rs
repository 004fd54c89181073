use super::cluster::{bind, configure, signing};
use super::fixture::Fixture;

pub(super) const FIXTURES: &[Fixture] = &[
    Fixture {
        rule: "NL-CRT-001",
        fires: |s| configure(s, |c| c.rotate_certificates = None),
        silent: |s| configure(s, |c| c.server_tls_bootstrap = None),
    },
    Fixture {
        rule: "NL-CRT-002",
        fires: |s| configure(s, |c| c.server_tls_bootstrap = None),
        silent: |s| {
            configure(s, |c| {
                c.server_tls_bootstrap = None;
                c.tls_cert_file = "/etc/kubernetes/pki/kubelet.crt".into();
            });
        },
    },
    Fixture {
        rule: "NL-CRT-003",
        fires: |s| signing(s, "kubernetes.io/kubelet-serving", "system:node:a", 1, 900),
        silent: |s| signing(s, "kubernetes.io/kubelet-serving", "system:node:a", 1, 300),
    },
    Fixture {
        rule: "NL-CRT-006",
        fires: |s| configure(s, |c| c.authentication.anonymous.enabled = Some(true)),
        silent: |s| configure(s, |c| c.read_only_port = Some(0)),
    },
    Fixture {
        rule: "NL-CRT-008",
        fires: |s| bind(s, "system:kubelet-api-admin", "User", "deployer"),
        silent: |s| {
            bind(
                s,
                "system:kubelet-api-admin",
                "User",
                "kube-apiserver-kubelet-client",
            )
        },
    },
    Fixture {
        rule: "NL-CRT-009",
        fires: |s| {
            let signer = "kubernetes.io/kube-apiserver-client-kubelet";
            signing(s, signer, "system:node:a", 1, 900);
        },
        silent: |s| {
            let signer = "kubernetes.io/kube-apiserver-client-kubelet";
            signing(s, signer, "system:node:a", 1, 300);
        },
    },
];

#[test]
fn a_node_that_joins_has_no_certificate_to_renew() {
    let fix = |user: &str| {
        let mut snapshot = super::cluster::healthy();
        let signer = "kubernetes.io/kube-apiserver-client-kubelet";
        signing(&mut snapshot, signer, user, 1, 900);
        let now = snapshot.taken_at.unwrap();
        let audit = nodelife_audit::audit(&snapshot, &nodelife_audit::Selection::default(), now);
        let mut found = audit.findings.into_iter();
        found.find(|found| found.rule == *"NL-CRT-009").unwrap().fix
    };
    assert!(fix("system:bootstrap:abcdef").contains(":nodeclient"));
    assert!(fix("system:node:a").contains(":selfnodeclient"));
}

/// As real kubelets show it, which are told of no certificate.
#[test]
fn a_certificate_that_the_kubelet_makes_itself_is_signed_by_nobody() {
    let mut snapshot = super::cluster::healthy();
    configure(&mut snapshot, |c| {
        c.server_tls_bootstrap = None;
        c.tls_cert_file = "/var/lib/kubelet/pki/kubelet.crt".into();
    });
    let now = snapshot.taken_at.unwrap();
    let audit = nodelife_audit::audit(&snapshot, &nodelife_audit::Selection::default(), now);
    let mut found = audit.findings.iter();
    let found = found.find(|found| found.rule == *"NL-CRT-002").unwrap();
    assert!(found.message.contains("makes itself"), "{found:?}");
}
