//! `lanai run`: submits a job, copies its output, and exits with its exit status.
//!
//! Signals are blocked and read from a descriptor. On a terminal, Ctrl-C asks whether to detach from
//! the job or to cancel it; without a terminal, it cancels. SIGTERM and SIGHUP detach, because they
//! end the session of the user, not the job.

use super::follow::{FollowEnd, Follower};
use super::session::OutputOptions;
use super::status;
use super::submit::SubmitArgs;
use crate::cli::client::exit::{self, Failure};
use crate::cli::client::operand::Operand;
use crate::cli::session::block;
use crate::model::job::Exit;
use crate::model::job::output_path::OutputStream;
use crate::model::job_id::JobId;
use crate::sys::home::Home;
use crate::sys::process;
use crate::wire::message::JobRecord;
use clap::Args;
use nix::sys::signal::Signal;
use nix::sys::signalfd::SignalFd;
use std::ffi::OsStr;
use std::io::{IsTerminal, stderr, stdin};

/// The exit status for a job that exceeded a limit, or did not run to its end for another reason of
/// the system.
const ENDED_BY_SYSTEM: u8 = 125;

/// The signals that detach from the job or cancel it.
const SIGNALS: [Signal; 3] = [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP];

/// Arguments of `lanai run`.
#[derive(Args, Clone, Debug, Default)]
pub struct RunArgs {
    /// The job.
    #[command(flatten)]
    job: SubmitArgs,
}

impl RunArgs {
    /// Runs the subcommand.
    pub fn run(&self, _output: &OutputOptions) -> Result<u8, Failure> {
        let home = Home::find()?;
        let signals = blocked_signals()?;
        let submitted = self.job.submit(&home)?;
        exit::print_notes("lanai", &submitted.notes);
        if stderr().is_terminal() {
            eprintln!("lanai: submitted job {}", submitted.id);
        }
        let job = Operand::parse(OsStr::new(&submitted.id))?.id();
        if job.is_array() {
            let text = "lanai run cannot follow an array; use lanai submit and lanai wait";
            return Err(Failure::new(exit::USAGE, format!("{text} {job}")));
        }
        follow(&home, job, &signals)
    }
}

/// Blocks the signals and opens a descriptor from which they can be read. Signals that this process
/// ignores, as after nohup, stay ignored.
fn blocked_signals() -> Result<SignalFd, Failure> {
    let deadly = block::deadly_signals();
    let signals: Vec<Signal> = SIGNALS
        .into_iter()
        .filter(|&signal| deadly.contains(signal))
        .collect();
    let set: nix::sys::signal::SigSet = signals.iter().copied().collect();
    set.thread_block().map_err(std::io::Error::from)?;
    Ok(process::signals(&signals)?)
}

/// Copies the output of the job until it has finished. Returns the exit status.
fn follow(home: &Home, job: JobId, signals: &SignalFd) -> Result<u8, Failure> {
    let streams = [OutputStream::Output, OutputStream::Error];
    let mut follower = Follower::new(home, job, &streams, Some(signals))?;
    let mut is_canceled = false;
    loop {
        let signal = match follower.until_end()? {
            FollowEnd::Ended(record) => return Ok(ended(&record)),
            FollowEnd::Signal(signal) => signal,
        };
        let choice = match signal {
            Signal::SIGINT if is_canceled => Choice::Detach,
            Signal::SIGINT if stdin().is_terminal() && stderr().is_terminal() => ask(signals),
            Signal::SIGINT => Choice::Cancel,
            _ => Choice::Detach,
        };
        match choice {
            Choice::Continue => {}
            Choice::Cancel => {
                eprintln!("lanai: canceling job {job}");
                block::delete(home, job)?;
                is_canceled = true;
            }
            Choice::Detach => {
                eprintln!("lanai: job {job} continues; to follow it again: lanai log -f {job}");
                return Ok(128 + signal as u8);
            }
        }
    }
}

/// What to do after Ctrl-C.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Choice {
    Continue,
    Detach,
    Cancel,
}

/// Asks what to do. A second Ctrl-C cancels the job; the end of the input detaches.
fn ask(signals: &SignalFd) -> Choice {
    use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
    use std::os::fd::AsFd;
    eprint!("\nlanai: (d)etach and let the job run, (c)ancel the job, or Enter to continue? ");
    let input = stdin();
    loop {
        let mut fds = [
            PollFd::new(input.as_fd(), PollFlags::POLLIN),
            PollFd::new(signals.as_fd(), PollFlags::POLLIN),
        ];
        if poll(&mut fds, PollTimeout::NONE).is_err() {
            continue;
        }
        if fds[1].any() == Some(true) {
            return match signals.read_signal() {
                Ok(Some(signal)) if signal.ssi_signo == Signal::SIGINT as u32 => Choice::Cancel,
                _ => Choice::Detach,
            };
        }
        let mut answer = [0; 256];
        let length = nix::unistd::read(&input, &mut answer).unwrap_or(0);
        return choice_of(&answer[..length]);
    }
}

fn choice_of(answer: &[u8]) -> Choice {
    match answer.trim_ascii() {
        _ if answer.is_empty() => Choice::Detach,
        [b'd' | b'D', ..] => Choice::Detach,
        [b'c' | b'C', ..] => Choice::Cancel,
        _ => Choice::Continue,
    }
}

/// Reports an end that is not the job's own, and returns the exit status.
fn ended(record: &JobRecord) -> u8 {
    let id = record.job.id;
    let Some(exit) = record.job.life.exit else {
        eprintln!("lanai: job {id} was deleted before it started");
        return ENDED_BY_SYSTEM;
    };
    if exit.deleted {
        eprintln!("lanai: job {id} was deleted");
    } else if exit.status < 0 || exit.status > 255 {
        eprintln!("lanai: job {id}: {}", status::exit_text(exit.status));
    }
    exit_status(exit)
}

/// The job's own exit status; 128+N if signal N ended the job; [`ENDED_BY_SYSTEM`] after an exceeded
/// limit.
fn exit_status(exit: Exit) -> u8 {
    match exit.status {
        status @ 0..=255 => status as u8,
        status @ 257..=320 => (status - 128) as u8,
        _ => ENDED_BY_SYSTEM,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_gives_128_plus_its_number() {
        let status = |status| {
            exit_status(Exit {
                status,
                deleted: false,
            })
        };
        assert_eq!([status(0), status(3), status(137)], [0, 3, 137]);
        assert_eq!(status(256 + 15), 143);
        assert_eq!(status(-29), ENDED_BY_SYSTEM);
    }

    #[test]
    fn enter_continues_and_the_end_of_input_detaches() {
        assert_eq!(choice_of(b"\n"), Choice::Continue);
        assert_eq!(choice_of(b"d\n"), Choice::Detach);
        assert_eq!(choice_of(b" C\n"), Choice::Cancel);
        assert_eq!(choice_of(b""), Choice::Detach);
    }
}
