//! Results of one cycle that are still valid in the next cycle.
//!
//! Little changes between two cycles: most requests that did not fit still do not fit. The cache
//! stores how many chunks of a request fit, and corrects this number for changed nodes. A new
//! computation gives the same result, so plans do not depend on the cache.

use super::availability_map::{AvailabilityMap, NodeClassIndex};
use super::filter::times_on;
use super::place;
use crate::model::policy::{PlacementPolicy, Policy};
use crate::model::reason::Reason;
use crate::model::time::Time;
use crate::sched::view::cluster::{Cluster, NodeClassKey};
use crate::sched::view::plan::Plan;
use crate::sched::view::shape::{Shape, ShapeId};
use crate::sched::view::snapshot::ClusterState;
use std::collections::BTreeMap;
use std::sync::Arc;

/// If more nodes than this have changed since the last cycle, the cached reasons are discarded.
const MAX_CHANGES: usize = 64;

/// The cached results of earlier cycles.
#[derive(Clone, Debug, Default)]
pub struct CycleCache {
    placement: PlacementPolicy,
    /// The edition of the cluster in the last cycle. It grows with each change of a node or of the
    /// order of nodes, but not with changes of jobs, load or measured use.
    edition: u64,
    /// The class of each node in the last cycle.
    rooms: NodeClassIndex,
    /// For each shape with too few fitting chunks: the reason, with the number of chunks that fit.
    scattered: BTreeMap<ShapeId, Arc<Reason>>,
    /// The class of each changed node, before and after the change.
    changes: Vec<[Option<Arc<NodeClassKey>>; 2]>,
    /// The results of the current cycle, which will replace `scattered`.
    found: Vec<(ShapeId, Arc<Reason>)>,
    /// The result of the last cycle. None if no result is known, or if the cycle started, resumed
    /// or preempted a job.
    conclusion: Option<Conclusion>,
}

/// The result of a cycle that started, resumed and preempted no job.
#[derive(Clone, Debug)]
struct Conclusion {
    edition: u64,
    policy: Arc<Policy>,
    /// The time at which a cycle is due even if nothing changes.
    next: Option<Time>,
}

impl CycleCache {
    /// Finds the nodes that have changed since the last cycle, so that [`CycleCache::recall`] can
    /// correct the cached reasons. Discards these reasons if a correction is not possible, or if
    /// more than `MAX_CHANGES` nodes have changed. Must be called in each cycle before `recall`.
    pub fn find_changed_nodes(&mut self, space: &AvailabilityMap, placement: &PlacementPolicy) {
        let rooms = space.rooms();
        let is_comparable = self.edition == space.cluster.edition()
            && self.rooms.buckets.len() == rooms.buckets.len()
            && is_plain(space.cluster)
            && self.placement == *placement;
        self.changes.clear();
        if is_comparable {
            self.note_changes(&rooms);
        } else {
            self.scattered.clear();
            self.placement.clone_from(placement);
            self.edition = space.cluster.edition();
        }
        self.rooms = rooms;
        self.found.reserve(self.scattered.len());
    }

    fn note_changes(&mut self, rooms: &NodeClassIndex) {
        for node in 0..rooms.buckets.len() {
            let (before, now) = (self.rooms.of(node), rooms.of(node));
            let is_same = match (before, now) {
                (Some(before), Some(now)) => Arc::ptr_eq(before, now) || before == now,
                (before, now) => before.is_none() && now.is_none(),
            };
            if !is_same {
                self.changes.push([before.cloned(), now.cloned()]);
            }
            if self.changes.len() > MAX_CHANGES {
                return self.scattered.clear();
            }
        }
    }

    /// Why a shape still does not fit: the cached number of chunks that fit, corrected for changed
    /// nodes. None if the shape is not cached, if enough chunks fit now, or if the total free
    /// amounts are too small, which is another reason.
    pub fn recall(&mut self, space: &AvailabilityMap, shape: &Shape) -> Option<Arc<Reason>> {
        let known = self.scattered.get(&shape.id)?;
        let (Reason::Scattered { fitting, needed }, [chunk]) = (&**known, &shape.chunks[..]) else {
            return None;
        };
        if !place::is_enough_free(space, shape) {
            return None;
        }
        let times = |key: &Option<Arc<NodeClassKey>>| {
            key.as_ref()
                .map_or(0, |key| times_on(space, shape, chunk, key) as i64)
        };
        let changes = self.changes.iter();
        let change: i64 = changes
            .map(|[before, now]| times(now) - times(before))
            .sum();
        let now_fitting = fitting.saturating_add_signed(change);
        if now_fitting >= *needed {
            return None;
        }
        let reason = match change {
            0 => known.clone(),
            _ => Arc::new(Reason::Scattered {
                fitting: now_fitting,
                needed: *needed,
            }),
        };
        self.found.push((shape.id, reason.clone()));
        Some(reason)
    }

    /// Caches the reason why a shape does not fit, if the reason is that too few chunks fit and the
    /// number of these chunks depends only on the free resources of nodes.
    pub fn store_reason(&mut self, space: &AvailabilityMap, shape: &Shape, reason: &Arc<Reason>) {
        let is_lasting = matches!(**reason, Reason::Scattered { .. })
            && shape.is_common()
            // The use of system-wide resources can change without a change of a node.
            && shape.pooled.is_empty();
        if is_lasting && place::is_counted(space, shape) {
            self.found.push((shape.id, reason.clone()));
        }
    }

    /// Records the result of a cycle that started, resumed and preempted no job. After any other
    /// cycle, no result is known.
    pub(in crate::sched) fn conclude(
        &mut self,
        state: &ClusterState,
        policy: &Policy,
        plan: &Plan,
    ) {
        let before = self.conclusion.take();
        if !plan.starts.is_empty() || !plan.preempts.is_empty() || !plan.resumes.is_empty() {
            return;
        }
        let known = before
            .map(|before| before.policy)
            .filter(|known| **known == *policy);
        let policy = known.unwrap_or_else(|| Arc::new(policy.clone()));
        self.conclusion = Some(Conclusion {
            edition: state.edition,
            policy,
            next: plan.next,
        });
    }

    /// Whether the result of the last cycle is still valid: the state and the policy are unchanged,
    /// and the next scheduled cycle is not due. Always false once a running job has reached its
    /// expected end, because this end, and with it planned starts, then move with the clock.
    pub(in crate::sched) fn still_holds(
        &self,
        state: &ClusterState,
        policy: &Policy,
        now: Time,
    ) -> bool {
        let is_overdue = state.ends.first().is_some_and(|(end, _)| *end <= now);
        !is_overdue
            && self.conclusion.as_ref().is_some_and(|last| {
                last.edition == state.edition
                    && last.next.is_none_or(|next| now < next)
                    && *last.policy == *policy
            })
    }

    /// Discards the result of the last cycle, so that another cycle is due.
    pub fn doubt(&mut self) {
        self.conclusion = None;
    }

    /// Keeps only the reasons that this cycle has used or computed. Must be called in each cycle
    /// after `recall` and `store_reason`.
    pub fn keep_used_results(&mut self) {
        self.scattered = std::mem::take(&mut self.found).into_iter().collect();
    }
}

/// Whether no node has restrictions, and no GPU is in use by processes outside of jobs. Then only
/// free resources determine how many chunks fit.
fn is_plain(cluster: &Cluster) -> bool {
    cluster.used_outside().next().is_none()
        && cluster
            .kinds()
            .all(|(_, kind)| kind.terms.restrictions.is_none())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::job_id::JobId;
    use crate::model::node::NodeTerms;
    use crate::model::policy::{Backfill, BookingRetention, Filling, SetAside};
    use crate::model::time::Span;
    use crate::sched::cycle;
    use crate::sched::fixture::{TestCluster, cluster};
    use crate::sched::view::pools::Pool;
    use std::num::Wrapping;

    /// A generator of pseudo-random numbers, which are equal in every run.
    struct Dice(Wrapping<u64>);

    impl Dice {
        fn roll(&mut self, sides: u64) -> u64 {
            self.0 =
                self.0 * Wrapping(6_364_136_223_846_793_005) + Wrapping(1_442_695_040_888_963_407);
            (self.0.0 >> 33) % sides
        }
    }

    /// Changes the state at random: a job is submitted, ends or is deleted, or a node goes down,
    /// returns or changes.
    fn random_event(mut fixture: TestCluster, dice: &mut Dice, step: u64) -> TestCluster {
        let node = 1 + dice.roll(12);
        match dice.roll(20) {
            0..12 => {
                let place =
                    ["free", "scatter", "pack", "scatter:excl", "vscatter"][dice.roll(5) as usize];
                let (count, ncpus, mem) = (1 + dice.roll(9), 2 + dice.roll(7), 1 + dice.roll(12));
                let kind = if dice.roll(8) == 0 { ":big=True" } else { "" };
                let walltime = 10 + dice.roll(200);
                let request =
                    format!("select={count}:ncpus={ncpus}:mem={mem}gb{kind} place={place}");
                fixture.queued(step, &format!("{request} walltime={walltime}"))
            }
            12..17 => {
                let running: Vec<JobId> = fixture.state.holders().collect();
                if !running.is_empty() {
                    fixture
                        .state
                        .vacate(running[dice.roll(running.len() as u64) as usize]);
                }
                fixture
            }
            17 => fixture.node(
                &format!("n{node}"),
                &format!("ncpus={}:mem=16gb", 4 + dice.roll(2) * 4),
                dice.roll(4) > 0,
            ),
            18 => fixture.node(&format!("n{node}"), "ncpus=8:mem=16gb:big=True", true),
            _ => {
                fixture.state.withdraw(JobId::job(dice.roll(step + 1)));
                fixture
            }
        }
    }

    #[test]
    fn a_plan_is_the_same_with_a_cache_and_without() {
        let (mut dice, mut cache, mut uses, mut idle) =
            (Dice(Wrapping(7)), CycleCache::default(), 0, 0);
        let mut fixture = cluster("6 x ncpus=8:mem=16gb, 6 x ncpus=4:mem=32gb");
        for step in 1..900 {
            fixture = random_event(fixture, &mut dice, step).at(step as i64);
            fixture.state.prioritise(&fixture.policy, fixture.now);
            let known_before = cache.scattered.len();
            let plan = cycle::run_again(&fixture.state, &fixture.policy, fixture.now, &mut cache);
            assert_eq!(
                plan,
                cycle::run(&fixture.state, &fixture.policy, fixture.now),
                "step {step}"
            );
            let later = fixture.now + Span(999);
            if !cycle::is_due(&fixture.state, &fixture.policy, later, &cache) {
                idle += 1;
                assert!(
                    cycle::run(&fixture.state, &fixture.policy, later)
                        .starts
                        .is_empty(),
                    "step {step}"
                );
            }
            uses += usize::from(
                known_before > 2
                    && (1..4).contains(&cache.changes.len())
                    && cache.scattered.len() > 2,
            );
            fixture.apply(&plan);
        }
        assert!(uses > 100, "only {uses} cycles used the cache");
        assert!(idle > 100, "only {idle} checks found that no cycle was due");
    }

    /// Checked with many backfill policies.
    #[test]
    fn a_cycle_that_is_not_due_would_start_and_preempt_no_job() {
        let chunk = SetAside {
            size: 12,
            duration: Span::seconds(3),
        };
        let rules = [
            Backfill {
                depth: Backfill::ALL,
                ..Backfill::default()
            },
            Backfill {
                keep: BookingRetention::Highest,
                depth: 3,
                ..Backfill::default()
            },
            Backfill {
                keep: BookingRetention::Never,
                ..Backfill::default()
            },
            Backfill {
                policy: Filling::Preempt,
                depth: 2,
                ..Backfill::default()
            },
            Backfill {
                policy: Filling::Greedy,
                ..Backfill::default()
            },
            Backfill {
                policy: Filling::Skip,
                depth: 0,
                ..Backfill::default()
            },
            Backfill {
                policy: Filling::None,
                ..Backfill::default()
            },
            Backfill {
                chunk: Some(chunk),
                ..Backfill::default()
            },
            Backfill {
                keep: BookingRetention::Highest,
                depth: 2,
                consider: 2,
                ..Backfill::default()
            },
        ];
        for backfill in rules {
            let (mut dice, mut cache, mut idle) = (Dice(Wrapping(7)), CycleCache::default(), 0);
            let mut fixture = cluster("6 x ncpus=8:mem=16gb, 6 x ncpus=4:mem=32gb");
            fixture.policy.backfill = backfill;
            for step in 1..120 {
                fixture = random_event(fixture, &mut dice, step).at(step as i64 * 5);
                fixture.state.prioritise(&fixture.policy, fixture.now);
                let plan =
                    cycle::run_again(&fixture.state, &fixture.policy, fixture.now, &mut cache);
                fixture.apply(&plan);
                plan.preempts
                    .iter()
                    .for_each(|preemption| fixture.state.vacate(preemption.job));
                for later in [1, 4999] {
                    let later = fixture.now + Span(later);
                    if !cycle::is_due(&fixture.state, &fixture.policy, later, &cache) {
                        idle += 1;
                        let plan = cycle::run(&fixture.state, &fixture.policy, later);
                        let decided = (plan.starts.len(), plan.preempts.len());
                        assert_eq!(
                            decided,
                            (0, 0),
                            "step {step}, {:?}",
                            fixture.policy.backfill
                        );
                    }
                }
            }
            assert!(idle > 20, "only {idle} checks found that no cycle was due");
        }
    }

    #[test]
    fn a_cycle_is_due_after_a_change_or_at_the_scheduled_time() {
        let mut fixture = cluster("1 x ncpus=4").queued(1, "select=1:ncpus=4 walltime=600");
        let mut cache = CycleCache::default();
        let mut due = |fixture: &TestCluster, at: i64| {
            let due = cycle::is_due(&fixture.state, &fixture.policy, Time(at * 1000), &cache);
            let plan =
                cycle::run_again(&fixture.state, &fixture.policy, Time(at * 1000), &mut cache);
            (due, plan)
        };
        fixture.state.prioritise(&fixture.policy, Time(0));
        let (is_due, plan) = due(&fixture, 0);
        assert!(
            is_due && due(&fixture, 0).0,
            "the start of job 1 has not been carried out"
        );
        fixture.apply(&plan);
        let mut fixture = fixture.queued(2, "select=1:ncpus=1 walltime=60");
        fixture.state.prioritise(&fixture.policy, Time(0));
        assert_eq!(
            [due(&fixture, 1).0, due(&fixture, 2).0, due(&fixture, 599).0],
            [true, false, false]
        );
        assert!(due(&fixture, 600).0, "the planned start is due");
        fixture.policy.backfill.depth = 7;
        assert_eq!(
            [due(&fixture, 2).0, due(&fixture, 3).0],
            [true, false],
            "the policy has changed"
        );
        fixture.state.withdraw(JobId::job(2));
        assert!(due(&fixture, 4).0);
    }

    #[test]
    fn without_waiting_jobs_no_cycle_is_due_until_a_change() {
        let (mut fixture, mut cache) = (cluster("1 x ncpus=4"), CycleCache::default());
        fixture.state.prioritise(&fixture.policy, Time(0));
        assert!(cycle::is_due(
            &fixture.state,
            &fixture.policy,
            Time(0),
            &cache
        ));
        cycle::run_again(&fixture.state, &fixture.policy, Time(0), &mut cache);
        assert!(!cycle::is_due(
            &fixture.state,
            &fixture.policy,
            Time(900_000_000),
            &cache
        ));
        cache.doubt();
        assert!(cycle::is_due(
            &fixture.state,
            &fixture.policy,
            Time(0),
            &cache
        ));
    }

    /// The reasons of job 3 before and after the end of job `ends`. Checks that plans with a cache
    /// equal plans without a cache.
    fn again(mut fixture: TestCluster, ends: u64) -> [String; 2] {
        let mut cache = CycleCache::default();
        [true, false].map(|is_first| {
            let plan = cycle::run_again(&fixture.state, &fixture.policy, fixture.now, &mut cache);
            assert_eq!(
                plan,
                cycle::run(&fixture.state, &fixture.policy, fixture.now)
            );
            let code = fixture
                .state
                .verdict(&plan, JobId::job(3))
                .unwrap()
                .code()
                .into_owned();
            if is_first {
                fixture.apply(&plan);
                fixture.state.vacate(JobId::job(ends));
            }
            code
        })
    }

    #[test]
    fn only_the_reason_that_too_few_chunks_fit_is_cached() {
        let terms = NodeTerms {
            restrictions: Some("/post/+".parse().unwrap()),
            ..NodeTerms::default()
        };
        let fixture = cluster("2 x ncpus=4")
            .terms("n1", "ncpus=4", terms)
            .queued(2, "select=1:ncpus=4 rank=0");
        let fixture = fixture.running(8, "select=1:ncpus=2", "n1", 600).running(
            9,
            "select=1:ncpus=2",
            "n2",
            600,
        );
        assert_eq!(
            again(fixture.queued(3, "select=1:ncpus=3 walltime=9:00:00"), 8),
            ["fragmented", "restriction"]
        );
        let fixture = cluster("1 x ncpus=4:ngpus=4, 1 x ncpus=4:ngpus=3").used_outside(
            "n1",
            "ncpus=4:ngpus=4",
            &[3],
        );
        let fixture = fixture.running(7, "select=1:ngpus=1", "n1", 600).running(
            8,
            "select=1:ngpus=1",
            "n1",
            600,
        );
        let fixture = fixture
            .running(6, "select=1:ncpus=4", "n2", 600)
            .queued(2, "select=2:ncpus=4 rank=0");
        let fixture = fixture.running(9, "select=1:ngpus=1", "n2", 600);
        assert_eq!(
            again(fixture.queued(3, "select=1:ngpus=3 walltime=9:00:00"), 8),
            ["fragmented", "used_outside"]
        );
    }

    /// Q21: the hosts that may use a license can change without a change of a node.
    #[test]
    fn requests_for_licenses_are_not_cached() {
        let mut fixture = cluster("3 x ncpus=4").running(9, "select=2:ncpus=2", "n2,n3", 600);
        fixture.state.set_pool(
            "site_lic",
            Pool {
                total: 5,
                ..Pool::default()
            },
        );
        let mut fixture = fixture
            .queued(1, "select=2:ncpus=4")
            .queued(2, "select=2:ncpus=3 site_lic=1");
        let mut cache = CycleCache::default();
        let mut fitting = |fixture: &TestCluster| {
            let plan = cycle::run_again(&fixture.state, &fixture.policy, fixture.now, &mut cache);
            fixture.state.verdict(&plan, JobId::job(2)).cloned()
        };
        assert_eq!(
            fitting(&fixture),
            Some(Reason::Scattered {
                fitting: 1,
                needed: 2
            })
        );
        let scope = "hosts=n2".parse().unwrap();
        fixture.state.set_pool(
            "site_lic",
            Pool {
                total: 5,
                scope,
                ..Pool::default()
            },
        );
        assert_eq!(
            fitting(&fixture),
            Some(Reason::NeverNodes {
                requested: 2,
                total: 1
            })
        );
    }
}
