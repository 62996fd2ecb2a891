//! Named quantities: what jobs ask for, what nodes have, what is used.

pub mod amount;

use crate::model::refusal::Refusal;
use crate::model::time::Span;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// The type of a resource's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ResourceType {
    /// `HH:MM:SS`.
    Time,
    /// Bytes, as `8gb`.
    Size,
    /// A whole number.
    Long,
    /// A number.
    Float,
    /// `True` or `False`.
    Boolean,
    /// Anything.
    String,
}

/// A value of one of the kinds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum ResourceValue {
    /// A length of time.
    Time(Span),
    /// A number of bytes, with the unit it was given in.
    Size(Size),
    /// A whole number.
    Long(i64),
    /// A number.
    Float(f64),
    /// True or false.
    Boolean(bool),
    /// Text.
    String(String),
}

/// In so many parts of one a fraction is counted, and never for less than it is.
const THOUSANDTHS: f64 = 1000.0;

impl ResourceValue {
    /// Reads a value of `kind`; None if the text is not one.
    pub fn parse(kind: ResourceType, text: &str) -> Option<ResourceValue> {
        Some(match kind {
            ResourceType::Time => ResourceValue::Time(Span::parse(text)?),
            ResourceType::Size => ResourceValue::Size(Size::parse(text)?),
            ResourceType::Long => ResourceValue::Long(text.trim().parse().ok()?),
            ResourceType::Float => {
                ResourceValue::Float(text.parse().ok().filter(|v: &f64| v.is_finite())?)
            }
            ResourceType::Boolean => ResourceValue::Boolean(parse_boolean(text)?),
            ResourceType::String => ResourceValue::String(text.to_string()),
        })
    }

    /// Of which kind it is.
    pub fn kind(&self) -> ResourceType {
        match self {
            ResourceValue::Time(_) => ResourceType::Time,
            ResourceValue::Size(_) => ResourceType::Size,
            ResourceValue::Long(_) => ResourceType::Long,
            ResourceValue::Float(_) => ResourceType::Float,
            ResourceValue::Boolean(_) => ResourceType::Boolean,
            ResourceValue::String(_) => ResourceType::String,
        }
    }

    /// The value as the scheduler counts it: bytes, milliseconds, a plain number, or thousandths of
    /// a fraction; None for text and booleans.
    pub fn amount(&self) -> Option<i64> {
        match self {
            ResourceValue::Time(span) => Some(span.0),
            ResourceValue::Size(size) => Some(i64::try_from(size.bytes()).unwrap_or(i64::MAX)),
            ResourceValue::Long(number) => Some(*number),
            ResourceValue::Float(number) => Some((number * THOUSANDTHS).ceil() as i64),
            ResourceValue::Boolean(_) | ResourceValue::String(_) => None,
        }
    }

    /// The value of `kind` that stands for a counted amount; the inverse of
    /// [`ResourceValue::amount`].
    pub fn of_amount(kind: ResourceType, amount: i64) -> ResourceValue {
        match kind {
            ResourceType::Time => ResourceValue::Time(Span(amount)),
            ResourceType::Size => {
                ResourceValue::Size(Size::kilobytes(amount.max(0).unsigned_abs().div_ceil(1024)))
            }
            ResourceType::Float => ResourceValue::Float(amount as f64 / THOUSANDTHS),
            _ => ResourceValue::Long(amount),
        }
    }
}

fn parse_boolean(text: &str) -> Option<bool> {
    match text {
        "True" | "TRUE" | "true" | "T" | "t" | "Y" | "y" | "1" => Some(true),
        "False" | "FALSE" | "false" | "F" | "f" | "N" | "n" | "0" => Some(false),
        _ => None,
    }
}

/// As PBS shows it: `01:00:00`, `8gb`, `4`, `True`.
impl fmt::Display for ResourceValue {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            ResourceValue::Time(span) => span.fmt(f),
            ResourceValue::Size(size) => size.fmt(f),
            ResourceValue::Long(number) => number.fmt(f),
            ResourceValue::Float(number) => number.fmt(f),
            ResourceValue::Boolean(true) => f.write_str("True"),
            ResourceValue::Boolean(false) => f.write_str("False"),
            ResourceValue::String(text) => text.fmt(f),
        }
    }
}

/// A number of bytes in the unit it was given in: `8gb` stays `8gb`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Size {
    count: u64,
    /// 0 bytes, 1 kilobytes, .. 5 petabytes.
    scale: u8,
    /// Counted in words of 8 bytes.
    words: bool,
}

impl Size {
    const SCALES: [&'static str; 6] = ["", "k", "m", "g", "t", "p"];

    /// So many times 1024 bytes.
    pub fn kilobytes(count: u64) -> Size {
        Size {
            count,
            scale: 1,
            words: false,
        }
    }

    /// So many times 1024 kilobytes.
    pub fn megabytes(count: u64) -> Size {
        Size {
            count,
            scale: 2,
            words: false,
        }
    }

    /// So many bytes, in the largest unit of which there is a whole number.
    pub fn exactly(bytes: u64) -> Size {
        let (mut count, mut scale) = (bytes, 0);
        while count > 0 && scale < 5 && count.is_multiple_of(1024) {
            count /= 1024;
            scale += 1;
        }
        Size {
            count,
            scale,
            words: false,
        }
    }

    /// Reads an integer, then one of `k m g t p` or none, then `b`, `w` or nothing; any case.
    /// None for anything else, and for what no 64-bit number of bytes holds.
    pub fn parse(text: &str) -> Option<Size> {
        let text = text.to_ascii_lowercase();
        let end = text
            .find(|c: char| !c.is_ascii_digit())
            .unwrap_or(text.len());
        let count = text[..end].parse().ok()?;
        let suffix = &text[end..];
        let (scale, words) = match (suffix.strip_suffix('w'), suffix.strip_suffix('b')) {
            (Some(scale), _) => (scale, true),
            (None, Some(scale)) => (scale, false),
            (None, None) => (suffix, false),
        };
        let scale = Size::SCALES.iter().position(|&s| s == scale)? as u8;
        let size = Size {
            count,
            scale,
            words,
        };
        size.checked_bytes().map(|_| size)
    }

    fn checked_bytes(self) -> Option<u64> {
        let unit = 1024u64.checked_pow(u32::from(self.scale))? * if self.words { 8 } else { 1 };
        self.count.checked_mul(unit)
    }

    /// The size in bytes.
    pub fn bytes(self) -> u64 {
        self.checked_bytes().unwrap_or(u64::MAX)
    }

    /// `count` times this, in the same unit; None when that is more than a size holds.
    pub fn times(self, count: u64) -> Option<Size> {
        let size = Size {
            count: self.count.checked_mul(count)?,
            ..self
        };
        size.checked_bytes().map(|_| size)
    }

    /// The sum, in the larger unit that holds it exactly.
    pub fn plus(self, other: Size) -> Option<Size> {
        let bytes = self.checked_bytes()?.checked_add(other.checked_bytes()?)?;
        let larger = self.scale.max(other.scale);
        let scale = (0..=larger)
            .rev()
            .find(|&s| bytes % 1024u64.pow(u32::from(s)) == 0)?;
        Some(Size {
            count: bytes / 1024u64.pow(u32::from(scale)),
            scale,
            words: false,
        })
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let unit = if self.words { "w" } else { "b" };
        write!(
            f,
            "{}{}{unit}",
            self.count,
            Size::SCALES[usize::from(self.scale)]
        )
    }
}

/// What names of hosts, queues and resources are made of.
pub(crate) fn is_plain(c: char) -> bool {
    c.is_ascii_alphanumeric() || "-_.".contains(c)
}

/// What a resource is: its type and how it is shared out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Definition {
    /// The type of its values.
    pub kind: ResourceType,
    /// Belongs to a host and may stand in a chunk; else it belongs to the job as a whole.
    pub host_level: bool,
    /// Taken by a job from its node while it runs (PBS flag `n`); else only compared.
    pub consumable: bool,
    /// May be requested; else only the system sets it.
    pub requestable: bool,
}

/// All resources known, by name: PBS's own and the site's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resources {
    definitions: BTreeMap<String, Definition>,
}

impl Default for Resources {
    fn default() -> Resources {
        Resources::builtin()
    }
}

impl Resources {
    /// PBS's own resources, and `ngpus`, which every site adds.
    pub fn builtin() -> Resources {
        let mut resources = Resources {
            definitions: BTreeMap::new(),
        };
        for (names, kind, host_level, consumable, requestable) in BUILTIN {
            for name in names.split_whitespace() {
                let definition = Definition {
                    kind: *kind,
                    host_level: *host_level,
                    consumable: *consumable,
                    requestable: *requestable,
                };
                resources.define(name, definition);
            }
        }
        resources
    }

    /// Whether a resource can have this name: a letter, then letters, digits, `-` and `_`.
    pub fn is_name(name: &str) -> bool {
        let begins = name.starts_with(|c: char| c.is_ascii_alphabetic());
        begins && name.len() <= 255 && !name.contains('.') && name.chars().all(is_plain)
    }

    /// Adds or replaces a definition.
    pub fn define(&mut self, name: &str, definition: Definition) {
        self.definitions.insert(name.to_string(), definition);
    }

    /// The definition of `name`.
    pub fn get(&self, name: &str) -> Option<&Definition> {
        self.definitions.get(name)
    }

    /// All of them, in alphabetical order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Definition)> {
        self.definitions
            .iter()
            .map(|(name, definition)| (name.as_str(), definition))
    }

    /// The names of the resources that a job takes from a node while it runs, in alphabetical
    /// order: a name's place here is its index in the scheduler's arrays.
    pub fn consumables(&self) -> Vec<&str> {
        self.iter()
            .filter(|(_, d)| d.consumable && d.host_level)
            .map(|(name, _)| name)
            .collect()
    }

    /// The names of the resources that the whole system has and jobs take (Q21), in alphabetical
    /// order.
    pub fn pooled(&self) -> Vec<&str> {
        self.iter()
            .filter(|(_, d)| d.consumable && !d.host_level)
            .map(|(name, _)| name)
            .collect()
    }

    /// Reads a value for `-l name=text`.
    pub fn parse(&self, name: &str, text: &str) -> Result<ResourceValue, Refusal> {
        let definition = self
            .get(name)
            .ok_or_else(|| Refusal::unknown_resource(name))?;
        let shown = format!("Resource_List.{name}");
        if !definition.requestable {
            return Err(Refusal::read_only(&shown));
        }
        ResourceValue::parse(definition.kind, text).ok_or_else(|| Refusal::illegal_value(&shown))
    }
}

/// Names, kind, host-level, consumable, requestable (`spec` 1.6, built-in resources).
const BUILTIN: &[(&str, ResourceType, bool, bool, bool)] = &[
    (
        "walltime cput pcput min_walltime max_walltime",
        ResourceType::Time,
        false,
        false,
        true,
    ),
    ("soft_walltime", ResourceType::Time, false, false, false),
    (
        "mem vmem hbmem accelerator_memory",
        ResourceType::Size,
        true,
        true,
        true,
    ),
    ("pmem pvmem file", ResourceType::Size, false, false, true),
    (
        "ncpus naccelerators ngpus",
        ResourceType::Long,
        true,
        true,
        true,
    ),
    ("mpiprocs ompthreads", ResourceType::Long, true, false, true),
    ("nodect cpupercent", ResourceType::Long, false, false, false),
    ("nchunk nice", ResourceType::Long, false, false, true),
    (
        "arch host vnode vntype accelerator_model",
        ResourceType::String,
        true,
        false,
        true,
    ),
    (
        "software site nodes select place preempt_targets",
        ResourceType::String,
        false,
        false,
        true,
    ),
    ("aoe eoe", ResourceType::String, true, false, true),
    ("energy", ResourceType::Float, false, false, false),
    ("accelerator", ResourceType::Boolean, true, false, true),
];

/// Values by resource name, in alphabetical order: `Resource_List`, `resources_available`.
pub type ResourceList = BTreeMap<String, ResourceValue>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_keep_their_unit() {
        let shown = |text| Size::parse(text).map(|size| size.to_string());
        assert_eq!(shown("8G").as_deref(), Some("8gb"));
        assert_eq!(shown("8192").as_deref(), Some("8192b"));
        assert_eq!(shown("10mw").as_deref(), Some("10mw"));
        for bad in ["", "1.5gb", "gb", "-1", "1 gb", "1x", "99999999pb"] {
            assert_eq!(shown(bad), None, "{bad}");
        }
        assert_eq!(Size::parse("1w").unwrap().bytes(), 8);
    }

    #[test]
    fn sums_of_sizes_stay_exact() {
        let size = |text| Size::parse(text).unwrap();
        assert_eq!(size("512mb").times(3).unwrap().to_string(), "1536mb");
        assert_eq!(size("1gb").plus(size("1gb")).unwrap().to_string(), "2gb");
        assert_eq!(
            size("1gb").plus(size("512mb")).unwrap().to_string(),
            "1536mb"
        );
    }
}
