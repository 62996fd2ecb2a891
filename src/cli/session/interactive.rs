//! `qsub -I`: submits the job, waits until its terminal exists, connects to it, and exits with the
//! status of the job's shell.

use super::block;
use super::interactive_client::{self, SessionEnd};
use super::waiting::{WaitEnd, WaitingQsub};
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

/// Maximum time to wait until schedd has recorded the end of the job.
const RECORD_TIMEOUT: Duration = Duration::from_secs(2);

/// Fails unless standard input and output are terminals.
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

/// The failure for an interactive job array, which PBS rejects.
pub fn not_an_array() -> Failure {
    Failure::usage("interactive and array job submission cannot be used together")
}

/// Warns that an interactive job is not rerunnable.
pub fn warn_not_rerunnable() -> Result<(), Failure> {
    exit::print("qsub (Warning): Interactive jobs will be treated as not rerunnable\n")
}

/// Runs an interactive job from submission to end. Returns the exit status of qsub. If the job's
/// shell has ended, this is the exit status of the shell modulo 256.
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
            exit::print_notes("qsub", &notes);
            id
        }
        Reply::Refused(refusal) => return Err(refusal.into()),
        _ => return Err(exit::protocol_error()),
    };
    let job = Operand::parse(OsStr::new(&id))?.id();
    // Ignore errors: if the terminal has been closed, qsub also gets SIGHUP, which ends the wait
    // or the session.
    let _ = exit::print(format!("qsub: waiting for job {id} to start\n"));
    match WaitingQsub::new(home, &id, job, client, &caught).until_connected()? {
        WaitEnd::Exited(code) => Ok(code),
        WaitEnd::Connected(connection) => {
            let _ = exit::print(format!("qsub: job {id} ready\n\n"));
            // Keep the connection open until schedd has recorded the end of the job: closing the
            // connection hangs up the job's terminal.
            let held_open = connection.try_clone()?;
            let end = interactive_client::run_session(connection, &caught)?;
            let _ = mask.thread_unblock();
            let code = exit_status(end, home, job);
            drop(held_open);
            let _ = exit::print(format!("\nqsub: job {id} completed\n"));
            code
        }
    }
}

/// The signals that qsub handles from the submission to the end of the session: the signals of
/// [`block::deadly_signals`], SIGWINCH, SIGCONT, and SIGTTOU, which the kernel sends if a
/// background process restores the modes of the terminal.
fn signals() -> SigSet {
    let mut mask = block::deadly_signals();
    mask.extend([Signal::SIGWINCH, Signal::SIGCONT, Signal::SIGTTOU]);
    mask
}

fn exit_status(end: SessionEnd, home: &Home, job: JobId) -> Result<u8, Failure> {
    let status = match end {
        SessionEnd::Ended(status) => recorded_status(home, job).unwrap_or(status),
        SessionEnd::Left => {
            block::delete(home, job)?;
            DELETED
        }
        SessionEnd::HungUp(signal) => 128 + signal,
        SessionEnd::Lost => match block::wait(reconnect::connect("qsub", home)?, home, job)? {
            Reply::Ended { status, .. } => status,
            _ => return Err(exit::protocol_error()),
        },
    };
    Ok(status.rem_euclid(256) as u8)
}

/// Waits until schedd has recorded the end of the job, so that other commands show the job as
/// finished. Returns the recorded exit status, or None if schedd cannot be reached or does not
/// report the end within `RECORD_TIMEOUT`.
fn recorded_status(home: &Home, job: JobId) -> Option<i32> {
    let mut client = Client::reach(home).ok()?;
    client.set_timeout(RECORD_TIMEOUT);
    client.begin(&ClientRequest::Wait(job)).ok()?;
    match client.reply().ok()? {
        Reply::Ended { status, .. } => Some(status),
        _ => None,
    }
}
