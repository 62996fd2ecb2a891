//! `[launch]`: how jobs are started and ended, and what happens after failures.

use crate::config::Config;
use crate::config::key::{Table, computed, key};
use crate::config::kinds::{
    A_SECOND_OR_MORE, BOOLEAN, Custom, OneOf, Optional, OrWord, PROGRAM, Scalar, ScalarType,
    custom, scalar, table, time, whole,
};
use crate::model::job::environment::JobEnvironment;
use crate::model::job::response::{LimitAction, Missing, Response, Responses};
use crate::model::time::Span;
use std::path::{Path, PathBuf};
use toml::Value;
use toml::de::DeValue;

const TIMEOUT: OrWord<Scalar<Span>> = OrWord {
    word: "none",
    kind: A_SECOND_OR_MORE,
    wanted: "a time of at least a second, such as \"10m\", or \"none\"",
};
const GPU_TOOL: Scalar<PathBuf> = scalar(
    "the absolute path of a program, the name of a program in PATH, or \"none\"",
    |path| is_program(path),
);
const FOLDER: Scalar<PathBuf> = scalar("the absolute path of a directory", |path| {
    path.is_absolute()
});
const RETRY: Scalar<Span> = above_zero("a time above zero, such as \"60s\"");
const LIMITS: Custom<Responses> = custom(
    || {
        "a table of actions for jobs that exceed mem, pmem, vmem or cput: \"cancel\" or \
         \"requeue\", optionally \"after\" a time, such as { mem = \"cancel after 5m\", \
         cput = \"requeue\" }"
            .to_string()
    },
    read_limits,
    write_limits,
);

/// `[launch]`.
pub static LAUNCH: Table<Config> = Table::new(
    "launch",
    &[
        &computed(
            "login",
            BOOLEAN,
            |c| c.launch.login,
            |c, login| c.launch.login = Some(login),
        )
        .text("Whether the owner's login shell reads its profile before a script runs.")
        .default("true for jobs with the login environment, else false")
        .example("true"),
        &computed(
            "environment",
            OneOf(JobEnvironment::ALL),
            |c| c.launch.environment,
            |c, environment| c.launch.environment = Some(environment),
        )
        .text("The environment of jobs: the owner's login environment, or the environment of qsub.")
        .default("\"submission\" in a personal installation, \"login\" in a shared one")
        .example("\"login\""),
        &key("grace", time("a time, such as \"10s\""), |c| {
            &mut c.launch.grace
        })
        .text("The time between TERM and KILL when qdel, qrerun or a time limit ends a job."),
        &key("overrun", time("a time, such as \"30s\""), |c| {
            &mut c.launch.overrun
        })
        .text("The time for which a job may run past its walltime before it is ended."),
        &key("walltime_action", OneOf(LimitAction::ALL), |c| {
            &mut c.launch.rules.walltime
        })
        .text("What happens to a job that exceeds its walltime."),
        &key("limits", LIMITS, |c| &mut c.launch.rules.limits)
            .text("What happens to a job that exceeds a limit on mem, pmem, vmem or cput."),
        &key(
            "max_processes",
            whole("a number of processes, 0 for no limit", |_| true),
            |c| &mut c.launch.max_processes,
        )
        .text("The largest number of processes and threads of a script or task on a host."),
        &key("start_timeout", TIMEOUT, |c| &mut c.launch.start_timeout).text(
            "The time in which a node must report the start of a job; \"none\" for no limit.",
        ),
        &key("staging_timeout", A_SECOND_OR_MORE, |c| {
            &mut c.launch.staging_timeout
        })
        .text("The longest time for staging files in, and separately for staging files out."),
        &key(
            "max_failed_starts",
            whole("a whole number of at least 1", |count| *count > 0),
            |c| &mut c.launch.rules.retries.most,
        )
        .text("A job is held after this number of failed starts in a row."),
        &key("retry", RETRY, |c| &mut c.launch.rules.retries.first).text(
            "The delay after a first failed start; further failures in a row double the delay.",
        ),
        &key(
            "retry_max",
            above_zero("a time above zero, such as \"1h\""),
            |c| &mut c.launch.rules.retries.longest,
        )
        .text("The longest delay after a failed start."),
        &key("stage_in", OneOf(Missing::ALL), |c| {
            &mut c.launch.rules.stage_in.missing
        })
        .text("What happens to a job if a file to stage in is missing: \"fail\" or \"wait\"."),
        &key("stage_in_retry", RETRY, |c| {
            &mut c.launch.rules.stage_in.retry
        })
        .text(
            "With stage_in = \"wait\", the delay before a job with a missing file is tried again.",
        ),
        &key("gpu_tool", GPU_TOOL, |c| &mut c.launch.gpu_tool)
            .text("The program that lists GPU processes: a path, a name in PATH, or \"none\"."),
        &key("gpu_look", A_SECOND_OR_MORE, |c| &mut c.launch.gpu_look)
            .text("The interval between runs of gpu_tool, at least a second."),
        &key("prologue", Optional(PROGRAM), |c| {
            &mut c.launch.scripts.prologue
        })
        .text("The absolute path of the program that noded runs right before each job.")
        .default("none")
        .example("\"/etc/lanai/prologue\""),
        &key("epilogue", Optional(PROGRAM), |c| {
            &mut c.launch.scripts.epilogue
        })
        .text("The absolute path of the program that noded runs right after each job.")
        .default("none")
        .example("\"/etc/lanai/epilogue\""),
        &key("script_timeout", A_SECOND_OR_MORE, |c| {
            &mut c.launch.scripts.timeout
        })
        .text("The longest run time of the prologue or of the epilogue, at least a second."),
        &key("checkpoint", Optional(PROGRAM), |c| {
            &mut c.launch.checkpoint.program
        })
        .text("The absolute path of the program that checkpoints a running job.")
        .default("none")
        .example("\"/etc/lanai/checkpoint\""),
        &key("checkpoint_timeout", A_SECOND_OR_MORE, |c| {
            &mut c.launch.checkpoint.timeout
        })
        .text("The longest time that a checkpoint may take, at least a second."),
        &computed(
            "checkpoint_path",
            FOLDER,
            |c| Some(c.launch.checkpoint.folders.clone()).filter(|path| path.is_absolute()),
            |c, path| c.launch.checkpoint.folders = path,
        )
        .text("The absolute path of the directory that holds the checkpoint of each job, JOBID.CK.")
        .default("checkpoints in noded's state directory")
        .example("\"/scratch/checkpoints\""),
    ],
);

/// The kind for a duration above zero.
pub const fn above_zero(wanted: &'static str) -> Scalar<Span> {
    scalar(wanted, |span| *span > Span(0))
}

/// Whether a path is absolute, or a single name, which is looked up in PATH.
pub fn is_program(path: &Path) -> bool {
    let is_name = !path.as_os_str().is_empty() && path.components().count() == 1;
    path.is_absolute() || is_name
}

fn read_limits(value: &DeValue) -> Option<Responses> {
    let mut responses = Responses::default();
    for (name, value) in value.as_table()? {
        let response = match name.get_ref().as_ref() {
            "mem" => &mut responses.mem,
            "pmem" => &mut responses.pmem,
            "vmem" => &mut responses.vmem,
            "cput" => &mut responses.cput,
            _ => return None,
        };
        *response = read_response(value.get_ref().as_str()?)?;
    }
    Some(responses)
}

/// Reads a response such as `cancel` or `cancel after 5m`.
fn read_response(text: &str) -> Option<Response> {
    let (action, after) = match text.split_once(" after ") {
        Some((action, after)) => {
            let after = Span::read(&DeValue::String(after.trim().into()))?;
            (action, after)
        }
        None => (text, Span(0)),
    };
    let action = LimitAction::named(action.trim())?;
    Some(Response { action, after })
}

fn write_limits(limits: &Responses) -> Option<Value> {
    let limits = [
        ("mem", limits.mem),
        ("pmem", limits.pmem),
        ("vmem", limits.vmem),
        ("cput", limits.cput),
    ];
    Some(table(
        limits.map(|(name, response)| (name, write_response(response))),
    ))
}

fn write_response(response: Response) -> Value {
    let action = response.action.name();
    if response.after == Span(0) {
        return action.into();
    }
    let after = response.after.write();
    format!("{action} after {}", after.as_str().unwrap_or_default()).into()
}
