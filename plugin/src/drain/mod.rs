//! The terminal's side of a drain: progress, signals, and the command of `--gate`.

mod gate;
mod lines;
mod log;
mod reporter;
mod screen;

pub(crate) use gate::ShellGate;
pub(crate) use lines::Line;
pub(crate) use log::ProgressLog;
