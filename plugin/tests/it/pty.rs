//! Commands on a terminal of some width.

use std::fs::File;
use std::io::Read as _;
use std::process::Stdio;

use nix::pty::{Winsize, openpty};

use crate::nodelife;

/// What a terminal of this width gets on stdout, and the status.
pub(crate) fn on_terminal(
    words: &[&str],
    columns: u16,
    environment: &[(&str, &str)],
) -> (String, i32) {
    run(words, columns, environment, false)
}

/// What a terminal of this width gets on stdout and stderr, and the status.
pub(crate) fn all_on_terminal(words: &[&str], columns: u16) -> (String, i32) {
    run(words, columns, &[], true)
}

fn run(
    words: &[&str],
    columns: u16,
    environment: &[(&str, &str)],
    with_stderr: bool,
) -> (String, i32) {
    let size = Winsize {
        ws_row: 40,
        ws_col: columns,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    let terminal = openpty(Some(&size), None).unwrap();
    let stderr = if with_stderr {
        terminal.slave.try_clone().unwrap().into()
    } else {
        Stdio::null()
    };
    let mut command = nodelife(words);
    command
        .env("NO_COLOR", "1")
        .env("TERM", "xterm")
        .envs(environment.iter().copied())
        .stdin(Stdio::null())
        .stdout(terminal.slave)
        .stderr(stderr);
    let mut child = command.spawn().unwrap();
    // The command holds the other end as well: with it gone, reading ends with the program.
    drop(command);
    let mut master = File::from(terminal.master);
    let (mut shown, mut buffer) = (Vec::new(), [0; 4096]);
    while let Ok(read @ 1..) = master.read(&mut buffer) {
        shown.extend_from_slice(&buffer[..read]);
    }
    let status = child.wait().unwrap().code().unwrap();
    let shown = String::from_utf8(shown).unwrap().replace("\r\n", "\n");
    (shown, status)
}
