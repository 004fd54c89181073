//! kubectl's global flags, applied to the kubeconfig.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, ValueHint};
use kube::config::{
    AuthInfo, Cluster as ClusterEntry, Context, KubeConfigOptions, Kubeconfig, NamedAuthInfo,
    NamedCluster, NamedContext,
};

use nodelife_core::format::parse_error;
use nodelife_core::go_duration::time_limit;

use super::server_url::{self, without_user};
use crate::error::ConnectError;

const CONTEXT_NAME: &str = "nodelife";

/// Which cluster, and as whom: kubectl's global flags, with its spelling and meaning
/// (`k8s.io/cli-runtime/pkg/genericclioptions/config_flags.go`, v0.36.3). Without `--kubeconfig`, the files of
/// `KUBECONFIG`, else `~/.kube/config`, else the service account of the pod.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Cluster")]
pub struct ClientOptions {
    /// Path to the kubeconfig file [default: KUBECONFIG, then ~/.kube/config]
    #[arg(long, global = true, value_name = "FILE", value_hint = ValueHint::FilePath, hide_short_help = true)]
    pub kubeconfig: Option<PathBuf>,
    /// Name of the kubeconfig context to use
    #[arg(long, global = true, value_name = "NAME", hide_short_help = true)]
    pub context: Option<String>,
    /// Name of the kubeconfig cluster to use
    #[arg(long, global = true, value_name = "NAME", hide_short_help = true)]
    pub cluster: Option<String>,
    /// Name of the kubeconfig user to use
    #[arg(long, global = true, value_name = "NAME", hide_short_help = true)]
    pub user: Option<String>,
    /// The namespace scope of this request
    #[arg(long, short, global = true, value_name = "NAME", hide_short_help = true)]
    pub namespace: Option<String>,
    /// Address of the Kubernetes API server
    #[arg(long, short, global = true, value_name = "URL", value_hint = ValueHint::Url, hide_short_help = true)]
    pub server: Option<String>,
    /// Bearer token for the API server
    #[arg(long, global = true, value_name = "TOKEN", hide_short_help = true)]
    pub token: Option<String>,
    /// User name to impersonate
    #[arg(long = "as", global = true, value_name = "USER", hide_short_help = true)]
    pub impersonate: Option<String>,
    /// Group to impersonate; may be repeated
    #[arg(long = "as-group", global = true, value_name = "GROUP", hide_short_help = true)]
    pub impersonate_groups: Vec<String>,
    /// UID to impersonate
    #[arg(long = "as-uid", global = true, value_name = "UID", hide_short_help = true)]
    pub impersonate_uid: Option<String>,
    /// Further value to impersonate, as KEY=VALUE; may be repeated
    #[arg(long = "as-user-extra", global = true, value_name = "KEY=VALUE",
          value_parser = key_value, hide_short_help = true)]
    pub impersonate_extra: Vec<(String, String)>,
    /// File with the certificate authorities for the API server
    #[arg(long, global = true, value_name = "FILE", value_hint = ValueHint::FilePath, hide_short_help = true)]
    pub certificate_authority: Option<PathBuf>,
    /// File with the client certificate
    #[arg(long, global = true, value_name = "FILE", value_hint = ValueHint::FilePath, hide_short_help = true)]
    pub client_certificate: Option<PathBuf>,
    /// File with the client certificate's key
    #[arg(long, global = true, value_name = "FILE", value_hint = ValueHint::FilePath, hide_short_help = true)]
    pub client_key: Option<PathBuf>,
    /// Do not check the API server's certificate
    #[arg(long, global = true, num_args = 0..=1, require_equals = true,
          default_missing_value = "true", value_name = "BOOL", hide_short_help = true)]
    pub insecure_skip_tls_verify: Option<bool>,
    /// Name to expect in the API server's certificate, instead of its host name
    #[arg(long, global = true, value_name = "NAME", hide_short_help = true)]
    pub tls_server_name: Option<String>,
    /// Proxy to reach the API server through, instead of the kubeconfig's
    #[arg(long, global = true, value_name = "URL", value_hint = ValueHint::Url, hide_short_help = true)]
    pub proxy_url: Option<String>,
    /// Do not request compressed responses
    #[arg(long, global = true, num_args = 0..=1, require_equals = true,
          default_missing_value = "true", value_name = "BOOL", hide_short_help = true)]
    pub disable_compression: Option<bool>,
    /// Time limit of one request: 30, 30s, 2m; 0 means no limit
    #[arg(long, global = true, value_name = "DURATION", value_parser = request_timeout, hide_short_help = true)]
    pub request_timeout: Option<Duration>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// The context of the kubeconfig; none within a pod, and where `--server` says all.
    pub context: Option<String>,
    pub cluster: Option<String>,
    pub server: Option<String>,
}

impl ClientOptions {
    pub fn identity(&self) -> Result<Identity, ConnectError> {
        let Some(kubeconfig) = self.read()? else {
            return Ok(Identity::default());
        };
        let context = self.chosen_context(&kubeconfig)?;
        let chosen = self.choose(&kubeconfig)?;
        let entry = chosen.clusters.into_iter().find_map(|entry| entry.cluster);
        let names = [&self.context, &kubeconfig.current_context];
        let cluster = self.cluster.clone().unwrap_or(context.cluster);
        let is_named = |name: &String| !name.is_empty();
        Ok(Identity {
            context: names.into_iter().flatten().find(|n| is_named(n)).cloned(),
            cluster: Some(cluster).filter(is_named),
            server: entry
                .and_then(|entry| entry.server)
                .map(|server| without_user(&server).trim_end_matches('/').to_owned()),
        })
    }

    pub(crate) async fn config(&self) -> Result<kube::Config, ConnectError> {
        if self.impersonate.is_none()
            && !(self.impersonate_groups.is_empty()
                && self.impersonate_uid.is_none()
                && self.impersonate_extra.is_empty())
        {
            return Err(ConnectError::ImpersonationWithoutUser);
        }
        let Some(kubeconfig) = self.read()? else {
            return self.in_cluster();
        };
        let chosen = self.choose(&kubeconfig)?;
        let proxy_of_file = chosen
            .clusters
            .iter()
            .filter_map(|entry| entry.cluster.as_ref()?.proxy_url.as_ref())
            .any(|url| !url.is_empty());
        let mut config =
            kube::Config::from_custom_kubeconfig(chosen, &KubeConfigOptions::default())
                .await
                .map_err(|error| ConnectError::Kubeconfig {
                    reason: innermost(&error),
                })?;
        if !proxy_of_file && is_loopback(&config.cluster_url) {
            config.proxy_url = None;
        }
        Ok(config)
    }

    /// The value of `--server`; kubectl takes an empty one for none.
    fn server(&self) -> Option<&str> {
        self.server.as_deref().filter(|server| !server.is_empty())
    }

    /// Gives the server of the chosen cluster its scheme. Without TLS, anybody can read the
    /// connection, and it gets no credentials, as from kubectl (client-go v0.36.3, `tools/clientcmd/client_config.go`).
    fn complete_server(
        &self,
        cluster: &mut ClusterEntry,
        user: &mut AuthInfo,
    ) -> Result<(), ConnectError> {
        let is_tls = cluster.certificate_authority.is_some()
            || cluster.certificate_authority_data.is_some()
            || cluster.insecure_skip_tls_verify == Some(true);
        let Some(server) = &cluster.server else {
            return Ok(());
        };
        let uri =
            server_url::complete(server, is_tls).map_err(|reason| ConnectError::ServerAddress {
                by_flag: self.server().is_some(),
                server: without_user(server),
                reason,
            })?;
        cluster.server = Some(uri.to_string());
        if uri.scheme() == Some(&http::uri::Scheme::HTTP) {
            *user = AuthInfo {
                impersonate: user.impersonate.take(),
                impersonate_uid: user.impersonate_uid.take(),
                impersonate_groups: user.impersonate_groups.take(),
                impersonate_user_extra: user.impersonate_user_extra.take(),
                ..AuthInfo::default()
            };
        }
        Ok(())
    }

    /// Reads and merges the files. A file that was named by flag has to be there; one
    /// of `KUBECONFIG` need not (client-go v0.36.3, `tools/clientcmd/loader.go`). With `--server` none
    /// has to be there.
    fn read(&self) -> Result<Option<Kubeconfig>, ConnectError> {
        let (paths, must_exist) = match &self.kubeconfig {
            None => (default_paths(), false),
            Some(path) => (vec![path.clone()], true),
        };
        let mut merged = None;
        for path in paths {
            if !must_exist && !path.exists() {
                continue;
            }
            let next = Kubeconfig::read_from(&path).map_err(|error| ConnectError::Kubeconfig {
                reason: format!("{}: {}", path.display(), parse_error(&innermost(&error))),
            })?;
            merged = Some(match merged {
                None => next,
                Some(first) => {
                    Kubeconfig::merge(first, next).map_err(|error| ConnectError::Kubeconfig {
                        reason: format!("{}: {error}", path.display()),
                    })?
                }
            });
        }
        Ok(merged.or_else(|| self.server().map(|_| Kubeconfig::default())))
    }

    fn in_cluster(&self) -> Result<kube::Config, ConnectError> {
        let mut config =
            kube::Config::incluster().map_err(|_not_a_pod| ConnectError::NoKubeconfig {
                looked: default_paths().pop().unwrap_or_default(),
            })?;
        if let Some(namespace) = &self.namespace {
            config.default_namespace.clone_from(namespace);
        }
        config.auth_info = self.over_user(config.auth_info);
        config.disable_compression = self.disable_compression == Some(true);
        Ok(config)
    }

    /// Puts the chosen context, cluster and user together under one name, and the flags over them.
    fn choose(&self, kubeconfig: &Kubeconfig) -> Result<Kubeconfig, ConnectError> {
        let context = self.chosen_context(kubeconfig)?;
        let cluster_name = self.cluster.as_deref().unwrap_or(&context.cluster);
        let cluster = find(
            "cluster",
            cluster_name,
            self.cluster.is_none() && self.server().is_some(),
            kubeconfig
                .clusters
                .iter()
                .map(|c| (c.name.as_str(), c.cluster.as_ref())),
        )?;
        let user_name = self.user.as_deref().or(context.user.as_deref());
        let user = match user_name {
            None => AuthInfo::default(),
            // client-go lets a context name a user that is not there.
            Some(name) => find(
                "user",
                name,
                self.user.is_none(),
                kubeconfig
                    .auth_infos
                    .iter()
                    .map(|u| (u.name.as_str(), u.auth_info.as_ref())),
            )?,
        };
        let (mut cluster, mut user) = (self.over_cluster(cluster), self.over_user(user));
        self.complete_server(&mut cluster, &mut user)?;
        Ok(Kubeconfig {
            current_context: Some(CONTEXT_NAME.to_owned()),
            contexts: vec![NamedContext {
                name: CONTEXT_NAME.to_owned(),
                context: Some(Context {
                    cluster: CONTEXT_NAME.to_owned(),
                    user: Some(CONTEXT_NAME.to_owned()),
                    namespace: self.namespace.clone().or(context.namespace),
                    ..Context::default()
                }),
                other: BTreeMap::default(),
            }],
            clusters: vec![NamedCluster {
                name: CONTEXT_NAME.to_owned(),
                cluster: Some(cluster),
                other: BTreeMap::default(),
            }],
            auth_infos: vec![NamedAuthInfo {
                name: CONTEXT_NAME.to_owned(),
                auth_info: Some(user),
                other: BTreeMap::default(),
            }],
            ..Kubeconfig::default()
        })
    }

    fn chosen_context(&self, kubeconfig: &Kubeconfig) -> Result<Context, ConnectError> {
        let named = self
            .context
            .as_ref()
            .or(kubeconfig.current_context.as_ref())
            .filter(|name| !name.is_empty());
        let contexts = kubeconfig
            .contexts
            .iter()
            .map(|c| (c.name.as_str(), c.context.as_ref()));
        match named {
            Some(name) => find("context", name, false, contexts),
            None if self.server().is_some() || self.cluster.is_some() => Ok(Context::default()),
            None => Err(ConnectError::NoContext {
                known: contexts.map(|(name, _)| name.to_owned()).collect(),
            }),
        }
    }

    fn over_cluster(&self, mut cluster: ClusterEntry) -> ClusterEntry {
        cluster.server = self.server().map(str::to_owned).or(cluster.server);
        if let Some(path) = &self.certificate_authority {
            cluster.certificate_authority = Some(path.display().to_string());
            cluster.certificate_authority_data = None;
        }
        if self.insecure_skip_tls_verify == Some(true) {
            // client-go refuses both; a CA in the file must not stand in the flag's way.
            cluster.insecure_skip_tls_verify = Some(true);
            cluster.certificate_authority = None;
            cluster.certificate_authority_data = None;
        }
        cluster.tls_server_name = self.tls_server_name.clone().or(cluster.tls_server_name);
        // As for `--server`, kubectl takes an empty one for none.
        let proxy_url = self.proxy_url.clone().filter(|url| !url.is_empty());
        cluster.proxy_url = proxy_url.or(cluster.proxy_url);
        if self.disable_compression == Some(true) {
            cluster.disable_compression = Some(true);
        }
        cluster
    }

    fn over_user(&self, mut user: AuthInfo) -> AuthInfo {
        if let Some(token) = &self.token {
            user.token = Some(token.clone().into());
            user.token_file = None;
            user.exec = None;
            user.auth_provider = None;
            user.username = None;
            user.password = None;
        }
        if let Some(path) = &self.client_certificate {
            user.client_certificate = Some(path.display().to_string());
            user.client_certificate_data = None;
        }
        if let Some(path) = &self.client_key {
            user.client_key = Some(path.display().to_string());
            user.client_key_data = None;
        }
        user.impersonate = self.impersonate.clone().or(user.impersonate);
        user.impersonate_uid = self.impersonate_uid.clone().or(user.impersonate_uid);
        if !self.impersonate_groups.is_empty() {
            user.impersonate_groups = Some(self.impersonate_groups.clone());
        }
        if !self.impersonate_extra.is_empty() {
            let mut extra: HashMap<String, Vec<String>> = HashMap::new();
            for (key, value) in &self.impersonate_extra {
                extra.entry(key.clone()).or_default().push(value.clone());
            }
            user.impersonate_user_extra = Some(extra);
        }
        user
    }
}

/// The entry of this name; an empty one if it is absent and need not be there.
fn find<'a, T: Clone + Default + 'a>(
    what: &'static str,
    name: &str,
    may_be_absent: bool,
    entries: impl Iterator<Item = (&'a str, Option<&'a T>)> + Clone,
) -> Result<T, ConnectError> {
    match entries.clone().find(|(known, _)| *known == name) {
        Some((_, entry)) => Ok(entry.cloned().unwrap_or_default()),
        None if may_be_absent => Ok(T::default()),
        None => Err(ConnectError::NotInKubeconfig {
            what,
            name: name.to_owned(),
            known: entries.map(|(known, _)| known.to_owned()).collect(),
        }),
    }
}

/// Whether a proxy of the environment is no use for this server: Go passes it by for the
/// machine itself (`golang.org/x/net/http/httpproxy`, `useProxy`), and so does kubectl.
fn is_loopback(url: &http::Uri) -> bool {
    let host = url.host().unwrap_or_default();
    let address = host.trim_start_matches('[').trim_end_matches(']').parse();
    host == "localhost" || address.is_ok_and(|address: IpAddr| address.is_loopback())
}

fn default_paths() -> Vec<PathBuf> {
    let listed = std::env::var_os("KUBECONFIG").unwrap_or_default();
    let listed = std::env::split_paths(&listed).filter(|path| !path.as_os_str().is_empty());
    let listed: Vec<PathBuf> = listed.collect();
    if !listed.is_empty() {
        return listed;
    }
    let home = std::env::home_dir().unwrap_or_else(|| Path::new("/").to_owned());
    vec![home.join(".kube").join("config")]
}

/// The last cause of an error: what its wrappers repeat or hide.
pub(crate) fn innermost(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(next) = cause.source() {
        cause = next;
    }
    cause.to_string()
}

fn key_value(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err("expected KEY=VALUE".to_owned()),
    }
}

/// `--request-timeout`: a Go duration, or a bare number of seconds
/// (`k8s.io/client-go/tools/clientcmd/overrides.go`, `ParseTimeout`, v0.36.3).
fn request_timeout(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().map(Duration::from_secs);
    seconds.or_else(|_| time_limit(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bare_number_is_a_timeout_in_seconds() {
        assert_eq!(request_timeout("5"), Ok(Duration::from_secs(5)));
        assert_eq!(request_timeout("2m"), Ok(Duration::from_mins(2)));
        assert!(request_timeout("2").is_ok() && request_timeout("soon").is_err());
    }
}
