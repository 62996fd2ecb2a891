//! `qacct`: accounting of users, accounts, projects and queues over time, and of single jobs.
//!
//! The usage of an attempt counts when the attempt ends. The server sums the accounting entries.
//! For sums by day or month, the server sums by quarter of an hour, and qacct combines these sums
//! in the user's time zone.

use crate::cli::arguments::getopt;
use crate::cli::arguments::period;
use crate::cli::client::exit::{self, Failure};
use crate::cli::client::operand::Operand;
use crate::cli::client::query::{self, Feed};
use crate::cli::output::attribute_output::preamble;
use crate::model::account::accounting::{AccountingFilter, GroupKey};
use crate::model::time::Wall;
use crate::sys::clock;
use crate::wire::message::{ClientAnswer, Question, ServerFacts};
use chrono::{Local, TimeZone};
use clap::{CommandFactory, Parser, ValueEnum};
use job_filter::JobFilter;
use std::ffi::OsString;
use std::io::{BufWriter, Write};
use std::process::ExitCode;
use summary::UsageSummary;

mod entries;

mod summary;

mod job_filter;

pub use entries::fields;

/// Report resource usage from accounting records.
///
/// Without options, qacct sums all records and prints one line for each user.
#[derive(Parser, Clone, Debug, Default)]
#[command(
    name = "qacct",
    disable_help_flag = true,
    disable_version_flag = true,
    args_override_self = true
)]
pub struct QacctArgs {
    /// Jobs of these users
    #[arg(short = 'u', value_name = "USER,...", value_delimiter = ',')]
    users: Vec<String>,
    /// Jobs charged to these accounts; "" for jobs without an account
    #[arg(short = 'A', value_name = "ACCOUNT,...", value_delimiter = ',')]
    accounts: Vec<String>,
    /// Jobs of these projects
    #[arg(short = 'P', value_name = "PROJECT,...", value_delimiter = ',')]
    projects: Vec<String>,
    /// Jobs in these queues
    #[arg(short = 'q', value_name = "QUEUE,...", value_delimiter = ',')]
    queues: Vec<String>,
    /// Attempts that ended at or after this time: 7d (7 days ago), today or 2026-11-20 (from
    /// midnight on), 2026-11 (from the first day on), or [[[[CC]YY]MM]DD]hhmm[.SS]: hhmm alone is
    /// a time of today, and a date without a year or a month is the latest such date in the past
    #[arg(short = 'b', value_name = "BEGIN")]
    begin: Option<String>,
    /// Attempts that ended before this time, or before the end of this day or month; values as for
    /// -b
    #[arg(short = 'e', value_name = "END")]
    end: Option<String>,
    /// Group the sums by these keys, in this order
    #[arg(long, value_name = "KEY,...", value_delimiter = ',', value_enum)]
    by: Vec<By>,
    /// Print all records of these jobs, one for each attempt
    #[arg(short = 'j', value_name = "JOB,...", value_delimiter = ',')]
    jobs: Vec<OsString>,
    /// Print each attempt on a line instead of sums
    #[arg(long)]
    list: bool,
    /// Output format: csv or json; times in seconds since 1970
    #[arg(short = 'F', value_name = "FORMAT", value_enum)]
    format: Option<AccountFormat>,
}

/// Key by which usage is grouped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum By {
    /// Owner of the job.
    User,
    /// Account of the job (`qsub -A`).
    Account,
    /// Project of the job (`qsub -P`).
    Project,
    /// Queue of the job.
    Queue,
    /// Quality of service of the job.
    Qos,
    /// Month in which the attempt ended.
    Month,
    /// Day on which the attempt ended.
    Day,
}

impl By {
    fn name(self) -> &'static str {
        match self {
            By::User => "user",
            By::Account => "account",
            By::Project => "project",
            By::Queue => "queue",
            By::Qos => "qos",
            By::Month => "month",
            By::Day => "day",
        }
    }

    fn key(self) -> GroupKey {
        match self {
            By::User => GroupKey::User,
            By::Account => GroupKey::Account,
            By::Project => GroupKey::Project,
            By::Queue => GroupKey::Queue,
            By::Qos => GroupKey::Qos,
            By::Month | By::Day => GroupKey::Quarter,
        }
    }
}

/// The output format.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum AccountFormat {
    /// Tables.
    #[default]
    Text,
    /// Comma-separated values with a header line.
    Csv,
    /// One JSON document.
    Json,
}

/// The definition of the command line.
pub fn command() -> clap::Command {
    getopt::pbs(QacctArgs::command())
}

/// Runs qacct.
pub fn main() -> ExitCode {
    exit::run("qacct", command, || {
        let Some(args) = getopt::read::<QacctArgs>(command)? else {
            return Ok(0);
        };
        let filter = args.filter(clock::wall())?;
        let mut feed = query::feed(|why| query::no_server(why, exit::NO_SERVER))?;
        let mut out = BufWriter::new(std::io::stdout().lock());
        let failures = args.write_report(filter, &mut feed, clock::wall(), &mut out)?;
        out.flush()?;
        Ok(query::report(&failures, "qacct", command))
    })
}

impl QacctArgs {
    /// The filter of accounting entries that the options specify.
    fn filter(&self, now: Wall) -> Result<AccountingFilter, Failure> {
        if !self.by.is_empty() && (self.list || !self.jobs.is_empty()) {
            return Err(Failure::usage(
                "--by cannot be combined with -j or --list, which show each attempt",
            ));
        }
        let from = moment(self.begin.as_deref(), now)?.map(|(from, _)| from);
        let to = moment(self.end.as_deref(), now)?.map(|(_, to)| to);
        if from.zip(to).is_some_and(|(from, to)| from >= to) {
            return Err(Failure::usage("-b must be before -e"));
        }
        let users = self
            .users
            .iter()
            .map(|name| name.split('@').next().unwrap_or_default());
        Ok(AccountingFilter {
            users: users.map(str::to_string).collect(),
            accounts: self.accounts.clone(),
            projects: self.projects.clone(),
            queues: self.queues.clone(),
            from,
            to,
        })
    }

    /// Writes the report; single entries are written as they arrive. Returns the failures of
    /// individual jobs.
    fn write_report(
        &self,
        filter: AccountingFilter,
        feed: &mut Feed,
        now: Wall,
        out: &mut dyn Write,
    ) -> Result<Vec<Failure>, Failure> {
        let format = self.format.unwrap_or_default();
        if self.list || !self.jobs.is_empty() {
            return self.write_entries(filter, format, feed, now, out);
        }
        let by = if self.by.is_empty() {
            vec![By::User]
        } else {
            self.by.clone()
        };
        let (from, to) = (filter.from, filter.to);
        let keys = by.iter().map(|by| by.key()).collect();
        let (mut sums, mut server) = (UsageSummary::new(by), None);
        feed(&Question::Accounts(Box::new(filter), keys), &mut |part| {
            match part {
                ClientAnswer::Server(facts) => server = Some(facts),
                ClientAnswer::Tallies(tallies) => sums.add(tallies),
                _ => return Err(exit::protocol_error()),
            }
            Ok(())
        })?;
        let server = server.ok_or_else(exit::protocol_error)?;
        sums.write(format, &preamble(&server, now), (from, to), out)?;
        Ok(Vec::new())
    }

    fn write_entries(
        &self,
        filter: AccountingFilter,
        format: AccountFormat,
        feed: &mut Feed,
        now: Wall,
        out: &mut dyn Write,
    ) -> Result<Vec<Failure>, Failure> {
        let server = query::whole(feed)(&Question::Server)?.server;
        let (named, mut failures) = self.parse_jobs(&server);
        let (all, mut wanted) = (self.jobs.is_empty(), JobFilter::new(named));
        let mut writer = entries::EntryWriter::begin(format, all, &preamble(&server, now), out);
        let ids = wanted.ids();
        if all || !ids.is_empty() {
            feed(&Question::Entries(Box::new(filter), ids), &mut |part| {
                let ClientAnswer::Entries(mut entries) = part else {
                    return Ok(());
                };
                entries.retain(|entry| all || wanted.mark(entry.job));
                writer.add(&entries)
            })?;
        }
        failures.extend(
            wanted
                .missing()
                .map(|operand| without_records(operand, &server)),
        );
        writer.end()?;
        Ok(failures)
    }

    /// The jobs of `-j`, and failures for the other operands.
    fn parse_jobs(&self, server: &ServerFacts) -> (Vec<Operand>, Vec<Failure>) {
        let (mut named, mut failures) = (Vec::new(), Vec::new());
        for word in &self.jobs {
            match Operand::parse(word) {
                Ok(operand) if operand.job(&server.name).is_some() => named.push(operand),
                Ok(operand) => failures.push(without_records(&operand, server)),
                Err(failure) => failures.push(failure),
            }
        }
        (named, failures)
    }
}

fn without_records(operand: &Operand, server: &ServerFacts) -> Failure {
    Failure::new(
        1,
        format!(
            "job {} has no matching accounting records",
            operand.full(&server.name)
        ),
    )
}

/// The time range that a value of `-b` or `-e` denotes; None without a value.
fn moment(text: Option<&str>, now: Wall) -> Result<Option<period::TimeRange>, Failure> {
    let Some(text) = text else { return Ok(None) };
    let clock = Local.timestamp_opt(now.0, 0).single();
    let range = clock.and_then(|clock| period::parse(text, &clock));
    range
        .map(Some)
        .ok_or_else(|| Failure::usage(format!("`{text}` is not a time: use {}", period::FORMS)))
}
