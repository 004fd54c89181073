//! Verification of credentials for images that are on the node already.

use super::Input;
use super::option::one_of;
use nodelife_core::names::is_word;

pub(super) fn check(subject: Input<'_>, refusals: &mut Vec<String>) {
    const GATE: &str = "KubeletEnsureSecretPulledImages";
    const POLICY: &str = "imagePullCredentialsVerificationPolicy";
    const LIST: &str = "preloadedImagesVerificationAllowlist";
    const ALLOWLISTED: &str = "NeverVerifyAllowlistedImages";
    let policy = subject.fields.text(POLICY);
    let patterns: Vec<&str> = subject.fields.texts(LIST).collect();
    if !subject.is_on(GATE) {
        if !policy.is_empty() {
            subject.has_gate(POLICY, GATE, refusals);
        }
        if !patterns.is_empty() {
            subject.has_gate(LIST, GATE, refusals);
        }
        return;
    }
    let policies = [
        "NeverVerify",
        "NeverVerifyPreloadedImages",
        ALLOWLISTED,
        "AlwaysVerify",
    ];
    one_of(POLICY, policy, &policies, refusals);
    if !patterns.is_empty() && policy != ALLOWLISTED {
        refusals.push(format!("{LIST} needs {POLICY}: {ALLOWLISTED}"));
        return;
    }
    for pattern in patterns {
        if !is_pattern(pattern, subject.since(36)) {
            refusals.push(format!("{LIST}: {pattern:?} is no pattern of image names"));
        }
    }
}

/// `getAllowlistImagePattern` (`pkg/kubelet/images/pullmanager/image_pull_policies.go`). Before 1.36
/// a name had to be written in full.
fn is_pattern(pattern: &str, may_be_short: bool) -> bool {
    if pattern != pattern.trim() || pattern.is_empty() {
        return false;
    }
    if let Some(prefix) = pattern.strip_suffix("/*") {
        return !prefix.is_empty() && !prefix.contains('*');
    }
    is_name(pattern) && (may_be_short || is_full(pattern))
}

/// A name without tag and digest (`ReferenceRegexp` of github.com/distribution/reference v0.6.0).
fn is_name(name: &str) -> bool {
    const MOST: usize = 255;
    let is_path = |path: &str| path.split('/').all(is_path_component);
    if let Some((domain, path)) = name.split_once('/')
        && is_domain(domain)
    {
        return is_path(path) && path.len() <= MOST;
    }
    is_path(name) && name.len() <= MOST
}

/// `ParseNormalizedNamed` leaves it as it is.
fn is_full(name: &str) -> bool {
    let Some((domain, path)) = name.split_once('/') else {
        return false;
    };
    let is_domain =
        domain == "localhost" || domain.contains(['.', ':']) || domain.to_lowercase() != domain;
    is_domain && domain != "index.docker.io" && (domain != "docker.io" || path.contains('/'))
}

fn is_domain(domain: &str) -> bool {
    let is_port = |port: &str| !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit());
    if let Some(rest) = domain.strip_prefix('[') {
        let Some((address, port)) = rest.split_once(']') else {
            return false;
        };
        let is_address = |c: char| c.is_ascii_hexdigit() || c == ':';
        return !address.is_empty()
            && address.chars().all(is_address)
            && (port.is_empty() || port.strip_prefix(':').is_some_and(is_port));
    }
    let (host, port) = match domain.split_once(':') {
        Some((host, port)) => (host, Some(port)),
        None => (domain, None),
    };
    let is_end = |c: char| c.is_ascii_alphanumeric();
    port.is_none_or(is_port) && host.split('.').all(|label| is_word(label, is_end, &['-']))
}

/// Lower-case letters and digits; between them one of `.`, `_`, `__` or any number of `-`.
fn is_path_component(component: &str) -> bool {
    let is_end = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let separators = component.split(is_end).filter(|part| !part.is_empty());
    component.starts_with(is_end)
        && component.ends_with(is_end)
        && separators.into_iter().all(|separator| {
            matches!(separator, "." | "_" | "__") || separator.chars().all(|c| c == '-')
        })
}
