//! The table of programs.
//!
//! Manual pages, completions, the commands of the client program, and the file links to it are
//! derived from this table. `build.rs` reads the names of the programs from the text of this file.

use super::commands::job_command;
use super::commands::pbs_ralter;
use super::commands::pbs_rdel;
use super::commands::pbs_release_nodes;
use super::commands::pbs_rstat;
use super::commands::pbs_rsub;
use super::commands::pbsdsh;
use super::commands::pbsnodes;
use super::commands::qacct;
use super::commands::qalter::QalterArgs;
use super::commands::qdel::QdelArgs;
use super::commands::qhold::QholdArgs;
use super::commands::qmgr;
use super::commands::qmove::QmoveArgs;
use super::commands::qmsg::QmsgArgs;
use super::commands::qorder;
use super::commands::qrerun::QrerunArgs;
use super::commands::qrls::QrlsArgs;
use super::commands::qrun::QrunArgs;
use super::commands::qselect;
use super::commands::qsig::QsigArgs;
use super::commands::qsim;
use super::commands::qstat;
use super::commands::qsub;
use super::commands::qterm;
use super::commands::queue_state;
use super::commands::tracejob;
use super::lanai;
use std::process::ExitCode;

/// One program of Lanai.
#[derive(Debug)]
pub struct CliProgram {
    /// The name of the program and of its manual page.
    pub name: &'static str,
    /// The section of the manual page: 1 for users, 8 for administrators.
    pub section: u8,
    /// The options and their help texts.
    pub command: fn() -> clap::Command,
    /// The main function; None for the daemons, which have program files of their own.
    pub main: Option<fn() -> ExitCode>,
}

/// All programs, in alphabetical order within a section.
pub const PROGRAMS: &[CliProgram] = &[
    CliProgram {
        name: "lanai",
        section: 1,
        command: lanai::command,
        main: Some(lanai::main),
    },
    CliProgram {
        name: "pbs_ralter",
        section: 1,
        command: pbs_ralter::command,
        main: Some(pbs_ralter::main),
    },
    CliProgram {
        name: "pbs_rdel",
        section: 1,
        command: pbs_rdel::command,
        main: Some(pbs_rdel::main),
    },
    CliProgram {
        name: "pbs_release_nodes",
        section: 1,
        command: pbs_release_nodes::command,
        main: Some(pbs_release_nodes::main),
    },
    CliProgram {
        name: "pbs_rstat",
        section: 1,
        command: pbs_rstat::command,
        main: Some(pbs_rstat::main),
    },
    CliProgram {
        name: "pbs_rsub",
        section: 1,
        command: pbs_rsub::command,
        main: Some(pbs_rsub::main),
    },
    CliProgram {
        name: "pbsdsh",
        section: 1,
        command: pbsdsh::command,
        main: Some(pbsdsh::main),
    },
    CliProgram {
        name: "pbsnodes",
        section: 1,
        command: pbsnodes::command,
        main: Some(pbsnodes::main),
    },
    CliProgram {
        name: "qacct",
        section: 1,
        command: qacct::command,
        main: Some(qacct::main),
    },
    CliProgram {
        name: "qalter",
        section: 1,
        command: job_command::command::<QalterArgs>,
        main: Some(job_command::main::<QalterArgs>),
    },
    CliProgram {
        name: "qdel",
        section: 1,
        command: job_command::command::<QdelArgs>,
        main: Some(job_command::main::<QdelArgs>),
    },
    CliProgram {
        name: "qhold",
        section: 1,
        command: job_command::command::<QholdArgs>,
        main: Some(job_command::main::<QholdArgs>),
    },
    CliProgram {
        name: "qmove",
        section: 1,
        command: job_command::command::<QmoveArgs>,
        main: Some(job_command::main::<QmoveArgs>),
    },
    CliProgram {
        name: "qmsg",
        section: 1,
        command: job_command::command::<QmsgArgs>,
        main: Some(job_command::main::<QmsgArgs>),
    },
    CliProgram {
        name: "qorder",
        section: 1,
        command: qorder::command,
        main: Some(qorder::main),
    },
    CliProgram {
        name: "qrerun",
        section: 1,
        command: job_command::command::<QrerunArgs>,
        main: Some(job_command::main::<QrerunArgs>),
    },
    CliProgram {
        name: "qrls",
        section: 1,
        command: job_command::command::<QrlsArgs>,
        main: Some(job_command::main::<QrlsArgs>),
    },
    CliProgram {
        name: "qrun",
        section: 1,
        command: job_command::command::<QrunArgs>,
        main: Some(job_command::main::<QrunArgs>),
    },
    CliProgram {
        name: "qselect",
        section: 1,
        command: qselect::command,
        main: Some(qselect::main),
    },
    CliProgram {
        name: "qsig",
        section: 1,
        command: job_command::command::<QsigArgs>,
        main: Some(job_command::main::<QsigArgs>),
    },
    CliProgram {
        name: "qsim",
        section: 1,
        command: qsim::command,
        main: Some(qsim::main),
    },
    CliProgram {
        name: "qstat",
        section: 1,
        command: qstat::command,
        main: Some(qstat::main),
    },
    CliProgram {
        name: "qsub",
        section: 1,
        command: qsub::command,
        main: Some(qsub::main),
    },
    CliProgram {
        name: "tracejob",
        section: 1,
        command: tracejob::command,
        main: Some(tracejob::main),
    },
    CliProgram {
        name: "noded",
        section: 8,
        command: crate::noded::command,
        main: None,
    },
    CliProgram {
        name: "qdisable",
        section: 8,
        command: queue_state::qdisable_command,
        main: Some(queue_state::qdisable),
    },
    CliProgram {
        name: "qenable",
        section: 8,
        command: queue_state::qenable_command,
        main: Some(queue_state::qenable),
    },
    CliProgram {
        name: "qmgr",
        section: 8,
        command: qmgr::command,
        main: Some(qmgr::main),
    },
    CliProgram {
        name: "qstart",
        section: 8,
        command: queue_state::qstart_command,
        main: Some(queue_state::qstart),
    },
    CliProgram {
        name: "qstop",
        section: 8,
        command: queue_state::qstop_command,
        main: Some(queue_state::qstop),
    },
    CliProgram {
        name: "qterm",
        section: 8,
        command: qterm::command,
        main: Some(qterm::main),
    },
    CliProgram {
        name: "schedd",
        section: 8,
        command: crate::schedd::command,
        main: None,
    },
];

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
