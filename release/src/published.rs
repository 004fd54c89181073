//! What whoever publishes a release at an address gives to others: Homebrew's formula and the table of README.

use std::fmt::Write as _;

use crate::krew::AT;
use crate::platform::Platform;

/// Where one release is.
pub fn folder(base_url: &str, version: &str) -> String {
    format!("{}/{version}", base_url.trim_end_matches('/'))
}

/// A formula for a tap, with the archives of macOS and Linux and their SHA-256.
pub fn formula(base_url: &str, version: &str, archives: &[(Platform, String)]) -> String {
    let mut text = format!(
        "class Nodelife < Formula\n  desc \"Audit Kubernetes nodes and drain them safely\"\n  \
         homepage \"{base_url}\"\n  version \"{}\"\n  license \"Apache-2.0\"\n",
        version.trim_start_matches('v')
    );
    for (os, block) in [("darwin", "on_macos"), ("linux", "on_linux")] {
        let of_os: Vec<_> = archives.iter().filter(|(one, _)| one.os == os).collect();
        if of_os.is_empty() {
            continue;
        }
        // A String takes whatever is written to it.
        let _ = writeln!(text, "\n  {block} do");
        for (platform, sha256) in of_os {
            let arch = if platform.arch == "arm64" {
                "on_arm"
            } else {
                "on_intel"
            };
            let (at, name) = (folder(base_url, version), platform.archive(version));
            let _ = writeln!(
                text,
                "    {arch} do\n      url \"{at}/{name}\"\n      sha256 \"{sha256}\"\n    end"
            );
        }
        text.push_str("  end\n");
    }
    text.push_str(
        "\n  def install\n    bin.install \"kubectl-nodelife\"\n  end\n\n  test do\n    assert_match \
         version.to_s, shell_output(\"#{bin}/kubectl-nodelife version\")\n  end\nend\n",
    );
    text
}

/// The table of README's section "Install": each line ends with a program on `PATH`.
pub fn table(base_url: &str, version: &str, archives: &[(Platform, String)]) -> String {
    let at = folder(base_url, version);
    let mut text = format!(
        "| with | command |\n|---|---|\n| krew | `kubectl krew install --manifest-url={at}/{AT}` |\n| \
         Homebrew | `brew install nodelife`, with [nodelife.rb]({at}/nodelife.rb) in your tap |\n| Helm \
         (webhook and controller) | `helm install nodelife {at}/{} -n nodelife-system --create-namespace` |\n",
        chart(version)
    );
    for (platform, _) in archives {
        let (name, program) = (platform.archive(version), platform.program());
        let _ = writeln!(
            text,
            "| {} {} | `curl -fsSL {at}/{name} \\| tar -xz -C ~/.local/bin {program}` |",
            platform.os, platform.arch
        );
    }
    text
}

/// The name of the chart's archive, as `helm package` has it.
pub fn chart(version: &str) -> String {
    format!("nodelife-{}.tgz", version.trim_start_matches('v'))
}
