//! Completions for shells, written from the same definitions that read the command line.

use clap_complete::Shell;
use lanai::cli::programs::CliProgram;
use std::path::PathBuf;

/// The shells served, and how each names its files.
pub const SHELLS: &[Shell] = &[Shell::Bash, Shell::Zsh, Shell::Fish];

/// The file of a program's completion, under the folder of its shell: `bash/qsub`, `zsh/_qsub`,
/// `fish/qsub.fish`.
pub fn file_name(program: &CliProgram, shell: Shell) -> PathBuf {
    let name = match shell {
        Shell::Zsh => format!("_{}", program.name),
        Shell::Fish => format!("{}.fish", program.name),
        _ => program.name.to_string(),
    };
    PathBuf::from(shell.to_string()).join(name)
}

/// The completion of a program.
pub fn script(program: &CliProgram, shell: Shell) -> Vec<u8> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut (program.command)(), program.name, &mut script);
    script
}
