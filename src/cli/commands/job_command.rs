//! Common code of the commands that send the same request for each of several jobs.

use crate::cli::arguments::getopt;
use crate::cli::client::exit::{self, Failure};
use crate::cli::client::job_batch::{self, LazySchedd};
use crate::wire::batch::Act;
use clap::{CommandFactory, FromArgMatches};
use std::ffi::OsString;
use std::process::ExitCode;

/// A command with a list of jobs. Implementors are the parsed command lines.
pub trait JobCommand: CommandFactory + FromArgMatches {
    /// The name of the command.
    const NAME: &'static str;

    /// The exit statuses of a wrong command line and of all other failures; None for the usual exit
    /// statuses.
    const STATUSES: Option<(u8, u8)> = None;

    /// The operands that name jobs.
    fn jobs(&self) -> &[OsString];

    /// The requests for each job. A request is sent only if the previous request succeeded for all
    /// jobs.
    fn requests(&self) -> Result<Vec<Act>, Failure>;
}

/// The definition of the command line.
pub fn command<C: JobCommand>() -> clap::Command {
    getopt::pbs(C::command())
}

/// Runs the command.
pub fn main<C: JobCommand>() -> ExitCode {
    exit::run(C::NAME, command::<C>, || with_statuses::<C>(run::<C>()))
}

fn run<C: JobCommand>() -> Result<u8, Failure> {
    let Some(args) = getopt::read::<C>(command::<C>)? else {
        return Ok(0);
    };
    let requests = args.requests()?;
    let mut schedd = LazySchedd::find()?;
    for act in &requests {
        let code = job_batch::act(C::NAME, command::<C>, args.jobs(), &mut schedd, act)?;
        if code != 0 {
            return Ok(code);
        }
    }
    Ok(0)
}

/// Replaces the exit status of a failure by [`JobCommand::STATUSES`].
fn with_statuses<C: JobCommand>(result: Result<u8, Failure>) -> Result<u8, Failure> {
    let Some((usage, failed)) = C::STATUSES else {
        return result;
    };
    match result {
        Ok(0) => Ok(0),
        Ok(_) => Ok(failed),
        Err(failure) => {
            let code = if failure.usage { usage } else { failed };
            Err(failure.with_code(code))
        }
    }
}
