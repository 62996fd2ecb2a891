//! `qrerun`: ends running jobs and queues them again.

use super::each::{self, Schedd};
use super::exit::{self, Failure};
use super::getopt::{self, Line};
use crate::wire::message::Request;
use clap::{CommandFactory, Parser};
use std::ffi::OsString;
use std::process::ExitCode;

/// End running jobs and put them back into their queue, to start from the beginning. For operators.
#[derive(Parser, Clone, Debug)]
#[command(name = "qrerun")]
pub struct Args {
    /// force: at once, whatever the node says
    #[arg(short = 'W', value_name = "force")]
    pub how: Option<OsString>,
    /// Jobs, by id: 12, 12.server
    #[arg(value_name = "job_identifier", required = true)]
    pub jobs: Vec<OsString>,
}

/// The command line's definition.
pub fn command() -> clap::Command {
    getopt::pbs(Args::command())
}

/// Runs qrerun.
pub fn main() -> ExitCode {
    exit::run("qrerun", command, run)
}

fn run() -> Result<u8, Failure> {
    let Line::Asked(args) = getopt::read::<Args>(command)? else { return Ok(0) };
    if args.how.as_ref().is_some_and(|how| how != "force") {
        return Err(Failure::usage(""));
    }
    let force = args.how.is_some();
    each::act("qrerun", command, &args.jobs, &mut Schedd::find()?, |job, only| Request::Rerun { job, only, force })
}
