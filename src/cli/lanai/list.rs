//! `lanai list`: jobs in a table.

use super::columns::{self, Column};
use super::document;
use super::filter::JobFilter;
use super::job_view::JobView;
use super::session::{FoundJobs, OutputOptions, Session};
use super::status::JobStatus;
use crate::cli::client::exit::{self, Failure};
use crate::cli::client::query;
use crate::wire::message::Arrays;
use clap::Args;
use std::ffi::OsString;

/// Options of all tables of jobs.
#[derive(Args, Clone, Debug, Default)]
pub struct TableOptions {
    /// Columns, such as id,name,state
    #[arg(short = 'o', long, value_name = "COLUMNS")]
    pub columns: Option<String>,
    /// Sort by these columns; a minus sign before a column reverses its order
    #[arg(long, value_name = "COLUMNS", allow_hyphen_values = true)]
    pub sort: Option<String>,
    /// Show the subjobs of arrays
    #[arg(short = 't', long)]
    pub subjobs: bool,
}

impl TableOptions {
    /// Whether arrays are listed with their subjobs.
    pub fn arrays(&self) -> Arrays {
        Arrays::shown(false, self.subjobs)
    }

    /// Prints jobs as a table or as JSON, and the failures. Returns the exit status.
    pub fn print(
        &self,
        found: &FoundJobs,
        default_columns: &str,
        output: &OutputOptions,
        empty: &str,
    ) -> Result<u8, Failure> {
        let mut jobs: Vec<JobView> = found.views().collect();
        if let Some(keys) = &self.sort {
            columns::sort(&mut jobs, keys)?;
        }
        let columns = columns::parse(self.columns.as_deref().unwrap_or(default_columns))?;
        if output.json {
            exit::print(document::jobs(&jobs, &found.server, found.now))?;
        } else if jobs.is_empty() {
            if found.failures.is_empty() {
                exit::print(format!("{empty}\n"))?;
            }
        } else {
            exit::print(text(&jobs, &columns, output))?;
        }
        Ok(query::report(&found.failures, "lanai", super::command))
    }
}

fn text(jobs: &[JobView], columns: &[&Column], output: &OutputOptions) -> String {
    let table = columns::table(jobs, columns, output.width(), output.has_color());
    format!("{table}{}\n", summary(jobs))
}

/// The number of jobs in each state: `12 jobs: 3 running, 9 queued`.
pub fn summary(jobs: &[JobView]) -> String {
    let mut parts = Vec::new();
    for status in JobStatus::ALL {
        let count = jobs.iter().filter(|job| job.status() == status).count();
        if count > 0 {
            parts.push(format!("{count} {}", status.word()));
        }
    }
    let noun = if jobs.len() == 1 { "job" } else { "jobs" };
    format!("{} {noun}: {}", jobs.len(), parts.join(", "))
}

/// The columns if all jobs have the same owner.
pub const OWN_COLUMNS: &str = "id,name,queue,state,cpus,elapsed,walltime,detail";

/// The columns for jobs of several users.
const ALL_COLUMNS: &str = "id,name,user,queue,state,cpus,elapsed,walltime,detail";

/// Options of `lanai list`.
#[derive(Args, Clone, Debug, Default)]
pub struct ListArgs {
    /// Jobs of all users
    #[arg(short = 'a', long)]
    pub all: bool,
    /// Options of all tables of jobs.
    #[command(flatten)]
    pub table: TableOptions,
    /// Job ids and conditions, such as state=failed name=sim* since=1d
    #[arg(value_name = "FILTER")]
    pub filter: Vec<OsString>,
}

impl ListArgs {
    /// Runs the subcommand.
    pub fn run(&self, output: &OutputOptions) -> Result<u8, Failure> {
        let mut session = Session::open()?;
        let context = session.filter_context();
        let mut filter = JobFilter::parse(&self.filter, &context)?;
        if filter.ids.is_empty() && !filter.restricts_state() {
            filter.require("state", "unfinished", &context)?;
        }
        let is_own = !self.all && filter.ids.is_empty() && !filter.restricts_owner();
        if is_own {
            filter.require("user", "me", &context)?;
        }
        let found = session.jobs(&filter, self.table.arrays())?;
        let columns = if is_own { OWN_COLUMNS } else { ALL_COLUMNS };
        self.table.print(&found, columns, output, "No jobs match.")
    }
}
