//! Shell completions, generated from the definitions of the command lines.

use clap_complete::Shell;
use lanai::cli::completion;
use lanai::cli::programs::CliProgram;
use std::path::PathBuf;

/// Supported shells.
pub const SHELLS: &[Shell] = &[Shell::Bash, Shell::Zsh, Shell::Fish];

/// Path of a program's completion below the output directory: `bash/qsub`, `zsh/_qsub`,
/// `fish/qsub.fish`.
pub fn file_name(program: &CliProgram, shell: Shell) -> PathBuf {
    let name = match shell {
        Shell::Zsh => format!("_{}", program.name),
        Shell::Fish => format!("{}.fish", program.name),
        _ => program.name.to_string(),
    };
    PathBuf::from(shell.to_string()).join(name)
}

/// Completion script of a program. Commands complete themselves; the script of a daemon lists its
/// options.
pub fn script(program: &CliProgram, shell: Shell) -> Vec<u8> {
    let mut script = Vec::new();
    if program.main.is_some() {
        completion::write_script(program, &shell.to_string(), &mut script).unwrap();
    } else {
        clap_complete::generate(shell, &mut (program.command)(), program.name, &mut script);
    }
    script
}
