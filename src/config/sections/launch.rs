//! `[launch]`: how jobs are started and ended, and what is done when that goes wrong.

use super::{
    A_PROGRAM, A_SECOND_OR_MORE, AN_ABSOLUTE_PROGRAM, BOOLEAN, absolute, boolean, by_name, keys,
    one_of, program, span, span_above_zero, span_from_a_second, whole,
};
use crate::config::document::Section;
use crate::config::{ConfigError, LaunchConfig};
use crate::model::hook::rites::Scripts;
use crate::model::job::checkpoint::CheckpointCommand;
use crate::model::job::response::{
    LimitAction, Missing, Response, Responses, Retries, Rules, StageIn,
};
use crate::model::policy::Preset;
use crate::model::time::Span;
use toml::de::{DeTable, DeValue};

const LIMITS: &str = "a table of what is done about a job over mem, pmem, vmem or cput: \"cancel\" or \"requeue\", \
                      or that \"after\" a time, as { mem = \"cancel after 5m\", cput = \"requeue\" }";
const AN_ABSOLUTE_FOLDER: &str = "the absolute path of a folder";
const TIMEOUT: &str = "a time of a second or more, as \"10m\", or \"none\"";

/// What holds where the file says nothing.
pub fn preset(preset: Preset) -> LaunchConfig {
    let retries = if preset == Preset::Maui {
        Retries::MAUI
    } else {
        Retries::default()
    };
    let missing = if preset == Preset::Maui {
        Missing::Wait
    } else {
        Missing::Fail
    };
    let stage_in = StageIn {
        missing,
        ..StageIn::default()
    };
    LaunchConfig {
        rules: Rules {
            retries,
            stage_in,
            ..Rules::default()
        },
        ..LaunchConfig::default()
    }
}

/// `[launch]`.
pub fn launch(section: &Section, preset: LaunchConfig) -> Result<LaunchConfig, ConfigError> {
    section.only(keys("launch"))?;
    Ok(LaunchConfig {
        login: section
            .read("login", BOOLEAN, boolean)?
            .unwrap_or(preset.login),
        grace: section
            .read("grace", "a time, as \"10s\"", span)?
            .unwrap_or(preset.grace),
        overrun: section
            .read("overrun", "a time, as \"30s\"", span)?
            .unwrap_or(preset.overrun),
        max_processes: section
            .read("max_processes", "a number of processes, 0 for any", whole)?
            .unwrap_or(preset.max_processes),
        start_timeout: section
            .read("start_timeout", TIMEOUT, timeout)?
            .unwrap_or(preset.start_timeout),
        staging_timeout: section
            .read("staging_timeout", A_SECOND_OR_MORE, span_from_a_second)?
            .unwrap_or(preset.staging_timeout),
        rules: rules(section, preset.rules)?,
        gpu_tool: section
            .read("gpu_tool", A_PROGRAM, program)?
            .unwrap_or(preset.gpu_tool),
        gpu_look: section
            .read("gpu_look", A_SECOND_OR_MORE, span_from_a_second)?
            .unwrap_or(preset.gpu_look),
        scripts: scripts(section, preset.scripts)?,
        checkpoint: checkpoint(section, preset.checkpoint)?,
    })
}

fn scripts(section: &Section, preset: Scripts) -> Result<Scripts, ConfigError> {
    let script = |key| section.read(key, AN_ABSOLUTE_PROGRAM, absolute);
    Ok(Scripts {
        prologue: script("prologue")?.or(preset.prologue),
        epilogue: script("epilogue")?.or(preset.epilogue),
        timeout: section
            .read("script_timeout", A_SECOND_OR_MORE, span_from_a_second)?
            .unwrap_or(preset.timeout),
    })
}

fn checkpoint(
    section: &Section,
    preset: CheckpointCommand,
) -> Result<CheckpointCommand, ConfigError> {
    let timeout = section.read("checkpoint_timeout", A_SECOND_OR_MORE, span_from_a_second)?;
    Ok(CheckpointCommand {
        program: section
            .read("checkpoint", AN_ABSOLUTE_PROGRAM, absolute)?
            .or(preset.program),
        timeout: timeout.unwrap_or(preset.timeout),
        folders: section
            .read("checkpoint_path", AN_ABSOLUTE_FOLDER, absolute)?
            .unwrap_or(preset.folders),
    })
}

fn rules(section: &Section, preset: Rules) -> Result<Rules, ConfigError> {
    let walltime = section.read(
        "walltime_action",
        &one_of(LimitAction::ALL),
        by_name(LimitAction::named),
    )?;
    Ok(Rules {
        retries: retries(section, preset.retries)?,
        walltime: walltime.unwrap_or(preset.walltime),
        limits: section
            .read("limits", LIMITS, limits)?
            .unwrap_or(preset.limits),
        stage_in: stage_in(section, preset.stage_in)?,
        // Said in `[preemption]`.
        boost: preset.boost,
    })
}

fn stage_in(section: &Section, preset: StageIn) -> Result<StageIn, ConfigError> {
    let missing = section.read("stage_in", &one_of(Missing::ALL), by_name(Missing::named))?;
    let retry = section.read(
        "stage_in_retry",
        "a time above zero, as \"60s\"",
        span_above_zero,
    )?;
    Ok(StageIn {
        missing: missing.unwrap_or(preset.missing),
        retry: retry.unwrap_or(preset.retry),
    })
}

fn retries(section: &Section, preset: Retries) -> Result<Retries, ConfigError> {
    let most = section.read("max_failed_starts", "a whole number from 1 on", |v| {
        whole(v).filter(|n| *n > 0)
    })?;
    Ok(Retries {
        most: most.unwrap_or(preset.most),
        first: section
            .read("retry", "a time above zero, as \"60s\"", span_above_zero)?
            .unwrap_or(preset.first),
        longest: section
            .read("retry_max", "a time above zero, as \"1h\"", span_above_zero)?
            .unwrap_or(preset.longest),
    })
}

fn timeout(value: &DeValue) -> Option<Option<Span>> {
    match value.as_str() {
        Some("none") => Some(None),
        _ => span_from_a_second(value).map(Some),
    }
}

fn limits(value: &DeValue) -> Option<Responses> {
    let table: &DeTable = value.as_table()?;
    let mut responses = Responses::default();
    for (name, value) in table {
        let response = match name.get_ref().as_ref() {
            "mem" => &mut responses.mem,
            "pmem" => &mut responses.pmem,
            "vmem" => &mut responses.vmem,
            "cput" => &mut responses.cput,
            _ => return None,
        };
        *response = answer(value.get_ref())?;
    }
    Some(responses)
}

/// `cancel`, or `cancel after 5m`.
fn answer(value: &DeValue) -> Option<Response> {
    let text = value.as_str()?;
    let (action, after) = match text.split_once(" after ") {
        Some((action, after)) => (action, span(&DeValue::String(after.trim().into()))?),
        None => (text, Span(0)),
    };
    Some(Response {
        action: LimitAction::named(action.trim())?,
        after,
    })
}
