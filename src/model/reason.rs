//! Reasons why a job does not start, with the compared numbers. The stage of the scheduling cycle
//! that refuses the job produces the reason.

mod codes;

mod rows;

mod stage;

pub use codes::{CODES, Code, stage_of};
pub use rows::SentenceContext;
pub use stage::CycleStage;

use crate::model::job_id::JobId;
use crate::model::limit;
use crate::model::limit::excess::LimitExcess;
use crate::model::time::Time;
use serde::{Deserialize, Serialize};

/// Kind of mismatch between a node and a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Mismatch {
    /// A requirement of the job is not true on the node (Q3).
    Requirement,
    /// The job's restriction excludes the cluster of the node, or the node's restriction excludes
    /// the cluster of the job (Q19).
    Restriction,
    /// The job's host list excludes the host (Q24).
    Hosts,
    /// The site's veto expression excludes the node (Q26).
    Veto,
    /// An earlier start of the job failed because of the node's host (M10).
    FailedStart,
}

impl Mismatch {
    /// Returns the stable code, which also appears in the text of a reason.
    pub fn name(self) -> &'static str {
        match self {
            Mismatch::Requirement => "requirement",
            Mismatch::Restriction => "restriction",
            Mismatch::Hosts => "hosts",
            Mismatch::Veto => "vetoed",
            Mismatch::FailedStart => "failed_start",
        }
    }
}

/// Returns the key under which the reason of one job is stored. Reasons that apply to all jobs of a
/// class are stored under the id of the class.
pub fn own_reason_key(job: JobId) -> u64 {
    let part = job
        .index()
        .map_or(u64::from(job.is_array()), |index| u64::from(index) + 2);
    // The mixing function of splitmix64 makes collisions with class ids unlikely.
    let mixed = (job.number ^ part.rotate_left(32)).wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// Reason why a job does not start now or can never start. Its text is the `comment` in `qstat`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reason {
    /// The job can never start, even on an empty cluster, because the cluster has too little of a
    /// resource.
    NeverEnough {
        /// Resource name.
        resource: String,
        /// Requested amount, as displayed: of one chunk if no node has enough for it, otherwise of
        /// all chunks.
        requested: String,
        /// Largest available amount: of one node, of one host (`place=pack`), or of the cluster.
        /// The requested amount does not fit there.
        available: String,
        /// Total amount in the cluster.
        total: String,
    },
    /// The job can never start, because no node has the requested value of a resource.
    NeverMatches {
        /// Resource name.
        resource: String,
        /// Requested value, as displayed.
        requested: String,
        /// Value that a node has instead, as displayed; `unset` if the node has no value.
        found: String,
    },
    /// The job can never start, because too few of its chunks fit on the nodes, even if all nodes
    /// are empty.
    NeverNodes {
        /// Number of chunks requested.
        requested: u64,
        /// Number of chunks that fit.
        total: u64,
    },
    /// The queue is stopped.
    QueueStopped,
    /// The queue is a routing queue, and no destination has accepted the job yet.
    QueueRoutes,
    /// The queue's jobs start only in nested installations of their owners.
    NestedQueue,
    /// The job's quality of service excludes it from backfill (M27).
    NoBackfill,
    /// The job's priority does not exceed the policy's threshold.
    UnderThreshold {
        /// Priority of the job, as displayed.
        value: String,
        /// Threshold that the priority must exceed, as displayed.
        threshold: String,
    },
    /// The array has reached its limit on running subjobs.
    ArrayLimit {
        /// Maximum number of running subjobs.
        limit: u32,
        /// Maximum number of running subjobs while resources are otherwise idle; `u32::MAX` for no
        /// limit; None if the array requests no expansion (Q15).
        #[serde(default)]
        expand: Option<u32>,
    },
    /// A limit on running or waiting jobs would be exceeded (M5).
    Limited(Box<LimitExcess>),
    /// Too little of a resource is free now.
    Busy {
        /// Resource name.
        resource: String,
        /// Total amount requested.
        requested: String,
        /// Amount free now.
        available: String,
        /// Total amount in the cluster.
        total: String,
        /// Planned start of the job, at which enough should be free; None if the job has no planned
        /// start.
        until: Option<Time>,
        /// The resource belongs to the whole system, like a license, and not to a node.
        #[serde(default)]
        pooled: bool,
    },
    /// Nodes have enough resources, but are unsuitable for the job.
    Unsuitable {
        /// Kind of mismatch.
        bar: Mismatch,
        /// Failed condition, such as `host.memory.total>=32000 false on n1 (16000)`.
        said: String,
        /// No node will be suitable, even after all running jobs have ended.
        never: bool,
    },
    /// Enough is free in total, but not in the requested arrangement.
    Scattered {
        /// Number of chunks that fit now.
        fitting: u64,
        /// Number of chunks requested.
        needed: u64,
    },
    /// No node can take a chunk now, and all nodes that could ever take it refuse it for the same
    /// reason. Computed for commands, never in a cycle.
    Nowhere {
        /// Stable code of the reason.
        code: String,
        /// Text of the reason.
        said: String,
        /// Number of nodes that could ever take a chunk.
        nodes: u64,
    },
    /// Enough is free, but not on adjacent nodes (M8h).
    NotContiguous,
    /// Enough is free, but not within one node set (M47).
    NoSet {
        /// Resource that defines the sets by its values.
        by: String,
    },
    /// The job fits now, but waits for its planned start.
    Booked {
        /// Planned start.
        at: Time,
    },
    /// The job fits now, but would delay the planned start of another job, or no job may start
    /// before that job (strict order).
    WouldDelayBooking {
        /// The other job.
        holder: JobId,
        /// Planned start of that job; [`Time::NEVER`] if it has none.
        at: Time,
    },
    /// The job was not considered, because too many jobs are between the first blocked job and this
    /// job.
    BackfillDepth {
        /// Maximum number of jobs considered behind the first blocked job.
        limit: u32,
    },
    /// The job fits now, but has no walltime, and other jobs have planned starts.
    NoWalltime,
    /// The job fits now, but recently freed resources are set aside for wider jobs.
    KeptForWider {
        /// Minimum number of processors of a wider job.
        size: u32,
        /// End of the time for which the resources are set aside.
        until: Time,
    },
    /// Too few GPUs are free now. Enough would be free without processes that belong to no job.
    UsedOutside {
        /// Total number requested.
        requested: String,
        /// Number free now.
        available: String,
        /// Total number in the cluster.
        total: String,
        /// Number used by processes that belong to no job.
        outside: i64,
    },
    /// Too little of a resource is free now. Nodes are used beyond the jobs' allocations, or have
    /// reached their maximum load.
    InUse(Box<OutsideUse>),
    /// No node is usable: all are down, offline or under maintenance.
    NoNodes,
    /// Needed resources are set aside by a reservation to which the job has no access.
    Reserved {
        /// Name of the reservation's window.
        window: String,
        /// Start of the window.
        from: Time,
    },
    /// The requested reservation is not open.
    NotOpen {
        /// Name of the reservation's window.
        window: String,
    },
    /// The job would run past the end of its reservation.
    OutlastsWindow {
        /// Requested walltime, as displayed.
        requested: String,
        /// Time left in the reservation, as displayed.
        left: String,
    },
    /// Dedicated time excludes the job's queue, or the queue runs only in dedicated time.
    DedicatedTime,
    /// The job would run across the start or end of dedicated time.
    CrossesDedicated {
        /// Time of the crossed start or end.
        at: Time,
    },
    /// The queue starts jobs only in prime time, and it is not prime time now.
    PrimeOnly,
    /// The queue starts jobs only outside prime time, and it is prime time now.
    NonprimeOnly,
    /// The job would run across the start or end of prime time.
    CrossesPrime {
        /// True if the job would cross the start of prime time, false for the end.
        into_prime: bool,
        /// Time of the crossed start or end.
        at: Time,
    },
    /// The site's allocation script is choosing the nodes (M8i).
    AwaitsChoice,
    /// The start is deferred. Possible causes: the job failed, its last start failed, a hook
    /// refused a start, or files to stage in are missing.
    Deferred {
        /// Earliest time of the next start.
        until: Time,
    },
}

/// Amounts of a resource, with the use on nodes beyond the jobs' allocations.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutsideUse {
    /// Resource name.
    pub resource: String,
    /// Total amount requested.
    pub requested: String,
    /// Amount free now.
    pub available: String,
    /// Total amount in the cluster.
    pub total: String,
    /// Amount in use beyond the jobs' allocations.
    pub in_use: String,
    /// Node with the highest load, among the nodes that are used beyond the allocations or have
    /// reached their maximum load.
    pub node: String,
    /// One-minute load average of `node`, as displayed.
    pub load: String,
}

impl Reason {
    /// Tests whether the job waits for resources. Such a job can get a booking (planned start).
    pub fn is_blocked(&self) -> bool {
        match self {
            Reason::Busy { .. }
            | Reason::Scattered { .. }
            | Reason::UsedOutside { .. }
            | Reason::NoNodes => true,
            Reason::InUse(_) => true,
            Reason::NotContiguous | Reason::NoSet { .. } | Reason::Nowhere { .. } => true,
            Reason::WouldDelayBooking { .. } | Reason::Reserved { .. } => true,
            Reason::Unsuitable { .. } => !self.is_never(),
            _ => false,
        }
    }

    /// Tests whether the reason is a limit on idle jobs. This limit can apply to only some jobs of
    /// a class; the reasons of the other jobs of the class are stored by [`own_reason_key`] (M24).
    pub fn is_idle_limit(&self) -> bool {
        matches!(self, Reason::Limited(excess) if excess.stage == limit::LimitStage::Idle)
    }

    /// Returns the reason as the spool stores it. The jobs that use a limit are omitted, because
    /// they change constantly. They are determined again when a command displays the reason.
    pub fn kept(&self) -> Reason {
        match self {
            Reason::Limited(excess) => Reason::Limited(Box::new(LimitExcess {
                by: Vec::new(),
                more: 0,
                ..LimitExcess::clone(excess)
            })),
            other => other.clone(),
        }
    }

    /// Returns the stage of the cycle that refuses jobs for this reason.
    pub fn stage(&self) -> CycleStage {
        codes::stage_of(&self.code())
    }

    /// Tests whether the job can never start unless the job or the cluster changes.
    pub fn is_never(&self) -> bool {
        let is_unsuitable = matches!(self, Reason::Unsuitable { never: true, .. });
        is_unsuitable
            || matches!(
                self,
                Reason::NeverEnough { .. }
                    | Reason::NeverMatches { .. }
                    | Reason::NeverNodes { .. }
            )
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Returns at least one example of each reason.
    #[allow(clippy::too_many_lines, reason = "one value of each kind")]
    pub fn all() -> Vec<Reason> {
        let (text, at) = (|| "x".to_string(), Time(5));
        let unsuitable = |bar, never| Reason::Unsuitable {
            bar,
            said: text(),
            never,
        };
        let busy = |pooled| Reason::Busy {
            resource: "mem".to_string(),
            requested: text(),
            available: text(),
            total: text(),
            until: None,
            pooled,
        };
        let mut all = vec![
            Reason::NeverEnough {
                resource: text(),
                requested: text(),
                available: text(),
                total: text(),
            },
            Reason::NeverMatches {
                resource: text(),
                requested: text(),
                found: text(),
            },
            Reason::NeverNodes {
                requested: 2,
                total: 1,
            },
            Reason::ArrayLimit {
                limit: 2,
                expand: None,
            },
            Reason::ArrayLimit {
                limit: 2,
                expand: Some(5),
            },
            busy(false),
            busy(true),
            unsuitable(Mismatch::Requirement, true),
            Reason::Scattered {
                fitting: 1,
                needed: 2,
            },
            Reason::NoSet { by: text() },
            Reason::Nowhere {
                code: "node_state".to_string(),
                said: text(),
                nodes: 3,
            },
            Reason::Booked { at },
            Reason::WouldDelayBooking {
                holder: JobId::job(1),
                at,
            },
            Reason::BackfillDepth { limit: 2 },
            Reason::KeptForWider { size: 2, until: at },
            Reason::UsedOutside {
                requested: text(),
                available: text(),
                total: text(),
                outside: 1,
            },
            Reason::InUse(Box::new(OutsideUse {
                resource: text(),
                requested: text(),
                available: text(),
                total: text(),
                in_use: text(),
                node: text(),
                load: text(),
            })),
            Reason::Reserved {
                window: text(),
                from: at,
            },
            Reason::NotOpen { window: text() },
            Reason::OutlastsWindow {
                requested: text(),
                left: text(),
            },
            Reason::CrossesDedicated { at },
            Reason::CrossesPrime {
                into_prime: true,
                at,
            },
            Reason::Deferred { until: at },
        ];
        all.extend([Reason::QueueRoutes, Reason::NestedQueue, Reason::NoBackfill]);
        let of_user = super::super::limit::excess::tests::of_user;
        all.push(Reason::Limited(Box::new(of_user())));
        all.push(Reason::Limited(Box::new(LimitExcess {
            soft: true,
            ..of_user()
        })));
        all.push(Reason::Limited(Box::new(LimitExcess {
            stage: limit::LimitStage::Idle,
            ..of_user()
        })));
        all.extend([
            Reason::QueueStopped,
            Reason::NoWalltime,
            Reason::NoNodes,
            Reason::DedicatedTime,
        ]);
        all.extend([
            Reason::PrimeOnly,
            Reason::NonprimeOnly,
            Reason::AwaitsChoice,
            Reason::NotContiguous,
        ]);
        all.extend(
            [
                Mismatch::Requirement,
                Mismatch::Restriction,
                Mismatch::Hosts,
                Mismatch::Veto,
                Mismatch::FailedStart,
            ]
            .map(|bar| unsuitable(bar, false)),
        );
        all
    }

    #[test]
    fn the_table_of_codes_contains_every_reason_with_its_stage() {
        for reason in all() {
            let code = Code::find(&reason.code()).unwrap_or_else(|| panic!("{reason:?}"));
            assert_eq!(code.stage, reason.stage(), "{reason:?}");
        }
        assert_eq!(
            CycleStage::ALL.map(CycleStage::name),
            CycleStage::ALL.map(|stage| format!("{stage:?}").to_lowercase())
        );
    }

    /// X3: a job that can never start gets no booking and blocks no other job.
    #[test]
    fn only_jobs_waiting_for_resources_are_blocked() {
        let names = |is_blocked| {
            let reasons = all()
                .into_iter()
                .filter(move |reason| reason.is_blocked() == is_blocked);
            reasons
                .map(|reason| reason.code().into_owned())
                .collect::<Vec<_>>()
        };
        let blocked = names(true);
        for code in [
            "amount.mem",
            "licence_wait",
            "fragmented",
            "nodeset",
            "contiguity",
            "window_acl",
            "node_state",
        ] {
            assert!(blocked.contains(&code.to_string()), "{code}");
        }
        assert!(
            names(false).contains(&"unsatisfiable".to_string())
                && !blocked.contains(&"unsatisfiable".to_string())
        );
        assert!(
            !blocked.iter().any(|code| code.contains("limit")),
            "jobs at a limit get no booking"
        );
        assert!(
            !blocked.contains(&"booked_at".to_string())
                && !blocked.contains(&"queue_stopped".to_string())
        );
    }

    /// M24: only limits on idle jobs need a reason for single jobs.
    #[test]
    fn every_job_has_its_own_reason_key() {
        let ids = (1..200).flat_map(|number| {
            let elements = (0..50).map(move |index| JobId::element(number, index));
            [JobId::job(number), JobId::array(number)]
                .into_iter()
                .chain(elements)
        });
        let names: std::collections::BTreeSet<u64> = ids.map(own_reason_key).collect();
        assert_eq!(names.len(), 199 * 52);
        let is_idle_limit = all()
            .into_iter()
            .filter(Reason::is_idle_limit)
            .map(|reason| reason.code().into_owned());
        assert_eq!(is_idle_limit.collect::<Vec<_>>(), ["idle_limit"]);
    }

    #[test]
    fn stored_reasons_omit_only_the_jobs_that_use_a_limit() {
        for reason in all() {
            let is_same = reason.kept() == reason;
            assert_eq!(is_same, !matches!(reason, Reason::Limited(_)), "{reason:?}");
            assert_eq!(
                (reason.kept().to_string(), reason.kept().code()),
                (reason.to_string(), reason.code())
            );
        }
    }

    /// The spool stores reasons as JSON.
    #[test]
    fn reasons_stored_by_versions_without_pooled_resources_are_still_parsed() {
        let kept = r#"{"Busy":{"resource":"ncpus","requested":"2","available":"0","total":"4","until":null}}"#;
        let reason: Reason = serde_json::from_str(kept).unwrap();
        assert_eq!(reason.code(), "amount.ncpus");
    }
}
