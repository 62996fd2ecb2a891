//! The accounts: what is kept of every attempt that is over, and what many of them come to.
//!
//! An entry stands for itself: who, where, when, what was asked for, had and used. It outlives the
//! job, and its moments are those of the calendar, for people ask for months.

use crate::model::job::held::Held;
use crate::model::job::preemption::JobPreemption;
use crate::model::job::{Attempt, Usage};
use crate::model::job_id::JobId;
use crate::model::request::select::Request;
use crate::model::resource::ResourceValue;
use crate::model::time::{Span, Wall};
use serde::{Deserialize, Serialize};

/// What is kept of an attempt that is over, or of a job that ended without one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AccountingEntry {
    /// The job; of an array, the element.
    pub job: JobId,
    /// Which attempt; 0 for the end of a job that waited.
    pub attempt: Attempt,
    /// `Job_Name`.
    pub name: String,
    /// Who, and for what.
    pub of: Parties,
    /// When what happened.
    pub stamps: Stamps,
    /// How the job ended; None if it went back to its queue.
    pub end: Option<JobEnd>,
    /// The hosts and the processors on each, a chunk after the other.
    pub places: Vec<(String, u32)>,
    /// What was asked for.
    pub asked: RequestedResources,
    /// What it had.
    pub held: Held,
    /// What it used.
    pub used: Usage,
    /// What it had of processors for as long as it ran: thousandths of seconds of one.
    pub core_ms: i64,
    /// How much of that is charged (X24).
    pub factor: f64,
    /// For whom it made way, if it ended so or stood still meanwhile, and how.
    #[serde(default)]
    pub made_way: Option<Box<JobPreemption>>,
}

/// Who had an attempt, and in whose name. What was not said is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parties {
    /// The owner.
    pub user: String,
    /// The owner's primary group, by number.
    pub gid: u32,
    /// `-A`.
    pub account: String,
    /// `-P`.
    pub project: String,
    /// The queue.
    pub queue: String,
    /// The quality of service.
    pub qos: String,
}

/// When what happened, in milliseconds since the Unix epoch, as a watch showed it then.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stamps {
    /// The job was submitted.
    pub submitted: i64,
    /// It could have started: it was queued, or its last attempt was over. None if it never could.
    pub eligible: Option<i64>,
    /// The attempt began; None if there was none.
    pub began: Option<i64>,
    /// It was over.
    pub ended: i64,
}

/// How a job ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobEnd {
    /// `Exit_status`.
    pub status: i32,
    /// Whether it was deleted, or its dependencies were.
    pub deleted: bool,
}

/// What a job asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestedResources {
    /// `select`.
    pub select: String,
    /// Chunks.
    pub chunks: u32,
    /// Processors.
    pub cores: u32,
    /// GPUs.
    pub gpus: u32,
    /// Memory, in kilobytes, if it said.
    pub mem_kb: Option<u64>,
    /// The time to run, if it said.
    pub walltime: Option<Span>,
}

impl RequestedResources {
    /// What a request comes to.
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

/// Which entries: those that match all that is given, of a list any of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AccountingFilter {
    /// Of these users.
    pub users: Vec<String>,
    /// Of these accounts; an empty name for none.
    pub accounts: Vec<String>,
    /// Of these projects.
    pub projects: Vec<String>,
    /// In these queues.
    pub queues: Vec<String>,
    /// Over at this moment or later.
    pub from: Option<Wall>,
    /// Over before this moment.
    pub to: Option<Wall>,
}

/// By what entries are taken together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum GroupKey {
    /// The owner.
    User,
    /// `-A`.
    Account,
    /// `-P`.
    Project,
    /// The queue.
    Queue,
    /// The quality of service.
    Qos,
    /// The quarter of an hour in which they ended, by its first second since the epoch: days and
    /// months begin with one in every time zone, and whose time zone counts is for the reader to
    /// say.
    Quarter,
}

/// What entries come to that are alike in what was asked for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RequestTotals {
    /// In what, in the order of the keys.
    pub of: Vec<String>,
    /// What they come to.
    pub sums: UsageTotals,
}

/// What entries come to, all taken together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct UsageTotals {
    /// Jobs that ended.
    pub jobs: i64,
    /// Those of them that did not end with status 0.
    pub failed: i64,
    /// Attempts, those after which a job went back to its queue too.
    pub attempts: i64,
    /// Processor time used, in milliseconds.
    pub cput_ms: i64,
    /// Processors held times how long, in milliseconds.
    pub core_ms: i64,
    /// As much of that as is charged (X24).
    pub charged_ms: f64,
    /// GPUs held times how long, in milliseconds.
    pub gpu_ms: i64,
    /// How long attempts ran, in milliseconds.
    pub walltime_ms: i64,
    /// The most memory used times how long, in kilobytes and seconds: of those that asked for
    /// memory.
    pub mem_used: f64,
    /// The memory these asked for times how long.
    pub mem_asked: f64,
    /// How long attempts waited until they began, in milliseconds.
    pub wait_ms: i64,
    /// How many of them that is.
    pub waits: i64,
}

impl UsageTotals {
    /// These and others.
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

    /// Processor time used of what was held, of 1; None if nothing was.
    pub fn cpu_efficiency(&self) -> Option<f64> {
        part(self.cput_ms as f64, self.core_ms as f64)
    }

    /// Memory used of what was asked for, of 1; None if none was.
    pub fn mem_efficiency(&self) -> Option<f64> {
        part(self.mem_used, self.mem_asked)
    }

    /// How long an attempt waited, in seconds; None if there was none.
    pub fn mean_wait(&self) -> Option<f64> {
        part(self.wait_ms as f64 / 1000.0, self.waits as f64)
    }
}

impl AccountingEntry {
    /// How long the attempt waited, in milliseconds; None if it never began.
    pub fn wait_ms(&self) -> Option<i64> {
        Some((self.stamps.began? - self.stamps.eligible?).max(0))
    }

    /// Processor time used of what was held, of 1; None if nothing was.
    pub fn cpu_efficiency(&self) -> Option<f64> {
        part(self.used.cput.0 as f64, self.core_ms as f64)
    }

    /// Memory used of what was asked for, of 1; None if none was, or it did not run.
    pub fn mem_efficiency(&self) -> Option<f64> {
        self.stamps.began?;
        part(self.used.mem_kb as f64, self.asked.mem_kb? as f64)
    }

    /// Time run of what was asked for, of 1; None likewise.
    pub fn time_efficiency(&self) -> Option<f64> {
        self.stamps.began?;
        part(self.used.walltime.0 as f64, self.asked.walltime?.0 as f64)
    }
}

/// A part of a whole that is something.
pub fn part(of: f64, whole: f64) -> Option<f64> {
    (whole > 0.0).then(|| of / whole)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::request::select::Request;
    use crate::model::resource::Resources;

    #[test]
    fn what_a_job_asked_for_is_told_over_all_its_chunks() {
        let asked = |list: &[(&str, &str)]| {
            let list: Vec<_> = list
                .iter()
                .map(|(name, text)| (name.to_string(), text.to_string()))
                .collect();
            RequestedResources::of(&Request::parse(&list, &Resources::builtin()).unwrap())
        };
        let all = asked(&[
            ("select", "2:ncpus=4:mem=2gb+1:ngpus=1:ncpus=1"),
            ("walltime", "1:00:00"),
        ]);
        let of = (all.chunks, all.cores, all.gpus, all.mem_kb, all.walltime);
        assert_eq!(
            of,
            (3, 9, 1, Some(4 << 20), Some(Span::seconds(3600))),
            "{all:?}"
        );
        let silent = asked(&[("ncpus", "1")]);
        assert_eq!((silent.mem_kb, silent.walltime), (None, None));
    }

    #[test]
    fn a_part_of_nothing_is_no_part() {
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
    fn sums_are_added_up_in_every_part() {
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

    /// Of an hour on two processors, half of it used, a quarter of the memory and a third of the
    /// time asked for.
    fn entry() -> AccountingEntry {
        let hour = 3_600_000;
        AccountingEntry {
            job: JobId::job(1),
            attempt: 1,
            name: "wave".into(),
            of: Parties::default(),
            stamps: Stamps {
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
    fn an_attempt_is_held_against_what_it_had_and_what_was_asked_for() {
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
            "nothing was said"
        );
        let stamps = Stamps {
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
            "it has not run"
        );
    }

    #[test]
    fn an_attempt_waits_from_when_it_could_have_begun_until_it_did() {
        let of = |eligible, began| {
            AccountingEntry {
                stamps: Stamps {
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
