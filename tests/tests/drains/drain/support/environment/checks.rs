//! What every drain promises.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::ListParams;
use nodelife_tests::{AuditEvent, until};
use serde_json::json;

use super::TestEnvironment;

impl TestEnvironment {
    /// A drain that ended with 0 has left nothing on its nodes that it could have evicted, as a
    /// consistent list shows.
    pub(in crate::drain) async fn check_end(
        &self,
        arguments: &[impl AsRef<str>],
        status: Option<i32>,
    ) {
        let words: Vec<&str> = arguments.iter().map(AsRef::as_ref).collect();
        // These leave pods on purpose.
        let leave = ["--dry-run", "--undo", "--pod-selector", "--skip-wait"];
        let leaves = |word: &&str| leave.iter().any(|flag| word.starts_with(flag));
        if status != Some(0) || words.iter().any(leaves) {
            return;
        }
        let own = format!("{}-", self.namespace.name);
        let names = words.iter().map(|w| w.strip_prefix("node/").unwrap_or(w));
        for node in names.filter(|word| word.starts_with(&own)) {
            let mut left = self.everywhere_on(node).await;
            left.retain(|pod| !stays(pod, &words));
            assert!(left.is_empty(), "exit status 0, and on {node}: {left:#?}");
        }
    }

    /// The pods of a node, of all namespaces.
    async fn everywhere_on(&self, node: &str) -> Vec<Pod> {
        let selection = ListParams::default().fields(&format!("spec.nodeName={node}"));
        let pods: Api<Pod> = Api::all(self.namespace.client().clone());
        pods.list(&selection).await.unwrap().items
    }

    /// What the drains of this test asked of the API server, complete up to now. Other tests use
    /// the same server, so only what touches this test's namespace, its nodes or no object of
    /// a test at all is taken.
    pub(in crate::drain) async fn requests(&self) -> Vec<AuditEvent> {
        // A request that stands behind ours in the log shows that ours are all in it.
        let mark = format!("mark-{}", self.namespace.name);
        let _ = self.pods().get_opt(&mark).await.unwrap();
        let events = until("the audit log", async || {
            let events = self.plane.audit_events_after(self.before)?;
            let end = events.iter().rposition(|event| event.name() == mark);
            Ok(end.map(|_| events))
        })
        .await;
        let own = format!("{}-", self.namespace.name);
        events
            .into_iter()
            .filter(|event| event.user_agent.starts_with("nodelife/"))
            .filter(|event| !self.is_by_maintenance || !is_of_controller(event))
            .filter(|event| {
                event.namespace() == self.namespace.name
                    || self.user.as_deref() == Some(event.username())
                    || event.name().starts_with(&own)
                    || event.request_uri.contains(&own)
            })
            .collect()
    }

    pub(in crate::drain) async fn evictions(&self) -> Vec<AuditEvent> {
        let mut requests = self.requests().await;
        requests.retain(|event| event.is("create", "pods/eviction"));
        requests
    }

    /// What every drain promises: at most one accepted eviction a pod, the UID in each body, no
    /// deletion, only pods of `node`, given as they were before, and no budget with fewer Ready
    /// pods than it wants by an eviction of ours.
    pub(in crate::drain) async fn check(&self, on_node: &[Pod]) {
        self.check_forced(on_node, &[]).await;
    }

    /// The same where flags had the pods of these names deleted past their budgets.
    pub(in crate::drain) async fn check_forced(&self, on_node: &[Pod], forced: &[&str]) {
        let ours = on_node.iter().map(|pod| pod.metadata.uid.clone().unwrap());
        self.check_requests(&ours.collect(), forced).await;
    }

    /// The same for nodes that pods come back to: the watches of the test saw which ones.
    pub(in crate::drain) async fn check_nodes(&self, is_one: impl Fn(&str) -> bool) {
        let history = self.history.as_ref().unwrap();
        let ours = history.pods_on(&self.namespace, is_one).await;
        self.check_requests(&ours, &[]).await;
    }

    async fn check_requests(&self, ours: &BTreeSet<String>, forced: &[&str]) {
        let mut accepted: BTreeMap<String, u32> = BTreeMap::new();
        let mut evicted = BTreeSet::new();
        for event in self.requests().await {
            let deletes = event.is("delete", "pods") || event.is("deletecollection", "pods");
            assert!(
                !deletes || forced.contains(&event.name()),
                "a pod was deleted: {event:?}"
            );
            let evicts = event.is("create", "pods/eviction");
            if !(evicts || deletes) || is_dry(&event) {
                continue;
            }
            let Some(uid) = uid_of(&event) else {
                // Who is sent back before the body is read.
                let unread = event.request_object.is_none() && [403, 429].contains(&event.code());
                assert!(unread, "no UID: {event:?}");
                continue;
            };
            assert!(ours.contains(&uid), "{uid} was not on the node: {event:?}");
            if [200, 201].contains(&event.code()) {
                *accepted.entry(uid.clone()).or_default() += 1;
                // What is forced passes its budget by.
                if evicts {
                    evicted.insert(uid);
                }
            }
        }
        for (uid, count) in &accepted {
            assert_eq!(*count, 1, "{uid} was evicted more than once");
        }
        if let Some(history) = &self.history {
            history.check(&self.namespace, &evicted).await;
        }
    }

    /// A refused run reads and writes nothing.
    pub(in crate::drain) async fn check_nothing_written(&self) {
        let written: Vec<AuditEvent> = self
            .requests()
            .await
            .into_iter()
            .filter(|event| !["get", "list", "watch"].contains(&event.verb.as_str()))
            // Their answer is all that becomes of them.
            .filter(|event| !event.is("create", "selfsubjectaccessreviews"))
            .filter(|event| !event.is("create", "selfsubjectreviews"))
            .filter(|event| !is_dry(event))
            .collect();
        assert!(written.is_empty(), "{written:#?}");
    }
}

/// Whether a drain leaves this pod where it is.
fn stays(pod: &Pod, words: &[&str]) -> bool {
    let meta = &pod.metadata;
    let has = |map: &Option<BTreeMap<String, String>>, key: &str, value: Option<&str>| {
        let found = map.as_ref().and_then(|map| map.get(key));
        found.is_some_and(|found| value.is_none_or(|value| value == found))
    };
    let mut owners = meta.owner_references.iter().flatten();
    let app = meta.labels.as_ref().and_then(|labels| labels.get("app"));
    let asked = app.is_some_and(|app| words.contains(&&*format!("--pod-rule=app={app}:skip")));
    asked
        || owners.any(|owner| owner.controller == Some(true) && owner.kind == "DaemonSet")
        || has(&meta.annotations, "kubernetes.io/config.mirror", None)
        || has(&meta.annotations, "nodelife.dev/drain", Some("skip"))
        || has(&meta.labels, "cluster.x-k8s.io/drain", Some("skip"))
}

/// The UID in the body of an eviction, or of a deletion.
fn uid_of(event: &AuditEvent) -> Option<String> {
    let body = event.request_object.as_ref()?;
    let options = body.get("deleteOptions").unwrap_or(body);
    let uid = options.pointer("/preconditions/uid")?;
    Some(uid.as_str()?.to_owned())
}

/// Whether it was to change nothing.
fn is_dry(event: &AuditEvent) -> bool {
    let body = event.request_object.as_ref();
    event.request_uri.contains("dryRun=All")
        || body.is_some_and(|body| body.get("dryRun") == Some(&json!(["All"])))
}

/// Whether it is the controller's own, and not of the drain that it carries out.
fn is_of_controller(event: &AuditEvent) -> bool {
    let resource = event.object_ref.as_ref().map(|object| &*object.resource);
    match resource {
        // Who may not write one is sent back before its name is read.
        Some("events") if event.code() == 403 => event.name().is_empty(),
        Some("events") => event.name().starts_with("drain-"),
        Some(resource) => ["leases", "nodemaintenances"].contains(&resource),
        None => false,
    }
}
