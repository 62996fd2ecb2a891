//! `pbs_rdel`: deletes reservations, and the jobs in them.

use crate::cli::arguments::getopt;
use crate::cli::arguments::reservations::{ReservationName, call, check_destination};
use crate::cli::client::exit::{self, Failure};
use crate::cli::client::job_batch::{LazySchedd, Server};
use crate::wire::message::ClientRequest;
use clap::{CommandFactory, Parser};
use std::ffi::OsString;
use std::process::ExitCode;

/// Delete reservations and the jobs in them.
#[derive(Parser, Clone, Debug)]
#[command(name = "pbs_rdel")]
pub struct PbsRdelArgs {
    /// Server of the reservations: @server
    #[arg(short = 'q', value_name = "dest")]
    pub destination: Option<String>,
    /// Reservation ids: R12 or R12.server
    #[arg(value_name = "resv_identifier", required = true)]
    pub reservations: Vec<OsString>,
}

/// The definition of the command line.
pub fn command() -> clap::Command {
    getopt::pbs(PbsRdelArgs::command())
}

/// Runs pbs_rdel.
pub fn main() -> ExitCode {
    exit::run("pbs_rdel", command, run)
}

/// Deletes the reservations. The last failure determines the exit status.
fn run() -> Result<u8, Failure> {
    let Some(args) = getopt::read::<PbsRdelArgs>(command)? else {
        return Ok(0);
    };
    let mut schedd = LazySchedd::find()?;
    let mut code = 0;
    for operand in &args.reservations {
        if let Err(failure) = delete(&mut schedd, operand, &args.destination)? {
            code = failure.report("pbs_rdel", command);
        }
    }
    Ok(code)
}

/// Deletes one reservation. The outer result contains failures that concern all reservations, such
/// as an unreachable server; the inner result contains failures of this reservation.
fn delete(
    schedd: &mut LazySchedd,
    operand: &OsString,
    destination: &Option<String>,
) -> Result<Result<(), Failure>, Failure> {
    let name = match ReservationName::parse(operand) {
        Ok(name) => name,
        Err(failure) => return Ok(Err(failure)),
    };
    let server = schedd.name()?;
    check_destination(destination, &server)?;
    let answer = call(
        schedd,
        &ClientRequest::DeleteReservation(name.local(&server)),
    )?;
    Ok(match answer {
        Ok(_) => Ok(()),
        Err(refusal) => Err(Failure::of_job("pbs_rdel", &refusal, &name.full(&server))),
    })
}
