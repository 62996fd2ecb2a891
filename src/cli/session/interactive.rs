//! `qsub -I`: submits, waits until the job has its terminal, sits down at it, and ends as the
//! job's shell did.

use super::block;
use super::interactive_client::{self, SessionEnd};
use super::waiting::{Came, WaitingQsub};
use crate::cli::client::exit::{self, Failure};
use crate::cli::client::operand::Operand;
use crate::cli::client::reconnect;
use crate::model::job::attempt::DELETED;
use crate::model::job_id::JobId;
use crate::sys::home::Home;
use crate::sys::process;
use crate::wire::client::Client;
use crate::wire::message::{ClientRequest, Reply};
use nix::sys::signal::{SigSet, Signal};
use std::ffi::OsStr;
use std::io::{IsTerminal, stdin, stdout};
use std::time::Duration;

/// How long schedd may take to learn of the end that we have seen.
const PATIENCE: Duration = Duration::from_secs(2);

/// Fails without a terminal.
pub fn require_terminal() -> Result<(), Failure> {
    if stdin().is_terminal() && stdout().is_terminal() {
        Ok(())
    } else {
        Err(Failure::new(
            1,
            "\tstandard input and output must be a terminal for\n\tinteractive job submission",
        ))
    }
}

/// An array of jobs has no one terminal.
pub fn not_an_array() -> Failure {
    Failure::usage("interactive and array job submission cannot be used together")
}

/// Warns of what an interactive job cannot be.
pub fn warn_of_rerun() -> Result<(), Failure> {
    exit::print("qsub (Warning): Interactive jobs will be treated as not rerunnable\n")
}

/// The whole course of an interactive job; its result is the shell's exit status, mod 256.
pub fn run(
    home: &Home,
    submit: impl FnOnce(&mut Client) -> Result<Reply, Failure>,
) -> Result<u8, Failure> {
    let mask = signals();
    // Block signals before the submission, so that no signal leaves a job behind.
    mask.thread_block().map_err(std::io::Error::from)?;
    let caught = process::signals(&mask.iter().collect::<Vec<_>>())?;
    let mut client = Client::connect(home)?;
    let id = match submit(&mut client)? {
        Reply::Accepted { id, notes } => {
            exit::remark("qsub", &notes);
            id
        }
        Reply::Refused(refusal) => return Err(refusal.into()),
        _ => return Err(exit::garbled()),
    };
    let job = Operand::parse(OsStr::new(&id))?.id();
    // A terminal that is gone already is noticed by its signal.
    let _ = exit::print(format!("qsub: waiting for job {id} to start\n"));
    match WaitingQsub::new(home, &id, job, client, &caught).until_seated()? {
        Came::Away(code) => Ok(code),
        Came::Seated(connection) => {
            let _ = exit::print(format!("qsub: job {id} ready\n\n"));
            // Held until schedd knows of the end: a terminal that is let go hangs up.
            let line = connection.try_clone()?;
            let end = interactive_client::sit(connection, &caught)?;
            let _ = mask.thread_unblock();
            let code = depart(end, home, job);
            drop(line);
            let _ = exit::print(format!("\nqsub: job {id} completed\n"));
            code
        }
    }
}

/// What a person at a terminal may be sent: to end, that the window has changed, that we go on.
/// TTOU is for a background process that puts the terminal back in order.
fn signals() -> SigSet {
    let mut mask = block::deadly_signals();
    mask.extend([Signal::SIGWINCH, Signal::SIGCONT, Signal::SIGTTOU]);
    mask
}

fn depart(end: SessionEnd, home: &Home, job: JobId) -> Result<u8, Failure> {
    let status = match end {
        SessionEnd::Over(status) => settled(home, job).unwrap_or(status),
        SessionEnd::Left => {
            block::delete(home, job)?;
            DELETED
        }
        SessionEnd::HungUp(signal) => 128 + signal,
        SessionEnd::Lost => match block::wait(reconnect::connect("qsub", home)?, home, job)? {
            Reply::Ended { status, .. } => status,
            _ => return Err(exit::garbled()),
        },
    };
    Ok(status.rem_euclid(256) as u8)
}

/// The job's exit status from schedd: after it, other commands find the job finished. None if
/// schedd does not answer.
fn settled(home: &Home, job: JobId) -> Option<i32> {
    let mut client = Client::reach(home).ok()?;
    client.be_impatient(PATIENCE);
    client.begin(&ClientRequest::Wait(job)).ok()?;
    match client.reply().ok()? {
        Reply::Ended { status, .. } => Some(status),
        _ => None,
    }
}
