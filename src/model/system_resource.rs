//! System-wide resources that belong to no node, such as licenses (Q21).

use super::resource::{ResourceType, ResourceValue};
use crate::model::request::host_list::HostList;
use crate::model::time::{Span, Time};
use serde::{Deserialize, Serialize};

/// Amounts of a system-wide resource.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pool {
    /// Configured total, a number or bytes: the upper bound of what jobs get.
    pub total: i64,
    /// Part of the total that does not exist at present.
    pub missing: i64,
    /// Amount in use outside this cluster.
    pub elsewhere: i64,
    /// Counted once for each host of a job instead of once for the job.
    pub per_host: bool,
    /// Hosts on which the resource can be used.
    pub scope: HostList,
}

impl Pool {
    /// Returns the pool updated with the latest reported counts.
    pub fn with_reported_counts(&self, reported: Option<&ReportedCount>) -> Pool {
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

/// Counts reported from outside, such as those of a license server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReportedCount {
    /// Total that exists; None for the configured total.
    pub total: Option<i64>,
    /// Amount in use outside this cluster.
    pub elsewhere: i64,
    /// Time of the latest report.
    pub at: Time,
    /// Source of the report: a user, or [`ReportedCount::BY_COMMAND`].
    pub by: String,
}

impl ReportedCount {
    /// Source name of the resource's own command.
    pub const BY_COMMAND: &str = "command";

    /// Tests for equal counts, regardless of time and source.
    pub fn has_same_counts(&self, other: &ReportedCount) -> bool {
        (self.total, self.elsewhere) == (other.total, other.elsewhere)
    }
}

/// Command that reports a resource: it prints the total and, optionally, the amount used
/// elsewhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResourceMeter {
    /// Absolute path of the program, and its arguments.
    pub command: Vec<String>,
    /// Interval between runs.
    pub interval: Span,
    /// Time limit of a run.
    pub timeout: Span,
}

impl ResourceMeter {
    /// Default interval.
    pub const INTERVAL: Span = Span::seconds(30);
    /// Default time limit.
    pub const TIMEOUT: Span = Span::seconds(10);

    /// Parses the output of the command: the total, and the amount used elsewhere if printed. The
    /// error is a text for the log.
    pub fn read(kind: ResourceType, output: &str) -> Result<(i64, i64), String> {
        let words: Vec<&str> = output.split_whitespace().collect();
        match words[..] {
            [total] => Ok((amount(kind, total)?, 0)),
            [total, elsewhere] => Ok((amount(kind, total)?, amount(kind, elsewhere)?)),
            _ => Err(format!(
                "its output has {} words instead of the total and the amount used elsewhere",
                words.len()
            )),
        }
    }
}

fn amount(kind: ResourceType, word: &str) -> Result<i64, String> {
    ResourceValue::parse(kind, word)
        .and_then(|value| value.amount())
        .filter(|amount| *amount >= 0)
        .ok_or_else(|| format!("`{}` is not an amount", word.escape_debug()))
}

/// State of a system-wide resource, as `qstat --resources` displays it. Amounts are numbers or
/// bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PoolUse {
    /// Name of the resource.
    pub name: String,
    /// Configured and reported amounts.
    pub pool: Pool,
    /// Counts are reported from outside.
    pub is_license: bool,
    /// Amount allocated to jobs.
    pub jobs: i64,
    /// Latest report.
    pub reported: Option<ReportedCount>,
    /// Error of the latest failed run of the command.
    pub fault: Option<String>,
}

impl PoolUse {
    /// Returns Qube's name for the kind of resource.
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

    /// Returns the amount unavailable to further jobs: used by jobs, used elsewhere, or missing.
    pub fn used(&self) -> i64 {
        self.jobs + self.pool.missing + self.pool.elsewhere
    }

    /// Returns the amount available to jobs.
    pub fn free(&self) -> i64 {
        (self.pool.total - self.used()).max(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn used_and_total(total: Option<i64>, elsewhere: i64) -> (i64, i64) {
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
        .with_reported_counts(Some(&reported));
        (pool.missing + pool.elsewhere, pool.total)
    }

    /// Q21: missing amounts count as used.
    #[test]
    fn q21_missing_amounts_count_as_used_and_nothing_is_negative() {
        assert_eq!(
            [used_and_total(Some(50), 10), used_and_total(Some(40), 10)],
            [(10, 50), (20, 50)]
        );
        assert_eq!(used_and_total(None, 3), (3, 50));
        assert_eq!(
            used_and_total(Some(60), 0),
            (0, 50),
            "the configured total is the upper bound"
        );
        assert_eq!(used_and_total(Some(-5), -7), (50, 50));
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
        for output in ["", "-1", "40 x", "1 2 3", "4gb"] {
            assert!(
                ResourceMeter::read(ResourceType::Long, output).is_err(),
                "{output:?}"
            );
        }
    }
}
