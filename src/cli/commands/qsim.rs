//! `qsim`: runs the scheduler on simulated jobs and nodes.

use crate::cli::client::exit::{self, Failure, USAGE};
use crate::sys;
use clap::{CommandFactory, Parser, Subcommand};
use std::process::ExitCode;

mod check;

pub mod grammar;

mod replay;

/// Simulate the scheduler on recorded or generated workloads.
///
/// qsim runs the same scheduler as schedd; only jobs, nodes and the clock are simulated.
#[derive(Parser, Clone, Debug)]
#[command(name = "qsim", version)]
pub struct QsimArgs {
    #[command(subcommand)]
    subcommand: QsimSubcommand,
}

#[derive(Subcommand, Clone, Debug)]
enum QsimSubcommand {
    Check(check::CheckArgs),
    Replay(replay::ReplayArgs),
}

/// The definition of the command line.
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
    match args.subcommand {
        QsimSubcommand::Check(args) => check::run(&args),
        QsimSubcommand::Replay(args) => replay::run(&args),
    }
}
