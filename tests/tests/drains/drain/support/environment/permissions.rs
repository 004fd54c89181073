//! Whom the drains of a test act as, and what that user may do.

use k8s_openapi::api::authorization::v1::SubjectAccessReview;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::rbac::v1::{ClusterRole, PolicyRule};
use kube::api::PostParams;
use kube::{Api, Client};
use nodelife_core::node_marks::LOCK_NAMESPACE;
use nodelife_tests::kubectl::Kubectl;
use nodelife_tests::{Identity, until};
use serde_json::{Value, json};

use super::super::controller::is_by_maintenance;
use super::TestEnvironment;

/// A word, verbs and resources, as `kubectl create clusterrole` takes them.
pub(in crate::drain) type Permission = (&'static str, &'static str, &'static str);

/// What every drain reads.
pub(in crate::drain) const READ: Permission = (
    "read",
    "get,list,watch",
    "nodes,pods,poddisruptionbudgets.policy",
);

/// To evict pods.
pub(in crate::drain) const EVICT: Permission = ("evict", "create", "pods/eviction");

/// To cordon nodes.
pub(in crate::drain) const CORDON: Permission = ("cordon", "patch", "nodes");

/// To lock nodes: every user has it who does not act without.
const LOCK: Permission = (
    "lock",
    "list,create,patch,delete",
    "leases.coordination.k8s.io",
);

/// To write events.
pub(in crate::drain) const EVENTS: Permission = ("events", "create", "events.events.k8s.io");

/// What the controller needs beside what its drains do.
const CONTROLLER: &[Permission] = &[
    (
        "objects",
        "list,watch,patch",
        "nodemaintenances.nodelife.dev",
    ),
    ("status", "patch", "nodemaintenances.nodelife.dev/status"),
    (
        "elect",
        "get,create,update,patch",
        "leases.coordination.k8s.io",
    ),
];

impl TestEnvironment {
    /// Drains as a user with these permissions alone: a word for each, its verbs and its resources.
    pub(in crate::drain) async fn act_with(&mut self, permissions: &[Permission]) {
        let lock: &[Permission] = if self.user.is_none() { &[LOCK] } else { &[] };
        self.act(permissions, None).await;
        self.act(lock, None).await;
    }

    /// The same, without the right to lock nodes.
    pub(in crate::drain) async fn act_without_lock(&mut self, permissions: &[Permission]) {
        self.act(permissions, None).await;
    }

    /// The same in this namespace alone.
    pub(in crate::drain) async fn act_in_namespace(&mut self, permissions: &[Permission]) {
        let namespace = format!("--namespace={}", self.namespace.name);
        self.act(permissions, Some(&namespace)).await;
    }

    /// Drains with the token of this pod, which may do everything.
    pub(in crate::drain) async fn act_as(&mut self, pod: &Pod) {
        let (ns, meta) = (self.namespace.name.clone(), &pod.metadata);
        let kubectl = Kubectl::new(self.plane, &Identity::Admin).unwrap();
        let (binding, account) = (
            format!("{ns}-own"),
            format!("--serviceaccount={ns}:default"),
        );
        let admin = "--clusterrole=cluster-admin";
        let bind = ["create", "clusterrolebinding", &binding, admin, &account];
        kubectl.run(bind).await.unwrap().success().unwrap();
        let user = format!("system:serviceaccount:{ns}:default");
        wait_until_allowed(self.namespace.client(), &user, "cluster-admin", None).await;
        let name = format!("--bound-object-name={}", meta.name.as_deref().unwrap());
        let uid = format!("--bound-object-uid={}", meta.uid.as_deref().unwrap());
        let kind = "--bound-object-kind=Pod";
        let token = ["create", "token", "default", "-n", &ns, kind, &name, &uid];
        let token = kubectl.run(token).await.unwrap().success().unwrap();
        self.token = Some(token.trim().to_owned());
        self.user = Some(user);
        self.kubeconfig = self.plane.kubeconfig_file(&self.identity()).unwrap();
    }

    /// The namespace of the locks, which not everybody may create.
    pub(in crate::drain) async fn make_lock_namespace(&self) {
        let kubectl = Kubectl::new(self.plane, &Identity::Admin).unwrap();
        // It may be there.
        let _ = kubectl.run(["create", "namespace", LOCK_NAMESPACE]).await;
    }

    async fn act(&mut self, permissions: &[Permission], namespace: Option<&str>) {
        self.make_lock_namespace().await;
        let kubectl = Kubectl::new(self.plane, &Identity::Admin).unwrap();
        let is_controller = is_by_maintenance() && self.user.is_none();
        let controller = if is_controller { CONTROLLER } else { &[] };
        for (word, verbs, resources) in permissions.iter().chain(controller) {
            let role = format!("{}-user-{word}", self.namespace.name);
            let (verbs, resources) = (format!("--verb={verbs}"), format!("--resource={resources}"));
            let made = kubectl.run(["create", "clusterrole", &role, &verbs, &resources]);
            made.await.unwrap().success().unwrap();
            self.bind(&role, namespace).await;
        }
    }

    /// Drains as a user with the permissions of this ClusterRole, and those that it had before.
    pub(in crate::drain) async fn act_under(&mut self, role: &str) {
        self.bind(role, None).await;
    }

    async fn bind(&mut self, role: &str, namespace: Option<&str>) {
        let bind = match namespace {
            Some(_) => "rolebinding",
            None => "clusterrolebinding",
        };
        let user = format!("{}-user", self.namespace.name);
        let kubectl = Kubectl::new(self.plane, &Identity::Admin).unwrap();
        let binding = format!("{user}-{role}");
        let (of, to) = (format!("--clusterrole={role}"), format!("--user={user}"));
        let words = ["create", bind, &binding, &of, &to].into_iter();
        let bound = kubectl.run(words.chain(namespace));
        bound.await.unwrap().success().unwrap();
        let client = self.namespace.client();
        let namespace = namespace.map(|_| &*self.namespace.name);
        wait_until_allowed(client, &user, role, namespace).await;
        self.user = Some(user);
        self.kubeconfig = self.plane.kubeconfig_file(&self.identity()).unwrap();
        let is_other = is_by_maintenance() && self.controller.get().is_some_and(|c| !c.is_alone());
        assert!(!is_other, "the controller has other rights");
    }
}

/// Waits until the authorizer, which learns of a binding by a watch, allows the user all that the
/// role says.
pub(in crate::drain) async fn wait_until_allowed(
    client: &Client,
    user: &str,
    role: &str,
    namespace: Option<&str>,
) {
    let cluster_roles: Api<ClusterRole> = Api::all(client.clone());
    let role = cluster_roles.get(role).await.unwrap();
    let rules = role.rules.unwrap_or_default();
    let reviews: Api<SubjectAccessReview> = Api::all(client.clone());
    for attributes in rules.iter().flat_map(|rule| requests(rule, namespace)) {
        let review = json!({"spec": {"user": user, "resourceAttributes": attributes}});
        let review: SubjectAccessReview = serde_json::from_value(review).unwrap();
        until(&format!("permission: {attributes}"), async || {
            let answer = reviews.create(&PostParams::default(), &review).await?;
            Ok(answer.status.is_some_and(|it| it.allowed).then_some(()))
        })
        .await;
    }
}

/// The requests that a rule allows, one for each verb and resource.
fn requests(rule: &PolicyRule, namespace: Option<&str>) -> Vec<Value> {
    let name = rule.resource_names.iter().flatten().next();
    let mut requests = Vec::new();
    for group in rule.api_groups.iter().flatten() {
        for resource in rule.resources.iter().flatten() {
            let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
            requests.extend(rule.verbs.iter().map(|verb| {
                json!({
                    "verb": verb, "group": group, "resource": resource,
                    "subresource": subresource, "namespace": namespace, "name": name,
                })
            }));
        }
    }
    requests
}
