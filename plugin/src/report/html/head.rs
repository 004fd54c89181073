//! The head of the page: which cluster, when, by which command, and the counts.

use std::io::{self, Write};

use nodelife_core::format::plural;
use nodelife_core::snapshot::Clock;

use super::page::Page;
use super::parts::Escaped;

pub(super) fn write(page: &Page<'_>, out: &mut impl Write) -> io::Result<()> {
    let report = page.report;
    writeln!(
        out,
        "<header>\n<h1>{}</h1>\n<dl class=\"soft\">",
        Escaped(&page.title())
    )?;
    let input = &report.input;
    let text = |text: &Option<_>| text.as_deref().map(ToOwned::to_owned);
    let time = report.taken_at.map(|taken_at| {
        let note = match report.clock {
            Clock::ApiServer => "",
            Clock::Given => " (--at)",
            Clock::NewestHeartbeat => " (the newest heartbeat of the input)",
        };
        format!("{taken_at:.0}{note}")
    });
    let files = (!input.files.is_empty()).then(|| input.files.join(", "));
    for (name, value) in [
        ("Context", text(&input.context)),
        ("Cluster", text(&input.cluster)),
        ("Server", text(&input.server)),
        ("Files", files),
        ("API server", text(&report.server_version)),
        ("As of", time),
    ] {
        if let Some(value) = value {
            writeln!(out, "<div><dt>{name}<dd>{}</div>", Escaped(&value))?;
        }
    }
    if !page.command.is_empty() {
        let command = Escaped(page.command);
        writeln!(out, "<div><dt>Command<dd><code>{command}</code></div>")?;
    }
    writeln!(out, "</dl>\n<ul class=\"counts\">")?;
    let (summary, skipped) = (report.summary, report.skipped.len());
    for (number, class, place, before, noun, after) in [
        (summary.errors, "error", "findings", "", "error", ""),
        (summary.warnings, "warning", "findings", "", "warning", ""),
        (summary.infos, "info", "findings", "", "note", ""),
        (summary.nodes, "", "nodes", "", "node", ""),
        (summary.checked, "good", "checks", "", "rule", " checked"),
        (skipped, "soft", "checks", "", "rule", " not checked"),
        (
            summary.suppressed,
            "soft",
            "checks",
            "suppressed ",
            "finding",
            "",
        ),
        (summary.hidden, "soft", "checks", "hidden ", "finding", ""),
        (summary.known, "soft", "checks", "known ", "finding", ""),
        (summary.fixed, "good", "checks", "", "finding", " gone"),
    ] {
        // The last four are told only to who asked for them.
        if number == 0 && noun == "finding" {
            continue;
        }
        let noun = plural(number, noun);
        writeln!(
            out,
            "<li><a href=\"#{place}\"><b class=\"{class}\">{number}</b>{before}{noun}{after}</a></li>"
        )?;
    }
    writeln!(out, "</ul>\n</header>")
}
