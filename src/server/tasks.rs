//! The tasks of jobs: processes that a job starts on its nodes in addition to its script.
//!
//! A process requests tasks from the noded of its node. The server grants tasks only while the
//! job's attempt runs and only on the attempt's nodes ([`task_requests`]). A task is stored before
//! its node receives the order to start it. The task's program is not stored. Instead, the process
//! repeats its request until the task runs; the node starts the task only once. The end of a task
//! is reported to the process that requested it ([`task_reports`]). All tasks are ended
//! ([`cancellation`]) when the script has ended, or when the job is to end and does not wait for
//! its checkpoint.

pub mod cancellation;

pub mod task_reports;

pub mod task_requests;

use crate::model::job::Attempt;
use crate::model::job::Job;
use crate::model::job::Run;
use crate::model::job::TaskNumber;
use crate::model::job_id::JobId;
use crate::server::state::ServerState;
use std::sync::Arc;

/// The node on which a task of the open attempt runs; task 0 is the script.
pub fn node_of(job: &Job, attempt: Attempt, task: TaskNumber) -> Option<&str> {
    let run = job.life.open_run().filter(|run| run.attempt == attempt)?;
    match task {
        0 => job.script_node(),
        _ => run.share_of_task(task).map(|share| share.node.as_str()),
    }
}

/// The jobs with unfinished tasks on the nodes that `is_here` selects.
pub fn running_on(server: &ServerState, is_here: impl Fn(&str) -> bool) -> Vec<Arc<Job>> {
    let mut jobs = Vec::new();
    for job in server.holders() {
        if let Some(run) = job.life.open_run() {
            let open = run.tasks().open();
            let mut shares = open.filter_map(|(number, _)| run.share_of_task(number));
            if shares.any(|share| is_here(&share.node)) {
                jobs.push(job.clone());
            }
        }
    }
    jobs
}

/// The open attempt of a job, if it has this number.
fn open_attempt(server: &ServerState, job: JobId, attempt: Attempt) -> Option<&Run> {
    let run = server.job(job)?.life.open_run()?;
    (run.attempt == attempt).then_some(run)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::job::event::Event;
    use crate::model::job::state::JobState;
    use crate::model::job::{AttemptOutcome, How, Want};
    use crate::model::job::{Exit, NodeShare};
    use crate::sched::fixture;

    /// A job with its script on n1 and a task each on n1 and n2. The node file lists n1 twice, n2
    /// once.
    pub(super) fn job() -> Job {
        let mut job = fixture::cluster("2 x ncpus=2").job(1, "select=2:ncpus=1");
        let share = |node: &str, mpiprocs| NodeShare {
            mpiprocs,
            ..fixture::share(node)
        };
        apply_event(&mut job, Event::Submitted);
        apply_event(
            &mut job,
            Event::Started {
                attempt: 1,
                shares: vec![share("n1", 2), share("n2", 1)],
                score: None,
                extra: false,
            },
        );
        let tasks = job.life.run.as_mut().unwrap().tasks_mut();
        tasks.make(7, 0, 0);
        tasks.make(8, 2, 0);
        job
    }

    fn apply_event(job: &mut Job, event: Event) {
        job.apply(&event, fixture::moment(5));
    }

    fn ended(status: i32) -> Event {
        let outcome = AttemptOutcome {
            how: How::Exited(status),
            sent: None,
            used: Default::default(),
            notes: Vec::new(),
            unfit: None,
            on_its_own: false,
        };
        Event::Ended {
            attempt: 1,
            outcome,
        }
    }

    #[test]
    fn the_script_sets_the_exit_status_and_each_node_is_freed_by_its_last_task() {
        let mut job = job();
        assert_eq!(node_of(&job, 1, 2), Some("n2"));
        apply_event(&mut job, ended(3));
        assert_eq!(
            job.life.exit,
            Some(Exit {
                status: 3,
                deleted: false
            })
        );
        apply_event(&mut job, ended(4));
        assert_eq!(
            job.life.exit.unwrap().status,
            3,
            "a repeated end is ignored"
        );
        assert_eq!(node_of(&job, 1, 0), None, "the script has ended");
        assert_eq!(held(&job), ["n1", "n2"]);
        job.record_task_end(1, 0, Default::default());
        assert_eq!(held(&job), ["n2"]);
        job.record_task_end(2, 0, Default::default());
        assert!(job.life.open_run().is_none() && held(&job).is_empty());
    }

    fn held(job: &Job) -> Vec<String> {
        job.held().into_iter().map(|share| share.node).collect()
    }

    #[test]
    fn a_job_ended_by_force_holds_only_nodes_where_its_processes_may_still_run() {
        let mut job = job();
        job.record_task_end(2, 0, Default::default());
        assert_eq!(held(&job), ["n1", "n2"], "the job's script runs");
        apply_event(
            &mut job,
            Event::DeleteWanted {
                by: "me@here".into(),
                force: true,
            },
        );
        job.record_task_end(1, 0, Default::default());
        assert_eq!(held(&job), ["n1"], "the job's script may still run");
    }

    #[test]
    fn a_requeued_job_keeps_its_attempt_until_its_tasks_end_and_can_be_deleted_meanwhile() {
        let mut job = job();
        apply_event(
            &mut job,
            Event::RerunWanted {
                by: "me@here".into(),
            },
        );
        apply_event(&mut job, ended(3));
        assert_eq!(
            (job.life.state, job.life.open_run().is_some()),
            (JobState::Queued, true)
        );
        apply_event(
            &mut job,
            Event::RerunWanted {
                by: "me@here".into(),
            },
        );
        assert_eq!(job.life.want, Want::Run, "a queued job cannot be requeued");
        apply_event(
            &mut job,
            Event::Vanished {
                attempt: 1,
                why: "rebooted".into(),
            },
        );
        assert_eq!(
            (job.life.state, job.life.failed_starts),
            (JobState::Queued, 0)
        );
        apply_event(
            &mut job,
            Event::DeleteWanted {
                by: "me@here".into(),
                force: false,
            },
        );
        assert_eq!(job.life.state, JobState::Finished);
        [1, 2]
            .into_iter()
            .for_each(|task| job.record_task_end(task, 0, Default::default()));
        assert!(job.life.open_run().is_none());
    }

    #[test]
    fn hosts_and_slots_are_numbered_in_the_order_of_the_shares() {
        let job = job();
        let run = job.life.open_run().unwrap();
        let node = |slot| run.share_of_slot(slot).map(|share| share.node.as_str());
        assert_eq!(
            [0, 1, 2, 3].map(node),
            [Some("n1"), Some("n1"), Some("n2"), None]
        );
        assert_eq!(
            (run.host_number("n1"), run.host_number("n2"), run.slots()),
            (0, 1, 3)
        );
    }
}
