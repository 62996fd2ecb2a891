//! Reports of nodes on tasks.

use crate::model::job::AttemptOutcome;
use crate::model::job::How;
use crate::model::job::Job;
use crate::model::job::TaskNumber;
use crate::model::job::event::Event;
use crate::model::job::task::JobTask;
use crate::model::job::task::NOT_EXECUTED;
use crate::model::job::task::TaskName;
use crate::model::job::task::TaskStage;
use crate::server::inventory::Inventory;
use crate::server::orders::Orders;
use crate::server::release_nodes;
use crate::server::state::ServerState;
use crate::server::suspension;
use crate::server::tasks::cancellation;
use crate::server::tasks::open_attempt;
use crate::server::tasks::running_on;
use crate::wire::order::AttemptStatus;
use crate::wire::order::ScheddOrder;
use crate::wire::task::TaskNews;
use std::collections::BTreeSet;

/// Handles the status of a task. Orders for the reporting noded are added to `back`.
pub fn handle_status(
    server: &mut ServerState,
    name: TaskName,
    status: &AttemptStatus,
    back: &mut Vec<ScheddOrder>,
    orders: &mut Orders,
) {
    if let AttemptStatus::Ended(outcome) = status {
        end_task(server, name, outcome, orders);
        back.push(ScheddOrder::Confirm {
            job: name.job,
            attempt: name.attempt,
            task: name.task,
        });
        return;
    }
    let run = open_attempt(server, name.job, name.attempt);
    let known = run.and_then(|run| run.tasks().known.get(&name.task));
    let Some(task) = known.filter(|task| task.is_open() && !task.ending) else {
        // A task that is unknown, or recorded as ended or as ending, must end.
        back.push(cancellation::cancel(
            server,
            name.job,
            name.attempt,
            name.task,
        ));
        return;
    };
    if *status != AttemptStatus::Starting && task.stage == TaskStage::Ordered {
        let task = task.clone();
        note_running(server, name, &task, orders);
    }
    suspension::handle_part(server, name, status, back);
    let job = server.job(name.job);
    back.extend(job.and_then(|job| release_nodes::node_file_order(job, name.task)));
}

/// Records that a task runs, and notifies the process that requested the task.
fn note_running(server: &mut ServerState, name: TaskName, task: &JobTask, orders: &mut Orders) {
    server.change_tasks(name.job, |job| {
        let tasks = job.life.run.as_mut().map(|run| run.tasks_mut());
        if let Some(task) = tasks.and_then(|tasks| tasks.known.get_mut(&name.task)) {
            task.stage = TaskStage::Running;
        }
    });
    let job = server.job(name.job);
    orders.extend(job.and_then(|job| notification(job, task, TaskStage::Running)));
}

/// Records that a task has ended, and notifies the process that requested the task.
fn end_task(
    server: &mut ServerState,
    name: TaskName,
    outcome: &AttemptOutcome,
    orders: &mut Orders,
) {
    let Some(job) = server.job(name.job).cloned() else {
        return;
    };
    let run = open_attempt(server, name.job, name.attempt);
    let known = run.and_then(|run| run.tasks().known.get(&name.task));
    let Some(task) = known.filter(|task| task.is_open()).cloned() else {
        return;
    };
    let status = match outcome.how {
        How::Exited(code) => code,
        How::Signaled(signal) => 128 + signal,
        _ => NOT_EXECUTED,
    };
    server.change_tasks(name.job, |job| {
        job.record_task_end(name.task, status, outcome.used)
    });
    suspension::complete_suspension(server, name.job);
    orders.extend(notification(&job, &task, TaskStage::Over(status)));
}

/// The order that reports a task's stage to the process that requested the task. None if the script
/// has ended, or if this process has released the task or is unknown.
fn notification(job: &Job, task: &JobTask, stage: TaskStage) -> Option<(String, ScheddOrder)> {
    let run = job
        .life
        .open_run()
        .filter(|run| run.has_script() && task.token != 0)?;
    let order = ScheddOrder::Tell {
        job: job.id,
        attempt: run.attempt,
        asker: None,
        news: TaskNews::Stages(vec![(task.token, stage)]),
    };
    Some((run.share_of_task(task.asker)?.node.clone(), order))
}

/// Handles the unfinished tasks on the nodes of an inventory. A task that the inventory does not
/// list is lost, except if it was ordered, has not run yet and may continue: the process that
/// requested this task repeats the request. If a job has unfinished tasks on these nodes and was
/// out of contact, it regains contact. If its script runs on a node of the inventory, the report
/// about the script decides instead.
pub fn apply_inventory(server: &mut ServerState, inventory: &Inventory, orders: &mut Orders) {
    let mut listed = BTreeSet::new();
    for &(job, attempt, task, _) in &inventory.attempts {
        listed.insert((job, attempt, task));
    }
    for job in running_on(server, |node| inventory.presents(node)) {
        let Some(run) = job.life.open_run() else {
            continue;
        };
        let is_wanted = run.has_script() && cancellation::is_to_continue(&job);
        let missing = run.tasks().open().filter(|&(number, task)| {
            let share = run.share_of_task(number);
            let is_here = share.is_some_and(|share| inventory.presents(&share.node));
            let is_expected = task.stage == TaskStage::Running || task.ending || !is_wanted;
            is_here && is_expected && !listed.contains(&(job.id, run.attempt, number))
        });
        let missing: Vec<TaskNumber> = missing.map(|(number, _)| number).collect();
        lose_tasks(server, &job, missing, orders);
        let script = job.script_node();
        if run.silent
            && job.life.state.is_under_way()
            && script.is_none_or(|node| !inventory.presents(node))
        {
            server.apply_event(job.id, Event::ContactRegained);
        }
    }
}

/// Handles the loss of a node. All tasks on the node are lost, and the processes that requested the
/// tasks are notified.
pub fn lose_node(server: &mut ServerState, node: &str, orders: &mut Orders) {
    for job in running_on(server, |name| name == node) {
        let Some(run) = job.life.open_run() else {
            continue;
        };
        let here = run.tasks().open().filter(|&(number, _)| {
            let share = run.share_of_task(number);
            share.is_some_and(|share| share.node == node)
        });
        let here = here.map(|(number, _)| number).collect();
        lose_tasks(server, &job, here, orders);
    }
}

/// Records that tasks of a job's open attempt have ended, because no node reports them any more.
fn lose_tasks(server: &mut ServerState, job: &Job, tasks: Vec<TaskNumber>, orders: &mut Orders) {
    let Some(run) = job.life.open_run() else {
        return;
    };
    let outcome = AttemptOutcome {
        how: How::ShepherdLost,
        sent: None,
        used: Default::default(),
        notes: Vec::new(),
        unfit: None,
        on_its_own: false,
    };
    for task in tasks {
        let name = TaskName {
            job: job.id,
            attempt: run.attempt,
            task,
        };
        end_task(server, name, &outcome, orders);
    }
}
