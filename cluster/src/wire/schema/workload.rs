//! Protobuf fields of workloads: `apps/v1`, `batch/v1` and ReplicationControllers.

use super::Kind::{Int, Messages, Text};
use super::{Field, Kind, SELECTOR, field, object, shown, with_spec};

pub(crate) static DEPLOYMENT: [Field; 3] = object(&DEPLOYMENT_SPEC, &DEPLOYMENT_STATUS);

static DEPLOYMENT_SPEC: [Field; 3] = [
    shown(1, "replicas", Int),
    field(2, "selector", Kind::Message(&SELECTOR)),
    field(3, "template", Kind::Message(&TEMPLATE)),
];

static TEMPLATE: [Field; 1] = [field(2, "spec", Kind::Message(&TEMPLATE_SPEC))];

static TEMPLATE_SPEC: [Field; 1] = [field(10, "nodeName", Text)];

static DEPLOYMENT_STATUS: [Field; 2] = [field(2, "replicas", Int), field(7, "readyReplicas", Int)];

pub(crate) static REPLICA_SET: [Field; 3] = object(&DEPLOYMENT_SPEC, &REPLICA_SET_STATUS);

static REPLICA_SET_STATUS: [Field; 3] = [
    shown(1, "replicas", Int),
    field(4, "readyReplicas", Int),
    field(6, "conditions", Messages(&CONDITION)),
];

/// Without `lastTransitionTime`, unlike `metav1.Condition` in its tags.
static CONDITION: [Field; 4] = [
    field(1, "type", Text),
    field(2, "status", Text),
    field(4, "reason", Text),
    field(5, "message", Text),
];

pub(crate) static STATEFUL_SET: [Field; 3] = object(&DEPLOYMENT_SPEC, &STATEFUL_SET_STATUS);

static STATEFUL_SET_STATUS: [Field; 2] =
    [shown(2, "replicas", Int), field(3, "readyReplicas", Int)];

pub(crate) static DAEMON_SET: [Field; 2] = with_spec(&DAEMON_SET_SPEC);

static DAEMON_SET_SPEC: [Field; 1] = [field(1, "selector", Kind::Message(&SELECTOR))];

pub(crate) static JOB: [Field; 3] = object(&JOB_SPEC, &JOB_STATUS);

static JOB_SPEC: [Field; 5] = [
    field(4, "selector", Kind::Message(&SELECTOR)),
    shown(7, "backoffLimit", Int),
    shown(8, "ttlSecondsAfterFinished", Int),
    field(11, "podFailurePolicy", Kind::Message(&POD_FAILURE_POLICY)),
    shown(12, "backoffLimitPerIndex", Int),
];

static JOB_STATUS: [Field; 1] = [field(6, "failed", Int)];

static POD_FAILURE_POLICY: [Field; 1] = [field(1, "rules", Messages(&POD_FAILURE_RULE))];

static POD_FAILURE_RULE: [Field; 3] = [
    field(1, "action", Text),
    field(2, "onExitCodes", Kind::Message(&POD_EXIT_CODES)),
    field(3, "onPodConditions", Messages(&POD_FAILURE_CONDITION)),
];

static POD_EXIT_CODES: [Field; 1] = [field(2, "operator", Text)];

static POD_FAILURE_CONDITION: [Field; 1] = [field(1, "type", Text)];

pub(crate) static REPLICATION_CONTROLLER: [Field; 3] =
    object(&REPLICATION_CONTROLLER_SPEC, &REPLICA_SET_STATUS);

/// Its selector is a plain map and is left out, as in JSON.
static REPLICATION_CONTROLLER_SPEC: [Field; 2] = [
    shown(1, "replicas", Int),
    field(3, "template", Kind::Message(&TEMPLATE)),
];
