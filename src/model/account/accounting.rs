//! Accounting: entries for finished attempts (starts of a job) and for jobs that end while they
//! wait, and totals over entries.
//!
//! An entry contains everything that reports need, because it outlives the job. All times are
//! wall-clock times, because reports cover calendar periods.

use crate::model::job::held::Held;
use crate::model::job::preemption::JobPreemption;
use crate::model::job::{Attempt, Usage};
use crate::model::job_id::JobId;
use crate::model::request::select::Request;
use crate::model::resource::ResourceValue;
use crate::model::time::{Span, Wall};
use serde::{Deserialize, Serialize};

/// Accounting entry of a finished attempt, or of a job that ended while it waited.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AccountingEntry {
    /// Id of the job or subjob.
    pub job: JobId,
    /// Number of the attempt; 0 for a job that ended while waiting.
    pub attempt: Attempt,
    /// Job name.
    pub name: String,
    /// User, account and other credentials.
    pub of: AttemptCredentials,
    /// Times of submission, start and end.
    pub stamps: AttemptTimes,
    /// End of the job; None if the job was requeued.
    pub end: Option<JobEnd>,
    /// Host and number of processors of each chunk.
    pub places: Vec<(String, u32)>,
    /// Requested resources.
    pub asked: RequestedResources,
    /// Allocated resources, including those of nodes that the job released early.
    pub held: Held,
    /// Used resources.
    pub used: Usage,
    /// Allocated processors times run time, in milliseconds. A processor that the job released
    /// early counts until its release.
    pub core_ms: i64,
    /// Factor by which the usage is charged (X24).
    pub factor: f64,
    /// Preemption of the attempt, if any.
    #[serde(default)]
    pub made_way: Option<Box<JobPreemption>>,
}

/// Credentials of an attempt; an empty text for a credential that is not set.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttemptCredentials {
    /// User name of the owner.
    pub user: String,
    /// Id of the owner's primary group.
    pub gid: u32,
    /// Account, `-A`.
    pub account: String,
    /// Project, `-P`.
    pub project: String,
    /// Queue of the job.
    pub queue: String,
    /// Quality of service.
    pub qos: String,
}

/// Times of an attempt, in milliseconds of the wall clock since the Unix epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttemptTimes {
    /// Submission of the job.
    pub submitted: i64,
    /// Time at which the job became eligible (`etime`): since then, no hold, dependency or begin
    /// time has prevented a start. A requeue does not change this time. None if the job is not
    /// eligible.
    pub eligible: Option<i64>,
    /// Start of the attempt; None without a start.
    pub began: Option<i64>,
    /// End of the attempt.
    pub ended: i64,
}

/// End of the job to which the attempt belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobEnd {
    /// Exit status, `Exit_status`.
    pub status: i32,
    /// True if the job was deleted, by request or by a dependency.
    pub deleted: bool,
}

/// Requested resources of a job, as totals over its chunks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestedResources {
    /// Text of `select`.
    pub select: String,
    /// Number of chunks.
    pub chunks: u32,
    /// Number of processors.
    pub cores: u32,
    /// Number of GPUs.
    pub gpus: u32,
    /// Memory in kilobytes, if requested.
    pub mem_kb: Option<u64>,
    /// Walltime, if requested.
    pub walltime: Option<Span>,
}

impl RequestedResources {
    /// Returns the totals of a request.
    pub fn of(request: &Request) -> RequestedResources {
        let [cores, gpus, mem] = ["ncpus", "ngpus", "mem"]
            .map(|name| request.list.get(name).and_then(ResourceValue::amount));
        RequestedResources {
            select: request.select.text.clone(),
            chunks: request
                .select
                .chunks
                .iter()
                .fold(0, |sum: u32, chunk| sum.saturating_add(chunk.count)),
            cores: cores.and_then(|cores| cores.try_into().ok()).unwrap_or(0),
            gpus: gpus.and_then(|gpus| gpus.try_into().ok()).unwrap_or(0),
            mem_kb: mem
                .and_then(|bytes| u64::try_from(bytes / 1024).ok())
                .filter(|kb| *kb > 0),
            walltime: match request.list.get("walltime") {
                Some(ResourceValue::Time(span)) => Some(*span),
                _ => None,
            },
        }
    }
}

/// Filter for entries: an entry must match every given criterion. A list matches if it contains
/// the value of the entry.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AccountingFilter {
    /// Owners of the jobs; empty for any.
    pub users: Vec<String>,
    /// Accounts; empty for any. An empty name selects entries without an account.
    pub accounts: Vec<String>,
    /// Projects; empty for any.
    pub projects: Vec<String>,
    /// Queues; empty for any.
    pub queues: Vec<String>,
    /// Earliest end, inclusive.
    pub from: Option<Wall>,
    /// Latest end, exclusive.
    pub to: Option<Wall>,
}

/// Key by which entries are grouped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum GroupKey {
    /// Owner.
    User,
    /// Account, `-A`.
    Account,
    /// Project, `-P`.
    Project,
    /// Queue.
    Queue,
    /// Quality of service.
    Qos,
    /// Quarter of an hour in which the attempt ended, as the Unix time of its first second. Days
    /// and months begin with a quarter in every time zone; clients add up the quarters of each
    /// day or month in their time zone.
    Quarter,
}

/// Totals of a group of entries.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RequestTotals {
    /// Values of the group keys, in the order of the keys.
    pub of: Vec<String>,
    /// Totals of the group.
    pub sums: UsageTotals,
}

/// Totals over entries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct UsageTotals {
    /// Number of jobs that ended.
    pub jobs: i64,
    /// Number of jobs with an exit status other than 0.
    pub failed: i64,
    /// Number of attempts, including those that ended in a requeue.
    pub attempts: i64,
    /// Processor time used, in milliseconds.
    pub cput_ms: i64,
    /// Sum of [`AccountingEntry::core_ms`].
    pub core_ms: i64,
    /// Sum of [`AccountingEntry::core_ms`] times [`AccountingEntry::factor`] (X24).
    pub charged_ms: f64,
    /// Allocated GPUs times run time, in milliseconds.
    pub gpu_ms: i64,
    /// Run time of the attempts, in milliseconds.
    pub walltime_ms: i64,
    /// Maximum memory times run time, in kilobyte-seconds, for attempts that requested memory.
    pub mem_used: f64,
    /// Requested memory times run time of the attempts counted in `mem_used`, in kilobyte-seconds.
    pub mem_asked: f64,
    /// Waiting time before the starts of attempts, in milliseconds.
    pub wait_ms: i64,
    /// Number of attempts counted in `wait_ms`.
    pub waits: i64,
}

impl UsageTotals {
    /// Returns the sum of both totals.
    pub fn and(self, other: UsageTotals) -> UsageTotals {
        UsageTotals {
            jobs: self.jobs + other.jobs,
            failed: self.failed + other.failed,
            attempts: self.attempts + other.attempts,
            cput_ms: self.cput_ms.saturating_add(other.cput_ms),
            core_ms: self.core_ms.saturating_add(other.core_ms),
            charged_ms: self.charged_ms + other.charged_ms,
            gpu_ms: self.gpu_ms.saturating_add(other.gpu_ms),
            walltime_ms: self.walltime_ms.saturating_add(other.walltime_ms),
            mem_used: self.mem_used + other.mem_used,
            mem_asked: self.mem_asked + other.mem_asked,
            wait_ms: self.wait_ms.saturating_add(other.wait_ms),
            waits: self.waits + other.waits,
        }
    }

    /// Returns processor time used per processor time allocated; None without an allocation.
    pub fn cpu_efficiency(&self) -> Option<f64> {
        part(self.cput_ms as f64, self.core_ms as f64)
    }

    /// Returns memory used per memory requested; None if no attempt requested memory.
    pub fn mem_efficiency(&self) -> Option<f64> {
        part(self.mem_used, self.mem_asked)
    }

    /// Returns the mean waiting time of an attempt in seconds; None if `waits` is 0.
    pub fn mean_wait(&self) -> Option<f64> {
        part(self.wait_ms as f64 / 1000.0, self.waits as f64)
    }
}

impl AccountingEntry {
    /// Returns the time from eligibility to the start of the attempt, in milliseconds; None if one
    /// of the two is missing.
    pub fn wait_ms(&self) -> Option<i64> {
        Some((self.stamps.began? - self.stamps.eligible?).max(0))
    }

    /// Returns processor time used per processor time allocated; None without an allocation.
    pub fn cpu_efficiency(&self) -> Option<f64> {
        part(self.used.cput.0 as f64, self.core_ms as f64)
    }

    /// Returns memory used per memory requested; None if the job requested no memory or never
    /// started.
    pub fn mem_efficiency(&self) -> Option<f64> {
        self.stamps.began?;
        part(self.used.mem_kb as f64, self.asked.mem_kb? as f64)
    }

    /// Returns run time per requested walltime; None if the job requested no walltime or never
    /// started.
    pub fn time_efficiency(&self) -> Option<f64> {
        self.stamps.began?;
        part(self.used.walltime.0 as f64, self.asked.walltime?.0 as f64)
    }
}

/// Returns `of / whole`; None if `whole` is not positive.
pub fn part(of: f64, whole: f64) -> Option<f64> {
    (whole > 0.0).then(|| of / whole)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::request::select::Request;
    use crate::model::resource::Resources;

    #[test]
    fn requests_are_summed_over_all_chunks() {
        let totals_of = |list: &[(&str, &str)]| {
            let list: Vec<_> = list
                .iter()
                .map(|(name, text)| (name.to_string(), text.to_string()))
                .collect();
            RequestedResources::of(&Request::parse(&list, &Resources::builtin()).unwrap())
        };
        let all = totals_of(&[
            ("select", "2:ncpus=4:mem=2gb+1:ngpus=1:ncpus=1"),
            ("walltime", "1:00:00"),
        ]);
        let of = (all.chunks, all.cores, all.gpus, all.mem_kb, all.walltime);
        assert_eq!(
            of,
            (3, 9, 1, Some(4 << 20), Some(Span::seconds(3600))),
            "{all:?}"
        );
        let without_mem = totals_of(&[("ncpus", "1")]);
        assert_eq!((without_mem.mem_kb, without_mem.walltime), (None, None));
    }

    #[test]
    fn an_efficiency_without_an_allocation_or_request_is_none() {
        let sums = UsageTotals {
            cput_ms: 3,
            core_ms: 4,
            wait_ms: 3000,
            waits: 2,
            ..UsageTotals::default()
        };
        assert_eq!(
            (
                sums.cpu_efficiency(),
                sums.mem_efficiency(),
                sums.mean_wait()
            ),
            (Some(0.75), None, Some(1.5))
        );
        let both = sums.and(UsageTotals {
            mem_used: 1.0,
            mem_asked: 8.0,
            core_ms: 2,
            ..UsageTotals::default()
        });
        assert_eq!(
            (both.cpu_efficiency(), both.mem_efficiency()),
            (Some(0.5), Some(0.125))
        );
    }

    #[test]
    fn all_totals_are_added() {
        let sums = UsageTotals {
            jobs: 1,
            failed: 2,
            attempts: 3,
            cput_ms: 4,
            core_ms: 5,
            charged_ms: 6.0,
            gpu_ms: 7,
            walltime_ms: 8,
            mem_used: 9.0,
            mem_asked: 10.0,
            wait_ms: 11,
            waits: 12,
        };
        let twice = UsageTotals {
            jobs: 2,
            failed: 4,
            attempts: 6,
            cput_ms: 8,
            core_ms: 10,
            charged_ms: 12.0,
            gpu_ms: 14,
            walltime_ms: 16,
            mem_used: 18.0,
            mem_asked: 20.0,
            wait_ms: 22,
            waits: 24,
        };
        assert_eq!(sums.and(sums), twice);
    }

    /// One hour on two processors, with one hour of processor time, a quarter of the requested
    /// memory and a third of the requested walltime used.
    fn entry() -> AccountingEntry {
        let hour = 3_600_000;
        AccountingEntry {
            job: JobId::job(1),
            attempt: 1,
            name: "wave".into(),
            of: AttemptCredentials::default(),
            stamps: AttemptTimes {
                submitted: 0,
                eligible: Some(500),
                began: Some(2000),
                ended: 2000 + hour,
            },
            end: Some(JobEnd {
                status: 0,
                deleted: false,
            }),
            places: Vec::new(),
            asked: RequestedResources {
                mem_kb: Some(4000),
                walltime: Some(Span(3 * hour)),
                ..RequestedResources::default()
            },
            held: Held::default(),
            used: Usage {
                walltime: Span(hour),
                cput: Span(hour),
                mem_kb: 1000,
                vmem_kb: 0,
                ncpus: 2,
            },
            core_ms: 2 * hour,
            factor: 1.0,
            made_way: None,
        }
    }

    #[test]
    fn efficiency_compares_usage_with_allocation_and_request() {
        let parts = |entry: &AccountingEntry| {
            [
                entry.cpu_efficiency(),
                entry.mem_efficiency(),
                entry.time_efficiency(),
            ]
        };
        assert_eq!(parts(&entry()), [Some(0.5), Some(0.25), Some(1.0 / 3.0)]);
        assert_eq!(
            parts(&AccountingEntry {
                asked: RequestedResources::default(),
                ..entry()
            }),
            [Some(0.5), None, None],
            "without requests"
        );
        let stamps = AttemptTimes {
            began: None,
            ..entry().stamps
        };
        assert_eq!(
            parts(&AccountingEntry {
                stamps,
                core_ms: 0,
                ..entry()
            }),
            [None; 3],
            "without a start"
        );
    }

    #[test]
    fn waiting_time_lasts_from_eligibility_to_start() {
        let of = |eligible, began| {
            AccountingEntry {
                stamps: AttemptTimes {
                    eligible,
                    began,
                    ..entry().stamps
                },
                ..entry()
            }
            .wait_ms()
        };
        assert_eq!(
            [of(Some(500), Some(2000)), of(Some(3000), Some(2000))],
            [Some(1500), Some(0)]
        );
        assert_eq!([of(None, Some(2000)), of(Some(500), None)], [None, None]);
    }
}
