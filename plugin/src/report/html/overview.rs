//! The picture: the nodes of each zone.

use std::io::{self, Write};

use nodelife_core::format::count;

use super::super::node_rows::{Row, State};
use super::page::Page;
use super::parts::{Escaped, key};

pub(super) fn write(page: &Page<'_>, out: &mut impl Write) -> io::Result<()> {
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
