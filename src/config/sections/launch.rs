//! `[launch]`: how jobs are started and ended, and what happens when that goes wrong.

use crate::config::Config;
use crate::config::key::{Table, computed, key};
use crate::config::kinds::{
    A_SECOND_OR_MORE, BOOLEAN, Custom, OneOf, Optional, OrWord, PROGRAM, Scalar, Word, custom,
    scalar, table, time, whole,
};
use crate::model::job::response::{LimitAction, Missing, Response, Responses};
use crate::model::time::Span;
use std::path::{Path, PathBuf};
use toml::Value;
use toml::de::DeValue;

const TIMEOUT: OrWord<Scalar<Span>> = OrWord {
    word: "none",
    kind: A_SECOND_OR_MORE,
    wanted: "a time of a second or more, as \"10m\", or \"none\"",
};
const GPU_TOOL: Scalar<PathBuf> = scalar(
    "the absolute path of a program, the name of one in PATH, or \"none\"",
    |path| is_program(path),
);
const FOLDER: Scalar<PathBuf> = scalar("the absolute path of a folder", |path| path.is_absolute());
const RETRY: Scalar<Span> = above_zero("a time above zero, as \"60s\"");
const LIMITS: Custom<Responses> = custom(
    || {
        "a table of what is done about a job over mem, pmem, vmem or cput: \"cancel\" or \
         \"requeue\", or that \"after\" a time, as { mem = \"cancel after 5m\", \
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
        &key("login", BOOLEAN, |c| &mut c.launch.login)
            .text("Whether the owner's login shell reads its profile before a script runs."),
        &key("grace", time("a time, as \"10s\""), |c| &mut c.launch.grace)
            .text("The time between TERM and KILL for a job that is deleted or exceeds its walltime."),
        &key("overrun", time("a time, as \"30s\""), |c| &mut c.launch.overrun)
            .text("The time for which a job may run past its walltime before it is ended."),
        &key("walltime_action", OneOf(LimitAction::ALL), |c| &mut c.launch.rules.walltime)
            .text("What happens to a job that exceeds its walltime."),
        &key("limits", LIMITS, |c| &mut c.launch.rules.limits)
            .text("What happens to a job that exceeds another limit, as { mem = \"cancel after 5m\", cput = \"requeue\" }."),
        &key("max_processes", whole("a number of processes, 0 for any", |_| true), |c| &mut c.launch.max_processes)
            .text("The most processes and threads on a host of a job's script or of each of its tasks; 0 for no limit."),
        &key("start_timeout", TIMEOUT, |c| &mut c.launch.start_timeout)
            .text("The time in which a node must report a job's start, at least a second; \"none\" for no limit."),
        &key("staging_timeout", A_SECOND_OR_MORE, |c| &mut c.launch.staging_timeout)
            .text("The longest time for staging files in, and for staging files out with the output, at least a second."),
        &key("max_failed_starts", whole("a whole number from 1 on", |count| *count > 0), |c| &mut c.launch.rules.retries.most)
            .text("The number of failed starts in a row after which a job is held."),
        &key("retry", RETRY, |c| &mut c.launch.rules.retries.first)
            .text("The delay after a failed start; it doubles with each further failure in a row."),
        &key("retry_max", above_zero("a time above zero, as \"1h\""), |c| &mut c.launch.rules.retries.longest)
            .text("The longest delay after a failed start."),
        &key("stage_in", OneOf(Missing::ALL), |c| &mut c.launch.rules.stage_in.missing)
            .text("What a job does when a file to stage in is missing."),
        &key("stage_in_retry", RETRY, |c| &mut c.launch.rules.stage_in.retry)
            .text("The time until a missing file is checked for again."),
        &key("gpu_tool", GPU_TOOL, |c| &mut c.launch.gpu_tool)
            .text("The program that lists which processes use which GPUs: an absolute path, a name in PATH, or \"none\"."),
        &key("gpu_look", A_SECOND_OR_MORE, |c| &mut c.launch.gpu_look)
            .text("The interval between runs of gpu_tool, at least a second."),
        &key("prologue", Optional(PROGRAM), |c| &mut c.launch.scripts.prologue)
            .text("The absolute path of the program that noded runs before each job, on its first node.")
            .default("none")
            .example("\"/etc/lanai/prologue\""),
        &key("epilogue", Optional(PROGRAM), |c| &mut c.launch.scripts.epilogue)
            .text("The absolute path of the program that noded runs after each job that began, on its first node.")
            .default("none")
            .example("\"/etc/lanai/epilogue\""),
        &key("script_timeout", A_SECOND_OR_MORE, |c| &mut c.launch.scripts.timeout)
            .text("The longest run time of the prologue, and of the epilogue, at least a second."),
        &key("checkpoint", Optional(PROGRAM), |c| &mut c.launch.checkpoint.program)
            .text("The absolute path of the program that checkpoints a running job.")
            .default("none")
            .example("\"/etc/lanai/checkpoint\""),
        &key("checkpoint_timeout", A_SECOND_OR_MORE, |c| &mut c.launch.checkpoint.timeout)
            .text("The longest time for a checkpoint, at least a second."),
        &computed(
            "checkpoint_path",
            FOLDER,
            |c| Some(c.launch.checkpoint.folders.clone()).filter(|path| path.is_absolute()),
            |c, path| c.launch.checkpoint.folders = path,
        )
        .text("The absolute path of the directory with the checkpoint directories of jobs, JOBID.CK.")
        .default("checkpoints, in the folder of noded's state")
        .example("\"/scratch/checkpoints\""),
    ],
);

/// A time above zero.
pub const fn above_zero(wanted: &'static str) -> Scalar<Span> {
    scalar(wanted, |span| *span > Span(0))
}

/// Whether a path is absolute or the name of a program in PATH.
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

/// `cancel`, or `cancel after 5m`.
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
