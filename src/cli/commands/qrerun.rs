//! `qrerun`: ends running jobs and queues them again.

use crate::cli::arguments::getopt::{self, Line};
use crate::cli::client::exit::{self, Failure};
use crate::cli::client::job_batch::{self, Schedd};
use crate::wire::batch::Act;
use clap::{CommandFactory, Parser};
use std::ffi::OsString;
use std::process::ExitCode;

/// End running jobs and put them back into their queue, to start from the beginning. For operators.
///
/// With --failed, let the subjobs of job arrays that have failed run once more, also when the array
/// is over; those that ended well or were deleted stay as they are. The owner may do that.
///
/// Who knows Qube: its interrupt and its migrate of an instance are qrerun of a subjob, which
/// starts wherever there is room; its kill is qdel, its retry of what failed or was killed qalter
/// --retry, its retry of a frame qalter --retry of a subjob, its block and unblock are qhold and
/// qrls.
#[derive(Parser, Clone, Debug)]
#[command(name = "qrerun")]
pub struct Args {
    /// force: at once, whatever the node says
    #[arg(short = 'W', value_name = "force")]
    pub how: Option<OsString>,
    /// Run the failed subjobs of these arrays once more; nothing that runs is ended
    #[arg(long, conflicts_with = "how")]
    pub failed: bool,
    /// Jobs, by id: 12, 12.server; 12[], 12[3] and 12[1-9:2] for arrays and their subjobs
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
    let Line::Asked(args) = getopt::read::<Args>(command)? else {
        return Ok(0);
    };
    if args.how.as_ref().is_some_and(|how| how != "force") {
        return Err(Failure::usage(""));
    }
    let act = if args.failed {
        Act::RerunFailed
    } else {
        Act::Rerun {
            force: args.how.is_some(),
        }
    };
    job_batch::act("qrerun", command, &args.jobs, &mut Schedd::find()?, &act)
}
