//! `lanai retry`: runs failed and deleted jobs again.

use super::action::{self, Action, ActionOptions, Selection};
use super::job_view::JobView;
use super::session::{OutputOptions, Session};
use super::status::JobStatus;
use crate::cli::arguments::job_options;
use crate::cli::client::exit::Failure;
use crate::model::attribute::AttributeSetting;
use crate::wire::batch::Act;
use clap::Args;
use std::ffi::OsString;

/// The period without ids and without a condition on it.
const PERIOD: &str = "7d";

/// Options of `lanai retry`.
#[derive(Args, Clone, Debug, Default)]
pub struct RetryArgs {
    /// Jobs that failed, but not deleted jobs
    #[arg(long)]
    pub failed: bool,
    /// Jobs that ended in this period (default 7d)
    #[arg(long, value_name = "TIME")]
    pub since: Option<String>,
    /// Change requested resources of the jobs, as qalter -l does: mem=8gb,walltime=4:00:00
    #[arg(short = 'l', value_name = "RESOURCES")]
    pub resources: Vec<OsString>,
    /// Options of all subcommands that change jobs.
    #[command(flatten)]
    pub options: ActionOptions,
}

impl RetryArgs {
    /// Runs the subcommand.
    pub fn run(&self, output: &OutputOptions) -> Result<u8, Failure> {
        let mut settings = Vec::new();
        for list in &self.resources {
            settings.extend(job_options::resource_list(list)?);
        }
        let mut session = Session::open()?;
        let mut selection = Selection::new(&self.options, &session)?;
        if selection.is_empty() && !self.failed {
            let examples = ["12", "--failed", "--failed --name 'sim*' -l mem=8gb"];
            return Err(action::nothing_selected("retry", &examples));
        }
        match &self.since {
            Some(since) => selection.require("since", since, &session)?,
            None if selection.has_ids() || selection.restricts_period() => {}
            None => selection.require("since", PERIOD, &session)?,
        }
        let action = Action {
            name: "retry",
            past: "Retried",
            hint: "",
            choose: &|job| retry(job, self.failed, &settings),
        };
        action.run(selection, &self.options, &mut session, output)
    }
}

/// The request for a job. Of an unfinished array, and with `--failed`, only the failed subjobs run
/// again.
fn retry(job: &JobView, failed: bool, settings: &[AttributeSetting]) -> Result<Act, String> {
    let status = job.status();
    let again = match settings {
        [] => Act::Retry,
        settings => Act::RetryWith(settings.to_vec()),
    };
    let failures = job.counts().map(|counts| counts.failed);
    if let Some(failures) = failures.filter(|_| failed || !status.is_finished()) {
        return match failures {
            0 => Err("no subjob of the array has failed".into()),
            _ if settings.is_empty() => Ok(Act::RerunFailed),
            _ => Ok(again),
        };
    }
    match status {
        JobStatus::Failed => Ok(again),
        JobStatus::Deleted if failed => Err("the job was deleted".into()),
        JobStatus::Deleted => Ok(again),
        JobStatus::Done => Err("the job ended with exit status 0".into()),
        _ => Err("the job has not finished".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::example::{self, array, finished, queued, running, share};
    use crate::model::job::array::SubjobState;
    use crate::wire::message::JobRecord;
    use std::sync::Arc;

    fn act(record: &JobRecord, failed: bool) -> Result<Act, String> {
        let server = example::server();
        let view = JobView {
            record,
            server: &server,
            now: example::NOW,
        };
        retry(&view, failed, &[])
    }

    #[test]
    fn only_failed_and_deleted_jobs_are_retried() {
        let waits = queued(1, "a", "");
        let runs = running(waits.clone(), vec![share(1, None)]);
        let mut part = array(waits.clone(), "1-3");
        assert_eq!(act(&finished(runs.clone(), 3, false), true), Ok(Act::Retry));
        let deleted = finished(runs.clone(), 271, true);
        assert_eq!(act(&deleted, false), Ok(Act::Retry));
        assert!(act(&deleted, true).is_err());
        for record in [&waits, &runs, &part, &finished(runs.clone(), 0, false)] {
            assert!(act(record, false).is_err());
        }
        let elements = part.job.elements.as_mut().map(Arc::make_mut).unwrap();
        elements.mark(1, 1, SubjobState::Ended(3));
        assert_eq!(act(&part, true), Ok(Act::RerunFailed));
    }
}
