//! Output to stdout and stderr.

mod document;
mod locale;
pub(crate) mod log;
mod plain;
mod printer;
mod shorten;
mod stream;
pub(crate) mod style;
mod table;
mod template;

pub(crate) use document::Document;
pub(crate) use plain::plain;
pub(crate) use printer::Printer;
pub(crate) use shorten::{cut, shorten};
pub(crate) use table::{Cell, Table};
pub(crate) use template::Template;
