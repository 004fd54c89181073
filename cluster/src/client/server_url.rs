//! The URL of an API server from what a flag or a kubeconfig gives, by client-go's rules.

use http::Uri;
use http::uri::Scheme;

/// The URL of `server`: a URL, or `HOST:PORT` without a scheme. The latter is HTTPS only if
/// something says how to check the server's certificate (client-go v0.36.3, `rest/url_utils.go`,
/// `DefaultServerURL`).
pub(super) fn complete(server: &str, is_tls: bool) -> Result<Uri, String> {
    let with_scheme = server.contains("://");
    let url = if with_scheme {
        server.to_owned()
    } else {
        let scheme = if is_tls { "https" } else { "http" };
        format!("{scheme}://{server}")
    };
    let (_, rest) = url.split_once("://").unwrap_or_default();
    if rest.is_empty() || rest.starts_with(['/', ':', '?', '#']) {
        return Err("has no host".to_owned());
    }
    let uri: Uri = url
        .parse()
        .map_err(|error| format!("is no URL and no HOST:PORT: {error}"))?;
    if uri.host().is_none_or(str::is_empty) {
        return Err("has no host".to_owned());
    }
    let authority = uri.authority().map(http::uri::Authority::as_str);
    let host = authority.unwrap_or_default().rsplit('@').next();
    let after = host.and_then(|host| host.rsplit(']').next());
    let port = after.and_then(|host| host.split_once(':'));
    if port.is_some_and(|(_, port)| port.parse::<u16>().is_err()) {
        return Err("has a port that is no number up to 65535".to_owned());
    }
    let scheme = uri.scheme();
    if scheme != Some(&Scheme::HTTP) && scheme != Some(&Scheme::HTTPS) {
        return Err("has another scheme than http and https".to_owned());
    }
    if !with_scheme && uri.path() != "/" {
        return Err("has a path but no scheme: give a URL, or HOST:PORT alone".to_owned());
    }
    Ok(uri)
}

/// A text without the user and the password of the URL in it, as in `--server=https://u:p@host`.
pub fn without_user(text: &str) -> String {
    let (before, rest) = text.split_at(text.find("://").map_or(text.len(), |at| at + 3));
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let host = authority.rsplit('@').next().unwrap_or_default();
    format!("{before}{host}{path}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_without_a_scheme_gets_client_gos() {
        for (server, is_tls, url) in [
            ("localhost:6443", false, "http://localhost:6443/"),
            ("localhost:6443", true, "https://localhost:6443/"),
            ("10.0.0.1", true, "https://10.0.0.1/"),
            ("[::1]:6443/", true, "https://[::1]:6443/"),
            ("https://a/prefix", false, "https://a/prefix"),
            ("http://a:80", true, "http://a:80/"),
        ] {
            assert_eq!(complete(server, is_tls).unwrap().to_string(), url);
        }
    }

    #[test]
    fn a_server_that_is_no_address_is_refused_with_the_reason() {
        for (server, reason) in [
            ("", "has no host"),
            ("https://", "has no host"),
            ("https:///path", "has no host"),
            ("https://:6443", "has no host"),
            ("ftp://a", "has another scheme"),
            ("host:6443/path", "has a path but no scheme"),
            ("a b", "is no URL"),
            ("https://a:port", "has a port"),
            ("[::1]:70000", "has a port"),
        ] {
            let error = complete(server, true).unwrap_err();
            assert!(error.starts_with(reason), "{server}: {error}");
        }
    }
}
