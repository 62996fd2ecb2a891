//! What is special about the jobs of a quality of service (M27).

use crate::model::limit::Quantity;
use serde::{Deserialize, Serialize};
use std::fmt;

/// `flags = ["NOBF"]`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Flag {
    /// Its jobs have their nodes alone.
    Dedicated,
    /// Its jobs never pass a blocked one.
    NoBackfill,
    /// Its jobs are promised no start.
    NoReservation,
    /// Its jobs are promised a start when they are blocked, though all promises are given.
    ReserveAlways,
    /// Its jobs may have the place of those that make way (M43).
    Preemptor,
    /// Its jobs make way (M43).
    Preemptee,
    /// Its jobs may have the place of any that can be run again: those are put back into the queue.
    RestartPreempt,
    /// Its jobs run in this reservation and nowhere else.
    UseReserved(String),
    /// Its jobs heed no limit on this; None: on nothing.
    Ignore(Option<Quantity>),
}

/// What stands before the name of a reservation.
const USE_RESERVED: &str = "USERESERVED:";

/// What of a job limits may count, by Maui's names of limits.
const IGNORED: [(&str, &str); 7] = [
    ("IGNMAXJOB", "jobs"),
    ("IGNMAXNODE", "nodes"),
    ("IGNMAXPROC", "ncpus"),
    ("IGNMAXPE", "pe"),
    ("IGNMAXMEM", "mem"),
    ("IGNMAXPS", "procseconds"),
    ("IGNMAXWC", "seconds"),
];

impl Flag {
    /// What may be written.
    pub const NAMES: &str = "DEDICATED, NOBF, NORESERVATION, RESERVEALWAYS, PREEMPTOR, PREEMPTEE, RESTARTPREEMPT, \
                             USERESERVED:name, IGNALL, IGNMAXJOB, IGNMAXNODE, IGNMAXPROC, IGNMAXPE, IGNMAXMEM, IGNMAXPS, IGNMAXWC";

    /// Reads one of the names.
    pub fn named(text: &str) -> Option<Flag> {
        Some(match text {
            "DEDICATED" => Flag::Dedicated,
            "NOBF" => Flag::NoBackfill,
            "NORESERVATION" => Flag::NoReservation,
            "RESERVEALWAYS" => Flag::ReserveAlways,
            "PREEMPTOR" => Flag::Preemptor,
            "PREEMPTEE" => Flag::Preemptee,
            "RESTARTPREEMPT" => Flag::RestartPreempt,
            "IGNALL" => Flag::Ignore(None),
            _ => match text
                .strip_prefix(USE_RESERVED)
                .filter(|name| !name.is_empty())
            {
                Some(name) => Flag::UseReserved(name.to_string()),
                None => {
                    let (_, quantity) = IGNORED.iter().find(|(name, _)| *name == text)?;
                    Flag::Ignore(Some(Quantity::from(quantity.to_string())))
                }
            },
        })
    }
}

impl Flag {
    /// Whether it means that limits on this do not hold.
    pub fn ignores(&self, quantity: &Quantity) -> bool {
        matches!(self, Flag::Ignore(own) if own.as_ref().is_none_or(|own| own == quantity))
    }
}

/// As it stands in the file.
impl fmt::Display for Flag {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(match self {
            Flag::Dedicated => "DEDICATED",
            Flag::NoBackfill => "NOBF",
            Flag::NoReservation => "NORESERVATION",
            Flag::ReserveAlways => "RESERVEALWAYS",
            Flag::Preemptor => "PREEMPTOR",
            Flag::Preemptee => "PREEMPTEE",
            Flag::RestartPreempt => "RESTARTPREEMPT",
            Flag::UseReserved(name) => return write!(f, "{USE_RESERVED}{name}"),
            Flag::Ignore(None) => "IGNALL",
            Flag::Ignore(Some(quantity)) => {
                let known = IGNORED.iter().find(|(_, known)| *known == quantity.name());
                known.map_or("IGNALL", |(name, _)| name)
            }
        })
    }
}

impl TryFrom<String> for Flag {
    type Error = String;

    fn try_from(text: String) -> Result<Flag, String> {
        Flag::named(&text).ok_or_else(|| format!("`{text}` is none of {}", Flag::NAMES))
    }
}

impl From<Flag> for String {
    fn from(flag: Flag) -> String {
        flag.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_read_and_written_by_their_names() {
        for name in Flag::NAMES.split(", ") {
            assert_eq!(Flag::named(name).unwrap().to_string(), name);
        }
        for name in ["RESTART", "USERESERVED:", "nobf", "IGNUSER", ""] {
            assert_eq!(Flag::named(name), None, "{name}");
        }
    }

    #[test]
    fn flags_are_stored_by_their_names_and_others_refused_with_all_there_are() {
        let flags: Vec<Flag> = Flag::NAMES
            .split(", ")
            .map(|name| Flag::named(name).unwrap())
            .collect();
        let text = serde_json::to_string(&flags).unwrap();
        assert!(
            text.contains("\"USERESERVED:name\"") && text.contains("\"IGNMAXWC\""),
            "{text}"
        );
        assert_eq!(serde_json::from_str::<Vec<Flag>>(&text).unwrap(), flags);
        let said = serde_json::from_str::<Flag>("\"NOSUCH\"")
            .unwrap_err()
            .to_string();
        assert!(
            said.contains("`NOSUCH` is none of DEDICATED, NOBF"),
            "{said}"
        );
    }

    #[test]
    fn a_flag_ignores_the_limits_it_names_or_all() {
        let ignores = |flag: &str, quantity: &str| {
            Flag::named(flag)
                .unwrap()
                .ignores(&quantity.to_string().into())
        };
        assert!(ignores("IGNALL", "jobs") && ignores("IGNMAXJOB", "jobs"));
        assert!(!ignores("IGNMAXJOB", "nodes") && !ignores("NOBF", "jobs"));
    }
}
