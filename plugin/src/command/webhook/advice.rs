//! Advice whether `failurePolicy: Fail` is safe.

use serde_json::Value;

use super::chain::{
    Health, Installed, Link, exempts, is_closed, link, named, names, ok, reviews_tokens,
};
use super::node_agents;

/// Webhook configurations are never sent to webhooks, so this always works.
const BREAK_GLASS: &str = "kubectl delete validatingwebhookconfiguration,mutatingwebhookconfiguration -l app.kubernetes.io/name=nodelife allows every request again";

/// Advises against Fail where it could lock the cluster: while a link is broken, where one
/// node takes every replica along, and where what the cluster needs to heal itself would
/// have to pass a webhook that is down. `None` where nothing fails closed.
pub(super) fn fail(installed: &Installed, links: &[Link]) -> Option<Link> {
    let webhooks: Vec<&Value> = installed.webhooks.iter().flatten().flatten().collect();
    let closed = names(&webhooks, is_closed);
    if closed.is_empty() {
        return None;
    }
    let mut closed_webhooks = webhooks.iter().filter(|one| is_closed(one));
    let closes_tokens = closed_webhooks.any(|one| reviews_tokens(one));
    let mut reasons: Vec<String> = links
        .iter()
        .filter(|one| match one.name {
            node_agents::LINK => closes_tokens && one.health != Health::Ok,
            _ => matches!(one.health, Health::Broken | Health::Warning),
        })
        .map(|one| one.name.to_owned())
        .collect();
    let pod_starts: Vec<&Value> = installed.webhooks[0].iter().flatten().collect();
    let caught = names(&pod_starts, |one| {
        is_closed(one) && !exempts(one, &named("kube-system"))
    });
    if !caught.is_empty() {
        reasons.push(format!("{caught} also fails closed in kube-system"));
    }
    if reasons.is_empty() {
        let message = format!("Fail for {closed}, with replicas on several nodes");
        return Some(ok("failurePolicy", message));
    }
    let message = format!(
        "Fail is not advised for {closed}: writes of nodes may be refused ({})",
        reasons.join(", ")
    );
    Some(link("failurePolicy", Health::Warning, message, BREAK_GLASS))
}

#[cfg(test)]
mod tests {
    use super::super::chain::inspect;
    use super::super::chain::tests::{now, sound};
    use super::*;
    use serde_json::json;

    fn closed() -> Installed {
        let mut installed = sound();
        if let Some(webhooks) = &mut installed.webhooks[1] {
            webhooks[0]["failurePolicy"] = json!("Fail");
        }
        installed
    }

    fn advice(installed: &Installed) -> Link {
        fail(installed, &inspect(installed, now())).unwrap()
    }

    #[test]
    fn is_against_fail_only_where_it_could_lock_the_cluster() {
        assert_eq!(fail(&sound(), &inspect(&sound(), now())), None);
        assert_eq!(advice(&closed()).health, Health::Ok);

        let mut lonely = closed();
        lonely.endpoints = Ok(Vec::new());
        let against = advice(&lonely);
        assert_eq!(against.health, Health::Warning);
        assert!(against.message.contains("(endpoints)"), "{against:?}");
        assert!(against.fix.starts_with("kubectl delete"), "{against:?}");

        let mut strict = closed();
        if let Some(webhooks) = &mut strict.webhooks[0] {
            webhooks[0]["failurePolicy"] = json!("Fail");
            webhooks[0]["namespaceSelector"]["matchExpressions"][0]["values"] =
                json!(["nodelife-system"]);
        }
        let against = advice(&strict);
        assert!(
            against
                .message
                .contains("node-tokens.nodelife.dev also fails closed in kube-system"),
            "{against:?}"
        );
    }

    #[test]
    fn a_node_agent_counts_only_where_tokens_fail_closed() {
        let unknown = link(node_agents::LINK, Health::Unknown, "forbidden", "");
        let mut installed = closed();
        let mut links = inspect(&installed, now());
        links.push(unknown);
        assert_eq!(fail(&installed, &links).unwrap().health, Health::Ok);
        if let Some(webhooks) = &mut installed.webhooks[0] {
            webhooks[0]["failurePolicy"] = json!("Fail");
        }
        let against = fail(&installed, &links).unwrap();
        assert!(against.message.contains("(nodeAgents)"), "{against:?}");
    }
}
