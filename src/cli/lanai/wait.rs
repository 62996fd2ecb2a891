//! `lanai wait`: waits until jobs have finished, and reports by its exit status how they ended.

use super::document;
use super::filter::JobFilter;
use super::job_view::JobView;
use super::session::{FoundJobs, OutputOptions, Session};
use super::status::{self, JobStatus};
use crate::cli::client::exit::{self, Failure};
use crate::cli::client::{query, reconnect};
use crate::model::job_id::JobId;
use crate::sys::clock;
use crate::wire::client::{Client, ClientError};
use crate::wire::message::{Arrays, ClientRequest, Detail, Question, WatchedJobs};
use clap::Args;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::ffi::OsString;
use std::os::fd::AsFd;
use std::time::Duration;

/// The exit status if a job failed.
const FAILED: u8 = 1;

/// The exit status if no job failed, and a job was deleted.
const DELETED: u8 = 3;

/// The exit status after the timeout, as in timeout(1).
const TIMED_OUT: u8 = 124;

/// Options of `lanai wait`.
#[derive(Args, Clone, Debug, Default)]
pub struct WaitArgs {
    /// Wait until one of the jobs has finished
    #[arg(long)]
    pub any: bool,
    /// Stop waiting after this time, such as 10m; the exit status is then 124
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    pub timeout: Option<Duration>,
    /// Job ids and conditions, such as name=sim*; conditions select unfinished jobs
    #[arg(value_name = "FILTER", required = true)]
    pub filter: Vec<OsString>,
}

/// The awaited jobs, and the connection that reports their changes.
struct Waiting<'a> {
    args: &'a WaitArgs,
    session: Session,
    client: Client,
    ids: Vec<JobId>,
    seen: u64,
    /// The time on the monotonic clock, in milliseconds, at which waiting ends.
    deadline: Option<i64>,
}

impl WaitArgs {
    /// Runs the subcommand.
    pub fn run(&self, output: &OutputOptions) -> Result<u8, Failure> {
        let mut session = Session::open()?;
        let context = session.filter_context();
        let mut filter = JobFilter::parse(&self.filter, &context)?;
        if filter.ids.is_empty() {
            filter.require("state", "unfinished", &context)?;
            if !filter.restricts_owner() {
                filter.require("user", "me", &context)?;
            }
        }
        let found = session.jobs(&filter, Arrays::Folded)?;
        if !found.failures.is_empty() {
            return Ok(query::report(&found.failures, "lanai", super::command));
        }
        let client = Client::connect(&session.home)?;
        let timeout = self.timeout.map(|timeout| timeout.as_millis() as i64);
        let mut waiting = Waiting {
            args: self,
            ids: found.records.iter().map(|record| record.job.id).collect(),
            session,
            client,
            seen: 0,
            deadline: timeout.map(|timeout| clock::monotonic().0.saturating_add(timeout)),
        };
        let (found, is_in_time) = waiting.until_finished(found)?;
        let jobs: Vec<JobView> = found.views().collect();
        if output.json {
            exit::print(document::jobs(&jobs, &found.server, found.now))?;
        } else {
            report_failures(&jobs);
        }
        Ok(if is_in_time {
            exit_status(&jobs)
        } else {
            TIMED_OUT
        })
    }
}

impl Waiting<'_> {
    /// Waits until the jobs have finished. Returns them, and false if the timeout has passed.
    fn until_finished(&mut self, mut found: FoundJobs) -> Result<(FoundJobs, bool), Failure> {
        let bar = progress_bar();
        loop {
            let progress = Progress::of(&found);
            bar.set_length(progress.all);
            bar.set_position(progress.finished);
            bar.set_message(progress.text());
            if self.is_over(&found) {
                bar.finish_and_clear();
                return Ok((found, true));
            }
            if !self.wait_for_change()? {
                bar.finish_and_clear();
                return Ok((found, false));
            }
            let question = Question::JobsById(self.ids.clone(), Detail::Whole);
            let answers = self.session.ask(&question)?;
            (found.server, found.records) = (answers.server, answers.jobs);
            found.now = clock::wall();
        }
    }

    /// A job that was removed from the history has finished.
    fn is_over(&self, found: &FoundJobs) -> bool {
        let mut finished = found.views().map(|job| job.status().is_finished());
        let is_missing = found.records.len() < self.ids.len();
        if self.args.any {
            is_missing || found.records.is_empty() || finished.any(|is_finished| is_finished)
        } else {
            finished.all(|is_finished| is_finished)
        }
    }

    /// Waits for a change of the jobs. Returns false after the timeout.
    fn wait_for_change(&mut self) -> Result<bool, Failure> {
        let request = ClientRequest::Watch {
            of: WatchedJobs::Jobs(self.ids.clone()),
            since: self.seen,
        };
        let sent = self.client.begin(&request);
        if sent.is_ok() && !self.is_ready() {
            return Ok(false);
        }
        match sent.and_then(|()| self.client.changed()) {
            Ok(seen) => self.seen = seen,
            Err(ClientError::Unreachable(_)) => {
                self.client = reconnect::connect("lanai", &self.session.home)?;
                self.seen = 0;
            }
            Err(error) => return Err(error.into()),
        }
        Ok(true)
    }

    /// Waits until schedd has sent something. False after the timeout.
    fn is_ready(&self) -> bool {
        loop {
            let timeout = match self.deadline {
                None => PollTimeout::NONE,
                Some(deadline) => {
                    let left = deadline.saturating_sub(clock::monotonic().0).max(0);
                    PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX)
                }
            };
            let mut fds = [PollFd::new(self.client.stream().as_fd(), PollFlags::POLLIN)];
            match poll(&mut fds, timeout) {
                Ok(0) if self.deadline.is_some_and(|at| at <= clock::monotonic().0) => {
                    return false;
                }
                Ok(0) | Err(_) => {}
                Ok(_) => return true,
            }
        }
    }
}

/// The number of jobs, with subjobs instead of arrays.
#[derive(Debug, Default, PartialEq, Eq)]
struct Progress {
    all: u64,
    finished: u64,
    failed: u64,
}

impl Progress {
    fn of(found: &FoundJobs) -> Progress {
        let mut progress = Progress::default();
        for job in found.views() {
            let (all, finished, failed) = match job.counts() {
                Some(counts) => (counts.total, counts.finished(), counts.failed),
                None => (
                    1,
                    u32::from(job.status().is_finished()),
                    u32::from(job.status() == JobStatus::Failed),
                ),
            };
            progress.all += u64::from(all);
            progress.finished += u64::from(finished);
            progress.failed += u64::from(failed);
        }
        progress
    }

    fn text(&self) -> String {
        match self.failed {
            0 => String::new(),
            failed => format!("{failed} failed"),
        }
    }
}

/// A bar on standard error; nothing without a terminal.
fn progress_bar() -> ProgressBar {
    let bar = ProgressBar::with_draw_target(Some(1), ProgressDrawTarget::stderr());
    let style = ProgressStyle::with_template("[{bar:30}] {pos}/{len} jobs finished {msg}");
    match style {
        Ok(style) => bar.with_style(style.progress_chars("=> ")),
        Err(_) => bar,
    }
}

/// Prints a line for each job that failed or was deleted.
fn report_failures(jobs: &[JobView]) {
    for job in jobs {
        let how = match job.status() {
            JobStatus::Failed => job.exit_status().map(status::exit_text).unwrap_or_default(),
            JobStatus::Deleted => "deleted".to_string(),
            _ => continue,
        };
        let progress = job
            .progress()
            .map(|text| format!(" ({text})"))
            .unwrap_or_default();
        let name = super::table::printable(&job.record.job.spec.name);
        eprintln!("lanai: job {} {name}: {how}{progress}", job.id());
    }
}

/// The exit status for finished jobs. With `--any`, unfinished jobs do not count.
fn exit_status(jobs: &[JobView]) -> u8 {
    let has = |wanted: JobStatus| jobs.iter().any(|job| job.status() == wanted);
    if has(JobStatus::Failed) {
        FAILED
    } else if has(JobStatus::Deleted) {
        DELETED
    } else {
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::example::{self, array, finished, queued, running, share};

    fn found(records: Vec<crate::wire::message::JobRecord>) -> FoundJobs {
        FoundJobs {
            server: example::server(),
            now: example::NOW,
            records,
            failures: Vec::new(),
        }
    }

    #[test]
    fn the_exit_status_names_the_worst_end() {
        let ran = running(queued(1, "a", ""), vec![share(1, None)]);
        let status = |jobs: &[(i32, bool)]| {
            let records = jobs
                .iter()
                .map(|&(status, deleted)| finished(ran.clone(), status, deleted))
                .collect();
            let found = found(records);
            exit_status(&found.views().collect::<Vec<_>>())
        };
        assert_eq!(status(&[]), 0);
        assert_eq!(status(&[(0, false)]), 0);
        assert_eq!(status(&[(0, false), (271, true)]), DELETED);
        assert_eq!(status(&[(271, true), (3, false)]), FAILED);
    }

    #[test]
    fn progress_counts_subjobs() {
        let found = found(vec![queued(1, "a", ""), array(queued(2, "b", ""), "1-10")]);
        let expected = Progress {
            all: 11,
            finished: 0,
            failed: 0,
        };
        assert_eq!(Progress::of(&found), expected);
    }
}
