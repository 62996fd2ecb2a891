//! `[launch]` and `[primetime]`, key by key.

use super::{Known, days, span, table};
use crate::config::LaunchConfig;
use crate::model::job::response::Response;
use crate::model::policy::site_time::PrimeHours;
use crate::model::time::Span;
use std::path::Path;
use toml::Value;

/// How jobs are started and ended.
pub(super) fn launch(config: &LaunchConfig) -> Vec<Known> {
    let (retries, limits, scripts) = (config.rules.retries, config.rules.limits, &config.scripts);
    let checkpoint = &config.checkpoint;
    let limits = [
        ("mem", limits.mem),
        ("pmem", limits.pmem),
        ("vmem", limits.vmem),
        ("cput", limits.cput),
    ];
    vec![
        ("login", Some(config.login.into())),
        ("grace", Some(span(config.grace))),
        ("overrun", Some(span(config.overrun))),
        ("walltime_action", Some(config.rules.walltime.name().into())),
        (
            "limits",
            Some(table(
                limits.map(|(name, response)| (name, answer(response))),
            )),
        ),
        (
            "max_processes",
            Some(i64::from(config.max_processes).into()),
        ),
        (
            "start_timeout",
            Some(config.start_timeout.map_or("none".into(), span)),
        ),
        ("staging_timeout", Some(span(config.staging_timeout))),
        ("max_failed_starts", Some(i64::from(retries.most).into())),
        ("retry", Some(span(retries.first))),
        ("retry_max", Some(span(retries.longest))),
        (
            "stage_in",
            Some(config.rules.stage_in.missing.name().into()),
        ),
        ("stage_in_retry", Some(span(config.rules.stage_in.retry))),
        ("gpu_tool", Some(path(&config.gpu_tool))),
        ("gpu_look", Some(span(config.gpu_look))),
        ("prologue", scripts.prologue.as_deref().map(path)),
        ("epilogue", scripts.epilogue.as_deref().map(path)),
        ("script_timeout", Some(span(scripts.timeout))),
        ("checkpoint", checkpoint.program.as_deref().map(path)),
        ("checkpoint_timeout", Some(span(checkpoint.timeout))),
        (
            "checkpoint_path",
            Some(path(&checkpoint.folders)).filter(|_| checkpoint.folders.is_absolute()),
        ),
    ]
}

fn path(path: &Path) -> Value {
    path.display().to_string().into()
}

/// `cancel`, or `cancel after 5m`.
fn answer(response: Response) -> Value {
    let action = response.action.name();
    match (response.after, span(response.after)) {
        (Span(0), _) => action.into(),
        (_, after) => format!("{action} after {}", after.as_str().unwrap_or_default()).into(),
    }
}

/// The hours of prime time; nothing where there is none.
pub(super) fn primetime(hours: Option<&PrimeHours>) -> Vec<Known> {
    let Some(hours) = hours else {
        return Vec::new();
    };
    vec![
        ("days", Some(days(&hours.days))),
        ("from", Some(span(hours.from))),
        ("to", Some(span(hours.to))),
        ("cross", Some(hours.may_cross.into())),
    ]
}
