//! `qsim`: the scheduler in another world than this one.

use crate::cli::client::exit::{self, Failure, USAGE};
use crate::sys;
use clap::{CommandFactory, Parser, Subcommand};
use std::process::ExitCode;

mod check;

pub mod grammar;

mod replay;

/// Runs the scheduler on other jobs than those of this moment.
///
/// It is the one that runs in schedd, to the letter: only jobs, nodes and clock are made up.
#[derive(Parser, Clone, Debug)]
#[command(name = "qsim", version)]
pub struct QsimArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand, Clone, Debug)]
enum What {
    Check(check::CheckArgs),
    Replay(replay::ReplayArgs),
}

/// The command line's definition.
pub fn command() -> clap::Command {
    QsimArgs::command()
}

/// Runs qsim.
pub fn main() -> ExitCode {
    exit::run("qsim", command, run)
}

fn run() -> Result<u8, Failure> {
    let args = match QsimArgs::try_parse_from(sys::env::args()) {
        Ok(args) => args,
        Err(error) => {
            error.print()?;
            return Ok(if error.use_stderr() { USAGE } else { 0 });
        }
    };
    match args.what {
        What::Check(args) => check::run(&args),
        What::Replay(args) => replay::run(&args),
    }
}
