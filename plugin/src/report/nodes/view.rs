//! `View`: how the report on nodes is shown.

use crate::cli::NodesFormat;

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct View {
    pub(crate) format: NodesFormat,
    pub(crate) no_headers: bool,
    /// Whether bars may have other characters than ASCII.
    pub(crate) unicode: bool,
}
