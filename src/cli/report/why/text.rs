//! The explanation as text. The text for a job that waits contains the reason, the table of stages,
//! the planned start, the nodes and other jobs; the text for other jobs is one line.

use super::super::{counted, nodes};
use super::JobView;
use super::obstacles::WaitObstacle;
use super::sentences::rejected;
use super::steps::StageVerdict;
use crate::cli::output::table::FixedColumn::{Left, Rest};
use crate::cli::output::table::push_line;
use crate::cli::report::{estimate, fair_share};
use crate::model::job::event::Event;
use crate::model::job::state::JobState;
use crate::model::job::suspension::SuspendMode;
use crate::model::report::outlook::{Explanation, Occupant, Overtaker, Prospect, Survey};
use crate::model::time::Wall;
use crate::shown::comment;
use crate::shown::timestamp;
use std::fmt::Write as _;
use std::time::Duration;

/// Printed before the reason while scheduling is off.
const SCHEDULING_IS_OFF: &str = "Scheduling is off: only qrun starts jobs. \
                      qmgr -c 'set server scheduling = True' turns it on. With scheduling on:\n\n";

impl JobView<'_> {
    /// The whole explanation. `verbose` adds the obstacles at every stage.
    pub fn text(&self, verbose: bool) -> String {
        let job = &self.found.record.job;
        let mut out = format!(
            "Job {} ({}, queue {}) ",
            self.id(job.id),
            job.owner.user,
            job.spec.queue
        );
        if !self.waits() {
            let _ = writeln!(out, "{}.", self.state_text());
            return out;
        }
        let _ = writeln!(out, "{}.\n", self.waiting_text());
        if !self.server.scheduling {
            out.push_str(SCHEDULING_IS_OFF);
        }
        let obstacles = self.obstacles();
        self.write_reason(obstacles.first(), &mut out);
        self.write_stages(&obstacles, &mut out);
        if verbose {
            self.list_obstacles(&obstacles, &mut out);
        }
        self.write_planned_start(&mut out);
        if let Some(explanation) = &self.found.explanation {
            if let Some(report) = &explanation.fair_share {
                let _ = writeln!(
                    out,
                    "  Fair share: {}",
                    fair_share::sentence(report, self.server)
                );
            }
            if let Some(survey) = &explanation.survey {
                write_survey(survey, &mut out);
                self.write_closed_nodes(&mut out);
            }
            self.write_blockers(explanation, &mut out);
            for overtaker in &explanation.overtakers {
                let _ = writeln!(out, "  {}", self.overtaken_by(overtaker));
            }
        }
        out
    }

    /// The state of a job that waits.
    fn waiting_text(&self) -> String {
        let life = &self.found.record.job.life;
        match life.state {
            JobState::Held => format!("is held; it was submitted at {}", self.moment(life.ctime)),
            JobState::Waiting => "is waiting for its begin time".to_string(),
            JobState::Begun => "has started; some of its subjobs are waiting".to_string(),
            _ => {
                let since = life.etime.unwrap_or(life.qtime);
                let elapsed = elapsed(self.wall(since), self.now);
                format!("has been waiting since {} ({elapsed})", self.moment(since))
            }
        }
    }

    /// The state of a suspended job.
    fn suspended(&self, comment: &str) -> String {
        let Some(suspension) = self.found.record.job.suspension() else {
            return "is suspended".to_string();
        };
        let (since, by) = (self.moment(suspension.since), &suspension.by);
        if suspension.waits {
            format!(
                "has been suspended since {since} and resumes when its resources are free: \
                 {comment}"
            )
        } else {
            let signal = if suspension.manner == SuspendMode::Maintenance {
                "admin-resume"
            } else {
                "resume"
            };
            format!("has been suspended since {since} by {by}; qsig -s {signal} resumes it")
        }
    }

    /// The state of a job that does not wait.
    pub fn state_text(&self) -> String {
        let record = &self.found.record;
        let job = &record.job;
        let comment = comment::of(record, self.server);
        match (job.life.state, job.life.open_run()) {
            (JobState::Running, Some(run)) => {
                let mut names: Vec<String> =
                    run.shares.iter().map(|share| share.node.clone()).collect();
                names.dedup();
                let (since, on) = (self.moment(run.started), nodes(&names));
                match (run.session, job.spec.walltime()) {
                    (None, _) => format!("has been starting since {since} on {on}"),
                    (_, None) => format!("has been running since {since} on {on}"),
                    (_, Some(span)) => {
                        format!(
                            "has been running since {since} on {on}; its walltime ends at {}",
                            self.moment(run.started + span + run.pauses().total)
                        )
                    }
                }
            }
            (JobState::Suspended, _) => self.suspended(&comment),
            (JobState::Queued, _) => "will be considered in the next scheduling cycle".to_string(),
            (JobState::Finished | JobState::Expired, _) => {
                match (&job.life.exit, job.life.obittime) {
                    (Some(exit), Some(at)) => {
                        format!(
                            "ended at {} with exit status {}: {comment}",
                            self.moment(at),
                            exit.status
                        )
                    }
                    (Some(exit), None) => {
                        format!("ended with exit status {}: {comment}", exit.status)
                    }
                    (None, _) => format!("ended: {comment}"),
                }
            }
            _ => format!("is running: {comment}"),
        }
    }

    /// Writes the first obstacle, its remedies and the predicted start.
    fn write_reason(&self, first: Option<&WaitObstacle>, out: &mut String) {
        match first {
            Some(obstacle) => {
                let _ = writeln!(
                    out,
                    "  {}  ({}: {})",
                    obstacle.text,
                    obstacle.stage.name(),
                    obstacle.code
                );
                let heading = if self.starts_by_itself() {
                    "Sooner if:"
                } else {
                    "Starts if:"
                };
                let mut help = obstacle.help.iter();
                if let Some(surest) = help.next() {
                    let _ = writeln!(out, "  {heading}  {surest}");
                }
                for other in help {
                    let _ = writeln!(out, "      or if:  {other}");
                }
            }
            None if self.found.explanation.is_some() => {
                out.push_str("  Nothing prevents the start.\n");
            }
            None => out.push_str("  The scheduler has not considered the job yet.\n"),
        }
        if let Some(explanation) = &self.found.explanation {
            let released = if self.state() == JobState::Held {
                "if released now, it "
            } else {
                ""
            };
            let _ = writeln!(
                out,
                "  Predicted:  {released}{}",
                self.prediction(explanation)
            );
        }
    }

    /// Writes the table of stages.
    fn write_stages(&self, obstacles: &[WaitObstacle], out: &mut String) {
        out.push('\n');
        for step in self.steps(obstacles) {
            let text = match (step.code, step.verdict) {
                // The sentence of the first obstacle is printed above the table. A failed preempt
                // stage shows only its code, too.
                (Some(code), StageVerdict::Failed) => code,
                (Some(code), _) => format!("{code}: {}", step.text),
                (None, _) => step.text,
            };
            let mut line = String::from("  ");
            let cells = [step.stage.name(), step.verdict.shown(), &text];
            push_line(&mut line, [Left(10), Left(12), Rest], cells);
            let _ = writeln!(out, "{}", line.trim_end());
        }
        out.push('\n');
    }

    /// Lists the obstacles at all stages, even at stages that are not reached.
    fn list_obstacles(&self, obstacles: &[WaitObstacle], out: &mut String) {
        let _ = writeln!(out, "  Obstacles:  {}", obstacles.len());
        for obstacle in obstacles {
            let text = format!("{}: {}", obstacle.code, obstacle.text);
            out.push_str("    ");
            push_line(out, [Left(10), Rest], [obstacle.stage.name(), &text]);
            out.push('\n');
            for help in &obstacle.help {
                let _ = writeln!(out, "               resolved if: {help}");
            }
        }
    }

    /// Writes the jobs and limits that block this job, and the number of jobs ahead of it.
    fn write_blockers(&self, explanation: &Explanation, out: &mut String) {
        for Occupant {
            job,
            end,
            nodes: names,
        } in &explanation.occupants
        {
            let (id, names) = (self.id(*job), nodes(names));
            let _ = writeln!(
                out,
                "  Waits for:  job {id} on {names} (the job ends by {})",
                self.moment(*end)
            );
        }
        if explanation.more > 0 {
            let _ = writeln!(
                out,
                "              and {} more",
                counted(explanation.more, "job")
            );
        }
        for barrier in &explanation.barriers {
            let by = self.job_list(&barrier.by, barrier.more);
            let by = if by.is_empty() {
                by
            } else {
                format!(", by {by}")
            };
            let _ = writeln!(
                out,
                "  Limit:      {} is {}, in use: {}{by}",
                barrier.limit, barrier.value, barrier.used
            );
        }
        if let Some(run_time) = &explanation.run_time {
            let _ = writeln!(out, "  Run time:   {}", estimate::run_time(run_time));
        }
        if explanation.ahead > 0 && !explanation.needs_change() {
            let _ = writeln!(
                out,
                "  Ahead:      {} to start before it",
                counted(explanation.ahead, "job")
            );
        }
    }

    /// Writes the planned start and its delays.
    fn write_planned_start(&self, out: &mut String) {
        if let Some(promise) = &self.found.record.promise {
            let on = if promise.nodes.is_empty() {
                String::new()
            } else {
                format!(" on {}", nodes(&promise.nodes))
            };
            let (at, first) = (self.moment(promise.at), self.moment(promise.first));
            let _ = if self.has_predicted_time() || promise.held_until.is_none() {
                writeln!(out, "  Planned:    {at}{on}; first planned for {first}")
            } else {
                writeln!(
                    out,
                    "  Planned:    start{on} as soon as the preempted jobs have ended"
                )
            };
        }
        for (at, event) in &self.found.events {
            if let Event::Slipped { from, to, cause } = event {
                let (at, from, to) = (self.moment(*at), self.moment(*from), self.moment(*to));
                let cause = cause.describe(|job| self.id(job));
                let _ = writeln!(out, "  Delayed:    at {at}, from {from} to {to}: {cause}");
            }
        }
    }

    /// False if the job is held, or if the forecast expects no start without a change by a user or
    /// an administrator.
    fn starts_by_itself(&self) -> bool {
        let explanation = self.found.explanation.as_deref();
        self.state() != JobState::Held && !explanation.is_some_and(Explanation::needs_change)
    }

    /// False if a forecast contains no start time. True without a forecast.
    fn has_predicted_time(&self) -> bool {
        let explanation = self.found.explanation.as_ref();
        explanation
            .is_none_or(|explanation| matches!(explanation.prospect, Prospect::Starts { .. }))
    }

    fn prediction(&self, explanation: &Explanation) -> String {
        let horizon = explanation.horizon;
        match &explanation.prospect {
            Prospect::Starts {
                at,
                end,
                nodes: names,
            } => {
                let start = if *at <= horizon.from {
                    "now".to_string()
                } else {
                    format!("at {}", self.moment(*at))
                };
                let range = explanation.range.map_or(String::new(), |range| {
                    format!(" {}", estimate::range(range, self.server, self.now))
                });
                let end = match self.found.record.job.spec.walltime() {
                    Some(_) => format!("ends by {}", self.moment(*end)),
                    None if explanation.run_time.is_some() => {
                        format!("expected to end by {}", self.moment(*end))
                    }
                    None => "end unknown (no walltime)".to_string(),
                };
                format!("starts {start}{range} on {}, {end}", nodes(names))
            }
            Prospect::Waits(_) => {
                "does not start unless a user or an administrator changes something".to_string()
            }
            Prospect::Unknown(job) => estimate::unknown(&self.id(*job)),
            Prospect::Beyond => {
                let until = self.moment(horizon.until);
                format!(
                    "no start found before {until} ({} simulated)",
                    counted(horizon.cycles, "cycle")
                )
            }
        }
    }

    /// The sentence about a job that started before this job, although it is behind this job in the
    /// queue order (I9).
    fn overtaken_by(&self, overtaker: &Overtaker) -> String {
        let end = clock_of(self.wall(overtaker.end), self.now);
        let id = self.id(overtaker.job);
        let Some(promise) = &self.found.record.promise else {
            return format!("Job {id} started before this one and ends by {end}");
        };
        let start = clock_of(self.wall(promise.at), self.now);
        if overtaker.end <= promise.at {
            format!(
                "Job {id} started before this one and ends by {end}, before the planned start \
                 {start} of this job"
            )
        } else {
            format!(
                "Job {id} started before this one and ends by {end}, but does not delay the \
                 planned start {start} of this job"
            )
        }
    }
}

/// Writes how many nodes fit a chunk of the job, and how many do not fit, by reason.
fn write_survey(survey: &Survey, out: &mut String) {
    let of = if survey.chunk.is_empty() {
        String::new()
    } else {
        format!(" of {}", survey.chunk)
    };
    let _ = writeln!(out, "  Nodes for a chunk{of}:");
    for rejection in &survey.rejections {
        let text = rejected(rejection);
        push_nodes(
            out,
            rejection.nodes,
            &rejection.code,
            &text,
            &rejection.named,
        );
    }
    if survey.fitting > 0 {
        push_nodes(out, survey.fitting, "", "free", &survey.named);
    }
}

/// Appends a line about `count` nodes, some of them by name.
fn push_nodes(out: &mut String, count: u64, code: &str, text: &str, names: &[String]) {
    let text = format!("{text}  [{}]", names_and_more(names, count));
    out.push_str("    ");
    let cells = [&*counted(count, "node"), code, &text];
    push_line(out, [Left(10), Left(20), Rest], cells);
    out.push('\n');
}

/// The names, and how many of the `count` nodes are not named, if any.
fn names_and_more(names: &[String], count: u64) -> String {
    match count.saturating_sub(names.len() as u64) {
        0 => names.join(","),
        more => format!("{} and {more} more", names.join(",")),
    }
}

/// The time between two moments, as `16m` or `2days 3h`, rounded down: below a minute to seconds,
/// below a day to minutes, else to hours.
fn elapsed(since: Wall, now: Wall) -> String {
    let seconds = u64::try_from(now.0.saturating_sub(since.0)).unwrap_or(0);
    let unit = match seconds {
        0..60 => 1,
        60..86_400 => 60,
        _ => 3600,
    };
    humantime::format_duration(Duration::from_secs(seconds / unit * unit)).to_string()
}

/// A time of today as `10:30`, another time with its full date.
fn clock_of(wall: Wall, now: Wall) -> String {
    let short = timestamp::start_column(wall, now).filter(|text| text.contains(':'));
    short.unwrap_or_else(|| timestamp::ctime(wall).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elapsed_times_have_at_most_two_units() {
        let after = |seconds: i64| elapsed(Wall(1000), Wall(1000 + seconds));
        let expected = ["0s", "59s", "16m", "23h 59m", "2days 3h"];
        assert_eq!([-5, 59, 999, 86_399, 184_000].map(after), expected);
    }
}
