//! `qmsg`: writes a line into the files of running jobs.

use crate::cli::arguments::getopt::{self, Line};
use crate::cli::client::exit::{self, Failure};
use crate::cli::client::job_batch::{self, Schedd};
use crate::model::text::Text;
use crate::wire::batch::Act;
use clap::{CommandFactory, Parser};
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::process::ExitCode;

/// Write a message into the error file of running jobs, or into their output file.
#[derive(Parser, Clone, Debug)]
#[command(name = "qmsg")]
pub struct Args {
    /// Into the standard error of the job; so it is if neither -E nor -O is given
    #[arg(short = 'E')]
    pub errors: bool,
    /// Into the standard output of the job
    #[arg(short = 'O')]
    pub output: bool,
    /// What to say: one word, so quote it; at most 1024 bytes
    #[arg(value_name = "message", required = true)]
    pub message: OsString,
    /// Jobs, by id: 12, 12.server
    #[arg(value_name = "job_identifier", required = true)]
    pub jobs: Vec<OsString>,
}

/// The command line's definition.
pub fn command() -> clap::Command {
    getopt::pbs(Args::command())
}

/// Runs qmsg.
pub fn main() -> ExitCode {
    exit::run("qmsg", command, run)
}

fn run() -> Result<u8, Failure> {
    let Line::Asked(args) = getopt::read::<Args>(command)? else {
        return Ok(0);
    };
    let (output, errors) = (args.output, args.errors || !args.output);
    let text = Text(args.message.as_bytes().to_vec());
    job_batch::act(
        "qmsg",
        command,
        &args.jobs,
        &mut Schedd::find()?,
        &Act::Message {
            output,
            errors,
            text,
        },
    )
}
