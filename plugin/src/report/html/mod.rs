//! HTML report in one file: no network, light and dark theme, printable, readable without its
//! script, which only filters and sorts.

mod checks;
mod findings;
mod head;
mod nodes;
mod overview;
mod page;
mod parts;

use std::io::{self, Write};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use ring::digest::{SHA256, digest};

pub(super) use page::Page;
use parts::Escaped;

const STYLE: &str = include_str!("style.css");
const SCRIPT: &str = include_str!("page.js");

pub(super) fn write(page: &Page<'_>, out: &mut impl Write) -> io::Result<()> {
    let script = format!("\n{SCRIPT}");
    let hash = BASE64_STANDARD.encode(digest(&SHA256, script.as_bytes()));
    let title = page.title();
    write!(
        out,
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; \
         style-src 'unsafe-inline'; script-src 'sha256-{hash}'\">\n\
         <title>{}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n",
        Escaped(&title)
    )?;
    head::write(page, out)?;
    overview::write(page, out)?;
    findings::write(page, out)?;
    nodes::write(page, out)?;
    checks::write(page, out)?;
    write!(
        out,
        "<footer>{} {}</footer>\n<script>{script}</script>\n</body>\n</html>\n",
        Escaped(&page.report.tool.name),
        Escaped(&page.report.tool.version)
    )
}

#[cfg(test)]
mod tests;
