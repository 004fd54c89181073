//! Sentences about pods, together where there are many.

use std::collections::BTreeMap;
use std::fmt;

use nodelife_core::{format, natural};
use nodelife_drain_plan::{Action, DrainPlan, PlannedPod};

use crate::reporter::Reporter;

const FEW: usize = 8;
const NAMES: usize = 3;

/// Sentences about pods, `a/b: text`; of many one for each text, `a/b, a/c and 3 more: text`.
pub fn about_pods<'a>(texts: impl IntoIterator<Item = (String, &'a str)>) -> Vec<String> {
    let texts: Vec<_> = texts.into_iter().collect();
    if texts.len() <= FEW {
        let each = texts.into_iter();
        return each.map(|(name, text)| format!("{name}: {text}")).collect();
    }
    let mut names: Vec<(&str, Vec<String>)> = Vec::new();
    let mut index: BTreeMap<&str, usize> = BTreeMap::new();
    for (name, text) in texts {
        let at = *index.entry(text).or_insert(names.len());
        match names.get_mut(at) {
            Some((_, names)) => names.push(name),
            None => names.push((text, vec![name])),
        }
    }
    let sentences = names.into_iter().map(|(text, mut names)| {
        names.sort_by(|a, b| natural::compare(a, b));
        format!("{}: {text}", format::first(NAMES, names))
    });
    first(sentences.collect())
}

pub fn first(mut texts: Vec<String>) -> Vec<String> {
    let more = texts.split_off(texts.len().min(FEW)).len();
    if more > 0 {
        texts.push(format!("{more} more; -o json has all"));
    }
    texts
}

/// Says what is not known where the budgets may not be seen.
pub(crate) fn warn_budgets_unreadable(why: &impl fmt::Display, reporter: &mut dyn Reporter) {
    reporter.warn(format_args!("cannot read PodDisruptionBudgets: {why}"));
    reporter.note(
        "the API server still checks the budgets of each eviction; drain cannot predict what they \
         allow, the number of waves or the duration",
    );
}

pub fn warn_leaving(plan: &DrainPlan, reporter: &mut dyn Reporter) {
    for warning in &plan.warnings {
        reporter.warn(warning);
    }
    let leaving = plan.with(Action::Evict).chain(plan.with(Action::Delete));
    warn_of_pods(leaving, reporter);
}

pub fn warn_of_pods<'a>(pods: impl Iterator<Item = &'a PlannedPod>, reporter: &mut dyn Reporter) {
    let warnings = pods.flat_map(|pod| {
        let warnings = pod.warnings.iter().chain(&pod.unschedulable).enumerate();
        warnings.map(move |(at, warning)| {
            // What the cluster lacks, what is lost for good, and the rest.
            let rank = (at >= pod.urgent, !pod.goes_last);
            (rank, (pod.full_name(), warning.as_str()))
        })
    });
    let mut warnings: Vec<_> = warnings.collect();
    warnings.sort_by_key(|(rank, _)| *rank);
    for warning in about_pods(warnings.into_iter().map(|(_, warning)| warning)) {
        reporter.warn(warning);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_texts_are_one_sentence_if_there_are_many() {
        let texts = |number| (0..number).map(|i| (i.to_string(), ["old", "new"][i % 2]));
        assert_eq!(about_pods(texts(3)), ["0: old", "1: new", "2: old"]);
        assert_eq!(
            about_pods(texts(12)),
            ["0, 2, 4 and 3 more: old", "1, 3, 5 and 3 more: new"]
        );
    }

    #[test]
    fn further_texts_are_counted() {
        let texts = |number: usize| (0..number).map(|i| i.to_string()).collect::<Vec<_>>();
        assert_eq!(first(texts(FEW)), texts(FEW));
        let cut = first(texts(FEW + 2));
        assert_eq!(cut.len(), FEW + 1);
        assert_eq!(cut.last().unwrap(), "2 more; -o json has all");
    }
}
