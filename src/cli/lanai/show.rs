//! `lanai show`: all facts about jobs, in the words of the other subcommands.

use super::document;
use super::filter::JobFilter;
use super::job_view::JobView;
use super::relative_time::{duration, relative};
use super::session::{OutputOptions, Session};
use super::status;
use super::table::printable;
use crate::cli::client::exit::{self, Failure};
use crate::cli::client::query;
use crate::model::time::Wall;
use crate::shown::timestamp;
use crate::wire::message::Arrays;
use clap::Args;
use std::ffi::OsString;

/// Options of `lanai show`.
#[derive(Args, Clone, Debug, Default)]
pub struct ShowArgs {
    /// Job ids and conditions, such as state=failed name=sim*
    #[arg(value_name = "FILTER", required = true)]
    pub filter: Vec<OsString>,
}

impl ShowArgs {
    /// Runs the subcommand.
    pub fn run(&self, output: &OutputOptions) -> Result<u8, Failure> {
        let mut session = Session::open()?;
        let filter = JobFilter::parse(&self.filter, &session.filter_context())?;
        let found = session.jobs(&filter, Arrays::Folded)?;
        let jobs: Vec<JobView> = found.views().collect();
        if output.json {
            exit::print(document::jobs(&jobs, &found.server, found.now))?;
        } else {
            let texts: Vec<String> = jobs.iter().map(text).collect();
            exit::print(texts.join("\n"))?;
        }
        Ok(query::report(&found.failures, "lanai", super::command))
    }
}

/// A line `Key: value` for each known fact.
pub fn text(job: &JobView) -> String {
    let job_record = &job.record.job;
    let (spec, life) = (&job_record.spec, &job_record.life);
    let now = job.now;
    let moment = |at: Wall| {
        format!(
            "{} ({})",
            timestamp::day_and_time(at, now),
            relative(at, now)
        )
    };
    let requested: Vec<String> = spec
        .request
        .list
        .iter()
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    let tags: Vec<String> = job
        .tags()
        .iter()
        .map(|(key, value)| format!("{key}={value}"))
        .collect();
    let facts = [
        ("Name", Some(spec.name.clone())),
        ("User", Some(job_record.owner.user.clone())),
        ("Queue", Some(spec.queue.clone())),
        ("State", Some(job.status().word().to_string())),
        ("Detail", Some(job.detail())),
        ("Exit status", job.exit_status().map(status::exit_text)),
        ("Submitted", Some(moment(job.submitted()))),
        ("Started", job.started().map(moment)),
        ("Ended", job.ended().map(moment)),
        ("Waited", Some(duration(job.waited()))),
        ("Elapsed", job.elapsed().map(duration)),
        (
            "Starts",
            (life.run_count > 1).then(|| life.run_count.to_string()),
        ),
        ("Requested", Some(requested.join(" "))),
        ("Used", (life.run_count > 0).then(|| used(job))),
        ("Nodes", Some(job.nodes().join(" "))),
        ("Account", spec.account.clone()),
        ("Tags", Some(tags.join(" "))),
        (
            "Directory",
            Some(String::from_utf8_lossy(&spec.workdir.0).into_owned()),
        ),
        ("Command", job.command()),
        (
            "Arguments of qsub",
            Some(String::from_utf8_lossy(&spec.arguments.0).into_owned()),
        ),
    ];
    let mut text = format!("Job {}\n", job_record.id.full(&job.server.name));
    for (name, value) in facts {
        if let Some(value) = value.filter(|value| !value.is_empty()) {
            text.push_str(&format!("  {name}: {}\n", printable(&value)));
        }
    }
    text
}

fn used(job: &JobView) -> String {
    let used = &job.record.job.life.used;
    format!(
        "{} of processor time, {} MiB of memory",
        duration(used.cput),
        used.mem_kb.div_ceil(1024)
    )
}
