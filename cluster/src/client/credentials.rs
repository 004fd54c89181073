//! Error messages for credentials that the API server refuses or a credential plugin does not give.

use base64::Engine as _;
use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD};
use jiff::Timestamp;
use kube::client::AuthError;
use kube::config::{AuthInfo, ExecConfig};
use secrecy::ExposeSecret as _;
use serde::Deserialize;
use x509_parser::pem::parse_x509_pem;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Credentials {
    None,
    /// A client certificate, and when it ends if that can be read.
    Certificate(Option<Timestamp>),
    /// A bearer token, and when it ends if it says so.
    Token(Option<Timestamp>),
    Plugin(String),
    Other,
}

impl Credentials {
    /// Looks at the user of a kubeconfig, in the order in which client-go prefers what it
    /// finds there (v0.36.3, `tools/clientcmd/client_config.go`).
    pub(crate) fn of(user: &AuthInfo) -> Self {
        if let Some(token) = &user.token {
            return Self::Token(token_end(token.expose_secret()));
        }
        if let Some(path) = &user.token_file {
            let token = std::fs::read_to_string(path).unwrap_or_default();
            return Self::Token(token_end(token.trim()));
        }
        if let Some(exec) = &user.exec {
            return Self::Plugin(exec.command.clone().unwrap_or_default());
        }
        if user.client_certificate.is_some() || user.client_certificate_data.is_some() {
            return Self::Certificate(certificate_end(user));
        }
        if user.username.is_some() || user.auth_provider.is_some() {
            return Self::Other;
        }
        Self::None
    }

    pub(crate) fn advice(&self, now: Timestamp) -> String {
        let ended = |end: &Option<Timestamp>| end.filter(|end| *end < now);
        let (what, end) = match self {
            Self::None => {
                return "there are no credentials; choose a context or --user that has some, \
                        or give --token"
                    .to_owned();
            }
            Self::Plugin(command) => {
                return format!(
                    "it rejects the token of the credential plugin {command}; log in again with \
                     the plugin's own command"
                );
            }
            Self::Other => return "the credentials are wrong or expired; log in again".to_owned(),
            Self::Certificate(end) => ("client certificate", ended(end)),
            Self::Token(end) => ("token", ended(end)),
        };
        match end {
            Some(end) => {
                format!(
                    "the {what} expired at {end:.0}; log in again, or renew it in the kubeconfig"
                )
            }
            None => format!(
                "the {what} is wrong, revoked, or for another cluster; check it in the kubeconfig, \
                 or log in again"
            ),
        }
    }
}

/// When the client certificate, which is PEM, ends.
fn certificate_end(user: &AuthInfo) -> Option<Timestamp> {
    let pem = match &user.client_certificate_data {
        Some(data) => BASE64_STANDARD.decode(data).ok()?,
        None => std::fs::read(user.client_certificate.as_ref()?).ok()?,
    };
    let (_, pem) = parse_x509_pem(&pem).ok()?;
    let certificate = pem.parse_x509().ok()?;
    Timestamp::from_second(certificate.validity().not_after.timestamp()).ok()
}

/// The `exp` of a JSON Web Token (RFC 7519 §4.1.4); other tokens say nothing of themselves.
fn token_end(token: &str) -> Option<Timestamp> {
    #[derive(Deserialize)]
    struct Claims {
        exp: i64,
    }
    let claims = token.split('.').nth(1)?;
    let claims = BASE64_URL_SAFE_NO_PAD.decode(claims).ok()?;
    let claims: Claims = serde_json::from_slice(&claims).ok()?;
    Timestamp::from_second(claims.exp).ok()
}

/// Why there are no credentials: the library's own text shows all that a plugin printed, secrets too.
pub(crate) fn reason(error: &AuthError, exec: Option<&ExecConfig>) -> String {
    let command = exec.and_then(|exec| exec.command.as_deref());
    let command = command.unwrap_or("of the kubeconfig");
    match error {
        AuthError::AuthExecStart(cause) if cause.kind() == std::io::ErrorKind::NotFound => {
            // client-go shows the hint too (v0.36.3, `plugin/pkg/client/auth/exec/exec.go`).
            let hint = exec
                .and_then(|exec| exec.install_hint.as_deref())
                .map_or_else(
                    || "install it, or add its directory to PATH".to_owned(),
                    |hint| hint.split_whitespace().collect::<Vec<_>>().join(" "),
                );
            format!("the credential plugin {command} was not found; {hint}")
        }
        AuthError::AuthExecStart(cause) => {
            format!("failed to run the credential plugin {command}: {cause}")
        }
        AuthError::AuthExecRun { out, .. } => {
            let said = String::from_utf8_lossy(&out.stderr);
            let said = said.lines().map(str::trim).rfind(|line| !line.is_empty());
            let said = said
                .map(|line| format!(", saying: {line}"))
                .unwrap_or_default();
            format!(
                "the credential plugin {command} failed with {}{said}",
                out.status
            )
        }
        AuthError::AuthExecParse(_) | AuthError::ExecPluginFailed => {
            format!("the credential plugin {command} printed no ExecCredential with a status")
        }
        AuthError::Oidc(cause) => {
            format!("{cause}; log in again, which puts a new token into the kubeconfig")
        }
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(claims: &str) -> AuthInfo {
        let token = format!("e30.{}.sig", BASE64_URL_SAFE_NO_PAD.encode(claims));
        AuthInfo {
            token: Some(token.into()),
            ..AuthInfo::default()
        }
    }

    #[test]
    fn an_expired_token_differs_from_a_wrong_one() {
        let now = Timestamp::from_second(1_000).unwrap();
        let advice = |claims| Credentials::of(&token(claims)).advice(now);
        assert!(
            advice(r#"{"exp":999}"#)
                .starts_with("the token expired at 1970-01-01T00:16:39Z; log in"),
            "{}",
            advice(r#"{"exp":999}"#)
        );
        for other in [r#"{"exp":1001}"#, r#"{"exp":"soon"}"#, "{}", "", "\u{0}"] {
            assert!(advice(other).starts_with("the token is wrong"), "{other}");
        }
    }

    #[test]
    fn other_text_is_no_certificate() {
        for data in ["", "?", "aGVsbG8="] {
            let user = AuthInfo {
                client_certificate_data: Some(data.to_owned()),
                ..AuthInfo::default()
            };
            assert_eq!(Credentials::of(&user), Credentials::Certificate(None));
        }
        assert_eq!(Credentials::of(&AuthInfo::default()), Credentials::None);
    }
}
