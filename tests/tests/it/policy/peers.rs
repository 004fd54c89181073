//! The conditions of policies that others publish for budgets, as restated from their sources:
//! kyverno/policies, commit b9c4317 (March 2026), and open-policy-agent/gatekeeper-library, commit
//! 5c441fb (July 2026). Whether one of them tells of a set at one of the writes that it looks at.

use serde_json::Value;

use super::scales::{Budget, Group, Set};

type Condition = fn(&Set) -> bool;

pub(super) const PEERS: &[(&str, Condition)] = &[
    ("Kyverno deployment-replicas-higher-than-pdb", |set| {
        let is_not_higher = |(budget, group): (&Budget, &Group)| {
            is_deployment(group)
                && number(budget, "minAvailable").is_some_and(|n| n >= group.replicas)
        };
        pairs(set).any(is_not_higher)
    }),
    // The text speaks of zero, and the condition is "less than the replicas".
    ("Kyverno pdb-maxunavailable-with-deployments", |set| {
        let is_less = |(budget, group): (&Budget, &Group)| {
            is_deployment(group)
                && number(budget, "maxUnavailable").is_some_and(|n| n < group.replicas)
        };
        pairs(set).any(is_less)
    }),
    // The pattern ">0" matches no percentage.
    ("Kyverno pdb-maxunavailable", |set| {
        let is_refused = |budget: &Budget| {
            let value = value(budget, "maxUnavailable");
            value.is_some_and(|value| value.as_i64().is_none_or(|number| number <= 0))
        };
        set.budgets.iter().any(is_refused)
    }),
    ("Kyverno pdb-minavailable", |set| {
        // Of several budgets it takes the first.
        set.groups.iter().enumerate().any(|(i, group)| {
            let first = set.budgets.iter().find(|budget| budget.groups.contains(&i));
            first.is_some_and(|budget| number(budget, "minAvailable") == Some(group.replicas))
        })
    }),
    ("Kyverno require-pdb", |set| {
        set.groups.iter().enumerate().any(|(i, group)| {
            let mut of = set.budgets.iter();
            group.replicas >= 3 && !of.any(|budget| budget.groups.contains(&i))
        })
    }),
    ("Kyverno require-reasonable-pdbs", |set| {
        let percent = |budget: &Budget, field| {
            let text = value(budget, field)?.as_str()?;
            text.strip_suffix('%')?.parse::<i32>().ok()
        };
        set.budgets.iter().any(|budget| {
            let (least, most) = (
                percent(budget, "minAvailable"),
                percent(budget, "maxUnavailable"),
            );
            least.is_some_and(|least| !(1..=50).contains(&least))
                || most.is_some_and(|most| !(50..=100).contains(&most))
        })
    }),
    ("Kyverno require-replicas-allow-disruption", |set| {
        let is_too_much = |(budget, group): (&Budget, &Group)| {
            number(budget, "minAvailable").is_some_and(|n| group.replicas <= n)
        };
        pairs(set).any(is_too_much)
    }),
    // It makes a budget of minAvailable: 1 for each Deployment, and tells nobody.
    ("Kyverno create-default-pdb", |_| false),
    // Rego orders a number before each string, so that a percentage is never less than the replicas
    // and always more than 0.
    ("Gatekeeper poddisruptionbudget", |set| {
        let is_zero = |budget: &Budget| number(budget, "maxUnavailable") == Some(0);
        let is_too_much = |(budget, group): (&Budget, &Group)| {
            let value = value(budget, "minAvailable");
            value.is_some_and(|value| {
                value
                    .as_i64()
                    .is_none_or(|n| i64::from(group.replicas) <= n)
            })
        };
        set.budgets.iter().any(is_zero) || pairs(set).any(is_too_much)
    }),
];

fn pairs(set: &Set) -> impl Iterator<Item = (&Budget, &Group)> {
    set.budgets.iter().flat_map(move |budget| {
        let groups = budget.groups.iter();
        groups.map(move |i| (budget, &set.groups[*i]))
    })
}

fn is_deployment(group: &Group) -> bool {
    group.resource == "deployments"
}

fn value<'a>(budget: &'a Budget, field: &str) -> Option<&'a Value> {
    let (of, value) = budget.amount.as_ref()?;
    (*of == field).then_some(value)
}

fn number(budget: &Budget, field: &str) -> Option<i32> {
    value(budget, field)?.as_i64()?.try_into().ok()
}
