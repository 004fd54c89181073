//! The bar of a node's resource, drawn by the style sheet.

use std::fmt::Write as _;

use super::super::node_rows::{Purpose, Share};

/// A bar from nothing to Capacity: requested, free, and what is held back, by what for where that
/// is known. Requests beyond Allocatable stretch the scale instead of being cut off.
///
/// The style sheet has the colours; the bar has only the places where one begins, and the amounts in
/// words if they are wanted.
pub(super) fn bar(share: &Share, in_words: bool) -> String {
    let within = share.requested.min(share.allocatable);
    let over = (share.requested - share.allocatable).max(0.0);
    let mut parts = vec![
        ('a', "requested", within),
        ('o', "requested beyond Allocatable", over),
        ('f', "free", share.free()),
    ];
    if share.held.is_empty() {
        parts.push(('r', "held back", share.reserved()));
    } else {
        let held = share.held.iter();
        parts.extend(held.map(|(purpose, amount)| (letter(*purpose), purpose.words(), *amount)));
    }
    let whole: f64 = parts.iter().map(|(.., amount)| amount).sum();
    if whole <= 0.0 {
        return String::new();
    }
    let mut bar = String::from("<i style=");
    let mut end = 0.0;
    for (letter, _, amount) in &parts {
        end += 100.0 * amount / whole;
        // The last colour goes on to the end.
        if *amount > 0.0 && *letter != 'r' {
            // Writing to a String does not fail.
            let _ = write!(bar, "--{letter}:{end:.0}%;");
        }
    }
    if in_words && (!share.held.is_empty() || over > 0.0) {
        // What is requested stands above the bar.
        bar.push_str(" title=\"");
        for (_, words, amount) in parts.iter().skip(1).filter(|(.., amount)| *amount > 0.0) {
            let _ = write!(bar, "{} {words}, ", share.unit.show(*amount));
        }
        let _ = write!(bar, "of {}\"", share.unit.show(share.capacity));
    }
    bar.push_str("></i>");
    bar
}

/// The variable of the style sheet that says where the part ends.
fn letter(purpose: Purpose) -> char {
    match purpose {
        Purpose::Eviction => 'e',
        Purpose::System => 's',
        Purpose::Kube => 'k',
        Purpose::HugePages => 'h',
    }
}
