//! Why a job does not start: a type with its numbers, produced by the stage that refused.

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

/// In what a node and a job do not suit each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Mismatch {
    /// What the job requires is not true (Q3).
    Requirement,
    /// One of them keeps away from the other's cluster (Q19).
    Restriction,
    /// The job names other hosts (Q24).
    Hosts,
    /// The site forbids it (Q26).
    Veto,
    /// A start of the job failed there by the node's fault (M10).
    FailedStart,
}

impl Mismatch {
    /// As a reason names it, and its stable code.
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

/// Under which number the reason is kept that is for one job alone: others are kept by class.
pub fn own_name(job: JobId) -> u64 {
    let part = job
        .index()
        .map_or(u64::from(job.is_array()), |index| u64::from(index) + 2);
    // Spread out (splitmix64), so that it is no other's name.
    let mixed = (job.number ^ part.rotate_left(32)).wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// Why a job does not start now, or never will. Its text is the `comment` of `qstat`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reason {
    /// Not on this cluster, even when empty: too little of a resource everywhere.
    NeverEnough {
        /// Which.
        resource: String,
        /// Asked for by one chunk (or by all, with `place=pack` and for the total), as shown.
        requested: String,
        /// The most that can be had at once.
        available: String,
        /// What there is in all.
        total: String,
    },
    /// Not on this cluster: no node has this value of a resource.
    NeverMatches {
        /// Which.
        resource: String,
        /// Asked for, as shown.
        requested: String,
        /// What a node has instead, as shown; `unset` for none.
        found: String,
    },
    /// Not on this cluster: more chunks on nodes of their own than there are such nodes.
    NeverNodes {
        /// Nodes asked for.
        requested: u64,
        /// Nodes there are.
        total: u64,
    },
    /// The queue is stopped.
    QueueStopped,
    /// The queue passes jobs on to others, which have not taken it yet.
    QueueRoutes,
    /// Jobs of the queue wait for nested instances of their owners.
    NestedQueue,
    /// Its quality of service lets it pass no job that is blocked (M27).
    NoBackfill,
    /// It is worth too little.
    UnderThreshold {
        /// What it is worth, as shown.
        value: String,
        /// What it must be worth more than, as shown.
        threshold: String,
    },
    /// As many elements of its array run as it allows at once.
    ArrayLimit {
        /// So many.
        limit: u32,
        /// So many where there is room that nobody else wants, if it takes that (Q15): `u32::MAX`
        /// for any number.
        #[serde(default)]
        expand: Option<u32>,
    },
    /// A limit on what runs, or waits, on somebody's behalf would be exceeded (M5).
    Limited(Box<LimitExcess>),
    /// Too little is free now.
    Busy {
        /// Of which resource.
        resource: String,
        /// Asked for in all.
        requested: String,
        /// Free now.
        available: String,
        /// What there is in all.
        total: String,
        /// When enough is expected to be free, by the walltimes of the running jobs.
        until: Option<Time>,
        /// Whether it is the whole system's, as licenses are, and no node's.
        #[serde(default)]
        pooled: bool,
    },
    /// Nodes have enough, but they do not suit the job, or it does not suit them.
    Unsuitable {
        /// In what.
        bar: Mismatch,
        /// Why not, as `host.memory.total>=32000 false on n1 (16000)`.
        said: String,
        /// No node suits, whatever ends.
        never: bool,
    },
    /// Enough is free in all, but not together as asked.
    Scattered {
        /// Nodes that could take a chunk now.
        fitting: u64,
        /// Nodes needed.
        needed: u64,
    },
    /// No node that could take a chunk takes it now, all for the same reason. Found out where
    /// somebody asks, not by a cycle.
    Nowhere {
        /// The reason, by its stable name.
        code: String,
        /// In words.
        said: String,
        /// How many such nodes there are.
        nodes: u64,
    },
    /// Enough is free, but not on neighbouring nodes (M8h).
    NotContiguous,
    /// Enough is free, but not on nodes that have this in common (M47).
    NoSet {
        /// The resource they must have the same value of.
        by: String,
    },
    /// It fits now, but waits for the start it is promised itself.
    Booked {
        /// When that is.
        at: Time,
    },
    /// It fits now, but would take what is promised to another.
    WouldDelayBooking {
        /// The job that holds the promise.
        holder: JobId,
        /// When that is to start.
        at: Time,
    },
    /// It was not looked at: too many waiting jobs are ahead of it.
    BackfillDepth {
        /// How many are looked at behind the first that is blocked.
        limit: u32,
    },
    /// It fits now, but may run for ever, and others are promised a start.
    NoWalltime,
    /// It fits now, but what became free is kept for wider jobs for a while.
    KeptForWider {
        /// For jobs of so many processors.
        size: u32,
        /// Until then.
        until: Time,
    },
    /// Too few GPUs are free now, and those that processes outside the queue use would do.
    UsedOutside {
        /// Asked for in all.
        requested: String,
        /// Free now.
        available: String,
        /// What there is in all.
        total: String,
        /// Used from outside.
        outside: i64,
    },
    /// Too little is free now, and what is in use on nodes beyond what their jobs were given would
    /// do.
    InUse(Box<OutsideUse>),
    /// No node answers, or all are offline.
    NoNodes,
    /// Resources it would need are set aside by a reservation that is not for it.
    Reserved {
        /// Which reservation, as its window is called.
        window: String,
        /// From when on.
        from: Time,
    },
    /// It asks for a reservation that is not open.
    NotOpen {
        /// Which.
        window: String,
    },
    /// It would last longer than the reservation it is in.
    OutlastsWindow {
        /// Asked for, as shown.
        requested: String,
        /// What is left of the reservation, as shown.
        left: String,
    },
    /// Dedicated time is not for its queue, or its queue for nothing else.
    DedicatedTime,
    /// It would still run when dedicated time begins, or ends.
    CrossesDedicated {
        /// When that is.
        at: Time,
    },
    /// Its queue is for prime time, which it is not.
    PrimeOnly,
    /// Its queue is not for prime time, which it is.
    NonprimeOnly,
    /// It would run on into prime time, or out of it.
    CrossesPrime {
        /// Into prime time.
        into_prime: bool,
        /// When that begins or ends.
        at: Time,
    },
    /// The site's program has been asked for its nodes (M8i).
    AwaitsChoice,
    /// It failed, or its start did; tried again later.
    Deferred {
        /// Not before.
        until: Time,
    },
}

/// Amounts that are in use on nodes beyond what jobs were given, with the load there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutsideUse {
    /// The resource.
    pub resource: String,
    /// Requested in all.
    pub requested: String,
    /// Free now.
    pub available: String,
    /// What the cluster has.
    pub total: String,
    /// In use beyond what jobs were given.
    pub in_use: String,
    /// The node with the highest load of those.
    pub node: String,
    /// The load average of that node over a minute, as shown.
    pub load: String,
}

impl Reason {
    /// Whether the job waits for room: such a job is promised some.
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

    /// Whether it is that too many others are considered: of jobs of one class it may hold for some
    /// only, and what holds for the others is kept by [`own_name`] (M24).
    pub fn is_of_list(&self) -> bool {
        matches!(self, Reason::Limited(excess) if excess.stage == limit::LimitStage::Idle)
    }

    /// As it is kept: without who uses a limit, which changes all the time and is found out on
    /// demand.
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

    /// The stage that refuses for this reason.
    pub fn stage(&self) -> CycleStage {
        codes::stage_of(&self.code())
    }

    /// Whether waiting cannot help: only a change of the job or of the cluster can.
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

    /// One of each kind.
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
    fn every_reason_has_a_name_of_the_table_and_that_ones_stage() {
        for reason in all() {
            let code = Code::find(&reason.code()).unwrap_or_else(|| panic!("{reason:?}"));
            assert_eq!(code.stage, reason.stage(), "{reason:?}");
        }
        assert_eq!(
            CycleStage::ALL.map(CycleStage::name),
            CycleStage::ALL.map(|stage| format!("{stage:?}").to_lowercase())
        );
    }

    /// X3: who can never start is promised nothing, and shuts nobody out.
    #[test]
    fn who_waits_for_room_is_blocked_and_who_can_never_start_is_not() {
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
            "who has had enough is promised nothing"
        );
        assert!(
            !blocked.contains(&"booked_at".to_string())
                && !blocked.contains(&"queue_stopped".to_string())
        );
    }

    /// M24.
    #[test]
    fn every_job_has_a_name_of_its_own_for_reasons() {
        let ids = (1..200).flat_map(|number| {
            let elements = (0..50).map(move |index| JobId::element(number, index));
            [JobId::job(number), JobId::array(number)]
                .into_iter()
                .chain(elements)
        });
        let names: std::collections::BTreeSet<u64> = ids.map(own_name).collect();
        assert_eq!(names.len(), 199 * 52);
        let is_of_list = all()
            .into_iter()
            .filter(Reason::is_of_list)
            .map(|reason| reason.code().into_owned());
        assert_eq!(is_of_list.collect::<Vec<_>>(), ["idle_limit"]);
    }

    #[test]
    fn who_uses_a_limit_is_not_kept_and_all_else_is() {
        for reason in all() {
            let is_same = reason.kept() == reason;
            assert_eq!(is_same, !matches!(reason, Reason::Limited(_)), "{reason:?}");
            assert_eq!(
                (reason.kept().to_string(), reason.kept().code()),
                (reason.to_string(), reason.code())
            );
        }
    }

    /// Reasons are kept in the spool as JSON.
    #[test]
    fn a_reason_of_before_the_whole_systems_amounts_can_still_be_read() {
        let kept = r#"{"Busy":{"resource":"ncpus","requested":"2","available":"0","total":"4","until":null}}"#;
        let reason: Reason = serde_json::from_str(kept).unwrap();
        assert_eq!(reason.code(), "amount.ncpus");
    }
}
