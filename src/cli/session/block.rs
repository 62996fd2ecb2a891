//! `qsub -W block=true`: waits until the job has finished. A signal to qsub deletes the job.
//!
//! There is no signal handler. Signals are blocked; one thread waits for a signal, another for the
//! end of the job. The main thread handles what comes first.

use crate::cli::client::exit::{self, Failure};
use crate::cli::client::operand::Operand;
use crate::cli::client::reconnect;
use crate::model::job_id::JobId;
use crate::sys::home::Home;
use crate::wire::client::{Client, ClientError};
use crate::wire::message::{ClientRequest, Reply};
use nix::sys::signal::{SigSet, Signal};
use std::ffi::OsStr;
use std::sync::mpsc;
use std::thread;

/// The exit status for a deleted job.
const DELETED: u8 = 3;

/// The exit status after a signal, unless the request to delete the job fails.
const INTERRUPTED: u8 = 2;

enum BlockEvent {
    Ended(Result<Reply, ClientError>),
    Signal(Signal),
}

/// Waits until the job with the full id `id` has ended. Returns the job's exit status modulo 256.
/// Fails if the job was deleted. A signal deletes the job and ends the wait with a failure.
pub fn until_end(client: Client, home: &Home, id: &str) -> Result<u8, Failure> {
    let job = Operand::parse(OsStr::new(id))?.id();
    let signals = deadly_signals();
    signals.thread_block().map_err(std::io::Error::from)?;
    let (sender, receiver) = mpsc::channel();
    let end_sender = sender.clone();
    let home_of_wait = home.clone();
    thread::spawn(move || end_sender.send(BlockEvent::Ended(wait(client, &home_of_wait, job))));
    thread::spawn(move || {
        signals
            .wait()
            .map(|signal| sender.send(BlockEvent::Signal(signal)))
    });
    match receiver.recv() {
        Ok(BlockEvent::Ended(reply)) => ended(id, reply?),
        Ok(BlockEvent::Signal(signal)) => interrupted(home, job, id, signal),
        Err(_) => Err(exit::protocol_error()),
    }
}

/// Waits until a job has ended. Reconnects to schedd if the connection breaks. Returns the reply.
pub fn wait(mut client: Client, home: &Home, job: JobId) -> Result<Reply, ClientError> {
    loop {
        match client.call(&ClientRequest::Wait(job)) {
            Err(ClientError::Unreachable(_)) => client = reconnect::connect("qsub", home)?,
            reply => return reply,
        }
    }
}

fn ended(id: &str, reply: Reply) -> Result<u8, Failure> {
    match reply {
        Reply::Ended {
            deleted_by: Some(user),
            ..
        } => Err(Failure::new(
            DELETED,
            format!("{id} Job to be deleted at request of {user}"),
        )),
        Reply::Ended {
            status,
            deleted_by: None,
        } => Ok(status.rem_euclid(256) as u8),
        Reply::Refused(refusal) => Err(Failure::of_job("qsub", &refusal, id)),
        _ => Err(exit::protocol_error()),
    }
}

fn interrupted(home: &Home, job: JobId, id: &str, signal: Signal) -> Result<u8, Failure> {
    let number = signal as i32;
    let failure = Failure::new(
        INTERRUPTED,
        format!("wait for job {id} interrupted by signal {number}"),
    );
    exit::print(format!("Job {id} is being deleted\n"))?;
    delete(home, job)?;
    Err(failure)
}

/// Requests that schedd delete a job, after a signal has interrupted its qsub or the user has left
/// the job's terminal with `~.`.
pub fn delete(home: &Home, job: JobId) -> Result<Reply, ClientError> {
    Client::connect(home)?.call(&ClientRequest::Delete {
        job,
        only: None,
        force: false,
        purge: false,
    })
}

/// SIGHUP, SIGINT, SIGQUIT and SIGTERM, except those that this process ignores (`nohup`, or `&` in
/// a script) and must continue to ignore.
pub fn deadly_signals() -> SigSet {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored
        .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .unwrap_or(0);
    let deadly = [
        Signal::SIGHUP,
        Signal::SIGINT,
        Signal::SIGQUIT,
        Signal::SIGTERM,
    ];
    deadly
        .into_iter()
        .filter(|&signal| ignored >> (signal as u32 - 1) & 1 == 0)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_exit_status_is_that_of_the_job_unless_it_was_deleted() {
        let ended = |status, deleted_by: Option<&str>| {
            ended(
                "12.head",
                Reply::Ended {
                    status,
                    deleted_by: deleted_by.map(String::from),
                },
            )
        };
        assert_eq!(ended(7, None), Ok(7));
        assert_eq!(ended(271, None), Ok(15));
        assert_eq!(ended(-29, None), Ok(227));
        let deleted = Failure::new(3, "12.head Job to be deleted at request of alice@head");
        assert_eq!(ended(271, Some("alice@head")), Err(deleted));
    }
}
