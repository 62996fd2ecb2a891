//! Job identifiers: `12`, `12[]` for an array, `12[3]` for a subjob.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// Id of a job, an array or a subjob. Ids sort by number; an array sorts before its subjobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct JobId {
    /// Sequence number assigned by the server.
    pub number: u64,
    /// Job, array or subjob with that number.
    pub part: IdPart,
}

/// Kind of job that an id refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum IdPart {
    /// `12`: a job that is not an array.
    Whole,
    /// `12[]`: an array.
    Array,
    /// `12[3]`: the subjob with this index.
    Element(u32),
}

impl JobId {
    /// Creates the id of a job that is not an array.
    pub const fn job(number: u64) -> JobId {
        JobId {
            number,
            part: IdPart::Whole,
        }
    }

    /// Creates the id of an array.
    pub const fn array(number: u64) -> JobId {
        JobId {
            number,
            part: IdPart::Array,
        }
    }

    /// Creates the id of a subjob.
    pub const fn element(number: u64, index: u32) -> JobId {
        JobId {
            number,
            part: IdPart::Element(index),
        }
    }

    /// Returns the id of the array that this subjob belongs to; None for other ids.
    pub fn parent(self) -> Option<JobId> {
        self.index().map(|_| JobId::array(self.number))
    }

    /// Returns the index of a subjob; None for other ids.
    pub fn index(self) -> Option<u32> {
        match self.part {
            IdPart::Element(index) => Some(index),
            IdPart::Whole | IdPart::Array => None,
        }
    }

    /// Tests for the id of an array.
    pub fn is_array(self) -> bool {
        self.part == IdPart::Array
    }

    /// Returns the default file name of an output stream of a job called `name`: `STDIN.o12`, for a
    /// subjob `STDIN.o12.3`, for an array `STDIN.o12.^array_index^`. `letter` is `o` or `e`.
    pub fn output_file(self, name: &str, letter: char) -> String {
        let number = self.number;
        match self.part {
            IdPart::Whole => format!("{name}.{letter}{number}"),
            IdPart::Array => format!("{name}.{letter}{number}.^array_index^"),
            IdPart::Element(index) => format!("{name}.{letter}{number}.{index}"),
        }
    }

    /// Returns the id as clients display it: `12.head`, `12[].head`, `12[3].head`.
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

/// Error for a text that is not of the form `12`, `12[]` or `12[3]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a job id")]
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
