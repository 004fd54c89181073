//! REG: registration and identity.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use crate::context::is_lost;
use crate::pools::most_common;
use crate::rule::rules;
use crate::{Context, Fact, FindingBuilder, Findings, Rule, Severity};
use nodelife_core::machine::{Class, NodeMachine};
use nodelife_core::object::Node;
use nodelife_core::taint::UNINITIALIZED;

pub(super) const RULES: &[Rule] = rules! {
    "NL-REG-001" Warning [Nodes] All(same_machine_id),
    "NL-REG-002" Error [Nodes] All(same_system_uuid),
    "NL-REG-003" Error [Nodes] All(same_provider_id),
    "NL-REG-004" Error [Nodes] All(same_address),
    "NL-REG-008" Warning [Nodes] All(uninitialized),
    "NL-REG-009" Error [Nodes, Leases, Clock] Cluster(no_node),
    "NL-REG-013" Error [Nodes] Node(never_posted),
};

/// Whether the nodes are one machine that was registered again under another name: all but one are
/// silent, and the identities of the operating system and its address are the same.
fn is_renamed(nodes: &[&Node]) -> bool {
    let identities = nodes.iter().map(|node| {
        let address = addresses(node, "InternalIP").next()?;
        let machine = identity(&node.status.node_info.machine_id).pop()?;
        Some((machine, own_system_uuid(node), address))
    });
    let identities: BTreeSet<_> = identities.collect();
    nodes.iter().filter(|node| is_lost(node)).count() + 1 == nodes.len()
        && identities.len() == 1
        && !identities.contains(&None)
}

pub(super) fn is_registered_anew(context: &Context<'_>, node: &Node) -> bool {
    let address = addresses(node, "InternalIP").next();
    let mut others = context.nodes().filter(|other| other.is_ready());
    others
        .any(|other| addresses(other, "InternalIP").next() == address && is_renamed(&[node, other]))
}

/// As [`shared`], without the nodes that NL-REG-004 calls one machine, and without containers, which
/// show the firmware of the machine that they share.
fn shared_by_machines<'a>(
    context: &Context<'a>,
    value: impl Fn(&'a Node) -> Vec<String>,
) -> impl Iterator<Item = (String, Vec<&'a Node>)> {
    let own = |node| match NodeMachine::of(node).class {
        Class::Container => Vec::new(),
        _ => value(node),
    };
    let groups = shared(context, own).into_iter();
    groups.filter(|(_, nodes)| !is_renamed(nodes))
}

fn shared<'a>(
    context: &Context<'a>,
    value: impl Fn(&'a Node) -> Vec<String>,
) -> Vec<(String, Vec<&'a Node>)> {
    let mut nodes: BTreeMap<String, Vec<&Node>> = BTreeMap::new();
    for node in context.nodes() {
        let mut values = value(node);
        values.retain(|value| !value.is_empty());
        values.sort();
        values.dedup();
        for value in values {
            nodes.entry(value).or_default().push(node);
        }
    }
    nodes.retain(|_, nodes| nodes.len() > 1);
    nodes.into_iter().collect()
}

fn found_shared<'a>(what: &str, value: &str, nodes: &[&'a Node]) -> FindingBuilder<'a> {
    let names = nodes.iter().map(|n| n.metadata.name.as_str());
    let first = names.clone().next().unwrap_or_default();
    FindingBuilder::named(
        "Node",
        first,
        "{count} report the same {what} {value}: {nodes}",
    )
    .with("count", Fact::count(nodes.len(), "node"))
    .with("what", what)
    .with("value", value)
    .with("nodes", Fact::names(names.clone()))
    .on_all(names)
}

fn same_machine_id(context: &Context<'_>, findings: &mut Findings<'_>) {
    let total = context.snapshot.nodes.len();
    let id = |node: &Node| identity(&node.status.node_info.machine_id);
    for (id, nodes) in shared_by_machines(context, id) {
        let found = found_shared("machine ID", &id, &nodes);
        let same = |value: fn(&Node) -> String| {
            let mut values: Vec<_> = nodes.iter().map(|n| value(n)).collect();
            values.sort_unstable();
            values
                .windows(2)
                .any(|w| matches!(w, [a, b] if a == b && !a.is_empty()))
        };
        let one_machine = same(own_system_uuid) || same(|n| n.status.node_info.boot_id.to_string());
        // Some images (Talos once) give every node the same id; these are not clones.
        let by_image = nodes.len() == total;
        findings.push(found.severity_if(one_machine && !by_image, Severity::Error));
    }
}

fn same_provider_id(context: &Context<'_>, findings: &mut Findings<'_>) {
    // A redacted id is none. `snapshot --redact` keeps the slashes.
    let own = |node: &Node| {
        let id = Some(node.spec.provider_id.to_string());
        id.filter(|id| id.contains('/') && !id.contains('*'))
            .into_iter()
            .collect()
    };
    for (id, nodes) in shared_by_machines(context, own) {
        findings.push(found_shared("providerID", &id, &nodes));
    }
}

fn same_address(context: &Context<'_>, findings: &mut Findings<'_>) {
    let internal = |node: &Node| {
        // A redacted address is none.
        let addresses = addresses(node, "InternalIP")
            .filter(|address| address.parse::<IpAddr>().is_ok() || is_pseudonym(address));
        addresses.map(String::from).collect()
    };
    for (address, nodes) in shared(context, internal) {
        let found = found_shared("InternalIP", &address, &nodes);
        findings.push(if is_renamed(&nodes) {
            let silent = nodes.iter().filter(|node| !node.is_ready());
            let silent = silent.map(|node| node.metadata.name.as_str());
            found
                .and(": one machine that was renamed; delete {silent}")
                .with("silent", Fact::names(silent))
                .fix("Delete the Node objects that are silent.")
        } else {
            found
        });
    }
}

/// A UUID or an id of hexadecimal digits, in lower case; nothing of a redacted one or a placeholder.
fn identity(text: &str) -> Vec<String> {
    const DIGITS: usize = 32;
    let text = text.to_lowercase();
    let digits = || text.chars().filter(|c| *c != '-');
    let is_one = digits().all(|c| c.is_ascii_hexdigit()) && digits().count() == DIGITS;
    if (is_one && !is_junk(&text)) || is_pseudonym(&text) {
        vec![text]
    } else {
        Vec::new()
    }
}

/// Whether `snapshot --redact` wrote it: `x12`, another one for each value.
fn is_pseudonym(text: &str) -> bool {
    let digits = text.strip_prefix('x').unwrap_or_default();
    !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
}

fn is_junk(uuid: &str) -> bool {
    let digits = || uuid.chars().filter(|c| *c != '-');
    digits().all(|c| c == '0')
        || digits().all(|c| c.eq_ignore_ascii_case(&'f'))
        || uuid == "03000200-0400-0500-0006-000700080009"
}

fn same_system_uuid(context: &Context<'_>, findings: &mut Findings<'_>) {
    for (uuid, nodes) in shared_by_machines(context, |node| identity(&own_system_uuid(node))) {
        findings.push(found_shared("system UUID", &uuid, &nodes));
    }
}

/// The UUID of the firmware; empty without firmware tables, where the machine ID takes its place
/// (cadvisor's `GetSystemUUID`), and NL-REG-001 is about that.
fn own_system_uuid(node: &Node) -> String {
    let info = &node.status.node_info;
    let is_machine_id = plain(&info.system_uuid) == plain(&info.machine_id);
    if is_machine_id {
        String::new()
    } else {
        info.system_uuid.to_string()
    }
}

fn plain(id: &str) -> String {
    id.to_lowercase().replace('-', "")
}

fn addresses<'a>(node: &'a Node, kind: &str) -> impl Iterator<Item = &'a str> {
    let addresses = node.status.addresses.iter();
    addresses
        .filter(move |a| a.kind == kind)
        .map(|a| a.address.as_str())
}

/// The provider that the node's providerID names; none for EKS' nodes outside of AWS, which no
/// cloud controller manages. Hetzner's manages cloud servers and dedicated ones.
fn provider(node: &Node) -> Option<&str> {
    match node.spec.provider_id.split_once("://")?.0 {
        "eks-hybrid" => None,
        "hrobot" => Some("hcloud"),
        provider => Some(provider),
    }
}

pub(super) fn waits_for_cloud(context: &Context<'_>, node: &Node) -> Option<&'static str> {
    let has_provider = |node: &Node| !node.spec.provider_id.is_empty();
    if !is_settled(context, node) {
        None
    } else if node.spec.taints.iter().any(|t| t.key == UNINITIALIZED) {
        Some("{age} old, but still tainted node.cloudprovider.kubernetes.io/uninitialized")
    } else if !has_provider(node) && context.nodes().any(has_provider) {
        Some("{age} old, but has no providerID, unlike other nodes")
    } else {
        None
    }
}

fn is_settled(context: &Context<'_>, node: &Node) -> bool {
    context.age(&node.metadata).is_some_and(|age| age > 300)
}

fn uninitialized(context: &Context<'_>, findings: &mut Findings<'_>) {
    let providers = context.machines().filter_map(provider).collect::<Vec<_>>();
    let usual = most_common(providers.iter().copied());
    for node in context.machines().filter(|node| is_settled(context, node)) {
        let own = provider(node);
        let alike = providers.iter().filter(|id| Some(**id) == own).count();
        let tainted = node.spec.taints.iter().any(|t| t.key == UNINITIALIZED);
        let is_odd = own.is_some() && own != usual;
        let odd = "its providerID is of {provider}, that of most nodes of {usual}";
        let Some(says) = waits_for_cloud(context, node).or_else(|| is_odd.then_some(odd)) else {
            continue;
        };
        let found = FindingBuilder::node(node, says)
            .with("age", context.age(&node.metadata).map(Fact::seconds))
            .with("provider", own)
            .with("usual", usual);
        // Several may be machines elsewhere, on purpose.
        findings.push(found.severity_if(!tainted && alike > 1, Severity::Info));
    }
}

fn no_node(context: &Context<'_>, findings: &mut Findings<'_>) {
    const ALIVE: i64 = 60;
    for lease in &context.snapshot.leases {
        let name = &lease.metadata.name;
        let age = lease.spec.renew_time.map(|t| context.seconds_since(t));
        let Some(age) = age.filter(|age| *age <= ALIVE && context.node(name).is_none()) else {
            continue;
        };
        let says = "the lease {name} was renewed {age} ago, but the node does not exist";
        let found = FindingBuilder::object("Lease", &lease.metadata, says).on(name);
        let found = found.with("name", Fact::identity(name));
        findings.push(found.with("age", Fact::seconds(age)));
    }
}

pub(super) fn never_posted<'a>(
    context: &Context<'a>,
    node: &'a Node,
) -> Option<FindingBuilder<'a>> {
    const SETTLED: i64 = 900;
    let age = context.age(&node.metadata).unwrap_or_default();
    let ready = node.condition("Ready")?;
    (age > SETTLED && ready.reason == "NodeStatusNeverUpdated").then(|| {
        let says = "{age} old, but no kubelet has posted its status";
        FindingBuilder::node(node, says).with("age", Fact::seconds(age))
    })
}
