//! kubectl's global flags, with kubectl's spelling and meaning
//! (`k8s.io/cli-runtime/pkg/genericclioptions/config_flags.go`, v0.36.3).

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueHint};
use nodelife_cluster::ClientOptions;

use super::duration::request_timeout;

/// Which cluster, and as whom.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Cluster")]
pub(crate) struct ClusterArgs {
    /// Path to the kubeconfig file [default: KUBECONFIG, then ~/.kube/config]
    #[arg(long, global = true, value_name = "FILE", value_hint = ValueHint::FilePath, hide_short_help = true)]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// Name of the kubeconfig context to use
    #[arg(long, global = true, value_name = "NAME", hide_short_help = true)]
    pub(crate) context: Option<String>,
    /// Name of the kubeconfig cluster to use
    #[arg(long, global = true, value_name = "NAME", hide_short_help = true)]
    pub(crate) cluster: Option<String>,
    /// Name of the kubeconfig user to use
    #[arg(long, global = true, value_name = "NAME", hide_short_help = true)]
    pub(crate) user: Option<String>,
    /// The namespace scope of this request
    #[arg(
        long,
        short,
        global = true,
        value_name = "NAME",
        hide_short_help = true
    )]
    pub(crate) namespace: Option<String>,
    /// Address of the Kubernetes API server
    #[arg(long, short, global = true, value_name = "URL", value_hint = ValueHint::Url, hide_short_help = true)]
    pub(crate) server: Option<String>,
    /// Bearer token for the API server
    #[arg(long, global = true, value_name = "TOKEN", hide_short_help = true)]
    pub(crate) token: Option<String>,
    /// User name to impersonate
    #[arg(
        long = "as",
        global = true,
        value_name = "USER",
        hide_short_help = true
    )]
    pub(crate) impersonate: Option<String>,
    /// Group to impersonate; may be repeated
    #[arg(
        long = "as-group",
        global = true,
        value_name = "GROUP",
        hide_short_help = true
    )]
    pub(crate) impersonate_groups: Vec<String>,
    /// UID to impersonate
    #[arg(
        long = "as-uid",
        global = true,
        value_name = "UID",
        hide_short_help = true
    )]
    pub(crate) impersonate_uid: Option<String>,
    /// Further value to impersonate, as KEY=VALUE; may be repeated
    #[arg(
        long = "as-user-extra",
        global = true,
        value_name = "KEY=VALUE",
        value_parser = key_value,
        hide_short_help = true
    )]
    pub(crate) impersonate_extra: Vec<(String, String)>,
    /// File with the certificate authorities for the API server
    #[arg(long, global = true, value_name = "FILE", value_hint = ValueHint::FilePath, hide_short_help = true)]
    pub(crate) certificate_authority: Option<PathBuf>,
    /// File with the client certificate
    #[arg(long, global = true, value_name = "FILE", value_hint = ValueHint::FilePath, hide_short_help = true)]
    pub(crate) client_certificate: Option<PathBuf>,
    /// File with the client certificate's key
    #[arg(long, global = true, value_name = "FILE", value_hint = ValueHint::FilePath, hide_short_help = true)]
    pub(crate) client_key: Option<PathBuf>,
    /// Do not check the API server's certificate
    #[arg(
        long,
        global = true,
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true",
        value_name = "BOOL",
        hide_short_help = true
    )]
    pub(crate) insecure_skip_tls_verify: Option<bool>,
    /// Name to expect in the API server's certificate, instead of its host name
    #[arg(long, global = true, value_name = "NAME", hide_short_help = true)]
    pub(crate) tls_server_name: Option<String>,
    /// Proxy to reach the API server through, instead of the kubeconfig's
    #[arg(long, global = true, value_name = "URL", value_hint = ValueHint::Url, hide_short_help = true)]
    pub(crate) proxy_url: Option<String>,
    /// Do not request compressed responses
    #[arg(
        long,
        global = true,
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true",
        value_name = "BOOL",
        hide_short_help = true
    )]
    pub(crate) disable_compression: Option<bool>,
    /// Time limit of one request: 30, 30s, 2m; 0 means no limit
    #[arg(long, global = true, value_name = "DURATION", value_parser = request_timeout, hide_short_help = true)]
    pub(crate) request_timeout: Option<Duration>,
}

impl ClusterArgs {
    /// The same for the client. `KUBECONFIG` and the defaults are the client's business.
    pub(crate) fn options(&self) -> ClientOptions {
        let args = self.clone();
        ClientOptions {
            kubeconfig: args.kubeconfig.into_iter().collect(),
            context: args.context,
            cluster: args.cluster,
            user: args.user,
            namespace: args.namespace,
            server: args.server,
            token: args.token,
            impersonate: args.impersonate,
            impersonate_groups: args.impersonate_groups,
            impersonate_uid: args.impersonate_uid,
            impersonate_extra: args.impersonate_extra,
            certificate_authority: args.certificate_authority,
            client_certificate: args.client_certificate,
            client_key: args.client_key,
            insecure_skip_tls_verify: args.insecure_skip_tls_verify.unwrap_or(false),
            tls_server_name: args.tls_server_name,
            proxy_url: args.proxy_url,
            request_timeout: args.request_timeout,
            disable_compression: args.disable_compression.unwrap_or(false),
        }
    }
}

fn key_value(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err("expected KEY=VALUE".to_owned()),
    }
}
