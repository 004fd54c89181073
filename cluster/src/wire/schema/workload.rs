//! Protobuf fields of workloads: `apps/v1`, `batch/v1` and ReplicationControllers.

use super::Kind::Int;
use super::{Field, Kind, META, SELECTOR, field, object, shown};

pub(crate) static DEPLOYMENT: [Field; 3] = object(&DEPLOYMENT_SPEC, &DEPLOYMENT_STATUS);

static DEPLOYMENT_SPEC: [Field; 3] = [
    shown(1, "replicas", Int),
    field(2, "selector", Kind::Message(&SELECTOR)),
    field(3, "template", Kind::Message(&TEMPLATE)),
];

static TEMPLATE: [Field; 1] = [field(2, "spec", Kind::Message(&TEMPLATE_SPEC))];

static TEMPLATE_SPEC: [Field; 1] = [field(10, "nodeName", Kind::Text)];

static DEPLOYMENT_STATUS: [Field; 2] = [field(2, "replicas", Int), field(7, "readyReplicas", Int)];

pub(crate) static REPLICA_SET: [Field; 3] = object(&DEPLOYMENT_SPEC, &REPLICA_SET_STATUS);

static REPLICA_SET_STATUS: [Field; 2] = [shown(1, "replicas", Int), field(4, "readyReplicas", Int)];

pub(crate) static STATEFUL_SET: [Field; 3] = object(&DEPLOYMENT_SPEC, &STATEFUL_SET_STATUS);

static STATEFUL_SET_STATUS: [Field; 2] =
    [shown(2, "replicas", Int), field(3, "readyReplicas", Int)];

pub(crate) static DAEMON_SET: [Field; 2] = [
    field(1, "metadata", Kind::Message(&META)),
    field(2, "spec", Kind::Message(&DAEMON_SET_SPEC)),
];

static DAEMON_SET_SPEC: [Field; 1] = [field(1, "selector", Kind::Message(&SELECTOR))];

pub(crate) static JOB: [Field; 2] = [
    field(1, "metadata", Kind::Message(&META)),
    field(2, "spec", Kind::Message(&JOB_SPEC)),
];

static JOB_SPEC: [Field; 1] = [field(4, "selector", Kind::Message(&SELECTOR))];

pub(crate) static REPLICATION_CONTROLLER: [Field; 3] =
    object(&REPLICATION_CONTROLLER_SPEC, &REPLICA_SET_STATUS);

/// Its selector is a plain map and is left out, as in JSON.
static REPLICATION_CONTROLLER_SPEC: [Field; 2] = [
    shown(1, "replicas", Int),
    field(3, "template", Kind::Message(&TEMPLATE)),
];
