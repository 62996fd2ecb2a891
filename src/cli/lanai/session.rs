//! What every subcommand of `lanai` uses: output options, the installation, and the jobs that match
//! a filter.

use super::filter::{FilterContext, JobFilter};
use super::job_view::JobView;
use crate::cli::client::exit::Failure;
use crate::cli::client::source::{Answers, QuerySource};
use crate::model::job_id::JobId;
use crate::model::refusal::Refusal;
use crate::model::time::Wall;
use crate::shown::timestamp;
use crate::sys::home::Home;
use crate::sys::{clock, env, terminal, user};
use crate::wire::message::{Arrays, Detail, Filter, History, JobRecord, Question, ServerFacts};
use clap::{Args, ValueEnum};
use std::io::{IsTerminal, stdout};

/// Options of all subcommands.
#[derive(Args, Clone, Debug, Default)]
pub struct OutputOptions {
    /// Print JSON instead of text
    #[arg(long, global = true)]
    pub json: bool,
    /// When to use colors
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto")]
    pub color: ColorChoice,
}

/// When to use colors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum ColorChoice {
    /// On a terminal, unless NO_COLOR is set
    #[default]
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

impl OutputOptions {
    /// Tests whether the output on standard output has colors.
    pub fn has_color(&self) -> bool {
        match self.color {
            ColorChoice::Always => true,
            ColorChoice::Never => false,
            ColorChoice::Auto => {
                let no_color = env::var("NO_COLOR").is_some_and(|value| !value.is_empty());
                stdout().is_terminal() && !no_color
            }
        }
    }

    /// The width of the terminal at standard output; None without a terminal.
    pub fn width(&self) -> Option<u16> {
        stdout()
            .is_terminal()
            .then(|| terminal::window(stdout()).map_or(80, |size| size.columns))
    }
}

/// A connection to this installation, for one run of lanai.
pub struct Session {
    /// The installation.
    pub home: Home,
    /// The source of answers.
    pub source: QuerySource,
    /// The current time.
    pub now: Wall,
    /// The caller's user name.
    pub user: String,
}

/// Jobs that match a filter.
#[derive(Debug)]
pub struct FoundJobs {
    /// The server.
    pub server: ServerFacts,
    /// The current time.
    pub now: Wall,
    /// The jobs, in the order of their ids, or of the ids in the filter.
    pub records: Vec<JobRecord>,
    /// Failures for unknown jobs.
    pub failures: Vec<Failure>,
}

impl FoundJobs {
    /// The jobs with the facts for their display.
    pub fn views(&self) -> impl Iterator<Item = JobView<'_>> {
        self.records.iter().map(|record| JobView {
            record,
            server: &self.server,
            now: self.now,
        })
    }
}

impl Session {
    /// Opens this installation.
    pub fn open() -> Result<Session, Failure> {
        let home = Home::find()?;
        let source = QuerySource::open(&home)?;
        Ok(Session {
            home,
            source,
            now: clock::wall(),
            user: user::own().name,
        })
    }

    /// What filters need to know about the caller.
    pub fn filter_context(&self) -> FilterContext {
        FilterContext {
            now: timestamp::local(self.now).unwrap_or_default(),
            user: self.user.clone(),
        }
    }

    /// Sends a question and returns the complete answer.
    pub fn ask(&mut self, question: &Question) -> Result<Answers, Failure> {
        Ok(self.source.ask(question)?)
    }

    /// The jobs that match a filter. Ids select any job; without ids, the terms decide whether
    /// finished jobs are included, and `arrays` whether subjobs are.
    pub fn jobs(&mut self, filter: &JobFilter, arrays: Arrays) -> Result<FoundJobs, Failure> {
        let mut found = if filter.ids.is_empty() {
            self.all_jobs(filter, arrays)?
        } else {
            self.named_jobs(filter)?
        };
        let (server, now) = (&found.server, found.now);
        found.records.retain(|record| {
            filter.matches(&JobView {
                record,
                server,
                now,
            })
        });
        Ok(found)
    }

    fn all_jobs(&mut self, filter: &JobFilter, arrays: Arrays) -> Result<FoundJobs, Failure> {
        let history = match (filter.allows_unfinished(), filter.allows_finished()) {
            (true, true) => History::All,
            (false, true) => History::Finished,
            _ => History::Live,
        };
        let question = Question::Jobs(
            Filter {
                history,
                arrays,
                ..Filter::default()
            },
            Detail::Whole,
        );
        let answers = self.ask(&question)?;
        Ok(FoundJobs {
            server: answers.server,
            now: self.now,
            records: answers.jobs,
            failures: Vec::new(),
        })
    }

    /// The jobs with the ids of the filter, in the order of these ids. A range of subjobs stands
    /// for its subjobs, and the number of an array for the array.
    fn named_jobs(&mut self, filter: &JobFilter) -> Result<FoundJobs, Failure> {
        let server = self.ask(&Question::Server)?.server;
        let (mut records, mut failures) = (Vec::new(), Vec::new());
        for operand in &filter.ids {
            let jobs = match operand.job(&server.name) {
                None => Vec::new(),
                Some(id) => match operand.only() {
                    Some(only) => {
                        let question = Question::Elements(id, Some(only), Detail::Whole);
                        self.ask(&question)?.jobs
                    }
                    None => self.job_or_array(id)?,
                },
            };
            if jobs.is_empty() {
                let id = operand.full(&server.name);
                failures.push(Failure::of_job("lanai", &Refusal::unknown_job(), &id));
            }
            records.extend(jobs);
        }
        Ok(FoundJobs {
            server,
            now: self.now,
            records,
            failures,
        })
    }

    fn job_or_array(&mut self, id: JobId) -> Result<Vec<JobRecord>, Failure> {
        let jobs = self.ask(&Question::JobsById(vec![id], Detail::Whole))?.jobs;
        if !jobs.is_empty() || id != JobId::job(id.number) {
            return Ok(jobs);
        }
        let array = JobId::array(id.number);
        Ok(self
            .ask(&Question::JobsById(vec![array], Detail::Whole))?
            .jobs)
    }
}
