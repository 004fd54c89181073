//! `completion`

use clap::{Args, ValueEnum};

/// Prints a script that completes commands, flags, node names and rule ids in a shell.
#[derive(Debug, Args)]
#[command(before_help = "\
Examples:
  # For `kubectl nodelife <TAB>`, in every shell that completes kubectl
  kubectl nodelife completion kubectl --install

  # For `kubectl-nodelife <TAB>` in this shell
  source <(kubectl nodelife completion bash)
  source <(kubectl nodelife completion zsh)
  kubectl nodelife completion fish | source
  kubectl nodelife completion powershell | Out-String | Invoke-Expression
")]
pub(crate) struct CompletionArgs {
    /// The shell, or kubectl
    #[arg(value_enum, value_name = "SHELL")]
    pub(crate) shell: Shell,
    /// Write kubectl's script next to this program instead of to stdout
    #[arg(long)]
    pub(crate) install: bool,
}

/// Who can be taught to complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Shell {
    /// bash
    Bash,
    /// zsh
    Zsh,
    /// fish
    Fish,
    /// PowerShell
    Powershell,
    /// kubectl itself, which looks for `kubectl_complete-nodelife` on PATH
    Kubectl,
}
