//! Build script: embeds the commit, for `kubectl nodelife version`.

use std::process::Command;

fn main() {
    println!("cargo::rerun-if-env-changed=NODELIFE_COMMIT");
    // An archive of the sources has no history: whoever packs it says the commit.
    let commit = std::env::var("NODELIFE_COMMIT")
        .ok()
        .or_else(|| git(&["rev-parse", "--short=12", "HEAD"]))
        .unwrap_or_else(|| "unknown".to_owned());
    println!("cargo::rustc-env=NODELIFE_COMMIT={commit}");
    // Changes with each commit and each checkout.
    if let Some(log) = git(&[
        "rev-parse",
        "--path-format=absolute",
        "--git-path",
        "logs/HEAD",
    ]) {
        println!("cargo::rerun-if-changed={log}");
    }
}

fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}
