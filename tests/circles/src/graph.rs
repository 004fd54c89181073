//! Finds circles in a graph of files.

use std::collections::{BTreeMap, BTreeSet};

/// One file uses an item that another defines.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Arrow {
    pub(crate) from: usize,
    pub(crate) to: usize,
    pub(crate) line: usize,
    pub(crate) item: String,
}

/// Files each of which leads to each other one.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Circle {
    pub(crate) files: BTreeSet<usize>,
    /// Those between its files.
    pub(crate) arrows: Vec<Arrow>,
}

pub(crate) fn circles(arrows: &[Arrow]) -> Vec<Circle> {
    let mut next: BTreeMap<usize, BTreeSet<usize>> = BTreeMap::new();
    for arrow in arrows {
        next.entry(arrow.from).or_default().insert(arrow.to);
    }
    // Some hundreds of files: no need for anything faster than a search from each.
    let reach: BTreeMap<usize, BTreeSet<usize>> = next
        .keys()
        .map(|&file| (file, reachable(&next, file)))
        .collect();
    let leads = |from: usize, to: usize| reach.get(&from).is_some_and(|files| files.contains(&to));
    let mut placed: BTreeSet<usize> = BTreeSet::new();
    let mut circles = Vec::new();
    for &file in next.keys() {
        if !leads(file, file) || placed.contains(&file) {
            continue;
        }
        let files: BTreeSet<usize> = next
            .keys()
            .copied()
            .filter(|&other| leads(file, other) && leads(other, file))
            .collect();
        placed.extend(&files);
        let within = |arrow: &&Arrow| files.contains(&arrow.from) && files.contains(&arrow.to);
        let arrows = arrows.iter().filter(within).cloned().collect();
        circles.push(Circle { files, arrows });
    }
    circles
}

fn reachable(next: &BTreeMap<usize, BTreeSet<usize>>, from: usize) -> BTreeSet<usize> {
    let mut reached = BTreeSet::new();
    let mut open = vec![from];
    while let Some(file) = open.pop() {
        for &to in next.get(&file).into_iter().flatten() {
            if reached.insert(to) {
                open.push(to);
            }
        }
    }
    reached
}
