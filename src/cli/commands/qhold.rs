//! `qhold`: places holds on jobs.

use crate::cli::arguments::getopt::{self, Line};
use crate::cli::arguments::job_options;
use crate::cli::client::exit::{self, Failure};
use crate::cli::client::job_batch::{self, Schedd};
use crate::wire::batch::Act;
use clap::{CommandFactory, Parser};
use std::ffi::OsString;
use std::process::ExitCode;

/// Keep jobs from starting. One that runs goes on, unless the site has a program that checkpoints
/// jobs (checkpoint in [launch] of lanai.toml): then it is checkpointed, ended and held.
#[derive(Parser, Clone, Debug)]
#[command(name = "qhold")]
pub struct Args {
    /// Place holds of these kinds: letters of u (user), o (operator), s (system), p (password), or
    /// n (none); u if not given
    #[arg(short = 'h', value_name = "hold_list")]
    pub holds: Option<OsString>,
    /// Jobs, by id: 12, 12.server; 12[] for an array
    #[arg(value_name = "job_identifier", required = true)]
    pub jobs: Vec<OsString>,
}

/// The command line's definition.
pub fn command() -> clap::Command {
    getopt::pbs(Args::command())
}

/// Runs qhold.
pub fn main() -> ExitCode {
    exit::run("qhold", command, run)
}

fn run() -> Result<u8, Failure> {
    let Line::Asked(args) = getopt::read::<Args>(command)? else {
        return Ok(0);
    };
    let holds = job_options::holds(args.holds.as_deref())?;
    job_batch::act(
        "qhold",
        command,
        &args.jobs,
        &mut Schedd::find()?,
        &Act::Hold(holds),
    )
}
