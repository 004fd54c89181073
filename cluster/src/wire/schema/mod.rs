//! The fields of Kubernetes objects that nodelife reads, by their protobuf tags.
//!
//! Tags are those of `generated.proto` in k8s.io/api v0.36.3 and k8s.io/apimachinery
//! v0.36.3; they never change in a version of an API. A field that core's types gain
//! is one line here, with its name in JSON.

pub(crate) type Message = [Field];

#[derive(Debug)]
pub(crate) struct Field {
    pub(crate) tag: u32,
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    /// Whether JSON shows a zero: for a pointer, or without `omitempty`. Go's protobuf writes
    /// every field that is not a pointer.
    pub(crate) shows_zero: bool,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    Text,
    Int,
    Bool,
    /// `metav1.Time` and `MicroTime`: RFC 3339 in JSON, null when zero.
    Time,
    /// `resource.Quantity`: a message with one string.
    Quantity,
    /// `intstr.IntOrString`: a number or a string in JSON.
    IntOrString,
    Message(&'static Message),
    /// A message whose fields stand in the parent's JSON object.
    Inline(&'static Message),
    Texts,
    Messages(&'static Message),
    /// A map with string keys; the kind of its values.
    Map(&'static Self),
}

const fn field(tag: u32, name: &'static str, kind: Kind) -> Field {
    Field {
        tag,
        name,
        kind,
        shows_zero: false,
    }
}

const fn shown(tag: u32, name: &'static str, kind: Kind) -> Field {
    Field {
        shows_zero: true,
        ..field(tag, name, kind)
    }
}

use Kind::{Bool, Int, Map, Messages, Text, Texts, Time};

mod groups;
mod v1;
mod workload;

pub(crate) use groups::*;
pub(crate) use v1::*;
pub(crate) use workload::*;

const QUANTITIES: Kind = Map(&Kind::Quantity);
const STRINGS: Kind = Map(&Text);

// --- k8s.io/apimachinery ------------------------------------------------------

static META: [Field; 12] = [
    field(1, "name", Text),
    field(3, "namespace", Text),
    field(5, "uid", Text),
    field(6, "resourceVersion", Text),
    field(7, "generation", Int),
    field(8, "creationTimestamp", Time),
    field(9, "deletionTimestamp", Time),
    shown(10, "deletionGracePeriodSeconds", Int),
    field(11, "labels", STRINGS),
    field(12, "annotations", STRINGS),
    field(13, "ownerReferences", Messages(&OWNER)),
    field(14, "finalizers", Texts),
];

static OWNER: [Field; 5] = [
    field(5, "apiVersion", Text),
    field(1, "kind", Text),
    field(3, "name", Text),
    field(4, "uid", Text),
    shown(6, "controller", Bool),
];

/// `metav1.ListMeta`.
pub(crate) static LIST_META: [Field; 3] = [
    field(2, "resourceVersion", Text),
    field(3, "continue", Text),
    shown(4, "remainingItemCount", Int),
];

/// `metav1.Status`.
pub(crate) static STATUS: [Field; 6] = [
    field(1, "metadata", Kind::Message(&LIST_META)),
    field(2, "status", Text),
    field(3, "message", Text),
    field(4, "reason", Text),
    field(5, "details", Kind::Message(&STATUS_DETAILS)),
    field(6, "code", Int),
];

static STATUS_DETAILS: [Field; 6] = [
    field(1, "name", Text),
    field(2, "group", Text),
    field(3, "kind", Text),
    field(4, "causes", Messages(&STATUS_CAUSE)),
    field(5, "retryAfterSeconds", Int),
    field(6, "uid", Text),
];

static STATUS_CAUSE: [Field; 3] = [
    field(1, "reason", Text),
    field(2, "message", Text),
    field(3, "field", Text),
];

static SELECTOR: [Field; 2] = [
    field(1, "matchLabels", STRINGS),
    field(2, "matchExpressions", Messages(&REQUIREMENT)),
];

static REQUIREMENT: [Field; 3] = [
    field(1, "key", Text),
    field(2, "operator", Text),
    field(3, "values", Texts),
];

static CONDITION: [Field; 4] = [
    field(1, "type", Text),
    field(2, "status", Text),
    field(5, "reason", Text),
    field(6, "message", Text),
];

const fn with_spec(spec: &'static Message) -> [Field; 2] {
    [
        field(1, "metadata", Kind::Message(&META)),
        field(2, "spec", Kind::Message(spec)),
    ]
}

const fn object(spec: &'static Message, status: &'static Message) -> [Field; 3] {
    [
        field(1, "metadata", Kind::Message(&META)),
        field(2, "spec", Kind::Message(spec)),
        field(3, "status", Kind::Message(status)),
    ]
}
