//! Starts that neither succeed nor fail (M10): the node has the order but does not report that the
//! job runs. After `start_timeout` the attempt is cancelled there, which leaves a tombstone. The
//! job starts again only when the node has reported the outcome, so it never runs twice.

use crate::model::hook::job_hooks::delay;
use crate::model::job::Attempt;
use crate::model::job::Job;
use crate::model::job::Want;
use crate::model::job::event::Event;
use crate::model::job::staging::Files;
use crate::model::job_id::JobId;
use crate::model::time::Span;
use crate::server::state::ServerState;

/// Interval between checks of pending starts: an eighth of the timeout, 1 to 30 s.
pub fn pace(timeout: Option<Span>) -> Span {
    let eighth = timeout.map_or(i64::MAX, |timeout| timeout.0 / 8);
    Span(eighth.clamp(1000, 30_000))
}

/// Cancels the starts that their nodes have not confirmed in time.
pub fn give_up(server: &mut ServerState) {
    let Some(timeout) = server.setup.config.launch.start_timeout else {
        return;
    };
    let stuck: Vec<(JobId, Attempt)> = server
        .holders()
        .filter_map(|job| stuck(server, job, timeout))
        .collect();
    for (job, attempt) in stuck {
        server.happen(
            job,
            Event::StartTimedOut {
                attempt,
                after: timeout,
            },
        );
    }
}

/// The late attempt of a job, if its start is overdue. Skips nodes that are down, which may have
/// started it and report later, and jobs with stage-in. The time limits of hooks and the prologue
/// are added.
fn stuck(server: &ServerState, job: &Job, timeout: Span) -> Option<(JobId, Attempt)> {
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
        let paces = [
            Some(Span(1000)),
            Some(Span::seconds(40)),
            Some(Span::seconds(600)),
            None,
        ]
        .map(pace);
        assert_eq!(paces, [Span(1000), Span(5000), Span(30_000), Span(30_000)]);
    }
}
