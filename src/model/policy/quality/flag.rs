//! Flags of a quality of service (M27).

use crate::model::limit::Quantity;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Flag of a quality of service, such as `NOBF`, in the key `flags` of `[[qos]]`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Flag {
    /// `DEDICATED`: jobs that request no node access policy get exclusive nodes.
    Dedicated,
    /// `NOBF`: jobs never start ahead of a blocked job.
    NoBackfill,
    /// `NORESERVATION`: jobs get no bookings.
    NoReservation,
    /// `RESERVEALWAYS`: blocked jobs get bookings beyond the configured depth.
    ReserveAlways,
    /// `PREEMPTOR`: jobs may preempt jobs flagged `PREEMPTEE` of lower priority (M43).
    Preemptor,
    /// `PREEMPTEE`: jobs may be preempted by jobs flagged `PREEMPTOR` of higher priority (M43).
    Preemptee,
    /// `RESTARTPREEMPT`: jobs may preempt all rerunnable jobs of lower priority, by requeuing them.
    RestartPreempt,
    /// `USERESERVED:name`: jobs that request no reservation run in the reservation `name`.
    UseReserved(String),
    /// `IGN...`: jobs are exempt from limits on the given quantity; None for all limits.
    Ignore(Option<Quantity>),
}

/// Prefix of the flag that names a reservation.
const USE_RESERVED: &str = "USERESERVED:";

/// Maui's flags that exempt jobs from limits, each with the limited quantity.
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
    /// Text that lists all flags.
    pub const NAMES: &str = "DEDICATED, NOBF, NORESERVATION, RESERVEALWAYS, PREEMPTOR, PREEMPTEE, \
                             RESTARTPREEMPT, USERESERVED:name, IGNALL, IGNMAXJOB, IGNMAXNODE, \
                             IGNMAXPROC, IGNMAXPE, IGNMAXMEM, IGNMAXPS, IGNMAXWC";

    /// Parses a flag.
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
    /// Tests whether the flag exempts jobs from limits on a quantity.
    pub fn ignores(&self, quantity: &Quantity) -> bool {
        matches!(self, Flag::Ignore(own) if own.as_ref().is_none_or(|own| own == quantity))
    }
}

/// Formats as in the configuration file.
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
        Flag::named(&text).ok_or_else(|| format!("`{text}` is not one of {}", Flag::NAMES))
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
    fn flags_are_stored_by_name_and_unknown_flags_are_refused() {
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
        let error = serde_json::from_str::<Flag>("\"NOSUCH\"")
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("`NOSUCH` is not one of DEDICATED, NOBF"),
            "{error}"
        );
    }

    #[test]
    fn a_flag_ignores_limits_on_one_quantity_or_all_limits() {
        let ignores = |flag: &str, quantity: &str| {
            Flag::named(flag)
                .unwrap()
                .ignores(&quantity.to_string().into())
        };
        assert!(ignores("IGNALL", "jobs") && ignores("IGNMAXJOB", "jobs"));
        assert!(!ignores("IGNMAXJOB", "nodes") && !ignores("NOBF", "jobs"));
    }
}
