//! Output to stdout and stderr.

mod document;
pub(crate) mod log;
mod plain;
mod printer;
mod progress;
mod stream;
pub(crate) mod style;
mod table;

pub(crate) use document::Document;
pub(crate) use plain::plain;
pub(crate) use printer::Printer;
pub(crate) use progress::Progress;
pub(crate) use table::{Cell, Table};
