//! Groups of rules, in the order of the reports.

/// What the rules of a group are about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Group {
    /// Registration and identity.
    Registration,
    /// Heartbeats, leases and conditions.
    Heartbeat,
    /// Taints against conditions.
    Taint,
    /// Capacity, reservations and Allocatable.
    Reserved,
    /// Overcommitment, pod counts and addresses.
    Capacity,
    /// Tolerations of pods.
    Toleration,
    /// Whether nodes can be drained.
    Budget,
    /// Graceful and other shutdowns.
    Shutdown,
    /// Versions and operating systems.
    Version,
    /// Certificates and the kubelet's API.
    Certificate,
    /// What nodes are allowed to do.
    Authorization,
    /// Labels and topology.
    Label,
    /// Health of zones.
    Zone,
    /// Volumes left over.
    Volume,
    /// Pods left over.
    Pod,
    /// Operations left half done.
    Operations,
}

impl Group {
    /// The part of the id between the dashes.
    pub fn code(self) -> &'static str {
        match self {
            Self::Registration => "REG",
            Self::Heartbeat => "HB",
            Self::Taint => "TNT",
            Self::Reserved => "RES",
            Self::Capacity => "CAP",
            Self::Toleration => "TOL",
            Self::Budget => "PDB",
            Self::Shutdown => "SHD",
            Self::Version => "VER",
            Self::Certificate => "CRT",
            Self::Authorization => "AUT",
            Self::Label => "LBL",
            Self::Zone => "ZON",
            Self::Volume => "VOL",
            Self::Pod => "POD",
            Self::Operations => "OPS",
        }
    }

    /// A heading.
    pub fn title(self) -> &'static str {
        match self {
            Self::Registration => "Registration and identity",
            Self::Heartbeat => "Heartbeats, leases and conditions",
            Self::Taint => "Taints and conditions",
            Self::Reserved => "Capacity, reservations and Allocatable",
            Self::Capacity => "Overcommitment, pod counts and addresses",
            Self::Toleration => "Tolerations",
            Self::Budget => "Disruption budgets and drains",
            Self::Shutdown => "Shutdowns",
            Self::Version => "Versions and operating systems",
            Self::Certificate => "Certificates and the kubelet's API",
            Self::Authorization => "Permissions of nodes",
            Self::Label => "Labels and topology",
            Self::Zone => "Zones",
            Self::Volume => "Leftover volumes",
            Self::Pod => "Leftover pods",
            Self::Operations => "Unfinished operations",
        }
    }
}
