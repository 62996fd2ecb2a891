//! The commands, one file each.
//!
//! [`PROGRAMS`] is the one list of them: manual pages, completions and the lint test walk it. What
//! all commands share comes first: how words of the command line are told apart ([`getopt`]), how
//! job ids are read ([`operand`]), and how a command ends ([`exit`]).

pub mod completion;

pub mod exit;

pub mod getopt;

pub mod man;

pub mod operand;

pub mod source;

/// One program of Lanai.
#[derive(Debug)]
pub struct Program {
    /// Its name, also of its manual page.
    pub name: &'static str,
    /// The section of its manual page: 1 for users, 8 for administrators.
    pub section: u8,
    /// Its options and their help texts.
    pub command: fn() -> clap::Command,
}

/// All programs, in alphabetical order within a section.
pub const PROGRAMS: &[Program] = &[];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_line_is_well_defined() {
        for program in PROGRAMS {
            (program.command)().debug_assert();
        }
    }
}
