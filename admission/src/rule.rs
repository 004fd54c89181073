//! The names of the engine's rules, and the modes that they can be in.

use serde::{Deserialize, Serialize};

nodelife_core::named! {
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
    #[serde(rename_all = "camelCase")]
    pub enum AdmissionRule {
        /// A user `system:node:` without a name.
        Identity = "identity",
        Nodes = "nodes",
        Pods = "pods",
        PodStatus = "podStatus",
        Evictions = "evictions",
        Claims = "claims",
        Tokens = "tokens",
        PodCertificates = "podCertificates",
        Leases = "leases",
        CsiNodes = "csiNodes",
        ResourceSlices = "resourceSlices",
        SigningRequests = "signingRequests",
        PodStatusMetadata = "podStatusMetadata",
        MirrorPodLabels = "mirrorPodLabels",
        SelfUncordon = "selfUncordon",
        RegistrationOwners = "registrationOwners",
        Events = "events",
        SelfDeletion = "selfDeletion",
        CsiDrivers = "csiDrivers",
        OwnLabels = "ownLabels",
        /// Not of NodeRestriction: it has a setting of its own.
        #[serde(skip)]
        Agents = "agents",
        /// Not of NodeRestriction either.
        #[serde(skip)]
        DrainSafety = "drainSafety",
        /// Not of NodeRestriction either.
        #[serde(skip)]
        Tolerations = "tolerations",
    }
}

nodelife_core::named! {
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
    #[serde(rename_all = "camelCase")]
    pub enum Mode {
        #[default]
        Enforce = "enforce",
        /// The request passes with a warning to the client and a line in the audit log.
        Warn = "warn",
        /// The request passes with a line in the audit log.
        Audit = "audit",
        Off = "off",
    }
}
