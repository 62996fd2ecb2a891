//! `qstat --why`: the stages of the cycle with their verdicts for one job, who is in its way, what
//! would help, and when it starts. What Maui's users know as `checkjob`.

use super::super::attributes::{Attributes, Shown};
use super::super::comment;
use super::super::exit::{self, Failure};
use super::super::remedy::remedy;
use super::super::when;
use super::starts::data as start;
use super::{Inquiry, nodes};
use crate::model::event::Event;
use crate::model::job::JobId;
use crate::model::outlook::{Explanation, Occupant, Overtaker, Prospect};
use crate::model::reason::Stage;
use crate::model::time::{Time, Wall};
use crate::wire::ahead::{Ahead, Told};
use crate::wire::message::{Question, Record};
use serde_json::{Value, json};
use std::fmt::Write as _;

/// The stages in which a cycle may refuse a job, in their order.
const STAGES: [(Stage, &str, &str); 4] = [
    (Stage::Feasibility, "feasibility", "Could it ever run, and may it be looked at now?"),
    (Stage::Throttling, "throttling", "Has its owner, or its array, had enough for now?"),
    (Stage::Matching, "matching", "Is there room for it now?"),
    (Stage::Backfill, "backfill", "Would it delay a promised start?"),
];

/// What is told of these jobs.
pub fn shown(inquiry: &mut Inquiry, ids: &[JobId], json: bool) -> Result<Vec<u8>, Failure> {
    let found = ids.iter().map(|id| Found::ask(inquiry, *id)).collect::<Result<Vec<Found>, Failure>>()?;
    let views = found.iter().map(|found| View { inquiry, found });
    if !json {
        return Ok(views.map(|view| view.text()).collect::<Vec<_>>().join("\n").into_bytes());
    }
    let mut document = inquiry.document();
    let thing = |view: View| {
        let mut attributes = Attributes::default();
        attributes.add("why", Shown::Data(view.data()));
        (view.id(view.found.record.job.id), attributes)
    };
    document.section("Jobs", views.map(thing));
    Ok(document.end())
}

/// All that is known of a job.
struct Found {
    record: Record,
    events: Vec<(Time, Event)>,
    /// None for a job that does not wait for the scheduler.
    explanation: Option<Box<Explanation>>,
}

impl Found {
    fn ask(inquiry: &mut Inquiry, id: JobId) -> Result<Found, Failure> {
        let answers = inquiry.source.ask(&Question::Trace(id))?;
        let record = answers.jobs.into_iter().next().ok_or_else(|| inquiry.unknown(id))?;
        match inquiry.ask(Ahead::Why(id))?.into_iter().next() {
            Some(Told::Explained(explanation)) => Ok(Found { record, events: answers.events, explanation }),
            _ => Err(exit::garbled()),
        }
    }
}

struct View<'a> {
    inquiry: &'a Inquiry,
    found: &'a Found,
}

impl View<'_> {
    fn moment(&self, time: Time) -> String {
        when::ctime(self.inquiry.wall(time)).to_string()
    }

    fn id(&self, job: JobId) -> String {
        job.full(&self.inquiry.server.name)
    }

    /// How a stage went: `passed`, `refused`, or `not reached`.
    fn verdict(&self, stage: Stage) -> &'static str {
        match self
            .found
            .explanation
            .as_ref()
            .and_then(|explanation| explanation.reason.as_ref())
            .map(|reason| reason.stage())
        {
            Some(refused) if stage == refused => "refused",
            Some(refused) if stage > refused => "not reached",
            _ => "passed",
        }
    }

    fn text(&self) -> String {
        let (job, mut out) = (&self.found.record.job, String::new());
        let comment = comment::of(&self.found.record, &self.inquiry.server);
        let (id, user, queue) = (self.id(job.id), &job.owner.user, &job.spec.queue);
        let _ = writeln!(out, "Job {id} of {user} in queue {queue}: {comment}");
        let Some(explanation) = &self.found.explanation else { return out };
        for (stage, name, question) in STAGES {
            let _ = writeln!(out, "    {name:12} {:12} {question}", self.verdict(stage));
        }
        match &explanation.reason {
            Some(reason) => {
                let _ = writeln!(out, "  Refused:    {reason}");
                let _ = writeln!(out, "  Would help: {}", remedy(reason));
            }
            None => out.push_str("  Nothing is in its way.\n"),
        }
        self.in_the_way(explanation, &mut out);
        self.promise(&mut out);
        let _ = writeln!(out, "  Predicted:  {}", self.prediction(explanation));
        explanation.overtakers.iter().for_each(|overtaker| {
            let _ = writeln!(out, "  {}", self.passed(overtaker));
        });
        out
    }

    fn in_the_way(&self, explanation: &Explanation, out: &mut String) {
        for Occupant { job, end, nodes: names } in &explanation.occupants {
            let (id, names) = (self.id(*job), nodes(names));
            let _ = writeln!(out, "  Waits for:  job {id} on {names}, which ends by {}", self.moment(*end));
        }
        if explanation.more > 0 {
            let _ = writeln!(out, "              and {} more", jobs(explanation.more));
        }
        if explanation.ahead > 0 {
            let _ = writeln!(out, "  Ahead:      {} to start before it", jobs(explanation.ahead));
        }
    }

    fn promise(&self, out: &mut String) {
        if let Some(promise) = &self.found.record.promise {
            let on = if promise.nodes.is_empty() { String::new() } else { format!(" on {}", nodes(&promise.nodes)) };
            let _ = writeln!(
                out,
                "  Promised:   {}{on}; first promised for {}",
                self.moment(promise.at),
                self.moment(promise.first)
            );
        }
        for (at, event) in &self.found.events {
            if let Event::Slipped { from, to, cause } = event {
                let (at, from, to) = (self.moment(*at), self.moment(*from), self.moment(*to));
                let cause = cause.told(|job| self.id(job));
                let _ = writeln!(out, "  Slipped:    at {at} from {from} to {to}: {cause}");
            }
        }
    }

    fn prediction(&self, explanation: &Explanation) -> String {
        match &explanation.prospect {
            Prospect::Starts { at, end, nodes: names } => {
                format!("starts at {} on {}, ends by {}", self.moment(*at), nodes(names), self.moment(*end))
            }
            Prospect::Waits(_) => "does not start by itself".to_string(),
            Prospect::Beyond => {
                let horizon = explanation.horizon;
                format!(
                    "does not start before {}: {} cycles ahead were looked at",
                    self.moment(horizon.until),
                    horizon.cycles
                )
            }
        }
    }

    /// I9.
    fn passed(&self, overtaker: &Overtaker) -> String {
        let end = clock_of(self.inquiry.wall(overtaker.end), self.inquiry.now);
        let id = self.id(overtaker.job);
        let Some(promise) = &self.found.record.promise else { return format!("Job {id} passed you: it ends at {end}") };
        let start = clock_of(self.inquiry.wall(promise.at), self.inquiry.now);
        match overtaker.end <= promise.at {
            true => format!("Job {id} passed you: it ends at {end}, before your promised start {start}"),
            false => format!("Job {id} passed you: it ends at {end} and leaves room for your promised start {start}"),
        }
    }

    fn data(&self) -> Value {
        let mut data = json!({
            "comment": comment::of(&self.found.record, &self.inquiry.server),
            "promise": self.found.record.promise.as_ref().map(|promise| json!({
                "start": self.inquiry.wall(promise.at).0,
                "first": self.inquiry.wall(promise.first).0,
                "nodes": promise.nodes,
            })),
            "slips": self.slips(),
        });
        let (Some(explanation), Some(object)) = (&self.found.explanation, data.as_object_mut()) else { return data };
        let stages = STAGES.iter().map(|(stage, name, _)| json!({"stage": name, "verdict": self.verdict(*stage)}));
        object.insert("stages".into(), stages.collect());
        object.insert("reason".into(), explanation.reason.as_ref().map_or(Value::Null, |reason| {
            json!({"code": reason.code(), "text": reason.to_string(), "numbers": reason, "remedy": remedy(reason)})
        }));
        object.insert("estimated".into(), start(self.inquiry, &explanation.prospect));
        object.insert("ahead".into(), explanation.ahead.into());
        let occupant = |occupant: &Occupant| json!({"job": self.id(occupant.job), "end": self.inquiry.wall(occupant.end).0, "nodes": occupant.nodes});
        object.insert("waits_for".into(), explanation.occupants.iter().map(occupant).collect());
        object.insert("waits_for_more".into(), explanation.more.into());
        let passed = |passed: &Overtaker| json!({"job": self.id(passed.job), "start": self.inquiry.wall(passed.started).0, "end": self.inquiry.wall(passed.end).0});
        object.insert("passed_by".into(), explanation.overtakers.iter().map(passed).collect());
        data
    }

    fn slips(&self) -> Value {
        let slip = |(at, event): &(Time, Event)| match event {
            Event::Slipped { from, to, cause } => Some(json!({
                "time": self.inquiry.wall(*at).0,
                "from": self.inquiry.wall(*from).0,
                "to": self.inquiry.wall(*to).0,
                "cause": cause.told(|job| self.id(job)),
            })),
            _ => None,
        };
        self.found.events.iter().filter_map(slip).collect()
    }
}

fn jobs(count: u64) -> String {
    if count == 1 { "1 job".to_string() } else { format!("{count} jobs") }
}

/// `10:30` today, else the whole moment.
fn clock_of(wall: Wall, now: Wall) -> String {
    let short = when::start_column(wall, now).filter(|text| text.contains(':'));
    short.unwrap_or_else(|| when::ctime(wall).to_string())
}
