//! `qsig`: sends a signal to running jobs.

use crate::cli::arguments::getopt::{self, Line};
use crate::cli::client::exit::{self, Failure};
use crate::cli::client::job_batch::{self, Schedd};
use crate::wire::batch::Act;
use clap::{CommandFactory, Parser};
use std::ffi::OsString;
use std::process::ExitCode;

/// Send a signal to all processes of running jobs.
#[derive(Parser, Clone, Debug)]
#[command(name = "qsig")]
pub struct Args {
    /// The signal: a name, with or without SIG, or a number, SIGTERM if not given; or suspend,
    /// resume, admin-suspend, admin-resume
    #[arg(short = 's', value_name = "signal")]
    pub signal: Option<OsString>,
    /// Jobs, by id: 12, 12.server; 12[], 12[3] and 12[1-9:2] for arrays and their subjobs
    #[arg(value_name = "job_identifier", required = true)]
    pub jobs: Vec<OsString>,
}

/// The command line's definition.
pub fn command() -> clap::Command {
    getopt::pbs(Args::command())
}

/// Runs qsig.
pub fn main() -> ExitCode {
    exit::run("qsig", command, run)
}

fn run() -> Result<u8, Failure> {
    let Line::Asked(args) = getopt::read::<Args>(command)? else {
        return Ok(0);
    };
    let signal = args
        .signal
        .as_ref()
        .map_or("SIGTERM".into(), |signal| signal.to_string_lossy());
    job_batch::act(
        "qsig",
        command,
        &args.jobs,
        &mut Schedd::find()?,
        &Act::Signal(signal.into_owned()),
    )
}
