//! Requests about one job and forecasts, each in a thread of its own, so that the display does not
//! wait for them.

use crate::cli::client::exit::{self, Failure};
use crate::cli::report;
use crate::model::job::state::Holds;
use crate::model::job_id::JobId;
use crate::model::report::outlook::JobForecast;
use crate::model::time::Span;
use crate::sys::home::Home;
use crate::sys::program::ProgramCall;
use crate::sys::{clock, env};
use crate::wire::ahead::{ForecastAnswer, ForecastQuery};
use crate::wire::batch::Act;
use crate::wire::client::Client;
use crate::wire::message::Reply;

/// The number of displayed lines of a job's output.
const LOG_LINES: &str = "100";

/// The time limit for reading a job's output.
const LOG_TIMEOUT: Span = Span::seconds(20);

/// A change of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobAction {
    /// Sets a user hold.
    Hold,
    /// Releases a user hold.
    Release,
    /// Deletes the job.
    Cancel,
}

/// A request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Task {
    /// Explains why the job waits.
    Explain(JobId),
    /// Reads the end of the job's output.
    Log(JobId),
    /// Changes the job.
    Act(JobAction, JobId),
    /// Predicts the starts of all waiting jobs.
    Starts,
}

/// The result of a [`Task`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TaskResult {
    /// The explanation, or why there is none.
    Explained(JobId, String),
    /// The end of the job's output, or why it cannot be displayed.
    Log(JobId, String),
    /// Whether the change succeeded; otherwise the reason.
    Acted(JobAction, JobId, Result<(), String>),
    /// The predicted starts.
    Starts(Vec<JobForecast>),
}

impl Task {
    /// Executes the request.
    pub fn run(self, home: &Home) -> TaskResult {
        match self {
            Task::Explain(job) => TaskResult::Explained(job, explain(job)),
            Task::Log(job) => TaskResult::Log(job, log(job)),
            Task::Act(action, job) => {
                let outcome = act(home, action, job).map_err(|failure| text_of(&failure));
                TaskResult::Acted(action, job, outcome)
            }
            Task::Starts => TaskResult::Starts(starts(home).unwrap_or_default()),
        }
    }
}

fn text_of(failure: &Failure) -> String {
    failure.text.lines().collect::<Vec<_>>().join(" ")
}

fn explain(job: JobId) -> String {
    let mut failures = Vec::new();
    match report::explain(&[job], false, &mut failures) {
        Err(failure) => text_of(&failure),
        Ok(_) if !failures.is_empty() => text_of(&failures[0]),
        Ok(text) => String::from_utf8_lossy(&text).into_owned(),
    }
}

fn act(home: &Home, action: JobAction, job: JobId) -> Result<(), Failure> {
    let act = match action {
        JobAction::Hold => Act::Hold(Holds::USER),
        JobAction::Release => Act::Release(Holds::USER),
        JobAction::Cancel => Act::Delete {
            force: false,
            purge: false,
        },
    };
    match Client::connect(home)?.call(&act.on(job, None))? {
        Reply::Done | Reply::Noted(_) => Ok(()),
        Reply::Refused(refusal) => Err(Failure::of_job("lanai", &refusal, &job.to_string())),
        _ => Err(exit::protocol_error()),
    }
}

fn starts(home: &Home) -> Result<Vec<JobForecast>, Failure> {
    let query = ForecastQuery::Starts(Vec::new());
    let (_, answers) = report::ask(&mut Client::connect(home)?, query)?;
    let forecasts = answers.into_iter().filter_map(|answer| match answer {
        ForecastAnswer::JobForecast(forecasts) => Some(forecasts),
        _ => None,
    });
    Ok(forecasts.flatten().collect())
}

/// The output of `lanai log`, which finds the output files.
fn log(job: JobId) -> String {
    let program = match env::program() {
        Ok(program) => program.to_string_lossy().into_owned(),
        Err(error) => return error.to_string(),
    };
    let words = [&program, "log", "-n", LOG_LINES, &job.to_string()].map(String::from);
    let call = ProgramCall::new(&words, LOG_TIMEOUT);
    let result = match call.start(clock::monotonic()) {
        Ok(mut running) => running.wait(),
        Err(error) => return format!("{program}: {error}"),
    };
    match result.exit {
        Ok(exit) if exit.status == Some(0) && exit.text.is_empty() => {
            format!("Job {job} has no output yet.")
        }
        Ok(exit) if exit.status == Some(0) => exit.text,
        Ok(exit) => result
            .complaint
            .unwrap_or_else(|| format!("lanai log ended with exit status {:?}", exit.status)),
        Err(fault) => format!("lanai log: {fault}"),
    }
}
