//! Requests of processes to start, query, end and release tasks.

use crate::model::job::Attempt;
use crate::model::job::Job;
use crate::model::job::Run;
use crate::model::job::TaskNumber;
use crate::model::job::Want;
use crate::model::job::run_limits::HostMemoryLimit;
use crate::model::job::run_limits::RunLimits;
use crate::model::job::staging::Files;
use crate::model::job::task::MOST;
use crate::model::job::task::NOT_EXECUTED;
use crate::model::job::task::TaskStage;
use crate::model::job::task::TaskToken;
use crate::model::job::task::node_file;
use crate::model::job_id::JobId;
use crate::server::orders;
use crate::server::orders::Orders;
use crate::server::state::ServerState;
use crate::server::tasks::cancellation;
use crate::wire::message::Payload;
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

/// Carries out and answers a request. The resulting orders are added to `orders`.
pub fn grant(server: &mut ServerState, request: &TaskRequest, orders: &mut Orders) -> TaskNews {
    let job = server.job(request.job).cloned();
    let Some((job, run)) = job
        .as_ref()
        .and_then(|job| Some((job, startable_run(job, request.attempt)?)))
    else {
        return TaskNews::Refused(format!(
            "job {} does not run or is ending: requests for its tasks are refused",
            request.job
        ));
    };
    match &request.kind {
        TaskRequestKind::Start(program) => match check(run, program) {
            Ok(()) => start(server, request, program, orders),
            Err(why) => TaskNews::Refused(why),
        },
        TaskRequestKind::Ask(tokens) => TaskNews::Stages(stages(run, tokens)),
        TaskRequestKind::End(tokens) => {
            let cancels =
                cancellation::cancel_tasks(server, job, |_, task| tokens.contains(&task.token));
            orders.extend(cancels);
            TaskNews::Stages(Vec::new())
        }
        TaskRequestKind::Release(tokens) => {
            release(server, request.job, tokens);
            TaskNews::Stages(Vec::new())
        }
    }
}

/// The open attempt of a job, if it has the number `attempt`, its script runs or is suspended, and
/// the job is not to end. Only then may processes of the job start tasks.
fn startable_run(job: &Job, attempt: Attempt) -> Option<&Run> {
    let is_wanted = job.life.state.is_under_way() && job.life.want == Want::Run;
    job.life
        .open_run()
        .filter(|run| is_wanted && run.has_script() && run.attempt == attempt)
}

/// Refuses a request to start tasks if a program is missing or too large, if there are too many
/// tasks, if a task has no token, or if a place does not exist.
fn check(run: &Run, program: &TaskProgram) -> Result<(), String> {
    let size = program.size();
    let known: BTreeSet<TaskToken> = run.tasks().known.values().map(|task| task.token).collect();
    let new = program
        .tasks
        .iter()
        .filter(|(token, _)| !known.contains(token))
        .count();
    match program.tasks.iter().map(|&(_, slot)| slot).max() {
        _ if size > LARGEST => Err(format!(
            "a task has {size} bytes of arguments and environment: at most {LARGEST} are allowed"
        )),
        _ if program.words.is_empty() => Err("the request names no program to start".into()),
        _ if program.tasks.len().saturating_mul(size + 1024)
            > LARGEST_TASK_SET.max(size + 1024) =>
        {
            Err(format!(
                "a request cannot start {} tasks of {size} bytes: request fewer tasks",
                program.tasks.len()
            ))
        }
        _ if run.tasks().open().count() + new > MOST => {
            Err(format!("a job may have at most {MOST} tasks at a time"))
        }
        _ if run.tasks().made > TaskNumber::MAX - MOST as u32 => {
            Err("this attempt has started the maximum number of tasks".into())
        }
        _ if program.tasks.iter().any(|&(token, _)| token == 0) => {
            Err("a task in the request has no token".into())
        }
        Some(slot) if slot >= run.slots() => Err(format!(
            "place {slot} does not exist: this job has {} places for tasks, numbered from 0",
            run.slots()
        )),
        _ => Ok(()),
    }
}

/// Creates the tasks that are new, and orders the start of each requested task that does not run
/// yet.
fn start(
    server: &mut ServerState,
    request: &TaskRequest,
    program: &TaskProgram,
    orders: &mut Orders,
) -> TaskNews {
    let mut tasks_by_token = Vec::new();
    server.change_tasks(request.job, |job| {
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
                .or_insert_with(|| tasks.make(token, slot, request.task));
            tasks_by_token.push((number, token, tasks.known[&number].stage));
        }
    });
    let mut stages = Vec::new();
    for (number, token, stage) in tasks_by_token {
        if stage == TaskStage::Ordered
            && let Some(job) = server.job(request.job)
        {
            orders.extend(launch(server, job, program, number));
        }
        stages.push((token, stage));
    }
    TaskNews::Stages(stages)
}

/// The order to start a task, with the node that receives the order.
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
    let of_script = orders::launch_order(&server.setup, job, run, payload, program.environ.clone());
    // Time limits, staged files and the terminal of a job apply only to its script.
    let limits = RunLimits {
        warning: None,
        ..of_script.limits
    };
    let launch = Launch {
        walltime: None,
        interactive: false,
        limits,
        files: Files::default(),
        shares: vec![share.clone()],
        place,
        ..of_script
    };
    Some((share.node.clone(), ScheddOrder::Start(Box::new(launch))))
}

/// Whether a task must still be started. Callers check this after all reports of a transaction are
/// applied. A report may have ended the task; its node has then forgotten the task, and would start
/// it again.
pub fn is_due(server: &ServerState, launch: &Launch) -> bool {
    let run = server
        .job(launch.job)
        .and_then(|job| startable_run(job, launch.attempt));
    let task = run.and_then(|run| run.tasks().known.get(&launch.place.task));
    task.is_some_and(|task| task.stage == TaskStage::Ordered && !task.ending)
}

/// The stages of tasks. An unknown task counts as ended without having run.
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

/// Forgets the ended tasks with these tokens. If a task with one of these tokens is still open, its
/// end will not be reported.
fn release(server: &mut ServerState, id: JobId, tokens: &[TaskToken]) {
    let tokens: BTreeSet<&TaskToken> = tokens.iter().collect();
    server.change_tasks(id, |job| {
        let Some(run) = job.life.run.as_mut() else {
            return;
        };
        let known = &mut run.tasks_mut().known;
        known.retain(|_, task| task.is_open() || !tokens.contains(&task.token));
        for task in known.values_mut() {
            if tokens.contains(&task.token) {
                task.token = 0;
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::tasks::tests::job;

    #[test]
    fn requests_with_too_large_or_too_many_tasks_or_without_a_program_are_refused() {
        let mut job = job();
        let run = job.life.run.as_mut().unwrap();
        let program = |tasks: Vec<(TaskToken, u32)>, environ: usize| TaskProgram {
            words: vec!["true".into()],
            environ: vec![0; environ],
            tasks,
        };
        assert_eq!(check(run, &program(vec![(1, 0), (2, 2)], 10)), Ok(()));
        assert!(
            check(run, &program(vec![(1, 3)], 10))
                .unwrap_err()
                .contains("3 places")
        );
        assert!(check(run, &program(vec![(0, 0)], 10)).is_err());
        assert!(
            check(run, &program(vec![(1, 0)], LARGEST))
                .unwrap_err()
                .contains("bytes of arguments")
        );
        assert!(
            check(run, &program(vec![(1, 0); 100], LARGEST / 2))
                .unwrap_err()
                .contains("fewer")
        );
        assert!(
            check(
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
            check(run, &program(vec![(1, 0)], 10))
                .unwrap_err()
                .contains("at a time")
        );
        assert_eq!(
            check(run, &program(vec![(100, 0)], 10)),
            Ok(()),
            "a known task is not counted as new"
        );
        assert_eq!(
            stages(run, &[7, 5]),
            [(7, TaskStage::Ordered), (5, TaskStage::Over(NOT_EXECUTED))]
        );
    }
}
