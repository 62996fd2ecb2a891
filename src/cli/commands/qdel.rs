//! `qdel`: deletes jobs.

use crate::cli::arguments::getopt::{self, Line};
use crate::cli::client::exit::{self, Failure};
use crate::cli::client::job_batch::{self, Schedd};
use crate::wire::batch::Act;
use clap::{CommandFactory, Parser};
use std::ffi::OsString;
use std::process::ExitCode;

/// Delete jobs. A running one gets SIGTERM, and some seconds later SIGKILL.
#[derive(Parser, Clone, Debug)]
#[command(name = "qdel")]
pub struct Args {
    /// force: over at once, whatever the node says; suppress_email=N is accepted: mail is bounded
    /// in any case
    #[arg(short = 'W', value_name = "force|suppress_email=X")]
    pub how: Option<OsString>,
    /// Also delete finished jobs, out of the history
    #[arg(short = 'x')]
    pub purge: bool,
    /// Jobs, by id: 12, 12.server; 12[], 12[3] and 12[1-9:2] for arrays and their subjobs
    #[arg(value_name = "job_identifier", required = true)]
    pub jobs: Vec<OsString>,
}

/// The command line's definition.
pub fn command() -> clap::Command {
    getopt::pbs(Args::command())
}

/// Runs qdel.
pub fn main() -> ExitCode {
    exit::run("qdel", command, run)
}

fn run() -> Result<u8, Failure> {
    let Line::Asked(args) = getopt::read::<Args>(command)? else {
        return Ok(0);
    };
    let (force, purge) = (args.how.as_ref().map_or(Ok(false), is_force)?, args.purge);
    job_batch::act(
        "qdel",
        command,
        &args.jobs,
        &mut Schedd::find()?,
        &Act::Delete { force, purge },
    )
}

fn is_force(how: &OsString) -> Result<bool, Failure> {
    match how.to_str() {
        Some("force") => Ok(true),
        Some(how) if how.starts_with("suppress_email=") => Ok(false),
        _ => Err(crate::cli::arguments::job_options::illegal('W')),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_pbs_knows_is_accepted() {
        assert_eq!(is_force(&"force".into()), Ok(true));
        assert_eq!(is_force(&"suppress_email=x".into()), Ok(false));
        for bad in ["foo", "force=1", ""] {
            assert_eq!(
                is_force(&bad.into()),
                Err(Failure::usage("illegal -W value")),
                "{bad}"
            );
        }
    }
}
