//! FLT: differences between one cluster and most others. An audit of one cluster checks none of
//! these rules; `crate::clusters` compares.

use crate::{Check, Rule, Severity};
use nodelife_core::snapshot::Source;

pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "NL-FLT-001",
        severity: Severity::Warning,
        sources: &[Source::Nodes],
        title: "the cluster runs a different version of Kubernetes than most",
        why: "Manifests, operators and runbooks are tested with one version. The cluster that was \
              left out of an upgrade is the one where they fail, and it reaches its end of life \
              first.",
        fix: "Upgrade the cluster, or record why it has to wait.",
        link: "https://kubernetes.io/releases/version-skew-policy/",
        check: Check::Clusters,
    },
    Rule {
        id: "NL-FLT-002",
        severity: Severity::Info,
        sources: &[Source::Nodes],
        title: "the nodes run a different container runtime than in most clusters",
        why: "Defaults, log formats and the settings of registries differ between runtimes and \
              their versions: the same pod may start in one cluster and not in another.",
        fix: "Build the nodes of all clusters from the same image.",
        link: "https://kubernetes.io/docs/setup/production-environment/container-runtimes/",
        check: Check::Clusters,
    },
    Rule {
        id: "NL-FLT-003",
        severity: Severity::Warning,
        sources: &[Source::Pods],
        title: "pods are evicted from a dead node after a different delay than in most clusters",
        why: "The defaults of the API server (--default-unreachable-toleration-seconds), or a \
              webhook that sets them, differ. The same workload is down for longer in one cluster, \
              or moves at every short network failure.",
        fix: "Set the same flags on all API servers, or install the same toleration policy.",
        link: "https://kubernetes.io/docs/concepts/scheduling-eviction/taint-and-toleration/#taint-based-evictions",
        check: Check::Clusters,
    },
    Rule {
        id: "NL-FLT-004",
        severity: Severity::Info,
        sources: &[Source::Nodes, Source::KubeletConfigs],
        title: "kubelets have different settings than in most clusters",
        why: "A setting that only one cluster has was often changed by hand, and the next rebuild \
              of its nodes reverts it; or it is a fix that the other clusters still need.",
        fix: "Put the setting into the configuration that all clusters are built from, or take it \
              out of this one.",
        link: "https://kubernetes.io/docs/reference/config-api/kubelet-config.v1beta1/",
        check: Check::Clusters,
    },
];
