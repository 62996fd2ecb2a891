//! `qorder`: exchanges the places of two jobs.

use crate::cli::arguments::getopt;
use crate::cli::client::exit::{self, Failure};
use crate::cli::client::job_batch::{LazySchedd, Server};
use crate::cli::client::operand::Operand;
use crate::model::job_id::JobId;
use crate::model::refusal::Refusal;
use crate::wire::message::{ClientRequest, Reply};
use clap::{CommandFactory, Parser};
use std::ffi::OsString;
use std::process::ExitCode;

/// The exit status when no server answers.
const NO_SERVER: u8 = 1;

/// Exchange the places of two jobs in the queue; jobs in different queues also exchange their
/// queues.
///
/// Places decide between jobs of equal priority; with [order] by = "fcfs" all jobs have equal
/// priority. If two jobs of one queue have different priorities (see qstat --priority), as is
/// common in the default order, the job with the higher priority still starts first, and qorder
/// prints a warning. In the default order, qalter --user-factor lowers the priority of a job.
#[derive(Parser, Clone, Debug)]
#[command(name = "qorder")]
pub struct QorderArgs {
    /// Job id: 12 or 12.server
    #[arg(value_name = "job_identifier", required = true)]
    pub one: OsString,
    /// Id of the other job
    #[arg(value_name = "job_identifier", required = true)]
    pub other: OsString,
}

/// The definition of the command line.
pub fn command() -> clap::Command {
    getopt::pbs(QorderArgs::command())
}

/// Runs qorder.
pub fn main() -> ExitCode {
    exit::run("qorder", command, run)
}

fn run() -> Result<u8, Failure> {
    let Some(args) = getopt::read::<QorderArgs>(command)? else {
        return Ok(0);
    };
    let (one, other) = (Operand::parse(&args.one)?, Operand::parse(&args.other)?);
    swap(&one, &other, &mut LazySchedd::find()?)
}

fn swap(one: &Operand, other: &Operand, server: &mut dyn Server) -> Result<u8, Failure> {
    let name = server
        .name()
        .map_err(|failure| failure.with_code(NO_SERVER))?;
    let refusal = match (one.job(&name), other.job(&name)) {
        (Some(one), Some(other)) => send(one, other, server)?,
        _ => Some(Refusal::unknown_job()),
    };
    let both = format!("{} or {}", one.full(&name), other.full(&name));
    refusal.map_or(Ok(0), |refusal| {
        Err(Failure::of_job("qorder", &refusal, &both))
    })
}

/// Sends the request. Returns the refusal, if any.
fn send(one: JobId, other: JobId, server: &mut dyn Server) -> Result<Option<Refusal>, Failure> {
    let reply = server.call(&ClientRequest::Swap(one, other));
    match reply.map_err(|error| Failure::from(error).with_code(NO_SERVER))? {
        Reply::Done => Ok(None),
        Reply::Noted(notes) => {
            exit::print_notes("qorder", &notes);
            Ok(None)
        }
        Reply::Refused(refusal) => Ok(Some(refusal)),
        _ => Err(exit::protocol_error()),
    }
}
