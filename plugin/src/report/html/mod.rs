//! HTML report in one file: no network, light and dark theme, printable, readable without its
//! script.

mod drawing;
mod escape;

use std::io::{self, Write};

use nodelife_core::audit::{AuditReport, Lost};
use nodelife_core::format::{count, plural};

use super::fleet::{Fleet, Purpose, Row, State, Unit};
use super::text::{object, word};
use escape::Escaped;

const STYLE: &str = include_str!("style.css");
const SCRIPT: &str = include_str!("sort.js");

pub(super) fn write(
    report: &AuditReport,
    fleet: &Fleet<'_>,
    out: &mut impl Write,
) -> io::Result<()> {
    write!(
        out,
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; \
         style-src 'unsafe-inline'; script-src 'unsafe-inline'\">\n\
         <title>Node audit</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n"
    )?;
    head(report, out)?;
    findings(report, out)?;
    zones(fleet, out)?;
    losses(fleet, out)?;
    nodes(fleet, out)?;
    not_checked(report, out)?;
    write!(
        out,
        "<footer>kubectl-nodelife {}</footer>\n<script>\n{SCRIPT}</script>\n</body>\n</html>\n",
        env!("CARGO_PKG_VERSION")
    )
}

fn head(report: &AuditReport, out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "<header>\n<h1>Node audit</h1>")?;
    write!(
        out,
        "<p class=\"soft\">{}",
        count(report.summary.nodes, "node")
    )?;
    if let Some(version) = &report.server_version {
        write!(out, ", API server {}", Escaped(version))?;
    }
    if let Some(taken_at) = report.taken_at {
        write!(out, ", as of {taken_at:.0}")?;
    }
    writeln!(out, "</p>\n<ul class=\"counts\">")?;
    let summary = report.summary;
    for (number, class, what) in [
        (summary.errors, "error", "error"),
        (summary.warnings, "warning", "warning"),
        (summary.infos, "info", "note"),
        (summary.checked, "good", "rule checked"),
        (report.skipped.len(), "soft", "rule not checked"),
    ] {
        let (noun, rest) = what.split_once(' ').unwrap_or((what, ""));
        let noun = plural(number, noun);
        writeln!(
            out,
            "<li><b class=\"{class}\">{number}</b>{noun} {rest}</li>"
        )?;
    }
    writeln!(out, "</ul>\n</header>")
}

fn findings(report: &AuditReport, out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "<section>\n<h2>Findings</h2>")?;
    if report.findings.is_empty() {
        return writeln!(out, "<p class=\"good\">None.</p>\n</section>");
    }
    table(out, &["Severity", "Rule", "Object", "What, and what to do"])?;
    for finding in &report.findings {
        let severity = word(finding.severity);
        let letter = severity.get(..1).unwrap_or_default().to_uppercase();
        writeln!(
            out,
            "<tr><td data-key=\"{}\"><b class=\"{severity}\">{letter} {severity}</b></td>\
             <td class=\"rule\">{}</td><td class=\"object\">{}</td>\
             <td>{}<p class=\"fix\">Fix: {}</p></td></tr>",
            finding.severity as u8,
            Escaped(&finding.rule),
            // Long names may break, at best behind a slash.
            Escaped(&object(&finding.subject))
                .to_string()
                .replace('/', "/<wbr>"),
            Escaped(&finding.message),
            Escaped(&finding.fix),
        )?;
    }
    writeln!(out, "</tbody></table></div>\n</section>")
}

fn nodes(fleet: &Fleet<'_>, out: &mut impl Write) -> io::Result<()> {
    writeln!(
        out,
        "<section>\n<h2>Nodes</h2>\n<p class=\"legend soft\">{}{}{}",
        drawing::key("requested", "requested by pods"),
        drawing::key("over", "requested beyond Allocatable"),
        drawing::key("free", "free"),
    )?;
    let shares = || fleet.rows.iter().flat_map(|row| &row.shares);
    for purpose in Purpose::ALL {
        if shares().any(|share| share.held.iter().any(|(held, _)| *held == purpose)) {
            write!(
                out,
                "{}",
                drawing::key(drawing::class(purpose), purpose.words())
            )?;
        }
    }
    if shares().any(|share| share.held.is_empty() && share.reserved() > 0.0) {
        write!(
            out,
            "{}",
            drawing::key("reserved", "held back: Capacity − Allocatable")
        )?;
    }
    writeln!(out, "</p>")?;
    let columns = [
        "Node",
        "State",
        "Zone",
        "Pool",
        "CPU, cores",
        "Memory",
        "Pods",
    ];
    table(out, &columns)?;
    for row in &fleet.rows {
        let state = row.state.word();
        write!(
            out,
            "<tr><td class=\"name\">{}</td><td class=\"{}\">{state}</td><td>{}</td><td>{}</td>",
            Escaped(row.name),
            class(row.state),
            Escaped(&row.zone.to_string()),
            Escaped(row.pool),
        )?;
        for share in &row.shares {
            let show = |amount| share.unit.show(amount);
            let percent = share.percent();
            write!(
                out,
                "<td data-key=\"{:.3}\"><span class=\"figures\">{} of {}{}</span>{}</td>",
                percent.unwrap_or_default(),
                show(share.requested),
                show(share.allocatable),
                percent.map_or(String::new(), |percent| format!(" · {percent:.0}%")),
                drawing::bar(share),
            )?;
        }
        writeln!(out, "</tr>")?;
    }
    writeln!(out, "</tbody></table></div>\n</section>")
}

fn zones(fleet: &Fleet<'_>, out: &mut impl Write) -> io::Result<()> {
    writeln!(
        out,
        "<section>\n<h2>Zones</h2>\n<p class=\"legend soft\">{}{}{}</p>\n<div class=\"zones\">",
        drawing::key("cell-ready", "ready"),
        drawing::key("cell-cordoned", "ready, cordoned (c)"),
        drawing::key("cell-not-ready", "not ready (×)"),
    )?;
    for zone in &fleet.zones.zones {
        let rows: Vec<&Row<'_>> = fleet
            .rows
            .iter()
            .filter(|row| row.zone == zone.key)
            .collect();
        writeln!(
            out,
            "<figure><figcaption><b>{}</b> <span class=\"soft\">{:?} · {} of {} ready · \
             {} NoExecute taints a second</span></figcaption>{}</figure>",
            Escaped(&zone.key.to_string()),
            zone.state,
            zone.ready,
            zone.size,
            zone.eviction_rate,
            drawing::nodes(&rows),
        )?;
    }
    writeln!(out, "</div>\n</section>")
}

fn losses(fleet: &Fleet<'_>, out: &mut impl Write) -> io::Result<()> {
    writeln!(
        out,
        "<section>\n<h2>Room after a loss</h2>\n<p class=\"soft\">Requests of pods that can move, \
         on nodes that take pods, against what the others would offer: sums, with taints, affinity, \
         volumes and the size of single pods left aside.</p>"
    )?;
    let columns = [
        "Without",
        "Resource",
        "Requested",
        "Room on the others",
        "Enough",
    ];
    table(out, &columns)?;
    for loss in &fleet.losses {
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
            "<tr><td>{what}<b>{}</b></td><td>{}</td><td data-key=\"{:.3}\">{}</td>\
             <td data-key=\"{:.3}\">{left}</td><td class=\"{class}\">{verdict}</td></tr>",
            Escaped(name),
            unit.heading(loss.resource),
            loss.wanted,
            unit.show(loss.wanted),
            loss.left.unwrap_or_default(),
        )?;
    }
    writeln!(out, "</tbody></table></div>\n</section>")
}

fn not_checked(report: &AuditReport, out: &mut impl Write) -> io::Result<()> {
    if report.skipped.is_empty() {
        return Ok(());
    }
    writeln!(out, "<section>\n<h2>Not checked</h2>")?;
    table(out, &["Rule", "Why"])?;
    for skipped in &report.skipped {
        writeln!(
            out,
            "<tr><td class=\"rule\">{}</td><td>{}</td></tr>",
            Escaped(&skipped.rule),
            Escaped(&skipped.reason)
        )?;
    }
    writeln!(out, "</tbody></table></div>\n</section>")
}

/// Begins a table that can be sorted by each column.
fn table(out: &mut impl Write, columns: &[&str]) -> io::Result<()> {
    write!(out, "<div class=\"wide\"><table><thead><tr>")?;
    for column in columns {
        write!(
            out,
            "<th scope=\"col\"><button type=\"button\">{column}</button></th>"
        )?;
    }
    writeln!(out, "</tr></thead><tbody>")
}

/// The colour of a state.
fn class(state: State) -> &'static str {
    match state {
        State::NotReady => "error",
        State::Cordoned => "warning",
        State::Ready => "good",
    }
}

#[cfg(test)]
mod tests {
    use nodelife_core::allocatable::KubeletConfiguration;
    use nodelife_core::object::Node;
    use nodelife_core::snapshot::Snapshot;
    use nodelife_core::zone::{Settings, ZoneReport};

    use super::super::document::tests::report;
    use super::*;

    fn page_of(snapshot: &Snapshot) -> String {
        let zones = ZoneReport::of(&snapshot.nodes, &Settings::default(), snapshot.taken_at);
        let mut out = Vec::new();
        write(&report(), &Fleet::of(snapshot, zones), &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    fn page() -> String {
        let mut node = Node::default();
        node.metadata.name = "<b>&\"".into();
        node.status.capacity = [
            ("cpu".into(), "-1".into()),
            ("memory".into(), "1e30".into()),
        ]
        .into();
        let snapshot = Snapshot {
            nodes: vec![node],
            ..Snapshot::default()
        };
        page_of(&snapshot)
    }

    #[test]
    fn a_bar_shows_reservations_that_add_up() {
        let mut node: Node = serde_json::from_value(serde_json::json!({
            "metadata": {"name": "a"},
            "status": {
                "capacity": {"cpu": "4", "memory": "8Gi"},
                "allocatable": {"cpu": "3900m", "memory": "6Gi"},
            },
        }))
        .unwrap();
        let configuration = KubeletConfiguration::from_configz(serde_json::json!({
            "kubeReserved": {"cpu": "100m", "memory": "1Gi"},
            "systemReserved": {"memory": "512Mi"},
            "evictionHard": {"memory.available": "512Mi"},
        }));
        let snapshot = |node: &Node| Snapshot {
            nodes: vec![node.clone()],
            kubelet_configs: [("a".into(), configuration.as_ref().unwrap().clone())].into(),
            ..Snapshot::default()
        };
        let page = page_of(&snapshot(&node));
        let label = "memory: 6.0Gi free, 0.5Gi eviction threshold, 0.5Gi system reserved, \
                     1.0Gi kube reserved, of 8.0Gi";
        assert!(page.contains(label), "{page}");
        assert!(!page.contains("class=\"reserved\""), "{page}");
        // Something else is held back besides: the parts would be a lie.
        node.status
            .allocatable
            .insert("memory".into(), "5Gi".into());
        let page = page_of(&snapshot(&node));
        let label = "memory: 5.0Gi free, 3.0Gi held back, of 8.0Gi";
        assert!(page.contains(label), "{page}");
    }

    #[test]
    fn shows_what_a_lost_node_or_zone_leaves() {
        let node = |name: &str, zone: &str| {
            let amounts = serde_json::json!({"cpu": "4", "memory": "8Gi"});
            serde_json::json!({
                "metadata": {"name": name, "labels": {"topology.kubernetes.io/zone": zone}},
                "status": {
                    "capacity": amounts, "allocatable": amounts,
                    "conditions": [{"type": "Ready", "status": "True"}],
                },
            })
        };
        let pod = |name: &str, on: &str, cpu: &str| {
            serde_json::json!({
                "metadata": {"name": name, "namespace": "shop"},
                "spec": {"nodeName": on, "containers": [
                    {"name": "c", "resources": {"requests": {"cpu": cpu, "memory": "1Gi"}}},
                ]},
            })
        };
        let snapshot = serde_json::json!({
            "nodes": [node("a", "east"), node("b", "west")],
            "pods": [pod("x", "a", "3"), pod("y", "b", "2")],
        });
        let page = page_of(&serde_json::from_value(snapshot).unwrap());
        let rows: Vec<_> = page
            .lines()
            .filter(|l| l.contains("<td>zone <b>"))
            .collect();
        assert_eq!(rows.len(), 4, "{page}");
        assert!(
            rows[0].contains("east") && rows[0].contains("no: 1.00 too little"),
            "{rows:#?}"
        );
        assert!(
            rows[1].contains(">2.0Gi<") && rows[1].contains("yes, in sum"),
            "{rows:#?}"
        );
        assert!(page.contains("<td>the largest node, <b>"), "{page}");
    }

    #[test]
    fn nothing_in_the_page_asks_for_another_file() {
        let page = page();
        for reference in ["http://", "https://", "src=", "href=", "url(", "@import"] {
            assert!(!page.contains(reference), "{reference}");
        }
    }

    #[test]
    fn names_are_text_and_absurd_amounts_draw_nothing_absurd() {
        let page = page();
        assert!(page.contains("<td class=\"name\">&lt;b&gt;&amp;&quot;</td>"));
        assert!(!page.contains("NaN") && !page.contains("\"inf\""), "{page}");
    }
}
