//! Protobuf fields of the core group.

use super::Kind::{Bool, Inline, Int, Messages, Text, Texts, Time};
use super::{Field, Kind, META, QUANTITIES, REQUIREMENT, SELECTOR, STRINGS};
use super::{field, object, shown, with_spec};

pub(crate) static NODE: [Field; 3] = object(&NODE_SPEC, &NODE_STATUS);

static NODE_SPEC: [Field; 5] = [
    field(1, "podCIDR", Text),
    field(7, "podCIDRs", Texts),
    field(3, "providerID", Text),
    field(4, "unschedulable", Bool),
    field(5, "taints", Messages(&TAINT)),
];

static TAINT: [Field; 4] = [
    field(1, "key", Text),
    field(2, "value", Text),
    field(3, "effect", Text),
    field(4, "timeAdded", Time),
];

static NODE_STATUS: [Field; 7] = [
    field(1, "capacity", QUANTITIES),
    field(2, "allocatable", QUANTITIES),
    field(4, "conditions", Messages(&NODE_CONDITION)),
    field(5, "addresses", Messages(&ADDRESS)),
    field(6, "daemonEndpoints", Kind::Message(&DAEMON_ENDPOINTS)),
    field(7, "nodeInfo", Kind::Message(&NODE_INFO)),
    field(10, "volumesAttached", Messages(&ATTACHED_VOLUME)),
];

static NODE_CONDITION: [Field; 6] = [
    field(1, "type", Text),
    field(2, "status", Text),
    field(3, "lastHeartbeatTime", Time),
    field(4, "lastTransitionTime", Time),
    field(5, "reason", Text),
    field(6, "message", Text),
];

static ADDRESS: [Field; 2] = [field(1, "type", Text), field(2, "address", Text)];

static DAEMON_ENDPOINTS: [Field; 1] =
    [field(1, "kubeletEndpoint", Kind::Message(&DAEMON_ENDPOINT))];

static DAEMON_ENDPOINT: [Field; 1] = [field(1, "Port", Int)];

static NODE_INFO: [Field; 10] = [
    field(1, "machineID", Text),
    field(2, "systemUUID", Text),
    field(3, "bootID", Text),
    field(4, "kernelVersion", Text),
    field(5, "osImage", Text),
    field(6, "containerRuntimeVersion", Text),
    field(7, "kubeletVersion", Text),
    field(9, "operatingSystem", Text),
    field(10, "architecture", Text),
    field(11, "swap", Kind::Message(&SWAP)),
];

static SWAP: [Field; 1] = [field(1, "capacity", Int)];

static ATTACHED_VOLUME: [Field; 1] = [field(1, "name", Text)];

pub(crate) static POD: [Field; 3] = object(&POD_SPEC, &POD_STATUS);

static POD_SPEC: [Field; 15] = [
    field(1, "volumes", Messages(&VOLUME)),
    field(20, "initContainers", Messages(&CONTAINER)),
    field(2, "containers", Messages(&CONTAINER)),
    field(3, "restartPolicy", Text),
    shown(4, "terminationGracePeriodSeconds", Int),
    field(7, "nodeSelector", STRINGS),
    field(8, "serviceAccountName", Text),
    field(10, "nodeName", Text),
    field(18, "affinity", Kind::Message(&AFFINITY)),
    field(22, "tolerations", Messages(&TOLERATION)),
    field(24, "priorityClassName", Text),
    shown(25, "priority", Int),
    field(32, "overhead", QUANTITIES),
    field(
        33,
        "topologySpreadConstraints",
        Messages(&SPREAD_CONSTRAINT),
    ),
    field(40, "resources", Kind::Message(&RESOURCES)),
];

static AFFINITY: [Field; 3] = [
    field(1, "nodeAffinity", Kind::Message(&NODE_AFFINITY)),
    field(2, "podAffinity", Kind::Message(&POD_AFFINITY)),
    field(3, "podAntiAffinity", Kind::Message(&POD_AFFINITY)),
];

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";

static NODE_AFFINITY: [Field; 1] = [field(1, REQUIRED, Kind::Message(&NODE_SELECTOR))];

static POD_AFFINITY: [Field; 1] = [field(1, REQUIRED, Messages(&POD_AFFINITY_TERM))];

static POD_AFFINITY_TERM: [Field; 4] = [
    field(1, "labelSelector", Kind::Message(&SELECTOR)),
    field(2, "namespaces", Texts),
    field(3, "topologyKey", Text),
    field(4, "namespaceSelector", Kind::Message(&SELECTOR)),
];

static SPREAD_CONSTRAINT: [Field; 8] = [
    shown(1, "maxSkew", Int),
    field(2, "topologyKey", Text),
    field(3, "whenUnsatisfiable", Text),
    field(4, "labelSelector", Kind::Message(&SELECTOR)),
    shown(5, "minDomains", Int),
    field(6, "nodeAffinityPolicy", Text),
    field(7, "nodeTaintsPolicy", Text),
    field(8, "matchLabelKeys", Texts),
];

static TOLERATION: [Field; 5] = [
    field(1, "key", Text),
    field(2, "operator", Text),
    field(3, "value", Text),
    field(4, "effect", Text),
    shown(5, "tolerationSeconds", Int),
];

static CONTAINER: [Field; 5] = [
    field(1, "name", Text),
    field(2, "image", Text),
    field(6, "ports", Messages(&CONTAINER_PORT)),
    field(8, "resources", Kind::Message(&RESOURCES)),
    shown(24, "restartPolicy", Text),
];

static CONTAINER_PORT: [Field; 3] = [
    field(2, "hostPort", Int),
    field(4, "protocol", Text),
    field(5, "hostIP", Text),
];

static RESOURCES: [Field; 2] = [
    field(1, "limits", QUANTITIES),
    field(2, "requests", QUANTITIES),
];

static VOLUME: [Field; 2] = [
    field(1, "name", Text),
    field(2, "volumeSource", Inline(&VOLUME_SOURCE)),
];

static VOLUME_SOURCE: [Field; 3] = [
    field(1, "hostPath", Kind::Message(&HOST_PATH)),
    field(2, "emptyDir", Kind::Message(&EMPTY_DIR)),
    field(10, "persistentVolumeClaim", Kind::Message(&CLAIM_SOURCE)),
];

static HOST_PATH: [Field; 1] = [field(1, "path", Text)];

static EMPTY_DIR: [Field; 2] = [
    field(1, "medium", Text),
    field(2, "sizeLimit", Kind::Quantity),
];

static CLAIM_SOURCE: [Field; 1] = [field(1, "claimName", Text)];

static POD_STATUS: [Field; 5] = [
    field(1, "phase", Text),
    field(2, "conditions", Messages(&POD_CONDITION)),
    field(3, "message", Text),
    field(4, "reason", Text),
    field(7, "startTime", Time),
];

static POD_CONDITION: [Field; 5] = [
    field(1, "type", Text),
    field(2, "status", Text),
    field(4, "lastTransitionTime", Time),
    field(5, "reason", Text),
    field(6, "message", Text),
];

pub(crate) static PERSISTENT_VOLUME: [Field; 2] = with_spec(&PERSISTENT_VOLUME_SPEC);

static PERSISTENT_VOLUME_SPEC: [Field; 3] = [
    field(3, "accessModes", Texts),
    field(4, "claimRef", Kind::Message(&REFERENCE)),
    field(9, "nodeAffinity", Kind::Message(&VOLUME_AFFINITY)),
];

static REFERENCE: [Field; 3] = [
    field(1, "kind", Text),
    field(2, "namespace", Text),
    field(3, "name", Text),
];

static VOLUME_AFFINITY: [Field; 1] = [field(1, "required", Kind::Message(&NODE_SELECTOR))];

static NODE_SELECTOR: [Field; 1] = [field(1, "nodeSelectorTerms", Messages(&NODE_SELECTOR_TERM))];

static NODE_SELECTOR_TERM: [Field; 2] = [
    field(1, "matchExpressions", Messages(&REQUIREMENT)),
    field(2, "matchFields", Messages(&REQUIREMENT)),
];

pub(crate) static EVENT: [Field; 7] = [
    field(1, "metadata", Kind::Message(&META)),
    field(2, "involvedObject", Kind::Message(&REFERENCE)),
    field(3, "reason", Text),
    field(4, "message", Text),
    field(7, "lastTimestamp", Time),
    field(8, "count", Int),
    field(10, "eventTime", Time),
];
