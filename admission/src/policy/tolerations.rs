//! Default tolerations: how long pods stay on a node that is not ready or unreachable.
//!
//! Without configuration this is the in-tree plugin
//! (plugin/pkg/admission/defaulttolerationseconds/admission.go, v1.36.3). With it, seconds
//! differ by pod, and a toleration that the plugin has already added is changed in place: the
//! first toleration that matches a taint counts (pkg/controller/tainteviction
//! `getMinTolerationTime`), so appending a second one would have no effect.

use std::io::Write as _;

use nodelife_core::taint::{NOT_READY, UNREACHABLE};
use serde::Deserialize;

use crate::config::Tolerations;
use crate::decision::Patch;
use crate::denial::Denial;
use crate::go_quote::Quoted;
use crate::json::text::{Text, or_default};
use crate::review::{Operation, Request};
use crate::rule::AdmissionRule;

/// One of the two default tolerations, with the seconds that apply to it.
struct TaintDefault<'p> {
    taint: &'static str,
    annotation: &'static str,
    annotated: Option<&'p Text<'p>>,
    in_tree: i64,
    /// The seconds of the first policy that matches, or else those of the cluster.
    seconds: i64,
}

#[derive(Deserialize)]
struct Pod<'a> {
    #[serde(borrow, default, deserialize_with = "or_default")]
    metadata: Metadata<'a>,
    #[serde(default, deserialize_with = "or_default")]
    spec: Spec<'a>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Metadata<'a> {
    #[serde(borrow, deserialize_with = "or_default")]
    annotations: SecondsAnnotations<'a>,
    #[serde(deserialize_with = "or_default")]
    owner_references: Vec<Owner<'a>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct SecondsAnnotations<'a> {
    #[serde(borrow, rename = "nodelife.dev/not-ready-seconds")]
    not_ready: Option<Text<'a>>,
    #[serde(rename = "nodelife.dev/unreachable-seconds")]
    unreachable: Option<Text<'a>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Owner<'a> {
    #[serde(borrow)]
    kind: Text<'a>,
    controller: Option<bool>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Spec<'a> {
    #[serde(borrow)]
    tolerations: Option<Vec<Toleration<'a>>>,
    priority_class_name: Text<'a>,
    termination_grace_period_seconds: Option<i64>,
}

#[derive(Deserialize)]
struct Toleration<'a> {
    #[serde(borrow, default)]
    key: Text<'a>,
    #[serde(default)]
    operator: Text<'a>,
    #[serde(default)]
    value: Text<'a>,
    #[serde(default)]
    effect: Text<'a>,
    #[serde(default, rename = "tolerationSeconds")]
    seconds: Option<i64>,
}

impl Pod<'_> {
    /// Kind of its controller; empty if it has none.
    fn owner_kind(&self) -> &str {
        let owners = &self.metadata.owner_references;
        let controller = owners.iter().find(|owner| owner.controller == Some(true));
        controller.map_or("", |owner| &owner.kind)
    }

    /// DaemonSets give their pods both tolerations without a limit.
    fn is_of_daemon_set(&self) -> bool {
        self.owner_kind() == "DaemonSet"
    }
}

impl Toleration<'_> {
    /// Whether the plugin considers this a toleration of `taint`: by key and effect alone.
    fn covers(&self, taint: &str) -> bool {
        (self.key.is_empty() || &*self.key == taint)
            && (self.effect.is_empty() || &*self.effect == "NoExecute")
    }

    /// Whether it tolerates `taint`, which has no value (k8s.io/api core/v1
    /// `Toleration.ToleratesTaint`, v0.36.3).
    fn tolerates(&self, taint: &str) -> bool {
        self.covers(taint)
            && match &*self.operator {
                "Exists" => true,
                "" | "Equal" => self.value.is_empty(),
                _ => false,
            }
    }

    /// Whether it is exactly what the in-tree plugin appends.
    fn is_default(&self, taint: &str, seconds: i64) -> bool {
        &*self.key == taint
            && &*self.operator == "Exists"
            && self.value.is_empty()
            && &*self.effect == "NoExecute"
            && self.seconds == Some(seconds)
    }
}

#[derive(Default)]
pub(crate) struct Defaulted {
    pub(crate) patch: Option<Patch>,
    pub(crate) warnings: Vec<String>,
}

pub(crate) fn default(request: &Request<'_>, policy: &Tolerations) -> Result<Defaulted, Denial> {
    if !policy.enabled
        || request.group_resource() != ("", "pods")
        || !request.subresource().is_empty()
        || !matches!(request.operation(), Operation::Create | Operation::Update)
    {
        return Ok(Defaulted::default());
    }
    let is_new = request.operation() == Operation::Create;
    let pod: Pod<'_> = request.object(AdmissionRule::Tolerations)?;
    let present = pod.spec.tolerations.as_deref().unwrap_or_default();
    let mut warnings = Vec::new();
    let mut patch = PatchWriter::new(!present.is_empty());
    for condition in conditions(request.namespace(), &pod, policy) {
        let taint = condition.taint;
        if !present.iter().any(|one| one.covers(taint)) {
            patch.add(taint, condition.seconds_for(&pod, policy, &mut warnings));
            continue;
        }
        let mut numbered = present.iter().enumerate();
        let Some((index, counts)) = numbered.find(|(_, one)| one.tolerates(taint)) else {
            // It suppresses the default but matches no taint.
            warnings.push(format!(
                "nodelife tolerations: {taint} is not tolerated, use operator Exists; \
                 the pod is evicted at once"
            ));
            continue;
        };
        let by_default = counts.is_default(taint, condition.in_tree);
        if is_new && policy.rewrite && by_default && !pod.is_of_daemon_set() {
            let seconds = condition.seconds_for(&pod, policy, &mut warnings);
            if seconds != condition.in_tree {
                patch.set_seconds(index, seconds);
            }
        }
    }
    if let Some(wanted) = pod.spec.termination_grace_period_seconds
        && let Some(limit) = policy.shutdown_grace_period_seconds
        && is_new
        && wanted > limit
    {
        warnings.push(format!(
            "nodelife: terminationGracePeriodSeconds {wanted} is cut to {limit} when a node shuts down"
        ));
    }
    let patch = patch.finish();
    Ok(Defaulted { patch, warnings })
}

/// Both taints, with the seconds of the first matching policy.
fn conditions<'p>(
    namespace: &str,
    pod: &'p Pod<'_>,
    policy: &Tolerations,
) -> [TaintDefault<'p>; 2] {
    let annotations = &pod.metadata.annotations;
    let fits =
        |list: &[String], value: &str| list.is_empty() || list.iter().any(|one| one == value);
    let first = policy.policies.iter().find(|one| {
        !pod.is_of_daemon_set()
            && fits(&one.namespaces, namespace)
            && fits(&one.owner_kinds, pod.owner_kind())
            && fits(&one.priority_classes, &pod.spec.priority_class_name)
    });
    let not_ready = first.and_then(|one| one.not_ready_seconds);
    let unreachable = first.and_then(|one| one.unreachable_seconds);
    [
        TaintDefault {
            taint: NOT_READY,
            annotation: "nodelife.dev/not-ready-seconds",
            annotated: annotations.not_ready.as_ref(),
            in_tree: policy.in_tree.not_ready_seconds,
            seconds: not_ready.unwrap_or(policy.not_ready_seconds),
        },
        TaintDefault {
            taint: UNREACHABLE,
            annotation: "nodelife.dev/unreachable-seconds",
            annotated: annotations.unreachable.as_ref(),
            in_tree: policy.in_tree.unreachable_seconds,
            seconds: unreachable.unwrap_or(policy.unreachable_seconds),
        },
    ]
}

impl TaintDefault<'_> {
    /// The seconds for `pod`: those of its annotation if annotations are on, else the policy's.
    fn seconds_for(&self, pod: &Pod<'_>, policy: &Tolerations, warnings: &mut Vec<String>) -> i64 {
        let counts = policy.annotations && !pod.is_of_daemon_set();
        let Some(text) = self.annotated.filter(|_| counts) else {
            return self.seconds;
        };
        match text.parse() {
            Ok(seconds) if seconds >= 0 => seconds,
            _ => {
                warnings.push(format!(
                    "nodelife: {} is not a number of seconds, using {}: {}",
                    self.annotation,
                    self.seconds,
                    Quoted(text)
                ));
                self.seconds
            }
        }
    }
}

/// Bytes of a patch that adds two tolerations.
const USUAL_PATCH: usize = 320;

/// A `JSONPatch` of a list of tolerations, written without a tree: operations of the crate
/// json-patch, with a tree for each value, would cost more than two points of what an echo does.
/// Property tests read and apply what is written here with that crate.
struct PatchWriter {
    has_list: bool,
    steps: Vec<u8>,
    added: Vec<u8>,
}

impl PatchWriter {
    fn new(has_list: bool) -> Self {
        Self {
            has_list,
            steps: Vec::new(),
            added: Vec::new(),
        }
    }

    fn begin_step(&mut self) {
        let separator = if self.steps.is_empty() { b'[' } else { b',' };
        self.steps.push(separator);
    }

    fn set_seconds(&mut self, index: usize, seconds: i64) {
        self.begin_step();
        // Writing to a Vec does not fail, here and below.
        let _ = write!(
            self.steps,
            r#"{{"op":"replace","path":"/spec/tolerations/{index}/tolerationSeconds","value":{seconds}}}"#
        );
    }

    /// Appends to the list, or collects items for a new one: `add` to an absent list would fail.
    fn add(&mut self, taint: &str, seconds: i64) {
        if self.has_list {
            self.begin_step();
            self.steps
                .extend_from_slice(br#"{"op":"add","path":"/spec/tolerations/-","value":"#);
            toleration(&mut self.steps, taint, seconds);
            self.steps.push(b'}');
        } else {
            if self.added.is_empty() {
                self.added.reserve(USUAL_PATCH);
            } else {
                self.added.push(b',');
            }
            toleration(&mut self.added, taint, seconds);
        }
    }

    fn finish(mut self) -> Option<Patch> {
        if !self.added.is_empty() {
            self.steps.reserve(USUAL_PATCH);
            self.begin_step();
            self.steps
                .extend_from_slice(br#"{"op":"add","path":"/spec/tolerations","value":["#);
            self.steps.append(&mut self.added);
            self.steps.extend_from_slice(b"]}");
        }
        if self.steps.is_empty() {
            return None;
        }
        self.steps.push(b']');
        Some(Patch(self.steps))
    }
}

fn toleration(bytes: &mut Vec<u8>, taint: &str, seconds: i64) {
    let _ = write!(
        bytes,
        r#"{{"key":"{taint}","operator":"Exists","effect":"NoExecute","tolerationSeconds":{seconds}}}"#
    );
}
