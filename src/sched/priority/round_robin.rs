//! Orders in which queues or pools (accounts) take turns: at each turn, one job of a queue or pool
//! comes next. Queues take turns in round-robin order (I22). Of the pools, the pool with the lowest
//! satisfaction (usage divided by fair share) has the next turn (X10). The turn of a job depends on
//! the jobs before it in its queue or pool, so turns are assigned after all priorities are
//! computed. An array has one turn for all its subjobs.

use super::inputs::PriorityInputs;
use super::pool_satisfaction::PoolTurns;
use crate::model::policy::{Precedence, PriorityOrder, TurnPolicy};
use crate::sched::view::class::{Class, QueuePlace, WaitingJob};
use crate::sched::view::queue_turns::QueueTurns;
use crate::sched::view::shape::{ClassId, ClassKey};
use crate::sched::view::sort_key::SortKey;
use std::collections::BTreeMap;
use std::sync::Arc;

impl Precedence {
    /// Whether queues or pools take turns.
    pub fn takes_turns(&self) -> bool {
        self.order == PriorityOrder::Pool || self.tiers.turns == TurnPolicy::RoundRobin
    }
}

/// A waiting job of a queue or pool.
struct QueuedJob<'a> {
    sort_key: SortKey,
    place: QueuePlace,
    waiting: &'a WaitingJob,
    class: &'a ClassKey,
}

impl QueuedJob<'_> {
    /// The entry of the job in [`AssignedTurns`] with this sort key. A job with a system priority
    /// keeps its own sort key (M11).
    fn assigned(&self, sort_key: SortKey) -> ((ClassId, QueuePlace), SortKey) {
        let is_ordered = self.class.system_priority.is_some();
        (
            (self.class.id, self.place),
            if is_ordered { self.sort_key } else { sort_key },
        )
    }
}

/// Sets the sort keys of all waiting jobs according to their turns.
pub fn assign_turns(classes: &mut BTreeMap<ClassId, Arc<Class>>, inputs: &PriorityInputs) {
    let turns = match inputs.policy.precedence.order {
        PriorityOrder::Pool => by_pool(classes, inputs),
        _ => by_queue(classes, &inputs.state.served),
    };
    for (id, class) in classes.iter_mut() {
        Arc::make_mut(class).set_sort_keys(|place, waiting| {
            turns
                .get(&(*id, place))
                .copied()
                .unwrap_or(waiting.sort_key)
        });
    }
}

/// The sort key of each job, by class and place in the queue.
type AssignedTurns = BTreeMap<(ClassId, QueuePlace), SortKey>;

/// The waiting jobs of each queue or pool, in order of priority. `name_of` returns the queue or
/// pool of a class.
fn jobs_by_name<'a>(
    classes: &'a BTreeMap<ClassId, Arc<Class>>,
    name_of: impl Fn(&ClassKey) -> String,
) -> BTreeMap<String, Vec<QueuedJob<'a>>> {
    let mut by_name: BTreeMap<String, Vec<QueuedJob>> = BTreeMap::new();
    for class in classes.values() {
        let jobs = class.jobs().map(|(place, waiting)| QueuedJob {
            sort_key: waiting.sort_key,
            place,
            waiting,
            class: &class.key,
        });
        by_name.entry(name_of(&class.key)).or_default().extend(jobs);
    }
    for jobs in by_name.values_mut() {
        jobs.sort_unstable_by_key(|job| (job.sort_key, job.place));
    }
    by_name
}

/// Assigns turns to queues. In each round, each queue has one turn with its next job, the least
/// recently served queue first. A job of a higher tier (queue priority, `max_starve`) still comes
/// before all turns of lower tiers.
fn by_queue(classes: &BTreeMap<ClassId, Arc<Class>>, served: &QueueTurns) -> AssignedTurns {
    let queues = jobs_by_name(classes, |class| class.who.queue.clone());
    let mut assigned = AssignedTurns::new();
    for (queue, jobs) in &queues {
        let before = served.before(queue, queues.keys().map(String::as_str));
        for (turn, job) in jobs.iter().enumerate() {
            let behind = (turn * queues.len()) as i64 + before;
            let key = SortKey::of(job.sort_key.tier() - behind, job.sort_key.score());
            assigned.extend([job.assigned(key)]);
        }
    }
    assigned
}

/// The minimum difference between the scores of successive jobs of a pool. It is lost in rounding
/// if the satisfaction is above about 17 million.
const STEP: f64 = 1e-9;

/// Assigns turns to pools. Among jobs of one tier, the pool with the lowest satisfaction has the
/// next turn. The requests of a pool's earlier turns are added to its usage. Within a pool, the
/// operation (job or array) with the lowest satisfaction comes first (Y22). In a FIFO pool, the
/// operations come in the order of the pool (Y23).
fn by_pool(classes: &BTreeMap<ClassId, Arc<Class>>, inputs: &PriorityInputs) -> AssignedTurns {
    let all = classes.values().map(|class| &**class);
    let mut pools = PoolTurns::new(inputs.state, inputs.policy, all, inputs.now);
    let jobs_by_pool = jobs_by_name(classes, |class| pools.pool_of(class));
    let mut assigned = AssignedTurns::new();
    for (pool, jobs) in jobs_by_pool {
        let mut jobs: Vec<(f64, QueuedJob)> = jobs
            .into_iter()
            .map(|job| (pools.key_in_pool(job.place.1, job.class), job))
            .collect();
        // The sort is stable: jobs with equal keys keep their order.
        jobs.sort_by(|(a, one), (b, other)| one.sort_key.cmp(&other.sort_key).then(a.total_cmp(b)));
        // `least` grows with each job of the pool, even if the satisfaction of the pool does not,
        // so that the jobs keep this order. If `STEP` is lost in rounding, jobs with equal scores
        // are ordered by place in the queue.
        let mut least = f64::NEG_INFINITY;
        assigned.extend(jobs.iter().map(|(_, job)| {
            let satisfaction = pools.serve(&pool, job.class, job.waiting);
            least = f64::max(least + STEP, satisfaction);
            job.assigned(SortKey::of(job.sort_key.tier(), -least))
        }));
    }
    assigned
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::account::Account;
    use crate::sched::fixture::{TestCluster, cluster};
    use crate::sched::priority::queue_order::QueueOrder;

    fn by_pool(accounts: &[&str]) -> TestCluster {
        let mut fixture = cluster("1 x ncpus=100");
        fixture.policy.precedence.order = PriorityOrder::Pool;
        let account = |name: &&str| Account {
            name: name.to_string(),
            ..Account::default()
        };
        fixture.policy.fair_share.accounts = accounts.iter().map(account).collect();
        fixture
    }

    /// Adds a waiting job of an account, optionally with a system priority.
    fn queued(
        fixture: TestCluster,
        id: u64,
        text: &str,
        account: &str,
        system_priority: Option<i32>,
    ) -> TestCluster {
        let mut fixture = fixture;
        let mut job = fixture.job(id, text);
        let spec = Arc::make_mut(&mut job.spec);
        (spec.account, spec.system_priority) = (Some(account.to_string()), system_priority);
        fixture.state.enqueue(&job);
        fixture
    }

    fn order(fixture: &TestCluster) -> Vec<u64> {
        let order = QueueOrder::of(&fixture.state, &fixture.policy, fixture.now);
        order.turns().map(|turn| turn.priority.job.number).collect()
    }

    /// X10: the subjobs of array 1 request 100 CPUs, the jobs of pool b only 60. The jobs of pool b
    /// therefore come before job 2 of pool a.
    #[test]
    fn the_turn_of_an_array_counts_the_requests_of_all_its_subjobs() {
        let fixture = queued(
            by_pool(&["a", "b"]),
            1,
            "select=1:ncpus=1 array=1-100",
            "a",
            None,
        );
        let fixture = queued(fixture, 2, "select=1:ncpus=1", "a", None);
        let fixture = (3..=5).fold(fixture, |fixture, id| {
            queued(fixture, id, "select=1:ncpus=20", "b", None)
        });
        assert_eq!(order(&fixture), [1, 3, 4, 5, 2]);
    }

    /// X10, F10: account b is not configured and has no shares.
    #[test]
    fn jobs_of_a_pool_without_shares_come_last() {
        let fixture = queued(by_pool(&["a"]), 1, "select=1:ncpus=1", "b", None);
        let fixture = queued(fixture, 2, "select=1:ncpus=100", "a", None);
        let fixture = queued(fixture, 3, "select=1:ncpus=100", "a", None);
        assert_eq!(order(&fixture), [2, 3, 1]);
    }

    /// M11.
    #[test]
    fn jobs_with_a_system_priority_come_before_all_turns() {
        let fixture = queued(by_pool(&["a", "b"]), 1, "select=1:ncpus=1", "a", None);
        let fixture = queued(fixture, 2, "select=1:ncpus=1", "b", None);
        let fixture = queued(fixture, 3, "select=1:ncpus=1", "b", Some(5));
        let mut fixture = queued(fixture, 4, "select=1:ncpus=1 queue=late", "b", Some(6));
        assert_eq!(order(&fixture), [4, 3, 1, 2]);
        fixture.policy.precedence = Precedence::fcfs();
        fixture.policy.precedence.tiers.turns = TurnPolicy::RoundRobin;
        fixture.state.served.note("late");
        assert_eq!(order(&fixture), [4, 3, 1, 2]);
    }
}
