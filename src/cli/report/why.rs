//! `qstat --why`: why a job waits. Shows the reason with its remedies, the verdicts of the
//! scheduling stages, the state of the nodes, the blocking jobs, and the predicted start.
//! Corresponds to Maui's `checkjob`.

mod json;

mod closed_nodes;

mod obstacles;

mod steps;

mod text;

mod sentences;

use super::ReportContext;
use crate::cli::client::exit::{self, Failure};
use crate::model::job::event::Event;
use crate::model::job::state::JobState;
use crate::model::job_id::JobId;
use crate::model::node::Node;
use crate::model::report::outlook::Explanation;
use crate::model::time::{Time, Wall};
use crate::shown::attributes::{AttributeDisplay, Attributes};
use crate::shown::timestamp;
use crate::wire::ahead::{ForecastAnswer, ForecastQuery};
use crate::wire::message::{JobRecord, Question, ServerFacts};
use serde_json::Value;

/// Explains why the jobs `ids` wait, as text or JSON. For a job that does not wait, the text gives
/// only the state. With `verbose`, the text lists the obstacles at all stages. Unknown jobs are
/// added to the failures.
pub fn report(
    context: &mut ReportContext,
    ids: &[JobId],
    json: bool,
    verbose: bool,
    failures: &mut Vec<Failure>,
) -> Result<Vec<u8>, Failure> {
    let mut found = Vec::new();
    for &id in ids {
        match ExplainedJob::ask(context, id)? {
            Some(job) => found.push(job),
            None => failures.push(context.unknown(id)),
        }
    }
    let views = found.iter().map(|found| JobView {
        server: &context.server,
        now: context.now,
        found,
    });
    if !json {
        return Ok(views
            .map(|view| view.text(verbose))
            .collect::<Vec<_>>()
            .join("\n")
            .into_bytes());
    }
    let mut document = context.document();
    for view in views {
        let mut attributes = Attributes::default();
        attributes.add("why", AttributeDisplay::Data(view.data()));
        document.add_object("Jobs", &view.id(view.found.record.job.id), &attributes);
    }
    Ok(document.end())
}

/// The explanations of the jobs `ids` as JSON objects. Unknown jobs are added to the failures.
pub fn data(
    context: &mut ReportContext,
    ids: &[JobId],
    failures: &mut Vec<Failure>,
) -> Result<Vec<Value>, Failure> {
    let mut explanations = Vec::new();
    for &id in ids {
        let Some(found) = &ExplainedJob::ask(context, id)? else {
            failures.push(context.unknown(id));
            continue;
        };
        let view = JobView {
            server: &context.server,
            now: context.now,
            found,
        };
        let mut data = view.data();
        data["job"] = view.id(id).into();
        explanations.push(data);
    }
    Ok(explanations)
}

/// A job with its events and explanation.
struct ExplainedJob {
    record: JobRecord,
    events: Vec<(Time, Event)>,
    /// None if neither the job nor any of its subjobs is held or waits, or if the scheduler has not
    /// considered the job yet. The explanation of a held job assumes that the job is released now.
    explanation: Option<Box<Explanation>>,
    /// Nodes that accept no jobs, of those that the explanation names.
    closed: Vec<Node>,
}

impl ExplainedJob {
    /// Queries the record and the events of a job, and its explanation from schedd. None if the job
    /// is unknown.
    fn ask(context: &mut ReportContext, id: JobId) -> Result<Option<ExplainedJob>, Failure> {
        let answers = context.source.ask(&Question::Trace(id))?;
        let Some(record) = answers.jobs.into_iter().next() else {
            return Ok(None);
        };
        match context.ask(ForecastQuery::Why(id))?.into_iter().next() {
            Some(ForecastAnswer::Explained(explanation)) => Ok(Some(ExplainedJob {
                record,
                events: answers.events,
                closed: closed_nodes::ask(context, explanation.as_deref())?,
                explanation,
            })),
            _ => Err(exit::protocol_error()),
        }
    }
}

/// An explained job, with the server and the current time.
struct JobView<'a> {
    server: &'a ServerFacts,
    now: Wall,
    found: &'a ExplainedJob,
}

impl JobView<'_> {
    fn state(&self) -> JobState {
        self.found.record.job.life.state
    }

    /// True if the job is queued, held or waiting for its begin time, or if some subjobs of a begun
    /// array wait.
    fn waits(&self) -> bool {
        match self.state() {
            JobState::Queued | JobState::Held | JobState::Waiting => true,
            JobState::Begun => self.found.explanation.is_some(),
            _ => false,
        }
    }

    fn wall(&self, time: Time) -> Wall {
        self.server.clock.wall(time)
    }

    fn moment(&self, time: Time) -> String {
        timestamp::ctime(self.wall(time)).to_string()
    }

    fn id(&self, job: JobId) -> String {
        job.full(&self.server.name)
    }
}

#[cfg(test)]
pub mod tests;
