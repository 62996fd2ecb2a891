//! The obstacles to the start of a job. A cycle stops at the first refusal of a job; this module
//! continues with the later stages, in the final state of the cycle. It does not check the priority
//! threshold.

use crate::model::job_id::JobId;
use crate::model::reason::{CycleStage, Reason};
use crate::model::time::{Span, Time};
use crate::sched::cycle::state::CycleState;
use crate::sched::cycle::{feasibility, throttling};
use crate::sched::priority::ranking::Candidate;
use crate::sched::view::shape::ClassKey;

/// The maximum number of tries for a shorter walltime.
const ROUNDS: usize = 32;

/// A walltime with which a job would end after every planned start.
const EVER: Span = Span::seconds(1000 * 366 * 86_400);

/// The refusals of a job in the final state of a cycle, the earliest stage first. The search for
/// free resources gives at most one refusal; it is skipped if the job can never run.
pub fn of(job: Candidate, cycle: &mut CycleState) -> Vec<Reason> {
    let mut objections: Vec<Reason> = feasibility::check(&job.class.shape, cycle)
        .err()
        .into_iter()
        .collect();
    let could_run = objections.is_empty();
    objections.extend(throttling::objections(job, cycle));
    let refusal = could_run.then(|| cycle.match_now(job).err()).flatten();
    objections.extend(refusal.map(|reason| as_own_booking(&reason, job.job)));
    in_order(objections)
}

/// Adds the cycle's verdict, the reason why the job waits, to the refusals `found`, before other
/// refusals of its stage. Refusals with the same code as the verdict are dropped. If the verdict is
/// about resources, all refusals about resources are dropped. Without a verdict, the result is
/// `found`.
pub fn with_verdict(verdict: Option<&Reason>, job: JobId, found: Vec<Reason>) -> Vec<Reason> {
    let Some(verdict) = verdict.map(|verdict| as_own_booking(verdict, job)) else {
        return found;
    };
    let is_about_resources =
        |reason: &Reason| reason.stage() >= CycleStage::Match || reason.is_blocked();
    let others = found.into_iter().filter(|reason| {
        reason.code() != verdict.code()
            && !(is_about_resources(reason) && is_about_resources(&verdict))
    });
    in_order(std::iter::once(verdict.clone()).chain(others).collect())
}

fn in_order(mut objections: Vec<Reason>) -> Vec<Reason> {
    objections.sort_by_key(Reason::stage);
    objections
}

/// The reason `Booked` if `reason` says that the job would delay its own planned start; otherwise
/// `reason`.
fn as_own_booking(reason: &Reason, job: JobId) -> Reason {
    match *reason {
        Reason::WouldDelayBooking { holder, at }
            if holder == job || holder.parent() == Some(job) =>
        {
            Reason::Booked { at }
        }
        _ => reason.clone(),
    }
}

/// The longest walltime with which the job would start at once. `first` is the first refusal with
/// the current walltime. Each walltime is checked in the final state of the cycle, so the result is
/// not only an estimate. None if a shorter walltime does not help, or after `ROUNDS` tries.
pub fn shorter(job: Candidate, cycle: &mut CycleState, first: &Reason) -> Option<Span> {
    let mut walltime = before(first, cycle.now)?;
    for _ in 0..ROUNDS {
        let class = ClassKey {
            walltime: Some(walltime),
            ..job.class.clone()
        };
        let mut shortened = Candidate::alone(job.job, &class);
        shortened.begun = job.begun;
        let objections = of(shortened, cycle);
        let Some(objection) = objections.first() else {
            return Some(walltime);
        };
        walltime = before(objection, cycle.now).filter(|next| *next < walltime)?;
    }
    None
}

/// The longest walltime that avoids an obstacle, in whole seconds; None if a shorter walltime does
/// not avoid it.
fn before(reason: &Reason, now: Time) -> Option<Span> {
    let at = match *reason {
        Reason::WouldDelayBooking { at, .. } | Reason::Reserved { from: at, .. } => at,
        Reason::CrossesDedicated { at } | Reason::CrossesPrime { at, .. } => at,
        Reason::NoWalltime => return Some(EVER),
        _ => return None,
    };
    let seconds = at.since(now).0 / 1000;
    (at != Time::NEVER && seconds > 0).then_some(Span::seconds(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::policy::{Backfill, Policy};
    use crate::model::reservation::window::{Window, WindowAccess};
    use crate::sched::backfill::reservation_window;
    use crate::sched::cycle;
    use crate::sched::explain::forecast::{self, Budget};
    use crate::sched::explain::why::explain;
    use crate::sched::fixture::{TestCluster, cluster};

    fn explained(fixture: &TestCluster, job: u64) -> crate::model::report::outlook::Explanation {
        let outlook = forecast::run(
            fixture.state.clone(),
            &fixture.policy,
            fixture.now,
            Budget::default(),
        );
        explain(
            &fixture.state,
            &fixture.policy,
            fixture.now,
            JobId::job(job),
            &outlook,
        )
        .unwrap()
    }

    fn codes(fixture: &TestCluster, job: u64) -> Vec<String> {
        explained(fixture, job)
            .objections
            .iter()
            .map(|reason| reason.code().into_owned())
            .collect()
    }

    /// A node with 8 CPUs. Job 1 uses 4 of them until second 3600. Job 2 requests all CPUs for an
    /// hour, and its planned start is second 3600.
    fn promised() -> TestCluster {
        cluster("1 x ncpus=8")
            .running(1, "select=1:ncpus=4", "n1", 3600)
            .queued(2, "select=1:ncpus=8 walltime=3600")
    }

    #[test]
    fn all_obstacles_are_reported_the_earliest_stage_first() {
        let fixture = promised();
        assert_eq!(codes(&fixture, 2), ["amount.ncpus"]);
        let more = fixture
            .queued(3, "select=1:ncpus=8 queue=night walltime=60 not_before=60")
            .queued(4, "select=1:ncpus=9 queue=night walltime=60")
            .queued(5, "select=1:ncpus=4 walltime=7200 not_before=60");
        assert_eq!(
            codes(&more, 3),
            ["deferred", "queue_stopped", "amount.ncpus"]
        );
        assert_eq!(codes(&more, 4), ["unsatisfiable", "queue_stopped"]);
        assert_eq!(codes(&more, 5), ["deferred", "would_delay_booking"]);
    }

    #[test]
    fn the_verdict_of_the_cycle_takes_precedence() {
        let fixture = promised()
            .queued(3, "select=1:ncpus=4 walltime=60")
            .queued(4, "select=1:ncpus=2 walltime=60");
        let verdict = fixture.reason(4).unwrap();
        assert_eq!(explained(&fixture, 4).objections, [verdict]);
        assert_eq!(codes(&fixture, 3), [""; 0]);
    }

    #[test]
    fn a_job_that_would_delay_its_own_planned_start_has_the_reason_booked() {
        let promise = Reason::WouldDelayBooking {
            holder: JobId::job(2),
            at: Time(5),
        };
        assert_eq!(
            as_own_booking(&promise, JobId::job(2)),
            Reason::Booked { at: Time(5) }
        );
        assert_eq!(as_own_booking(&promise, JobId::job(3)), promise);
    }

    #[test]
    fn a_job_starts_with_the_reported_walltime_and_not_with_a_second_more() {
        let fixture = promised().queued(3, "select=1:ncpus=4 walltime=7200");
        let shorter = explained(&fixture, 3).shorter.unwrap();
        assert_eq!(shorter, Span::seconds(3600));
        let starts = |walltime: i64| {
            let fixture = promised().queued(3, &format!("select=1:ncpus=4 walltime={walltime}"));
            cycle::run(&fixture.state, &fixture.policy, fixture.now)
                .starts
                .len()
        };
        assert_eq!((starts(3600), starts(3601)), (1, 0));
        assert_eq!(
            explained(&fixture, 2).shorter,
            None,
            "a shorter walltime would not help"
        );
        let endless = promised().queued(3, "select=1:ncpus=4");
        assert_eq!(codes(&endless, 3), ["would_delay_booking"]);
        assert_eq!(explained(&endless, 3).shorter, Some(Span::seconds(3600)));
        assert_eq!(
            explained(
                &promised()
                    .strictly()
                    .queued(3, "select=1:ncpus=4 walltime=7200"),
                3
            )
            .shorter,
            None
        );
    }

    /// X4.
    #[test]
    fn for_a_job_without_walltime_a_walltime_with_which_it_would_start_is_reported() {
        let mut fixture = promised();
        fixture.policy = Policy {
            default_walltime: Span(i64::MAX),
            ..fixture.policy
        };
        let fixture = fixture.queued(3, "select=1:ncpus=4");
        assert_eq!(codes(&fixture, 3), ["no_walltime"]);
        assert_eq!(explained(&fixture, 3).shorter, Some(Span::seconds(3600)));
    }

    /// The obstacles are planned starts and a reservation that begins before them.
    #[test]
    fn the_reported_walltime_avoids_all_obstacles() {
        let mut fixture = cluster("1 x ncpus=8")
            .running(1, "select=1:ncpus=4", "n1", 3600)
            .queued(2, "select=1:ncpus=8 walltime=3600")
            .queued(3, "select=1:ncpus=4 walltime=7200");
        fixture.policy.backfill = Backfill {
            depth: 2,
            ..fixture.policy.backfill
        };
        fixture.state.set_window(Window {
            id: "R1".into(),
            from: Time(1_800_000),
            to: Time(9_000_000),
            shares: reservation_window::whole(&fixture.state, &["n1".to_string()]).unwrap(),
            whole: true,
            access: WindowAccess {
                users: vec!["zoe".into()],
                ..WindowAccess::default()
            },
            by_name: false,
            owner_preempts: false,
        });
        assert_eq!(explained(&fixture, 3).shorter, Some(Span::seconds(1800)));
    }
}
