//! `schedd --nested`: a nested installation, a private Lanai server inside a job of another Lanai
//! server, the parent (F17).
//!
//! The nested installation is a personal installation in the job's `TMPDIR`. Its noded offers the
//! job's resources. This process is the main process of the job. It starts the nested schedd, runs
//! the given command, waits for the nested jobs, and ends all remaining processes, so that no
//! process outlives the job.

use crate::model::job::state::JobState;
use crate::model::time::Span;
use crate::schedd::control;
use crate::schedd::nested::installation::NestedOptions;
use crate::schedd::nested::installation::create_installation;
use crate::schedd::nested::installation::quoted;
use crate::schedd::nested::taking::Taker;
use crate::schedd::programs::process_tree::ProcessTree;
use crate::schedd::programs::process_tree::WakeReason;
use crate::spool;
use crate::spool::SpoolReader;
use crate::spool::query::Viewer;
use crate::sys::home::Home;
use crate::sys::process::ProcessEnd;
use crate::sys::{clock, daemon, program};
use crate::wire::client::{Client, ClientError};
use crate::wire::message::{
    ClientAnswer, ClientRequest, Detail, Filter, Question, Reply, ScheddStatus, StuckJobs,
    WatchedJobs,
};
use anyhow::{Result, bail};
use nix::sys::signal::Signal;
use nix::unistd::Pid;
use std::ffi::OsString;
use std::io::{ErrorKind, Write};
use std::os::fd::AsFd;
use std::process::ExitCode;
use std::time::Duration;

pub mod installation;

mod taking;

/// Maximum time for noded to start.
const NODED_TIMEOUT: Span = Span::seconds(10);
/// Maximum time for remaining processes to end on their own.
const EXIT_TIME: Span = Span::seconds(3);
/// Maximum time for remaining processes to end after SIGTERM.
const GRACE: Span = Span::seconds(10);

/// Runs the nested installation. Returns the exit status of this process.
pub fn run(options: &NestedOptions) -> Result<ExitCode> {
    let parent = Home::find()?;
    options
        .queue
        .map_or(Ok(()), |queue| taking::check(&parent, queue))?;
    let home = create_installation(options)?;
    let schedd = daemon::start_and_wait("schedd", &["--foreground", "--ready"], &home)?;
    wait_for_nodes(&home);
    let mut children = ProcessTree::adopt_orphans()?;
    let start_taker = || {
        options
            .queue
            .map(|queue| Taker::start(parent, home.clone(), queue))
            .transpose()
    };
    let served = serve(
        &home,
        (schedd.pid(), options.command),
        start_taker,
        &mut children,
    );
    if !matches!(served, Ok(NestedEnd::Signal(_))) {
        let _ = control::stop(&home);
    }
    children.end_all(
        EXIT_TIME,
        matches!(served, Ok(NestedEnd::Signal(_))).then_some(GRACE),
    );
    Ok(ExitCode::from(match served? {
        NestedEnd::Ended(ProcessEnd::Exited(status)) => status.rem_euclid(256) as u8,
        NestedEnd::Ended(ProcessEnd::Signaled(number)) => after_signal(number),
        NestedEnd::Signal(signal) => after_signal(signal as i32),
    }))
}

/// Waits up to [`NODED_TIMEOUT`] for noded. Until noded has connected, schedd cannot refuse jobs
/// that request too much.
fn wait_for_nodes(home: &Home) {
    let until = clock::monotonic() + NODED_TIMEOUT;
    while clock::monotonic() < until {
        let status = Client::reach(home).and_then(|mut client| client.call(&ClientRequest::Status));
        if matches!(status, Ok(Reply::Status(status)) if status.nodes.iter().any(|(_, is_up)| *is_up))
        {
            return;
        }
        clock::sleep(Duration::from_millis(5));
    }
}

/// The exit status with which a shell reports that a program was killed by a signal.
fn after_signal(number: i32) -> u8 {
    (128 + number).rem_euclid(256) as u8
}

/// Why the nested installation ends.
enum NestedEnd {
    /// The command and all jobs that could run have ended, or the nested installation was idle.
    Ended(ProcessEnd),
    /// This process received a signal.
    Signal(Signal),
}

/// Runs the command and waits for the jobs. Without a command, waits until the nested schedd exits.
/// Meanwhile, a thread (the taker) takes jobs from a queue of the parent, if one is given. A signal
/// stops the taker at once.
fn serve(
    home: &Home,
    (schedd, command): (Pid, &[OsString]),
    start_taker: impl FnOnce() -> Result<Option<Taker>>,
    children: &mut ProcessTree,
) -> Result<NestedEnd> {
    let Some((first, arguments)) = command.split_first() else {
        announce(home)?;
        let taker = start_taker()?;
        return match children.wait_for_child(schedd, true)? {
            Err(signal) => Ok(NestedEnd::Signal(signal)),
            Ok(ProcessEnd::Exited(0)) => {
                taker.into_iter().for_each(Taker::stop);
                Ok(NestedEnd::Ended(end_with(
                    ProcessEnd::Exited(0),
                    stuck(home)?,
                )))
            }
            Ok(_) => bail!(
                "the nested schedd has failed; see {}",
                home.log("schedd").display()
            ),
        };
    };
    let command = match program::start_in_foreground(first, arguments) {
        Ok(process) => process,
        Err(error) => {
            return Ok(NestedEnd::Ended(ProcessEnd::Exited(not_started(
                first, &error,
            ))));
        }
    };
    let taker = start_taker()?;
    let end = match children.wait_for_child(command, false)? {
        Err(signal) => return Ok(NestedEnd::Signal(signal)),
        Ok(end) => end,
    };
    // Finish the current move first, so that `wait_for_jobs` sees the moved job.
    taker.into_iter().for_each(Taker::stop);
    Ok(match wait_for_jobs(home, children)? {
        Ok(stuck) => NestedEnd::Ended(end_with(end, stuck)),
        Err(signal) => NestedEnd::Signal(signal),
    })
}

/// Prints shell code that makes commands use this nested installation.
fn announce(home: &Home) -> Result<()> {
    let mut out = std::io::stdout();
    writeln!(out, "export LANAI_HOME={}", quoted(&home.state))?;
    Ok(out.flush()?)
}

/// Reports that the command cannot be started. Returns the exit status that a shell has in this
/// case.
fn not_started(program: &OsString, error: &std::io::Error) -> i32 {
    eprintln!("schedd: {}: {error}", program.display());
    if error.kind() == ErrorKind::NotFound {
        127
    } else {
        126
    }
}

/// The final exit status. Jobs that can never run turn success into failure.
fn end_with(end: ProcessEnd, stuck: Option<StuckJobs>) -> ProcessEnd {
    let Some(StuckJobs { jobs, first, why }) = stuck else {
        return end;
    };
    let others = if jobs > 1 {
        format!(" (and {} more)", jobs - 1)
    } else {
        String::new()
    };
    eprintln!("schedd: job {first}{others} ends without having run: {why}");
    if end == ProcessEnd::Exited(0) {
        ProcessEnd::Exited(1)
    } else {
        end
    }
}

/// The jobs that are still queued in the spool after the nested schedd has exited. An idle schedd
/// exits only if all queued jobs can never run.
fn stuck(home: &Home) -> Result<Option<StuckJobs>> {
    let Some(mut reader) = SpoolReader::open(&spool::file(home))? else {
        return Ok(None);
    };
    let viewer = Viewer::own();
    let queued = Filter {
        states: vec![JobState::Queued],
        ..Filter::default()
    };
    let mut stuck: Option<StuckJobs> = None;
    reader.answer(
        &Question::Jobs(queued, Detail::Whole),
        viewer,
        &mut |part| {
            let ClientAnswer::Jobs(records) = part else {
                return Ok(());
            };
            for record in records {
                let stuck = stuck.get_or_insert_with(|| StuckJobs {
                    jobs: 0,
                    first: record.job.id,
                    why: match &record.reason {
                        Some(reason) => reason.to_string(),
                        None => "the job can never run".to_string(),
                    },
                });
                stuck.jobs += 1;
            }
            Ok(())
        },
    )?;
    Ok(stuck)
}

/// Waits until all jobs have finished, except held jobs and jobs that can never run. Returns the
/// jobs that can never run; or, if a signal arrives first, this signal as the inner error.
fn wait_for_jobs(
    home: &Home,
    children: &mut ProcessTree,
) -> Result<Result<Option<StuckJobs>, Signal>> {
    let mut seen = 0;
    let mut client = Client::connect(home)?;
    loop {
        match await_change(&mut client, children, seen) {
            Ok(JobsStatus::Changed(now)) => seen = now,
            Ok(JobsStatus::Finished(stuck)) => return Ok(Ok(stuck)),
            Ok(JobsStatus::Signal(signal)) => return Ok(Err(signal)),
            // If schedd was killed, a new one continues with all jobs.
            Err(ClientError::Unreachable(_)) => (client, seen) = (Client::connect(home)?, 0),
            Err(error) => bail!(error),
        }
    }
}

/// The jobs of the nested installation after a change.
enum JobsStatus {
    /// Some jobs wait or run. The value is the number of the latest change.
    Changed(u64),
    /// All jobs have finished, except held jobs and jobs that can never run.
    Finished(Option<StuckJobs>),
    /// This process received a signal.
    Signal(Signal),
}

/// Waits for a change with a higher number than `seen`, then reads the status of the jobs.
fn await_change(
    client: &mut Client,
    children: &mut ProcessTree,
    seen: u64,
) -> Result<JobsStatus, ClientError> {
    client.begin(&ClientRequest::Watch {
        of: WatchedJobs::Any,
        since: seen,
    })?;
    loop {
        match children.wait(Some(client.stream().as_fd())) {
            WakeReason::Signal(Signal::SIGCHLD) => {}
            WakeReason::Signal(signal) => return Ok(JobsStatus::Signal(signal)),
            WakeReason::Readable => break,
        }
    }
    let seen = client.changed()?;
    let Reply::Status(status) = client.call(&ClientRequest::Status)? else {
        return Ok(JobsStatus::Changed(seen));
    };
    if status.stuck.is_none() && is_busy(&status) {
        return Ok(JobsStatus::Changed(seen));
    }
    let held = status
        .jobs
        .iter()
        .find(|(state, _)| *state == JobState::Held)
        .map_or(0, |(_, count)| *count);
    if held > 0 {
        eprintln!("schedd: held jobs that end without having run: {held}");
    }
    Ok(JobsStatus::Finished(status.stuck))
}

fn is_busy(status: &ScheddStatus) -> bool {
    status
        .jobs
        .iter()
        .any(|&(state, count)| state.is_live() && count > 0)
}
