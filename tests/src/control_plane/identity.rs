//! Identities of API clients: certificate, kubeconfig and client.

use anyhow::{Context, Result};
use base64::{Engine, prelude::BASE64_STANDARD};
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::{Value, json};

use crate::pki::TestCa;

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Identity {
    /// The group system:masters: may do everything.
    Admin,
    /// The kubelet of the node with this name: `system:node:NAME` in the group `system:nodes`.
    Node(String),
    /// Any user, by impersonation.
    User {
        name: String,
        /// The user's groups; `system:authenticated` comes by itself.
        groups: Vec<String>,
    },
    /// The bearer of a token, for example of a ServiceAccount's.
    Token(String),
    /// Nobody: no credentials at all.
    Anonymous,
}

/// A kubeconfig for `identity` with everything in it, as a JSON document (which is YAML too).
pub(crate) fn kubeconfig(server: &str, authority: &TestCa, identity: &Identity) -> Result<String> {
    let user = match identity {
        Identity::Admin => certificate(authority, "nodelife-admin", "system:masters")?,
        Identity::Node(name) => {
            certificate(authority, &format!("system:node:{name}"), "system:nodes")?
        }
        Identity::User { name, groups } => {
            let mut user = certificate(authority, "nodelife-admin", "system:masters")?;
            let fields = user.as_object_mut().context("a user is an object")?;
            fields.insert("as".to_owned(), json!(name));
            fields.insert("as-groups".to_owned(), json!(groups));
            user
        }
        Identity::Token(token) => json!({"token": token}),
        Identity::Anonymous => json!({}),
    };
    let document = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "test",
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
        "clusters": [{"name": "test", "cluster": {
            "server": server,
            "certificate-authority-data": BASE64_STANDARD.encode(authority.certificate()),
        }}],
        "users": [{"name": "test", "user": user}],
    });
    Ok(serde_json::to_string_pretty(&document)?)
}

fn certificate(authority: &TestCa, user: &str, group: &str) -> Result<Value> {
    let pair = authority.client(user, group)?;
    Ok(json!({
        "client-certificate-data": BASE64_STANDARD.encode(pair.certificate),
        "client-key-data": BASE64_STANDARD.encode(pair.key),
    }))
}

/// A client out of a kubeconfig's text. It repeats nothing by itself, so that the audit log
/// holds what the test asked for, and a 429 comes back at once.
pub(crate) async fn client(kubeconfig: &str) -> Result<kube::Client> {
    let kubeconfig = Kubeconfig::from_yaml(kubeconfig).context("failed to read our kubeconfig")?;
    let mut config =
        kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
            .await
            .context("failed to make a client configuration")?;
    config.default_retry = false;
    config.proxy_url = None;
    kube::Client::try_from(config).context("failed to make a client")
}
