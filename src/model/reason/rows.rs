//! The table of reasons: a row for each with its code, the comment of the job, a sentence for
//! people and a remedy. The stage of a code and its meaning are in [`CODES`](super::CODES).

use super::codes::{self, Code};
use super::{OutsideUse, Reason};
use crate::model::job_id::JobId;
use crate::model::limit;
use crate::model::time::Time;
use std::borrow::Cow;
use std::fmt;

/// A row of the table.
struct ReasonRow<'r> {
    /// A name of [`CODES`](super::CODES), or `amount.` and the resource.
    code: Cow<'static, str>,
    /// The job's comment in `qstat`, behind `Not Running: ` or `Can Never Run: `; in PBS's words,
    /// where PBS has the reason.
    comment: fmt::Arguments<'r>,
    /// A sentence for people who have never read a scheduler's manual. If the job can never start,
    /// a clause.
    sentence: fmt::Arguments<'r>,
    /// What would let the job start.
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

/// What sentences mention besides the reason.
pub struct SentenceContext<'a> {
    /// The queue of the job.
    pub queue: &'a str,
    /// When it was found that the job can never start.
    pub never_since: Option<Time>,
    /// The hook that refused the last start of the job, and its message.
    pub refused_start: Option<(&'a str, &'a str)>,
    /// Shows the ids of jobs, and the number of further jobs.
    pub jobs: &'a dyn Fn(&[JobId], u64) -> String,
    /// Shows a time.
    pub moment: &'a dyn Fn(Time) -> String,
}

/// For callers that need no sentence.
const NO_CONTEXT: &SentenceContext = &SentenceContext {
    queue: "",
    never_since: None,
    refused_start: None,
    jobs: &|_, _| String::new(),
    moment: &|_| String::new(),
};

impl Reason {
    /// The stable name for scripts and scenarios: one of [`CODES`](super::CODES), or `amount.` and
    /// the resource.
    pub fn code(&self) -> Cow<'static, str> {
        self.with_row(NO_CONTEXT, |row| row.code)
    }

    /// What would let the job start.
    pub fn remedy(&self) -> &'static str {
        self.with_row(NO_CONTEXT, |row| row.remedy)
    }

    /// A sentence for people who have never read a scheduler's manual.
    pub fn sentence(&self, job: &SentenceContext) -> String {
        let sentence = self.with_row(job, |row| row.sentence.to_string());
        if !self.is_never() {
            return sentence;
        }
        let since = job.never_since.map_or(String::new(), |since| {
            format!(", since {}", (job.moment)(since))
        });
        format!("It can never start on this system as it is{since}: {sentence}.")
    }

    /// Takes the row of this reason. Its texts are formatted only if they are used.
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
                    "it asks for {resource}={requested} at once, \
                     and at most {available} can be had (of {total} in all)"
                ),
                "only to ask for less (qalter -l), or more or other nodes",
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
                    "it asks for {resource}={requested}, which no such node has ({found})"
                ),
                "only to ask for less (qalter -l), or more or other nodes",
            )),
            R::NeverNodes { requested, total } => take(row(
                "unsatisfiable",
                format_args!("Not enough total nodes available (R: {requested} T: {total})"),
                format_args!(
                    "it asks for {requested} places, and no more than {total} nodes have one"
                ),
                "only to ask for less (qalter -l), or more or other nodes",
            )),
            R::Unsuitable {
                bar,
                said,
                never: true,
            } => take(row(
                "unsatisfiable",
                format_args!("{}: {said}", bar.name()),
                format_args!("no node suits it ({}: {said})", bar.name()),
                "other wishes (qalter -W ...), or nodes that suit the job",
            )),
            R::Unsuitable {
                bar,
                said,
                never: false,
            } => take(row(
                bar.name(),
                format_args!("{}: {said}", bar.name()),
                format_args!(
                    "There are free nodes, but they do not suit the job ({}: {said}).",
                    bar.name()
                ),
                "other wishes (qalter -W ...), or nodes that suit the job",
            )),
            R::QueueStopped => take(row(
                "queue_stopped",
                format_args!("Queue not started."),
                format_args!("Its queue, {}, starts no jobs at present.", job.queue),
                "its queue being started, or another queue (qmove)",
            )),
            R::QueueRoutes => take(row(
                "queue_routes",
                format_args!("Queue not an execution queue."),
                format_args!(
                    "Its queue, {}, passes jobs on, \
                     and none of its destinations takes this one now.",
                    job.queue
                ),
                "a destination of its queue taking it (qstat -Qf), or another queue (qmove)",
            )),
            R::NestedQueue => take(row(
                "nested_queue",
                format_args!("Job waits for a nested instance of its owner to take it"),
                format_args!(
                    "Jobs of its queue, {}, run in nested instances: \
                     it waits for one of its owner to take it.",
                    job.queue
                ),
                "schedd --nested --queue QUEUE in a job of its owner, or another queue (qmove)",
            )),
            R::NotOpen { window } => take(row(
                "not_open",
                format_args!("Reservation {window} is not open"),
                format_args!("The reservation it asks for, {window}, is not open."),
                "its reservation being opened (pbs_rstat tells when), or another queue (qmove)",
            )),
            R::OutlastsWindow { requested, left } => take(row(
                "outlasts_window",
                format_args!(
                    "Insufficient amount of resource: walltime (R: {requested} A: {left} T: {left})"
                ),
                format_args!("It may run for {requested}, and its reservation ends in {left}."),
                "a shorter walltime (qalter -l walltime=...), or another queue (qmove)",
            )),
            R::DedicatedTime => take(row(
                "dedicated_time",
                format_args!("Dedicated time conflict"),
                format_args!("Its queue starts no jobs in dedicated time, or in no other."),
                "another queue (qmove), or the end or begin of dedicated time",
            )),
            R::CrossesDedicated { at } => take(row(
                "crosses_dedicated",
                format_args!("Job would cross dedicated time boundary"),
                format_args!(
                    "It might still run at {}, when dedicated time begins or ends.",
                    (job.moment)(*at)
                ),
                "a walltime short enough to be over before then (qalter -l walltime=...), \
                 or that moment",
            )),
            R::PrimeOnly => take(row(
                "prime_only",
                format_args!("Job will run in primetime only"),
                format_args!("Its queue starts jobs in prime time only."),
                "the time of its queue, or another queue (qmove)",
            )),
            R::NonprimeOnly => take(row(
                "nonprime_only",
                format_args!("Job will run in nonprimetime only"),
                format_args!("Its queue starts jobs outside prime time only."),
                "the time of its queue, or another queue (qmove)",
            )),
            R::CrossesPrime {
                into_prime: true,
                at,
            } => take(row(
                "crosses_prime",
                format_args!("Job will cross into primetime"),
                format_args!(
                    "It might still run at {}, when prime time begins.",
                    (job.moment)(*at)
                ),
                "a walltime short enough to be over before then (qalter -l walltime=...), \
                 or that moment",
            )),
            R::CrossesPrime {
                into_prime: false,
                at,
            } => take(row(
                "crosses_prime",
                format_args!("Job will cross into nonprimetime"),
                format_args!(
                    "It might still run at {}, when prime time ends.",
                    (job.moment)(*at)
                ),
                "a walltime short enough to be over before then (qalter -l walltime=...), \
                 or that moment",
            )),
            R::Deferred { until } => match job.refused_start {
                Some((hook, why)) => take(row(
                    "deferred",
                    format_args!(
                        "Job failed or could not be started; it is tried again after a pause"
                    ),
                    format_args!(
                        "The site's hook {hook} refused its start: {why}. It is asked again at {}.",
                        (job.moment)(*until)
                    ),
                    "time: it is tried again by itself",
                )),
                None => take(row(
                    "deferred",
                    format_args!(
                        "Job failed or could not be started; it is tried again after a pause"
                    ),
                    format_args!(
                        "It failed, or could not be started; it is tried again at {}.",
                        (job.moment)(*until)
                    ),
                    "time: it is tried again by itself",
                )),
            },
            R::UnderThreshold { value, threshold } => take(row(
                "under_threshold",
                format_args!(
                    "Job is under job_sort_formula threshold value ({value} <= {threshold})"
                ),
                format_args!(
                    "Not Running: Job is under job_sort_formula \
                     threshold value ({value} <= {threshold})."
                ),
                "a higher priority (qstat -f tells what it has), \
                 or a lower [order] formula_threshold",
            )),
            R::ArrayLimit {
                limit,
                expand: None,
            } => take(row(
                "array_limit",
                format_args!("Number of concurrent running subjobs limit reached (L: {limit})"),
                format_args!(
                    "Its array lets {limit} subjob{} run at once, and so many do.",
                    s(*limit)
                ),
                "the end of a running element, or a higher limit (qalter -W max_run_subjobs)",
            )),
            R::ArrayLimit {
                limit,
                expand: Some(u32::MAX),
            } => take(row(
                "array_limit",
                format_args!(
                    "Number of concurrent running subjobs limit reached (L: {limit}), \
                     more where there is room that nobody else wants"
                ),
                format_args!(
                    "Its array lets {limit} subjob{} run at once in its turn, and so many do; \
                     more when there is room that nobody else wants.",
                    s(*limit)
                ),
                "the end of a running element, or a higher limit (qalter -W max_run_subjobs)",
            )),
            R::ArrayLimit {
                limit,
                expand: Some(most),
            } => take(row(
                "array_limit",
                format_args!(
                    "Number of concurrent running subjobs limit reached (L: {limit}), \
                     up to {most} where there is room that nobody else wants"
                ),
                format_args!(
                    "Its array lets {limit} subjob{} run at once in its turn, and so many do; \
                     up to {most} when there is room that nobody else wants.",
                    s(*limit)
                ),
                "the end of a running element, or a higher limit (qalter -W max_run_subjobs)",
            )),
            R::Limited(excess) => {
                let code = match excess.stage {
                    limit::LimitStage::Running if excess.soft => "active_limit.soft",
                    limit::LimitStage::Running => "active_limit.hard",
                    _ => "idle_limit",
                };
                let soft = if excess.soft { "soft " } else { "" };
                let by = (job.jobs)(&excess.by, excess.more);
                take(row(
                    code,
                    format_args!("{excess}"),
                    format_args!(
                        "A {soft}limit lets {} have {} {} {}: {} in use{}{by}, \
                         and it would add {}.",
                        excess.scope_text(),
                        excess.most,
                        excess.stage.name(),
                        excess.quantity.name(),
                        excess.used,
                        if by.is_empty() { "" } else { ", by " },
                        excess.asked
                    ),
                    "the end of jobs that use it, or a higher limit (qstat --limits)",
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
                    "Not enough {resource}, which all nodes share, is free now: \
                     asked for {requested}, free {available} of {total}."
                ),
                "the end of jobs that hold it, or asking for less",
            )),
            R::AwaitsChoice => take(row(
                "awaits_choice",
                format_args!("The site's program is choosing nodes"),
                format_args!("The site's program is choosing nodes for it."),
                "time: the site's program answers soon, or is passed over",
            )),
            R::NoNodes => take(row(
                "node_state",
                format_args!("No nodes available: none answers, or all are offline"),
                format_args!("No node takes jobs now: none answers, or all are offline."),
                "a node that answers and is not offline (pbsnodes -l)",
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
                    "Not enough {resource} is free now: asked for {requested}, \
                     free {available} of {total}."
                ),
                "the end of jobs that run, or asking for less",
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
                     T: {total}, {outside} in use by processes outside the queue)"
                ),
                format_args!(
                    "Not enough ngpus is free now: asked for {requested}, \
                     free {available} of {total}; processes outside the queue use {outside}."
                ),
                "the end of the processes outside the queue, or of jobs that run",
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
                    [", ", "; ", in_use, " in use beyond what jobs were given"]
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
                    "less in use on the node (its load is in pbsnodes -a), or asking for less",
                ))
            }
            R::Reserved { window, from } => take(row(
                "window_acl",
                format_args!("Job would conflict with reservation or top job ({window})"),
                format_args!(
                    "Reservation {window} has set aside what it would need, from {} on.",
                    (job.moment)(*from)
                ),
                "a walltime short enough to be over before that reservation (pbs_rstat), \
                 or its end",
            )),
            R::Nowhere { code, said, nodes } => take(row(
                Code::find(code).map_or("fragmented", |code| code.name),
                format_args!("Not enough free nodes available ({nodes} are: {said})"),
                format_args!("Of the nodes that could take it ({nodes}), none does now: {said}."),
                "these nodes, or others, becoming free for it (pbsnodes -l, pbsnodes -a)",
            )),
            R::Scattered { fitting, needed } => take(row(
                "fragmented",
                format_args!("Not enough free nodes available (R: {needed} A: {fitting})"),
                format_args!(
                    "Enough is free in all, but not in pieces as asked: \
                     {fitting} of {needed} chunks find a place."
                ),
                "the end of jobs that run, or chunks that fit into what is free (qstat --holes)",
            )),
            R::NotContiguous => take(row(
                "contiguity",
                format_args!("Not enough free nodes available side by side"),
                format_args!("Enough is free, but not on nodes side by side."),
                "the end of jobs that run there (qstat --why)",
            )),
            R::NoSet { by } => take(row(
                "nodeset",
                format_args!("Not enough free nodes available of one {by}"),
                format_args!("Enough is free, but not on nodes of the same {by}."),
                "the end of jobs that run there (qstat --why)",
            )),
            R::Booked { at } => take(row(
                "booked_at",
                format_args!("Job waits for its promised start"),
                format_args!("It is promised a start at {}.", (job.moment)(*at)),
                "time: its start is promised",
            )),
            R::WouldDelayBooking {
                holder,
                at: Time::NEVER,
            } => take(row(
                "would_delay_booking",
                format_args!("Job would conflict with the promised start of job {holder}"),
                format_args!(
                    "There is room for it now, but nothing starts before job {}, which waits.",
                    (job.jobs)(&[*holder], 0)
                ),
                "a walltime short enough to be over before that start, or its start",
            )),
            R::WouldDelayBooking { holder, at } => take(row(
                "would_delay_booking",
                format_args!("Job would conflict with the promised start of job {holder}"),
                format_args!(
                    "There is room for it now, but not for as long as it may run: \
                     job {} is promised that room at {}.",
                    (job.jobs)(&[*holder], 0),
                    (job.moment)(*at)
                ),
                "a walltime short enough to be over before that start, or its start",
            )),
            R::BackfillDepth { limit } => take(row(
                "depth_cut",
                format_args!("Not among the first {limit} jobs considered behind a blocked one"),
                format_args!(
                    "It was not looked at: \
                     only {limit} jobs are behind the first that waits for room."
                ),
                "the start of jobs ahead of it",
            )),
            R::NoBackfill => take(row(
                "no_backfill",
                format_args!("Job would pass a blocked job, which its quality of service does not"),
                format_args!(
                    "There is room for it now, \
                     but its quality of service lets it pass no job that waits for room."
                ),
                "the start of jobs ahead of it, or another quality of service (qalter -W qos=...)",
            )),
            R::NoWalltime => take(row(
                "no_walltime",
                format_args!("Job has no walltime and would pass jobs that are promised a start"),
                format_args!(
                    "There is room for it now, but it has no walltime: \
                     it might still run when others are promised that room."
                ),
                "a walltime (qalter -l walltime=...)",
            )),
            R::KeptForWider { size, until } => take(row(
                "chunking",
                format_args!(
                    "What became free is kept for jobs of {size} processors or more for a while"
                ),
                format_args!(
                    "There is room for it now, \
                     but until {} that is kept for jobs of {size} processors or more.",
                    (job.moment)(*until)
                ),
                "time, or asking for more processors at once",
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

/// The ending of a plural.
fn s(count: u32) -> &'static str {
    if count == 1 { "" } else { "s" }
}

/// Whether an amount is zero: `0` or `0kb`.
fn is_none(amount: &str) -> bool {
    amount.trim_end_matches(|c: char| c.is_ascii_alphabetic()) == "0"
}
