//! Protobuf fields of the other API groups: policy, coordination, storage, certificates, rbac.

use super::Kind::{Bool, Int, IntOrString, Map, Messages, Text, Texts, Time};
use super::{CONDITION, Field, Kind, META, SELECTOR, field, object, shown, with_spec};

// --- coordination.k8s.io/v1, policy/v1 ------------------------------------------

pub(crate) static LEASE: [Field; 2] = with_spec(&LEASE_SPEC);

static LEASE_SPEC: [Field; 4] = [
    shown(1, "holderIdentity", Text),
    shown(2, "leaseDurationSeconds", Int),
    field(4, "renewTime", Time),
    shown(5, "leaseTransitions", Int),
];

pub(crate) static BUDGET: [Field; 3] = object(&BUDGET_SPEC, &BUDGET_STATUS);

static BUDGET_SPEC: [Field; 4] = [
    shown(1, "minAvailable", IntOrString),
    field(2, "selector", Kind::Message(&SELECTOR)),
    shown(3, "maxUnavailable", IntOrString),
    shown(4, "unhealthyPodEvictionPolicy", Text),
];

static BUDGET_STATUS: [Field; 7] = [
    field(1, "observedGeneration", Int),
    field(2, "disruptedPods", Map(&Time)),
    shown(3, "disruptionsAllowed", Int),
    shown(4, "currentHealthy", Int),
    shown(5, "desiredHealthy", Int),
    shown(6, "expectedPods", Int),
    field(7, "conditions", Messages(&CONDITION)),
];

// --- autoscaling/v2 -----------------------------------------------------------

pub(crate) static AUTOSCALER: [Field; 2] = with_spec(&AUTOSCALER_SPEC);

static AUTOSCALER_SPEC: [Field; 3] = [
    field(1, "scaleTargetRef", Kind::Message(&SCALE_TARGET)),
    shown(2, "minReplicas", Int),
    shown(3, "maxReplicas", Int),
];

static SCALE_TARGET: [Field; 3] = [
    field(1, "kind", Text),
    field(2, "name", Text),
    field(3, "apiVersion", Text),
];

// --- storage.k8s.io/v1 --------------------------------------------------------

pub(crate) static VOLUME_ATTACHMENT: [Field; 3] = object(&ATTACHMENT_SPEC, &ATTACHMENT_STATUS);

static ATTACHMENT_SPEC: [Field; 3] = [
    field(1, "attacher", Text),
    field(2, "source", Kind::Message(&ATTACHMENT_SOURCE)),
    field(3, "nodeName", Text),
];

static ATTACHMENT_SOURCE: [Field; 1] = [shown(1, "persistentVolumeName", Text)];

static ATTACHMENT_STATUS: [Field; 3] = [
    field(1, "attached", Bool),
    field(3, "attachError", Kind::Message(&VOLUME_ERROR)),
    field(4, "detachError", Kind::Message(&VOLUME_ERROR)),
];

static VOLUME_ERROR: [Field; 2] = [field(1, "time", Time), field(2, "message", Text)];

pub(crate) static CSI_NODE: [Field; 2] = with_spec(&CSI_NODE_SPEC);

static CSI_NODE_SPEC: [Field; 1] = [field(1, "drivers", Messages(&CSI_DRIVER))];

static CSI_DRIVER: [Field; 2] = [
    field(1, "name", Text),
    field(4, "allocatable", Kind::Message(&VOLUME_COUNT)),
];

static VOLUME_COUNT: [Field; 1] = [shown(1, "count", Int)];

// --- certificates.k8s.io/v1, rbac.authorization.k8s.io/v1 -------------------------

pub(crate) static SIGNING_REQUEST: [Field; 3] =
    object(&SIGNING_REQUEST_SPEC, &SIGNING_REQUEST_STATUS);

static SIGNING_REQUEST_SPEC: [Field; 3] = [
    field(7, "signerName", Text),
    field(2, "username", Text),
    field(4, "groups", Texts),
];

static SIGNING_REQUEST_STATUS: [Field; 1] =
    [field(1, "conditions", Messages(&SIGNING_REQUEST_CONDITION))];

static SIGNING_REQUEST_CONDITION: [Field; 4] = [
    field(1, "type", Text),
    field(6, "status", Text),
    field(2, "reason", Text),
    field(3, "message", Text),
];

pub(crate) static CLUSTER_ROLE: [Field; 2] = [
    field(1, "metadata", Kind::Message(&META)),
    field(2, "rules", Messages(&POLICY_RULE)),
];

static POLICY_RULE: [Field; 2] = [field(2, "apiGroups", Texts), field(3, "resources", Texts)];

pub(crate) static CLUSTER_ROLE_BINDING: [Field; 3] = [
    field(1, "metadata", Kind::Message(&META)),
    field(2, "subjects", Messages(&SUBJECT)),
    field(3, "roleRef", Kind::Message(&ROLE_REF)),
];

static SUBJECT: [Field; 3] = [
    field(1, "kind", Text),
    field(3, "name", Text),
    field(4, "namespace", Text),
];

static ROLE_REF: [Field; 1] = [field(3, "name", Text)];
