//! Policy that restricts agents to their own node.
//!
//! The ServiceAccount of a DaemonSet has the same permissions on every node, so an attacker on
//! one node has them for all nodes. The token of a pod names the node that it was issued for
//! (`authentication.kubernetes.io/node-name` and `node-uid`, Kubernetes 1.32 and later). For the
//! configured ServiceAccounts, these two decide which objects they may write. RBAC must still
//! allow the write: this policy only restricts further.

use serde_json::value::RawValue;

use crate::config::Agent;
use crate::decision::{Checked, Interrupted};
use crate::denial::Denial;
use crate::go_quote::Quoted;
use crate::json::difference::{self, Compare, Fields};
use crate::lookup::{Lookup, LookupResult, Lookups, PodFacts};
use crate::review::{Operation, Request, User};
use crate::rule::AdmissionRule;

const RULE: AdmissionRule = AdmissionRule::Agents;
pub(crate) const USER_PREFIX: &str = "system:serviceaccount:";
/// Node of the pod that the token is bound to (apiserver pkg/authentication/serviceaccount).
const NODE_NAME: &str = "authentication.kubernetes.io/node-name";
/// UID of that node: another node may have the name now.
const NODE_UID: &str = "authentication.kubernetes.io/node-uid";
const REMEDY: &str = "an agent may only write to the node of its own pod, with a pod-bound token";
const TOKEN_REMEDY: &str =
    "agents[].tokens lists the other accounts whose tokens an agent may request";

struct Own<'a> {
    agent: &'a Agent,
    node: String,
}

/// Checks the writes of the configured ServiceAccounts; all others pass.
pub(crate) fn check(request: &Request<'_>, agents: &[Agent], lookups: &Lookups) -> Checked {
    let Some(account) = request.user().name().strip_prefix(USER_PREFIX) else {
        return Ok(());
    };
    let Some(agent) = agents.iter().find(|agent| agent.service_account == account) else {
        return Ok(());
    };
    let (group, resource) = request.group_resource();
    let kind = if group.is_empty() {
        resource.to_owned()
    } else {
        format!("{resource}.{group}")
    };
    let path = match (group, resource) {
        ("", "nodes") => "metadata.name",
        ("", "pods") => "spec.nodeName",
        // The token that is requested names its node, not the account.
        ("", "serviceaccounts") if request.subresource() == "token" => "",
        _ => match agent.resources.get(&kind) {
            Some(path) => path.as_str(),
            // For resources that are not configured, RBAC alone decides.
            None => return Ok(()),
        },
    };
    let node = own_node(request.user(), lookups)?;
    let own = Own { agent, node };
    if request.operation() == Operation::Connect {
        let subresource = Quoted(request.subresource());
        return Err(deny(format!(
            "an agent may not connect to {resource} by {subresource}"
        )));
    }
    match (group, resource, request.subresource()) {
        ("", "pods", "" | "status") => own.check_pod(request),
        ("", "pods", "eviction") => own.check_eviction(request, lookups),
        ("", "serviceaccounts", "token") => own.check_token(request, lookups),
        ("", "pods", subresource) => {
            let subresource = Quoted(subresource);
            Err(deny(format!(
                "an agent may not use the pod subresource {subresource}"
            )))
        }
        _ => own.check_object(request, path, resource == "nodes" && group.is_empty()),
    }
}

fn deny(message: String) -> Interrupted {
    Denial::forbidden(RULE, message).remedy(REMEDY).into()
}

/// The node of the token, which must still have the UID in the token.
fn own_node(user: &User<'_>, lookups: &Lookups) -> Checked<String> {
    let extra = user.extra(RULE)?;
    let one = |key: &str| match extra.get(key).map(Vec::as_slice) {
        Some([value]) if !value.is_empty() => Ok(value.to_string()),
        _ => Err(deny(format!(
            "the token of {} must have exactly one {key}",
            Quoted(user.name())
        ))),
    };
    let (node, uid) = (one(NODE_NAME)?, one(NODE_UID)?);
    let lookup = Lookup::Node(node.clone());
    match lookups.get(&lookup) {
        None => Err(lookup.into()),
        Some(LookupResult::Uid(live)) if *live == uid => Ok(node),
        Some(LookupResult::Uid(_) | LookupResult::Missing) => Err(deny(format!(
            "the token was issued for an earlier node named {}",
            Quoted(&node)
        ))),
        Some(LookupResult::Failed(error)) => Err(Denial::unavailable(RULE, error).into()),
        Some(_) => Err(Denial::unavailable(RULE, "failed to use the answer to a lookup").into()),
    }
}

fn objects<'a>(request: &Request<'a>) -> Result<(Option<Fields<'a>>, Option<Fields<'a>>), Denial> {
    let operation = request.operation();
    let old = match operation {
        Operation::Create | Operation::Connect => None,
        Operation::Update | Operation::Delete => Some(request.old_object(RULE)?),
    };
    let new = match operation {
        Operation::Delete | Operation::Connect => None,
        Operation::Create | Operation::Update => Some(request.object(RULE)?),
    };
    Ok((old, new))
}

impl Own<'_> {
    fn deny(&self, what: &str) -> Interrupted {
        deny(format!("the agent on node {} {what}", Quoted(&self.node)))
    }

    fn is_own(&self, object: &Fields<'_>, path: &str) -> bool {
        *difference::text_at(object, path) == self.node
    }

    /// A node or a custom resource must belong to the agent's node before and after the operation.
    fn check_object(&self, request: &Request<'_>, path: &str, is_node: bool) -> Checked {
        let (old, new) = objects(request)?;
        if [&old, &new]
            .into_iter()
            .flatten()
            .any(|object| !self.is_own(object, path))
        {
            let (_, resource) = request.group_resource();
            let what = format!("may only write {resource} with {path} set to its own node");
            return Err(self.deny(&what));
        }
        match (is_node, old, new) {
            // Only the configured fields may change.
            (true, Some(old), Some(new)) => match difference::first(&old, &new, self) {
                Some(path) => Err(self.deny(&format!("may not change {path} of its node"))),
                None => Ok(()),
            },
            (true, ..) => Err(deny(
                "an agent may neither create nor delete nodes".to_owned(),
            )),
            _ => Ok(()),
        }
    }

    fn may_change(&self, path: &str) -> bool {
        // The API server maintains these.
        if path == "metadata.resourceVersion"
            || path == "metadata.generation"
            || path.starts_with("metadata.managedFields")
        {
            return true;
        }
        let listed = |prefixes: &[String], key: &str| {
            prefixes
                .iter()
                .any(|prefix| !prefix.is_empty() && key.starts_with(prefix))
        };
        if let Some(key) = path.strip_prefix("metadata.labels.") {
            return listed(&self.agent.labels, key);
        }
        if let Some(key) = path.strip_prefix("metadata.annotations.") {
            return listed(&self.agent.annotations, key);
        }
        listed(&self.agent.fields, path)
    }

    /// Pods of its own node: their status and their deletion. A pod that is created with a
    /// node's name goes around the scheduler, so agents create none.
    fn check_pod(&self, request: &Request<'_>) -> Checked {
        if request.operation() == Operation::Create {
            return Err(deny("an agent may not create pods".to_owned()));
        }
        self.check_object(request, "spec.nodeName", false)
    }

    fn check_eviction(&self, request: &Request<'_>, lookups: &Lookups) -> Checked {
        if self.find_pod(request, request.name(), lookups)?.is_some() {
            return Ok(());
        }
        Err(self.deny("may only evict pods of its own node"))
    }

    /// A token that is bound to a pod or a node names its node: with a token of its account for another
    /// node, the agent could write there. RBAC often allows the tokens of all accounts, so others
    /// than its own need to be configured; calico-node requests such a token, bound to nothing, for
    /// its CNI plugin.
    fn check_token(&self, request: &Request<'_>, lookups: &Lookups) -> Checked {
        let deny = |what: &str| -> Checked {
            let message = format!("the agent on node {} {what}", Quoted(&self.node));
            let denial = Denial::forbidden(RULE, message);
            Err(denial.remedy(TOKEN_REMEDY).into())
        };
        let account = format!("{}:{}", request.namespace(), request.name());
        let is_its_own = account == self.agent.service_account;
        if !is_its_own && !self.agent.tokens.contains(&account) {
            let account = Quoted(&account);
            return deny(&format!("may not request tokens of {account}"));
        }
        let token: Fields<'_> = request.object(RULE)?;
        let bound =
            |field: &str| difference::text_at(&token, &format!("spec.boundObjectRef.{field}"));
        let is_allowed = match &*bound("kind") {
            "Pod" => {
                let pod = self.find_pod(request, &bound("name"), lookups)?;
                pod.is_some_and(|pod| pod.uid == *bound("uid"))
            }
            "Node" => *bound("name") == self.node,
            _ => !is_its_own,
        };
        if is_allowed {
            return Ok(());
        }
        deny(
            "may only request tokens that are bound to its own node or, with the uid, to a pod of it",
        )
    }

    fn find_pod<'l>(
        &self,
        request: &Request<'_>,
        name: &str,
        lookups: &'l Lookups,
    ) -> Checked<Option<&'l PodFacts>> {
        let lookup = Lookup::Pod {
            namespace: request.namespace().to_owned(),
            name: name.to_owned(),
        };
        match lookups.get(&lookup) {
            None => Err(lookup.into()),
            Some(LookupResult::Pod(pod)) if pod.node == self.node => Ok(Some(pod)),
            Some(LookupResult::Failed(error)) => Err(Denial::unavailable(RULE, error).into()),
            Some(_) => Ok(None),
        }
    }
}

/// Entries of maps are compared one by one, lists as a whole.
impl Compare for Own<'_> {
    fn differs(&self, path: &str, old: &RawValue, new: &RawValue) -> bool {
        !self.may_change(path) && !difference::equal(old, new)
    }
}
