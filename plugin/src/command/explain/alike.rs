//! Nodes whose explanation is the same, together.

use std::collections::HashMap;

use nodelife_core::format;
use nodelife_core::text::Str;

/// The items with the same `text`, and the words for their nodes: `node/a`, or `500 nodes: a, b, c
/// and 497 more`.
///
/// An item comes with the name of its node, and with everything else that is shown of it as `text`.
pub(super) fn alike<T>(items: impl IntoIterator<Item = (T, Str, String)>) -> Vec<(Vec<T>, String)> {
    const SHOWN: usize = 3;
    let mut groups: Vec<(Vec<T>, Vec<Str>)> = Vec::new();
    let mut index: HashMap<String, usize> = HashMap::new();
    for (item, node, text) in items {
        let at = *index.entry(text).or_insert(groups.len());
        match groups.get_mut(at) {
            Some((items, nodes)) => {
                items.push(item);
                nodes.push(node);
            }
            None => groups.push((vec![item], vec![node])),
        }
    }
    let groups = groups.into_iter().map(|(items, nodes)| {
        let words = match nodes.as_slice() {
            [node] => format!("node/{node}"),
            nodes => {
                let names = format::first(SHOWN, nodes.iter().map(Str::as_str));
                format!("{} nodes: {names}", nodes.len())
            }
        };
        (items, words)
    });
    groups.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_with_the_same_text_are_one_group() {
        let items = ["a", "b", "c", "d", "e"].map(|node| {
            let text = if node == "b" { "other" } else { "same" };
            (node, Str::from(node), text.to_owned())
        });
        let expected = [
            (
                vec!["a", "c", "d", "e"],
                "4 nodes: a, c, d and 1 more".to_owned(),
            ),
            (vec!["b"], "node/b".to_owned()),
        ];
        assert_eq!(alike(items), expected);
    }
}
