//! What the installed webhook lets through, refuses and is never asked.

mod soundness;
