//! Conversion of requests to chunks: slots of Grid Engine, and processes, GPUs and node properties
//! of TORQUE and Moab.

use crate::model::attribute::{AttributeSetting, LIST};
use crate::model::refusal::Refusal;
use crate::model::resource::amount::{Amount, split_chunks};
use crate::model::resource::{Resources, Size};
use crate::model::text::{Text, whole_number};

/// Requests that determine the chunks of a job, under names that PBS does not have.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Slots {
    /// `-pe`: number of slots; true if the slots may be on different hosts.
    parallel: Option<(Amount, bool)>,
    /// `-l procs=`: number of processes.
    pub(super) processes: Option<u64>,
    /// Memory of each slot, in kilobytes.
    pub(super) memory: Option<u64>,
    /// GPUs of each chunk.
    pub(super) gpus: Option<u64>,
    /// Required node properties of each chunk.
    pub(super) features: Vec<String>,
}

/// A parallel environment may span several hosts if its name contains one of these texts.
const DISTRIBUTED: [&str; 8] = [
    "mpi", "orte", "mvapich", "pvm", "fill", "round", "rr", "make",
];

impl Slots {
    /// Parses `NAME:N[-M]`.
    pub(super) fn environment(&mut self, text: &str) -> Option<()> {
        let (name, slots) = text.rsplit_once(':').filter(|(name, _)| !name.is_empty())?;
        let name = name.to_ascii_lowercase();
        self.parallel = Some((
            amount(slots)?,
            DISTRIBUTED.iter().any(|part| name.contains(part)),
        ));
        Some(())
    }

    /// Returns the number of chunks and the processors of each chunk; None if the job requests
    /// neither slots nor processes.
    fn shape(&self) -> Option<(u64, Amount)> {
        match (self.parallel, self.processes) {
            // The number of hosts is not known in advance; therefore each slot is a chunk.
            (Some((slots, true)), _) => Some((slots.least(), Amount::Exactly(1))),
            (Some((slots, false)), _) => Some((1, slots)),
            (None, Some(processes)) => Some((processes, Amount::Exactly(1))),
            (None, None) => None,
        }
    }
}

/// Returns the settings, with `slots` converted to settings of PBS.
pub(super) fn composed(
    rest: Vec<AttributeSetting>,
    slots: Slots,
    resources: &Resources,
) -> Result<Vec<AttributeSetting>, Refusal> {
    match slots.shape() {
        _ if slots == Slots::default() => Ok(rest),
        Some(shape) => in_chunks(rest, &slots, shape, resources),
        None => without_slots(rest, &slots),
    }
}

/// Replaces all host-level requests by a select with `count` equal chunks. Divides requested `mem`
/// and `vmem` among the chunks, rounded up to kilobytes. Each chunk gets the full amount of the
/// other resources. Processors and memory of the slots replace the requested `ncpus` and `mem`.
fn in_chunks(
    rest: Vec<AttributeSetting>,
    slots: &Slots,
    (count, processors): (u64, Amount),
    resources: &Resources,
) -> Result<Vec<AttributeSetting>, Refusal> {
    let (mut plain, mut chunk) = (Vec::new(), format!("{count}:ncpus={processors}"));
    if slots.processes.is_some() || count > 1 {
        chunk.push_str(":mpiprocs=1");
    }
    for setting in rest {
        let name = match &setting.resource {
            Some(name) if resources.get(name).is_some_and(|d| d.host_level) => name,
            _ => {
                plain.push(setting);
                continue;
            }
        };
        let text = text_of(&setting.value);
        match name.as_str() {
            // The slots override these requests.
            "ncpus" => {}
            "mem" if slots.memory.is_some() => {}
            "mem" | "vmem" => {
                let size = Size::parse(&text)
                    .ok_or_else(|| Refusal::illegal_value(&format!("{LIST}.{name}")))?;
                chunk.push_str(&format!(
                    ":{name}={}kb",
                    size.bytes().div_ceil(1024).div_ceil(count)
                ));
            }
            _ => chunk.push_str(&format!(":{name}={text}")),
        }
    }
    if let Some(memory) = slots.memory {
        chunk.push_str(&format!(
            ":mem={}kb",
            memory.saturating_mul(processors.least())
        ));
    }
    if let Some(gpus) = slots.gpus {
        chunk.push_str(&format!(":ngpus={gpus}"));
    }
    chunk.extend(slots.features.iter().map(|name| format!(":{name}=True")));
    plain.push(AttributeSetting::resource("select", chunk));
    Ok(plain)
}

/// Adds GPUs and properties of a job without slots to each chunk of the job's `select` or `nodes`.
/// A job without `select` and `nodes` gets them as resources of the whole job. Adds the memory as
/// `mem`, multiplied by the requested `ncpus`.
fn without_slots(
    mut rest: Vec<AttributeSetting>,
    slots: &Slots,
) -> Result<Vec<AttributeSetting>, Refusal> {
    if let Some(at) = position_of("select", &rest) {
        let features = slots.features.iter().map(|name| format!(":{name}=True"));
        let more: String = features
            .chain(slots.gpus.map(|gpus| format!(":ngpus={gpus}")))
            .collect();
        let text = text_of(&rest[at].value);
        let chunks: Vec<String> = split_chunks(&text)
            .map(|chunk| format!("{chunk}{more}"))
            .collect();
        rest[at].value = chunks.join("+").into();
    } else if let Some(at) = position_of("nodes", &rest) {
        let features = slots.features.iter().map(|name| format!(":{name}"));
        let more: String = features
            .chain(slots.gpus.map(|gpus| format!(":gpus={gpus}")))
            .collect();
        rest[at].value = at_each_node(&text_of(&rest[at].value), &more).into();
    } else {
        for name in &slots.features {
            rest.push(AttributeSetting::resource(name, "True"));
        }
        if let Some(gpus) = slots.gpus {
            rest.push(AttributeSetting::resource("ngpus", gpus.to_string()));
        }
    }
    if let Some(memory) = slots.memory {
        let processors = position_of("ncpus", &rest)
            .and_then(|at| text_of(&rest[at].value).parse().ok())
            .unwrap_or(1u64);
        rest.push(AttributeSetting::resource(
            "mem",
            format!("{}kb", memory.saturating_mul(processors)),
        ));
    }
    Ok(rest)
}

/// Returns the position of the last setting of a resource.
fn position_of(name: &str, settings: &[AttributeSetting]) -> Option<usize> {
    settings.iter().rposition(|setting| {
        setting
            .resource
            .as_deref()
            .is_some_and(|known| known.eq_ignore_ascii_case(name))
    })
}

fn at_each_node(text: &str, more: &str) -> String {
    let (items, suffix) = text.split_at(text.find('#').unwrap_or(text.len()));
    let items: Vec<String> = items
        .split('+')
        .map(|item| format!("{item}{more}"))
        .collect();
    format!("{}{suffix}", items.join("+"))
}

/// Parses an integer above zero.
pub(super) fn positive(text: &str) -> Option<u64> {
    whole_number(text).filter(|&number| number > 0)
}

/// Parses `4`, `4-8`, `4-` or `-8`.
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
