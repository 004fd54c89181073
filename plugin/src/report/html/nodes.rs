//! The table of the nodes.

use std::fmt::Write as _;
use std::io::{self, Write};

use nodelife_core::format::count;

use super::super::node_rows::{Purpose, Row, Share, State};
use super::page::Page;
use super::parts::{Escaped, key};

/// More rules than these are only counted.
const SHOWN: usize = 5;
/// Of more nodes than these, bars are not told in words: the page has to be small enough to send.
const IN_WORDS: usize = 300;

pub(super) fn write(page: &Page<'_>, out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "<section id=\"nodes\">\n<h2>Nodes</h2>")?;
    legend(page, out)?;
    let columns = [
        "Node",
        "State",
        "Findings",
        "Kubelet",
        "Age",
        "Machine",
        "Zone",
        "Pool",
        "CPU, cores",
        "Memory",
        "Pods",
    ];
    // Can be sorted by each column. Cells and rows need no closing tag.
    write!(out, "<div class=\"wide\"><table><thead><tr>")?;
    for column in columns {
        write!(
            out,
            "<th scope=\"col\"><button type=\"button\">{column}</button></th>"
        )?;
    }
    writeln!(out, "</tr></thead><tbody>")?;
    let mut left = page.node_rows.rows.len();
    for (i, row) in page.rows() {
        write_row(page, i, row, out)?;
        left -= 1;
    }
    writeln!(out, "</tbody></table></div>")?;
    if left > 0 {
        let nodes = count(left, "more node");
        writeln!(
            out,
            "<p class=\"good\">{nodes} Ready, without findings: <code>kubectl nodelife \
             nodes</code> shows all.</p>"
        )?;
    }
    writeln!(out, "</section>")
}

fn legend(page: &Page<'_>, out: &mut impl Write) -> io::Result<()> {
    write!(
        out,
        "<p class=\"legend soft\">{}{}{}",
        key("requested", "", "requested by pods"),
        key("over", "", "requested beyond Allocatable"),
        key("free", "", "free"),
    )?;
    let shares = || page.node_rows.rows.iter().flat_map(|row| &row.shares);
    for purpose in Purpose::ALL {
        if shares().any(|share| share.held.iter().any(|(held, _)| *held == purpose)) {
            write!(out, "{}", key(names(purpose).1, "", purpose.words()))?;
        }
    }
    if shares().any(|share| share.held.is_empty() && share.reserved() > 0.0) {
        let words = "held back: Capacity − Allocatable";
        write!(out, "{}", key("reserved", "", words))?;
    }
    writeln!(out, "</p>")
}

fn write_row(page: &Page<'_>, i: usize, row: &Row<'_>, out: &mut impl Write) -> io::Result<()> {
    let state = match row.state {
        State::NotReady => " class=error",
        State::Cordoned => " class=warning",
        State::Ready => "",
    };
    write!(
        out,
        "<tr id=n{i}><td>{}<td{state}>{}",
        Escaped(page.short(row.name)),
        row.state.word()
    )?;
    let faults = page.faults(row.name);
    // A column is sorted by severity, then by number.
    let worst = faults.first().map_or(0, |(worst, _)| 1 + *worst as usize);
    write!(out, "<td data-key={}>", worst * 1000 + faults.len())?;
    for (severity, rule) in faults.iter().take(SHOWN) {
        let short = rule.strip_prefix("NL-").unwrap_or(rule);
        let (rule, short) = (Escaped(rule), Escaped(short));
        write!(
            out,
            "<a href=#{rule} class={}>{short}</a> ",
            severity.as_str()
        )?;
    }
    if faults.len() > SHOWN {
        write!(out, "+{}", faults.len() - SHOWN)?;
    }
    write!(
        out,
        "<td>{}<td>{}<td>{}<td>{}<td>{}",
        Escaped(row.version),
        row.age,
        Escaped(row.machine),
        Escaped(&row.zone.to_string()),
        Escaped(row.pool),
    )?;
    for share in &row.shares {
        let show = |amount| share.unit.show(amount);
        write!(out, "<td>")?;
        if let Some(percent) = share.percent() {
            write!(out, "{percent:.0}% · ")?;
        }
        write!(
            out,
            "{} of {}{}",
            show(share.requested),
            show(share.allocatable),
            bar(share, page.node_rows.rows.len() <= IN_WORDS)
        )?;
    }
    writeln!(out)
}

/// A bar from nothing to Capacity: requested, free, and what is held back, by what for where that
/// is known. Requests beyond Allocatable stretch the scale instead of being cut off.
///
/// The style sheet has the colours; the bar has only the places where one begins, and the amounts in
/// words if they are wanted.
fn bar(share: &Share, in_words: bool) -> String {
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
        parts.extend(held.map(|(purpose, amount)| (names(*purpose).0, purpose.words(), *amount)));
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

/// In the style sheet: the variable that says where the part ends, and its class.
fn names(purpose: Purpose) -> (char, &'static str) {
    match purpose {
        Purpose::Eviction => ('e', "eviction"),
        Purpose::System => ('s', "system"),
        Purpose::Kube => ('k', "kube"),
        Purpose::HugePages => ('h', "hugepages"),
    }
}
