//! Redacts a snapshot: replaces its owner's words, keeps the values that rules read.
//!
//! The rule is safe by default: every text and every key becomes a pseudonym, except for the
//! words of `words.txt`, which Kubernetes and known programs define, for amounts and for times.
//! Equal texts get equal pseudonyms, so a pod still stands on its node and a budget still selects
//! its pods.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher as _, RandomState};
use std::net::IpAddr;
use std::sync::LazyLock;

use jiff::Timestamp;
use nodelife_core::go_duration::GoDuration;
use nodelife_core::node_access::{NodeAuthorizer, NodeRestriction};
use nodelife_core::quantity::Quantity;
use nodelife_core::snapshot::Snapshot;
use nodelife_core::text::Str;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::kinds::{Kind, Visitor, each_kind};
use crate::listing::Object;

/// Fields whose objects have keys of the owner's, and texts as values.
const MAPS: &[&str] = &[
    "labels",
    "matchLabels",
    "nodeSelector",
    "annotations",
    "disruptedPods",
];

/// Fields whose objects have keys of the owner's, and amounts as values.
const AMOUNTS: &[&str] = &["capacity", "allocatable", "requests", "limits", "overhead"];

/// Keys whose values are names, even if these are numbers.
const NAMES: &[&str] = &["kubernetes.io/hostname", "metadata.name"];

/// Stands for every field of a kubelet's configuration: all may have numbers and keys.
const OPTION: &str = "option";

/// Fields of a kubelet's configuration that may be secrets in the form of numbers.
const SECRETS: &[&str] = &["preloadedImagesVerificationAllowlist", "staticPodURLHeader"];

/// How the kubelet's names of volumes begin, `kubernetes.io/csi/DRIVER^HANDLE`.
const CSI: &str = "kubernetes.io/csi/";

/// How conditions of detectors begin or end, by which rules know what they report.
const HEADS: &[&str] = &["Frequent", "Unhealthy", "Deprecated"];
const TAILS: &[&str] = &["Problem", "Unhealthy", "Pressure", "Ready", "Configuration"];

pub fn redact(snapshot: &mut Snapshot) -> Result<(), serde_json::Error> {
    let mut pseudonyms = Pseudonyms::default();
    let mut lists = Lists {
        snapshot,
        pseudonyms: &mut pseudonyms,
        result: Ok(()),
    };
    each_kind(&mut lists);
    lists.result?;
    for (node, mut configuration) in std::mem::take(&mut snapshot.kubelet_configs) {
        (configuration.others).retain(|field, _| !SECRETS.contains(&field.as_str()));
        let configuration = changed(&configuration, |value| pseudonyms.value(OPTION, value))?;
        let node = Str::from(pseudonyms.name(&node));
        snapshot.kubelet_configs.insert(node, configuration);
    }
    if let Some(version) = &mut snapshot.server_version {
        *version = pseudonyms.version(version).into();
    }
    // The reasons quote the server, and the server quotes users.
    for reason in snapshot.missing.values_mut() {
        *reason = "was not read (the reason is redacted)".into();
    }
    // Users choose the names of webhooks, policies and role bindings.
    if let Some(NodeAuthorizer::Unknown { allowed_by }) = &mut snapshot.node_authorizer {
        *allowed_by = "another authorizer (its reason is redacted)".into();
    }
    if let Some(NodeRestriction::Off {
        denied_by: Some(denied_by),
    }) = &mut snapshot.node_restriction
    {
        *denied_by = "a webhook or policy (its name is redacted)".into();
    }
    Ok(())
}

struct Lists<'a> {
    snapshot: &'a mut Snapshot,
    pseudonyms: &'a mut Pseudonyms,
    result: Result<(), serde_json::Error>,
}

impl Visitor for Lists<'_> {
    fn visit<T: Object>(&mut self, kind: &'static Kind<T>) {
        kind.change_list(self.snapshot, |list| {
            // One object at a time, so that no tree of the whole list is held.
            for object in list {
                match changed(object, |value| self.pseudonyms.value("", value)) {
                    Ok(redacted) => *object = redacted,
                    Err(error) => self.result = Err(error),
                }
            }
        });
    }
}

fn changed<T: Serialize + DeserializeOwned>(
    object: &T,
    change: impl FnOnce(&mut Value),
) -> Result<T, serde_json::Error> {
    let mut value = serde_json::to_value(object)?;
    change(&mut value);
    // By way of text: one more reader of each kind would be a lot of code.
    serde_json::from_str(&value.to_string())
}

static WORDS: LazyLock<HashSet<&str>> = LazyLock::new(|| words(include_str!("words.txt")));

static DOMAINS: LazyLock<HashSet<&str>> = LazyLock::new(|| {
    let domains = WORDS.iter().filter_map(|word| word.split_once('/'));
    domains.map(|(domain, _)| domain).collect()
});

static VERSION_WORDS: LazyLock<HashSet<&str>> =
    LazyLock::new(|| words(include_str!("version_words.txt")));

#[derive(Default)]
struct Pseudonyms {
    known: HashMap<String, String>,
    /// Decides which bits of an address to turn; another one in each snapshot.
    turns: RandomState,
}

impl Pseudonyms {
    fn value(&mut self, field: &str, value: &mut Value) {
        match value {
            Value::String(text) => *text = self.text(field, text),
            Value::Array(items) => {
                for item in items {
                    self.value(field, item);
                }
            }
            Value::Object(fields) if field == OPTION => {
                for (key, mut value) in std::mem::take(fields) {
                    self.value(OPTION, &mut value);
                    fields.insert(self.key(&key), value);
                }
            }
            Value::Object(fields) if MAPS.contains(&field) || AMOUNTS.contains(&field) => {
                for (key, mut value) in std::mem::take(fields) {
                    self.value_of(field, &key, &mut value);
                    fields.insert(self.key(&key), value);
                }
            }
            Value::Object(fields) => {
                // A taint, a toleration or a requirement: the key says what the value is.
                let key = fields.get("key").and_then(Value::as_str).map(str::to_owned);
                for (name, value) in fields {
                    match (&key, name.as_str()) {
                        (Some(key), "value" | "values") => self.value_of(field, key, value),
                        _ => self.value(name, value),
                    }
                }
            }
            _ => {}
        }
    }

    /// Redacts what stands under a key: numbers stay where it is known what they count.
    fn value_of(&mut self, field: &str, key: &str, value: &mut Value) {
        let counts = WORDS.contains(key) && !NAMES.contains(&key) || AMOUNTS.contains(&field);
        match value {
            Value::String(text) if counts && is_number(text) => {}
            Value::String(text) => *text = self.name(text),
            Value::Array(items) => {
                for item in items {
                    self.value_of(field, key, item);
                }
            }
            _ => {}
        }
    }

    fn text(&mut self, field: &str, text: &str) -> String {
        match field {
            "message" => String::new(),
            "type" => self.condition(text),
            "providerID" => self.parts(text, "/"),
            "address" | "podCIDR" | "podCIDRs" => self.address(text),
            // Programs compare these without regard to their case.
            "machineID" | "systemUUID" | "bootID" => self.name(&text.to_lowercase()),
            "osImage"
            | "kernelVersion"
            | "containerRuntimeVersion"
            | "kubeletVersion"
            | "imageVersion" => self.version(text),
            OPTION | "minAvailable" | "maxUnavailable" if is_number(text) => text.to_owned(),
            _ if text.starts_with("system:") => self.parts(text, ":"),
            _ => self.key(text),
        }
    }

    fn name(&mut self, text: &str) -> String {
        if text.is_empty() || WORDS.contains(text) || text.parse::<Timestamp>().is_ok() {
            return text.to_owned();
        }
        let next = format!("x{}", self.known.len() + 1);
        self.known.entry(text.to_owned()).or_insert(next).clone()
    }

    /// A key or a word with a domain, `example.com/team`.
    fn key(&mut self, text: &str) -> String {
        if let Some((driver, handle)) = text.strip_prefix(CSI).and_then(|name| name.split_once('^'))
        {
            return format!("{CSI}{}^{}", self.name(driver), self.name(handle));
        }
        match text.split_once('/') {
            Some((domain, name)) if !WORDS.contains(text) => {
                let is_known = DOMAINS.contains(domain);
                let domain = if is_known {
                    domain.to_owned()
                } else {
                    self.name(domain)
                };
                format!("{domain}/{}", self.name(name))
            }
            _ => self.name(text),
        }
    }

    fn address(&mut self, text: &str) -> String {
        let (ip, length) = text.split_once('/').unwrap_or((text, ""));
        if let (Ok(ip), true) = (
            ip.parse(),
            length.is_empty() || length.parse::<u32>().is_ok(),
        ) {
            let ip = self.permuted(ip, length.parse().unwrap_or(u32::MAX));
            return if length.is_empty() {
                ip.to_string()
            } else {
                format!("{ip}/{length}")
            };
        }
        let text = text.to_lowercase();
        // A node is often called by the first part of its domain name.
        match text.split_once('.') {
            Some((host, domain)) if self.known.contains_key(host) => {
                format!("{}.{}", self.name(host), self.name(domain))
            }
            _ => self.name(&text),
        }
    }

    /// Another address, so that two share as many leading bits as before: an address stays within
    /// its range, and ranges overlap as they did. What is behind `length` bits is zero.
    fn permuted(&self, ip: IpAddr, length: u32) -> IpAddr {
        let (bits, width) = match ip {
            IpAddr::V4(ip) => (u128::from(u32::from(ip)) << 96, 32),
            IpAddr::V6(ip) => (u128::from(ip), 128),
        };
        let turned = (0..length.min(width)).map(|at| {
            let prefix = bits.checked_shr(128 - at).unwrap_or(0);
            let turn = u128::from(self.turns.hash_one((at, prefix)) & 1) << (127 - at);
            (bits & (1 << (127 - at))) ^ turn
        });
        let bytes = turned.fold(0, |all, bit| all | bit).to_be_bytes();
        match (ip, bytes) {
            (IpAddr::V4(_), [a, b, c, d, ..]) => IpAddr::from([a, b, c, d]),
            _ => IpAddr::from(bytes),
        }
    }

    /// The type of a condition: `x1Problem` of `DiskProblem`.
    fn condition(&mut self, text: &str) -> String {
        if WORDS.contains(text) {
            return text.to_owned();
        }
        let head = HEADS.iter().find(|head| text.starts_with(*head));
        let tail = TAILS.iter().find(|tail| text.ends_with(*tail));
        let [head, tail] = [head, tail].map(|part| part.copied().unwrap_or_default());
        format!("{head}{}{tail}", self.name(text))
    }

    fn parts(&mut self, text: &str, separator: &str) -> String {
        let parts = text
            .split(separator)
            .map(|part| match part.strip_suffix(':') {
                Some(scheme) => self.name(scheme) + ":",
                None => self.name(part),
            });
        parts.collect::<Vec<_>>().join(separator)
    }

    /// A version: numbers and the marks of known programs stay, `5.15.0-x1` of `5.15.0-acme`.
    fn version(&mut self, text: &str) -> String {
        let mut redacted = String::new();
        let mut rest = text;
        while !rest.is_empty() {
            let is_part = |c: char| c.is_alphanumeric();
            let end = rest.find(|c| !is_part(c)).unwrap_or(rest.len());
            let (part, behind) = rest.split_at(end);
            let word = part.trim_end_matches(|c: char| c.is_ascii_digit());
            if part.is_empty() || word.is_empty() || VERSION_WORDS.contains(word) {
                redacted.push_str(part);
            } else {
                redacted.push_str(&self.name(part));
            }
            let next = behind.find(is_part).unwrap_or(behind.len());
            let (separator, behind) = behind.split_at(next);
            redacted.push_str(separator);
            rest = behind;
        }
        redacted
    }
}

fn words(text: &'static str) -> HashSet<&'static str> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines.flat_map(str::split_whitespace).collect()
}

/// Whether it is an amount, a share, a duration or a set of numbers (`0-3,8`).
fn is_number(text: &str) -> bool {
    let number = text.strip_suffix('%').unwrap_or(text);
    let is_of_set = |byte: u8| byte.is_ascii_digit() || matches!(byte, b',' | b'-');
    Quantity::parse(number).is_ok()
        || GoDuration::parse(text).is_some()
        || !text.is_empty() && text.bytes().all(is_of_set)
}

#[cfg(test)]
mod tests;
