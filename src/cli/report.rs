//! Reports of the scheduler: `qstat --start`, `--holes`, `--why`, `--usage` and others, and
//! `qsub --dry-run`. Most of them query schedd even if the user owns the spool, because the spool
//! does not contain the answers.

use super::arguments::job_options;
use super::client::exit::{self, Failure};
use super::client::operand::Operand;
use super::client::source::QuerySource;
use super::output::attribute_output;
use super::output::job_selection::is_job_id;
use super::output::json::{Document, Preamble};
use crate::model::attribute::AttributeSetting;
use crate::model::job_id::JobId;
use crate::model::refusal::Refusal;
use crate::model::report::outlook::JobForecast;
use crate::model::time::{Time, Wall};
use crate::sys::clock;
use crate::sys::home::Home;
use crate::sys::process::random;
use crate::wire::ahead::{ForecastAnswer, ForecastQuery};
use crate::wire::client::Client;
use crate::wire::message::{
    ClientAnswer, ClientRequest, Detail, JobRecord, NewJob, Payload, Question, Reply, ServerFacts,
};
use clap::Args;
use serde_json::Value;
use std::ffi::OsString;
use std::io::Write;

mod accuracy;

pub mod advice;

mod cycles;

pub mod estimate;

mod holes;

mod limits;

mod priority;

mod resources;

mod shares;

mod fair_share;

mod starts;

pub mod dry_run;

pub mod efficiency;

pub mod scores;

mod usage;

mod why;

/// Heading of the report options in `qstat --help`.
pub const HEADING: &str = "Scheduler reports";

/// Options of qstat that show reports of the scheduler.
#[derive(Args, Clone, Debug, Default)]
pub struct ReportOptions {
    /// Why each of the given jobs waits, stage by stage, and when it is expected to start
    #[arg(long, help_heading = HEADING)]
    why: bool,
    /// When and where each waiting job is expected to start, as an estimated range if past jobs show
    /// how long such jobs run
    #[arg(long, help_heading = HEADING)]
    start: bool,
    /// Priority of each of the given jobs, the components of the priority, and the next jobs before
    /// and after the job; without job ids, the queue in order (100 jobs, or all jobs with -F json)
    #[arg(long, help_heading = HEADING)]
    priority: bool,
    /// Free resources that no planned start or reservation needs, and for how long they are free
    #[arg(long, help_heading = HEADING)]
    holes: bool,
    /// All active limits: scope, limited quantity, usage, the counted jobs, and the number of jobs
    /// that each limit blocks; with -u, limits of other users are omitted
    #[arg(id = "in_force", long = "limits", help_heading = HEADING)]
    limits: bool,
    /// Fair-share tree: entitlement and usage by account and user
    #[arg(long, help_heading = HEADING)]
    shares: bool,
    /// Usage by account and user, total and after decay
    #[arg(long, help_heading = HEADING)]
    usage: bool,
    /// Resources of the whole system, such as licenses: total, used by jobs, used outside this
    /// system, free, hosts, source and time of the last count
    #[arg(id = "of_the_system", long = "resources", help_heading = HEADING)]
    pools: bool,
    /// The last 1000 scheduling cycles, for operators: time, triggers, jobs considered, started and
    /// preempted, duration
    #[arg(long, help_heading = HEADING)]
    cycles: bool,
    /// How accurate estimates are: the run times of the jobs of the last 30 days, predicted from the
    /// jobs before them, compared with what happened
    #[arg(long, help_heading = HEADING)]
    accuracy: bool,
    /// With --why: show every obstacle at every stage, not only the first one
    #[arg(short = 'v', long, help_heading = HEADING)]
    verbose: bool,
    /// With --holes: search free resources for this request, with the syntax of qsub -l, such as
    /// select=... or place=... (default: one processor). Without --holes, -l before job ids is
    /// ignored, because TORQUE's option -l takes no value
    #[arg(short = 'l', value_name = "resource_list", help_heading = HEADING)]
    resources: Vec<OsString>,
}

impl ReportOptions {
    /// True if at least one report option is given, including `-v` and `-l`.
    pub fn any_given(&self) -> bool {
        self.views().contains(&true) || self.verbose || !self.resources.is_empty()
    }

    /// Removes and returns the job ids that `-l` consumed as its value; empty with `--holes`, or if
    /// a value is no job id. TORQUE's `-l` takes no value and requests full ids, which Lanai always
    /// prints.
    pub fn take_job_ids_of_l(&mut self) -> Vec<OsString> {
        let are_ids = !self.holes && self.resources.iter().all(|word| is_job_id(word));
        if are_ids {
            std::mem::take(&mut self.resources)
        } else {
            Vec::new()
        }
    }

    fn views(&self) -> [bool; 10] {
        [
            self.start,
            self.why,
            self.priority,
            self.holes,
            self.usage,
            self.shares,
            self.limits,
            self.cycles,
            self.pools,
            self.accuracy,
        ]
    }

    /// True if several reports are requested, or `-v` without `--why`, or `-l` without `--holes`.
    pub fn conflict(&self) -> bool {
        let views = self.views().iter().filter(|given| **given).count();
        views > 1 || (self.verbose && !self.why) || (!self.resources.is_empty() && !self.holes)
    }

    /// True if the report can be restricted to users.
    pub fn accept_users(&self) -> bool {
        self.limits
    }

    /// Writes the report, restricted to `users` if given. Returns the failures of individual
    /// operands.
    pub fn write(
        &self,
        operands: &[OsString],
        users: Option<&str>,
        json: bool,
        out: &mut dyn Write,
    ) -> Result<Vec<Failure>, Failure> {
        let without_operands = [
            (self.holes, "--holes"),
            (self.usage, "--usage"),
            (self.shares, "--shares"),
            (self.limits, "--limits"),
            (self.cycles, "--cycles"),
            (self.pools, "--resources"),
            (self.accuracy, "--accuracy"),
        ];
        if let Some((_, option)) = without_operands
            .iter()
            .find(|(given, _)| *given && !operands.is_empty())
        {
            return Err(Failure::usage(format!("{option} takes no operands")));
        }
        if self.cycles {
            return write_report(out, cycles::report(json)?, Vec::new());
        }
        let mut context = ReportContext::open()?;
        if self.usage {
            return write_report(out, usage::report(&mut context, json)?, Vec::new());
        }
        if self.shares {
            return write_report(out, shares::report(&mut context, json)?, Vec::new());
        }
        if self.accuracy {
            return write_report(out, accuracy::report(&mut context, json)?, Vec::new());
        }
        if self.limits {
            return write_report(out, limits::report(&mut context, users, json)?, Vec::new());
        }
        if self.pools {
            return write_report(out, resources::report(&mut context, json)?, Vec::new());
        }
        if self.priority && operands.is_empty() {
            return priority::queue(&mut context, json, out).map(|()| Vec::new());
        }
        if self.holes {
            let windows = context.ask(ForecastQuery::Windows(Box::new(trial_job(
                &self.resources,
            )?)))?;
            let text = holes::report(&context, &windows, &self.resources, json)?;
            return write_report(out, text, Vec::new());
        }
        let (ids, mut failures) = context.parse_ids(operands);
        if ids.is_empty() && (self.why || !operands.is_empty()) {
            if operands.is_empty() {
                failures.push(Failure::usage("--why requires job ids"));
            }
            return Ok(failures);
        }
        let text = if self.why {
            why::report(&mut context, &ids, json, self.verbose, &mut failures)?
        } else if self.priority {
            priority::report(&mut context, &ids, json, &mut failures)?
        } else {
            starts::report(&mut context, &ids, json, &mut failures)?
        };
        write_report(out, text, failures)
    }
}

fn write_report(
    out: &mut dyn Write,
    text: Vec<u8>,
    mut failures: Vec<Failure>,
) -> Result<Vec<Failure>, Failure> {
    failures.extend(out.write_all(&text).err().map(Failure::from));
    Ok(failures)
}

/// A job with the request of `--holes`, for which schedd searches free resources. The job is never
/// submitted.
fn trial_job(resources: &[OsString]) -> Result<NewJob, Failure> {
    let job = job_options::JobOptions {
        resources: resources.to_vec(),
        ..Default::default()
    };
    let place = job_options::SubmissionPlace {
        workdir: "/".as_ref(),
        host: "",
        now: clock::wall(),
        host_exists: |_| false,
    };
    let mut settings = job.settings(&place)?;
    settings.push(AttributeSetting::new("Job_Name", "holes"));
    Ok(NewJob {
        token: random()?,
        settings,
        payload: Payload::Command(vec!["true".into()]),
        environ: Vec::new(),
        inherited: Vec::new(),
        workdir: "/".into(),
        submit_host: String::new(),
        arguments: "".into(),
        defaults: String::new(),
        stored: None,
    })
}

/// Connections to schedd, and to the spool for questions that the spool can answer.
struct ReportContext {
    client: Client,
    source: QuerySource,
    server: ServerFacts,
    now: Wall,
}

/// The explanations of `qstat --why` as text. Unknown jobs are added to the failures.
pub fn explain(
    ids: &[JobId],
    verbose: bool,
    failures: &mut Vec<Failure>,
) -> Result<Vec<u8>, Failure> {
    why::report(&mut ReportContext::open()?, ids, false, verbose, failures)
}

/// The explanations of `qstat --why` as JSON objects, each with the job's id. Unknown jobs are added
/// to the failures.
pub fn explanations(ids: &[JobId], failures: &mut Vec<Failure>) -> Result<Vec<Value>, Failure> {
    why::data(&mut ReportContext::open()?, ids, failures)
}

/// The forecasts for these waiting jobs. Fails if schedd does not answer.
pub fn forecasts(ids: &[JobId]) -> Result<Vec<JobForecast>, Failure> {
    let answers = ReportContext::open()?.ask(ForecastQuery::Starts(ids.to_vec()))?;
    Ok(answers.into_iter().flat_map(starts::parts).collect())
}

impl ReportContext {
    fn open() -> Result<ReportContext, Failure> {
        let home = Home::find()?;
        let client = Client::connect(&home)?;
        let mut source = QuerySource::open(&home)?;
        let server = source.ask(&Question::Server)?.server;
        Ok(ReportContext {
            client,
            source,
            server,
            now: clock::wall(),
        })
    }

    fn ask(&mut self, query: ForecastQuery) -> Result<Vec<ForecastAnswer>, Failure> {
        ask(&mut self.client, query).map(|(_, answers)| answers)
    }

    /// The job ids that the operands name, and failures for the other operands.
    fn parse_ids(&self, words: &[OsString]) -> (Vec<JobId>, Vec<Failure>) {
        let (mut ids, mut failures) = (Vec::new(), Vec::new());
        for word in words {
            let operand = match Operand::parse(word) {
                Ok(operand) => operand,
                Err(failure) => {
                    failures.push(failure);
                    continue;
                }
            };
            match operand.job(&self.server.name) {
                Some(id) => ids.push(id),
                None => failures.push(unknown_job(&operand.full(&self.server.name))),
            }
        }
        (ids, failures)
    }

    /// Sends a query and passes each part of the answer to `each`.
    fn parts(
        &mut self,
        query: ForecastQuery,
        each: &mut dyn FnMut(&ReportContext, ForecastAnswer) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let mut reply = self
            .client
            .call(&ClientRequest::Ask(Question::Ahead(query)))?;
        loop {
            match reply {
                Reply::Part(ClientAnswer::Server(_)) => {}
                Reply::Part(ClientAnswer::Ahead(part)) => each(self, part)?,
                Reply::Done => return Ok(()),
                Reply::Refused(refusal) => return Err(refusal.into()),
                _ => return Err(exit::protocol_error()),
            }
            reply = self.client.reply()?;
        }
    }

    fn records(&mut self, ids: &[JobId]) -> Result<Vec<JobRecord>, Failure> {
        Ok(self
            .source
            .ask(&Question::JobsById(ids.to_vec(), Detail::Whole))?
            .jobs)
    }

    fn unknown(&self, id: JobId) -> Failure {
        unknown_job(&id.full(&self.server.name))
    }

    fn wall(&self, time: Time) -> Wall {
        self.server.clock.wall(time)
    }

    fn preamble(&self) -> Preamble<'_> {
        attribute_output::preamble(&self.server, self.now)
    }

    fn document(&self) -> Document {
        Document::begin(&self.preamble())
    }
}

fn unknown_job(id: &str) -> Failure {
    Failure::of_job("qstat", &Refusal::unknown_job(), id)
}

/// Sends a query to schedd. Returns the server facts, if sent, and the parts of the answer.
pub(super) fn ask(
    client: &mut Client,
    query: ForecastQuery,
) -> Result<(Option<ServerFacts>, Vec<ForecastAnswer>), Failure> {
    let (mut server, mut answers) = (None, Vec::new());
    let mut reply = client.call(&ClientRequest::Ask(Question::Ahead(query)))?;
    loop {
        match reply {
            Reply::Part(ClientAnswer::Server(facts)) => server = Some(*facts),
            Reply::Part(ClientAnswer::Ahead(part)) => answers.push(part),
            Reply::Done => return Ok((server, answers)),
            Reply::Refused(refusal) => return Err(refusal.into()),
            _ => return Err(exit::protocol_error()),
        }
        reply = client.reply()?;
    }
}

/// A count with a noun: `3 jobs`, `1 job`.
fn counted(count: u64, noun: &str) -> String {
    if count == 1 {
        format!("1 {noun}")
    } else {
        format!("{count} {noun}s")
    }
}

/// The first 8 names and the number of further names, as `n1,n2 and 5 more`.
fn nodes(names: &[String]) -> String {
    const MOST: usize = 8;
    let named = names
        .iter()
        .take(MOST)
        .map(String::as_str)
        .collect::<Vec<_>>()
        .join(",");
    match names.len().saturating_sub(MOST) {
        0 => named,
        more => format!("{named} and {more} more"),
    }
}
