//! Terminal pictures for docs/: of the examples, which a test checks, and of drains in the
//! playground's cluster.

pub mod drain;
mod svg;
pub mod terminal;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result};

use crate::program;
use svg::svg;
use terminal::Terminal;

pub const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/pictures");

/// The widths of the terminals that are shown, in columns.
const WIDTHS: [u16; 2] = [80, 200];

/// As many lines as no still picture has.
const HIGH: u16 = 120;

/// A picture: the name of its file, and what is in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Picture {
    /// `NAME-COLUMNS.svg`, or `NAME-piped.txt`.
    pub file: String,
    /// SVG or text.
    pub content: String,
}

impl Picture {
    /// Writes it into [`FOLDER`].
    pub fn write(&self) -> Result<()> {
        let path = Path::new(FOLDER).join(&self.file);
        fs::create_dir_all(FOLDER)
            .and_then(|()| fs::write(&path, &self.content))
            .with_context(|| format!("failed to write {}", path.display()))
    }
}

/// Commands that read the examples, as they are typed: a line that ends in a backslash goes on in
/// the next one.
const STILLS: [(&str, &[&str]); 2] = [
    (
        "audit",
        &["kubectl nodelife audit -f examples/faulty-cluster.json --rule CAP,HB,PDB"],
    ),
    (
        "explain",
        &[
            "kubectl nodelife explain allocatable -f examples/healthy-cluster.json \\\n    \
             ip-10-0-16-11.eu-central-1.compute.internal",
            "kubectl nodelife explain zones -f examples/faulty-cluster.json",
        ],
    ),
];

/// The pictures of the examples: on a terminal of each width, and piped.
pub fn stills() -> Result<Vec<Picture>> {
    let plugin = program::nodelife()?;
    let mut pictures = Vec::new();
    for (name, commands) in STILLS {
        for width in WIDTHS {
            let mut terminal = Terminal::new(width, HIGH)?;
            for line in commands {
                terminal.prompt(line);
                terminal.run(command(&plugin, line), |_| ())?;
            }
            pictures.push(Picture {
                file: format!("{name}-{width}.svg"),
                content: svg(
                    terminal.screen(),
                    &commands.join("; ").replace("\\\n    ", ""),
                ),
            });
        }
        let mut content = String::new();
        for line in commands {
            content.push_str(&piped(line, command(&plugin, line))?);
        }
        pictures.push(Picture {
            file: format!("{name}-piped.txt"),
            content,
        });
    }
    Ok(pictures)
}

/// `program` with the words of a line that begins with `kubectl nodelife`, in the root of the
/// workspace.
fn command(program: &PathBuf, line: &str) -> Command {
    let mut command = Command::new(program);
    let words = line.split_whitespace().filter(|word| *word != "\\");
    command.args(words.skip(2));
    command.current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
    command
}

/// What the command says when nothing of it is a terminal: stdout, then stderr.
fn piped(line: &str, mut command: Command) -> Result<String> {
    let output = command
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("failed to run {line}"))?;
    Ok(format!(
        "$ {line} 2>&1 | cat\n{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    ))
}
