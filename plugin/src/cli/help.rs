//! The layout of a help page.

/// Help begins with examples: most questions end there.
pub(crate) const HELP: &str = "\
{about-with-newline}
{before-help}{usage-heading}
  {usage}

{all-args}{after-help}";
