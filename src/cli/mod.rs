//! The commands, one file each.
//!
//! [`PROGRAMS`] is the one list of them: manual pages, completions and the lint test walk it. What
//! all commands share comes first: how words of the command line are told apart ([`getopt`]), how
//! job ids are read ([`operand`]), and how a command ends ([`exit`]).

pub mod exit;

pub mod away;

pub mod getopt;

pub mod operand;

pub mod source;

pub mod qsub;

pub mod options;

pub mod resources;

pub mod directives;

pub mod scores;

mod script;

pub mod environ;

pub mod paths;

pub mod date;

pub mod submission;

pub mod again;

pub mod block;

mod installation;

pub mod interactive;

pub mod waiting;

pub mod seat;

pub mod qalter;

pub mod qdel;

pub mod qhold;

pub mod qrls;

pub mod qrerun;

pub mod qsig;

pub mod qmove;

pub mod qorder;

pub mod qmsg;

pub mod qrun;

pub mod qterm;

pub mod pbsdsh;

pub mod crowd;

pub mod each;

pub mod ask;

pub mod ahead;

mod remedy;

pub mod qstat;

pub mod watch;

pub mod listing;

pub mod layout;

pub mod display;

pub mod sheet;

pub mod alternate;

pub mod queues;

mod objects;

pub mod qselect;

pub mod selection;

pub mod reservations;

pub mod pbs_rsub;

pub mod pbs_rstat;

pub mod pbs_ralter;

pub mod pbs_rdel;

pub mod pbs_release_nodes;

pub mod qacct;

pub mod period;

mod cell;

mod columns;

mod efficiency;

pub mod tracejob;

pub mod story;

pub mod pbsnodes;

pub mod qmgr;

pub mod portrait;

pub mod gates;

pub mod nodes;

pub mod full;

pub mod dsv;

pub mod json;

pub mod qsim;

pub mod man;

pub mod completion;

use crate::shown::attributes;
use crate::shown::comment;
use crate::shown::place;
use crate::shown::when;

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
pub const PROGRAMS: &[Program] = &[
    Program {
        name: "pbs_ralter",
        section: 1,
        command: pbs_ralter::command,
    },
    Program {
        name: "pbs_rdel",
        section: 1,
        command: pbs_rdel::command,
    },
    Program {
        name: "pbs_release_nodes",
        section: 1,
        command: pbs_release_nodes::command,
    },
    Program {
        name: "pbs_rstat",
        section: 1,
        command: pbs_rstat::command,
    },
    Program {
        name: "pbs_rsub",
        section: 1,
        command: pbs_rsub::command,
    },
    Program {
        name: "pbsdsh",
        section: 1,
        command: pbsdsh::command,
    },
    Program {
        name: "pbsnodes",
        section: 1,
        command: pbsnodes::command,
    },
    Program {
        name: "qacct",
        section: 1,
        command: qacct::command,
    },
    Program {
        name: "qalter",
        section: 1,
        command: qalter::command,
    },
    Program {
        name: "qdel",
        section: 1,
        command: qdel::command,
    },
    Program {
        name: "qhold",
        section: 1,
        command: qhold::command,
    },
    Program {
        name: "qmove",
        section: 1,
        command: qmove::command,
    },
    Program {
        name: "qmsg",
        section: 1,
        command: qmsg::command,
    },
    Program {
        name: "qorder",
        section: 1,
        command: qorder::command,
    },
    Program {
        name: "qrerun",
        section: 1,
        command: qrerun::command,
    },
    Program {
        name: "qrls",
        section: 1,
        command: qrls::command,
    },
    Program {
        name: "qrun",
        section: 1,
        command: qrun::command,
    },
    Program {
        name: "qselect",
        section: 1,
        command: qselect::command,
    },
    Program {
        name: "qsig",
        section: 1,
        command: qsig::command,
    },
    Program {
        name: "qsim",
        section: 1,
        command: qsim::command,
    },
    Program {
        name: "qstat",
        section: 1,
        command: qstat::command,
    },
    Program {
        name: "qsub",
        section: 1,
        command: qsub::command,
    },
    Program {
        name: "tracejob",
        section: 1,
        command: tracejob::command,
    },
    Program {
        name: "noded",
        section: 8,
        command: crate::noded::command,
    },
    Program {
        name: "qdisable",
        section: 8,
        command: gates::qdisable_command,
    },
    Program {
        name: "qenable",
        section: 8,
        command: gates::qenable_command,
    },
    Program {
        name: "qmgr",
        section: 8,
        command: qmgr::command,
    },
    Program {
        name: "qstart",
        section: 8,
        command: gates::qstart_command,
    },
    Program {
        name: "qstop",
        section: 8,
        command: gates::qstop_command,
    },
    Program {
        name: "qterm",
        section: 8,
        command: qterm::command,
    },
    Program {
        name: "schedd",
        section: 8,
        command: crate::schedd::command,
    },
];

#[cfg(test)]
pub(crate) mod example;

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
