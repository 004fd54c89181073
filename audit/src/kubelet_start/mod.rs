//! Whether the kubelet of another version starts with a configuration.
//!
//! Mirrors what `NewKubeletCommand` (`cmd/kubelet/app/server.go`) of Kubernetes v1.33.13, v1.34.4,
//! v1.35.4, v1.36.3 and v1.37.2 does with its file before it looks at the machine: decode, default,
//! set feature gates, validate (`pkg/kubelet/apis/config/validation`), prepare TLS. What the machine
//! decides is in [`nodelife_core::allocatable`].

mod endpoint;
mod fields;
mod gate;
mod image;
mod logging;
mod number;
mod option;
mod schema;
mod start;
mod subject;
mod table;
mod taint;
mod target;
#[cfg(test)]
mod tests;

use serde_json::{Map, Value};

use fields::Fields;
use gate::Gates;
use schema::Schema;
use subject::Subject;

pub use start::{Refusal, Start};
pub use subject::Cgroups;
pub use table::{FEATURE_GATES, FIELDS, GATE_NEEDS};
pub use target::Target;

/// Judges `document`, the file of `--config`, as the kubelet of `target` does.
pub fn judge(document: &Map<String, Value>, target: Target, cgroups: Cgroups) -> Start {
    let mut start = Start::default();
    for (field, expected) in [
        ("apiVersion", "kubelet.config.k8s.io/v1beta1"),
        ("kind", "KubeletConfiguration"),
    ] {
        let found = document.get(field).and_then(Value::as_str);
        if found != Some(expected) {
            let message = format!("{field} must be {expected}");
            start.refusals.push(Refusal::Value(message));
        }
    }
    let decoded = Schema::of(target).decode(document);
    start.ignored = decoded.unknown;
    let unread = decoded.refusals.into_iter().map(Refusal::Value);
    start.refusals.extend(unread);
    if !start.refusals.is_empty() {
        return start;
    }
    let fields = Fields::of(document);
    let gates = Gates::new(target, fields.map("featureGates"));
    start.refusals = gates.refusals();
    // The kubelet stops here if a gate is refused. The rest is worth knowing, too.
    let subject = Subject {
        target,
        gates: &gates,
        fields,
        cgroups,
    };
    let mut refusals = Vec::new();
    number::check(subject, &mut refusals);
    option::check(subject, &mut refusals);
    taint::check(subject, &mut refusals);
    logging::check(subject, &mut refusals);
    image::check(subject, &mut refusals);
    let refusals = refusals.into_iter().map(Refusal::Value);
    start.refusals.extend(refusals);
    start
}
