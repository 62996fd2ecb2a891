//! The waiting jobs in the order in which a cycle considers them, each with its position and its
//! priority (I12).

use super::calculator::PriorityCalculator;
use super::tiers;
use crate::model::job_id::JobId;
use crate::model::policy::{Policy, PriorityOrder};
use crate::model::report::queue_place::{Neighbours, QueueTurn};
use crate::model::time::Time;
use crate::sched::view::snapshot::{ClassId, ClusterState, QueuePlace};
use crate::sched::view::sort_key::SortKey;
use std::borrow::Cow;
use std::collections::BTreeMap;

/// All waiting jobs in the order in which a cycle considers them; an array is one entry.
pub struct QueueOrder<'s> {
    state: Cow<'s, ClusterState>,
    policy: &'s Policy,
    /// The jobs, sorted: first jobs that request a reservation (M1), then by priority, then by
    /// place in the queue.
    entries: Vec<OrderEntry>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct OrderEntry {
    is_unreserved: bool,
    sort_key: SortKey,
    place: QueuePlace,
    class: ClassId,
}

impl<'s> QueueOrder<'s> {
    /// The order of a cycle at this time. Uses the priorities as last computed if they are still
    /// valid (F9).
    pub fn of(state: &'s ClusterState, policy: &'s Policy, now: Time) -> QueueOrder<'s> {
        let state = state.prioritised(policy, now);
        let entries = state.classes.values().flat_map(|class| {
            let (is_unreserved, id) = (class.key.reservation.is_none(), class.key.id);
            class.jobs().map(move |(place, waiting)| OrderEntry {
                is_unreserved,
                sort_key: waiting.sort_key,
                place,
                class: id,
            })
        });
        let mut entries: Vec<OrderEntry> = entries.collect();
        entries.sort_unstable();
        QueueOrder {
            state,
            policy,
            entries,
        }
    }

    /// The number of waiting jobs; an array counts as one job.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether no job waits.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// All waiting jobs in order, each with its position and its priority.
    pub fn turns(&self) -> impl Iterator<Item = QueueTurn> {
        let calculator = self.calculator();
        (0..self.len()).filter_map(move |at| self.turn(at, &calculator))
    }

    /// The positions of these jobs, in the order of the queue, each with the next job before it and
    /// the next job after it. A subjob has the position of its array, unless it starts again: then
    /// it has its own. Jobs that do not wait are omitted.
    pub fn places_of(&self, jobs: &[JobId]) -> Vec<Neighbours> {
        let mut wanted: BTreeMap<JobId, Vec<JobId>> = BTreeMap::new();
        for &job in jobs
            .iter()
            .filter(|job| self.state.class_of(**job).is_some())
        {
            let entry = if self.state.jobs.contains_key(&job) {
                Some(job)
            } else {
                job.parent()
            };
            if let Some(entry) = entry {
                wanted.entry(entry).or_default().push(job);
            }
        }
        let calculator = &self.calculator();
        let entries = self.entries.iter().enumerate();
        let found = entries.filter_map(|(at, entry)| Some((at, wanted.get(&entry.place.1)?)));
        found
            .flat_map(|(at, jobs)| {
                jobs.iter()
                    .filter_map(move |&job| self.neighbours(at, job, calculator))
            })
            .collect()
    }

    fn neighbours(
        &self,
        at: usize,
        job: JobId,
        calculator: &PriorityCalculator,
    ) -> Option<Neighbours> {
        let mut own = self.turn(at, calculator)?;
        own.priority.job = job;
        let above = at
            .checked_sub(1)
            .and_then(|above| self.turn(above, calculator));
        Some(Neighbours {
            own,
            above,
            below: self.turn(at + 1, calculator),
        })
    }

    fn turn(&self, at: usize, calculator: &PriorityCalculator) -> Option<QueueTurn> {
        let entry = self.entries.get(at)?;
        let priority = self.state.report_by(calculator, entry.place.1)?;
        let key = &self.state.classes.get(&entry.class)?.key;
        let (who, is_by_cluster) = (
            &key.who,
            self.policy.precedence.order == PriorityOrder::Cluster,
        );
        Some(QueueTurn {
            rank: at as u64 + 1,
            user: who.user.clone(),
            account: who.account.clone(),
            queue: who.queue.clone(),
            is_reserved: !entry.is_unreserved,
            cluster: is_by_cluster.then(|| key.cluster().to_string()),
            precedence: tiers::describe(priority.tier),
            priority,
        })
    }

    fn calculator(&self) -> PriorityCalculator<'_> {
        self.state.rated_by(self.policy)
    }
}

impl ClusterState {
    /// The score of a waiting job as last computed; None if the job does not wait. The job keeps
    /// this score when it starts (F9). A subjob that starts again has its own score; any other
    /// subjob has the score of its array as long as the array waits.
    pub fn score(&self, policy: &Policy, job: JobId) -> Option<f64> {
        match policy.precedence.order {
            PriorityOrder::Fcfs if self.waiting_class(job)?.system_priority.is_none() => {
                self.first_come(job).map(|(_, score)| score)
            }
            _ => self.waiting(job).map(|waiting| waiting.sort_key.score()),
        }
    }

    /// The scores of these waiting jobs at this time; if `jobs` is empty, of all waiting jobs.
    /// Omits jobs that do not wait. The result is empty with [`PriorityOrder::Fcfs`], where scores
    /// follow from the ranks.
    pub fn scores(&self, policy: &Policy, now: Time, jobs: &[JobId]) -> Vec<(JobId, f64)> {
        if policy.precedence.order == PriorityOrder::Fcfs {
            return Vec::new();
        }
        let state = self.prioritised(policy, now);
        let score = |job: JobId| Some((job, state.score(policy, job)?));
        if !jobs.is_empty() {
            return jobs.iter().filter_map(|job| score(*job)).collect();
        }
        let waiting = state.classes.values().flat_map(|class| class.jobs());
        waiting.filter_map(|((_, job), _)| score(job)).collect()
    }

    /// Which of two waiting jobs has the higher priority; a subjob counts as in [`Self::score`].
    /// None if their priorities are equal, if one of them does not wait, or if queues or pools
    /// take turns.
    pub fn higher_priority(&self, policy: &Policy, one: JobId, other: JobId) -> Option<JobId> {
        let (own, theirs) = (self.waiting(one)?.sort_key, self.waiting(other)?.sort_key);
        let decides = own != theirs && !policy.precedence.takes_turns();
        decides.then_some(if own < theirs { one } else { other })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::policy::{Components, Precedence, TurnPolicy};
    use crate::model::report::priority_score::PriorityScore;
    use crate::model::report::queue_place::OrderDifference;
    use crate::sched::fixture::{TestCluster, assert_score_is_sum, cluster};
    use std::sync::Arc;

    /// Jobs with different requests, owners, qualities of service and ranks; job 5 is an array.
    fn fixture(order: PriorityOrder) -> TestCluster {
        let mut fixture = cluster("99 x ncpus=4").queued(1, "select=2:ncpus=1 walltime=60");
        fixture = fixture
            .owned("bob")
            .queued(2, "select=1:ncpus=4 walltime=600 qos=expedite");
        fixture = fixture
            .queued(3, "select=1:ncpus=1 walltime=9 rank=0")
            .queued(4, "select=7:ncpus=1 walltime=9 qos=standby");
        fixture = fixture
            .owned("eve")
            .queued(5, "array=0-3 select=1:ncpus=2 walltime=60")
            .at(1000);
        fixture.policy.precedence = Precedence {
            order,
            ..Precedence::by_formula("nodect * 10 + walltime")
        };
        fixture
    }

    fn order(fixture: &TestCluster) -> Vec<u64> {
        let order = QueueOrder::of(&fixture.state, &fixture.policy, fixture.now);
        order.turns().map(|turn| turn.priority.job.number).collect()
    }

    /// I12.
    #[test]
    fn waiting_jobs_are_reported_in_the_order_in_which_a_cycle_starts_them() {
        for by in [
            PriorityOrder::Fcfs,
            PriorityOrder::Cluster,
            PriorityOrder::Priority,
            PriorityOrder::Formula,
            PriorityOrder::Multifactor,
            PriorityOrder::Pool,
        ] {
            let fixture = fixture(by);
            let mut started: Vec<u64> = fixture
                .plan()
                .starts
                .iter()
                .map(|start| start.job.number)
                .collect();
            started.dedup();
            assert_eq!((order(&fixture), started.len()), (started, 5), "{by:?}");
        }
        assert_eq!(order(&fixture(PriorityOrder::Formula)), [2, 1, 4, 5, 3]);
    }

    #[test]
    fn each_job_is_reported_with_its_position_and_its_priority() {
        let fixture = fixture(PriorityOrder::Multifactor);
        for (at, turn) in QueueOrder::of(&fixture.state, &fixture.policy, fixture.now)
            .turns()
            .enumerate()
        {
            assert_eq!((turn.rank, turn.precedence.as_str()), (at as u64 + 1, ""));
            assert_eq!(
                fixture
                    .state
                    .report(&fixture.policy, fixture.now, turn.priority.job),
                Some(turn.priority)
            );
        }
    }

    #[test]
    fn a_job_is_reported_with_its_neighbours_and_the_differences() {
        let fixture = fixture(PriorityOrder::Formula);
        let queue = QueueOrder::of(&fixture.state, &fixture.policy, fixture.now);
        let jobs = [
            JobId::job(3),
            JobId::element(5, 2),
            JobId::job(2),
            JobId::job(77),
        ];
        let reported: Vec<_> = queue.places_of(&jobs);
        let ids = |turn: &Option<QueueTurn>| {
            turn.as_ref()
                .map(|turn| (turn.rank, turn.priority.job.number))
        };
        let shown: Vec<_> = reported
            .iter()
            .map(|place| {
                (
                    ids(&place.above),
                    place.own.priority.job,
                    place.own.rank,
                    ids(&place.below),
                )
            })
            .collect();
        assert_eq!(
            shown,
            [
                (None, JobId::job(2), 1, Some((2, 1))),
                (Some((3, 4)), JobId::element(5, 2), 4, Some((5, 3))),
                (Some((4, 5)), JobId::job(3), 5, None),
            ]
        );
        let differences = reported[2]
            .own
            .differences(reported[2].above.as_ref().unwrap());
        assert!(
            matches!(&differences[..], [OrderDifference::Part(own, other)]
            if (own.name.as_str(), own.factor, other.factor) == ("walltime", 9.0, 60.0)),
            "{differences:?}"
        );
    }

    #[test]
    fn a_subjob_has_the_score_of_its_array() {
        let mut fixture = fixture(PriorityOrder::Formula);
        fixture.state.prioritise(&fixture.policy, fixture.now);
        let jobs = [JobId::job(2), JobId::element(5, 1), JobId::job(77)];
        assert_eq!(
            jobs.map(|job| fixture.state.score(&fixture.policy, job)),
            [Some(610.0), Some(70.0), None]
        );
    }

    /// X18.
    #[test]
    fn no_job_has_the_higher_priority_if_priorities_are_equal_or_pools_take_turns() {
        let more = |by: PriorityOrder, one: u64, other: u64| {
            let mut fixture = fixture(by);
            fixture.state.prioritise(&fixture.policy, fixture.now);
            fixture
                .state
                .higher_priority(&fixture.policy, JobId::job(one), JobId::job(other))
                .map(|job| job.number)
        };
        assert_eq!(
            (
                more(PriorityOrder::Formula, 1, 2),
                more(PriorityOrder::Formula, 2, 1)
            ),
            (Some(2), Some(2))
        );
        assert_eq!(
            [
                PriorityOrder::Fcfs,
                PriorityOrder::Priority,
                PriorityOrder::Pool
            ]
            .map(|by| more(by, 1, 2)),
            [None; 3]
        );
        assert_eq!(more(PriorityOrder::Formula, 1, 77), None);
    }

    /// F14, M11.
    #[test]
    fn fcfs_scores_fall_with_the_rank_and_are_below_any_system_priority() {
        let mut fixture = fixture(PriorityOrder::Fcfs);
        let mut job = fixture.job(9, "select=1:ncpus=1");
        Arc::make_mut(&mut job.spec).system_priority = Some(5);
        fixture.state.enqueue(&job);
        fixture.state.prioritise(&fixture.policy, fixture.now);
        let score = |job| fixture.state.score(&fixture.policy, JobId::job(job));
        let highest = f64::from(u32::MAX);
        assert_eq!(
            [1, 2, 9].map(score),
            [
                Some(highest),
                Some(highest - 1.0),
                Some(Components::MOST + 5.0)
            ]
        );
        for (job, part) in [(1, "rank"), (9, "system_priority")] {
            let priority = fixture
                .state
                .report(&fixture.policy, fixture.now, JobId::job(job))
                .unwrap();
            assert_eq!(
                (
                    Some(priority.score),
                    &*priority.parts[0].name,
                    priority.parts.len()
                ),
                (score(job), part, 1)
            );
        }
    }

    #[test]
    fn the_parts_of_a_score_depend_on_the_configured_order() {
        let parts = |order| {
            let fixture = fixture(order);
            let priority = fixture
                .state
                .report(&fixture.policy, fixture.now, JobId::job(2))
                .unwrap();
            priority
                .parts
                .into_iter()
                .map(|part| part.name)
                .collect::<Vec<String>>()
        };
        assert_eq!(
            [PriorityOrder::Priority, PriorityOrder::Cluster].map(parts),
            [["job_priority"]; 2]
        );
        assert_eq!(
            parts(PriorityOrder::Pool),
            ["pool_satisfaction", "operation_satisfaction"]
        );
    }

    /// I22.
    #[test]
    fn a_later_job_is_reported_with_the_number_of_turns_before_it() {
        let mut fixture = cluster("1 x ncpus=1")
            .queued(1, "select=1:ncpus=1")
            .queued(2, "select=1:ncpus=1");
        fixture.policy.precedence.tiers.turns = TurnPolicy::RoundRobin;
        let fixture = fixture.queued(3, "select=1:ncpus=1 queue=night");
        let queue = QueueOrder::of(&fixture.state, &fixture.policy, fixture.now);
        let reported: Vec<String> = queue.turns().map(|turn| turn.precedence).collect();
        assert_eq!(reported, ["", "", "queue turn 2 (lower turns first)"]);
    }

    /// M1.
    #[test]
    fn jobs_that_request_a_reservation_come_first() {
        let mut fixture = fixture(PriorityOrder::Fcfs);
        let mut job = fixture.job(9, "select=1:ncpus=1");
        Arc::make_mut(&mut job.spec).reservation = Some("R1".to_string());
        fixture.state.enqueue(&job);
        assert_eq!(order(&fixture)[0], 9);
        let queue = QueueOrder::of(&fixture.state, &fixture.policy, fixture.now);
        let reported: Vec<(bool, String)> = queue
            .turns()
            .map(|turn| (turn.is_reserved, turn.precedence))
            .collect();
        assert_eq!(
            (reported[0].0, reported.iter().filter(|turn| turn.0).count()),
            (true, 1)
        );
        assert!(
            reported.iter().all(|turn| turn.1.is_empty()) && queue.len() == 6 && !queue.is_empty()
        );
        let empty = cluster("1 x ncpus=1");
        assert!(QueueOrder::of(&empty.state, &empty.policy, empty.now).is_empty());
    }

    /// F9.
    #[test]
    fn within_the_update_period_the_last_computed_priorities_are_reported() {
        let mut fixture = fixture(PriorityOrder::Multifactor);
        fixture.policy.precedence.update_period = crate::model::time::Span::seconds(3600);
        fixture.state.prioritise(&fixture.policy, fixture.now);
        let priorities = |fixture: &TestCluster| {
            let queue = QueueOrder::of(&fixture.state, &fixture.policy, fixture.now);
            queue
                .turns()
                .map(|turn| turn.priority)
                .collect::<Vec<PriorityScore>>()
        };
        let first = priorities(&fixture);
        let fixture = fixture.at(4000);
        assert_eq!(priorities(&fixture), first);
        for priority in &first {
            assert_score_is_sum(priority);
        }
        assert_ne!(priorities(&fixture.at(4600)), first);
    }
}
