//! The pictures: the nodes of each zone, and the room after a loss.

use std::io::{self, Write};

use nodelife_audit::{Loss, Lost};
use nodelife_core::format::count;

use super::super::node_rows::{Row, State, Unit};
use super::escape::Escaped;
use super::page::Page;
use super::parts::{end_table, key, table};

pub(super) fn write(page: &Page<'_>, out: &mut impl Write) -> io::Result<()> {
    zones(page, out)?;
    losses(page, out)
}

fn zones(page: &Page<'_>, out: &mut impl Write) -> io::Result<()> {
    writeln!(
        out,
        "<section>\n<h2>Zones</h2>\n<p class=\"legend soft\">{}{}{}{}{}{}</p>\n\
         <div class=\"zones\">",
        key("error", "", "errors"),
        key("warning", "", "warnings"),
        key("info", "", "notes"),
        key("good", "", "no findings"),
        key("soft", "×", "not ready"),
        key("soft", "c", "cordoned"),
    )?;
    for zone in &page.node_rows.zones.zones {
        write!(
            out,
            "<figure><figcaption><b>{}</b> <span class=\"soft\">{:?} · {} of {} ready · \
             {} NoExecute taints a second</span></figcaption><p class=\"squares\">",
            Escaped(&zone.key.to_string()),
            zone.state,
            zone.ready,
            zone.size,
            zone.eviction_rate,
        )?;
        let mut left = zone.size;
        for (i, row) in page.rows().filter(|(_, row)| row.zone == zone.key) {
            square(page, i, row, out)?;
            left = left.saturating_sub(1);
        }
        write!(out, "</p>")?;
        if left > 0 {
            let and = if left < zone.size { "and " } else { "" };
            write!(out, "<p class=\"soft\">{and}{left} without findings</p>")?;
        }
        writeln!(out, "</figure>")?;
    }
    writeln!(out, "</div>")?;
    if !page.end.is_empty() {
        let end = Escaped(page.end);
        writeln!(
            out,
            "<p class=\"soft\">Short names of nodes are without {end}.</p>"
        )?;
    }
    writeln!(out, "</section>")
}

/// A square that is linked to the node's row: its colour is the worst finding, its sign the state.
fn square(page: &Page<'_>, i: usize, row: &Row<'_>, out: &mut impl Write) -> io::Result<()> {
    let faults = page.faults(row.name);
    let class = faults.first().map_or("good", |(worst, _)| worst.as_str());
    let (glyph, state) = match row.state {
        State::Ready => ("", ""),
        State::Cordoned => ("c", ", cordoned"),
        State::NotReady => ("×", ", not ready"),
    };
    let name = Escaped(page.short(row.name));
    write!(out, "<a href=#n{i} class={class} title=\"{name}{state}")?;
    if !faults.is_empty() {
        write!(out, ": {}", count(faults.len(), "fault"))?;
    }
    write!(out, "\">{glyph}</a>")
}

fn losses(page: &Page<'_>, out: &mut impl Write) -> io::Result<()> {
    let losses = &page.node_rows.losses;
    if losses.is_empty() {
        return Ok(());
    }
    writeln!(out, "<section>\n<h2>Room after a loss</h2>")?;
    let lacking = losses.iter().filter(|loss| !loss.fits).count();
    if lacking == 0 {
        writeln!(
            out,
            "<p class=\"good\">Enough, in sum, without the largest node and without any zone.</p>"
        )?;
    } else {
        writeln!(
            out,
            "<p class=\"error\">Too little in {} of {}.</p>",
            lacking,
            count(losses.len(), "case")
        )?;
    }
    writeln!(
        out,
        "<details{}><summary class=\"soft\">Requests of pods that can move, on nodes that take \
         pods, against what the others would offer: sums, with taints, affinity, volumes and the \
         size of single pods left aside.</summary>",
        if lacking == 0 { "" } else { " open" }
    )?;
    let columns = [
        "Without",
        "Resource",
        "Requested",
        "Room on the others",
        "Enough",
    ];
    table(out, &columns)?;
    for loss in losses {
        write_loss(loss, out)?;
    }
    end_table(out)?;
    writeln!(out, "</details>\n</section>")
}

fn write_loss(loss: &Loss, out: &mut impl Write) -> io::Result<()> {
    let (what, name) = match &loss.of {
        Lost::LargestNode(name) => ("the largest node, ", name),
        Lost::Zone(name) => ("zone ", name),
    };
    let unit = Unit::of(loss.resource);
    let missing = loss.wanted - loss.left.unwrap_or_default();
    let (class, verdict) = if loss.fits {
        ("good", "yes, in sum".to_owned())
    } else {
        ("error", format!("no: {} too little", unit.show(missing)))
    };
    let left = match loss.left {
        Some(left) => unit.show(left),
        None => "no others".to_owned(),
    };
    writeln!(
        out,
        "<tr><td>{what}<b>{}</b><td>{}<td data-key=\"{:.3}\">{}<td data-key=\"{:.3}\">{left}\
         <td class=\"{class}\">{verdict}",
        Escaped(name),
        unit.heading(loss.resource),
        loss.wanted,
        unit.show(loss.wanted),
        loss.left.unwrap_or_default(),
    )
}
