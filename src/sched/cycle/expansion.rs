//! Over-limit subjobs. An array can have a limit on the number of its running subjobs. With
//! `expand`, it may exceed this limit if resources would otherwise be idle (Q15).
//!
//! Example: on 8 CPUs, an array of 100 subjobs has a limit of 2 running subjobs and may expand to 5
//! subjobs. A job of another user waits behind the array. Two subjobs start, then the job of the
//! other user, then three more subjobs. The remaining CPUs stay idle.
//!
//! Expansion is the last pass that starts jobs in a cycle. All waiting jobs have been considered
//! and all starts are planned, therefore over-limit subjobs delay no planned start and take no
//! resources that another job could use now. Arrays that request a reservation come first, then the
//! others in queue order. Each array starts as many over-limit subjobs as it may and as fit, before
//! the next array starts any. Over-limit subjobs are marked
//! ([`crate::sched::view::plan::Start::beyond`]), because they are preempted first.

use super::launch;
use super::state::{CycleState, Pass};
use crate::model::job::array;
use crate::model::job_id::JobId;
use crate::sched::cycle;
use crate::sched::placement::resolution::Resolved;
use crate::sched::priority::ranking::Candidate;
use crate::sched::view::class::QueuePosition;
use crate::sched::view::shape::ClassKey;
use crate::sched::view::snapshot::Class;
use std::cmp::Reverse;

/// Starts over-limit subjobs of arrays that have reached their limit on running subjobs.
pub fn start_over_limit<'s>(resolved: &'s Resolved, cycle: &mut CycleState<'s>) {
    let state = cycle.state;
    if state.expanding.is_empty() {
        return;
    }
    cycle.begin_again();
    let classes = state
        .expanding
        .iter()
        .filter_map(|id| state.classes.get(id));
    let mut expanding: Vec<ExpandingClass> = classes
        .filter_map(|class| ExpandingClass::of(class, resolved))
        .collect();
    expanding.sort_by_key(|class| (Reverse(class.key.reservation.is_some()), class.head));
    for class in &expanding {
        class.start(cycle);
    }
}

/// An array that may exceed its limit on running subjobs, or a class of requeued subjobs of such
/// arrays.
struct ExpandingClass<'s> {
    /// The position of the first waiting subjob.
    head: QueuePosition,
    /// The class as the policy resolves it for the current cycle.
    key: &'s ClassKey,
    class: &'s Class,
}

impl<'s> ExpandingClass<'s> {
    fn of(class: &'s Class, resolved: &'s Resolved) -> Option<ExpandingClass<'s>> {
        Some(ExpandingClass {
            head: class.first()?,
            key: resolved.of(&class.key),
            class,
        })
    }

    /// The waiting subjobs, in queue order.
    fn waiting(&self) -> Box<dyn Iterator<Item = JobId> + 's> {
        match self.class.limited() {
            Some((id, array)) => Box::new(array::ids(id, array.elements.waiting(), array.indices)),
            None => Box::new(self.class.in_order().map(|((_, (_, id)), _)| id)),
        }
    }

    /// Starts subjobs until a subjob is refused. If the array runs fewer subjobs than its limit
    /// allows, starts none, because then an earlier pass has refused the array for another reason.
    fn start(&self, cycle: &mut CycleState<'s>) {
        for job in self.waiting() {
            let candidate = Candidate::element(job, self.key, self.class.begun());
            if cycle.has_started(job) {
                continue;
            }
            let limit = cycle.subjob_limit(candidate);
            if limit.is_none_or(|limit| cycle.running_subjobs_of(candidate) < limit.limit) {
                return;
            }
            cycle.count_considered();
            match cycle::place(candidate, Pass::Expansion, cycle) {
                Ok(possible_start) => launch::launch(candidate, possible_start, cycle),
                Err(reason) => return cycle.schedule_cycle_for(&reason),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::model::job::Run;
    use crate::model::job::state::JobState;
    use crate::model::job_id::JobId;
    use crate::model::policy::Filling;
    use crate::model::report::outlook::{JobForecast, Prospect};
    use crate::model::reservation::window::{Window, WindowAccess};
    use crate::model::time::Time;
    use crate::sched::backfill::reservation_window;
    use crate::sched::explain::forecast::{self, Budget};
    use crate::sched::fixture::{TestCluster, cluster};
    use crate::sched::view::change::Change;
    use crate::sched::view::plan::Plan;
    use proptest::prelude::*;

    /// The number of started subjobs of job 1, and the other started jobs.
    fn starts(fixture: &TestCluster) -> (usize, Vec<u64>) {
        let plan = fixture.plan();
        let (own, others): (Vec<JobId>, Vec<JobId>) = plan
            .starts
            .iter()
            .map(|start| start.job)
            .partition(|job| job.number == 1);
        (own.len(), others.iter().map(|job| job.number).collect())
    }

    /// Q15.
    #[test]
    fn an_array_uses_idle_resources_up_to_its_maximum() {
        for (array, expected) in [
            ("1-100%2", 2),
            ("1-100%2 expand=5", 5),
            ("1-100%2 expand=unlimited", 8),
            ("1-100%2 expand=1", 2),
            ("1-4%2 expand=8", 4),
            ("1-100%0 expand=5", 8),
        ] {
            let fixture = cluster("1 x ncpus=8").queued(1, &format!("array={array}"));
            assert_eq!(starts(&fixture).0, expected, "{array}");
        }
        let fixture = cluster("1 x ncpus=8")
            .queued(1, "array=1-100%2 expand=5")
            .begun(1, 0, 4);
        assert_eq!(starts(&fixture).0, 0, "five subjobs already run");
    }

    #[test]
    fn all_other_jobs_start_before_over_limit_subjobs() {
        let fixture = cluster("1 x ncpus=4")
            .queued(1, "array=1-100%2 expand=5")
            .queued(2, "select=1:ncpus=1");
        assert_eq!(
            fixture.starts(),
            "1[1] on n1; 1[2] on n1; 2 on n1; 1[3] on n1"
        );
        assert_eq!(
            fixture
                .plan()
                .starts
                .iter()
                .map(|start| start.beyond)
                .collect::<Vec<_>>(),
            [None, None, None, Some(2)]
        );
        let two = fixture.queued(3, "select=1:ncpus=1 array=1-9%1 expand=9");
        assert_eq!(
            starts(&two),
            (2, vec![2, 3]),
            "both arrays start subjobs within their limits before either expands"
        );
    }

    /// Q15, G4.
    #[test]
    fn over_limit_subjobs_delay_no_planned_start() {
        let fixture = |walltime: u64| {
            cluster("1 x ncpus=4")
                .running(9, "select=1:ncpus=1", "n1", 100)
                .queued(1, &format!("array=1-100%1 expand=5 walltime={walltime}"))
                .queued(2, "select=1:ncpus=3 walltime=10")
        };
        assert_eq!(starts(&fixture(100)).0, 3);
        assert_eq!(
            starts(&fixture(101)).0,
            1,
            "one CPU is left beside the planned start on 3 CPUs"
        );
        let mut shut = fixture(100);
        shut.policy.backfill.policy = Filling::None;
        assert_eq!(starts(&shut).0, 1, "no job passes the first blocked job");
    }

    #[test]
    fn an_array_refused_for_another_reason_does_not_expand() {
        let fixture = cluster("1 x ncpus=8").queued(1, "array=1-100%2 expand=5 queue=night");
        assert_eq!(starts(&fixture).0, 0);
        let fixture = cluster("1 x ncpus=8")
            .queued(1, "array=1-100%2 expand=5 not_before=60")
            .begun(1, 0, 2);
        assert_eq!(starts(&fixture).0, 0);
    }

    /// A requeued over-limit subjob starts after all other jobs. If so few subjobs run that it is
    /// within the limit, it starts at its normal position in the queue.
    #[test]
    fn a_requeued_over_limit_subjob_waits_for_idle_resources() {
        let fixture = |begun: u32, free: u32| {
            let mut fixture = cluster(&format!("1 x ncpus={}", begun + free));
            for index in 1..=begun {
                fixture = fixture.queued(90, "select=1:ncpus=1");
                let shares = fixture.plan().starts.remove(0).shares;
                fixture
                    .state
                    .occupy(JobId::element(1, index), &shares, false, Time(60_000));
                fixture.state.withdraw(JobId::job(90));
            }
            let mut fixture = fixture
                .queued(1, "array=1-100%2 expand=5")
                .begun(1, 0, begun);
            let mut put_back = fixture
                .job(1, "array=1-100%2 expand=5")
                .subjob_without_record(begun + 1)
                .unwrap();
            put_back.life.run = Some(Run {
                extra: true,
                open: false,
                ..Run::new(1, Vec::new(), Time(0))
            });
            fixture.state.enqueue(&put_back);
            fixture.queued(2, "select=1:ncpus=1 rank=9")
        };
        assert_eq!(fixture(4, 1).starts(), "2 on n1");
        assert_eq!(fixture(4, 2).starts(), "2 on n1; 1[5] on n1");
        assert_eq!(
            fixture(4, 3).starts(),
            "2 on n1; 1[5] on n1",
            "five is the maximum"
        );
        assert_eq!(
            fixture(1, 1).starts(),
            "1[2] on n1",
            "subjob 2 is within the limit of two"
        );
        let code = |fixture: TestCluster| {
            let plan = fixture.plan();
            fixture
                .state
                .verdict(&plan, JobId::element(1, 5))
                .map(|reason| reason.code().into_owned())
        };
        assert_eq!(code(fixture(4, 1)).as_deref(), Some("array_limit"));
    }

    /// M36: the key `consider` of `[backfill]` also limits the number of over-limit subjobs.
    #[test]
    fn over_limit_subjobs_count_as_considered_jobs() {
        let starts = |consider| {
            let fixture = cluster("1 x ncpus=4").queued(1, "array=1-9%1 expand=9 walltime=60");
            let mut fixture = fixture
                .queued(2, "select=1:ncpus=4")
                .queued(3, "select=1:ncpus=4 walltime=60");
            fixture.policy.backfill.consider = consider;
            starts(&fixture).0
        };
        assert_eq!([1, 2, 3, 0].map(starts), [1, 2, 3, 4]);
    }

    /// Reservation R1 of the whole node excludes the over-limit subjobs until 90 s. No job ends at
    /// that time, so the plan must schedule a cycle for it.
    #[test]
    fn a_cycle_is_scheduled_for_the_time_at_which_a_subjob_could_start() {
        let mut fixture = cluster("1 x ncpus=4")
            .queued(1, "array=1-9%1 expand=3 walltime=60")
            .begun(1, 0, 0);
        let shares = reservation_window::whole(&fixture.state, &["n1".to_string()]).unwrap();
        let access = WindowAccess {
            users: vec!["bob".to_string()],
            ..WindowAccess::default()
        };
        let (id, from, to) = ("R1".to_string(), Time(0), Time(90_000));
        fixture.state.set_window(Window {
            id,
            from,
            to,
            shares,
            whole: true,
            access,
            by_name: false,
            owner_preempts: false,
        });
        assert_eq!(
            (starts(&fixture).0, fixture.plan().next),
            (0, Some(Time(90_000)))
        );
    }

    /// If other subjobs end, the over-limit subjobs with the lowest indices come within the limit
    /// first.
    #[test]
    fn over_limit_subjobs_are_listed_in_reverse_order_of_their_starts() {
        let mut fixture = cluster("1 x ncpus=8").queued(1, "array=1-100%2 expand=5");
        let plan = fixture.plan();
        fixture.apply(&plan);
        let element = |index| JobId::element(1, index);
        assert_eq!(fixture.state.over_limit_subjobs(), [5, 4, 3].map(element));
        fixture.state.vacate(element(1));
        assert_eq!(fixture.state.over_limit_subjobs(), [5, 4].map(element));
        fixture.state.vacate(element(5));
        assert_eq!(fixture.state.over_limit_subjobs(), [4].map(element));
        fixture.state.vacate(element(4));
        assert!(
            fixture.state.over_limit_subjobs().is_empty(),
            "subjob 3 is within the limit of two now"
        );
    }

    /// A request: the CPUs, the walltime in units of 5 s and, for an array, its limit, its `expand`
    /// value and the number of its running subjobs.
    type TestRequest = (u32, u64, Option<(u32, u32, u32)>);

    fn request() -> impl Strategy<Value = TestRequest> {
        let array = (1u32..4, 0u32..9, 0u32..4);
        (1u32..4, 1u64..9, prop::option::of(array))
    }

    /// A cluster with these waiting jobs and a running job that uses `taken` CPUs. The arrays may
    /// exceed their limits if `expands` is true.
    fn queue(requests: &[TestRequest], taken: u32, expands: bool) -> TestCluster {
        let mut fixture =
            cluster("2 x ncpus=6").running(99, &format!("select=1:ncpus={taken}"), "n1", 20);
        fixture.policy.backfill.depth = 2;
        for (id, &(ncpus, walltime, array)) in (1..).zip(requests) {
            let plain = format!("select=1:ncpus={ncpus} walltime={}", walltime * 5);
            fixture = match array {
                None => fixture.queued(id, &plain),
                Some((limit, most, begun)) => {
                    let expand = if expands { most } else { 0 };
                    let fixture =
                        fixture.queued(id, &format!("{plain} array=1-12%{limit} expand={expand}"));
                    if begun > 0 {
                        fixture.begun(id, 0, begun - 1)
                    } else {
                        fixture
                    }
                }
            };
        }
        fixture
    }

    proptest! {
        /// Q15, G4: with and without over-limit subjobs, the same other jobs start and the same
        /// starts are planned. No array exceeds its maximum.
        #[test]
        fn over_limit_subjobs_take_nothing_from_other_jobs(
            requests in prop::collection::vec(request(), 1..7),
            taken in 1u32..7,
        ) {
            let with = queue(&requests, taken, true).plan();
            let without = queue(&requests, taken, false).plan();
            let own = |plan: &Plan| {
                let starts = plan.starts.iter().filter(|start| start.beyond.is_none());
                // Planned starts are compared without their class, which depends on `expand`.
                let promised = plan.bookings.iter().map(|booking| (booking.job, booking.at, booking.nodes.clone()));
                (starts.cloned().collect::<Vec<_>>(), promised.collect::<Vec<_>>())
            };
            prop_assert_eq!(own(&with), own(&without));
            for (id, (_, _, array)) in (1..).zip(requests) {
                let started = with.starts.iter().filter(|start| start.job.number == id).count() as u32;
                let Some((limit, most, begun)) = array else { continue };
                prop_assert!(started == 0 || begun + started <= limit.max(most), "{id}: {started}");
            }
        }
    }

    #[test]
    fn the_forecast_includes_over_limit_subjobs() {
        let fixture = cluster("1 x ncpus=4")
            .queued(1, "array=1-6%1 expand=3 walltime=60")
            .queued(2, "walltime=90");
        let outlook = forecast::run(
            fixture.state.clone(),
            &fixture.policy,
            fixture.now,
            Budget::default(),
        );
        let at = |start: &JobForecast| match &start.prospect {
            Prospect::Starts { at, .. } => (start.job.to_string(), at.0 / 1000),
            other => panic!("{other:?}"),
        };
        let starts: Vec<(String, i64)> = outlook.starts.iter().map(at).collect();
        let expected = [
            ("1[1]", 0),
            ("2", 0),
            ("1[2]", 0),
            ("1[3]", 0),
            ("1[4]", 60),
            ("1[5]", 60),
            ("1[6]", 60),
        ];
        assert_eq!(starts, expected.map(|(job, at)| (job.to_string(), at)));
    }

    #[test]
    fn a_restarted_scheduler_finds_over_limit_subjobs() {
        let fixture = cluster("1 x ncpus=8").queued(1, "array=1-100%2 expand=5");
        let (array, mut restarted) = (
            fixture.job(1, "array=1-100%2 expand=5"),
            cluster("1 x ncpus=8"),
        );
        for start in fixture.plan().starts {
            let mut element = array
                .subjob_without_record(start.job.index().unwrap())
                .unwrap();
            let run = Run {
                extra: start.beyond.is_some(),
                ..Run::new(1, start.shares, Time(0))
            };
            (element.life.state, element.life.run) = (JobState::Running, Some(run));
            let change =
                serde_json::to_string(&Change::of(element.id, Some(&element), &restarted.policy))
                    .unwrap();
            restarted
                .state
                .make(&serde_json::from_str(&change).unwrap());
        }
        assert_eq!(
            restarted.state.over_limit_subjobs(),
            [5, 4, 3].map(|index| JobId::element(1, index))
        );
    }

    #[test]
    fn a_plan_marks_over_limit_subjobs() {
        let fixture = cluster("1 x ncpus=8").queued(1, "array=1-3%2 expand=5 walltime=60");
        let text = fixture.plan().to_string();
        assert!(
            text.contains(
                "start  1[2]  n1, for 00:01:00\nstart  1[3]  n1 as an extra, for 00:01:00\n"
            ),
            "{text}"
        );
    }
}
