//! All stable names of why a job does not start: what scripts may rely on, and what the manual
//! lists (`man lanai-scheduling`, REASONS). A name is never given another meaning.

use super::stage::CycleStage;

/// A reason's stable name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Code {
    /// What scripts see; `amount.` stands for `amount.ncpus` and its like.
    pub name: &'static str,
    /// The stage that refuses so.
    pub stage: CycleStage,
    /// What it means, for people.
    pub means: &'static str,
}

const fn code(stage: CycleStage, name: &'static str, means: &'static str) -> Code {
    Code { name, stage, means }
}

/// What the names of reasons begin with that are about an amount.
const AMOUNT: &str = "amount.";

/// All there are, in the order of the stages.
pub const CODES: &[Code] = &[
    code(CycleStage::State, "held.user", "its owner holds it"),
    code(CycleStage::State, "held.operator", "an operator holds it"),
    code(
        CycleStage::State,
        "held.system",
        "the system holds it, as after too many failed starts",
    ),
    code(
        CycleStage::State,
        "held.password",
        "its owner's password no longer fits",
    ),
    code(
        CycleStage::State,
        "dep_wait",
        "a job it depends on has not come as far as it must",
    ),
    code(
        CycleStage::State,
        "dep_failed",
        "what it depends on can never come about any more: it has ended",
    ),
    code(CycleStage::State, "begin_time", "its begin time lies ahead"),
    code(
        CycleStage::State,
        "stage_in",
        "files to stage in are missing; they are looked for again after a pause",
    ),
    code(
        CycleStage::State,
        "deferred",
        "it failed, or its start did: it is tried again after a pause",
    ),
    code(
        CycleStage::Admission,
        "unsatisfiable",
        "no node, or not all together, could take it though nobody were there",
    ),
    code(
        CycleStage::Admission,
        "queue_stopped",
        "its queue starts no jobs",
    ),
    code(
        CycleStage::Admission,
        "queue_routes",
        "its queue passes jobs on, and no destination has taken it yet",
    ),
    code(
        CycleStage::Admission,
        "nested_queue",
        "its queue is for nested instances (schedd --nested --queue)",
    ),
    code(
        CycleStage::Admission,
        "not_open",
        "the reservation it asks for is not open",
    ),
    code(
        CycleStage::Admission,
        "outlasts_window",
        "it would run longer than the reservation it is in",
    ),
    code(
        CycleStage::Admission,
        "dedicated_time",
        "dedicated time is not for its queue, or its queue for nothing else",
    ),
    code(
        CycleStage::Admission,
        "crosses_dedicated",
        "it would still run when dedicated time begins or ends",
    ),
    code(
        CycleStage::Admission,
        "prime_only",
        "its queue is for prime time, which it is not",
    ),
    code(
        CycleStage::Admission,
        "nonprime_only",
        "its queue is not for prime time, which it is",
    ),
    code(
        CycleStage::Admission,
        "crosses_prime",
        "it would run on into prime time, or out of it",
    ),
    code(
        CycleStage::Priority,
        "under_threshold",
        "it is worth no more than the site's least, see formula_threshold",
    ),
    code(
        CycleStage::Throttle,
        "array_limit",
        "as many subjobs of its array run as it allows at once",
    ),
    code(
        CycleStage::Throttle,
        "idle_limit",
        "as many jobs of somebody are considered at once as a limit allows",
    ),
    code(
        CycleStage::Throttle,
        "active_limit.soft",
        "others are still within the soft limit that it would exceed",
    ),
    code(
        CycleStage::Throttle,
        "active_limit.hard",
        "somebody has running what a limit allows",
    ),
    code(
        CycleStage::Throttle,
        "licence_wait",
        "too little is free of what the whole system shares, as licenses",
    ),
    code(
        CycleStage::Throttle,
        "awaits_choice",
        "the site's program is choosing its nodes",
    ),
    code(
        CycleStage::Match,
        "attribute",
        "a node lacks a value that is asked for",
    ),
    code(
        CycleStage::Match,
        "requirement",
        "what the job requires of a node is not true there",
    ),
    code(
        CycleStage::Match,
        "restriction",
        "job and node keep away from each other's cluster",
    ),
    code(CycleStage::Match, "hosts", "the job names other hosts"),
    code(CycleStage::Match, "vetoed", "the site forbids it"),
    code(
        CycleStage::Match,
        "failed_start",
        "the job's last start failed on this host; it is tried there again later",
    ),
    code(
        CycleStage::Match,
        "access_policy",
        "who is there already does not share, or the job does not",
    ),
    code(
        CycleStage::Match,
        "node_limit",
        "as many jobs are there as the node takes, of all or of this user",
    ),
    code(
        CycleStage::Match,
        "node_state",
        "nodes are down, offline, or do not answer",
    ),
    code(
        CycleStage::Match,
        AMOUNT,
        "too little is free of this resource",
    ),
    code(
        CycleStage::Match,
        "used_outside",
        "GPUs are in use by processes outside the queue",
    ),
    code(
        CycleStage::Match,
        "in_use",
        "nodes are in use beyond what their jobs were given, as their load tells",
    ),
    code(
        CycleStage::Match,
        "window_acl",
        "a reservation that is not for the job has set it aside",
    ),
    code(
        CycleStage::Allocate,
        "fragmented",
        "enough is free in all, but not in pieces of the size asked for",
    ),
    code(
        CycleStage::Allocate,
        "contiguity",
        "enough is free, but not side by side",
    ),
    code(
        CycleStage::Allocate,
        "nodeset",
        "enough is free, but not on nodes that have in common what they must",
    ),
    code(
        CycleStage::Allocate,
        "booked_at",
        "it waits for the start that it is promised itself",
    ),
    code(
        CycleStage::Allocate,
        "would_delay_booking",
        "it would take what another job is promised",
    ),
    code(
        CycleStage::Backfill,
        "depth_cut",
        "it is too far behind a blocked job to be looked at",
    ),
    code(
        CycleStage::Backfill,
        "no_backfill",
        "its quality of service passes no job that is blocked",
    ),
    code(
        CycleStage::Backfill,
        "no_walltime",
        "it may run for ever, and others are promised a start",
    ),
    code(
        CycleStage::Backfill,
        "chunking",
        "what became free is kept for wider jobs for a while",
    ),
    code(
        CycleStage::Preempt,
        "awaiting_victims",
        "running jobs make way for it, and have not done so yet",
    ),
    code(
        CycleStage::Preempt,
        "no_victims",
        "it goes before no running job in what counts for making way",
    ),
    code(
        CycleStage::Preempt,
        "protected_victims",
        "those that could make way are left alone, as their owners want",
    ),
    code(
        CycleStage::Preempt,
        "futile",
        "those that could make way would not make enough room, or delay others",
    ),
    code(
        CycleStage::Launch,
        "node_nack",
        "its node refused its last start",
    ),
    code(
        CycleStage::Launch,
        "node_lost",
        "its node lost its last start",
    ),
    code(
        CycleStage::Launch,
        "start_refused",
        "a hook of the site refused its last start",
    ),
    code(
        CycleStage::Launch,
        "start_timeout",
        "its node said nothing of its last start for too long",
    ),
];

/// The name for too little of a resource.
pub(super) fn amount(resource: &str) -> String {
    format!("{AMOUNT}{resource}")
}

impl Code {
    /// What a name stands for: [`Code::find`] of `amount.mem` is that of all amounts.
    pub fn find(name: &str) -> Option<&'static Code> {
        CODES
            .iter()
            .find(|code| code.name == name || (code.name == AMOUNT && name.starts_with(AMOUNT)))
    }
}

/// The stage that refuses for a reason of this name.
pub fn stage_of(name: &str) -> CycleStage {
    Code::find(name).map_or(CycleStage::Admission, |code| code.stage)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_stands_once_and_in_the_order_of_the_stages() {
        assert!(CODES.is_sorted_by_key(|code| code.stage));
        for (place, code) in CODES.iter().enumerate() {
            assert!(
                !CODES[..place].iter().any(|other| other.name == code.name),
                "{}",
                code.name
            );
        }
        assert_eq!(
            Code::find("amount.ncpus").map(|code| code.stage),
            Some(CycleStage::Match)
        );
        assert_eq!(Code::find("busy"), None);
    }
}
