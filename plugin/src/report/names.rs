//! Short names of nodes.

/// The domain that all names end with, with its leading dot; empty if there is none.
pub(super) fn domain<'a>(names: impl IntoIterator<Item = &'a str>) -> &'a str {
    let domain = |name: &'a str| name.find('.').and_then(|at| name.get(at..));
    let mut domains = names.into_iter().map(|name| domain(name).unwrap_or(""));
    let first = domains.next().unwrap_or("");
    if domains.all(|other| other == first) {
        first
    } else {
        ""
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_domain_of_all_names_goes_without_saying() {
        for (names, end) in [
            (vec!["a.eu.internal", "b.eu.internal"], ".eu.internal"),
            (vec!["a.eu.internal", "b.us.internal"], ""),
            (vec!["a.eu.internal", "b"], ""),
            (vec!["a", "b"], ""),
            (vec!["a.eu.internal"], ".eu.internal"),
            (vec![], ""),
        ] {
            assert_eq!(domain(names), end);
        }
    }
}
