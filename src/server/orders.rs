//! Orders to nodes, derived from the state of jobs. The same order may be sent again after a
//! restart, a lost connection or a change of the job.

use crate::config::Workdir;
use crate::model::hook::HookEvent;
use crate::model::hook::hooks_at;
use crate::model::hook::job_hooks::JobHooks;
use crate::model::hook::job_hooks::around_a_job;
use crate::model::job::Job;
use crate::model::job::JobProgram;
use crate::model::job::Run;
use crate::model::job::Want;
use crate::model::job::attempt::CheckpointProgress;
use crate::model::job::output_path;
use crate::model::job::output_path::OutputStream;
use crate::model::job::response::Missing;
use crate::model::job::run_limits::RunLimits;
use crate::model::job::run_limits::TimeLimits;
use crate::model::job::staging::Files;
use crate::model::job::state::JobState;
use crate::model::refusal::Refusal;
use crate::model::signal;
use crate::model::text::Text;
use crate::model::time::Span;
use crate::server::checkpoint;
use crate::server::job_environment;
use crate::server::outside::JobHistory;
use crate::server::setup::Setup;
use crate::server::state::ServerState;
use crate::shown::job_json;
use crate::wire::message::Payload;
use crate::wire::order::Launch;
use crate::wire::order::ScheddOrder;
use crate::wire::task::TaskPlace;
use serde_json::Value;

/// Orders, each with the node that receives it.
pub type Orders = Vec<(String, ScheddOrder)>;

/// The order that a job's state requires, with the node that receives it; None if no order is due.
pub fn order(
    server: &ServerState,
    history: &dyn JobHistory,
    job: &Job,
) -> Result<Option<(String, ScheddOrder)>, Refusal> {
    let (Some(run), Some(node)) = (job.life.open_run(), job.script_node()) else {
        return Ok(None);
    };
    let (id, attempt) = (job.id, run.attempt);
    let order = match (&job.life.want, run.session) {
        (Want::Run, Some(_)) => return Ok(None),
        (Want::Run, None) => ScheddOrder::Start(Box::new(launch(server, history, job, run)?)),
        (Want::Requeue(_), Some(_)) if checkpoint::is_pending(&server.setup, job) => {
            return Ok(
                checkpoint::order(&server.setup, job, run).map(|order| (node.to_string(), order))
            );
        }
        _ => {
            let (grace, signal) = end_grace(&server.setup, job, run);
            let again = matches!(job.life.want, Want::Requeue(_) | Want::Anew);
            ScheddOrder::Cancel {
                job: id,
                attempt,
                task: 0,
                grace,
                signal,
                again,
            }
        }
    };
    Ok(Some((node.to_string(), order)))
}

/// How long a job may take to end, and the signal that it gets first; None for the signal that
/// noded sends by default. The signal lets a preempted job save its state (Y17).
pub fn end_grace(setup: &Setup, job: &Job, run: &Run) -> (Span, Option<i32>) {
    // A finished job with an open attempt was deleted by force, so noded kills its processes at
    // once.
    if job.life.state == JobState::Finished {
        return (Span(0), Some(signal::KILL));
    }
    let (usual, rule) = (setup.config.launch.grace, &setup.policy.preemption);
    // If a checkpoint of the job is wanted, the job gets SIGTERM first, even with a grace of 0
    // (Y17).
    let first = (run.checkpoint == CheckpointProgress::Wanted).then_some(signal::TERM);
    if !job.was_preempted(run) {
        return (usual, first);
    }
    match job.interruption() {
        Some(signal) => (rule.interruption, Some(signal)),
        None => (rule.grace.unwrap_or(usual), first),
    }
}

/// The order with the current time limits of a running job, which may have been altered.
pub fn time_limits(job: &Job) -> Option<(String, ScheddOrder)> {
    let (run, node) = (job.life.open_run()?, job.script_node()?);
    let order = ScheddOrder::Walltime {
        job: job.id,
        attempt: run.attempt,
        times: TimeLimits::of(&job.spec),
    };
    Some((node.to_string(), order))
}

/// The order with the periodic hooks that nodes run.
pub fn periodic_hooks(setup: &Setup) -> ScheddOrder {
    let hooks = hooks_at(&setup.config.hooks, HookEvent::ExechostPeriodic)
        .into_iter()
        .cloned()
        .collect();
    ScheddOrder::Attend {
        server: setup.name.clone(),
        hooks,
    }
}

fn launch(
    server: &ServerState,
    history: &dyn JobHistory,
    job: &Job,
    run: &Run,
) -> Result<Launch, Refusal> {
    let lost = || {
        Refusal::spool(format!(
            "the script or environment of job {} is missing in the spool",
            job.id
        ))
    };
    let payload = match &job.spec.program {
        JobProgram::Command(words) => Payload::Command(words.clone()),
        JobProgram::Script(digest) => Payload::Script(history.script(*digest)?.ok_or_else(lost)?),
    };
    let environ = history.environment(job.spec.environ)?.ok_or_else(lost)?;
    Ok(Launch {
        job_hooks: job_hooks(server, job),
        ..launch_order(&server.setup, job, run, payload, environ)
    })
}

/// The hooks and prologue/epilogue of a job; None if the site has none.
fn job_hooks(server: &ServerState, job: &Job) -> Option<Box<JobHooks>> {
    let config = &server.setup.config;
    let (hooks, scripts) = (around_a_job(&config.hooks), config.launch.scripts.clone());
    if hooks.is_empty() && scripts.prologue.is_none() && scripts.epilogue.is_none() {
        return None;
    }
    let job_document = job_json::of_job(job, None, &server.facts_now());
    Some(Box::new(JobHooks {
        hooks,
        scripts,
        server: server.setup.name.clone(),
        job: Value::Object(job_document).to_string(),
    }))
}

/// The amount of a resource in the first share, on the node that runs the script.
fn granted_amount(run: &Run, resource: &str) -> Option<i64> {
    run.shares
        .first()?
        .taken
        .iter()
        .find(|(name, _)| name == resource)?
        .1
        .amount()
}

/// The order to start an attempt with this payload and environment.
pub fn launch_order(
    setup: &Setup,
    job: &Job,
    run: &Run,
    payload: Payload,
    environ: Vec<u8>,
) -> Launch {
    let checkpoint = &setup.config.launch.checkpoint;
    let in_home = setup.config.server.workdir == Workdir::Home;
    let first = job.spec.request.select.chunks.first();
    let threads = first.map_or(1, |chunk| match chunk.get("ompthreads") {
        Some(_) => chunk.long("ompthreads"),
        // The amount granted, which may exceed the minimum requested (Q22).
        None => granted_amount(run, "ncpus").unwrap_or_else(|| chunk.long("ncpus")),
    });
    Launch {
        job: job.id,
        attempt: run.attempt,
        full_id: job.id.full(&setup.name),
        name: job.spec.name.clone(),
        queue: job.spec.queue.clone(),
        account: job.spec.account.clone(),
        owner: job.owner.clone(),
        payload,
        arguments: job.spec.job_arguments.clone(),
        shell: job.spec.shell.clone(),
        login: job_environment::uses_login_shell(setup, &job.spec),
        interactive: job.spec.interactive,
        environ,
        workdir: match &job.spec.init_workdir {
            Some(folder) => folder.clone(),
            None if in_home => Text::default(),
            None => job.spec.workdir.clone(),
        },
        output: output_path::requested(job, OutputStream::Output),
        error: output_path::requested(job, OutputStream::Error),
        join: job.spec.join,
        umask: job.spec.umask,
        walltime: job.spec.walltime(),
        overrun: setup.config.launch.overrun,
        grace: setup.config.launch.grace,
        staging_timeout: setup.config.launch.staging_timeout,
        shares: run.shares.clone(),
        threads: u32::try_from(threads).unwrap_or(1),
        limits: RunLimits::of(&job.spec),
        responses: setup.config.launch.rules.limits,
        files: Files {
            awaited: setup.config.launch.rules.stage_in.missing == Missing::Wait,
            ..Files::of(&job.spec.other).filled(job.id, &job.spec.name)
        },
        groups: job.spec.other.get("group_list").cloned(),
        place: TaskPlace::default(),
        checkpoints: checkpoint
            .program
            .is_some()
            .then(|| checkpoint.folders.clone()),
        job_hooks: None,
    }
}
