//! Runs a case of the oracle through our engine, as an `AdmissionReview`, with lookups answered
//! from the case.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use nodelife_admission::{
    AdmissionPhase, AdmissionRule, Lookup, LookupResult, Mode, Policies, Review, Verdict,
    decide_with,
};
use nodelife_tests::Kubernetes;
use serde_json::{Value, json};

/// What the engine says.
pub(crate) enum Decision {
    /// With the object after the patch.
    Allowed(Value),
    Denied {
        code: u16,
        sentence: String,
    },
}

pub(crate) fn ask(case: &Value) -> Decision {
    ask_with(case, &policies(case))
}

/// The same under other policies.
pub(crate) fn ask_with(case: &Value, policies: &Policies) -> Decision {
    let bytes = sent(case);
    let review = Review::begin(&bytes).unwrap();
    let decision = decide_with(
        &review.request,
        policies,
        AdmissionPhase::Mutating,
        |lookup| look_up(case, lookup),
    );
    match decision.verdict {
        Verdict::Allow => Decision::Allowed(case["object"].clone()),
        Verdict::Patch(patch) => Decision::Allowed(patched(&case["object"], &patch.0)),
        Verdict::Deny(denial) => Decision::Denied {
            code: denial.reason.code(),
            sentence: denial.message + &denial.found,
        },
    }
}

fn review(case: &Value) -> Value {
    let field = |name: &str| case.get(name).cloned().unwrap_or(Value::Null);
    json!({
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": "case",
            "resource": field("resource"),
            "subResource": field("subresource"),
            "name": field("name"),
            "namespace": field("namespace"),
            "operation": field("operation"),
            "userInfo": {"username": case["user"]["name"], "groups": case["user"]["groups"]},
            "object": field("object"),
            "oldObject": field("oldObject"),
        },
    })
}

/// The review of a case in the order in which the API server writes it: names first.
pub(super) fn sent(case: &Value) -> Vec<u8> {
    let review = review(case);
    let fields = [
        "uid",
        "resource",
        "subResource",
        "name",
        "namespace",
        "operation",
        "userInfo",
        "object",
        "oldObject",
    ];
    let fields = fields.map(|key| format!("{key:?}:{}", review["request"][key]));
    format!(
        r#"{{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{{{}}}}}"#,
        fields.join(",")
    )
    .into_bytes()
}

/// One plugin at a time, with its gates.
pub(crate) fn policies(case: &Value) -> Policies {
    let mut policies = Policies::default();
    if case["plugin"] == "defaulttolerationseconds" {
        policies.node_restriction.mode = Mode::Off;
        let seconds = |name: &str| case[name].as_i64().unwrap_or(300);
        policies.tolerations.not_ready_seconds = seconds("notReadySeconds");
        policies.tolerations.unreachable_seconds = seconds("unreachableSeconds");
        return policies;
    }
    policies.tolerations.enabled = false;
    let gate = |name: &str| case["features"][name].as_bool();
    let restriction = &mut policies.node_restriction;
    restriction.version = Some(
        Kubernetes::current()
            .unwrap()
            .minor()
            .to_owned()
            .try_into()
            .unwrap(),
    );
    restriction.pod_certificate_requests = gate("PodCertificateRequest");
    restriction.csi_volume_health = gate("CSIVolumeHealth").unwrap_or(false);
    restriction.token_audiences.restrict = gate("ServiceAccountNodeAudienceRestriction");
    if gate("AllowInsecureKubeletCertificateSigningRequests") == Some(true) {
        let rule = AdmissionRule::SigningRequests;
        restriction.modes.insert(rule, Mode::Off);
    }
    policies
}

pub(super) fn look_up(case: &Value, lookup: &Lookup) -> LookupResult {
    let find = |list: &str, namespace: &str, name: &str| {
        let objects = case["lookups"][list].as_array();
        let found = objects.into_iter().flatten().find(|object| {
            let meta = &object["metadata"];
            meta["name"].as_str().unwrap_or_default() == name
                && meta["namespace"].as_str().unwrap_or_default() == namespace
        });
        found.map_or(LookupResult::Missing, |object| {
            LookupResult::read(lookup, object.to_string().as_bytes())
        })
    };
    match lookup {
        Lookup::Pod { namespace, name } => find("pods", namespace, name),
        Lookup::Node(name) => find("nodes", "", name),
        Lookup::Claim { namespace, name } => find("pvcs", namespace, name),
        Lookup::Volume(name) => find("pvs", "", name),
        Lookup::Driver(name) => find("csidrivers", "", name),
        Lookup::ServiceAccount { namespace, name } => find("serviceaccounts", namespace, name),
        Lookup::List { .. } => LookupResult::Missing,
        Lookup::Access(access) => {
            let matches = |rule: &Value, field: &str, value: &str| {
                let wanted = rule[field].as_str().unwrap_or_default();
                wanted.is_empty() || wanted == value
            };
            let rules = case["lookups"]["sar"].as_array();
            let rule = rules.into_iter().flatten().find(|rule| {
                matches(rule, "user", &access.user)
                    && matches(rule, "verb", access.verb)
                    && matches(rule, "group", &access.group)
                    && matches(rule, "resource", &access.resource)
                    && matches(rule, "namespace", &access.namespace)
                    && matches(rule, "name", &access.name)
            });
            match rule.map(|rule| (rule["error"].as_str(), rule["allowed"].as_bool())) {
                Some((Some(error), _)) => LookupResult::Access(Err(error.to_owned())),
                Some((None, Some(true))) => LookupResult::Access(Ok(true)),
                _ => LookupResult::Access(Ok(false)),
            }
        }
    }
}

/// The object after our patch, which adds tolerations and does nothing else.
fn patched(object: &Value, patch: &[u8]) -> Value {
    // Through base64, as it travels.
    let patch = BASE64_STANDARD
        .decode(BASE64_STANDARD.encode(patch))
        .unwrap();
    let mut object = object.clone();
    for step in serde_json::from_slice::<Vec<Value>>(&patch).unwrap() {
        assert_eq!(step["op"], "add");
        match step["path"].as_str().unwrap() {
            "/spec/tolerations" => object["spec"]["tolerations"] = step["value"].clone(),
            "/spec/tolerations/-" => {
                let list = object["spec"]["tolerations"].as_array_mut().unwrap();
                list.push(step["value"].clone());
            }
            elsewhere => panic!("{elsewhere}"),
        }
    }
    object
}
