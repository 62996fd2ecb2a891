//! Prints jobs as they are found, if the format permits. A list of a million jobs then need not be
//! in memory.

use crate::cli::client::exit::Failure;
use crate::cli::output::alternate_list;
use crate::cli::output::attribute_output::{self, AttributeFormat, AttributeWriter};
use crate::cli::output::job_list;
use crate::cli::output::job_selection::{FoundJobs, Show};
use crate::cli::report::scores::Scores;
use crate::model::resource::ResourceValue;
use crate::model::time::Wall;
use crate::shown::attributes;
use crate::wire::message::{JobRecord, JobRow, ServerFacts};
use std::io::Write;

/// The format of jobs.
#[derive(Clone, Debug)]
pub enum JobFormat {
    /// One line for each job.
    Plain(job_list::ListStyle),
    /// One line for each job, with the requested resources.
    Alternate(alternate_list::AlternateStyle),
    /// All attributes.
    Full(AttributeFormat),
}

/// Prints jobs as they arrive.
pub struct Display<'a> {
    form: JobFormat,
    now: Wall,
    out: &'a mut dyn Write,
    /// The server facts; None before they have been received.
    server: Option<ServerFacts>,
    /// Upper bound for the length of ids without the server name; None if unknown.
    longest: Option<usize>,
    scores: Scores,
    /// Found jobs that have not been printed, as rows.
    rows: Vec<JobRow>,
    /// Found jobs that have not been printed, as records.
    jobs: Vec<JobRecord>,
    printing: Option<Printing>,
}

/// The writer of the chosen format, from the first output on.
enum Printing {
    Plain(job_list::JobList),
    Alternate(alternate_list::AlternateList),
    Full(Box<AttributeWriter>),
}

impl Show for Display<'_> {
    fn server(&mut self, server: &ServerFacts) {
        self.server = Some(server.clone());
    }

    fn longest(&mut self, characters: usize) {
        self.longest = Some(characters);
    }

    fn found(&mut self, batch: FoundJobs) -> Result<(), Failure> {
        match batch {
            FoundJobs::Rows(rows) => self.rows.extend(rows),
            FoundJobs::Jobs(jobs) => self.jobs.extend(jobs),
        }
        if self.waits_for_all() {
            Ok(())
        } else {
            self.print()
        }
    }
}

impl<'a> Display<'a> {
    /// A display without jobs.
    pub fn new(form: JobFormat, now: Wall, out: &'a mut dyn Write) -> Display<'a> {
        Display {
            form,
            now,
            out,
            server: None,
            longest: None,
            scores: Scores::default(),
            rows: Vec::new(),
            jobs: Vec::new(),
            printing: None,
        }
    }

    /// Adds the computed priorities of waiting jobs.
    pub fn with_scores(self, scores: Scores) -> Display<'a> {
        Display { scores, ..self }
    }

    /// Prints the remaining jobs and ends the output.
    pub fn finish(mut self) -> Result<(), Failure> {
        self.print()?;
        let rest = match (self.printing, &self.form) {
            (Some(Printing::Full(writer)), _) => writer.end(),
            (None, JobFormat::Full(format)) => attribute_output::without_server(format, self.now),
            _ => Vec::new(),
        };
        Ok(self.out.write_all(&rest)?)
    }

    /// True if printing begins only after all jobs have been found: for lists sorted by planned
    /// start, and for lists with ids of unknown length.
    fn waits_for_all(&self) -> bool {
        match &self.form {
            JobFormat::Full(_) => false,
            JobFormat::Plain(_) => self.longest.is_none(),
            JobFormat::Alternate(style) => self.longest.is_none() || style.starts.is_some(),
        }
    }

    fn print(&mut self) -> Result<(), Failure> {
        let Some(server) = &self.server else {
            return Ok(());
        };
        let rows = std::mem::take(&mut self.rows);
        let mut jobs = std::mem::take(&mut self.jobs);
        let longest = self
            .longest
            .map_or(0, |characters| characters + 1 + server.name.len());
        let printing = self.printing.get_or_insert_with(|| match &self.form {
            JobFormat::Plain(style) => {
                Printing::Plain(job_list::JobList::new(*style, longest, server))
            }
            JobFormat::Alternate(style) => {
                Printing::Alternate(alternate_list::AlternateList::new(*style, longest))
            }
            JobFormat::Full(format) => Printing::Full(Box::new(AttributeWriter::begin(
                "Jobs",
                format,
                &attribute_output::preamble(server, self.now),
            ))),
        });
        let mut text = String::new();
        let written = match printing {
            Printing::Plain(list) => {
                let rows = rows.iter().map(|row| line(row, server));
                let lines: Vec<job_list::JobLine> = rows
                    .chain(jobs.iter().map(|job| percent_line(job, server)))
                    .collect();
                list.write(&mut text, &lines);
                text.into_bytes()
            }
            Printing::Alternate(list) => {
                list.write(&mut text, &jobs, server);
                text.into_bytes()
            }
            Printing::Full(writer) => {
                self.scores.add_to(&mut jobs);
                for record in &jobs {
                    writer.add(
                        &record.job.id.full(&server.name),
                        &attributes::of_job(record, server),
                    );
                }
                writer.take()
            }
        };
        Ok(self.out.write_all(&written)?)
    }
}

/// A line of the plain list.
fn line<'a>(row: &'a JobRow, server: &ServerFacts) -> job_list::JobLine<'a> {
    // Only the subjobs of an array use processor time.
    let used = if row.id.is_array() {
        "0".to_string()
    } else {
        job_list::time_used(row.cput, row.state)
    };
    job_list::JobLine {
        id: row.id.full(&server.name),
        name: &row.name,
        owner: &row.owner,
        used,
        state: row.state,
        queue: &row.queue,
    }
}

/// A line of `qstat -p`.
fn percent_line<'a>(record: &'a JobRecord, server: &ServerFacts) -> job_list::JobLine<'a> {
    let (job, life) = (&record.job, &record.job.life);
    let spent = [("cput", life.used.cput), ("walltime", life.used.walltime)];
    let spent = spent.map(|(name, used)| match job.spec.request.list.get(name) {
        Some(ResourceValue::Time(span)) => (Some(*span), used),
        _ => (None, used),
    });
    job_list::JobLine {
        id: job.id.full(&server.name),
        name: &job.spec.name,
        owner: &job.owner.user,
        used: job_list::percent_done(&spent, life.state),
        state: life.state,
        queue: &job.spec.queue,
    }
}
