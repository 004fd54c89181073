//! The table of the nodes.

use std::io::{self, Write};

use nodelife_core::format::count;

use super::super::node_rows::{Purpose, Row, State};
use super::bar::bar;
use super::escape::Escaped;
use super::page::Page;
use super::parts::{end_table, key, table};

/// More rules than these are only counted.
const SHOWN: usize = 5;
/// Of more nodes than these, the bars are not told in words: the page has to stay small enough to be
/// sent.
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
    table(out, &columns)?;
    let mut left = page.node_rows.rows.len();
    for (i, row) in page.rows() {
        write_row(page, i, row, out)?;
        left -= 1;
    }
    end_table(out)?;
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
            let class = match purpose {
                Purpose::Eviction => "eviction",
                Purpose::System => "system",
                Purpose::Kube => "kube",
                Purpose::HugePages => "hugepages",
            };
            write!(out, "{}", key(class, "", purpose.words()))?;
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
