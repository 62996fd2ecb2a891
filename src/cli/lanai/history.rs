//! `lanai history`: finished jobs, the latest first.

use super::filter::JobFilter;
use super::list::TableOptions;
use super::session::{OutputOptions, Session};
use crate::cli::client::exit::Failure;
use clap::Args;
use std::ffi::OsString;

const COLUMNS: &str = "id,name,queue,state,end,waited,elapsed,ended";

/// The period without a condition on it.
const PERIOD: &str = "7d";

/// Options of `lanai history`.
#[derive(Args, Clone, Debug, Default)]
pub struct HistoryArgs {
    /// Jobs of all users
    #[arg(short = 'a', long)]
    pub all: bool,
    /// Show at most this number of jobs
    #[arg(short = 'n', long, value_name = "COUNT")]
    pub limit: Option<usize>,
    /// Jobs that ended in this period (default 7d)
    #[arg(long, value_name = "TIME")]
    pub since: Option<String>,
    /// Options of all tables of jobs.
    #[command(flatten)]
    pub table: TableOptions,
    /// Job ids and conditions, such as state=failed name=sim*
    #[arg(value_name = "FILTER")]
    pub filter: Vec<OsString>,
}

impl HistoryArgs {
    /// Runs the subcommand.
    pub fn run(&self, output: &OutputOptions) -> Result<u8, Failure> {
        let mut session = Session::open()?;
        let context = session.filter_context();
        let mut filter = JobFilter::parse(&self.filter, &context)?;
        filter.require("state", "finished", &context)?;
        if filter.ids.is_empty() {
            match &self.since {
                Some(since) => filter.require("since", since, &context)?,
                None if !filter.restricts_period() => filter.require("since", PERIOD, &context)?,
                None => {}
            }
            if !self.all && !filter.restricts_owner() {
                filter.require("user", "me", &context)?;
            }
        }
        let mut found = session.jobs(&filter, self.table.arrays())?;
        found
            .records
            .sort_by_key(|record| std::cmp::Reverse(record.job.life.obittime));
        found.records.truncate(self.limit.unwrap_or(usize::MAX));
        self.table
            .print(&found, COLUMNS, output, "No finished jobs match.")
    }
}
