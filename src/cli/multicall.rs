//! The client program `lanai`: one file that contains all commands.
//!
//! Each command is a link to this file; the name in `argv[0]` selects the command. A suffix that
//! begins with `.` or `-` is ignored, because sites rename a command to `qsub.real` or `qsub-lanai`
//! and install a wrapper in place of the command.

use super::arguments::getopt;
use super::client::exit::{self, Failure};
use super::programs::{CliProgram, PROGRAMS};
use crate::sys::env;
use std::ffi::{OsStr, OsString};
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

/// The name of the program itself.
const NAME: &str = "lanai";

/// Runs the command selected by `argv[0]`. If no command has this name, prints the overview, the
/// version or an error.
pub fn main() -> ExitCode {
    let called = env::args().next().unwrap_or_default();
    let name = name(&called);
    match command(&name) {
        Some(main) => main(),
        None => ExitCode::from(without_command(&name).unwrap_or_else(|failure| failure.code)),
    }
}

/// The file name in `called`, without its suffix.
fn name(called: &OsStr) -> String {
    let file = Path::new(called).file_name().unwrap_or_default();
    let file = file.to_string_lossy();
    let end = file.find(['.', '-']).unwrap_or(file.len());
    file[..end].to_string()
}

/// The main function of the command `name`; None for daemons and unknown names.
fn command(name: &str) -> Option<fn() -> ExitCode> {
    let mut programs = PROGRAMS.iter();
    programs.find(|program| program.name == name)?.main
}

/// Handles a call by a name that is no command: prints the overview, the version, or an error with
/// the overview. Returns the exit status.
fn without_command(name: &str) -> Result<u8, Failure> {
    let words: Vec<OsString> = env::args().skip(1).collect();
    let problem = if name != NAME {
        "not a command of Lanai"
    } else if getopt::print_help_or_version(definition, &words)? {
        return Ok(0);
    } else if words.is_empty() {
        exit::print(overview())?;
        return Ok(0);
    } else {
        "arguments are not supported: call a command by its name, without lanai"
    };
    io::stderr().write_all(format!("{name}: {problem}\n\n{}", overview()).as_bytes())?;
    Ok(exit::USAGE)
}

/// The definition of `lanai` called without a command.
fn definition() -> clap::Command {
    clap::Command::new(NAME).override_help(overview())
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
        let is_command = |called: &str| command(&name(called.as_ref())).is_some();
        for called in [
            "qsub",
            "/usr/bin/qsub",
            "./pbs_rsub",
            "qsub.real",
            "qsub-lanai",
        ] {
            assert!(is_command(called), "{called}");
        }
        for called in ["", "/", "lanai", "qsu", "qsub2", "schedd", "noded"] {
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
