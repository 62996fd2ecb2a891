//! Idle jobs (`[idle]`): running jobs whose processes have used almost no processor time for a
//! configured time. Such a job gets a comment, mail and a notice; an interactive job can be ended.
//!
//! The node reports the processor time that a job has used. The start of a measurement moves on
//! whenever the job has used more than `cpu * after` since then. So a job is idle if it has used no
//! more than that for the time `after`, whatever the interval of the reports.

use crate::config::IdleConfig;
use crate::model::job::event::Event;
use crate::model::job::state::JobState;
use crate::model::job::{Attempt, Job, Run, Usage, Want};
use crate::model::job_id::JobId;
use crate::model::time::{Span, Time};
use crate::server::state::ServerState;
use std::collections::BTreeMap;

/// The measurements of the running jobs. After a restart of schedd, they begin again.
#[derive(Debug, Default)]
pub struct IdleJobs(BTreeMap<JobId, Measurement>);

/// The usage of an attempt at the start of a measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Measurement {
    attempt: Attempt,
    at: Time,
    used: Usage,
}

/// What a measurement shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum IdleVerdict {
    /// The job has used processor time; the measurement begins again.
    Busy,
    /// The job has been idle since the start of the measurement.
    Idle,
    /// The measurement continues.
    Open,
}

/// Interval between checks: an eighth of `after`, but at least 1 s and at most 60 s.
pub fn check_interval(config: &IdleConfig) -> Span {
    let eighth = config.after.map_or(i64::MAX, |after| after.0 / 8);
    Span(eighth.clamp(1000, 60_000))
}

impl IdleJobs {
    /// Marks running jobs as idle or as busy again. Does nothing if `after` is not set.
    pub fn check(&mut self, server: &mut ServerState) {
        let config = server.setup.config.idle.clone();
        let Some(after) = config.after else {
            self.0.clear();
            return;
        };
        let mut measurements = BTreeMap::new();
        let mut events = Vec::new();
        for job in server.holders() {
            let Some(run) = measured_run(job) else {
                continue;
            };
            let attempt = run.attempt;
            let new = Measurement {
                attempt,
                at: server.now,
                used: job.life.used,
            };
            let known = self.0.get(&job.id).copied();
            let known = known.filter(|known| known.attempt == attempt);
            let verdict = known.map_or(IdleVerdict::Busy, |known| {
                known.verdict(job.life.used, after, config.cpu)
            });
            let is_busy = verdict == IdleVerdict::Busy;
            measurements.insert(job.id, known.filter(|_| !is_busy).unwrap_or(new));
            match (verdict, known, run.idle_since) {
                (IdleVerdict::Idle, Some(known), None) => {
                    let since = known.at;
                    events.push((
                        job.id,
                        Event::Idle {
                            attempt,
                            since,
                            after,
                        },
                    ));
                }
                (IdleVerdict::Busy, Some(_), Some(_)) => {
                    events.push((job.id, Event::IdleEnded { attempt }));
                }
                _ => {}
            }
        }
        self.0 = measurements;
        for (id, event) in events {
            let is_idle = matches!(event, Event::Idle { .. });
            server.apply_event(id, event);
            if is_idle && config.end_interactive {
                end_interactive(server, id);
            }
        }
    }
}

impl Measurement {
    fn verdict(&self, used: Usage, after: Span, cpu: f64) -> IdleVerdict {
        let since = |now: Span, start: Span| now.0.saturating_sub(start.0);
        if since(used.cput, self.used.cput) as f64 > cpu * after.0 as f64 {
            IdleVerdict::Busy
        } else if since(used.walltime, self.used.walltime) >= after.0 {
            IdleVerdict::Idle
        } else {
            IdleVerdict::Open
        }
    }
}

/// The attempt of a running job if its node reports usage; None for other jobs.
fn measured_run(job: &Job) -> Option<&Run> {
    let is_running = job.life.state == JobState::Running && job.life.want == Want::Run;
    job.life
        .open_run()
        .filter(|run| is_running && run.session.is_some() && run.has_script() && !run.silent)
}

/// Ends an interactive job.
fn end_interactive(server: &mut ServerState, id: JobId) {
    if server.job(id).is_some_and(|job| job.spec.interactive) {
        let by = format!("schedd@{}", server.setup.host);
        server.apply_event(id, Event::DeleteWanted { by, force: false });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn used(walltime: i64, cput: i64) -> Usage {
        Usage {
            walltime: Span::seconds(walltime),
            cput: Span::seconds(cput),
            ..Usage::default()
        }
    }

    #[test]
    fn a_job_is_idle_if_it_uses_too_little_processor_time_for_the_whole_time() {
        let start = Measurement {
            attempt: 1,
            at: Time(0),
            used: used(100, 50),
        };
        let verdict =
            |walltime, cput| start.verdict(used(walltime, cput), Span::seconds(1000), 0.01);
        assert_eq!(verdict(1099, 50), IdleVerdict::Open);
        assert_eq!(verdict(1100, 60), IdleVerdict::Idle);
        assert_eq!(verdict(1100, 61), IdleVerdict::Busy);
        assert_eq!(verdict(200, 61), IdleVerdict::Busy);
    }

    #[test]
    fn short_times_are_checked_more_often() {
        let interval = |after| {
            check_interval(&IdleConfig {
                after,
                ..IdleConfig::default()
            })
        };
        let times = [Some(Span::seconds(2)), Some(Span::seconds(80)), None];
        assert_eq!(
            times.map(interval),
            [Span(1000), Span(10_000), Span(60_000)]
        );
    }
}
