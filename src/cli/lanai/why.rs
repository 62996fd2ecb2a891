//! `lanai why`: why jobs wait. With job ids, the explanation of `qstat --why`; otherwise a table of
//! the caller's waiting jobs with their reasons.

use super::document;
use super::explanation;
use super::filter::JobFilter;
use super::list::TableOptions;
use super::session::{OutputOptions, Session};
use crate::cli::client::exit::{self, Failure};
use crate::cli::client::query;
use crate::cli::report;
use crate::model::job_id::JobId;
use crate::wire::message::Arrays;
use clap::Args;
use serde_json::{Value, json};
use std::ffi::OsString;

const COLUMNS: &str = "id,name,state,waited,cpus,detail";

/// Options of `lanai why`.
#[derive(Args, Clone, Debug, Default)]
pub struct WhyArgs {
    /// Show every obstacle at every stage, not only the first one
    #[arg(short = 'v', long)]
    pub verbose: bool,
    /// Job ids and conditions; without them, a list of your waiting jobs
    #[arg(value_name = "FILTER")]
    pub filter: Vec<OsString>,
}

impl WhyArgs {
    /// Runs the subcommand.
    pub fn run(&self, output: &OutputOptions) -> Result<u8, Failure> {
        let mut session = Session::open()?;
        let context = session.filter_context();
        let mut filter = JobFilter::parse(&self.filter, &context)?;
        if filter.ids.is_empty() {
            filter.require("state", "pending", &context)?;
            if !filter.restricts_owner() {
                filter.require("user", "me", &context)?;
            }
        }
        let found = session.jobs(&filter, Arrays::Folded)?;
        if self.filter.is_empty() && !output.json {
            let table = TableOptions::default();
            let code = table.print(&found, COLUMNS, output, "None of your jobs waits.")?;
            if let Some(first) = found.records.first() {
                exit::print(format!("For more: lanai why {}\n", first.job.id))?;
            }
            return Ok(code);
        }
        let ids: Vec<JobId> = found.records.iter().map(|record| record.job.id).collect();
        let mut failures = found.failures.clone();
        if output.json {
            let explanations: Vec<Value> = report::explanations(&ids, &mut failures)?
                .iter()
                .map(explanation::data)
                .collect();
            let content = json!({ "explanations": explanations });
            exit::print(document::document(
                "explanations",
                &found.server,
                found.now,
                content,
            ))?;
        } else {
            exit::print(report::explain(&ids, self.verbose, &mut failures)?)?;
        }
        Ok(query::report(&failures, "lanai", super::command))
    }
}
