//! Table of reasons: each row has the code, the job's comment, a sentence for users and a remedy.
//! [`CODES`](super::CODES) has the stage and meaning of each code.

use super::codes::{self, Code};
use super::{OutsideUse, Reason};
use crate::model::job_id::JobId;
use crate::model::limit;
use crate::model::time::Time;
use std::borrow::Cow;
use std::fmt;

/// Row of the table.
struct ReasonRow<'r> {
    /// Name in [`CODES`](super::CODES), or `amount.` and the resource.
    code: Cow<'static, str>,
    /// Comment of the job in `qstat`, after `Not Running: ` or `Can Never Run: `. PBS's text if
    /// PBS has the reason.
    comment: fmt::Arguments<'r>,
    /// Sentence for users without scheduler knowledge. For a job that can never start, only the end
    /// of the sentence, without a full stop.
    sentence: fmt::Arguments<'r>,
    /// Change after which the job can start.
    remedy: &'static str,
}

fn row<'r>(
    code: impl Into<Cow<'static, str>>,
    comment: fmt::Arguments<'r>,
    sentence: fmt::Arguments<'r>,
    remedy: &'static str,
) -> ReasonRow<'r> {
    ReasonRow {
        code: code.into(),
        comment,
        sentence,
        remedy,
    }
}

/// Data that the sentences need besides the reason.
pub struct SentenceContext<'a> {
    /// Queue of the job.
    pub queue: &'a str,
    /// Time since which the job can never start.
    pub never_since: Option<Time>,
    /// Hook that refused the last start, and the hook's message.
    pub refused_start: Option<(&'a str, &'a str)>,
    /// Function that formats job ids and a number of further jobs.
    pub jobs: &'a dyn Fn(&[JobId], u64) -> String,
    /// Function that formats a time.
    pub moment: &'a dyn Fn(Time) -> String,
}

/// Context for callers that need no sentence.
const NO_CONTEXT: &SentenceContext = &SentenceContext {
    queue: "",
    never_since: None,
    refused_start: None,
    jobs: &|_, _| String::new(),
    moment: &|_| String::new(),
};

impl Reason {
    /// Returns the stable name for scripts and scenarios: one of [`CODES`](super::CODES), or
    /// `amount.` and the resource.
    pub fn code(&self) -> Cow<'static, str> {
        self.with_row(NO_CONTEXT, |row| row.code)
    }

    /// Returns the change after which the job can start.
    pub fn remedy(&self) -> &'static str {
        self.with_row(NO_CONTEXT, |row| row.remedy)
    }

    /// Returns a sentence for users without scheduler knowledge.
    pub fn sentence(&self, job: &SentenceContext) -> String {
        let sentence = self.with_row(job, |row| row.sentence.to_string());
        if !self.is_never() {
            return sentence;
        }
        let since = job.never_since.map_or(String::new(), |since| {
            format!(", since {}", (job.moment)(since))
        });
        format!("The job can never start on this system as configured{since}: {sentence}.")
    }

    /// Calls `take` with the row of this reason. Texts are formatted only if `take` uses them.
    #[expect(
        clippy::too_many_lines,
        reason = "a table with a row for each reason is read row by row"
    )]
    fn with_row<T>(&self, job: &SentenceContext, take: impl FnOnce(ReasonRow) -> T) -> T {
        use Reason as R;
        match self {
            R::NeverEnough {
                resource,
                requested,
                available,
                total,
            } => take(row(
                "unsatisfiable",
                format_args!(
                    "Insufficient amount of resource: {resource} \
                     (R: {requested} A: {available} T: {total})"
                ),
                format_args!(
                    "{resource}={requested} is requested, but at most {available} of {total} \
                     can be allocated at once"
                ),
                "the job requests less (qalter -l), or suitable nodes are added",
            )),
            R::NeverMatches {
                resource,
                requested,
                found,
            } => take(row(
                "unsatisfiable",
                format_args!(
                    "Insufficient amount of resource: {resource} ({requested} != {found})"
                ),
                format_args!(
                    "{resource}={requested} is requested, but no suitable node has this value \
                     (found: {found})"
                ),
                "the job requests another value (qalter -l), or suitable nodes are added",
            )),
            R::NeverNodes { requested, total } => take(row(
                "unsatisfiable",
                format_args!("Not enough total nodes available (R: {requested} T: {total})"),
                format_args!(
                    "{requested} chunks are requested, but only {total} would fit on the nodes if \
                     all were empty"
                ),
                "the job requests less (qalter -l), or suitable nodes are added",
            )),
            R::Unsuitable {
                bar,
                said,
                never: true,
            } => take(row(
                "unsatisfiable",
                format_args!("{}: {said}", bar.name()),
                format_args!("no node is suitable ({}: {said})", bar.name()),
                "the job has other requirements (qalter -W ...), or suitable nodes are added",
            )),
            R::Unsuitable {
                bar,
                said,
                never: false,
            } => take(row(
                bar.name(),
                format_args!("{}: {said}", bar.name()),
                format_args!(
                    "Nodes are free, but no free node is suitable ({}: {said}).",
                    bar.name()
                ),
                "the job has other requirements (qalter -W ...), or suitable nodes are added",
            )),
            R::QueueStopped => take(row(
                "queue_stopped",
                format_args!("Queue not started."),
                format_args!("Queue {} is stopped and starts no jobs.", job.queue),
                "the queue is started, or the job moves to another queue (qmove)",
            )),
            R::QueueRoutes => take(row(
                "queue_routes",
                format_args!("Queue not an execution queue."),
                format_args!(
                    "Queue {} is a routing queue, and no destination of the queue accepts the job \
                     at present.",
                    job.queue
                ),
                "a destination of the queue accepts the job (see qstat -Qf), or the job moves to \
                 another queue (qmove)",
            )),
            R::NestedQueue => take(row(
                "nested_queue",
                format_args!("Job waits for a nested installation of its owner"),
                format_args!(
                    "Jobs of queue {} run in nested installations. The job waits until a nested \
                     installation of its owner starts it.",
                    job.queue
                ),
                "the owner runs schedd --nested --queue QUEUE in another job, or the job moves to \
                 another queue (qmove)",
            )),
            R::NotOpen { window } => take(row(
                "not_open",
                format_args!("Reservation {window} is not open"),
                format_args!("The requested reservation, {window}, is not open."),
                "the reservation opens (see pbs_rstat), or the job moves to another queue \
                 (qmove)",
            )),
            R::OutlastsWindow { requested, left } => take(row(
                "outlasts_window",
                format_args!(
                    "Insufficient amount of resource: walltime (R: {requested} A: {left} T: {left})"
                ),
                format_args!(
                    "The job may run for {requested}, but the reservation ends in {left}."
                ),
                "the walltime is shorter (qalter -l walltime=...), or the job moves to another \
                 queue (qmove)",
            )),
            R::DedicatedTime => take(row(
                "dedicated_time",
                format_args!("Dedicated time conflict"),
                format_args!(
                    "The queue of the job starts jobs either only during dedicated time or only \
                     outside dedicated time."
                ),
                "dedicated time begins or ends, or the job moves to another queue (qmove)",
            )),
            R::CrossesDedicated { at } => take(row(
                "crosses_dedicated",
                format_args!("Job would cross dedicated time boundary"),
                format_args!(
                    "The job could still be running at {}, when dedicated time begins or ends.",
                    (job.moment)(*at)
                ),
                "the walltime ends before that time (qalter -l walltime=...), or that time has \
                 passed",
            )),
            R::PrimeOnly => take(row(
                "prime_only",
                format_args!("Job will run in primetime only"),
                format_args!("The queue of the job starts jobs only during prime time."),
                "the hours of the queue begin, or the job moves to another queue (qmove)",
            )),
            R::NonprimeOnly => take(row(
                "nonprime_only",
                format_args!("Job will run in nonprimetime only"),
                format_args!("The queue of the job starts jobs only outside prime time."),
                "the hours of the queue begin, or the job moves to another queue (qmove)",
            )),
            R::CrossesPrime {
                into_prime: true,
                at,
            } => take(row(
                "crosses_prime",
                format_args!("Job will cross into primetime"),
                format_args!(
                    "The job could still be running at {}, when prime time begins.",
                    (job.moment)(*at)
                ),
                "the walltime ends before that time (qalter -l walltime=...), or that time has \
                 passed",
            )),
            R::CrossesPrime {
                into_prime: false,
                at,
            } => take(row(
                "crosses_prime",
                format_args!("Job will cross into nonprimetime"),
                format_args!(
                    "The job could still be running at {}, when prime time ends.",
                    (job.moment)(*at)
                ),
                "the walltime ends before that time (qalter -l walltime=...), or that time has \
                 passed",
            )),
            R::Deferred { until } => match job.refused_start {
                Some((hook, why)) => take(row(
                    "deferred",
                    format_args!(
                        "Job failed or could not be started; the next attempt is after a pause"
                    ),
                    format_args!(
                        "Hook {hook} of the site refused the start: {why}. The next attempt is \
                         at {}.",
                        (job.moment)(*until)
                    ),
                    "the pause ends (no action is needed)",
                )),
                None => take(row(
                    "deferred",
                    format_args!(
                        "Job failed or could not be started; the next attempt is after a pause"
                    ),
                    format_args!(
                        "The job failed or could not be started. The next attempt is at {}.",
                        (job.moment)(*until)
                    ),
                    "the pause ends (no action is needed)",
                )),
            },
            R::UnderThreshold { value, threshold } => take(row(
                "under_threshold",
                format_args!(
                    "Job is under job_sort_formula threshold value ({value} <= {threshold})"
                ),
                format_args!(
                    "The priority of the job, {value}, does not exceed [order] formula_threshold, \
                     {threshold}."
                ),
                "the priority rises (see qstat -f), or [order] formula_threshold is lowered",
            )),
            R::ArrayLimit {
                limit,
                expand: None,
            } => take(row(
                "array_limit",
                format_args!("Number of concurrent running subjobs limit reached (L: {limit})"),
                format_args!(
                    "The array already runs {limit} subjob{}, the limit of the array.",
                    s(*limit)
                ),
                "a running subjob ends, or the limit is raised (qalter -W max_run_subjobs)",
            )),
            R::ArrayLimit {
                limit,
                expand: Some(u32::MAX),
            } => take(row(
                "array_limit",
                format_args!(
                    "Number of concurrent running subjobs limit reached (L: {limit}); \
                     further subjobs run only on resources that would otherwise be idle"
                ),
                format_args!(
                    "The array already runs {limit} subjob{}, the limit of the array. Further \
                     subjobs run only on resources that would otherwise be idle.",
                    s(*limit)
                ),
                "a running subjob ends, or the limit is raised (qalter -W max_run_subjobs)",
            )),
            R::ArrayLimit {
                limit,
                expand: Some(most),
            } => take(row(
                "array_limit",
                format_args!(
                    "Number of concurrent running subjobs limit reached (L: {limit}); \
                     up to {most} run if resources would otherwise be idle"
                ),
                format_args!(
                    "The array already runs {limit} subjob{}, the limit of the array. It runs up \
                     to {most} if resources would otherwise be idle.",
                    s(*limit)
                ),
                "a running subjob ends, or the limit is raised (qalter -W max_run_subjobs)",
            )),
            R::Limited(excess) => {
                let code = match excess.stage {
                    limit::LimitStage::Running if excess.soft => "active_limit.soft",
                    limit::LimitStage::Running => "active_limit.hard",
                    _ => "idle_limit",
                };
                let limit = if excess.soft { "Soft limit" } else { "Limit" };
                let by = (job.jobs)(&excess.by, excess.more);
                take(row(
                    code,
                    format_args!("{excess}"),
                    format_args!(
                        "{limit} for {}, {} {}: {} of {} in use{}{by}. This job adds {}.",
                        excess.scope_text(),
                        excess.stage.name(),
                        excess.quantity.name(),
                        excess.used,
                        excess.most,
                        if by.is_empty() { "" } else { ", by " },
                        excess.asked
                    ),
                    "jobs that count against the limit end, or the limit is raised (see qstat \
                     --limits)",
                ))
            }
            R::Busy {
                resource,
                requested,
                available,
                total,
                pooled: true,
                ..
            } => take(row(
                "licence_wait",
                format_args!(
                    "Insufficient amount of resource: {resource} \
                     (R: {requested} A: {available} T: {total})"
                ),
                format_args!(
                    "Not enough {resource} free on the whole system: {requested} requested, \
                     {available} of {total} free."
                ),
                "jobs that use the resource end, or the job requests less",
            )),
            R::AwaitsChoice => take(row(
                "awaits_choice",
                format_args!("Waiting for the program that chooses nodes"),
                format_args!("The program that chooses nodes for jobs has not answered yet."),
                "the program answers or its timeout passes (no action is needed)",
            )),
            R::NoNodes => take(row(
                "node_state",
                format_args!("No nodes available: none answers, or all are offline"),
                format_args!("No node is available: all are down, offline or under maintenance."),
                "a node becomes available (see pbsnodes -l)",
            )),
            R::Busy {
                resource,
                requested,
                available,
                total,
                pooled: false,
                ..
            } => take(row(
                codes::amount(resource),
                format_args!(
                    "Insufficient amount of resource: {resource} \
                     (R: {requested} A: {available} T: {total})"
                ),
                format_args!(
                    "Not enough {resource} free: {requested} requested, {available} of {total} \
                     free."
                ),
                "running jobs end, or the job requests less",
            )),
            R::UsedOutside {
                requested,
                available,
                total,
                outside,
            } => take(row(
                "used_outside",
                format_args!(
                    "Insufficient amount of resource: ngpus (R: {requested} A: {available} \
                     T: {total}, {outside} in use by processes that belong to no job)"
                ),
                format_args!(
                    "Not enough ngpus free: {requested} requested, {available} of {total} free; \
                     processes that belong to no job use {outside}."
                ),
                "processes that belong to no job end, or running jobs end",
            )),
            R::InUse(outside) => {
                let OutsideUse {
                    resource,
                    requested,
                    available,
                    total,
                    in_use,
                    node,
                    load,
                } = &**outside;
                let [comma, semicolon, in_use, beyond] = if is_none(in_use) {
                    [""; 4]
                } else {
                    [
                        ", ",
                        "; ",
                        in_use,
                        " in use beyond what is allocated to jobs",
                    ]
                };
                take(row(
                    "in_use",
                    format_args!(
                        "Insufficient amount of resource: {resource} \
                         (R: {requested} A: {available} T: {total}{comma}{in_use}{beyond}; \
                         load average {load} on {node})"
                    ),
                    format_args!(
                        "Not enough {resource} free: {requested} requested, {available} of {total} \
                         free{semicolon}{in_use}{beyond}. The load average of {node} is {load}."
                    ),
                    "the usage of the node drops (see the load in pbsnodes -a), or the job \
                     requests less",
                ))
            }
            R::Reserved { window, from } => take(row(
                "window_acl",
                format_args!("Job would conflict with reservation or top job ({window})"),
                format_args!(
                    "Reservation {window} excludes the job from {} on.",
                    (job.moment)(*from)
                ),
                "the walltime ends before the reservation starts (see pbs_rstat), or the \
                 reservation ends",
            )),
            R::Nowhere { code, said, nodes } => take(row(
                Code::find(code).map_or("fragmented", |code| code.name),
                format_args!("Not enough free nodes available (suitable nodes: {nodes}): {said}"),
                format_args!("None of the suitable nodes ({nodes}) is available: {said}."),
                "a suitable node becomes available (see pbsnodes -l and pbsnodes -a)",
            )),
            R::Scattered { fitting, needed } => take(row(
                "fragmented",
                format_args!("Not enough free nodes available (R: {needed} A: {fitting})"),
                format_args!(
                    "Enough resources are free in total, but not in the requested chunks: \
                     {fitting} of {needed} chunks fit."
                ),
                "running jobs end, or the job requests chunks that fit the free resources (see \
                 qstat --holes)",
            )),
            R::NotContiguous => take(row(
                "contiguity",
                format_args!("Not enough contiguous free nodes available"),
                format_args!("Enough nodes are free, but they are not contiguous."),
                "jobs on other suitable nodes end (see qstat --why)",
            )),
            R::NoSet { by } => take(row(
                "nodeset",
                format_args!("Not enough free nodes available with the same {by}"),
                format_args!("Enough nodes are free, but they do not have the same {by}."),
                "jobs on other suitable nodes end (see qstat --why)",
            )),
            R::Booked { at } => take(row(
                "booked_at",
                format_args!("Job waits for its planned start"),
                format_args!("The start of the job is planned for {}.", (job.moment)(*at)),
                "the planned time is reached (no action is needed)",
            )),
            R::WouldDelayBooking {
                holder,
                at: Time::NEVER,
            } => take(row(
                "would_delay_booking",
                format_args!("No job starts before job {holder}, which waits for resources"),
                format_args!(
                    "Resources are free, but no job starts before job {}, which is waiting.",
                    (job.jobs)(&[*holder], 0)
                ),
                "that job starts",
            )),
            R::WouldDelayBooking { holder, at } => take(row(
                "would_delay_booking",
                format_args!("Job would conflict with the planned start of job {holder}"),
                format_args!(
                    "Resources are free, but not for the whole walltime: job {} is planned to \
                     use them from {}.",
                    (job.jobs)(&[*holder], 0),
                    (job.moment)(*at)
                ),
                "the walltime ends before the start of that job, or that job starts",
            )),
            R::BackfillDepth { limit } => take(row(
                "depth_cut",
                format_args!("Not among the first {limit} jobs considered after a blocked job"),
                format_args!(
                    "The scheduler considers only {limit} jobs after the first job that waits \
                     for resources."
                ),
                "jobs ahead of the job start",
            )),
            R::NoBackfill => take(row(
                "no_backfill",
                format_args!("Quality of service does not allow the job to pass a blocked job"),
                format_args!(
                    "Resources are free, but the quality of service of the job does not allow \
                     backfill: the job does not pass a job that waits for resources."
                ),
                "jobs ahead of the job start, or the job has another quality of service (qalter \
                 -W qos=...)",
            )),
            R::NoWalltime => take(row(
                "no_walltime",
                format_args!("Job has no walltime and could delay jobs with planned starts"),
                format_args!(
                    "Resources are free, but the job has no walltime and could delay jobs with \
                     planned starts."
                ),
                "the job gets a walltime (qalter -l walltime=...)",
            )),
            R::KeptForWider { size, until } => take(row(
                "chunking",
                format_args!(
                    "Free resources are kept for jobs of {size} processors or more for a while"
                ),
                format_args!(
                    "Resources are free, but until {} they are kept for jobs of {size} \
                     processors or more.",
                    (job.moment)(*until)
                ),
                "that time passes, or the job requests more processors",
            )),
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(if self.is_never() {
            "Can Never Run: "
        } else {
            "Not Running: "
        })?;
        self.with_row(NO_CONTEXT, |row| f.write_fmt(row.comment))
    }
}

/// Returns the ending of the plural: empty for 1.
fn s(count: u32) -> &'static str {
    if count == 1 { "" } else { "s" }
}

/// Tests whether a displayed amount is 0, with or without a unit, as in `0kb`.
fn is_none(amount: &str) -> bool {
    amount.trim_end_matches(|c: char| c.is_ascii_alphabetic()) == "0"
}
