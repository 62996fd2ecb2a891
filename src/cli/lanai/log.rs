//! `lanai log`: the output of a job.

use super::filter::JobFilter;
use super::follow::{FollowEnd, Follower};
use super::output_files;
use super::session::{FoundJobs, OutputOptions, Session};
use crate::cli::client::exit::{self, Failure};
use crate::cli::client::operand::Operand;
use crate::model::job::Job;
use crate::model::job::output_path::OutputStream;
use crate::model::job_id::JobId;
use crate::wire::message::{Arrays, Detail, Question};
use clap::Args;
use std::ffi::OsString;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write, stdout};

/// The number of bytes at the end of a file in which `-n` looks for lines.
const TAIL: u64 = 1 << 20;

/// Options of `lanai log`.
#[derive(Args, Clone, Debug, Default)]
pub struct LogArgs {
    /// Follow the output until the job has finished; wait for the start if necessary
    #[arg(short = 'f', long)]
    pub follow: bool,
    /// Show the error output
    #[arg(short = 'e', long)]
    pub errors: bool,
    /// Show only the last COUNT lines
    #[arg(short = 'n', long, value_name = "COUNT", conflicts_with = "follow")]
    pub lines: Option<usize>,
    /// Job id, id of a subjob, or name; a name stands for your newest job with this name
    #[arg(value_name = "JOB")]
    pub job: OsString,
}

impl LogArgs {
    /// Runs the subcommand.
    pub fn run(&self, _output: &OutputOptions) -> Result<u8, Failure> {
        let mut session = Session::open()?;
        let found = self.find(&mut session)?;
        if let Some(failure) = found.failures.into_iter().next() {
            return Err(failure);
        }
        let Some(record) = found.records.last() else {
            let name = self.job.to_string_lossy();
            let text = format!("you have no job with the name {name}; lanai list shows your jobs");
            return Err(Failure::new(1, text));
        };
        let (job, server) = (&record.job, &found.server.name);
        if job.id.is_array() && !self.follow {
            return self.print_subjobs(&mut session, job.id, server);
        }
        if job.id.is_array() {
            let text = format!("name a subjob to follow, such as {}[1]", job.id.number);
            return Err(Failure::new(exit::USAGE, text));
        }
        let stream = output_files::stream_of(job, self.stream());
        if self.follow {
            let mut follower = Follower::new(&session.home, job.id, &[stream], None)?;
            return match follower.until_end()? {
                FollowEnd::Ended(_) | FollowEnd::Signal(_) => Ok(0),
            };
        }
        self.print(job, server)?;
        Ok(0)
    }

    fn stream(&self) -> OutputStream {
        if self.errors {
            OutputStream::Error
        } else {
            OutputStream::Output
        }
    }

    /// The job with this id, or the caller's jobs with this name, the newest last.
    fn find(&self, session: &mut Session) -> Result<FoundJobs, Failure> {
        let context = session.filter_context();
        let mut filter = JobFilter::default();
        match Operand::parse(&self.job) {
            Ok(operand) => filter.ids.push(operand),
            Err(_) => {
                filter.require("name", &self.job.to_string_lossy(), &context)?;
                filter.require("user", "me", &context)?;
            }
        }
        session.jobs(&filter, Arrays::Folded)
    }

    /// Prints the output of each subjob that has started, under a heading.
    fn print_subjobs(
        &self,
        session: &mut Session,
        array: JobId,
        server: &str,
    ) -> Result<u8, Failure> {
        let question = Question::Elements(array, None, Detail::Whole);
        for record in session.ask(&question)?.jobs {
            if record.job.life.run.is_some() {
                exit::print(format!("==> {} <==\n", record.job.id))?;
                if let Err(failure) = self.print(&record.job, server) {
                    failure.report("lanai", super::command);
                }
            }
        }
        Ok(0)
    }

    fn print(&self, job: &Job, server: &str) -> Result<(), Failure> {
        if job.life.run.is_none() {
            let text = format!(
                "job {} has not started; lanai log -f {} waits for its output",
                job.id, job.id
            );
            return Err(Failure::new(1, text));
        }
        let stream = output_files::stream_of(job, self.stream());
        let mut file = output_files::open(job, stream, server)?;
        if let Some(lines) = self.lines {
            seek_to_last_lines(&mut file, lines)?;
        }
        let mut out = stdout().lock();
        std::io::copy(&mut file, &mut out)?;
        Ok(out.flush()?)
    }
}

/// Moves to the beginning of the last `lines` lines, at most [`TAIL`] bytes before the end.
fn seek_to_last_lines(file: &mut File, lines: usize) -> Result<(), Failure> {
    let length = file.metadata()?.len();
    let start = length.saturating_sub(TAIL);
    file.seek(SeekFrom::Start(start))?;
    let mut tail = Vec::new();
    file.read_to_end(&mut tail)?;
    let skipped = start_of_last_lines(&tail, lines) as u64;
    file.seek(SeekFrom::Start(start + skipped))?;
    Ok(())
}

/// The position of the last `lines` lines. The line feed at the end belongs to the last line.
fn start_of_last_lines(text: &[u8], lines: usize) -> usize {
    let body = text.strip_suffix(b"\n").unwrap_or(text);
    let mut feeds = body
        .iter()
        .enumerate()
        .rev()
        .filter(|(_, byte)| **byte == b'\n');
    match lines {
        0 => text.len(),
        _ => feeds.nth(lines - 1).map_or(0, |(at, _)| at + 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_lines_include_an_unfinished_line() {
        let last = |text: &'static str, lines| &text[start_of_last_lines(text.as_bytes(), lines)..];
        assert_eq!(last("a\nb\nc\n", 2), "b\nc\n");
        assert_eq!(last("a\nb\nc", 2), "b\nc");
        assert_eq!(last("a\nb\n", 5), "a\nb\n");
        assert_eq!(last("a\n\n\n", 2), "\n\n");
        assert_eq!(last("a\n", 0), "");
        assert_eq!(last("", 1), "");
    }
}
