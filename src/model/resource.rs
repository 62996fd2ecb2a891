//! Resources: named quantities that nodes provide and jobs request and use.

pub mod amount;

use crate::model::refusal::Refusal;
use crate::model::time::Span;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// Type of a resource's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ResourceType {
    /// Duration, `HH:MM:SS`.
    Time,
    /// Bytes, such as `8gb`.
    Size,
    /// Integer.
    Long,
    /// Floating-point number.
    Float,
    /// `True` or `False`.
    Boolean,
    /// Text.
    String,
}

/// Value of a resource, by type.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum ResourceValue {
    /// Duration.
    Time(Span),
    /// Number of bytes, with the unit as given.
    Size(Size),
    /// Integer.
    Long(i64),
    /// Floating-point number.
    Float(f64),
    /// Boolean.
    Boolean(bool),
    /// Text.
    String(String),
}

/// Thousandths in a unit: the scheduler counts floating-point values in thousandths, rounded up.
const THOUSANDTHS: f64 = 1000.0;

impl ResourceValue {
    /// Parses a value of type `kind`; None if `text` is not a valid value.
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

    /// Returns the type of the value.
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

    /// Returns the value in the unit of the scheduler: bytes for sizes, milliseconds for times,
    /// thousandths for floating-point numbers, and the number itself for integers. None for text
    /// and booleans.
    pub fn amount(&self) -> Option<i64> {
        match self {
            ResourceValue::Time(span) => Some(span.0),
            ResourceValue::Size(size) => Some(i64::try_from(size.bytes()).unwrap_or(i64::MAX)),
            ResourceValue::Long(number) => Some(*number),
            ResourceValue::Float(number) => Some((number * THOUSANDTHS).ceil() as i64),
            ResourceValue::Boolean(_) | ResourceValue::String(_) => None,
        }
    }

    /// Converts an amount back to a value of type `kind`: the inverse of [`ResourceValue::amount`],
    /// except that sizes are rounded up to kilobytes. Gives an integer for text and booleans.
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

/// Formats as PBS does: `01:00:00`, `8gb`, `4`, `True`.
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

/// Number of bytes, with the unit in which it was given: `8gb` is displayed as `8gb`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Size {
    count: u64,
    /// Exponent of 1024: 0 for bytes, 1 for kilobytes, ... 5 for petabytes.
    scale: u8,
    /// True if the size is counted in words of 8 bytes instead of bytes.
    words: bool,
}

impl Size {
    const SCALES: [&'static str; 6] = ["", "k", "m", "g", "t", "p"];

    /// Creates a size of `count` times 1024 bytes.
    pub fn kilobytes(count: u64) -> Size {
        Size {
            count,
            scale: 1,
            words: false,
        }
    }

    /// Creates a size of `count` times 1024 kilobytes.
    pub fn megabytes(count: u64) -> Size {
        Size {
            count,
            scale: 2,
            words: false,
        }
    }

    /// Creates a size of `bytes` bytes, in the largest unit that represents it exactly.
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

    /// Parses an integer, optionally followed by one of `k m g t p`, optionally followed by `b` or
    /// `w`, in any case. None for other texts, and if the number of bytes exceeds 64 bits.
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

    /// Returns the size in bytes.
    pub fn bytes(self) -> u64 {
        self.checked_bytes().unwrap_or(u64::MAX)
    }

    /// Returns `count` times this size, in the same unit; None on overflow.
    pub fn times(self, count: u64) -> Option<Size> {
        let size = Size {
            count: self.count.checked_mul(count)?,
            ..self
        };
        size.checked_bytes().map(|_| size)
    }

    /// Returns the sum in the largest unit that represents it exactly, up to the larger of both
    /// units; None on overflow.
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

/// Tests whether a character is a letter, a digit, `-`, `_` or `.`.
pub(crate) fn is_plain(c: char) -> bool {
    c.is_ascii_alphanumeric() || "-_.".contains(c)
}

/// Definition of a resource.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Definition {
    /// Type of the values.
    pub kind: ResourceType,
    /// True if the resource belongs to a host and can be requested in a chunk. Otherwise it belongs
    /// to the job as a whole.
    pub host_level: bool,
    /// True if the scheduler allocates amounts of the resource to running jobs (PBS flags `n`, `f`
    /// and `q`). Otherwise it only compares values.
    pub consumable: bool,
    /// True if users can request the resource. Otherwise only the system sets it.
    pub requestable: bool,
}

/// All defined resources by name: the built-in resources and those of the site.
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
    /// Returns the built-in resources: those of PBS, and `ngpus`.
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

    /// Tests whether `name` is a valid resource name: a letter, then letters, digits, `-` and `_`,
    /// at most 255 characters in all.
    pub fn is_name(name: &str) -> bool {
        let begins = name.starts_with(|c: char| c.is_ascii_alphabetic());
        begins && name.len() <= 255 && !name.contains('.') && name.chars().all(is_plain)
    }

    /// Adds or replaces a definition.
    pub fn define(&mut self, name: &str, definition: Definition) {
        self.definitions.insert(name.to_string(), definition);
    }

    /// Returns the definition of `name`; None if the resource is undefined.
    pub fn get(&self, name: &str) -> Option<&Definition> {
        self.definitions.get(name)
    }

    /// Returns all resources in alphabetical order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Definition)> {
        self.definitions
            .iter()
            .map(|(name, definition)| (name.as_str(), definition))
    }

    /// Returns the names of the host-level consumable resources in alphabetical order. The
    /// scheduler's arrays of amounts have the same order.
    pub fn consumables(&self) -> Vec<&str> {
        self.iter()
            .filter(|(_, d)| d.consumable && d.host_level)
            .map(|(name, _)| name)
            .collect()
    }

    /// Returns the names of the system-wide consumable resources (Q21) in alphabetical order.
    pub fn pooled(&self) -> Vec<&str> {
        self.iter()
            .filter(|(_, d)| d.consumable && !d.host_level)
            .map(|(name, _)| name)
            .collect()
    }

    /// Parses a value of `-l name=text`. Refuses an undefined resource, a resource that only the
    /// system sets, and an invalid value.
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

/// Built-in resources: names, and the fields of their [`Definition`] in order.
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

/// Values by resource name, such as `Resource_List` or `resources_available`.
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
