//! The tasks of jobs: what processes of a job may start on its nodes, and what becomes of it.
//!
//! A wish comes from the noded of the process that has it. It is granted only within the attempt
//! that runs, on that attempt's nodes; the task is on disk before its node hears of it. What a task
//! runs is not kept: whoever asked says it again until it runs, and the node starts it once. The
//! end travels back the same way, and with the script's end all tasks are ended.

use crate::model::job::Attempt;
use crate::model::job::AttemptOutcome;
use crate::model::job::How;
use crate::model::job::Job;
use crate::model::job::Run;
use crate::model::job::TaskNumber;
use crate::model::job::Want;
use crate::model::job::event::Event;
use crate::model::job::run_limits::HostMemoryLimit;
use crate::model::job::run_limits::RunLimits;
use crate::model::job::staging::Files;
use crate::model::job::task::JobTask;
use crate::model::job::task::MOST;
use crate::model::job::task::NOT_EXECUTED;
use crate::model::job::task::TaskName;
use crate::model::job::task::TaskStage;
use crate::model::job::task::TaskToken;
use crate::model::job::task::node_file;
use crate::model::job_id::JobId;
use crate::server::inventory::Inventory;
use crate::server::orders;
use crate::server::orders::Orders;
use crate::server::release_nodes;
use crate::server::state::ServerState;
use crate::server::suspension;
use crate::wire::message::Payload;
use crate::wire::order::AttemptStatus;
use crate::wire::order::Launch;
use crate::wire::order::ScheddOrder;
use crate::wire::task::LARGEST;
use crate::wire::task::LARGEST_TASK_SET;
use crate::wire::task::TaskNews;
use crate::wire::task::TaskPlace;
use crate::wire::task::TaskProgram;
use crate::wire::task::TaskRequest;
use crate::wire::task::TaskRequestKind;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

// ------------------------------------------------------------------------- wishes

/// Answers a wish; what follows for nodes is added to `orders`.
pub fn grant(server: &mut ServerState, asked: &TaskRequest, orders: &mut Orders) -> TaskNews {
    let job = server.job(asked.job).cloned();
    let Some((job, run)) = job
        .as_ref()
        .and_then(|job| Some((job, runs_on(job, asked.attempt)?)))
    else {
        return TaskNews::Refused(format!(
            "job {} is ending: it starts no more tasks",
            asked.job
        ));
    };
    match &asked.kind {
        TaskRequestKind::Start(program) => match sound(run, program) {
            Ok(()) => start(server, asked, program, orders),
            Err(why) => TaskNews::Refused(why),
        },
        TaskRequestKind::Ask(tokens) => TaskNews::Stages(stages(run, tokens)),
        TaskRequestKind::End(tokens) => {
            let told = end(server, job, |_, task| tokens.contains(&task.token));
            orders.extend(told);
            TaskNews::Stages(Vec::new())
        }
        TaskRequestKind::Release(tokens) => {
            release(server, asked.job, tokens);
            TaskNews::Stages(Vec::new())
        }
    }
}

/// The attempt, if it is to run on and so may start tasks.
fn runs_on(job: &Job, attempt: Attempt) -> Option<&Run> {
    let wanted = job.life.state.is_under_way() && job.life.want == Want::Run;
    job.life
        .open_run()
        .filter(|run| wanted && run.has_script() && run.attempt == attempt)
}

/// Refuses what would cost others, or leads outside the job's nodes.
fn sound(run: &Run, program: &TaskProgram) -> Result<(), String> {
    let size = program.size();
    let known: BTreeSet<TaskToken> = run.tasks().known.values().map(|task| task.token).collect();
    let new = program
        .tasks
        .iter()
        .filter(|(token, _)| !known.contains(token))
        .count();
    match program.tasks.iter().map(|&(_, slot)| slot).max() {
        _ if size > LARGEST => Err(format!(
            "a program with {size} bytes of arguments and environment: at most {LARGEST}"
        )),
        _ if program.words.is_empty() => Err("no program".into()),
        _ if program.tasks.len().saturating_mul(size + 1024)
            > LARGEST_TASK_SET.max(size + 1024) =>
        {
            Err(format!(
                "{} tasks of {size} bytes at once: ask for fewer",
                program.tasks.len()
            ))
        }
        _ if run.tasks().open().count() + new > MOST => {
            Err(format!("a job may have {MOST} tasks at a time"))
        }
        _ if run.tasks().made > TaskNumber::MAX - MOST as u32 => {
            Err("this job has had all its tasks".into())
        }
        _ if program.tasks.iter().any(|&(token, _)| token == 0) => {
            Err("a task without a token".into())
        }
        Some(slot) if slot >= run.slots() => Err(format!(
            "this job has {} places for tasks, not {slot}",
            run.slots()
        )),
        _ => Ok(()),
    }
}

fn start(
    server: &mut ServerState,
    asked: &TaskRequest,
    program: &TaskProgram,
    orders: &mut Orders,
) -> TaskNews {
    let mut told = Vec::new();
    server.change_tasks(asked.job, |job| {
        let Some(run) = job.life.run.as_mut() else {
            return;
        };
        let places = run.places();
        let tasks = run.tasks_mut();
        let mut known: BTreeMap<TaskToken, TaskNumber> = tasks
            .known
            .iter()
            .map(|(&number, task)| (task.token, number))
            .collect();
        for &(token, line) in &program.tasks {
            let slot = match &places {
                Some(places) => places.get(line as usize).copied(),
                None => Some(line),
            };
            let Some(slot) = slot else { continue };
            let number = *known
                .entry(token)
                .or_insert_with(|| tasks.make(token, slot, asked.task));
            told.push((number, token, tasks.known[&number].stage));
        }
    });
    if let Some(job) = server.job(asked.job).cloned() {
        let waiting = told
            .iter()
            .filter(|(.., stage)| *stage == TaskStage::Ordered);
        orders.extend(waiting.filter_map(|&(number, ..)| launch(server, &job, program, number)));
    }
    TaskNews::Stages(
        told.into_iter()
            .map(|(_, token, stage)| (token, stage))
            .collect(),
    )
}

/// The order to start a task, for its node.
fn launch(
    server: &ServerState,
    job: &Job,
    program: &TaskProgram,
    number: TaskNumber,
) -> Option<(String, ScheddOrder)> {
    let run = job.life.open_run()?;
    let task = run.tasks().known.get(&number).filter(|task| !task.ending)?;
    let share = run.share_of_task(number)?;
    let payload = Payload::Command(program.words.clone());
    let place = TaskPlace {
        task: number,
        slot: task.slot,
        host: run.host_number(&share.host),
        nodes: Some(node_file(&run.shares)),
        room: HostMemoryLimit::on(&share.host, &run.shares),
    };
    let whole = orders::frame(&server.setup, job, run, payload, program.environ.clone());
    // What concerns the job as a whole is its script's: its time, its files, its terminal.
    let limits = RunLimits {
        warning: None,
        ..whole.limits
    };
    let (shares, files) = (vec![share.clone()], Files::default());
    let launch = Launch {
        walltime: None,
        interactive: false,
        limits,
        files,
        shares,
        place,
        ..whole
    };
    Some((share.node.clone(), ScheddOrder::Start(Box::new(launch))))
}

/// Whether a task has still to be started, when all of a tick has been taken in: its end may have
/// come behind the wish for it, and a node that has been told to forget a task would start it anew.
pub fn is_due(server: &ServerState, launch: &Launch) -> bool {
    let run = server
        .job(launch.job)
        .and_then(|job| runs_on(job, launch.attempt));
    let task = run.and_then(|run| run.tasks().known.get(&launch.place.task));
    task.is_some_and(|task| task.stage == TaskStage::Ordered && !task.ending)
}

/// How tasks stand; one that is not known, or no more, counts as lost.
fn stages(run: &Run, tokens: &[TaskToken]) -> Vec<(TaskToken, TaskStage)> {
    let known: BTreeMap<TaskToken, TaskStage> = run
        .tasks()
        .known
        .values()
        .map(|task| (task.token, task.stage))
        .collect();
    let mut stages = Vec::new();
    for token in tokens.iter().take(MOST) {
        let stage = known.get(token).copied();
        stages.push((*token, stage.unwrap_or(TaskStage::Over(NOT_EXECUTED))));
    }
    stages
}

fn release(server: &mut ServerState, id: JobId, tokens: &[TaskToken]) {
    let tokens: BTreeSet<&TaskToken> = tokens.iter().collect();
    server.change_tasks(id, |job| {
        let Some(run) = job.life.run.as_mut() else {
            return;
        };
        let known = &mut run.tasks_mut().known;
        known.retain(|_, task| task.is_open() || !tokens.contains(&task.token));
        let open = known
            .values_mut()
            .filter(|task| tokens.contains(&task.token));
        open.for_each(|task| task.token = 0);
    });
}

// ------------------------------------------------------------------------- ends

/// Notes that tasks of a job are to end, and returns the orders for it: each is told once, and
/// again when its node reports it all the same.
fn end(
    server: &mut ServerState,
    job: &Job,
    which: impl Fn(TaskNumber, &JobTask) -> bool,
) -> Orders {
    let Some(run) = job.life.open_run() else {
        return Vec::new();
    };
    let chosen = run
        .tasks()
        .open()
        .filter(|&(number, task)| !task.ending && which(number, task));
    let numbers: Vec<TaskNumber> = chosen.map(|(number, _)| number).collect();
    if numbers.is_empty() {
        return Vec::new();
    }
    server.change_tasks(job.id, |job| {
        let Some(run) = job.life.run.as_mut() else {
            return;
        };
        let chosen = run
            .tasks_mut()
            .known
            .iter_mut()
            .filter(|(number, _)| numbers.binary_search(number).is_ok());
        chosen.for_each(|(_, task)| task.ending = true);
    });
    let mut orders = Vec::new();
    for number in numbers {
        if let Some(share) = run.share_of_task(number) {
            let order = cancel(server, job.id, run.attempt, number);
            orders.push((share.node.clone(), order));
        }
    }
    orders
}

/// Ends the tasks of a job on what it has given back, and returns the orders for it.
pub fn withdraw(server: &mut ServerState, job: &Job) -> Orders {
    let runs = job.life.open_run().into_iter();
    let released = runs.flat_map(|run| &run.released);
    let lines: BTreeSet<u32> = released
        .flat_map(|released| released.share.ranks.clone())
        .collect();
    end(server, job, |_, task| lines.contains(&task.slot))
}

/// The order to end a task.
pub fn cancel(server: &ServerState, job: JobId, attempt: Attempt, task: TaskNumber) -> ScheddOrder {
    ScheddOrder::Cancel {
        job,
        attempt,
        task,
        grace: server.setup.config.launch.grace,
        signal: None,
        again: false,
    }
}

/// Ends the tasks of jobs touched in this tick that are not to run on: a task never outlives its
/// job.
pub fn wind_up(server: &mut ServerState, orders: &mut Orders) {
    let touched: Vec<Arc<Job>> = server
        .touched()
        .filter(|job| has_tasks(job))
        .cloned()
        .collect();
    for job in touched {
        if !is_to_run_on(&job) || !job.life.open_run().is_some_and(Run::has_script) {
            orders.extend(end(server, &job, |_, _| true));
        }
    }
}

/// Whether what it has started is to go on: while it is written down how far it has come, too.
fn is_to_run_on(job: &Job) -> bool {
    job.life.want == Want::Run || job.awaits_checkpoint()
}

fn has_tasks(job: &Job) -> bool {
    job.life
        .open_run()
        .is_some_and(|run| !run.tasks().known.is_empty())
}

/// The orders that send a signal to all tasks of a job.
pub fn signal(job: &Job, signal: i32) -> Orders {
    let Some(run) = job.life.open_run() else {
        return Vec::new();
    };
    let mut orders = Vec::new();
    for (task, _) in run.tasks().open() {
        if let Some(share) = run.share_of_task(task) {
            let order = ScheddOrder::Signal {
                job: job.id,
                attempt: run.attempt,
                task,
                signal,
            };
            orders.push((share.node.clone(), order));
        }
    }
    orders
}

// ------------------------------------------------------------------------- reports

/// Takes in what a node says of one task. `back` is for that node's noded.
pub fn task_stands(
    server: &mut ServerState,
    name: TaskName,
    status: &AttemptStatus,
    back: &mut Vec<ScheddOrder>,
    orders: &mut Orders,
) {
    let TaskName {
        job: id,
        attempt,
        task,
    } = name;
    let known = server
        .job(id)
        .and_then(|job| job.life.open_run())
        .filter(|run| run.attempt == attempt);
    let known = known.and_then(|run| run.tasks().known.get(&task)).cloned();
    match (status, known) {
        (AttemptStatus::Ended(outcome), _) => {
            over(server, name, outcome, orders);
            back.push(ScheddOrder::Confirm {
                job: id,
                attempt,
                task,
            });
        }
        (_, Some(known)) if known.is_open() && !known.ending => {
            if *status != AttemptStatus::Starting && known.stage == TaskStage::Ordered {
                server.change_tasks(id, |job| {
                    let task = job
                        .life
                        .run
                        .as_mut()
                        .and_then(|run| run.tasks_mut().known.get_mut(&task));
                    task.into_iter()
                        .for_each(|task| task.stage = TaskStage::Running);
                });
                orders.extend(
                    server
                        .job(id)
                        .and_then(|job| news(job, known.asker, known.token, TaskStage::Running)),
                );
            }
            suspension::part_stands(server, name, status, back);
            back.extend(
                server
                    .job(id)
                    .and_then(|job| release_nodes::places(job, task)),
            );
        }
        // One we know nothing of, or that is to end: it must not run on.
        _ => back.push(cancel(server, id, attempt, task)),
    }
}

/// A task is over: whoever asked for it is told.
fn over(server: &mut ServerState, name: TaskName, outcome: &AttemptOutcome, orders: &mut Orders) {
    let Some(job) = server.job(name.job).cloned() else {
        return;
    };
    let Some(run) = job
        .life
        .open_run()
        .filter(|run| run.attempt == name.attempt)
    else {
        return;
    };
    let Some(task) = run
        .tasks()
        .known
        .get(&name.task)
        .filter(|task| task.is_open())
    else {
        return;
    };
    let status = status(outcome);
    server.change_tasks(name.job, |job| {
        job.task_over(name.task, status, outcome.used)
    });
    suspension::note_still(server, name.job);
    orders.extend(news(&job, task.asker, task.token, TaskStage::Over(status)));
}

fn status(outcome: &AttemptOutcome) -> i32 {
    match outcome.how {
        How::Exited(code) => code,
        How::Signaled(signal) => 128 + signal,
        _ => NOT_EXECUTED,
    }
}

/// The news of one task for the node of its asker.
fn news(
    job: &Job,
    asker: TaskNumber,
    token: TaskToken,
    stage: TaskStage,
) -> Option<(String, ScheddOrder)> {
    let run = job
        .life
        .open_run()
        .filter(|run| run.has_script() && token != 0)?;
    // The asker may be over and forgotten; then its node, too, has nobody to tell.
    let node = run.share_of_task(asker)?.node.clone();
    let news = TaskNews::Stages(vec![(token, stage)]);
    Some((
        node,
        ScheddOrder::Tell {
            job: job.id,
            attempt: run.attempt,
            asker: None,
            news,
        },
    ))
}

/// Which tasks should be on the nodes of an inventory but are not. One that had begun is lost with
/// what happened there; one that had not is asked for again, if anybody still wants it.
pub fn take_inventory(server: &mut ServerState, inventory: &Inventory, orders: &mut Orders) {
    let attempts = inventory.attempts.iter();
    let listed: BTreeSet<(JobId, Attempt, TaskNumber)> = attempts
        .map(|&(job, attempt, task, _)| (job, attempt, task))
        .collect();
    for job in running_on(server, |node| inventory.presents(node)) {
        let Some(run) = job.life.open_run() else {
            continue;
        };
        let missing = run.tasks().open().filter(|&(number, task)| {
            let is_here = run
                .share_of_task(number)
                .is_some_and(|share| inventory.presents(&share.node));
            let is_wanted = run.has_script() && is_to_run_on(&job);
            let expected = task.stage == TaskStage::Running || task.ending || !is_wanted;
            is_here && expected && !listed.contains(&(job.id, run.attempt, number))
        });
        let gone: Vec<TaskNumber> = missing.map(|(number, _)| number).collect();
        for task in gone {
            over(
                server,
                TaskName {
                    job: job.id,
                    attempt: run.attempt,
                    task,
                },
                &lost(),
                orders,
            );
        }
        if run.silent
            && job.life.state.is_under_way()
            && job
                .script_node()
                .is_none_or(|node| !inventory.presents(node))
        {
            server.happen(job.id, Event::ContactRegained);
        }
    }
}

/// The tasks on a node are lost with it; what the nodes of their askers are told is added to
/// `orders`.
pub fn lose(server: &mut ServerState, node: &str, orders: &mut Orders) {
    for job in running_on(server, |name| name == node) {
        let Some(run) = job.life.open_run() else {
            continue;
        };
        let numbers = run.tasks().open().map(|(number, _)| number);
        let here: Vec<TaskNumber> = numbers
            .filter(|&number| {
                let share = run.share_of_task(number);
                share.is_some_and(|share| share.node == node)
            })
            .collect();
        for task in here {
            over(
                server,
                TaskName {
                    job: job.id,
                    attempt: run.attempt,
                    task,
                },
                &lost(),
                orders,
            );
        }
    }
}

fn lost() -> AttemptOutcome {
    AttemptOutcome {
        how: How::ShepherdLost,
        sent: None,
        used: Default::default(),
        notes: Vec::new(),
        unfit: None,
        on_its_own: false,
    }
}

/// Jobs with tasks that are not over on a node that `here` tells.
pub fn running_on(server: &ServerState, here: impl Fn(&str) -> bool) -> Vec<Arc<Job>> {
    let mut jobs = Vec::new();
    for job in server.holders().filter(|job| has_tasks(job)) {
        if let Some(run) = job.life.open_run() {
            let open = run.tasks().open();
            let mut shares = open.filter_map(|(number, _)| run.share_of_task(number));
            if shares.any(|share| here(&share.node)) {
                jobs.push(job.clone());
            }
        }
    }
    jobs
}

/// The node on which a task of the open attempt runs; 0 is the script.
pub fn node_of(job: &Job, attempt: Attempt, task: TaskNumber) -> Option<&str> {
    let run = job.life.open_run().filter(|run| run.attempt == attempt)?;
    match task {
        0 => job.script_node(),
        _ => run.share_of_task(task).map(|share| share.node.as_str()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::job::state::JobState;
    use crate::model::job::{Exit, NodeShare};
    use crate::sched::fixture;

    /// A job that runs on two nodes, two lines of the node file on the first, and has a task on
    /// each.
    fn job() -> Job {
        let mut job = fixture::cluster("2 x ncpus=2").job(1, "select=2:ncpus=1");
        let share = |node: &str, mpiprocs| NodeShare {
            mpiprocs,
            ..fixture::share(node)
        };
        happen(&mut job, Event::Submitted);
        happen(
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

    fn happen(job: &mut Job, event: Event) {
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
    fn the_status_is_known_at_once_and_each_node_is_free_with_its_last_task() {
        let mut job = job();
        assert_eq!(node_of(&job, 1, 2), Some("n2"));
        happen(&mut job, ended(3));
        assert_eq!(
            job.life.exit,
            Some(Exit {
                status: 3,
                deleted: false
            })
        );
        happen(&mut job, ended(4));
        assert_eq!(job.life.exit.unwrap().status, 3, "said twice it is one end");
        assert_eq!(
            node_of(&job, 1, 0),
            None,
            "nothing more is expected of the script's node"
        );
        assert_eq!(held(&job), ["n1", "n2"]);
        job.task_over(1, 0, Default::default());
        assert_eq!(held(&job), ["n2"]);
        job.task_over(2, 0, Default::default());
        assert!(job.life.open_run().is_none() && held(&job).is_empty());
    }

    fn held(job: &Job) -> Vec<String> {
        job.held().into_iter().map(|share| share.node).collect()
    }

    #[test]
    fn a_job_ended_by_force_holds_what_may_still_run_and_no_more() {
        let mut job = job();
        job.task_over(2, 0, Default::default());
        assert_eq!(held(&job), ["n1", "n2"], "it runs");
        happen(
            &mut job,
            Event::DeleteWanted {
                by: "me@here".into(),
                force: true,
            },
        );
        job.task_over(1, 0, Default::default());
        assert_eq!(held(&job), ["n1"], "the script may be there still");
    }

    #[test]
    fn a_job_put_back_waits_for_its_tasks_and_can_be_deleted_meanwhile() {
        let mut job = job();
        happen(
            &mut job,
            Event::RerunWanted {
                by: "me@here".into(),
            },
        );
        happen(&mut job, ended(3));
        assert_eq!(
            (job.life.state, job.life.open_run().is_some()),
            (JobState::Queued, true)
        );
        happen(
            &mut job,
            Event::RerunWanted {
                by: "me@here".into(),
            },
        );
        assert_eq!(job.life.want, Want::Run, "it does not run");
        happen(
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
        happen(
            &mut job,
            Event::DeleteWanted {
                by: "me@here".into(),
                force: false,
            },
        );
        assert_eq!(job.life.state, JobState::Finished);
        [1, 2]
            .into_iter()
            .for_each(|task| job.task_over(task, 0, Default::default()));
        assert!(job.life.open_run().is_none());
    }

    #[test]
    fn only_what_is_bounded_and_on_the_jobs_own_nodes_is_granted() {
        let mut job = job();
        let run = job.life.run.as_mut().unwrap();
        let program = |tasks: Vec<(TaskToken, u32)>, environ: usize| TaskProgram {
            words: vec!["true".into()],
            environ: vec![0; environ],
            tasks,
        };
        assert_eq!(sound(run, &program(vec![(1, 0), (2, 2)], 10)), Ok(()));
        assert!(
            sound(run, &program(vec![(1, 3)], 10))
                .unwrap_err()
                .contains("3 places")
        );
        assert!(sound(run, &program(vec![(0, 0)], 10)).is_err());
        assert!(
            sound(run, &program(vec![(1, 0)], LARGEST))
                .unwrap_err()
                .contains("bytes of arguments")
        );
        assert!(
            sound(run, &program(vec![(1, 0); 100], LARGEST / 2))
                .unwrap_err()
                .contains("fewer")
        );
        assert!(
            sound(
                run,
                &TaskProgram {
                    words: vec![],
                    ..program(vec![(1, 0)], 0)
                }
            )
            .is_err()
        );
        for token in 100..MOST as u64 + 98 {
            run.tasks_mut().make(token, 0, 0);
        }
        assert!(
            sound(run, &program(vec![(1, 0)], 10))
                .unwrap_err()
                .contains("at a time")
        );
        assert_eq!(
            sound(run, &program(vec![(100, 0)], 10)),
            Ok(()),
            "one that is known is not new"
        );
        assert_eq!(
            stages(run, &[7, 5]),
            [(7, TaskStage::Ordered), (5, TaskStage::Over(NOT_EXECUTED))]
        );
    }

    #[test]
    fn hosts_are_numbered_in_the_order_of_the_shares_and_lines_lead_to_shares() {
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
