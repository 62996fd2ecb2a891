//! Translation of names in `-l` from TORQUE, Moab and Grid Engine to PBS.
//!
//! A name is translated only if it is not a resource: if the site defines a resource `h_vmem`, this
//! name means the site's resource.

use super::{AttributeSetting, LIST};
use crate::model::job::run_limits::Warning;
use crate::model::refusal::Refusal;
use crate::model::resource::{Resources, Size};
use crate::model::text::{is_word, whole_number};

mod chunks;

use chunks::{Slots, positive};

/// Settings with PBS's names, and warnings.
pub(super) type Translated = (Vec<AttributeSetting>, Vec<String>);

/// Grid Engine's names for the memory of one slot.
const MEMORY: [&str; 6] = [
    "h_vmem",
    "s_vmem",
    "h_rss",
    "s_rss",
    "mem_free",
    "virtual_free",
];

/// Process limits of Grid Engine that Lanai does not enforce.
const UNLIMITED: [&str; 6] = ["h_stack", "s_stack", "h_core", "s_core", "h_data", "s_data"];

/// Seconds from a soft time limit to the end of the job, if the job has no hard time limit.
const GRACE: u64 = 60;

/// Translates the settings of a new job.
pub(super) fn translated(
    settings: Vec<AttributeSetting>,
    resources: &Resources,
) -> Result<Translated, Refusal> {
    let mut reader = DialectReader {
        is_warned: settings.iter().any(is_warning),
        ..DialectReader::default()
    };
    for setting in settings {
        if let Some(name) = &setting.resource
            && resources.get(name).is_none()
        {
            let name = name.to_ascii_lowercase();
            let is_known = reader
                .translate(&name, &setting.value.lossy())
                .ok_or_else(|| Refusal::illegal_value(&format!("{LIST}.{name}")))?;
            if is_known {
                continue;
            }
        }
        reader.settings.push(setting);
    }
    reader.set_walltime();
    let settings = chunks::composed(reader.settings, reader.slots, resources)?;
    Ok((settings, reader.notes))
}

fn is_warning(setting: &AttributeSetting) -> bool {
    setting.attribute == Warning::ATTRIBUTE
}

/// Settings read so far, and requests that are converted after the last setting.
#[derive(Default)]
struct DialectReader {
    /// Settings with PBS's names.
    settings: Vec<AttributeSetting>,
    notes: Vec<String>,
    slots: Slots,
    /// `h_rt`, in seconds.
    hard: Option<u64>,
    /// `s_rt`, in seconds.
    soft: Option<u64>,
    /// True if the job requests a warning signal itself.
    is_warned: bool,
}

impl DialectReader {
    /// Translates one resource. Returns false for an unknown name and None for an illegal value.
    fn translate(&mut self, name: &str, text: &str) -> Option<bool> {
        match name {
            "h_rt" => self.hard = Some(seconds(text)?),
            "s_rt" => self.soft = Some(seconds(text)?),
            "h_cpu" | "s_cpu" => {
                let limit = seconds(text)?.to_string();
                self.settings
                    .push(AttributeSetting::resource("cput", limit));
            }
            "h_fsize" | "s_fsize" => {
                let limit = kilobytes(text)?;
                self.settings
                    .push(AttributeSetting::resource("file", format!("{limit}kb")));
            }
            "hostname" | "h" => self
                .settings
                .push(AttributeSetting::new("hosts", text.replace('|', ","))),
            "qname" | "q" => self.settings.push(AttributeSetting::new("queue", text)),
            "advres" => self.settings.push(AttributeSetting::new("resv", text)),
            "gres" => self.generic(text)?,
            "gpus" => self.slots.gpus = Some(positive(text)?),
            "feature" => self.slots.features.extend(features(text)?),
            "procs" => self.slots.processes = Some(positive(text)?),
            "pe" => self.slots.environment(text)?,
            _ if MEMORY.contains(&name) => {
                let memory = kilobytes(text)?;
                self.slots.memory = self.slots.memory.max(Some(memory));
            }
            _ if UNLIMITED.contains(&name) => self.notes.push(format!(
                "warning: {name} has no effect: Lanai does not support this limit"
            )),
            _ => return Some(false),
        }
        Some(true)
    }

    /// Translates Moab's generic resources, such as `matlab:2+gpu:1`; None for an illegal value.
    fn generic(&mut self, text: &str) -> Option<()> {
        for part in text.split(['+', '%']) {
            let (name, count) = part.split_once(':').unwrap_or((part, "1"));
            let count = positive(count)?;
            match name {
                "" => return None,
                "gpu" | "gpus" | "ngpus" => self.slots.gpus = Some(count),
                name => self
                    .settings
                    .push(AttributeSetting::resource(name, count.to_string())),
            }
        }
        Some(())
    }

    /// Sets the walltime to `h_rt`, else to `s_rt` plus [`GRACE`]. Also sets a warning signal at
    /// `s_rt`, if `s_rt` is below the walltime and the job itself requests no warning signal.
    fn set_walltime(&mut self) {
        let after_soft = self.soft.map(|soft| soft.saturating_add(GRACE));
        let Some(walltime) = self.hard.or(after_soft) else {
            return;
        };
        self.settings
            .push(AttributeSetting::resource("walltime", walltime.to_string()));
        if let Some(soft) = self.soft
            && soft < walltime
            && !self.is_warned
        {
            let warning = format!("USR1@{}", walltime - soft);
            self.settings
                .push(AttributeSetting::new(Warning::ATTRIBUTE, warning));
        }
    }
}

/// Parses `[[HH:]MM:]SS` to seconds; an empty part counts as 0.
fn seconds(text: &str) -> Option<u64> {
    let parts: Vec<&str> = text.split(':').collect();
    if text.trim_matches(':').is_empty() || parts.len() > 3 {
        return None;
    }
    let mut sum = 0u64;
    for part in parts {
        let number = if part.is_empty() {
            0
        } else {
            whole_number(part)?
        };
        sum = sum.checked_mul(60)?.checked_add(number)?;
    }
    Some(sum)
}

/// Parses `4G`, `1.5g`, `4096M` or `100` (bytes) to kilobytes, rounded up; None for invalid text.
fn kilobytes(text: &str) -> Option<u64> {
    let (number, scale) = match text.chars().last()?.to_ascii_lowercase() {
        'k' => (&text[..text.len() - 1], 1.0),
        'm' => (&text[..text.len() - 1], 1024.0),
        'g' => (&text[..text.len() - 1], 1024.0 * 1024.0),
        't' => (&text[..text.len() - 1], 1024.0 * 1024.0 * 1024.0),
        'b' => return Size::parse(text).map(|size| size.bytes().div_ceil(1024)),
        _ => (text, 1.0 / 1024.0),
    };
    if !number.bytes().all(|b| b.is_ascii_digit() || b == b'.') {
        return None;
    }
    let amount: f64 = number.parse().ok()?;
    let kilobytes = (amount * scale).ceil();
    (kilobytes > 0.0 && kilobytes < 2f64.powi(43)).then_some(kilobytes as u64)
}

/// Parses required node properties, separated by `:` or `&`; None if one is not a word.
fn features(text: &str) -> Option<Vec<String>> {
    let names: Vec<String> = text.split([':', '&']).map(String::from).collect();
    names
        .iter()
        .all(|name| is_word(name, "-_"))
        .then_some(names)
}

#[cfg(test)]
mod tests;
