//! `qstat --start`: the predicted starts of waiting jobs. Corresponds to Maui's `showstart`.

use super::{ReportContext, counted, estimate, nodes};
use crate::cli::client::exit::Failure;
use crate::cli::output::table::FixedColumn::{Left, Rest};
use crate::cli::output::table::push_line;
use crate::model::job_id::JobId;
use crate::model::report::outlook::{Horizon, JobForecast, Prospect, StartRange};
use crate::model::time::Time;
use crate::shown::attributes::{AttributeDisplay, Attributes};
use crate::shown::comment;
use crate::shown::timestamp;
use crate::wire::ahead::{ForecastAnswer, ForecastQuery};
use crate::wire::message::{Detail, Filter, JobRecord, JobRow, Question, ServerFacts};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

/// The starts of the jobs `ids`, or of all waiting jobs if `ids` is empty. Unknown jobs are added
/// to the failures.
pub fn report(
    context: &mut ReportContext,
    ids: &[JobId],
    json: bool,
    failures: &mut Vec<Failure>,
) -> Result<Vec<u8>, Failure> {
    let answers = context.ask(ForecastQuery::Starts(ids.to_vec()))?;
    let horizon = answers.iter().find_map(|answer| match answer {
        ForecastAnswer::Horizon(horizon) => Some(*horizon),
        _ => None,
    });
    let foreseen: Vec<JobForecast> = answers.into_iter().flat_map(parts).collect();
    let known: BTreeSet<JobId> = foreseen
        .iter()
        .flat_map(|foreseen| [Some(foreseen.job), foreseen.job.parent()])
        .flatten()
        .collect();
    let others: Vec<JobId> = ids
        .iter()
        .filter(|id| !known.contains(id))
        .copied()
        .collect();
    let unknown: BTreeSet<JobId> = others.iter().copied().collect();
    let others = context.records(&others)?;
    let found: BTreeSet<JobId> = others.iter().map(|record| record.job.id).collect();
    failures.extend(unknown.difference(&found).map(|id| context.unknown(*id)));
    let table = StartTable {
        owners: owners(context)?,
        context,
        horizon,
        foreseen,
        others,
    };
    Ok(if json {
        table.document()
    } else {
        table.text().into_bytes()
    })
}

pub(super) fn parts(answer: ForecastAnswer) -> Vec<JobForecast> {
    if let ForecastAnswer::JobForecast(foreseen) = answer {
        foreseen
    } else {
        Vec::new()
    }
}

/// The rows of unfinished jobs, by job number. The report shows the owners from these rows.
fn owners(context: &mut ReportContext) -> Result<BTreeMap<u64, JobRow>, Failure> {
    let rows = context
        .source
        .ask(&Question::Jobs(Filter::default(), Detail::Row))?
        .rows;
    Ok(rows.into_iter().map(|row| (row.id.number, row)).collect())
}

struct StartTable<'a> {
    context: &'a ReportContext,
    owners: BTreeMap<u64, JobRow>,
    horizon: Option<Horizon>,
    foreseen: Vec<JobForecast>,
    /// Requested jobs that are not waiting to be scheduled.
    others: Vec<JobRecord>,
}

impl StartTable<'_> {
    fn text(&self) -> String {
        let name = &self.context.server.name;
        let mut rows = Vec::new();
        for foreseen in &self.foreseen {
            let (id, owner) = (foreseen.job.full(name), self.owner(foreseen.job));
            rows.push((id, owner, self.prospect(foreseen)));
        }
        for record in &self.others {
            let (id, owner) = (record.job.id.full(name), &*record.job.owner.user);
            rows.push((id, owner, self.started(record)));
        }
        let mut out = String::new();
        let Some(longest) = rows.iter().map(|(id, ..)| id.len()).max() else {
            return out;
        };
        let width = longest.max(15);
        let columns = [Left(width), Left(8), Left(24), Left(24), Rest];
        let heads = ["Job ID", "Username", "Start", "End", "Nodes"];
        push_line(&mut out, columns, heads);
        let rule = [width, 8, 24, 24, 5].map(|width| "-".repeat(width));
        let _ = writeln!(out, "\n{}", rule.join(" "));
        let columns = [Left(width), Left(8), Left(24), Rest];
        for (id, owner, (start, text)) in &rows {
            push_line(&mut out, columns, [&**id, owner, start, text]);
            out.push('\n');
        }
        out
    }

    fn owner(&self, job: JobId) -> &str {
        self.owners.get(&job.number).map_or("", |row| &row.owner)
    }

    fn moment(&self, time: Time) -> String {
        timestamp::ctime(self.context.wall(time)).to_string()
    }

    /// Two cells for a waiting job: the predicted start, and the end with the nodes and the
    /// estimated range of the start. If the forecast contains no start, the first cell is `--`, and
    /// the second gives the reason.
    fn prospect(&self, foreseen: &JobForecast) -> (String, String) {
        let none = || "--".to_string();
        match &foreseen.prospect {
            Prospect::Starts {
                at,
                end,
                nodes: names,
            } => {
                let end = match *end {
                    Time::NEVER => "unknown (no walltime)".to_string(),
                    end => self.moment(end),
                };
                let mut rest = format!("{end:24} {}", nodes(names));
                if let Some(range) = foreseen.range {
                    let context = self.context;
                    let range = estimate::range(range, &context.server, context.now);
                    let _ = write!(rest, " {range}");
                }
                (self.moment(*at), rest)
            }
            Prospect::Waits(reason) => (none(), reason.to_string()),
            Prospect::Beyond => (none(), self.beyond()),
            Prospect::Unknown(job) => (
                none(),
                estimate::unknown(&job.full(&self.context.server.name)),
            ),
        }
    }

    fn beyond(&self) -> String {
        let Some(horizon) = self.horizon else {
            return String::new();
        };
        format!(
            "no start found before {} ({} simulated)",
            self.moment(horizon.until),
            counted(horizon.cycles, "cycle")
        )
    }

    /// Two cells for a job that is not waiting to be scheduled: the start and the comment. If the
    /// job neither runs nor is suspended, the start is `--`.
    fn started(&self, record: &JobRecord) -> (String, String) {
        let comment = comment::of(record, &self.context.server).into_owned();
        match &record.job.life.run {
            Some(run) if record.job.life.state.is_under_way() => {
                (self.moment(run.started), comment)
            }
            _ => ("--".to_string(), comment),
        }
    }

    fn document(&self) -> Vec<u8> {
        let context = self.context;
        let mut document = context.document();
        if let Some(horizon) = self.horizon {
            let (from, until) = (context.wall(horizon.from).0, context.wall(horizon.until).0);
            let fact = json!({
                "from": from,
                "until": until,
                "cycles": horizon.cycles,
                "whole": horizon.is_whole,
            });
            document.add_value("horizon", &fact);
        }
        let name = &context.server.name;
        for foreseen in &self.foreseen {
            document.add_object("Jobs", &foreseen.job.full(name), &self.attributes(foreseen));
        }
        for record in &self.others {
            let mut attributes = Attributes::default();
            attributes.text("Job_Owner", record.job.owner.user.as_str());
            attributes.text("comment", comment::of(record, &context.server));
            document.add_object("Jobs", &record.job.id.full(name), &attributes);
        }
        document.end()
    }

    fn attributes<'a>(&'a self, foreseen: &'a JobForecast) -> Attributes<'a> {
        let mut attributes = Attributes::default();
        attributes.text("Job_Owner", self.owner(foreseen.job));
        match &foreseen.prospect {
            Prospect::Starts { .. } => attributes.add(
                "estimated",
                AttributeDisplay::Data(data(
                    &self.context.server,
                    &foreseen.prospect,
                    foreseen.range,
                )),
            ),
            Prospect::Waits(reason) => {
                attributes.text("code", reason.code());
                attributes.text("comment", reason.to_string());
            }
            Prospect::Beyond => {
                attributes.text("code", "beyond");
                attributes.text("comment", self.beyond());
            }
            Prospect::Unknown(job) => {
                let job = job.full(&self.context.server.name);
                attributes.text("code", "unknown_end");
                attributes.text("comment", estimate::unknown(&job));
            }
        }
        attributes
    }
}

/// The predicted start, end and nodes as JSON, and the estimated range of the start, if any. Each
/// time is given in PBS's format and in seconds since 1970; an unknown end is null. Null if the
/// forecast contains no start.
pub fn data(
    server: &ServerFacts,
    prospect: &Prospect,
    range: Option<StartRange>,
) -> serde_json::Value {
    let Prospect::Starts { at, end, nodes } = prospect else {
        return serde_json::Value::Null;
    };
    let wall = |time: Time| server.clock.wall(time);
    let end = Some(*end).filter(|end| *end != Time::NEVER).map(wall);
    let mut value = json!({
        "start_time": timestamp::ctime(wall(*at)).to_string(),
        "end_time": end.map(|end| timestamp::ctime(end).to_string()),
        "start": wall(*at).0,
        "end": end.map(|end| end.0),
        "nodes": nodes,
    });
    if let Some(range) = range {
        value["earliest"] = wall(range.earliest).0.into();
        value["latest"] = wall(range.latest).0.into();
    }
    value
}
