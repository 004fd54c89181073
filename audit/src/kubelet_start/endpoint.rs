//! Addresses of a collector of traces.
//!
//! Mirrors `validateEndpoint` (`component-base/tracing/api/v1/config.go`) and `url.Parse` of Go.

/// Whether it is a URL of a scheme that gRPC resolves; without `//` it is the name of a host.
pub(super) fn is_target(endpoint: &str) -> bool {
    let endpoint = if endpoint.contains("//") {
        endpoint.to_owned()
    } else {
        format!("dns://{endpoint}")
    };
    if endpoint.bytes().any(|b| b < b' ' || b == 0x7f) {
        return false;
    }
    let (url, fragment) = endpoint.split_once('#').unwrap_or((&endpoint, ""));
    let Some((scheme, rest)) = url.split_once(':') else {
        return false;
    };
    let is_known = ["dns", "unix", "unix-abstract"]
        .iter()
        .any(|known| scheme.eq_ignore_ascii_case(known));
    if !is_known || !is_escaped(fragment) {
        return false;
    }
    let rest = rest.split_once('?').map_or(rest, |(path, _)| path);
    let Some(after) = rest.strip_prefix("//") else {
        // Behind a scheme anything goes that does not start with a slash.
        return !rest.starts_with('/') || is_escaped(rest);
    };
    let at = after.find('/').unwrap_or(after.len());
    let (authority, path) = after.split_at(at);
    is_authority(authority) && is_escaped(path)
}

fn is_authority(authority: &str) -> bool {
    let host = match authority.rsplit_once('@') {
        Some((user, host)) => {
            let is_allowed =
                |c: char| c.is_ascii_alphanumeric() || "-._:~!$&'()*+,;=%@".contains(c);
            if !user.chars().all(is_allowed) || !is_escaped(user) {
                return false;
            }
            host
        }
        None => authority,
    };
    if let Some(rest) = host.strip_prefix('[') {
        let Some((address, port)) = rest.rsplit_once(']') else {
            return false;
        };
        return address.parse::<std::net::Ipv6Addr>().is_ok() && is_port(port);
    }
    let port = host.rfind(':').and_then(|at| host.get(at..)).unwrap_or("");
    is_port(port) && host.chars().all(is_of_host)
}

/// Nothing, or a colon and digits or none.
fn is_port(text: &str) -> bool {
    text.is_empty()
        || text
            .strip_prefix(':')
            .is_some_and(|port| port.bytes().all(|b| b.is_ascii_digit()))
}

fn is_of_host(c: char) -> bool {
    !c.is_ascii() || c.is_ascii_alphanumeric() || "-_.~!$&'()*+,;=:[]<>\"".contains(c)
}

/// Whether two hexadecimal digits follow every `%`.
fn is_escaped(text: &str) -> bool {
    text.split('%').skip(1).all(|after| {
        let digits = after.bytes().take(2);
        digits.clone().count() == 2 && digits.into_iter().all(|b| b.is_ascii_hexdigit())
    })
}
