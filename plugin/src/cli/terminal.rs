//! Flags for terminal output.

use clap::{Args, ValueEnum};

/// Flags about output that every command has.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Output")]
pub(crate) struct TerminalArgs {
    /// Log verbosity on stderr, 0 to 9; from 5 on (or -vv) with each request
    #[arg(long, short, global = true, value_name = "LEVEL", value_parser = verbosity,
          default_value = "0", hide_short_help = true)]
    pub(crate) v: u8,
    /// When to colour
    #[arg(long, global = true, value_enum, value_name = "WHEN", default_value_t = ColorWhen::Auto, hide_short_help = true)]
    pub(crate) color: ColorWhen,
    /// Print only warnings and errors on stderr
    #[arg(long, short, global = true, hide_short_help = true)]
    pub(crate) quiet: bool,
    /// Exit with 1 if the API server sent a warning
    #[arg(long, global = true, num_args = 0..=1, require_equals = true,
          default_missing_value = "true", value_name = "BOOL", hide_short_help = true)]
    pub(crate) warnings_as_errors: Option<bool>,
}

/// A level, or further `v`s: `-vv` logs each request, `-vvv` everything.
fn verbosity(text: &str) -> Result<u8, String> {
    match text {
        "v" => Ok(5),
        more if !more.is_empty() && more.chars().all(|c| c == 'v') => Ok(9),
        level => level
            .parse()
            .map_err(|_| "expected a level from 0 to 9, as in -v=5".to_owned()),
    }
}

/// When to colour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum ColorWhen {
    /// On a terminal, unless `NO_COLOR` or `TERM=dumb` is set
    #[default]
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}
