//! The client program `lanai`: one file that contains all commands.
//!
//! Each command is a link to this file; the name in `argv[0]` selects the command. A suffix that
//! begins with `.` or `-` is ignored, because sites rename a command to `qsub.real` or `qsub-lanai`
//! and install a wrapper in place of the command.

use super::client::exit;
use super::completion;
use super::programs::{CliProgram, PROGRAMS};
use crate::sys::env;
use std::ffi::OsStr;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

/// Runs the command selected by `argv[0]`, or prints an error if no command has this name.
pub fn main() -> ExitCode {
    let called = env::args().next().unwrap_or_default();
    let name = name(&called);
    match program(&name) {
        Some(program) if completion::is_requested() => completion::main(program),
        Some(CliProgram {
            main: Some(main), ..
        }) => main(),
        _ => ExitCode::from(unknown_command(&name)),
    }
}

/// The file name in `called`, without its suffix.
fn name(called: &OsStr) -> String {
    let file = Path::new(called).file_name().unwrap_or_default();
    let file = file.to_string_lossy();
    let end = file.find(['.', '-']).unwrap_or(file.len());
    file[..end].to_string()
}

/// The command `name`; None for daemons and unknown names.
fn program(name: &str) -> Option<&'static CliProgram> {
    PROGRAMS
        .iter()
        .find(|program| program.name == name && program.main.is_some())
}

/// The failure for a call by a name that is no command: an error with the list of programs. Returns
/// the exit status.
fn unknown_command(name: &str) -> u8 {
    let message = format!("{name}: not a command of Lanai\n\n{}", overview());
    let _ = io::stderr().write_all(message.as_bytes());
    exit::USAGE
}

/// The list of all programs, one line each.
fn overview() -> String {
    let (commands, daemons): (Vec<_>, Vec<_>) =
        PROGRAMS.iter().partition(|program| program.section == 1);
    format!(
        "Lanai is a batch system with the commands of PBS.\n\nCommands:\n{}\n\
         Commands and daemons for administrators:\n{}\n\
         `man lanai` describes the system; `man COMMAND` and `COMMAND --help` describe a command.\n",
        commands.into_iter().map(line).collect::<String>(),
        daemons.into_iter().map(line).collect::<String>()
    )
}

/// The overview line of a program: its name and the first sentence of its description.
fn line(program: &CliProgram) -> String {
    let command = (program.command)();
    let about = command
        .get_about()
        .map(ToString::to_string)
        .unwrap_or_default();
    let first = about.split(". ").next().unwrap_or_default();
    format!("  {:<18} {}\n", program.name, first.trim_end_matches('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_name_without_its_suffix_selects_the_command() {
        let is_command = |called: &str| program(&name(called.as_ref())).is_some();
        for called in [
            "qsub",
            "/usr/bin/qsub",
            "./pbs_rsub",
            "qsub.real",
            "qsub-lanai",
            "lanai",
        ] {
            assert!(is_command(called), "{called}");
        }
        for called in ["", "/", "qsu", "qsub2", "schedd", "noded"] {
            assert!(!is_command(called), "{called}");
        }
    }

    #[test]
    fn the_overview_has_a_line_for_each_program() {
        let text = overview();
        for program in PROGRAMS {
            let start = format!("\n  {} ", program.name);
            assert_eq!(text.matches(&start).count(), 1, "{}", program.name);
        }
    }
}
