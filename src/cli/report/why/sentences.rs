//! Reasons in sentences for people who have never read a scheduler's manual.

use super::View;
use crate::model::job_id::JobId;
use crate::model::limit::excess::Excess;
use crate::model::reason::{OutsideUse, Reason, is_none};
use crate::model::report::outlook::Rejection;
use crate::model::time::Time;

impl View<'_> {
    /// A reason as a sentence.
    pub fn plain(&self, reason: &Reason) -> String {
        if reason.is_never() {
            let since = self
                .found
                .record
                .never_since
                .map(|since| format!(", since {}", self.moment(since)));
            let since = since.unwrap_or_default();
            return format!(
                "It can never start on this system as it is{since}: {}.",
                never(reason)
            );
        }
        match reason {
            Reason::Busy { .. } | Reason::UsedOutside { .. } | Reason::InUse(_) => short(reason),
            Reason::ArrayLimit { .. } => short(reason),
            Reason::Scattered { .. } | Reason::NotContiguous | Reason::NoSet { .. } => apart(reason),
            Reason::NoNodes => "No node takes jobs now: none answers, or all are offline.".to_string(),
            Reason::Nowhere { said, nodes, .. } => {
                format!("Of the nodes that could take it ({nodes}), none does now: {said}.")
            }
            Reason::Unsuitable { bar, said, .. } => {
                format!("There are free nodes, but they do not suit the job ({}: {said}).", bar.name())
            }
            Reason::QueueStopped => {
                format!("Its queue, {}, starts no jobs at present.", self.found.record.job.spec.queue)
            }
            Reason::QueueRoutes => {
                let queue = &self.found.record.job.spec.queue;
                format!("Its queue, {queue}, passes jobs on, and none of its destinations takes this one now.")
            }
            Reason::NestedQueue => {
                let queue = &self.found.record.job.spec.queue;
                format!(
                    "Jobs of its queue, {queue}, run in nested instances: it waits for one of its owner to take it."
                )
            }
            Reason::NoBackfill => {
                "There is room for it now, but its quality of service lets it pass no job that waits for room."
                    .to_string()
            }
            Reason::Limited(excess) => self.limited(excess),
            Reason::AwaitsChoice => "The site's program is choosing nodes for it.".to_string(),
            Reason::Deferred { until } if self.refused_start().is_some() => {
                let (hook, why) = self.refused_start().unwrap_or_default();
                format!(
                    "The site's hook {hook} refused its start: {why}. It is asked again at {}.",
                    self.moment(*until)
                )
            }
            Reason::Deferred { until } => {
                format!("It failed, or could not be started; it is tried again at {}.", self.moment(*until))
            }
            Reason::WouldDelayBooking { .. } | Reason::Booked { .. } | Reason::NoWalltime => self.promised(reason),
            Reason::BackfillDepth { .. } | Reason::KeptForWider { .. } => self.behind(reason),
            _ => self.of_the_calendar(reason),
        }
    }

    fn limited(&self, excess: &Excess) -> String {
        let Excess {
            quantity,
            asked,
            used,
            most,
            ..
        } = excess;
        let (soft, stage) = (if excess.soft { "soft " } else { "" }, excess.stage.name());
        let by = self.named(&excess.by, excess.more);
        let by = if by.is_empty() {
            by
        } else {
            format!(", by {by}")
        };
        let what = quantity.name();
        format!(
            "A {soft}limit lets {} have {most} {stage} {what}: {used} in use{by}, and it would add {asked}.",
            excess.whose()
        )
    }

    /// Jobs by their ids, and how many more there are.
    pub fn named(&self, jobs: &[JobId], more: u64) -> String {
        let ids: Vec<String> = jobs.iter().map(|job| self.id(*job)).collect();
        let more = (more > 0).then(|| format!("{more} more"));
        ids.into_iter().chain(more).collect::<Vec<_>>().join(", ")
    }

    fn promised(&self, reason: &Reason) -> String {
        match reason {
            Reason::WouldDelayBooking { holder, at } if *at == Time::NEVER => {
                format!("There is room for it now, but nothing starts before job {}, which waits.", self.id(*holder))
            }
            Reason::WouldDelayBooking { holder, at } => format!(
                "There is room for it now, but not for as long as it may run: job {} is promised that room at {}.",
                self.id(*holder),
                self.moment(*at)
            ),
            Reason::Booked { at } => format!("It is promised a start at {}.", self.moment(*at)),
            _ => "There is room for it now, but it has no walltime: it might still run when others are promised \
                  that room."
                .to_string(),
        }
    }

    fn behind(&self, reason: &Reason) -> String {
        match reason {
            Reason::KeptForWider { size, until } => format!(
                "There is room for it now, but until {} that is kept for jobs of {size} processors or more.",
                self.moment(*until)
            ),
            Reason::BackfillDepth { limit } => {
                format!(
                    "It was not looked at: only {limit} jobs are behind the first that waits for room."
                )
            }
            _ => reason.to_string(),
        }
    }

    fn of_the_calendar(&self, reason: &Reason) -> String {
        match reason {
            Reason::Reserved { window, from } => {
                format!(
                    "Reservation {window} has set aside what it would need, from {} on.",
                    self.moment(*from)
                )
            }
            Reason::NotOpen { window } => {
                format!("The reservation it asks for, {window}, is not open.")
            }
            Reason::OutlastsWindow { requested, left } => {
                format!("It may run for {requested}, and its reservation ends in {left}.")
            }
            Reason::CrossesDedicated { at } => {
                format!(
                    "It might still run at {}, when dedicated time begins or ends.",
                    self.moment(*at)
                )
            }
            Reason::CrossesPrime { into_prime, at } => {
                let what = if *into_prime {
                    "prime time begins"
                } else {
                    "prime time ends"
                };
                format!("It might still run at {}, when {what}.", self.moment(*at))
            }
            Reason::DedicatedTime => {
                "Its queue starts no jobs in dedicated time, or in no other.".to_string()
            }
            Reason::PrimeOnly => "Its queue starts jobs in prime time only.".to_string(),
            Reason::NonprimeOnly => "Its queue starts jobs outside prime time only.".to_string(),
            _ => format!("{reason}."),
        }
    }
}

/// Why it can never start.
fn never(reason: &Reason) -> String {
    match reason {
        Reason::NeverEnough {
            resource,
            requested,
            available,
            total,
        } => {
            format!(
                "it asks for {resource}={requested} at once, and at most {available} can be had (of {total} in all)"
            )
        }
        Reason::NeverMatches {
            resource,
            requested,
            found,
        } => {
            format!("it asks for {resource}={requested}, which no such node has ({found})")
        }
        Reason::NeverNodes { requested, total } => {
            format!("it asks for {requested} places, and no more than {total} nodes have one")
        }
        Reason::Unsuitable { bar, said, .. } => {
            format!("no node suits it ({}: {said})", bar.name())
        }
        _ => reason.to_string(),
    }
}

/// For want of which amount.
fn short(reason: &Reason) -> String {
    match reason {
        Reason::Busy {
            resource,
            requested,
            available,
            total,
            pooled,
            ..
        } => {
            let whose = if *pooled {
                ", which all nodes share,"
            } else {
                ""
            };
            format!(
                "Not enough {resource}{whose} is free now: asked for {requested}, free {available} of {total}."
            )
        }
        Reason::UsedOutside {
            requested,
            available,
            total,
            outside,
        } => format!(
            "Not enough ngpus is free now: asked for {requested}, free {available} of {total}; processes outside the \
             queue use {outside}."
        ),
        Reason::InUse(outside) => short_of_outside_use(outside),
        Reason::ArrayLimit { limit, expand } => {
            let most = super::counted(u64::from(*limit), "subjob");
            let more = match expand {
                None => return format!("Its array lets {most} run at once, and so many do."),
                Some(u32::MAX) => "more".to_string(),
                Some(most) => format!("up to {most}"),
            };
            format!(
                "Its array lets {most} run at once in its turn, and so many do; {more} when there is room that nobody else wants."
            )
        }
        _ => reason.to_string(),
    }
}

fn short_of_outside_use(outside: &OutsideUse) -> String {
    let OutsideUse {
        resource,
        requested,
        available,
        total,
        in_use,
        node,
        load,
    } = outside;
    let beyond = format!("; {in_use} in use beyond what jobs were given");
    let beyond = if is_none(in_use) { "" } else { &beyond };
    format!(
        "Not enough {resource} free: {requested} requested, {available} of {total} free{beyond}. \
         The load average of {node} is {load}."
    )
}

/// Why what is free does not do.
fn apart(reason: &Reason) -> String {
    match reason {
        Reason::Scattered { fitting, needed } => {
            format!(
                "Enough is free in all, but not in pieces as asked: {fitting} of {needed} chunks find a place."
            )
        }
        Reason::NoSet { by } => format!("Enough is free, but not on nodes of the same {by}."),
        _ => "Enough is free, but not on nodes side by side.".to_string(),
    }
}

/// Why nodes do not take a chunk: `ncpus: 8 asked, 2 to 4 free`.
pub fn rejected(rejection: &Rejection) -> String {
    let (Some(resource), Some(requested), Some((least, most))) =
        (&rejection.resource, &rejection.requested, &rejection.found)
    else {
        return rejection.said.clone().unwrap_or_default();
    };
    let range = if least == most {
        least.clone()
    } else {
        format!("{least} to {most}")
    };
    let kind = if rejection.never { "there" } else { "free" };
    let outside = match rejection.code.as_str() {
        "used_outside" => ", more in use outside the queue",
        "in_use" => ", more in use beyond what jobs were given",
        _ => "",
    };
    format!("{resource}: {requested} asked, {range} {kind}{outside}")
}
