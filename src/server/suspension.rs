//! Suspension of running jobs: authorization, orders to nodes, and reports of nodes.
//!
//! A job records whether it is to be suspended ([`crate::model::job::suspension`]). The job's
//! script and tasks are its parts. Until a part has confirmed the order to suspend or resume, its
//! node gets the order again after each change of the job, at each reconnection, and on each
//! conflicting report.

use crate::model::job::Job;
use crate::model::job::NodeShare;
use crate::model::job::Run;
use crate::model::job::TaskNumber;
use crate::model::job::Want;
use crate::model::job::array::Indices;
use crate::model::job::event::Event;
use crate::model::job::suspend::SuspendRequest;
use crate::model::job::task::TaskName;
use crate::model::job_id::JobId;
use crate::model::refusal::Refusal;
use crate::sched::view::plan::Resume;
use crate::server::granted::Granted;
use crate::server::orders::Orders;
use crate::server::request_context::RequestContext;
use crate::server::state::ServerState;
use crate::wire::order::AttemptStatus;
use crate::wire::order::ScheddOrder;

impl RequestContext<'_> {
    /// Handles `qsig -s suspend` and related signals, which only operators and managers may send.
    /// If `id` is an array, the request applies to its started subjobs, or to those of them in
    /// `only`. Subjobs that cannot be suspended or resumed are skipped. The request is refused if
    /// it changes no job.
    pub(crate) fn suspend_or_resume(
        &mut self,
        id: JobId,
        only: Option<Indices>,
        turn: SuspendRequest,
    ) -> Result<Granted, Refusal> {
        self.unfinished_job(id.parent().unwrap_or(id))?;
        self.caller.must_be_privileged()?;
        let releases = self.server.setup.policy.preemption.releases.clone();
        let jobs = self
            .started_jobs(id, only)?
            .into_iter()
            .filter_map(|id| self.server.job(id));
        let (mut events, mut why) = (Vec::new(), self.not_running(id));
        for job in jobs {
            match turn.of(job, &self.caller.shown(), &releases) {
                Ok(of_job) => events.extend(of_job.into_iter().map(|event| (job.id, event))),
                Err(refusal) => why = refusal,
            }
        }
        if events.is_empty() {
            return Err(why);
        }
        events
            .into_iter()
            .for_each(|(id, event)| self.server.apply_event(id, event));
        Ok(Granted::Done)
    }
}

impl ServerState {
    /// Resumes jobs as planned.
    pub fn apply_resumes(&mut self, resumes: &[Resume]) {
        for Resume { job, shares, .. } in resumes {
            let waits = self
                .job(*job)
                .filter(|job| job.waits_to_resume())
                .and_then(|job| job.life.open_run());
            if let Some(attempt) = waits.map(|run| run.attempt) {
                self.apply_event(
                    *job,
                    Event::Resumed {
                        attempt,
                        shares: shares.clone(),
                    },
                );
            }
        }
    }
}

/// The orders to suspend or resume that the parts of a job have not confirmed yet. Empty if the job
/// is to end.
pub fn orders(job: &Job) -> Orders {
    let Some(run) = job.life.open_run() else {
        return Vec::new();
    };
    if job.life.want != Want::Run {
        return Vec::new();
    }
    let tasks = run.tasks().open().map(|(number, _)| number);
    let parts = tasks.chain(run.has_script().then_some(0));
    parts
        .filter_map(|task| {
            Some((
                run.share_of_task(task)?.node.clone(),
                wanted(job, run, task)?,
            ))
        })
        .collect()
}

/// The order to suspend or resume that a part of an attempt has not confirmed; None if no order is
/// due.
fn wanted(job: &Job, run: &Run, task: TaskNumber) -> Option<ScheddOrder> {
    let (job, attempt) = (job.id, run.attempt);
    match &run.suspension {
        Some(suspension) if !suspension.stopped.contains(&task) => {
            Some(ScheddOrder::Suspend { job, attempt, task })
        }
        None if run.pauses().waking.contains(&task) => Some(ScheddOrder::Resume {
            job,
            attempt,
            task,
            cpus: processors(run, task),
        }),
        _ => None,
    }
}

/// The processors that a part of an attempt may use, by their numbers on the host.
fn processors(run: &Run, task: TaskNumber) -> Vec<u16> {
    let Some(own) = run.share_of_task(task) else {
        return Vec::new();
    };
    let is_own = |share: &&NodeShare| {
        if task == 0 {
            share.host == own.host
        } else {
            *share == own
        }
    };
    run.shares
        .iter()
        .filter(is_own)
        .flat_map(|share| share.cpus.iter().copied())
        .collect()
}

/// Handles a report that a part of an attempt is suspended or runs. Orders for the reporting noded
/// are added to `back`.
pub fn handle_part(
    server: &mut ServerState,
    name: TaskName,
    status: &AttemptStatus,
    back: &mut Vec<ScheddOrder>,
) {
    let TaskName {
        job: id,
        attempt,
        task,
    } = name;
    let Some(job) = server.job(id).cloned() else {
        return;
    };
    let Some(run) = job
        .life
        .open_run()
        .filter(|run| run.attempt == attempt && job.life.want == Want::Run)
    else {
        return;
    };
    match (status, &run.suspension) {
        (AttemptStatus::Suspended(_), Some(suspension)) if !suspension.stopped.contains(&task) => {
            server.change_tasks(id, |job| job.note_stopped(task));
            complete_suspension(server, id);
        }
        (AttemptStatus::Running(_), Some(_)) => back.push(ScheddOrder::Suspend {
            job: id,
            attempt,
            task,
        }),
        (AttemptStatus::Suspended(_), None) => {
            back.push(ScheddOrder::Resume {
                job: id,
                attempt,
                task,
                cpus: processors(run, task),
            });
        }
        (AttemptStatus::Running(_), None) if run.pauses().waking.contains(&task) => {
            server.change_tasks(id, |job| job.note_continued(task));
        }
        _ => {}
    }
}

/// Completes the suspension of a job if all its parts have stopped; otherwise does nothing. The job
/// then releases the resources that its suspension mode names.
pub fn complete_suspension(server: &mut ServerState, id: JobId) {
    let newly = server
        .job(id)
        .filter(|job| job.is_newly_stopped())
        .and_then(|job| job.life.open_run());
    if let Some(attempt) = newly.map(|run| run.attempt) {
        server.apply_event(id, Event::Suspended { attempt });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::job::suspension::SuspendMode;
    use crate::sched::fixture;

    fn apply_event(job: &mut Job, event: Event) {
        job.apply(&event, fixture::moment(5));
    }

    /// A job that runs its script on node a0, and tasks on a1 (same host) and b.
    fn job() -> Job {
        let mut job = fixture::cluster("").job(1, "select=3:ncpus=1");
        let share = |node: &str, host: &str, cpus: &[u16]| {
            let (host, cpus) = (host.to_string(), cpus.to_vec());
            NodeShare {
                host,
                cpus,
                ..fixture::share(node)
            }
        };
        let shares = vec![
            share("a0", "a", &[0, 1]),
            share("a1", "a", &[2]),
            share("b", "b", &[7]),
        ];
        apply_event(
            &mut job,
            Event::Started {
                attempt: 1,
                shares,
                score: None,
                extra: false,
            },
        );
        apply_event(
            &mut job,
            Event::Launched {
                attempt: 1,
                session: 4,
                boot: "b".into(),
            },
        );
        let tasks = job.life.run.as_mut().unwrap().tasks_mut();
        tasks.make(7, 1, 0);
        tasks.make(8, 2, 0);
        job
    }

    /// The orders as text, such as `a0 stop 0` or, with processors, `a0 go 0 on [0, 1, 2]`.
    fn order_texts(job: &Job) -> Vec<String> {
        let text_of = |(node, order): (String, ScheddOrder)| match order {
            ScheddOrder::Suspend { task, .. } => format!("{node} stop {task}"),
            ScheddOrder::Resume { task, cpus, .. } => format!("{node} go {task} on {cpus:?}"),
            other => panic!("{other:?}"),
        };
        let mut order_texts: Vec<String> = orders(job).into_iter().map(text_of).collect();
        order_texts.sort();
        order_texts
    }

    #[test]
    fn orders_are_repeated_until_each_part_confirms_them() {
        let mut job = job();
        assert_eq!(order_texts(&job), [""; 0]);
        let manner = SuspendMode::UntilTold {
            releases: vec!["ncpus".into()],
        };
        apply_event(
            &mut job,
            Event::SuspendWanted {
                by: "op@head".into(),
                attempt: 1,
                manner,
            },
        );
        assert_eq!(order_texts(&job), ["a0 stop 0", "a1 stop 1", "b stop 2"]);
        job.note_stopped(1);
        assert_eq!(order_texts(&job), ["a0 stop 0", "b stop 2"]);
        job.note_stopped(0);
        job.note_stopped(2);
        apply_event(&mut job, Event::Suspended { attempt: 1 });
        assert_eq!(order_texts(&job), [""; 0]);
        let mut shares = job.life.run.as_ref().unwrap().shares.clone();
        shares[0].cpus = vec![3, 4];
        apply_event(&mut job, Event::Resumed { attempt: 1, shares });
        // The script gets all processors of the job on host a; a task gets the processors of its
        // node.
        assert_eq!(
            order_texts(&job),
            ["a0 go 0 on [3, 4, 2]", "a1 go 1 on [2]", "b go 2 on [7]"]
        );
        job.note_continued(0);
        assert_eq!(order_texts(&job), ["a1 go 1 on [2]", "b go 2 on [7]"]);
    }

    #[test]
    fn a_job_to_be_deleted_gets_no_suspend_orders() {
        let mut job = job();
        let manner = SuspendMode::UntilTold {
            releases: Vec::new(),
        };
        apply_event(
            &mut job,
            Event::SuspendWanted {
                by: "op@head".into(),
                attempt: 1,
                manner,
            },
        );
        apply_event(
            &mut job,
            Event::DeleteWanted {
                by: "op@head".into(),
                force: false,
            },
        );
        assert_eq!(order_texts(&job), [""; 0]);
    }
}
