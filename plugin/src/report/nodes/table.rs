//! Table of nodes that fits its terminal: what matters least goes first.

use jiff::Timestamp;
use nodelife_audit::Severity;
use nodelife_audit::nodes::{NodeRow, NodesReport, PodCount, ReadyState, Totals, Usage};
use nodelife_core::format::duration;
use nodelife_core::quantity::Quantity;
use unicode_width::UnicodeWidthStr as _;

use super::super::node_rows::domain;
use super::View;
use super::bar::bar;
use crate::cli::NodesFormat;
use crate::output::{Cell, Table, cut, shorten, style};

/// The text for an unknown value, as kubectl prints it.
const NONE: &str = "<none>";

/// A message is worth showing from this width on.
const LEAST_MESSAGE: usize = 20;

/// Blanks before the message of a finding.
const BEFORE_MESSAGE: &str = "  ";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Column {
    Name,
    Status,
    Version,
    Age,
    Zone,
    Pool,
    Cpu,
    CpuLimits,
    Memory,
    MemoryLimits,
    Pods,
    Drainable,
    Finding,
}

#[derive(Clone, Debug)]
struct Layout {
    columns: Vec<Column>,
    /// Names are shortened to this width.
    name: usize,
    /// Cells of a bar.
    bar: usize,
    /// Whether amounts stand beside the percentage.
    has_amounts: bool,
    /// Whether the number of further findings stands beside the worst.
    has_count: bool,
    /// Columns of the message behind a finding.
    message: usize,
}

impl Layout {
    fn hide(&mut self, column: Column) {
        self.columns.retain(|shown| *shown != column);
    }
}

/// The columns that are dropped, step by step, until the table fits.
const REDUCTIONS: [fn(&mut Layout); 16] = [
    |layout| layout.name = 40,
    |layout| layout.bar = 6,
    |layout| layout.hide(Column::Version),
    |layout| layout.hide(Column::Pool),
    |layout| layout.name = 30,
    |layout| layout.hide(Column::Age),
    |layout| layout.has_amounts = false,
    |layout| layout.hide(Column::Zone),
    |layout| layout.has_count = false,
    |layout| layout.name = 24,
    |layout| layout.bar = 4,
    |layout| layout.name = 18,
    |layout| layout.name = 14,
    |layout| layout.bar = 0,
    |layout| layout.hide(Column::Pods),
    |layout| layout.hide(Column::Finding),
];

/// The table for a terminal of this width; without one everything is shown.
pub(super) fn table(
    report: &NodesReport,
    view: View<'_>,
    now: Timestamp,
    width: Option<usize>,
) -> Table {
    let draw = |layout: &Layout| Builder::new(report, view, now, layout).build();
    let mut layout = full(report, view);
    let Some(width) = width.filter(|_| view.format != NodesFormat::Wide) else {
        return draw(&layout);
    };
    layout.message = 0;
    let mut built = draw(&layout);
    for reduce in REDUCTIONS {
        if built.width() <= width {
            break;
        }
        reduce(&mut layout);
        built = draw(&layout);
    }
    let room = width.saturating_sub(built.width() + BEFORE_MESSAGE.len());
    if room < LEAST_MESSAGE || !layout.columns.contains(&Column::Finding) {
        return built;
    }
    layout.message = room;
    draw(&layout)
}

/// All that there is to show. Columns that would be empty, or that the groups repeat, are left out.
fn full(report: &NodesReport, view: View<'_>) -> Layout {
    let mut columns = vec![
        Column::Name,
        Column::Status,
        Column::Version,
        Column::Age,
        Column::Zone,
        Column::Pool,
        Column::Cpu,
        Column::CpuLimits,
        Column::Memory,
        Column::MemoryLimits,
        Column::Pods,
        Column::Drainable,
        Column::Finding,
    ];
    let grouped = report.group_by.as_deref();
    let is_shown = |column: &Column| match column {
        Column::Zone => {
            grouped != Some("zone") && report.nodes.iter().any(|row| !row.zone.is_empty())
        }
        Column::Pool => {
            grouped != Some("pool") && report.nodes.iter().any(|row| !row.pool.is_empty())
        }
        Column::CpuLimits | Column::MemoryLimits => view.format == NodesFormat::Wide,
        Column::Drainable => !view.drainable.is_empty(),
        _ => true,
    };
    columns.retain(is_shown);
    Layout {
        columns,
        name: usize::MAX,
        bar: 10,
        has_amounts: true,
        has_count: true,
        message: usize::MAX,
    }
}

struct Builder<'a> {
    report: &'a NodesReport,
    view: View<'a>,
    now: Timestamp,
    layout: &'a Layout,
    /// The end that all names share, `.eu-central-1.compute.internal`.
    domain: &'a str,
}

impl<'a> Builder<'a> {
    fn new(report: &'a NodesReport, view: View<'a>, now: Timestamp, layout: &'a Layout) -> Self {
        Self {
            report,
            view,
            now,
            layout,
            domain: domain(report.nodes.iter().map(|row| row.name.as_str())),
        }
    }

    fn build(&self) -> Table {
        let columns = self.layout.columns.iter();
        let table = Table::new(columns.map(|column| self.title(*column)));
        let mut table = table.with_header(!self.view.no_headers);
        let report = self.report;
        if report.group_by.is_none() {
            for row in &report.nodes {
                table.row(self.row(row, ""));
            }
        }
        let mut rows = report.nodes.iter();
        for group in &report.groups {
            let name = group.name.as_deref().unwrap_or(NONE);
            table.row(self.sum(name, &group.totals));
            for row in rows.by_ref().take(group.totals.size) {
                table.row(self.row(row, "  "));
            }
        }
        if report.nodes.len() > 1 {
            table.row(self.sum("total", &report.total));
        }
        table
    }

    fn title(&self, column: Column) -> &'static str {
        let is_long = self.layout.has_amounts;
        match column {
            Column::Name => "NAME",
            Column::Status => "STATUS",
            Column::Version => "VERSION",
            Column::Age => "AGE",
            Column::Zone => "ZONE",
            Column::Pool => "POOL",
            Column::Cpu if is_long => "CPU REQUESTS",
            Column::Cpu => "CPU",
            Column::CpuLimits => "CPU LIMITS",
            Column::Memory if is_long => "MEMORY REQUESTS",
            Column::Memory => "MEMORY",
            Column::MemoryLimits => "MEMORY LIMITS",
            Column::Pods => "PODS",
            Column::Drainable => "DRAINABLE",
            Column::Finding => "FINDING",
        }
    }

    fn row<'b>(&'b self, row: &'b NodeRow, indent: &'b str) -> impl Iterator<Item = Cell> + 'b {
        self.layout.columns.iter().map(move |column| match column {
            Column::Name => format!("{indent}{}", self.name(&row.name, indent.len())).into(),
            Column::Status => status(row),
            Column::Version => or_none(&row.version).into(),
            Column::Age => match row.created_at {
                // `--at` may name a time before the node.
                Some(created) => age(self.now.duration_since(created).as_secs().max(0)).into(),
                None => "<unknown>".into(),
            },
            Column::Zone if row.zone.is_empty() => NONE.into(),
            Column::Zone => row.zone.to_string().into(),
            Column::Pool => or_none(&row.pool).into(),
            Column::Cpu => self.requests(&row.cpu, cores),
            Column::CpuLimits => limits(&row.cpu, cores),
            Column::Memory => self.requests(&row.memory, bytes),
            Column::MemoryLimits => limits(&row.memory, bytes),
            Column::Pods => pods(row.pods),
            Column::Drainable => match self.view.drainable.get(&row.name) {
                Some(answer) => answer.to_string().into(),
                None => NONE.into(),
            },
            Column::Finding => self.finding(row),
        })
    }

    /// The line of a group, or of all.
    fn sum<'b>(&'b self, name: &'b str, totals: &'b Totals) -> impl Iterator<Item = Cell> + 'b {
        let strong = |text: String| Cell::styled(text, style::STRONG);
        self.layout.columns.iter().map(move |column| match column {
            Column::Name => {
                let count = format!(" ({})", totals.size);
                let room = self.layout.name.saturating_sub(count.len());
                strong(format!("{}{count}", shorten(name, room)))
            }
            Column::Status => strong(format!("{} Ready", totals.ready_of())),
            Column::Version | Column::Age | Column::Zone | Column::Pool | Column::Drainable => {
                "".into()
            }
            Column::Cpu => self.requests(&totals.cpu, cores),
            Column::CpuLimits => limits(&totals.cpu, cores),
            Column::Memory => self.requests(&totals.memory, bytes),
            Column::MemoryLimits => limits(&totals.memory, bytes),
            Column::Pods => pods(totals.pods),
            Column::Finding => findings(totals),
        })
    }

    /// A name in the room that there is. What all names share goes first: it tells none apart.
    fn name(&self, name: &str, indent: usize) -> String {
        let room = self.layout.name.saturating_sub(indent);
        if name.width() <= room {
            return name.to_owned();
        }
        match name.strip_suffix(self.domain) {
            Some(host) if !self.domain.is_empty() => shorten(&format!("{host}…"), room),
            _ => shorten(name, room),
        }
    }

    fn requests(&self, usage: &Usage, show: Show) -> Cell {
        let mut parts = Vec::new();
        if self.layout.bar > 0 {
            let width = self.layout.bar;
            parts.push(usage.requests_percent.map_or_else(
                || " ".repeat(width),
                |percent| bar(percent, width, self.view.unicode),
            ));
        }
        parts.push(percent(usage.requests_percent));
        if self.layout.has_amounts {
            parts.push(show(usage.requests, usage.allocatable));
        }
        Cell::styled(parts.join(" "), fullness(usage.requests_percent))
    }

    fn finding(&self, row: &NodeRow) -> Cell {
        let Some(finding) = &row.finding else {
            return Cell::default();
        };
        let letter = match finding.severity {
            Severity::Error => 'E',
            Severity::Warning => 'W',
            Severity::Info => 'I',
        };
        let more = finding.findings.saturating_sub(1);
        let count = if self.layout.has_count && more > 0 {
            format!(" +{more}")
        } else {
            String::new()
        };
        let message = cut(
            &format!("{BEFORE_MESSAGE}{}", finding.message),
            self.layout.message,
        );
        let text = format!("{letter} {}{count}{message}", finding.rule);
        Cell::styled(text, style::severity(finding.severity))
    }
}

/// The age of a node; of one that is older than a week in whole days, as in kubectl.
fn age(seconds: i64) -> String {
    const DAY: i64 = 86_400;
    let is_old = seconds > 7 * DAY;
    let left_out = if is_old { seconds % DAY } else { 0 };
    duration(seconds - left_out)
}

fn status(row: &NodeRow) -> Cell {
    let mut text = row.state.word().to_owned();
    if row.cordoned {
        text.push_str(",cordoned");
    }
    if let Some(maintenance) = row.maintenance {
        text.push(',');
        text.push_str(maintenance.as_str());
    }
    let style = match row.state {
        ReadyState::NotReady | ReadyState::Unknown => style::ERROR,
        ReadyState::Ready if row.cordoned || row.maintenance.is_some() => style::WARNING,
        ReadyState::Ready => style::GOOD,
        ReadyState::Missing => style::WARNING,
    };
    Cell::styled(text, style)
}

fn or_none(text: &str) -> &str {
    if text.is_empty() { NONE } else { text }
}

pub(super) fn percent(percent: Option<f64>) -> String {
    percent.map_or_else(
        || format!("{:>4}", "-"),
        |percent| format!("{:>4}", format!("{percent:.0}%")),
    )
}

/// In percent of Allocatable, which stands beside the requests.
fn limits(usage: &Usage, show: Show) -> Cell {
    let percent = percent(usage.limits_percent);
    let amounts = show(usage.limits, usage.allocatable);
    let amount = amounts.split('/').next().unwrap_or_default();
    let unit = amounts.trim_start_matches(|c: char| !c.is_alphabetic());
    format!("{percent} {amount}{unit}").into()
}

/// The colour of a share: overcommitted (as NL-CAP-001 reports it) or almost full.
pub(super) fn fullness(percent: Option<f64>) -> anstyle::Style {
    match percent {
        Some(percent) if percent > 100.0 => style::ERROR,
        Some(percent) if percent >= 90.0 => style::WARNING,
        _ => anstyle::Style::new(),
    }
}

pub(super) fn pods(pods: PodCount) -> Cell {
    let count = pods.count.map(|count| count.to_string());
    let limit = pods.allocatable.map(|limit| limit.to_string());
    let unknown = || "-".to_owned();
    let text = format!(
        "{}/{}",
        count.unwrap_or_else(unknown),
        limit.unwrap_or_else(unknown)
    );
    Cell::styled(text, fullness(pods.percent()))
}

/// On how many nodes the worst finding is an error, or a warning.
pub(super) fn findings(totals: &Totals) -> Cell {
    let worst = [
        (totals.with_errors, "E", style::ERROR),
        (totals.with_warnings, "W", style::WARNING),
    ];
    let worst = worst.into_iter().filter(|(count, ..)| *count > 0);
    let mut texts = Vec::new();
    let mut style = None;
    for (count, letter, colour) in worst {
        texts.push(format!("{count} {letter}"));
        style.get_or_insert(colour);
    }
    Cell::styled(texts.join(", "), style.unwrap_or_default())
}

/// An amount of so much, `2.27/3.92`; one that is not known is a dash.
type Show = fn(Option<Quantity>, Option<Quantity>) -> String;

fn cores(part: Option<Quantity>, whole: Option<Quantity>) -> String {
    format!("{}/{}", amount(part, 1.0), amount(whole, 1.0))
}

/// Both in the unit that suits the whole.
fn bytes(part: Option<Quantity>, whole: Option<Quantity>) -> String {
    const KIB: f64 = 1024.0;
    let size = whole.or(part).map_or(0.0, Quantity::approximate);
    let (name, unit) = match size / KIB.powi(3) {
        1024.0.. => ("Ti", KIB.powi(4)),
        1.0.. => ("Gi", KIB.powi(3)),
        _ => ("Mi", KIB.powi(2)),
    };
    format!("{}/{}{name}", amount(part, unit), amount(whole, unit))
}

fn amount(amount: Option<Quantity>, unit: f64) -> String {
    let text = amount.map(|amount| digits(amount.approximate() / unit));
    text.unwrap_or_else(|| "-".to_owned())
}

/// Three digits that matter, or all before the point.
fn digits(number: f64) -> String {
    let text = match number {
        100.0.. => return format!("{number:.0}"),
        10.0.. => format!("{number:.1}"),
        _ => format!("{number:.2}"),
    };
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests;
