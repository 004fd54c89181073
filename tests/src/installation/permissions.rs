//! Waits until the authorizer knows new RBAC objects.

use anyhow::Result;

use super::{CA_SECRET, Installation, NAMESPACE, WEBHOOK};
use crate::wait::{TIMEOUT, wait_until};

/// Each binding of the manifests, and one permission that it grants: verb, object, account.
const BINDINGS: [(&str, &str, &str, &str); 3] = [
    (
        "clusterrolebinding/nodelife-webhook",
        "get",
        "nodes",
        "nodelife-webhook",
    ),
    (
        "clusterrolebinding/nodelife-certs",
        "patch",
        "mutatingwebhookconfigurations.admissionregistration.k8s.io",
        "nodelife-certs",
    ),
    (
        "rolebinding/nodelife-certs",
        "patch",
        "secrets",
        "nodelife-certs",
    ),
];

impl Installation<'_> {
    /// Waits until the authorizer knows the roles and bindings that are stored. It learns of
    /// each by a watch of its own, a moment after `kubectl apply` was answered.
    pub async fn granted(&self) -> Result<()> {
        for (binding, verb, kind, account) in BINDINGS {
            let get = [
                "get",
                binding,
                "-n",
                NAMESPACE,
                "--ignore-not-found",
                "-o",
                "name",
            ];
            // Not every overlay has an account for certificates.
            if self.kubectl.run(get).await?.success()?.is_empty() {
                continue;
            }
            let object = match kind {
                "nodes" => kind.to_owned(),
                "secrets" => format!("{kind}/{CA_SECRET}"),
                _ => format!("{kind}/{WEBHOOK}"),
            };
            let user = format!("system:serviceaccount:{NAMESPACE}:{account}");
            let may = [
                "auth", "can-i", verb, &object, "-n", NAMESPACE, "--as", &user,
            ];
            wait_until(&format!("{binding} to be in force"), TIMEOUT, async || {
                let said = self.kubectl.run(may).await?;
                Ok((said.status == Some(0)).then_some(()))
            })
            .await?;
        }
        Ok(())
    }
}
