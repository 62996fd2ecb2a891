//! Orders that end tasks or send signals to tasks.

use crate::model::job::Attempt;
use crate::model::job::Job;
use crate::model::job::Run;
use crate::model::job::TaskNumber;
use crate::model::job::Want;
use crate::model::job::task::JobTask;
use crate::model::job_id::JobId;
use crate::server::orders::Orders;
use crate::server::state::ServerState;
use crate::wire::order::ScheddOrder;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Marks the selected tasks of a job as ending, and returns the orders to end them. Tasks that are
/// already marked get no new order here. They get one when a node reports that they have not ended.
pub(crate) fn cancel_tasks(
    server: &mut ServerState,
    job: &Job,
    is_selected: impl Fn(TaskNumber, &JobTask) -> bool,
) -> Orders {
    let Some(run) = job.life.open_run() else {
        return Vec::new();
    };
    let selected = run
        .tasks()
        .open()
        .filter(|&(number, task)| !task.ending && is_selected(number, task));
    let numbers: Vec<TaskNumber> = selected.map(|(number, _)| number).collect();
    if numbers.is_empty() {
        return Vec::new();
    }
    server.change_tasks(job.id, |job| {
        let Some(run) = job.life.run.as_mut() else {
            return;
        };
        for (number, task) in &mut run.tasks_mut().known {
            task.ending |= numbers.binary_search(number).is_ok();
        }
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

/// Ends the tasks of a job on the nodes that it has released.
pub fn cancel_on_released(server: &mut ServerState, job: &Job) -> Orders {
    let runs = job.life.open_run().into_iter();
    let released = runs.flat_map(|run| &run.released);
    let slots: BTreeSet<u32> = released
        .flat_map(|released| released.share.ranks.clone())
        .collect();
    cancel_tasks(server, job, |_, task| slots.contains(&task.slot))
}

/// Ends all tasks of each job that the current transaction has changed, if the job's script has
/// ended, or if the job is to end and does not wait for its checkpoint.
pub fn cancel_unwanted(server: &mut ServerState, orders: &mut Orders) {
    let touched = server.changed_jobs().filter(|job| has_tasks(job));
    let touched: Vec<Arc<Job>> = touched.cloned().collect();
    for job in touched {
        if !is_to_continue(&job) || !job.life.open_run().is_some_and(Run::has_script) {
            orders.extend(cancel_tasks(server, &job, |_, _| true));
        }
    }
}

fn has_tasks(job: &Job) -> bool {
    let run = job.life.open_run();
    run.is_some_and(|run| !run.tasks().known.is_empty())
}

/// Whether the tasks of a job may continue: the job is not to end, or waits for its checkpoint.
pub(super) fn is_to_continue(job: &Job) -> bool {
    job.life.want == Want::Run || job.awaits_checkpoint()
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

/// The orders that send a signal to all unfinished tasks of a job, except its script.
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
