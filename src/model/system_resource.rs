//! What the whole system has, and no node in particular: licenses and the like (Q21).

use super::resource::{ResourceType, ResourceValue};
use crate::model::request::host_list::HostList;
use crate::model::time::{Span, Time};
use serde::{Deserialize, Serialize};

/// One such resource.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pool {
    /// How much there is, as configured: a number, or bytes. More than this is never given.
    pub total: i64,
    /// How much of that is not there now.
    pub missing: i64,
    /// How much is in use where we do not see.
    pub elsewhere: i64,
    /// Counted once for each host of a job, however many chunks are there, and not once for the
    /// job.
    pub per_host: bool,
    /// The hosts on which it can be used.
    pub scope: HostList,
}

impl Pool {
    /// The same with what was last told of it.
    pub fn as_told(&self, reported: Option<&ReportedCount>) -> Pool {
        let Some(ReportedCount {
            total, elsewhere, ..
        }) = reported
        else {
            return self.clone();
        };
        let missing = total.map_or(0, |total| (self.total - total).clamp(0, self.total.max(0)));
        Pool {
            missing,
            elsewhere: (*elsewhere).max(0),
            ..self.clone()
        }
    }
}

/// What somebody outside has said of such a resource, who knows: a license server's numbers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReportedCount {
    /// How much of it is there; None for as much as is configured.
    pub total: Option<i64>,
    /// How much of that is used by others than our jobs.
    pub elsewhere: i64,
    /// When that was said last.
    pub at: Time,
    /// Who has said so: a person, or [`ReportedCount::BY_COMMAND`].
    pub by: String,
}

impl ReportedCount {
    /// It was the resource's own command.
    pub const BY_COMMAND: &str = "command";

    /// Whether another says the same, whoever it is and whenever.
    pub fn says_as(&self, other: &ReportedCount) -> bool {
        (self.total, self.elsewhere) == (other.total, other.elsewhere)
    }
}

/// How it is found out what there is of a resource: a program that prints how much is there, and
/// how much of that is used by others, if it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResourceMeter {
    /// The program, absolute, and its arguments.
    pub command: Vec<String>,
    /// From one time to the next.
    pub interval: Span,
    /// How long it may take.
    pub timeout: Span,
}

impl ResourceMeter {
    /// As often as it is run where nothing else is said.
    pub const INTERVAL: Span = Span::seconds(30);
    /// As long as it may take where nothing else is said.
    pub const TIMEOUT: Span = Span::seconds(10);

    /// What it has printed: how much is there, and how much of that is in use elsewhere; a number
    /// alone is how much is there. The error is for the log.
    pub fn read(kind: ResourceType, said: &str) -> Result<(i64, i64), String> {
        let words: Vec<&str> = said.split_whitespace().collect();
        match words[..] {
            [total] => Ok((amount(kind, total)?, 0)),
            [total, elsewhere] => Ok((amount(kind, total)?, amount(kind, elsewhere)?)),
            _ => Err(format!(
                "it prints {} words, not how much is there and how much is used elsewhere",
                words.len()
            )),
        }
    }
}

fn amount(kind: ResourceType, word: &str) -> Result<i64, String> {
    ResourceValue::parse(kind, word)
        .and_then(|value| value.amount())
        .filter(|amount| *amount >= 0)
        .ok_or_else(|| format!("`{}` is no amount", word.escape_debug()))
}

/// Such a resource as it stands: what `qstat --resources` shows. Amounts are numbers, or bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PoolUse {
    /// Its name.
    pub name: String,
    /// What it is and what is said of it.
    pub pool: Pool,
    /// Whether somebody outside says what is there.
    pub is_license: bool,
    /// How much jobs have.
    pub jobs: i64,
    /// What was told of it last.
    pub reported: Option<ReportedCount>,
    /// Why its command says nothing, if it was asked and does not.
    pub fault: Option<String>,
}

impl PoolUse {
    /// Qube's word for it.
    pub fn kind(&self) -> &'static str {
        if self.is_license {
            if self.pool.per_host {
                "license_host"
            } else {
                "license"
            }
        } else if self.pool.per_host {
            "global_host"
        } else {
            "global"
        }
    }

    /// What is in use as far as is known, or is not there: by jobs and elsewhere.
    pub fn used(&self) -> i64 {
        self.jobs + self.pool.missing + self.pool.elsewhere
    }

    /// What jobs can still be given.
    pub fn free(&self) -> i64 {
        (self.pool.total - self.used()).max(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(total: Option<i64>, elsewhere: i64) -> (i64, i64) {
        let reported = ReportedCount {
            total,
            elsewhere,
            at: Time(0),
            by: String::new(),
        };
        let pool = Pool {
            total: 50,
            ..Pool::default()
        }
        .as_told(Some(&reported));
        (pool.missing + pool.elsewhere, pool.total)
    }

    /// Q21: in use is what is used and what is not there.
    #[test]
    fn q21_what_is_not_there_counts_as_in_use_and_nothing_is_ever_below_zero() {
        assert_eq!(
            [told(Some(50), 10), told(Some(40), 10)],
            [(10, 50), (20, 50)]
        );
        assert_eq!(told(None, 3), (3, 50));
        assert_eq!(
            told(Some(60), 0),
            (0, 50),
            "no more is given than is configured"
        );
        assert_eq!(told(Some(-5), -7), (50, 50));
    }

    #[test]
    fn a_command_prints_one_amount_or_two() {
        assert_eq!(ResourceMeter::read(ResourceType::Long, "40\n"), Ok((40, 0)));
        assert_eq!(
            ResourceMeter::read(ResourceType::Long, " 40\n10\n"),
            Ok((40, 10))
        );
        assert_eq!(
            ResourceMeter::read(ResourceType::Size, "2gb 1gb"),
            Ok((2 << 30, 1 << 30))
        );
        for said in ["", "-1", "40 x", "1 2 3", "4gb"] {
            assert!(
                ResourceMeter::read(ResourceType::Long, said).is_err(),
                "{said:?}"
            );
        }
    }
}
