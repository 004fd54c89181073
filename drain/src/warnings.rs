//! Warnings of a drain before it begins.

use std::fmt;

use nodelife_drain_plan::{Action, DrainPlan, PlannedPod};

use crate::reporter::Reporter;
use crate::sentences;

/// Says what is not known where the budgets may not be seen.
pub(crate) fn warn_budgets_unreadable(why: &impl fmt::Display, reporter: &mut dyn Reporter) {
    reporter.warn(format_args!("cannot read PodDisruptionBudgets: {why}"));
    reporter.note(
        "the API server still checks the budgets of each eviction; drain cannot predict what they \
         allow, the number of waves or the duration",
    );
}

/// Says what the user should know of the pods that go.
pub fn warn_leaving(plan: &DrainPlan, reporter: &mut dyn Reporter) {
    for warning in &plan.warnings {
        reporter.warn(warning);
    }
    let leaving = plan.with(Action::Evict).chain(plan.with(Action::Delete));
    warn_of_pods(leaving, reporter);
}

/// Says what the user should know of pods before they go.
pub fn warn_of_pods<'a>(pods: impl Iterator<Item = &'a PlannedPod>, reporter: &mut dyn Reporter) {
    let warnings = pods.flat_map(|pod| {
        let warnings = pod.warnings.iter().chain(&pod.unschedulable);
        warnings.map(move |warning| (format!("{}/{}", pod.namespace, pod.name), warning.as_str()))
    });
    for warning in sentences::about_pods(warnings) {
        reporter.warn(warning);
    }
}
