//! `Enforcement`: `enforceNodeAllocatable` and what it depends on. The kubelets of 1.33 to 1.37 judge
//! it alike (`ValidateKubeletConfiguration`, `pkg/kubelet/apis/config/validation/validation.go`).

use std::collections::BTreeSet;

/// The options of `enforceNodeAllocatable`, and the fields that they need.
pub struct Enforcement<'a> {
    pub options: &'a [&'a str],
    pub system_reserved_cgroup: &'a str,
    pub kube_reserved_cgroup: &'a str,
    pub cgroups_per_qos: bool,
}

impl Enforcement<'_> {
    /// Why a kubelet would not start with these; none: it would.
    pub fn check(&self, refusals: &mut Vec<String>) {
        let mut seen = BTreeSet::new();
        for option in self.options {
            if seen.insert(*option) {
                self.check_option(option, refusals);
            } else {
                refusals.push(format!(
                    "enforceNodeAllocatable: duplicated enforcement {option:?}"
                ));
            }
        }
        for what in ["system-reserved", "kube-reserved"] {
            let compressible = format!("{what}-compressible");
            if seen.contains(what) && seen.contains(compressible.as_str()) {
                refusals.push(format!(
                    "enforceNodeAllocatable: {what:?} and {compressible:?} exclude each other"
                ));
            }
        }
    }

    fn check_option(&self, option: &str, refusals: &mut Vec<String>) {
        let cgroup = match option {
            "none" => {
                if self.options.len() > 1 {
                    refusals.push(
                        "enforceNodeAllocatable: none cannot be combined with other values".into(),
                    );
                }
                return;
            }
            "pods" => None,
            "system-reserved" | "system-reserved-compressible" => {
                Some(("systemReservedCgroup", self.system_reserved_cgroup))
            }
            "kube-reserved" | "kube-reserved-compressible" => {
                Some(("kubeReservedCgroup", self.kube_reserved_cgroup))
            }
            other => {
                refusals.push(format!("enforceNodeAllocatable: unknown option {other:?}"));
                return;
            }
        };
        if let Some((field, path)) = cgroup
            && path.is_empty()
        {
            refusals.push(format!(
                "{field} must be specified when {option:?} is enforced"
            ));
        }
        if !self.cgroups_per_qos {
            refusals.push(format!(
                "cgroupsPerQOS must be true when {option:?} is enforced"
            ));
        }
    }
}
