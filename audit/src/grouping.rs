//! Groups findings that say the same about several objects.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::BTreeMap;

use foldhash::HashMap;

use super::fact::{Fact, FactKind, all_equal, keys, render, together};
use super::finding::Finding;
use super::pools::pool_of;
use nodelife_core::snapshot::Snapshot;
use nodelife_core::{format, natural};

/// Findings whose numbers differ are told together from this many on; fewer are told one by one.
const MANY: usize = 4;
/// Nodes of at most so many pools are told pool by pool if their numbers differ.
const FEW_POOLS: usize = 3;

/// Findings of one rule and template that differ only in names and amounts.
#[derive(Clone, Debug, PartialEq)]
pub struct FindingGroup<'a> {
    pub first: &'a Finding,
    /// All of its findings, in the natural order of their objects.
    pub findings: Vec<&'a Finding>,
    pub pools: Vec<&'a str>,
    /// The message of all; amounts that differ are a range.
    pub message: String,
    /// The facts of each finding that differ, without identities: `4550m, 3920m`; none if all are equal.
    pub details: Vec<String>,
}

impl<'a> FindingGroup<'a> {
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

    /// The names of its first objects, and how many more there are: `a, b, c and 497 more`.
    pub fn names(&self, shown: usize) -> String {
        format::first(shown, self.findings.iter().map(|f| name(f)))
    }
}

fn plural(kind: &str) -> String {
    match kind.strip_suffix('y') {
        Some(stem) => format!("{stem}ies"),
        None if kind.ends_with('s') => format!("{kind}es"),
        None => format!("{kind}s"),
    }
}

fn name(finding: &Finding) -> String {
    let subject = &finding.subject;
    match &subject.namespace {
        Some(namespace) => format!("{namespace}/{}", subject.name),
        None => subject.name.to_string(),
    }
}

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

    /// Groups findings by rule, severity, template and pool: the worst first, then by rule, then the
    /// largest.
    ///
    /// Up to three findings whose facts differ are groups of their own: nothing of them is lost.
    pub fn group(&self, findings: impl IntoIterator<Item = &'a Finding>) -> Vec<FindingGroup<'a>> {
        self.group_apart(findings, |_| Vec::new())
    }

    /// As [`NodePools::group`], but findings of which `apart` says something else are never together.
    pub fn group_apart(
        &self,
        findings: impl IntoIterator<Item = &'a Finding>,
        apart: impl Fn(&'a Finding) -> Vec<&'a str>,
    ) -> Vec<FindingGroup<'a>> {
        let mut index: HashMap<_, usize> = HashMap::default();
        let mut alike: Vec<Vec<&'a Finding>> = Vec::new();
        for finding in findings {
            let words = facts(finding).filter_map(|(_, fact)| fact.pattern());
            let words: Vec<_> = words.collect();
            let key = (
                &finding.rule,
                finding.severity,
                finding.confidence,
                &finding.fix,
                &finding.subject.kind,
                &finding.template,
                words,
                apart(finding),
            );
            let at = *index.entry(key).or_insert(alike.len());
            match alike.get_mut(at) {
                Some(findings) => findings.push(finding),
                None => alike.push(vec![finding]),
            }
        }
        let alike = alike
            .into_iter()
            .flat_map(|findings| self.by_pool(findings));
        let mut groups: Vec<_> = alike.flat_map(|part| self.groups(part)).collect();
        groups.sort_by_key(|group| {
            let (first, size) = (group.first, group.findings.len());
            (Reverse(first.severity), &first.rule, Reverse(size))
        });
        groups
    }

    /// Parts the findings by pool, unless there are many pools or all findings say the same.
    fn by_pool(&self, findings: Vec<&'a Finding>) -> Vec<Part<'a>> {
        let mut of_pools: BTreeMap<Option<&'a str>, Vec<&'a Finding>> = BTreeMap::new();
        for finding in &findings {
            let of_pool = of_pools.entry(self.pool(finding)).or_default();
            of_pool.push(finding);
        }
        // With nodes of no pool among them, the pools do not tell all.
        let pools: Option<Vec<&str>> = of_pools.keys().copied().collect();
        if of_pools.len() > FEW_POOLS || pools.is_some() && !differ(&findings) {
            let mut pools = pools.unwrap_or_default();
            pools.sort_by(|a, b| natural::compare(a, b));
            return vec![(pools, findings)];
        }
        let parts = of_pools.into_iter();
        parts
            .map(|(pool, findings)| (Vec::from_iter(pool), findings))
            .collect()
    }

    /// A group of all, or of each if there are few and they differ.
    fn groups(&self, (pools, mut findings): Part<'a>) -> Vec<FindingGroup<'a>> {
        findings.sort_by(|a, b| a.subject.cmp(&b.subject));
        let Some(first) = findings.first().copied() else {
            return Vec::new();
        };
        if findings.len() < MANY && differ(&findings) {
            let groups = findings.into_iter().map(|finding| FindingGroup {
                pools: self.pool(finding).into_iter().collect(),
                ..FindingGroup::one(finding)
            });
            return groups.collect();
        }
        let column = |key: &str| -> Vec<&'a Fact> {
            let facts = findings.iter().map(|finding| finding.evidence.get(key));
            facts.flatten().collect()
        };
        let message = match findings.as_slice() {
            [one] => one.message.clone(),
            _ => render(&first.template, |key| together(key, &column(key))),
        };
        let mut details: Vec<String> = Vec::new();
        for facts in facts(first).map(|(key, _)| column(key)) {
            let is_told = |fact: &&Fact| matches!(fact.kind, FactKind::Amount | FactKind::Name);
            if !facts.first().is_some_and(is_told) || all_equal(&facts) {
                continue;
            }
            details.resize(facts.len(), String::new());
            for (detail, fact) in details.iter_mut().zip(facts) {
                if !detail.is_empty() {
                    detail.push_str(", ");
                }
                detail.push_str(&fact.text());
            }
        }
        vec![FindingGroup {
            first,
            findings,
            pools,
            message,
            details,
        }]
    }
}

/// Pools, and the findings about their nodes.
type Part<'a> = (Vec<&'a str>, Vec<&'a Finding>);

fn facts(finding: &Finding) -> impl Iterator<Item = (&str, &Fact)> {
    let keys = keys(&finding.template);
    keys.filter_map(|key| Some((key, finding.evidence.get(key)?)))
}

fn differ(findings: &[&Finding]) -> bool {
    let told = |finding| -> Vec<Cow<'_, str>> {
        let facts = facts(finding).filter(|(_, fact)| fact.kind != FactKind::Identity);
        facts.map(|(_, fact)| fact.text()).collect()
    };
    let mut all = findings.iter().map(|finding| told(finding));
    let first = all.next();
    all.any(|other| Some(other) != first)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{Confidence, Severity, Statement, Subject};
    use nodelife_core::quantity::Quantity;

    fn finding(rule: &str, kind: &str, name: &str, says: impl Into<Statement>) -> Finding {
        let statement = says.into();
        Finding {
            rule: rule.into(),
            title: "".into(),
            severity: Severity::Warning,
            subject: Subject {
                kind: kind.into(),
                name: name.into(),
                namespace: (kind == "Pod").then(|| "shop".into()),
            },
            message: statement.text(),
            template: statement.template,
            evidence: statement.facts,
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
                let name = format!("n{i}");
                let memory = Quantity::parse(&format!("{}Mi", 1000 + 10 * i)).unwrap();
                let statement = Statement::from("{name} requests {memory}, {pods}")
                    .with("name", Fact::identity(&name))
                    .with("memory", memory)
                    .with("pods", Fact::count(i, "pod"));
                finding("NL-A-001", "Node", &name, statement)
            })
            .collect();
        assert_eq!(
            told(&findings),
            [
                "10 nodes of pool a: n1, n3, n5 and 7 more: NAME requests 1010 to 1190Mi, 1 to 19 pods",
                "10 nodes of pool b: n2, n4, n6 and 7 more: NAME requests 1020 to 1200Mi, 2 to 20 pods",
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
        let waits = |seconds, node| {
            let statement = Statement::from("waits for {time} on {node}");
            let statement = statement.with("time", Fact::seconds(seconds));
            statement.with("node", Fact::name(node))
        };
        let mut findings = vec![
            finding("NL-A-001", "Pod", "a", waits(180, "n1")),
            finding("NL-A-001", "Pod", "b", waits(240, "n1")),
            finding("NL-A-001", "Pod", "c", waits(300, "n2")),
        ];
        assert_eq!(told(&findings).len(), 3);
        findings.push(finding("NL-A-001", "Pod", "d", waits(3600, "n3")));
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
