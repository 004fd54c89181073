//! Short names of nodes.

/// The domain that all names end with, with its leading dot; empty if there is none, or one node.
pub(super) fn common_end<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    let mut names = names.into_iter();
    let domain = |name: &'a str| name.find('.').and_then(|at| name.get(at..)).unwrap_or("");
    let Some(first) = names.next().map(domain) else {
        return String::new();
    };
    let mut others = names.map(domain).peekable();
    if others.peek().is_some() && others.all(|other| other == first) {
        first.to_owned()
    } else {
        String::new()
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
            (vec!["a.eu.internal"], ""),
            (vec![], ""),
        ] {
            assert_eq!(common_end(names), end);
        }
    }
}
