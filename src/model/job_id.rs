//! Job identifiers: `12`, `12[]` for an array, `12[3]` for a subjob.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// Names a job, an array of jobs, or an element of one. In order: an array comes before its
/// elements, and these before the next number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct JobId {
    /// The sequence number, counted by the server.
    pub number: u64,
    /// Which part of what was submitted under it.
    pub part: IdPart,
}

/// What of a submission an id names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum IdPart {
    /// `12`: a job that is no array.
    Whole,
    /// `12[]`: an array of jobs.
    Array,
    /// `12[3]`: the element of an array that has this index.
    Element(u32),
}

impl JobId {
    /// A job that is no array.
    pub const fn job(number: u64) -> JobId {
        JobId {
            number,
            part: IdPart::Whole,
        }
    }

    /// An array of jobs.
    pub const fn array(number: u64) -> JobId {
        JobId {
            number,
            part: IdPart::Array,
        }
    }

    /// An element of an array.
    pub const fn element(number: u64, index: u32) -> JobId {
        JobId {
            number,
            part: IdPart::Element(index),
        }
    }

    /// The array this is an element of.
    pub fn parent(self) -> Option<JobId> {
        self.index().map(|_| JobId::array(self.number))
    }

    /// The index of an element.
    pub fn index(self) -> Option<u32> {
        match self.part {
            IdPart::Element(index) => Some(index),
            IdPart::Whole | IdPart::Array => None,
        }
    }

    /// Whether it names an array.
    pub fn is_array(self) -> bool {
        self.part == IdPart::Array
    }

    /// The file that a stream of this job's goes to by default: `STDIN.o12`, for an element
    /// `STDIN.o12.3`, for an array `STDIN.o12.^array_index^`. `letter` is `o` or `e`.
    pub fn output_file(self, name: &str, letter: char) -> String {
        let number = self.number;
        match self.part {
            IdPart::Whole => format!("{name}.{letter}{number}"),
            IdPart::Array => format!("{name}.{letter}{number}.^array_index^"),
            IdPart::Element(index) => format!("{name}.{letter}{number}.{index}"),
        }
    }

    /// The id as clients see it: `12.head`, `12[].head`, `12[3].head`.
    pub fn full(self, server: &str) -> String {
        format!("{self}.{server}")
    }
}

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self.part {
            IdPart::Whole => write!(f, "{}", self.number),
            IdPart::Array => write!(f, "{}[]", self.number),
            IdPart::Element(index) => write!(f, "{}[{index}]", self.number),
        }
    }
}

/// Not the name of a job: `12`, `12[]` or `12[3]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not the name of a job")]
pub struct NotAJob;

impl FromStr for JobId {
    type Err = NotAJob;

    fn from_str(text: &str) -> Result<JobId, NotAJob> {
        let (number, index) = match text.split_once('[') {
            Some((number, rest)) => (number, Some(rest.strip_suffix(']').ok_or(NotAJob)?)),
            None => (text, None),
        };
        let number = number.parse().map_err(|_| NotAJob)?;
        match index {
            None => Ok(JobId::job(number)),
            Some("") => Ok(JobId::array(number)),
            Some(index) => Ok(JobId::element(number, index.parse().map_err(|_| NotAJob)?)),
        }
    }
}
