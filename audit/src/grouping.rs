//! Groups findings that say the same about several objects.

use foldhash::HashMap;

use super::finding::{Confidence, Finding, Severity};
use super::message::{self, Kind, Part};
use super::pools::pool_of;
use nodelife_core::snapshot::Snapshot;
use nodelife_core::{format, natural};

/// Findings whose numbers differ are told together from this many on; fewer are told one by one.
const MANY: usize = 4;
/// Nodes of at most so many pools are told pool by pool if their numbers differ.
const FEW_POOLS: usize = 3;

/// Findings of one rule whose messages differ only in names and numbers.
#[derive(Clone, Debug, PartialEq)]
pub struct FindingGroup<'a> {
    /// The first of its findings.
    pub first: &'a Finding,
    /// All of its findings, in the natural order of their objects.
    pub findings: Vec<&'a Finding>,
    /// The pools of its nodes.
    pub pools: Vec<&'a str>,
    /// The message of all; a number that differs is a range.
    pub message: String,
    /// What differs in each finding, identities left aside: `4550m, 3920m`; none if nothing does.
    pub details: Vec<String>,
}

impl<'a> FindingGroup<'a> {
    /// A group of one finding.
    pub fn one(finding: &'a Finding) -> Self {
        Self {
            first: finding,
            findings: vec![finding],
            pools: Vec::new(),
            message: finding.message.clone(),
            details: Vec::new(),
        }
    }

    /// How many objects it is about, in words: `500 nodes of pool general`.
    pub fn objects(&self) -> String {
        let kind = self.first.subject.kind.to_lowercase();
        let kind = match self.findings.len() {
            1 => kind,
            _ => plural(&kind),
        };
        let number = self.findings.len();
        match self.pools.as_slice() {
            [] => format!("{number} {kind}"),
            [pool] => format!("{number} {kind} of pool {pool}"),
            pools if pools.len() <= FEW_POOLS => {
                format!("{number} {kind} of pools {}", pools.join(", "))
            }
            pools => format!("{number} {kind} of {} pools", pools.len()),
        }
    }

    /// The names of its first objects, and how many more there are: `ip-a, ip-b, ip-c and 497
    /// more`.
    pub fn names(&self, shown: usize) -> String {
        let names: Vec<String> = self.findings.iter().map(|f| name(f)).collect();
        format::first(shown, names.iter().map(String::as_str))
    }
}

fn plural(kind: &str) -> String {
    match kind.strip_suffix('y') {
        Some(stem) => format!("{stem}ies"),
        None if kind.ends_with('s') => format!("{kind}es"),
        None => format!("{kind}s"),
    }
}

/// The object's name, after its namespace if it has one.
fn name(finding: &Finding) -> String {
    let subject = &finding.subject;
    match &subject.namespace {
        Some(namespace) => format!("{namespace}/{}", subject.name),
        None => subject.name.to_string(),
    }
}

/// The nodes of a snapshot and their pools.
#[derive(Debug)]
pub struct NodePools<'a>(HashMap<&'a str, Option<&'a str>>);

impl<'a> NodePools<'a> {
    pub fn of(snapshot: &'a Snapshot) -> Self {
        let nodes = snapshot.nodes.iter();
        Self(
            nodes
                .map(|node| {
                    let pool = pool_of(&node.metadata.labels);
                    (node.metadata.name.as_str(), pool)
                })
                .collect(),
        )
    }

    fn pool(&self, finding: &Finding) -> Option<&'a str> {
        let subject = &finding.subject;
        let is_node = subject.kind == "Node";
        let node = is_node.then_some(subject.name.as_str());
        node.and_then(|name| self.0.get(name).copied().flatten())
    }

    /// Groups findings by rule, severity, pool, and the text of the message without names and
    /// numbers: the worst first, then by rule, then the largest.
    ///
    /// Up to three findings whose numbers differ are groups of their own: nothing of them is lost.
    pub fn group<'f>(
        &self,
        findings: impl IntoIterator<Item = &'f Finding>,
    ) -> Vec<FindingGroup<'f>>
    where
        'a: 'f,
    {
        self.group_apart(findings, |_| Vec::new())
    }

    /// As [`NodePools::group`], but findings of which `apart` says something else are never in the
    /// same group.
    pub fn group_apart<'f>(
        &self,
        findings: impl IntoIterator<Item = &'f Finding>,
        apart: impl Fn(&'f Finding) -> Vec<&'f str>,
    ) -> Vec<FindingGroup<'f>>
    where
        'a: 'f,
    {
        let mut index: HashMap<Key<'f>, usize> = HashMap::default();
        let mut alike: Vec<Vec<Member<'f>>> = Vec::new();
        for finding in findings {
            let is_node = |name: &str| self.0.contains_key(name);
            let parts = message::parts(&finding.message, &finding.subject, is_node);
            let key = Key {
                rule: &finding.rule,
                severity: finding.severity,
                confidence: finding.confidence == Confidence::Measured,
                fix: &finding.fix,
                kind: &finding.subject.kind,
                pattern: parts.iter().map(|part| part.pattern()).collect(),
                apart: apart(finding),
            };
            let member = Member {
                finding,
                pool: self.pool(finding),
                parts,
            };
            let at = *index.entry(key).or_insert(alike.len());
            match alike.get_mut(at) {
                Some(members) => members.push(member),
                None => alike.push(vec![member]),
            }
        }
        let alike = alike.into_iter().flat_map(by_pool);
        let mut groups: Vec<_> = alike.flat_map(Alike::groups).collect();
        groups.sort_by(|a, b| {
            let severity = b.first.severity.cmp(&a.first.severity);
            severity
                .then_with(|| a.first.rule.cmp(&b.first.rule))
                .then_with(|| b.findings.len().cmp(&a.findings.len()))
        });
        groups
    }
}

/// What the findings of a group have in common.
#[derive(PartialEq, Eq, Hash)]
struct Key<'a> {
    rule: &'a str,
    severity: Severity,
    confidence: bool,
    fix: &'a str,
    kind: &'a str,
    pattern: Vec<(Kind, &'a str)>,
    apart: Vec<&'a str>,
}

/// A finding, and what it is grouped by.
struct Member<'a> {
    finding: &'a Finding,
    pool: Option<&'a str>,
    parts: Vec<Part<'a>>,
}

/// Findings of the same pools.
struct Alike<'a> {
    pools: Vec<&'a str>,
    members: Vec<Member<'a>>,
}

/// Parts the findings by pool, unless there are many pools or all findings say the same.
fn by_pool(members: Vec<Member<'_>>) -> Vec<Alike<'_>> {
    let mut of_pools: Vec<(Option<&str>, Vec<Member<'_>>)> = Vec::new();
    let mut index: HashMap<Option<&str>, usize> = HashMap::default();
    for member in members {
        let pool = member.pool;
        let at = *index.entry(pool).or_insert(of_pools.len());
        match of_pools.get_mut(at) {
            Some((_, members)) => members.push(member),
            None => of_pools.push((pool, vec![member])),
        }
    }
    // With nodes of no pool among them, the pools do not tell all.
    let pools: Option<Vec<_>> = of_pools.iter().map(|(pool, _)| *pool).collect();
    let many = of_pools.len() > FEW_POOLS;
    let members = || of_pools.iter().flat_map(|(_, members)| members);
    if many || pools.is_some() && !differ(members()) {
        let mut pools = pools.unwrap_or_default();
        pools.sort_by(|a, b| natural::compare(a, b));
        return vec![Alike {
            pools,
            members: of_pools.into_iter().flat_map(|(_, m)| m).collect(),
        }];
    }
    let parts = of_pools.into_iter();
    parts
        .map(|(pool, members)| Alike {
            pools: pool.into_iter().collect(),
            members,
        })
        .collect()
}

impl<'a> Alike<'a> {
    fn groups(mut self) -> Vec<FindingGroup<'a>> {
        self.members
            .sort_by(|a, b| a.finding.subject.cmp(&b.finding.subject));
        if self.members.len() < MANY && differ(&self.members) {
            let members = self.members.into_iter();
            return members
                .map(|member| FindingGroup {
                    pools: member.pool.into_iter().collect(),
                    ..FindingGroup::one(member.finding)
                })
                .collect();
        }
        let (message, details) = self.message();
        let findings: Vec<_> = self.members.iter().map(|member| member.finding).collect();
        let group = findings.first().map(|first| FindingGroup {
            first,
            findings: findings.clone(),
            pools: self.pools,
            message,
            details,
        });
        group.into_iter().collect()
    }

    /// The message of all, and what differs in each.
    fn message(&self) -> (String, Vec<String>) {
        let mut message = String::new();
        let mut details: Vec<String> = Vec::new();
        for (kind, values) in columns(&self.members) {
            message.push_str(&message::together(kind, &values));
            if kind == Kind::Noun || kind.is_identity() || all_equal(&values) {
                continue;
            }
            details.resize(values.len(), String::new());
            for (detail, value) in details.iter_mut().zip(values) {
                if !detail.is_empty() {
                    detail.push_str(", ");
                }
                detail.push_str(value);
            }
        }
        (message, details)
    }
}

/// Whether more differs than the names of the objects.
fn differ<'m, 'a: 'm>(members: impl IntoIterator<Item = &'m Member<'a>> + Clone) -> bool {
    columns(members).any(|(kind, values)| !kind.is_identity() && !all_equal(&values))
}

fn all_equal(values: &[&str]) -> bool {
    values.windows(2).all(|pair| pair.first() == pair.last())
}

/// The values of each part.
fn columns<'m, 'a: 'm>(
    members: impl IntoIterator<Item = &'m Member<'a>> + Clone,
) -> impl Iterator<Item = (Kind, Vec<&'a str>)> {
    let first = members.clone().into_iter().next();
    let parts = first.map(|member| member.parts.as_slice());
    let parts = parts.unwrap_or_default().iter().enumerate();
    parts.map(move |(i, part)| {
        let all = members.clone().into_iter();
        let values = all.filter_map(|member| Some(member.parts.get(i)?.text));
        (part.kind, values.collect())
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::Subject;

    fn finding(rule: &str, kind: &str, name: &str, message: &str) -> Finding {
        Finding {
            rule: rule.into(),
            title: "".into(),
            severity: Severity::Warning,
            subject: Subject {
                kind: kind.into(),
                name: name.into(),
                namespace: (kind == "Pod").then(|| "shop".into()),
            },
            message: message.to_owned(),
            evidence: [].into(),
            confidence: Confidence::Measured,
            fix: "fix it".to_owned(),
            link: "".into(),
        }
    }

    /// Nodes `n1` to `n20`; the even ones are of the pool `b`, the others of `a`.
    fn snapshot() -> Snapshot {
        let nodes = (1..=20).map(|i| {
            let pool = if i % 2 == 0 { "b" } else { "a" };
            json!({"metadata": {"name": format!("n{i}"),
                "labels": {"karpenter.sh/nodepool": pool}}})
        });
        serde_json::from_value(json!({"nodes": nodes.collect::<Vec<_>>()})).unwrap()
    }

    fn told(findings: &[Finding]) -> Vec<String> {
        let snapshot = snapshot();
        let groups = NodePools::of(&snapshot).group(findings);
        let told = groups.iter().map(|group| {
            let (objects, names) = (group.objects(), group.names(3));
            format!("{objects}: {names}: {}", group.message)
        });
        told.collect()
    }

    #[test]
    fn nodes_of_a_pool_with_the_same_fault_are_one_group() {
        let findings: Vec<_> = (1..=20)
            .rev()
            .map(|i| {
                let message = format!("n{i} requests {}Mi, {i} pods", 1000 + 10 * i);
                finding("NL-A-001", "Node", &format!("n{i}"), &message)
            })
            .collect();
        assert_eq!(
            told(&findings),
            [
                "10 nodes of pool b: n2, n4, n6 and 7 more: <name> requests 1020 to 1200Mi, 2 to 20 pods",
                "10 nodes of pool a: n1, n3, n5 and 7 more: <name> requests 1010 to 1190Mi, 1 to 19 pods",
            ]
        );
    }

    #[test]
    fn nodes_of_several_pools_with_the_same_message_are_one_group() {
        let findings: Vec<_> = (1..=20)
            .map(|i| finding("NL-A-001", "Node", &format!("n{i}"), "too old"))
            .collect();
        assert_eq!(
            told(&findings),
            ["20 nodes of pools a, b: n1, n2, n3 and 17 more: too old"]
        );
    }

    #[test]
    fn nodes_of_many_pools_are_one_group() {
        let nodes = (1..=8).map(|i| {
            json!({"metadata": {"name": format!("n{i}"),
                "labels": {"karpenter.sh/nodepool": format!("p{}", i % 4)}}})
        });
        let nodes: Vec<_> = nodes.collect();
        let snapshot: Snapshot = serde_json::from_value(json!({"nodes": nodes})).unwrap();
        let findings: Vec<_> = (1..=8)
            .map(|i| finding("NL-A-001", "Node", &format!("n{i}"), "too old"))
            .collect();
        let pools = NodePools::of(&snapshot);
        let groups = pools.group(&findings);
        assert_eq!(groups.len(), 1);
        assert_eq!(groups[0].objects(), "8 nodes of 4 pools");
        let apart = pools.group_apart(&findings, |finding| {
            vec![if finding.subject.name == *"n8" {
                "z"
            } else {
                "y"
            }]
        });
        let objects: Vec<_> = apart.iter().map(FindingGroup::objects).collect();
        assert_eq!(objects, ["7 nodes of 4 pools", "1 node of pool p0"]);
    }

    #[test]
    fn a_few_findings_with_other_numbers_stay_apart() {
        let mut findings = vec![
            finding("NL-A-001", "Pod", "a", "waits for 3m on n1"),
            finding("NL-A-001", "Pod", "b", "waits for 4m on n1"),
            finding("NL-A-001", "Pod", "c", "waits for 5m on n2"),
        ];
        assert_eq!(told(&findings).len(), 3);
        findings.push(finding("NL-A-001", "Pod", "d", "waits for 1h on n3"));
        assert_eq!(
            told(&findings),
            ["4 pods: shop/a, shop/b, shop/c and 1 more: waits for 3m to 1h on n1, n2 and 1 more"]
        );
    }

    #[test]
    fn equal_messages_are_one_group_however_few() {
        let findings = [
            finding("NL-A-001", "Policy", "a", "of no use"),
            finding("NL-A-001", "Policy", "b", "of no use"),
            finding("NL-A-002", "Policy", "b", "of no use"),
        ];
        assert_eq!(
            told(&findings),
            ["2 policies: a, b: of no use", "1 policy: b: of no use"]
        );
    }

    #[test]
    fn the_worst_come_first_then_by_rule_then_the_largest() {
        let mut findings = vec![
            finding("NL-B-001", "Zone", "a", "dark"),
            finding("NL-A-001", "Zone", "a", "dark"),
            finding("NL-A-001", "Zone", "b", "cold"),
            finding("NL-A-001", "Zone", "c", "cold"),
            finding("NL-C-001", "Zone", "a", "gone"),
        ];
        findings.last_mut().unwrap().severity = Severity::Error;
        assert_eq!(
            told(&findings),
            [
                "1 zone: a: gone",
                "2 zones: b, c: cold",
                "1 zone: a: dark",
                "1 zone: a: dark",
            ]
        );
    }
}
