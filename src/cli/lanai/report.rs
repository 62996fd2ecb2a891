//! `lanai report`: utilization, waiting times, usage, efficiency, failures and runs in a period, as
//! text, as JSON or as a page with charts.

pub mod aggregate;

mod axis;

mod chart;

mod counts;

mod data;

mod gantt;

mod gantt_chart;

mod markup;

mod page;

mod period;

mod progress;

mod series;

mod tables;

mod text;

mod usage;

mod waits;

use self::aggregate::{Capacity, Report, ReportBuilder};
use self::period::Period;
use self::progress::ReadingBar;
use super::document;
use super::session::{OutputOptions, Session};
use crate::cli::client::exit::{self, Failure};
use crate::model::account::accounting::AccountingFilter;
use crate::model::job::state::JobState;
use crate::model::time::Wall;
use crate::sys::clock;
use crate::wire::client::Continue;
use crate::wire::message::{Arrays, ClientAnswer, Detail, Filter, History, Question, ServerFacts};
use clap::Args;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

/// The value of `--html` for standard output.
const STDOUT: &str = "-";

/// Options of `lanai report`.
#[derive(Args, Clone, Debug, Default)]
pub struct ReportArgs {
    /// Write a page with charts to FILE; - for standard output
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Begin of the period: 7d (7 days ago), today, 2026-11-20 or 2026-11
    #[arg(long, value_name = "TIME", default_value = "30d")]
    pub since: String,
    /// End of the period (default: now); a day or month is included
    #[arg(long, value_name = "TIME")]
    pub until: Option<String>,
    /// Jobs of all users
    #[arg(short = 'a', long)]
    pub all: bool,
}

impl ReportArgs {
    /// Runs the subcommand.
    pub fn run(&self, output: &OutputOptions) -> Result<u8, Failure> {
        let to_stdout = self.html.as_deref() == Some(Path::new(STDOUT));
        if to_stdout && output.json {
            return Err(Failure::usage("--html - cannot be combined with --json"));
        }
        let mut session = Session::open()?;
        let now = session.filter_context().now;
        let period = Period::parse(&self.since, self.until.as_deref(), &now)?;
        let user = (!self.all).then(|| session.user.clone());
        let (report, server) = read(&mut session, user, period)?;
        if let Some(file) = &self.html {
            let page = page::page(&report, &server, clock::wall());
            if to_stdout {
                exit::print(page)?;
                return Ok(0);
            }
            replace(file, page.as_bytes())
                .map_err(|error| Failure::new(1, format!("{}: {error}", file.display())))?;
            if !output.json {
                exit::print(text::written(file, page.len()))?;
            }
        }
        if output.json {
            let content = data::content(&report, &server);
            exit::print(document::document("report", &server, session.now, content))?;
        } else if self.html.is_none() {
            exit::print(text::text(&report, output.width()))?;
        }
        Ok(0)
    }
}

/// Reads everything for a report.
fn read(
    session: &mut Session,
    user: Option<String>,
    period: Period,
) -> Result<(Report, ServerFacts), Failure> {
    let nodes = session.ask(&Question::Nodes)?;
    let owners: Vec<String> = user.iter().cloned().collect();
    let mut builder = ReportBuilder::new(user, period);
    // Attempts that ended after the period may have run in it, so the filter has no end.
    let filter = AccountingFilter {
        users: owners.clone(),
        from: Some(Wall(period.from.div_euclid(1000))),
        ..AccountingFilter::default()
    };
    let mut bar = ReadingBar::new(session, &filter)?;
    let question = Question::Entries(Box::new(filter), Vec::new());
    session.source.parts(&question, &mut |part| {
        if let ClientAnswer::Entries(entries) = part {
            bar.add(entries.len());
            entries.iter().for_each(|entry| builder.add_entry(entry));
        }
        Continue::Wanted
    })?;
    bar.finish();
    let waiting = [JobState::Queued, JobState::Begun];
    let running = [JobState::Running, JobState::Suspended];
    read_jobs(session, &mut builder, &owners, &waiting, Arrays::Folded)?;
    read_jobs(session, &mut builder, &owners, &running, Arrays::Unfolded)?;
    Ok((builder.finish(Capacity::of(&nodes.nodes)), nodes.server))
}

/// Adds the unfinished jobs in these states.
fn read_jobs(
    session: &mut Session,
    builder: &mut ReportBuilder,
    owners: &[String],
    states: &[JobState],
    arrays: Arrays,
) -> Result<(), Failure> {
    let filter = Filter {
        history: History::Live,
        owners: owners.to_vec(),
        states: states.to_vec(),
        arrays,
        ..Filter::default()
    };
    let now = clock::wall_millis();
    let mut server = None;
    session
        .source
        .parts(&Question::Jobs(filter, Detail::Whole), &mut |part| {
            match part {
                ClientAnswer::Server(facts) => server = Some(facts),
                ClientAnswer::Jobs(records) => {
                    if let Some(server) = &server {
                        records
                            .iter()
                            .for_each(|record| builder.add_job(record, server, now));
                    }
                }
                _ => {}
            }
            Continue::Wanted
        })?;
    Ok(())
}

/// Replaces a file atomically. The umask applies to a new file. A device or pipe is written to, not
/// replaced.
fn replace(file: &Path, bytes: &[u8]) -> std::io::Result<()> {
    if fs::metadata(file).is_ok_and(|metadata| !metadata.is_file()) {
        return File::options()
            .write(true)
            .open(file)
            .and_then(|mut file| file.write_all(bytes));
    }
    let mut name = std::ffi::OsString::from(".");
    name.push(file.file_name().unwrap_or_default());
    name.push(format!(".{}", std::process::id()));
    let temporary = file.with_file_name(name);
    let written = File::create_new(&temporary)
        .and_then(|mut file| file.write_all(bytes))
        .and_then(|()| fs::rename(&temporary, file));
    if written.is_err() {
        let _ = fs::remove_file(&temporary);
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_replaces_an_older_page_and_leaves_no_other_file() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("report.html");
        replace(&file, b"first").unwrap();
        replace(&file, b"second").unwrap();
        assert_eq!(fs::read(&file).unwrap(), b"second");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        assert!(replace(&folder.path().join("missing/report.html"), b"").is_err());
        replace(Path::new("/dev/null"), b"page").unwrap();
    }
}
