//! What other maintenances take that one wants: nodes, and the number of unavailable nodes.

use std::collections::BTreeSet;

use nodelife_core::format;
use nodelife_core::node_maintenance::NodeMaintenance;
use nodelife_core::text::Str;
use nodelife_drain::MaxUnavailable;

/// Why one has to wait.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Wait {
    pub(super) reason: &'static str,
    pub(super) message: String,
}

/// Whether `other` goes before `own`: it began before, and has its nodes until it is deleted.
fn goes_before(other: &NodeMaintenance, own: &NodeMaintenance) -> bool {
    let rank = |one: &NodeMaintenance| {
        // Those that have not begun come last.
        let begun = one.status.started_at;
        (begun.is_none(), begun, one.metadata.uid.clone())
    };
    other.metadata.uid != own.metadata.uid
        && other.status.started_at.is_some()
        && rank(other) < rank(own)
}

/// What another maintenance has of these nodes.
pub(super) fn taken<'a>(
    own: &NodeMaintenance,
    nodes: &BTreeSet<Str>,
    all: impl Iterator<Item = &'a NodeMaintenance>,
) -> Option<Wait> {
    let mut others = all.filter(|other| goes_before(other, own));
    others.find_map(|other| {
        let theirs = other.status.nodes.iter().map(|node| &node.name);
        let shared: Vec<&str> = theirs
            .filter(|name| nodes.contains(*name))
            .map(Str::as_str)
            .collect();
        (!shared.is_empty()).then(|| Wait {
            reason: "NodeInMaintenance",
            message: format!(
                "waits for nodemaintenance/{}, which has {}",
                other.metadata.name,
                format::list(shared)
            ),
        })
    })
}

/// How many nodes may be unavailable beside those of the maintenances before, or that none may.
pub(super) fn left<'a>(
    own: &NodeMaintenance,
    most: MaxUnavailable,
    nodes: usize,
    all: impl Iterator<Item = &'a NodeMaintenance>,
) -> Result<MaxUnavailable, Wait> {
    let others = all.filter(|other| goes_before(other, own));
    let (mut names, mut taken) = (Vec::new(), 0);
    for other in others {
        names.push(other.metadata.name.as_str());
        taken += other.status.nodes.len();
    }
    let most = most.of(nodes + taken);
    if most <= taken {
        return Err(Wait {
            reason: "MaxUnavailable",
            message: format!(
                "waits: {taken} of at most {most} nodes are under maintenance by {}",
                format::list(names)
            ),
        });
    }
    Ok(MaxUnavailable::Count(
        u16::try_from(most - taken).unwrap_or(u16::MAX),
    ))
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use nodelife_core::node_maintenance::NodeStatus;

    use super::*;

    fn maintenance(name: &str, begun: Option<i64>, nodes: &[&str]) -> NodeMaintenance {
        let mut one = NodeMaintenance::default();
        one.metadata.name = name.into();
        one.metadata.uid = Str::from(format!("u-{name}"));
        one.status.started_at = begun.map(|at| Timestamp::from_second(at).unwrap());
        let nodes = nodes.iter().map(|node| NodeStatus {
            name: (*node).into(),
            ..NodeStatus::default()
        });
        one.status.nodes = nodes.collect();
        one
    }

    #[test]
    fn the_one_that_began_later_waits_and_says_for_whom() {
        let all = [
            maintenance("one", Some(1), &["a", "b"]),
            maintenance("two", Some(2), &["b"]),
            maintenance("new", None, &[]),
        ];
        let wants = |names: &[&str]| names.iter().map(|name| Str::from(*name)).collect();
        let blocked = taken(&all[1], &wants(&["b", "c"]), all.iter()).unwrap();
        assert_eq!(
            blocked.message,
            "waits for nodemaintenance/one, which has b"
        );
        assert_eq!(taken(&all[0], &wants(&["a", "b"]), all.iter()), None);
        assert!(taken(&all[2], &wants(&["b"]), all.iter()).is_some());
        assert_eq!(taken(&all[2], &wants(&["c"]), all.iter()), None);
    }

    #[test]
    fn nodes_of_all_maintenances_count_as_unavailable() {
        let all = [
            maintenance("one", Some(1), &["a", "b"]),
            maintenance("new", None, &[]),
        ];
        let most = |count| left(&all[1], MaxUnavailable::Count(count), 3, all.iter());
        assert_eq!(most(3), Ok(MaxUnavailable::Count(1)));
        assert_eq!(most(2).unwrap_err().reason, "MaxUnavailable");
        assert_eq!(
            left(&all[0], MaxUnavailable::Count(2), 2, all.iter()),
            Ok(MaxUnavailable::Count(2))
        );
    }
}
