//! Output to stdout and stderr.

pub(crate) mod log;
mod printer;
mod stream;
pub(crate) mod style;
mod table;
mod template;
mod text;

pub(crate) use printer::{Document, Printer, out_width};
pub(crate) use table::{Cell, Table};
pub(crate) use template::Template;
pub(crate) use text::{cut, plain, shorten};
