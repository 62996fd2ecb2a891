//! System-wide resources that belong to no node, such as licenses (Q21).

use super::resource::{ResourceType, ResourceValue};
use crate::model::request::host_list::HostList;
use crate::model::time::{Span, Time};
use serde::{Deserialize, Serialize};

/// Amounts of a system-wide resource.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pool {
    /// Configured total, a number or bytes. Jobs never get more than this.
    pub total: i64,
    /// Amount by which the reported total is below the configured total.
    pub missing: i64,
    /// Amount in use outside this cluster.
    pub elsewhere: i64,
    /// True if a job uses the requested amount on each of its hosts. Otherwise it uses the amount
    /// once.
    pub per_host: bool,
    /// Hosts on which the resource can be used.
    pub scope: HostList,
}

impl Pool {
    /// Returns a copy with the latest reported counts; unchanged if `reported` is None. Negative
    /// counts count as 0.
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

/// Counts of a system-wide resource that a command or a user reported, such as those of a license
/// server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReportedCount {
    /// Reported total; None if the configured total applies.
    pub total: Option<i64>,
    /// Amount in use outside this cluster.
    pub elsewhere: i64,
    /// Time of the latest report.
    pub at: Time,
    /// Source of the report: a user, or [`ReportedCount::BY_COMMAND`].
    pub by: String,
}

impl ReportedCount {
    /// Value of `by` for a report of the resource's command.
    pub const BY_COMMAND: &str = "command";

    /// Tests whether both reports have the same counts, regardless of time and source.
    pub fn has_same_counts(&self, other: &ReportedCount) -> bool {
        (self.total, self.elsewhere) == (other.total, other.elsewhere)
    }
}

/// Command that prints the total of a system-wide resource and, optionally, the amount used outside
/// this cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResourceMeter {
    /// Absolute path of the program, then its arguments.
    pub command: Vec<String>,
    /// Interval between runs of the program.
    pub interval: Span,
    /// Time limit of a run.
    pub timeout: Span,
}

impl ResourceMeter {
    /// Default interval.
    pub const INTERVAL: Span = Span::seconds(30);
    /// Default time limit.
    pub const TIMEOUT: Span = Span::seconds(10);

    /// Parses the output of the command. Returns the total and the amount used outside this
    /// cluster, which is 0 if the command does not print it. The error is a text for the log.
    pub fn read(kind: ResourceType, output: &str) -> Result<(i64, i64), String> {
        let words: Vec<&str> = output.split_whitespace().collect();
        match words[..] {
            [total] => Ok((amount(kind, total)?, 0)),
            [total, elsewhere] => Ok((amount(kind, total)?, amount(kind, elsewhere)?)),
            _ => Err(format!(
                "the command printed {} words; expected the total and, optionally, the amount used outside \
                 this cluster",
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
    /// True if the resource is a license, that is, if a command or a user reports its counts.
    pub is_license: bool,
    /// Amount allocated to jobs.
    pub jobs: i64,
    /// Latest report; None if there is no report.
    pub reported: Option<ReportedCount>,
    /// Error of the command's latest run; None if that run succeeded, or if no command has run.
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

    /// Returns the amount that further jobs cannot get: allocated to jobs, used outside this
    /// cluster, or missing.
    pub fn used(&self) -> i64 {
        self.jobs + self.pool.missing + self.pool.elsewhere
    }

    /// Returns the amount that further jobs can get.
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

    #[test]
    fn q21_missing_amounts_count_as_used_and_no_amount_is_negative() {
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
    fn the_output_of_a_command_has_one_or_two_amounts() {
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
