//! Starts that neither succeed nor fail (M10): a node has the start order but does not report that
//! the job runs. After `start_timeout` and the time limits of hooks and prologue, the node is
//! ordered to cancel the attempt, and keeps a tombstone (a file that prevents a later start). The
//! job starts again only when the node has reported the outcome. Therefore the job never runs twice
//! at once.

use crate::model::hook::job_hooks::delay;
use crate::model::job::Attempt;
use crate::model::job::Job;
use crate::model::job::Want;
use crate::model::job::event::Event;
use crate::model::job::staging::Files;
use crate::model::job_id::JobId;
use crate::model::time::Span;
use crate::server::state::ServerState;

/// Interval between checks of pending starts: an eighth of the timeout, but at least 1 s and at
/// most 30 s; 30 s without a timeout.
pub fn check_interval(timeout: Option<Span>) -> Span {
    let eighth = timeout.map_or(i64::MAX, |timeout| timeout.0 / 8);
    Span(eighth.clamp(1000, 30_000))
}

/// Cancels each attempt if its node has not confirmed the start of the attempt in time. Does
/// nothing if `start_timeout` is not set.
pub fn cancel_overdue_starts(server: &mut ServerState) {
    let Some(timeout) = server.setup.config.launch.start_timeout else {
        return;
    };
    let overdue: Vec<(JobId, Attempt)> = server
        .holders()
        .filter_map(|job| overdue_attempt(server, job, timeout))
        .collect();
    for (job, attempt) in overdue {
        server.apply_event(
            job,
            Event::StartTimedOut {
                attempt,
                after: timeout,
            },
        );
    }
}

/// The attempt of a job if its start is overdue: the timeout and the time limits of hooks and
/// prologue have passed since the start and since the node came up. None for a job with stage-in or
/// a private directory, because its preparation may take longer. None if the node is down, because
/// the node may have started the job and report this later.
fn overdue_attempt(server: &ServerState, job: &Job, timeout: Span) -> Option<(JobId, Attempt)> {
    let run = job.life.open_run()?;
    if job.life.want != Want::Run || !run.has_script() || run.session.is_some() {
        return None;
    }
    let node = server.node(job.script_node()?).filter(|node| node.up)?;
    let config = &server.setup.config;
    let time_limit = timeout + delay(&config.hooks, &config.launch.scripts);
    let is_late = server.now.since(run.started.max(node.changed)) >= time_limit;
    (is_late && !Files::of(&job.spec.other).has_work_before()).then_some((job.id, run.attempt))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_timeouts_are_checked_more_often() {
        let intervals = [
            Some(Span(1000)),
            Some(Span::seconds(40)),
            Some(Span::seconds(600)),
            None,
        ]
        .map(check_interval);
        assert_eq!(
            intervals,
            [Span(1000), Span(5000), Span(30_000), Span(30_000)]
        );
    }
}
