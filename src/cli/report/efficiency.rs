//! `qstat --eff`: used resources compared with requested resources, and advice for the next
//! request.
//!
//! The figures of a finished job are from its accounting record, which includes all processes of
//! the job. The figures of a running job are from the last reports of its nodes.

use crate::cli::client::exit::Failure;
use crate::cli::client::operand::Operand;
use crate::cli::client::query::{self, Feed};
use crate::cli::output::attribute_output::preamble;
use crate::cli::output::field::{self, Cell, Field};
use crate::cli::output::json::Document;
use crate::model::account::accounting::{
    AccountingEntry, AccountingFilter, RequestedResources, part,
};
use crate::model::job::held::Held;
use crate::model::job::{Job, Usage};
use crate::model::job_id::JobId;

use crate::model::time::{Span, Wall};
use crate::sys::user;
use crate::wire::message::{ClientAnswer, Detail, Question, ServerFacts};
use advice::{Peak, advice};
use percentiles::Distributions;
use serde_json::Value;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::io::Write;

mod advice;

mod percentiles;

/// The period of the report without operands, in seconds.
const WEEK: i64 = 7 * 24 * 3600;

/// Resources requested and used by the current or last attempt of a job.
#[derive(Clone, Debug, PartialEq)]
struct JobEfficiency {
    job: JobId,
    name: String,
    /// `Exit_status`; None while the job runs or is queued for another run.
    status: Option<i32>,
    requested: RequestedResources,
    cores: u32,
    used: Usage,
}

impl JobEfficiency {
    fn of_entry(entry: AccountingEntry) -> JobEfficiency {
        let (status, cores) = (entry.end.map(|end| end.status), entry.held.cores);
        JobEfficiency {
            job: entry.job,
            name: entry.name,
            status,
            requested: entry.asked,
            cores,
            used: entry.used,
        }
    }

    /// The use of a job from the job's record; None if the record contains no attempt.
    fn of_job(job: &Job) -> Option<JobEfficiency> {
        let run = job.life.run.as_ref()?;
        Some(JobEfficiency {
            job: job.id,
            name: job.spec.name.clone(),
            status: job.life.exit.map(|exit| exit.status),
            requested: RequestedResources::of(&job.spec.request),
            cores: Held::of(&run.shares).cores,
            used: job.life.used,
        })
    }

    /// The processor time that was available to the job: allocated cores times used walltime.
    fn held(&self) -> Span {
        Span(self.used.walltime.0.saturating_mul(self.cores.into()))
    }

    fn cpu(&self) -> Option<f64> {
        part(self.used.cput.0 as f64, self.held().0 as f64)
    }

    fn mem(&self) -> Option<f64> {
        part(self.used.mem_kb as f64, self.requested.mem_kb? as f64)
    }

    fn time(&self) -> Option<f64> {
        part(
            self.used.walltime.0 as f64,
            self.requested.walltime?.0 as f64,
        )
    }

    fn has_finished(&self) -> bool {
        self.status.is_some()
    }
}

/// A part of the report: about one job, or about several.
#[derive(Debug)]
enum EfficiencyReport {
    One(Box<JobEfficiency>),
    /// The description of the jobs, and how they used their requests.
    Many(String, Box<Distributions>),
}

/// Writes the report on the jobs that the operands name; without operands, on the caller's jobs
/// that ended in the last week. Returns the failures of individual operands.
pub fn write(
    operands: &[OsString],
    json: bool,
    feed: &mut Feed,
    now: Wall,
    out: &mut dyn Write,
) -> Result<Vec<Failure>, Failure> {
    let server = query::whole(feed)(&Question::Server)?.server;
    let (mut reports, mut failures) = (Vec::new(), Vec::new());
    if operands.is_empty() {
        reports.push(of_week(feed, now)?);
    }
    for word in operands {
        match of_operand(word, &server, feed) {
            Ok(report) => reports.push(report),
            Err(failure) => failures.push(failure),
        }
    }
    let text = if json {
        document(&reports, &server, now)
    } else {
        text(&reports, &server).into_bytes()
    };
    out.write_all(&text)?;
    Ok(failures)
}

/// The report on the caller's jobs that ended in the last week.
fn of_week(feed: &mut Feed, now: Wall) -> Result<EfficiencyReport, Failure> {
    let name = user::own().name;
    let from = Some(Wall(now.0 - WEEK));
    let filter = AccountingFilter {
        users: vec![name.clone()],
        from,
        ..AccountingFilter::default()
    };
    let mut distributions = Distributions::default();
    for_each_last_attempt(filter, Vec::new(), feed, &mut |used| {
        distributions.add(&used)
    })?;
    Ok(EfficiencyReport::Many(
        format!("jobs of {name} that ended in the last 7 days"),
        Box::new(distributions),
    ))
}

/// The report on a job, or on the ended subjobs of an array.
fn of_operand(
    word: &OsString,
    server: &ServerFacts,
    feed: &mut Feed,
) -> Result<EfficiencyReport, Failure> {
    let operand = Operand::parse(word)?;
    let full = operand.full(&server.name);
    let id = operand
        .job(&server.name)
        .ok_or_else(|| super::unknown_job(&full))?;
    if id.is_array() {
        let (mut distributions, only) = (Distributions::default(), operand.only());
        for_each_last_attempt(AccountingFilter::default(), vec![id], feed, &mut |used| {
            let is_meant = only.is_none_or(|only| {
                used.job
                    .index()
                    .is_some_and(|at| only.position(at).is_some())
            });
            distributions.add_if(is_meant, &used)
        })?;
        return match distributions.jobs() {
            0 => Err(no_usage(&full)),
            _ => Ok(EfficiencyReport::Many(
                format!("ended subjobs of {full}"),
                Box::new(distributions),
            )),
        };
    }
    let known = query::whole(feed)(&Question::JobsById(vec![id], Detail::Whole))?
        .jobs
        .pop()
        .map(|record| record.job);
    let running = known
        .as_ref()
        .filter(|job| job.life.state.is_under_way())
        .and_then(JobEfficiency::of_job);
    let mut last = running;
    if last.is_none() {
        for_each_last_attempt(AccountingFilter::default(), vec![id], feed, &mut |used| {
            last = Some(used)
        })?;
    }
    let used = last.or_else(|| JobEfficiency::of_job(known.as_ref()?));
    used.map(|used| EfficiencyReport::One(Box::new(used)))
        .ok_or_else(|| no_usage(&full))
}

fn no_usage(full: &str) -> Failure {
    Failure::new(
        1,
        format!("{full} has not run yet or is unknown: no usage to compare"),
    )
}

/// Calls `visit` with the last attempt of each job in the accounting records that `filter` and
/// `jobs` (empty: all jobs) select. schedd sorts these records by job and attempt.
fn for_each_last_attempt(
    filter: AccountingFilter,
    jobs: Vec<JobId>,
    feed: &mut Feed,
    visit: &mut dyn FnMut(JobEfficiency),
) -> Result<(), Failure> {
    let mut last: Option<AccountingEntry> = None;
    feed(&Question::Entries(Box::new(filter), jobs), &mut |part| {
        let ClientAnswer::Entries(entries) = part else {
            return Ok(());
        };
        for entry in entries.into_iter().filter(|entry| entry.attempt > 0) {
            let job = entry.job;
            if let Some(before) = last.replace(entry)
                && before.job != job
            {
                visit(JobEfficiency::of_entry(before));
            }
        }
        Ok(())
    })?;
    if let Some(entry) = last {
        visit(JobEfficiency::of_entry(entry));
    }
    Ok(())
}

fn text(reports: &[EfficiencyReport], server: &ServerFacts) -> String {
    let mut out = String::new();
    for report in reports {
        if !out.is_empty() {
            out.push('\n');
        }
        match report {
            EfficiencyReport::One(used) => of_one(&mut out, used, server),
            EfficiencyReport::Many(what, distributions) => distributions.write(&mut out, what),
        }
        if let Some(advice) = advice_of(report) {
            let _ = writeln!(out, "{advice}");
        }
    }
    out
}

fn of_one(out: &mut String, used: &JobEfficiency, server: &ServerFacts) {
    let status = used.status.map_or("not finished".to_string(), |status| {
        format!("exit status {status}")
    });
    let _ = writeln!(
        out,
        "{} ({}), {status}",
        used.job.full(&server.name),
        used.name
    );
    let mem = used.requested.mem_kb.map(advice::size).unwrap_or_default();
    let walltime = used
        .requested
        .walltime
        .map(|span| span.to_string())
        .unwrap_or_default();
    let plural = if used.cores == 1 { "" } else { "s" };
    let cores = format!(
        "{} ({} processor{plural})",
        field::brief(used.held()),
        used.cores
    );
    line(
        out,
        "CPU time",
        &field::brief(used.used.cput),
        &cores,
        used.cpu(),
    );
    line(
        out,
        "Memory",
        &advice::size(used.used.mem_kb),
        &mem,
        used.mem(),
    );
    line(
        out,
        "Walltime",
        &field::brief(used.used.walltime),
        &walltime,
        used.time(),
    );
}

fn line(out: &mut String, what: &str, used: &str, requested: &str, part: Option<f64>) {
    let part = Cell::or_nothing(part, Cell::Part).shown();
    let requested = if requested.is_empty() {
        ", none requested".to_string()
    } else {
        format!(" of {requested}")
    };
    let _ = writeln!(out, "  {what:9} {part:>7}  {used}{requested}");
}

/// A line of advice; None for an unfinished job, or if the request fits the use.
fn advice_of(report: &EfficiencyReport) -> Option<String> {
    match report {
        EfficiencyReport::One(used) if used.has_finished() => advice(&Peak::of(used)),
        // An unfinished job can still need all that it requested.
        EfficiencyReport::One(_) => None,
        EfficiencyReport::Many(_, distributions) => distributions.advice(),
    }
}

fn document(reports: &[EfficiencyReport], server: &ServerFacts, now: Wall) -> Vec<u8> {
    let mut document = Document::begin(&preamble(server, now));
    let all = reports.iter().map(|report| {
        let mut data = match report {
            EfficiencyReport::One(used) => field::object(&fields(used, server)),
            EfficiencyReport::Many(what, distributions) => distributions.data(what),
        };
        data["advice"] = advice_of(report).map_or(Value::Null, Value::from);
        data
    });
    document.add_value("Efficiency", &all.collect());
    document.end()
}

fn fields(used: &JobEfficiency, server: &ServerFacts) -> Vec<Field> {
    vec![
        ("job", Cell::Text(used.job.full(&server.name))),
        ("name", Cell::Text(used.name.clone())),
        (
            "exit_status",
            Cell::or_nothing(used.status.map(i64::from), Cell::Count),
        ),
        ("ncpus", Cell::Count(used.cores.into())),
        ("cpu_seconds", Cell::Length(used.used.cput.0 as f64)),
        ("core_seconds", Cell::Length(used.held().0 as f64)),
        ("cpu_efficiency", Cell::or_nothing(used.cpu(), Cell::Part)),
        ("mem_kb", Cell::Kilobytes(used.used.mem_kb)),
        (
            "asked_mem_kb",
            Cell::or_nothing(used.requested.mem_kb, Cell::Kilobytes),
        ),
        ("mem_efficiency", Cell::or_nothing(used.mem(), Cell::Part)),
        (
            "walltime_seconds",
            Cell::Length(used.used.walltime.0 as f64),
        ),
        (
            "asked_walltime_seconds",
            Cell::or_nothing(
                used.requested.walltime.map(|span| span.0 as f64),
                Cell::Length,
            ),
        ),
        (
            "walltime_efficiency",
            Cell::or_nothing(used.time(), Cell::Part),
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::example;

    pub(super) fn used(
        cores: u32,
        hours: f64,
        cput: f64,
        mem_gb: f64,
        requested: (u64, i64),
    ) -> JobEfficiency {
        let span = |hours: f64| Span((hours * 3_600_000.0) as i64);
        let requested = RequestedResources {
            mem_kb: Some(requested.0 << 20),
            walltime: Some(Span::seconds(3600 * requested.1)),
            ..RequestedResources::default()
        };
        let used = Usage {
            walltime: span(hours),
            cput: span(cput),
            mem_kb: (mem_gb * f64::from(1 << 20)) as u64,
            vmem_kb: 0,
            ncpus: cores,
        };
        JobEfficiency {
            job: JobId::job(7),
            name: "wave".into(),
            status: Some(0),
            requested,
            cores,
            used,
        }
    }

    /// Rule P11.
    #[test]
    fn one_job_is_shown_with_its_usage_and_advice() {
        let server = example::server();
        let one = used(8, 1.25, 1.25, 4.5, (64, 24));
        let expected = "\
7.head (wave), exit status 0
  CPU time    12.5%  01:15:00 of 10:00:00 (8 processors)
  Memory       7.0%  4608mb of 64gb
  Walltime     5.2%  01:15:00 of 24:00:00
Request mem=6gb instead of 64gb, walltime=2:00:00 instead of 24:00:00, ncpus=1 instead of 8 (used 1.0).
";
        assert_eq!(
            text(&[EfficiencyReport::One(Box::new(one.clone()))], &server),
            expected
        );
        let running = text(
            &[EfficiencyReport::One(Box::new(JobEfficiency {
                status: None,
                ..one.clone()
            }))],
            &server,
        );
        assert!(
            running.contains("not finished") && !running.contains("Request"),
            "{running}"
        );
        let without_request = JobEfficiency {
            requested: RequestedResources::default(),
            ..one.clone()
        };
        assert!(
            text(&[EfficiencyReport::One(Box::new(without_request))], &server)
                .contains("--  4608mb, none requested")
        );
        let document: Value = serde_json::from_slice(&document(
            &[EfficiencyReport::One(Box::new(one))],
            &server,
            Wall(0),
        ))
        .unwrap();
        let report = &document["Efficiency"][0];
        assert_eq!(
            (&report["cpu_efficiency"], &report["asked_mem_kb"]),
            (&0.125.into(), &(64 << 20).into())
        );
        assert!(
            report["advice"]
                .as_str()
                .unwrap()
                .starts_with("Request mem=6gb")
        );
    }
}
