//! Stable codes of all reasons why a job does not start, for scripts and for the section REASONS
//! of lanai-scheduling(7). The meaning of a code never changes.

use super::stage::CycleStage;

/// Reason code, with stage and meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Code {
    /// Code in JSON and scenarios; `amount.` stands for `amount.ncpus`, `amount.mem` and so on.
    pub name: &'static str,
    /// Stage that refuses a job for this reason.
    pub stage: CycleStage,
    /// Meaning. The manual adds an initial capital letter and a final period.
    pub means: &'static str,
}

const fn code(stage: CycleStage, name: &'static str, means: &'static str) -> Code {
    Code { name, stage, means }
}

/// Prefix of the codes for an insufficient amount of a resource.
const AMOUNT: &str = "amount.";

/// All codes, in the order of the stages.
pub const CODES: &[Code] = &[
    code(CycleStage::State, "held.user", "the owner holds the job"),
    code(
        CycleStage::State,
        "held.operator",
        "an operator holds the job",
    ),
    code(
        CycleStage::State,
        "held.system",
        "the system holds the job, for example after too many failed starts",
    ),
    code(
        CycleStage::State,
        "held.password",
        "the password of the owner is no longer valid",
    ),
    code(
        CycleStage::State,
        "dep_wait",
        "a dependency of the job is not satisfied yet",
    ),
    code(
        CycleStage::State,
        "dep_failed",
        "the job was ended, because one of its dependencies can no longer be satisfied",
    ),
    code(
        CycleStage::State,
        "begin_time",
        "the start time of the job (qsub -a) is in the future",
    ),
    code(
        CycleStage::State,
        "stage_in",
        "files to stage in are missing; the check is repeated after a pause",
    ),
    code(
        CycleStage::State,
        "deferred",
        "the job failed or could not be started; the next attempt is after a pause",
    ),
    code(
        CycleStage::Admission,
        "unsatisfiable",
        "the nodes could not run the job even if they were all empty",
    ),
    code(
        CycleStage::Admission,
        "queue_stopped",
        "the queue of the job is stopped",
    ),
    code(
        CycleStage::Admission,
        "queue_routes",
        "the job is in a routing queue, and no destination has accepted it yet",
    ),
    code(
        CycleStage::Admission,
        "nested_queue",
        "the queue of the job is for nested installations (schedd --nested --queue)",
    ),
    code(
        CycleStage::Admission,
        "not_open",
        "the reservation that the job requests has not begun or has ended",
    ),
    code(
        CycleStage::Admission,
        "outlasts_window",
        "the job would run past the end of its reservation",
    ),
    code(
        CycleStage::Admission,
        "dedicated_time",
        "the queue of the job runs jobs only in dedicated time, or only outside it",
    ),
    code(
        CycleStage::Admission,
        "crosses_dedicated",
        "the job could still be running when dedicated time begins or ends",
    ),
    code(
        CycleStage::Admission,
        "prime_only",
        "the queue of the job starts jobs only in prime time",
    ),
    code(
        CycleStage::Admission,
        "nonprime_only",
        "the queue of the job starts jobs only outside prime time",
    ),
    code(
        CycleStage::Admission,
        "crosses_prime",
        "the job could still be running when prime time begins or ends",
    ),
    code(
        CycleStage::Priority,
        "under_threshold",
        "the priority of the job is not above [order] formula_threshold",
    ),
    code(
        CycleStage::Throttle,
        "array_limit",
        "the array already runs as many subjobs as allowed; qsub --expand allows more if resources \
         are idle",
    ),
    code(
        CycleStage::Throttle,
        "idle_limit",
        "the cycle does not consider the job, because a limit on waiting jobs is reached",
    ),
    code(
        CycleStage::Throttle,
        "active_limit.soft",
        "the job would exceed a soft limit, and jobs within their soft limits start first",
    ),
    code(
        CycleStage::Throttle,
        "active_limit.hard",
        "the job would exceed a hard limit on running jobs or on their resources",
    ),
    code(
        CycleStage::Throttle,
        "licence_wait",
        "too little of a system-wide resource, such as licenses, is free",
    ),
    code(
        CycleStage::Throttle,
        "awaits_choice",
        "the program that chooses nodes has not answered yet",
    ),
    code(
        CycleStage::Match,
        "attribute",
        "nodes lack a resource value that the job requests",
    ),
    code(
        CycleStage::Match,
        "requirement",
        "nodes do not meet the requirements of the job",
    ),
    code(
        CycleStage::Match,
        "restriction",
        "the cluster restriction of the job excludes the nodes, or their restriction excludes the \
         job",
    ),
    code(
        CycleStage::Match,
        "hosts",
        "the host list of the job excludes the nodes, or a requested system-wide resource is not \
         available there",
    ),
    code(
        CycleStage::Match,
        "vetoed",
        "the veto expression of the site excludes the nodes",
    ),
    code(
        CycleStage::Match,
        "failed_start",
        "an earlier start of the job failed because of the node's host; the host is tried again \
         after a pause",
    ),
    code(
        CycleStage::Match,
        "access_policy",
        "the job cannot share the node with the jobs that run there",
    ),
    code(
        CycleStage::Match,
        "node_limit",
        "the node already runs as many jobs as allowed, in total or for the owner of the job",
    ),
    code(
        CycleStage::Match,
        "node_state",
        "nodes are down, offline or under maintenance",
    ),
    code(
        CycleStage::Match,
        AMOUNT,
        "too little of the resource RESOURCE is free",
    ),
    code(
        CycleStage::Match,
        "used_outside",
        "GPUs are in use by processes that belong to no job",
    ),
    code(
        CycleStage::Match,
        "in_use",
        "the measured use of nodes exceeds what their jobs were allocated, or their load is at the \
         maximum",
    ),
    code(
        CycleStage::Match,
        "window_acl",
        "the resources are reserved for other jobs, or do not belong to the reservation that the \
         job requests",
    ),
    code(
        CycleStage::Allocate,
        "fragmented",
        "enough resources are free in total, but not in chunks of the requested size",
    ),
    code(
        CycleStage::Allocate,
        "contiguity",
        "enough nodes are free, but they are not contiguous",
    ),
    code(
        CycleStage::Allocate,
        "nodeset",
        "enough nodes are free, but not within one node set",
    ),
    code(
        CycleStage::Allocate,
        "booked_at",
        "the job waits for its own planned start",
    ),
    code(
        CycleStage::Allocate,
        "would_delay_booking",
        "the job would delay the planned start of another job, or no job may start before a \
         blocked job",
    ),
    code(
        CycleStage::Backfill,
        "depth_cut",
        "the job is not considered for backfill, because too many jobs are between the first \
         blocked job and this job",
    ),
    code(
        CycleStage::Backfill,
        "no_backfill",
        "the quality of service of the job allows no backfill (flag NOBF)",
    ),
    code(
        CycleStage::Backfill,
        "no_walltime",
        "the job has no walltime and could delay the planned starts of other jobs",
    ),
    code(
        CycleStage::Backfill,
        "chunking",
        "freed resources are kept for a while for jobs of [backfill] chunk_size processors or more",
    ),
    code(
        CycleStage::Preempt,
        "awaiting_victims",
        "running jobs are being preempted for the job",
    ),
    code(
        CycleStage::Preempt,
        "no_victims",
        "no condition in the key triggers of [preemption] lets the job preempt a running job",
    ),
    code(
        CycleStage::Preempt,
        "protected_victims",
        "the job could preempt only jobs that their owners have exempted from preemption",
    ),
    code(
        CycleStage::Preempt,
        "futile",
        "preemption would not free enough resources, or would delay other jobs",
    ),
    code(
        CycleStage::Launch,
        "node_nack",
        "the last start of the job failed because of its node",
    ),
    code(
        CycleStage::Launch,
        "node_lost",
        "the node lost the last attempt of the job",
    ),
    code(
        CycleStage::Launch,
        "start_refused",
        "a hook of the site refused the last start of the job",
    ),
    code(
        CycleStage::Launch,
        "start_timeout",
        "the node did not report the last start of the job in time",
    ),
];

/// Returns the code for an insufficient amount of a resource.
pub(super) fn amount(resource: &str) -> String {
    format!("{AMOUNT}{resource}")
}

impl Code {
    /// Returns the entry of a code, or None for an unknown code. All codes `amount.RESOURCE` have
    /// the same entry.
    pub fn find(name: &str) -> Option<&'static Code> {
        CODES
            .iter()
            .find(|code| code.name == name || (code.name == AMOUNT && name.starts_with(AMOUNT)))
    }
}

/// Returns the stage of a reason code; [`CycleStage::Admission`] for an unknown code.
pub fn stage_of(name: &str) -> CycleStage {
    Code::find(name).map_or(CycleStage::Admission, |code| code.stage)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_unique_and_in_the_order_of_the_stages() {
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
