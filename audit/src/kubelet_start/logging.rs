//! Options of the log and of tracing.

use serde_json::Value;

use super::Input;
use super::fields::Fields;
use super::option::is_zero;
use nodelife_core::go_duration::GoDuration;

pub(super) fn check(subject: Input<'_>, refusals: &mut Vec<String>) {
    let logging = subject.fields.inner("logging");
    log(subject, logging, refusals);
    verbosity(logging, refusals);
    streams(subject, logging.inner("options"), refusals);
    tracing(subject, refusals);
}

/// `Validate` (`component-base/logs/api/v1/options.go`).
fn log(subject: Input<'_>, logging: Fields<'_>, refusals: &mut Vec<String>) {
    let flush = match logging.get("flushFrequency") {
        Some(Value::String(text)) => GoDuration::parse(text).map(GoDuration::nanoseconds),
        Some(number) => number.as_i64(),
        None => None,
    };
    if subject.since(35) && flush.is_some_and(i64::is_negative) {
        refusals.push("logging.flushFrequency must be greater than zero".into());
    }
    match logging.text("format") {
        "" | "text" => {}
        "json" => {
            subject.has_gate("logging.format json", "LoggingBetaOptions", refusals);
        }
        other => refusals.push(format!(
            "logging.format {other:?} must be one of: text, json"
        )),
    }
}

fn verbosity(logging: Fields<'_>, refusals: &mut Vec<String>) {
    let is_too_high = |fields: Fields<'_>| fields.number("verbosity", 0) > i64::from(i32::MAX);
    if is_too_high(logging) {
        refusals.push(format!("logging.verbosity must be at most {}", i32::MAX));
    }
    let is_text = matches!(logging.text("format"), "" | "text");
    if !is_text && !logging.list("vmodule").is_empty() {
        refusals.push("logging.vmodule needs logging.format text".into());
    }
    for item in logging.structs("vmodule") {
        let pattern = item.text("filePattern");
        if pattern.is_empty() || pattern.contains(['=', ',']) {
            refusals.push(format!(
                "logging.vmodule: {pattern:?} is no pattern: it must not be empty nor have = or ,"
            ));
        }
        if is_too_high(item) {
            refusals.push(format!(
                "logging.vmodule: verbosity must be at most {}",
                i32::MAX
            ));
        }
    }
}

fn streams(subject: Input<'_>, options: Fields<'_>, refusals: &mut Vec<String>) {
    for format in ["text", "json"] {
        let routing = options.inner(format);
        let size = routing.get("infoBufferSize");
        let is_set = [
            ("splitStream", routing.is_true("splitStream")),
            ("infoBufferSize", size.is_some_and(|size| !is_zero(size))),
        ];
        for (option, _) in is_set.iter().filter(|(_, is_set)| *is_set) {
            let field = format!("logging.options.{format}.{option}");
            subject.has_gate(&field, "LoggingAlphaOptions", refusals);
        }
    }
}

/// `ValidateTracingConfiguration` (`component-base/tracing/api/v1/config.go`).
fn tracing(subject: Input<'_>, refusals: &mut Vec<String>) {
    const MILLION: i64 = 1_000_000;
    if !subject.fields.has("tracing") {
        return;
    }
    if !subject.since(34) && !subject.has_gate("tracing", "KubeletTracing", refusals) {
        return;
    }
    let tracing = subject.fields.inner("tracing");
    let rate = tracing.number("samplingRatePerMillion", 0);
    if !(0..=MILLION).contains(&rate) {
        refusals.push(format!(
            "tracing.samplingRatePerMillion {rate} must be between 0 and {MILLION}"
        ));
    }
    if tracing.has("endpoint") && !is_target(tracing.text("endpoint")) {
        refusals.push(format!(
            "tracing.endpoint {:?} is no address of gRPC (dns, unix, unix-abstract)",
            tracing.text("endpoint")
        ));
    }
}

/// Whether it is a URL of a scheme that gRPC resolves; without `//` it is the name of a host.
/// Mirrors `validateEndpoint` (`component-base/tracing/api/v1/config.go`) and `url.Parse` of Go.
fn is_target(endpoint: &str) -> bool {
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

fn is_escaped(text: &str) -> bool {
    text.split('%').skip(1).all(|after| {
        let digits = after.bytes().take(2);
        digits.clone().count() == 2 && digits.into_iter().all(|b| b.is_ascii_hexdigit())
    })
}
