use nodelife_core::object::{LabelSelector, Labels};

use super::*;

fn policies(exempt: &Value) -> Policies {
    serde_json::from_value(json!({"exemptNamespaces": exempt})).unwrap()
}

/// The webhooks for tokens that select a namespace.
fn selecting(policies: &Policies, name: &str, labelled: bool) -> Vec<&'static str> {
    let mut labels = Labels::from([("kubernetes.io/metadata.name".into(), name.into())]);
    if labelled {
        labels.insert("nodelife.dev/webhook".into(), "exempt".into());
    }
    let tokens = [
        Webhook::NodeTokens,
        Webhook::ExemptTokens,
        Webhook::LabelledTokens,
    ];
    let selecting = tokens.into_iter().filter(|one| {
        let selector = one.entry(policies)["namespaceSelector"].take();
        LabelSelector::deserialize(selector)
            .unwrap()
            .matches(&labels)
    });
    selecting.map(Webhook::as_str).collect()
}

#[test]
fn one_webhook_judges_the_tokens_of_each_namespace() {
    let [others, exempt, labelled] = [
        "node-tokens.nodelife.dev",
        "exempt-node-tokens.nodelife.dev",
        "labelled-node-tokens.nodelife.dev",
    ];
    let named = policies(&json!(["nodelife-system", "kube-flannel"]));
    let unnamed = policies(&json!([]));
    for (policies, name, is_labelled, expected) in [
        (&named, "default", false, others),
        (&named, "default", true, labelled),
        (&named, "kube-flannel", false, exempt),
        (&named, "kube-flannel", true, exempt),
        (&unnamed, "nodelife-system", false, others),
        (&unnamed, "nodelife-system", true, labelled),
    ] {
        let found = selecting(policies, name, is_labelled);
        assert_eq!(found, [expected], "{name} {is_labelled}");
    }
}

/// The API server refuses such a selector.
#[test]
fn no_selector_has_an_empty_list_of_values() {
    let configurations = webhook_configurations(&policies(&json!([])));
    let text = serde_json::to_string(&configurations).unwrap();
    assert!(!text.contains(r#""values":[]"#), "{text}");
}

#[test]
fn each_resource_with_a_rule_has_a_label() {
    for name in ["nodes", "leases", "serviceaccounts", "events"] {
        assert_eq!(registered_resource(name), Some(name));
    }
    assert_eq!(registered_resource("configmaps"), None);
}
