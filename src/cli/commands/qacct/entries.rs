//! Writes accounting entries one by one, as they arrive.

use super::AccountFormat;
use crate::cli::client::exit::Failure;
use crate::cli::output::field::{self, Cell, Field};
use crate::cli::output::full::printable;
use crate::cli::output::json::{Document, Preamble};
use crate::cli::output::table::FixedColumn::{self, Left, Right};
use crate::cli::output::table::push_line;
use crate::model::account::accounting::{
    AccountingEntry, AttemptCredentials, AttemptTimes, RequestedResources,
};
use crate::model::job::Usage;
use crate::model::job::held::Held;
use crate::model::job_id::JobId;
use crate::model::time::{Span, Wall};
use crate::shown::attributes::{AttributeDisplay, Attributes};
use crate::shown::{exec_host, timestamp};
use crate::sys::user;
use std::fmt::Write as _;
use std::io::Write;

/// The JSON key of the entries.
const SECTION: &str = "Attempts";

/// Writes accounting entries.
pub struct EntryWriter<'a> {
    server: &'a str,
    form: EntryForm,
    out: &'a mut dyn Write,
    is_first: bool,
}

enum EntryForm {
    /// One line per entry.
    Lines,
    /// One paragraph per entry.
    Paragraphs,
    Csv,
    Json(Document),
}

impl<'a> EntryWriter<'a> {
    /// Begins the output. `all` is false if `-j` selects jobs.
    pub fn begin(
        format: AccountFormat,
        all: bool,
        preamble: &Preamble<'a>,
        out: &'a mut dyn Write,
    ) -> EntryWriter<'a> {
        let form = match format {
            AccountFormat::Text if all => EntryForm::Lines,
            AccountFormat::Text => EntryForm::Paragraphs,
            AccountFormat::Csv => EntryForm::Csv,
            AccountFormat::Json => EntryForm::Json(Document::begin(preamble)),
        };
        EntryWriter {
            server: preamble.server,
            form,
            out,
            is_first: true,
        }
    }

    /// Writes further entries.
    pub fn add(&mut self, entries: &[AccountingEntry]) -> Result<(), Failure> {
        let mut text = String::new();
        for entry in entries {
            let is_first = std::mem::replace(&mut self.is_first, false);
            match &mut self.form {
                EntryForm::Lines => line(&mut text, entry, is_first),
                EntryForm::Paragraphs => paragraph(&mut text, entry, self.server, is_first),
                EntryForm::Csv => csv(&mut text, entry, self.server, is_first),
                EntryForm::Json(document) => add_to(document, entry, self.server),
            }
        }
        if let EntryForm::Json(document) = &mut self.form {
            self.out.write_all(&document.take())?;
        }
        self.out.write_all(text.as_bytes())?;
        Ok(())
    }

    /// Ends the output.
    pub fn end(self) -> Result<(), Failure> {
        match self.form {
            EntryForm::Json(document) => self.out.write_all(&document.end())?,
            // Programs expect the header even without entries.
            EntryForm::Csv if self.is_first => {
                self.out.write_all(csv_head(self.server).as_bytes())?
            }
            _ => {}
        }
        Ok(())
    }
}

/// The header line, without an entry.
fn csv_head(server: &str) -> String {
    let nothing = AccountingEntry {
        job: JobId::job(0),
        attempt: 0,
        name: String::new(),
        of: AttemptCredentials::default(),
        stamps: AttemptTimes::default(),
        end: None,
        places: Vec::new(),
        asked: RequestedResources::default(),
        held: Held::default(),
        used: Usage::default(),
        core_ms: 0,
        factor: 0.0,
        made_way: None,
    };
    field::csv_head(&fields(&nothing, server))
}

const HEADS: [&str; 9] = [
    "Job", "Name", "User", "Queue", "Ended", "Elapsed", "CPU time", "CPU", "Status",
];

const LINE: [FixedColumn; 9] = [
    Left(12),
    Left(15),
    Left(10),
    Left(10),
    Left(16),
    Right(9),
    Right(9),
    Right(6),
    Right(6),
];

fn line(text: &mut String, entry: &AccountingEntry, is_first: bool) {
    if is_first {
        push_line(text, LINE, HEADS);
        text.push('\n');
    }
    let ended = timestamp::local(Wall(entry.stamps.ended.div_euclid(1000)));
    let ended = ended.map_or(entry.stamps.ended.to_string(), |at| {
        at.format("%Y-%m-%d %H:%M").to_string()
    });
    let job = entry.job.to_string();
    let elapsed = entry.used.walltime.to_string();
    let cput = Span(entry.used.cput.0).to_string();
    let (name, user, queue) = (&entry.name, printable(&entry.of.user), &entry.of.queue);
    let cpu = Cell::or_nothing(entry.cpu_efficiency(), Cell::Part).shown();
    let status = entry
        .end
        .map_or("--".to_string(), |end| end.status.to_string());
    let cells: [&str; 9] = [
        &job, name, &user, queue, &ended, &elapsed, &cput, &cpu, &status,
    ];
    push_line(text, LINE, cells);
    text.push('\n');
}

fn paragraph(text: &mut String, entry: &AccountingEntry, server: &str, is_first: bool) {
    if !is_first {
        text.push('\n');
    }
    for (name, cell) in fields(entry, server) {
        // The displayed values have units, so their names need none.
        let name = name.trim_end_matches("_seconds").trim_end_matches("_kb");
        let _ = writeln!(text, "{name:18} {}", cell.shown());
    }
}

fn csv(text: &mut String, entry: &AccountingEntry, server: &str, is_first: bool) {
    let fields = fields(entry, server);
    if is_first {
        text.push_str(&field::csv_head(&fields));
    }
    text.push_str(&field::csv_line(&fields));
}

/// Adds an entry. The key contains job id and attempt number, because a job can have several
/// attempts.
fn add_to(document: &mut Document, entry: &AccountingEntry, server: &str) {
    let mut attributes = Attributes::default();
    for (name, cell) in fields(entry, server) {
        attributes.add(name, AttributeDisplay::Data(cell.data()));
    }
    document.add_object(
        SECTION,
        &format!("{}/{}", entry.job.full(server), entry.attempt),
        &attributes,
    );
}

/// All values of an entry, in the order of the output.
pub fn fields(entry: &AccountingEntry, server: &str) -> Vec<Field> {
    let AccountingEntry {
        of,
        stamps,
        asked,
        held,
        used,
        ..
    } = entry;
    let group = user::group_name(of.gid);
    let made_way_for = entry
        .made_way
        .as_ref()
        .and_then(|preemption| preemption.to)
        .map(|job| job.full(server));
    let places = entry
        .places
        .iter()
        .map(|(host, cores)| (host.as_str(), i64::from(*cores)));
    vec![
        ("job", Cell::Text(entry.job.full(server))),
        ("attempt", Cell::Count(entry.attempt.into())),
        ("name", Cell::Text(entry.name.clone())),
        ("user", Cell::Text(of.user.clone())),
        ("group", Cell::Text(group)),
        ("account", Cell::Text(of.account.clone())),
        ("project", Cell::Text(of.project.clone())),
        ("queue", Cell::Text(of.queue.clone())),
        ("qos", Cell::Text(of.qos.clone())),
        ("submitted", Cell::Moment(stamps.submitted)),
        ("eligible", Cell::or_nothing(stamps.eligible, Cell::Moment)),
        ("started", Cell::or_nothing(stamps.began, Cell::Moment)),
        ("ended", Cell::Moment(stamps.ended)),
        (
            "wait_seconds",
            Cell::or_nothing(entry.wait_ms().map(|ms| ms as f64), Cell::Length),
        ),
        (
            "exit_status",
            Cell::or_nothing(entry.end.map(|end| end.status.into()), Cell::Count),
        ),
        (
            "deleted",
            Cell::Flag(entry.end.is_some_and(|end| end.deleted)),
        ),
        ("requeued", Cell::Flag(entry.end.is_none())),
        ("made_way_for", Cell::Text(made_way_for.unwrap_or_default())),
        (
            "made_way_by",
            Cell::Text(
                entry
                    .made_way
                    .as_ref()
                    .map_or("", |preemption| preemption.action.name())
                    .to_string(),
            ),
        ),
        ("exec_host", Cell::Text(exec_host::slots(places))),
        ("nodes", Cell::Count(held.nodes.into())),
        ("select", Cell::Text(asked.select.clone())),
        ("asked_ncpus", Cell::Count(asked.cores.into())),
        ("asked_chunks", Cell::Count(asked.chunks.into())),
        ("asked_ngpus", Cell::Count(asked.gpus.into())),
        (
            "asked_mem_kb",
            Cell::or_nothing(asked.mem_kb, Cell::Kilobytes),
        ),
        (
            "asked_walltime_seconds",
            Cell::or_nothing(asked.walltime.map(|span| span.0 as f64), Cell::Length),
        ),
        ("cpu_seconds", Cell::Length(used.cput.0 as f64)),
        ("walltime_seconds", Cell::Length(used.walltime.0 as f64)),
        ("mem_kb", Cell::Kilobytes(used.mem_kb)),
        ("vmem_kb", Cell::Kilobytes(used.vmem_kb)),
        ("ncpus", Cell::Count(held.cores.into())),
        ("ngpus", Cell::Count(held.gpus.into())),
        ("core_seconds", Cell::Length(entry.core_ms as f64)),
        ("charge_factor", Cell::Real(entry.factor)),
        (
            "charged_core_seconds",
            Cell::Length(entry.core_ms as f64 * entry.factor),
        ),
        (
            "cpu_efficiency",
            Cell::or_nothing(entry.cpu_efficiency(), Cell::Part),
        ),
        (
            "mem_efficiency",
            Cell::or_nothing(entry.mem_efficiency(), Cell::Part),
        ),
        (
            "walltime_efficiency",
            Cell::or_nothing(entry.time_efficiency(), Cell::Part),
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::example;
    use crate::cli::output::attribute_output;

    #[test]
    fn csv_without_entries_has_a_header() {
        let (server, mut out) = (example::server(), Vec::new());
        EntryWriter::begin(
            AccountFormat::Csv,
            true,
            &attribute_output::preamble(&server, Wall(0)),
            &mut out,
        )
        .end()
        .unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(
            text.starts_with("job,attempt,name,user,") && text.lines().count() == 1,
            "{text}"
        );
    }
}
