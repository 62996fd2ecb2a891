//! What TORQUE and Grid Engine name otherwise in `-l`, in PBS's names.
//!
//! A foreign name counts only where PBS would refuse it: a site that has a resource `h_vmem` of its
//! own keeps it.

use super::{AttributeSetting, LIST};
use crate::model::job::run_limits::Warning;
use crate::model::refusal::Refusal;
use crate::model::resource::amount::Amount;
use crate::model::resource::{Resources, Size};
use crate::model::text::Text;

mod chunks;

use chunks::Slots;

/// Settings in PBS's names, and what of them is not as it was asked for.
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

/// Its limits of a process that are not kept here.
const UNLIMITED: [&str; 6] = ["h_stack", "s_stack", "h_core", "s_core", "h_data", "s_data"];

/// So long after a soft limit on its time a job is ended, if nothing else ends it.
const GRACE: u64 = 60;

/// The settings of a new job in PBS's names.
pub(super) fn translated(
    settings: Vec<AttributeSetting>,
    resources: &Resources,
) -> Result<Translated, Refusal> {
    let mut reader = DialectReader {
        is_warned: settings.iter().any(is_warning),
        ..DialectReader::default()
    };
    for setting in settings {
        let foreign = setting
            .resource
            .as_deref()
            .filter(|name| resources.get(name).is_none());
        let foreign = foreign.map(str::to_ascii_lowercase);
        let text = setting.value.lossy().into_owned();
        match foreign {
            Some(name) if reader.take(&name, &text)? => {}
            _ => reader.rest.push(setting),
        }
    }
    reader.times();
    let settings = chunks::composed(reader.rest, reader.slots, resources)?;
    Ok((settings, reader.notes))
}

fn is_warning(setting: &AttributeSetting) -> bool {
    setting.attribute == Warning::ATTRIBUTE
}

/// What has been read so far.
#[derive(Default)]
struct DialectReader {
    /// What is in PBS's names.
    rest: Vec<AttributeSetting>,
    notes: Vec<String>,
    slots: Slots,
    /// `h_rt` and `s_rt`, in seconds.
    hard: Option<u64>,
    soft: Option<u64>,
    /// Whether the job asks for a warning itself.
    is_warned: bool,
}

impl DialectReader {
    /// Reads one name; false if it is nobody's.
    fn take(&mut self, name: &str, text: &str) -> Result<bool, Refusal> {
        let illegal = || Refusal::illegal_value(&format!("{LIST}.{name}"));
        match name {
            "h_rt" => self.hard = Some(seconds(text).ok_or_else(illegal)?),
            "s_rt" => self.soft = Some(seconds(text).ok_or_else(illegal)?),
            "h_cpu" | "s_cpu" => {
                let limit = seconds(text).ok_or_else(illegal)?.to_string();
                self.rest.push(AttributeSetting::resource("cput", limit));
            }
            "h_fsize" | "s_fsize" => {
                let limit = kilobytes(text).ok_or_else(illegal)?;
                self.rest
                    .push(AttributeSetting::resource("file", format!("{limit}kb")));
            }
            "hostname" | "h" => self
                .rest
                .push(AttributeSetting::new("hosts", text.replace('|', ","))),
            "qname" | "q" => self.rest.push(AttributeSetting::new("queue", text)),
            "advres" => self.rest.push(AttributeSetting::new("resv", text)),
            "gres" => self.generic(text).ok_or_else(illegal)?,
            "gpus" => self.slots.gpus = Some(positive(text).ok_or_else(illegal)?),
            "feature" => self
                .slots
                .features
                .extend(features(text).ok_or_else(illegal)?),
            "procs" => self.slots.processes = Some(positive(text).ok_or_else(illegal)?),
            "pe" => self.slots.environment(text).ok_or_else(illegal)?,
            _ if MEMORY.contains(&name) => {
                let memory = kilobytes(text).ok_or_else(illegal)?;
                self.slots.memory = self.slots.memory.max(Some(memory));
            }
            _ if UNLIMITED.contains(&name) => {
                self.notes.push(format!("warning: {name} is no limit here"))
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Moab's generic resources: `matlab:2+gpu:1`.
    fn generic(&mut self, text: &str) -> Option<()> {
        for part in text.split(['+', '%']) {
            let (name, count) = part.split_once(':').unwrap_or((part, "1"));
            let count = positive(count)?;
            match name {
                "" => return None,
                "gpu" | "gpus" | "ngpus" => self.slots.gpus = Some(count),
                name => self
                    .rest
                    .push(AttributeSetting::resource(name, count.to_string())),
            }
        }
        Some(())
    }

    /// A soft limit on the time is a signal so long before the hard one.
    fn times(&mut self) {
        let walltime = match (self.hard, self.soft) {
            (None, Some(soft)) => Some(soft.saturating_add(GRACE)),
            (hard, _) => hard,
        };
        let Some(walltime) = walltime else { return };
        self.rest
            .push(AttributeSetting::resource("walltime", walltime.to_string()));
        let before = self
            .soft
            .and_then(|soft| walltime.checked_sub(soft))
            .filter(|&before| before > 0);
        if let Some(before) = before.filter(|_| !self.is_warned) {
            self.rest.push(AttributeSetting::new(
                Warning::ATTRIBUTE,
                format!("USR1@{before}"),
            ));
        }
    }
}

/// `[[HH:]MM:]SS`, in which parts may be empty.
fn seconds(text: &str) -> Option<u64> {
    let parts: Vec<&str> = text.split(':').collect();
    if text.trim_matches(':').is_empty() || parts.len() > 3 {
        return None;
    }
    let number = |part: &str| {
        if part.is_empty() {
            Some(0)
        } else {
            digits(part)
        }
    };
    parts.into_iter().try_fold(0u64, |sum, part| {
        sum.checked_mul(60)?.checked_add(number(part)?)
    })
}

/// `4G`, `1.5g`, `4096M`, `100` (bytes), in whole kilobytes.
fn kilobytes(text: &str) -> Option<u64> {
    let (number, scale) = match text.chars().last()?.to_ascii_lowercase() {
        'k' => (&text[..text.len() - 1], 1.0),
        'm' => (&text[..text.len() - 1], 1024.0),
        'g' => (&text[..text.len() - 1], 1024.0 * 1024.0),
        't' => (&text[..text.len() - 1], 1024.0 * 1024.0 * 1024.0),
        'b' => return Size::parse(text).map(|size| size.bytes().div_ceil(1024)),
        _ => (text, 1.0 / 1024.0),
    };
    let is_plain = number.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    let amount: f64 = number.parse().ok().filter(|_| is_plain)?;
    let kilobytes = (amount * scale).ceil();
    (kilobytes > 0.0 && kilobytes < 2f64.powi(43)).then_some(kilobytes as u64)
}

/// Properties that a node must have, all of them.
fn features(text: &str) -> Option<Vec<String>> {
    let names: Vec<String> = text.split([':', '&']).map(String::from).collect();
    let is_name = |name: &String| {
        !name.is_empty()
            && name
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || "-_".contains(c))
    };
    names.iter().all(is_name).then_some(names)
}

fn digits(text: &str) -> Option<u64> {
    text.bytes()
        .all(|b| b.is_ascii_digit())
        .then(|| text.parse().ok())?
}

fn positive(text: &str) -> Option<u64> {
    digits(text).filter(|&number| number > 0)
}

/// `4`, `4-8`, `4-` or `-8`.
fn amount(text: &str) -> Option<Amount> {
    match text.split_once('-') {
        None => positive(text).map(Amount::Exactly),
        Some((least, "")) => positive(least).map(Amount::AtLeast),
        Some(("", most)) => positive(most).map(|most| Amount::Between(1, most)),
        Some((least, most)) => {
            let (least, most) = (positive(least)?, positive(most)?);
            (least <= most).then_some(Amount::Between(least, most))
        }
    }
}

fn text_of(value: &Text) -> String {
    value.lossy().into_owned()
}

#[cfg(test)]
mod tests;
