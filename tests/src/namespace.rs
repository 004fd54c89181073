//! A namespace for one test on a shared control plane.

use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::{Namespace, ServiceAccount};
use kube::api::{Api, DeleteParams, ObjectMeta, PostParams};
use kube::{Client, Resource};

use crate::control_plane::ControlPlane;
use crate::wait::{TIMEOUT, wait_until};

/// A namespace of one's own. [`TestNamespace::delete`] removes it; a test that fails leaves it
/// to the end of the control plane.
#[derive(Clone)]
pub struct TestNamespace {
    /// Its name, `WHAT-NUMBER`: also a good prefix for the test's nodes, which have no namespace.
    pub name: String,
    client: Client,
}

impl TestNamespace {
    /// Makes a namespace whose name begins with `what`, and waits for (or makes) its
    /// ServiceAccount `default`, so that pods can be created at once.
    pub async fn create(plane: &ControlPlane, what: &str) -> Result<Self> {
        static NUMBER: AtomicU32 = AtomicU32::new(1);
        let client = plane.admin().await?;
        let name = format!("{what}-{}", NUMBER.fetch_add(1, Ordering::Relaxed));
        let metadata = ObjectMeta {
            name: Some(name.clone()),
            ..ObjectMeta::default()
        };
        let namespace = Namespace {
            metadata,
            ..Namespace::default()
        };
        Api::all(client.clone())
            .create(&PostParams::default(), &namespace)
            .await
            .with_context(|| format!("failed to create the namespace {name}"))?;
        let this = Self { name, client };
        let accounts: Api<ServiceAccount> = this.api();
        if plane.makes_service_accounts() {
            wait_until("the ServiceAccount default", TIMEOUT, async || {
                Ok(accounts.get_opt("default").await?)
            })
            .await?;
        } else {
            this.service_account("default").await?;
        }
        Ok(this)
    }

    /// The admin's client that the namespace was made with.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// The admin's view of one kind in this namespace.
    pub fn api<K>(&self) -> Api<K>
    where
        K: Resource<Scope = k8s_openapi::NamespaceResourceScope>,
        K::DynamicType: Default,
    {
        Api::namespaced(self.client.clone(), &self.name)
    }

    pub async fn service_account(&self, name: &str) -> Result<ServiceAccount> {
        let metadata = ObjectMeta {
            name: Some(name.to_owned()),
            ..ObjectMeta::default()
        };
        let account = ServiceAccount {
            metadata,
            ..ServiceAccount::default()
        };
        let accounts: Api<ServiceAccount> = self.api();
        accounts
            .create(&PostParams::default(), &account)
            .await
            .with_context(|| format!("failed to create the ServiceAccount {name}"))
    }

    /// A token of one of its ServiceAccounts, good for an hour; with
    /// [`crate::control_plane::Identity::Token`] it makes a client.
    pub async fn token(&self, service_account: &str) -> Result<String> {
        use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
        let spec = TokenRequestSpec {
            expiration_seconds: Some(3600),
            ..TokenRequestSpec::default()
        };
        let request = TokenRequest {
            spec: Some(spec),
            ..TokenRequest::default()
        };
        let accounts: Api<ServiceAccount> = self.api();
        let answer = accounts
            .create_token_request(service_account, &PostParams::default(), &request)
            .await
            .with_context(|| format!("failed to ask for a token of {service_account}"))?;
        answer
            .status
            .and_then(|status| status.token)
            .context("the answer holds no token")
    }

    /// Asks for the namespace's removal and does not wait for it.
    pub async fn delete(self) -> Result<()> {
        let namespaces: Api<Namespace> = Api::all(self.client.clone());
        namespaces
            .delete(&self.name, &DeleteParams::default())
            .await?;
        Ok(())
    }
}
