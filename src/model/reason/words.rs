//! Reasons in words: PBS's, where it has some. They are the `comment` of a job in `qstat`.

use super::{OutsideUse, Reason};
use std::fmt;

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(if self.is_never() {
            "Can Never Run: "
        } else {
            "Not Running: "
        })?;
        self.write_said(f)
    }
}

impl fmt::Display for OutsideUse {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let OutsideUse {
            resource,
            requested,
            available,
            total,
            in_use,
            node,
            load,
        } = self;
        write!(
            f,
            "Insufficient amount of resource: {resource} (R: {requested} A: {available} T: {total}"
        )?;
        if !is_none(in_use) {
            write!(f, ", {in_use} in use beyond what jobs were given")?;
        }
        write!(f, "; load average {load} on {node})")
    }
}

impl Reason {
    /// A line for each reason.
    fn write_said(&self, f: &mut fmt::Formatter) -> fmt::Result {
        use Reason as R;
        match self {
            R::NeverEnough {
                resource,
                requested,
                available,
                total,
            }
            | R::Busy {
                resource,
                requested,
                available,
                total,
                ..
            } => {
                write!(f, "{}", Short(resource, requested, available, total))
            }
            R::NeverMatches {
                resource,
                requested,
                found,
            } => {
                write!(
                    f,
                    "Insufficient amount of resource: {resource} ({requested} != {found})"
                )
            }
            R::NeverNodes { requested, total } => {
                write!(
                    f,
                    "Not enough total nodes available (R: {requested} T: {total})"
                )
            }
            R::Unsuitable { bar, said, .. } => write!(f, "{}: {said}", bar.name()),
            R::QueueStopped => f.write_str("Queue not started."),
            R::QueueRoutes => f.write_str("Queue not an execution queue."),
            R::NestedQueue => {
                f.write_str("Job waits for a nested instance of its owner to take it")
            }
            R::NoBackfill => {
                f.write_str("Job would pass a blocked job, which its quality of service does not")
            }
            R::UnderThreshold { value, threshold } => {
                write!(
                    f,
                    "Job is under job_sort_formula threshold value ({value} <= {threshold})"
                )
            }
            R::ArrayLimit { limit, expand } => write_array_limit(f, *limit, *expand),
            R::Scattered { fitting, needed } => write!(
                f,
                "Not enough free nodes available (R: {needed} A: {fitting})"
            ),
            R::Nowhere { said, nodes, .. } => {
                write!(f, "Not enough free nodes available ({nodes} are: {said})")
            }
            R::NotContiguous => f.write_str("Not enough free nodes available side by side"),
            R::NoSet { by } => write!(f, "Not enough free nodes available of one {by}"),
            R::Booked { .. } => f.write_str("Job waits for its promised start"),
            R::WouldDelayBooking { holder, .. } => {
                write!(
                    f,
                    "Job would conflict with the promised start of job {holder}"
                )
            }
            R::BackfillDepth { limit } => write!(
                f,
                "Not among the first {limit} jobs considered behind a blocked one"
            ),
            R::NoWalltime => {
                f.write_str("Job has no walltime and would pass jobs that are promised a start")
            }
            R::KeptForWider { size, .. } => {
                write!(
                    f,
                    "What became free is kept for jobs of {size} processors or more for a while"
                )
            }
            R::UsedOutside {
                requested,
                available,
                total,
                outside,
            } => write!(
                f,
                "Insufficient amount of resource: ngpus (R: {requested} A: {available} T: {total}, \
                 {outside} in use by processes outside the queue)"
            ),
            R::InUse(outside) => write!(f, "{outside}"),
            R::Reserved { window, .. } => write!(
                f,
                "Job would conflict with reservation or top job ({window})"
            ),
            R::NotOpen { window } => write!(f, "Reservation {window} is not open"),
            R::OutlastsWindow { requested, left } => {
                write!(f, "{}", Short("walltime", requested, left, left))
            }
            R::DedicatedTime => f.write_str("Dedicated time conflict"),
            R::CrossesDedicated { .. } => f.write_str("Job would cross dedicated time boundary"),
            R::PrimeOnly => f.write_str("Job will run in primetime only"),
            R::NonprimeOnly => f.write_str("Job will run in nonprimetime only"),
            R::CrossesPrime { into_prime, .. } => {
                write!(
                    f,
                    "Job will cross into {}",
                    if *into_prime {
                        "primetime"
                    } else {
                        "nonprimetime"
                    }
                )
            }
            R::Limited(excess) => write!(f, "{excess}"),
            R::NoNodes => f.write_str("No nodes available: none answers, or all are offline"),
            R::AwaitsChoice => f.write_str("The site's program is choosing nodes"),
            R::Deferred { .. } => {
                f.write_str("Job failed or could not be started; it is tried again after a pause")
            }
        }
    }
}

fn write_array_limit(f: &mut fmt::Formatter, limit: u32, expand: Option<u32>) -> fmt::Result {
    write!(
        f,
        "Number of concurrent running subjobs limit reached (L: {limit})"
    )?;
    match expand {
        None => Ok(()),
        Some(u32::MAX) => f.write_str(", more where there is room that nobody else wants"),
        Some(most) => write!(
            f,
            ", up to {most} where there is room that nobody else wants"
        ),
    }
}

/// Whether an amount, as shown, is nothing: `0` or `0kb`.
pub fn is_none(amount: &str) -> bool {
    amount.trim_end_matches(|c: char| c.is_ascii_alphabetic()) == "0"
}

/// Too little of a resource: which, asked for, available, in all.
struct Short<'a>(&'a str, &'a str, &'a str, &'a str);

impl fmt::Display for Short<'_> {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let Short(resource, requested, available, total) = self;
        write!(
            f,
            "Insufficient amount of resource: {resource} (R: {requested} A: {available} T: {total})"
        )
    }
}
