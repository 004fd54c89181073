//! What a lookup found is nobody's business but the log's: whoever reaches the webhook may ask.

use nodelife_admission::{Lookup, LookupResult, Lookups, PodFacts, VolumeFacts};
use serde_json::{Value, json};

use super::{answer_with, review};

fn named(name: &str) -> Lookup {
    Lookup::Pod {
        namespace: "d".to_owned(),
        name: name.to_owned(),
    }
}

/// The pod `p` of the node `n1`, as it is looked up.
fn secret_pod(uid: &str, account: &str) -> LookupResult {
    LookupResult::Pod(PodFacts {
        uid: uid.to_owned(),
        node: "n1".to_owned(),
        service_account: account.to_owned(),
        volumes: vec![VolumeFacts::Claim("secret-claim".to_owned())],
        ..PodFacts::default()
    })
}

fn certificate() -> Value {
    let spec = json!({"podName": "p", "podUID": "u", "nodeName": "n1", "nodeUID": "n",
        "serviceAccountName": "sa", "serviceAccountUID": "s", "signerName": "e.com/x"});
    review(
        "podcertificaterequests.certificates.k8s.io",
        "CREATE",
        json!({"namespace": "d", "object": {"spec": spec}}),
    )
}

#[test]
fn a_denial_holds_nothing_that_a_lookup_found() {
    let node = |uid: &str| {
        (
            Lookup::Node("n1".to_owned()),
            LookupResult::Uid(uid.to_owned()),
        )
    };
    let account = Lookup::ServiceAccount {
        namespace: "d".to_owned(),
        name: "sa".to_owned(),
    };
    let claim = Lookup::Claim {
        namespace: "d".to_owned(),
        name: "secret-claim".to_owned(),
    };
    let owner = json!({"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": "sent",
        "controller": true});
    let metadata = json!({"name": "p", "annotations": {"kubernetes.io/config.mirror": "x"},
        "ownerReferences": [owner]});
    let mirror = review(
        "pods",
        "CREATE",
        json!({"name": "p", "namespace": "d",
            "object": {"metadata": metadata, "spec": {"nodeName": "n1"}}}),
    );
    let bound = json!({"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u"});
    let token = review(
        "serviceaccounts/token",
        "CREATE",
        json!({"name": "sa", "namespace": "d",
            "object": {"spec": {"audiences": ["other"], "boundObjectRef": bound}}}),
    );
    let pod = |uid, account| (named("p"), secret_pod(uid, account));
    for (request, code, begin, lookups) in [
        (
            mirror,
            403,
            "node n1 UID mismatch: expected sent",
            vec![node("secret")],
        ),
        (
            token,
            403,
            r#"error validating audience "other""#,
            vec![pod("u", "sa"), (claim, LookupResult::Missing)],
        ),
        (
            certificate(),
            500,
            r#"PodCertificateRequest for pod "d/p" names node UID "n""#,
            vec![node("secret")],
        ),
        (
            certificate(),
            500,
            r#"PodCertificateRequest for pod "d/p" contains pod UID"#,
            vec![node("n"), pod("secret", "sa")],
        ),
        (
            certificate(),
            403,
            r#"PodCertificateRequest for pod "d/p" contains serviceAccountName"#,
            vec![node("n"), pod("u", "secret")],
        ),
        (
            certificate(),
            500,
            r#"PodCertificateRequest for pod "d/p" names service account UID"#,
            vec![
                node("n"),
                pod("u", "sa"),
                (account, LookupResult::Uid("secret".to_owned())),
            ],
        ),
    ] {
        let answer = answer_with(&request, &Lookups::from_iter(lookups));
        super::assert_denied(&answer, code, begin);
        assert!(!answer.to_string().contains("secret"), "{answer}");
    }
}
