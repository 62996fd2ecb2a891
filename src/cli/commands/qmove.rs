//! `qmove`: puts jobs into another queue.

use super::qsub::destination;
use crate::cli::arguments::getopt::{self, Line};
use crate::cli::client::exit::{self, Failure};
use crate::cli::client::job_batch::{self, Schedd};
use crate::wire::batch::Act;
use clap::{CommandFactory, Parser};
use std::ffi::OsString;
use std::process::ExitCode;

/// Put jobs that do not run into another queue.
#[derive(Parser, Clone, Debug)]
#[command(name = "qmove")]
pub struct Args {
    /// Where to: queue, queue@server, or @server for its default queue
    #[arg(value_name = "destination", required = true)]
    pub destination: OsString,
    /// Jobs, by id: 12, 12.server
    #[arg(value_name = "job_identifier", required = true)]
    pub jobs: Vec<OsString>,
}

/// The command line's definition.
pub fn command() -> clap::Command {
    getopt::pbs(Args::command())
}

/// Runs qmove.
pub fn main() -> ExitCode {
    exit::run("qmove", command, run)
}

fn run() -> Result<u8, Failure> {
    let Line::Asked(args) = getopt::read::<Args>(command)? else {
        return Ok(0);
    };
    let to = destination(&args.destination)?;
    job_batch::act(
        "qmove",
        command,
        &args.jobs,
        &mut Schedd::find()?,
        &Act::Move(to),
    )
}
