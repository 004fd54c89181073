//! Drain behavior of pods, from labels, annotations and `--pod-rule` (Cluster API's `MachineDrainRule`).

use std::fmt;
use std::str::FromStr;

use nodelife_core::object::{LabelSelector, Pod};
use nodelife_core::selector::label_selector;

/// The label that Cluster API's drain reads on a pod.
const LABEL: &str = "cluster.x-k8s.io/drain";

/// The same as an annotation, which takes an order as well.
const ANNOTATION: &str = "nodelife.dev/drain";

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Behavior {
    #[error("skip")]
    Skip,
    #[error("wait-completed")]
    WaitCompleted,
    /// It goes when all pods of a lower order are gone; pods that nothing is asked for have 0.
    #[error("order={0}")]
    Order(i32),
    /// As if nothing were asked for. In a rule it goes before the pod's own words: who owns a pod cannot hold
    /// a drain with them.
    #[error("evict")]
    Evict,
}

impl FromStr for Behavior {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        // As Cluster API reads its label (v1.11.0, internal/controllers/machine/drain/filters.go).
        let word = text.to_ascii_lowercase();
        match word.as_str() {
            "skip" => Ok(Self::Skip),
            "wait-completed" | "waitcompleted" => Ok(Self::WaitCompleted),
            "evict" => Ok(Self::Evict),
            _ => text
                .strip_prefix("order=")
                .and_then(|order| order.parse().ok())
                .map(Self::Order)
                .ok_or_else(|| {
                    format!(
                        "invalid value '{text}': expected skip, wait-completed, evict or order=NUMBER"
                    )
                }),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodRule {
    pub selector: LabelSelector,
    pub behavior: Behavior,
}

/// `SELECTOR:WHAT`
impl FromStr for PodRule {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (selector, behavior) = text
            .rsplit_once(':')
            .ok_or("expected SELECTOR:WHAT, for example app=db:order=10")?;
        Ok(Self {
            selector: label_selector(selector)?,
            behavior: behavior.parse()?,
        })
    }
}

impl fmt::Display for PodRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.selector, self.behavior)
    }
}

nodelife_core::as_text!(PodRule, "maxLength": 512);

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BehaviorSource {
    /// The pod's label `cluster.x-k8s.io/drain`.
    #[error("its label {LABEL}")]
    Label,
    #[error("its annotation {ANNOTATION}")]
    Annotation,
    #[error("--pod-rule")]
    Flag,
}

/// The behavior that is asked for this pod, and its source. Of the rules the first that selects it counts; the
/// pod's own goes before it, unless it is `evict`.
pub(super) fn behavior(pod: &Pod, rules: &[PodRule]) -> Option<(Behavior, BehaviorSource)> {
    let mut rules = rules.iter();
    let rule = rules.find(|rule| rule.selector.matches(&pod.metadata.labels));
    let by_flag = rule.map(|rule| (rule.behavior, BehaviorSource::Flag));
    if let Some((Behavior::Evict, _)) = by_flag {
        return by_flag;
    }
    let own = own(pod).find_map(|(read, source)| Some((read.ok()?, source)));
    own.or(by_flag)
}

fn own(pod: &Pod) -> impl Iterator<Item = (Result<Behavior, String>, BehaviorSource)> {
    let meta = &pod.metadata;
    let label = (meta.labels.get(LABEL), BehaviorSource::Label);
    let annotation = (meta.annotations.get(ANNOTATION), BehaviorSource::Annotation);
    let both = [label, annotation].into_iter();
    both.filter_map(|(text, source)| Some((text?.parse(), source)))
}

/// After which others the pod goes: 0 where nothing is asked for.
pub(super) fn order(pod: &Pod, rules: &[PodRule]) -> i32 {
    match behavior(pod, rules) {
        Some((Behavior::Order(order), _)) => order,
        _ => 0,
    }
}

pub(super) fn objection(pod: &Pod) -> Option<String> {
    own(pod).find_map(|(read, source)| Some(format!("ignoring {source}: {}", read.err()?)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::pod;

    #[test]
    fn labels_and_annotations_win_over_rules() {
        let all = PodRule {
            selector: LabelSelector::default(),
            behavior: Behavior::Order(2),
        };
        let rules = [all];
        let mut asked = pod("a", "n");
        assert_eq!(
            behavior(&asked, &rules),
            Some((Behavior::Order(2), BehaviorSource::Flag))
        );
        let annotations = &mut asked.metadata.annotations;
        annotations.insert(ANNOTATION.into(), "order=-1".into());
        assert_eq!(order(&asked, &rules), -1);
        asked.metadata.labels.insert(LABEL.into(), "skip".into());
        assert_eq!(
            behavior(&asked, &rules),
            Some((Behavior::Skip, BehaviorSource::Label))
        );
        assert_eq!(behavior(&pod("b", "n"), &[]), None);
    }

    #[test]
    fn a_rule_to_evict_wins_over_the_pods_own_words() {
        let rules = ["team=a:evict".parse().unwrap()];
        for word in ["skip", "wait-completed", "order=3"] {
            let mut asked = pod("a", "n");
            let annotations = &mut asked.metadata.annotations;
            annotations.insert(ANNOTATION.into(), word.into());
            let own = word.parse().unwrap();
            assert_eq!(
                behavior(&asked, &rules),
                Some((own, BehaviorSource::Annotation))
            );
            asked.metadata.labels.insert("team".into(), "a".into());
            assert_eq!(
                behavior(&asked, &rules),
                Some((Behavior::Evict, BehaviorSource::Flag))
            );
            assert_eq!(order(&asked, &rules), 0);
        }
    }

    #[test]
    fn reports_an_invalid_behavior() {
        let mut odd = pod("a", "n");
        let labels = &mut odd.metadata.labels;
        labels.insert(LABEL.into(), "never".into());
        let said = objection(&odd).unwrap();
        assert!(
            said.starts_with("ignoring its label cluster.x-k8s.io/drain: invalid value 'never'")
        );
        odd.metadata.labels.clear();
        let annotations = &mut odd.metadata.annotations;
        annotations.insert(ANNOTATION.into(), "later".into());
        assert_eq!(behavior(&odd, &[]), None);
        assert!(objection(&odd).unwrap().contains("invalid value 'later'"));
        assert!("order=x".parse::<Behavior>().is_err());
    }
}
