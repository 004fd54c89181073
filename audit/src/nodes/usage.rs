//! Requests and limits of pods beside what nodes offer.

use serde::Serialize;

use nodelife_core::quantity::Quantity;

/// One resource: what the nodes offer, and what their pods ask for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Usage {
    /// Allocatable; absent if the node does not say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allocatable: Option<Quantity>,
    /// The requests of the pods that have not terminated, as the scheduler counts them; absent if
    /// the pods were not read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requests: Option<Quantity>,
    /// The requests in percent of Allocatable.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requests_percent: Option<f64>,
    /// The limits of the pods that have not terminated; a container without one adds nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limits: Option<Quantity>,
    /// The limits in percent of Allocatable.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limits_percent: Option<f64>,
}

impl Usage {
    pub fn new(
        allocatable: Option<Quantity>,
        requests: Option<Quantity>,
        limits: Option<Quantity>,
    ) -> Self {
        let percent = |part: Option<Quantity>| percent(part?, allocatable?);
        Self {
            allocatable,
            requests,
            requests_percent: percent(requests),
            limits,
            limits_percent: percent(limits),
        }
    }

    /// The sum of several; what some do not say is left out of it.
    pub(super) fn sum<'a>(all: &(impl Iterator<Item = &'a Self> + Clone)) -> Self {
        let sum = |pick: fn(&Self) -> Option<Quantity>| {
            all.clone().filter_map(pick).reduce(|mut sum, more| {
                sum += more;
                sum
            })
        };
        Self::new(
            sum(|usage| usage.allocatable),
            sum(|usage| usage.requests),
            sum(|usage| usage.limits),
        )
    }
}

/// To a tenth; none of nothing.
fn percent(part: Quantity, whole: Quantity) -> Option<f64> {
    let percent = 1000.0 * part.approximate() / whole.approximate();
    (whole > Quantity::default()).then(|| percent.round() / 10.0)
}

/// How many pods are on the nodes, and how many they take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PodCount {
    /// Allocatable; absent if the node does not say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allocatable: Option<i64>,
    /// The pods that have not terminated; absent if the pods were not read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<usize>,
}

impl PodCount {
    pub fn percent(self) -> Option<f64> {
        let count = i64::try_from(self.count?).ok()?;
        let quantity = |number| Quantity::new(number, nodelife_core::quantity::Format::DecimalSi);
        percent(quantity(count), quantity(self.allocatable?))
    }

    pub(super) fn sum<'a>(all: &(impl Iterator<Item = &'a Self> + Clone)) -> Self {
        let allocatable = all.clone().filter_map(|pods| pods.allocatable);
        Self {
            allocatable: allocatable.reduce(i64::saturating_add),
            count: all
                .clone()
                .filter_map(|pods| pods.count)
                .reduce(|a, b| a + b),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn amount(text: &str) -> Option<Quantity> {
        Quantity::parse(text).ok()
    }

    #[test]
    fn percents_are_to_a_tenth_and_none_of_nothing() {
        let usage = Usage::new(amount("3920m"), amount("4550m"), amount("0"));
        assert_eq!(usage.requests_percent, Some(116.1));
        assert_eq!(usage.limits_percent, Some(0.0));
        let nothing = Usage::new(amount("0"), amount("1"), None);
        assert_eq!(nothing.requests_percent, None);
        assert_eq!(nothing.limits_percent, None);
    }

    #[test]
    fn a_sum_leaves_out_what_a_node_does_not_say() {
        let nodes = [
            Usage::new(amount("4Gi"), amount("1Gi"), amount("0")),
            Usage::new(None, amount("1Gi"), amount("1Gi")),
        ];
        let sum = Usage::sum(&nodes.iter());
        assert_eq!(sum.allocatable, amount("4Gi"));
        assert_eq!(
            sum.requests.map(|sum| sum.to_string()).as_deref(),
            Some("2Gi")
        );
        assert_eq!(sum.requests_percent, Some(50.0));
        assert_eq!(Usage::sum(&[].iter()), Usage::default());
    }

    #[test]
    fn pods_have_a_percentage() {
        let pods = PodCount {
            allocatable: Some(110),
            count: Some(55),
        };
        assert_eq!(pods.percent(), Some(50.0));
        let sum = PodCount::sum(&[pods, PodCount::default()].iter());
        assert_eq!(sum, pods);
    }
}
