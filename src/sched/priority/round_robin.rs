//! Orders in which jobs take turns: queues one after the other (I22), and pools by satisfaction
//! (X10). A job's turn depends on the jobs before it in its queue or pool, so turns are assigned
//! after all priorities are computed. An array takes one turn with all its subjobs.

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
    /// Whether a job's turn depends on the jobs before it.
    pub fn takes_turns(&self) -> bool {
        self.order == PriorityOrder::Pool || self.tiers.turns == TurnPolicy::RoundRobin
    }
}

/// A job in the line of its queue or pool.
struct InLine<'a> {
    sort_key: SortKey,
    place: QueuePlace,
    waiting: &'a WaitingJob,
    class: &'a ClassKey,
}

impl InLine<'_> {
    /// The job's entry with this sort key. A job with a system priority keeps its own key (M11).
    fn assigned(&self, sort_key: SortKey) -> ((ClassId, QueuePlace), SortKey) {
        let is_ordered = self.class.system_priority.is_some();
        (
            (self.class.id, self.place),
            if is_ordered { self.sort_key } else { sort_key },
        )
    }
}

/// Assigns the turns.
pub fn assign_turns(classes: &mut BTreeMap<ClassId, Arc<Class>>, inputs: &PriorityInputs) {
    let turns = match inputs.policy.precedence.order {
        PriorityOrder::Pool => by_pool(classes, inputs),
        _ => by_queue(classes, &inputs.state.served),
    };
    for (id, class) in classes.iter_mut() {
        Arc::make_mut(class).rate_by(|place, waiting| {
            turns
                .get(&(*id, place))
                .copied()
                .unwrap_or(waiting.sort_key)
        });
    }
}

type AssignedTurns = BTreeMap<(ClassId, QueuePlace), SortKey>;

/// The lines by name, each in order.
fn in_lines<'a>(
    classes: &'a BTreeMap<ClassId, Arc<Class>>,
    line: impl Fn(&ClassKey) -> String,
) -> BTreeMap<String, Vec<InLine<'a>>> {
    let mut lines: BTreeMap<String, Vec<InLine>> = BTreeMap::new();
    for class in classes.values() {
        let jobs = class.jobs().map(|(place, waiting)| InLine {
            sort_key: waiting.sort_key,
            place,
            waiting,
            class: &class.key,
        });
        lines.entry(line(&class.key)).or_default().extend(jobs);
    }
    for line in lines.values_mut() {
        line.sort_unstable_by_key(|job| (job.sort_key, job.place));
    }
    lines
}

/// The first job of each queue, then the second of each; the queue that was served longest ago
/// comes first.
fn by_queue(classes: &BTreeMap<ClassId, Arc<Class>>, served: &QueueTurns) -> AssignedTurns {
    let lines = in_lines(classes, |class| class.who.queue.clone());
    let mut assigned = AssignedTurns::new();
    for (queue, line) in &lines {
        let before = served.before(queue, lines.keys().map(String::as_str));
        for (turn, job) in line.iter().enumerate() {
            let behind = (turn * lines.len()) as i64 + before;
            let key = SortKey::of(job.sort_key.tier() - behind, job.sort_key.score());
            assigned.extend([job.assigned(key)]);
        }
    }
    assigned
}

/// The minimum difference between successive jobs of a pool.
const STEP: f64 = 1e-9;

/// The pool with the lowest satisfaction first, counting the turns so far; within a pool by
/// operation: satisfaction (Y22) or place in line (Y23).
fn by_pool(classes: &BTreeMap<ClassId, Arc<Class>>, inputs: &PriorityInputs) -> AssignedTurns {
    let all = classes.values().map(|class| &**class);
    let mut pools = PoolTurns::new(inputs.state, inputs.policy, all, inputs.now);
    let lines = in_lines(classes, |class| pools.pool_of(class));
    let mut assigned = AssignedTurns::new();
    for (pool, line) in lines {
        let mut line: Vec<(f64, InLine)> = line
            .into_iter()
            .map(|job| (pools.key_in_pool(job.place.1, job.class), job))
            .collect();
        // A stable sort: equals keep their order.
        line.sort_by(|(a, one), (b, other)| one.sort_key.cmp(&other.sort_key).then(a.total_cmp(b)));
        // A job further back in line comes later, even if the satisfaction of its pool is not
        // higher.
        let mut least = f64::NEG_INFINITY;
        assigned.extend(line.iter().map(|(_, job)| {
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

    /// A waiting job charged to an account, optionally put first by an operator.
    fn queued(
        fixture: TestCluster,
        id: u64,
        text: &str,
        account: &str,
        first: Option<i32>,
    ) -> TestCluster {
        let mut fixture = fixture;
        let mut job = fixture.job(id, text);
        let spec = Arc::make_mut(&mut job.spec);
        (spec.account, spec.system_priority) = (Some(account.to_string()), first);
        fixture.state.enqueue(&job);
        fixture
    }

    fn order(fixture: &TestCluster) -> Vec<u64> {
        let order = QueueOrder::of(&fixture.state, &fixture.policy, fixture.now);
        order.turns().map(|turn| turn.priority.job.number).collect()
    }

    /// X10: the turn of array 1 counts all its hundred subjobs, so that pool b comes before job 2.
    #[test]
    fn an_array_counts_with_all_its_subjobs() {
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

    /// X10: jobs without an account run last (F10).
    #[test]
    fn a_pool_without_share_is_served_last() {
        let fixture = queued(by_pool(&["a"]), 1, "select=1:ncpus=1", "b", None);
        let fixture = queued(fixture, 2, "select=1:ncpus=100", "a", None);
        let fixture = queued(fixture, 3, "select=1:ncpus=100", "a", None);
        assert_eq!(order(&fixture), [2, 3, 1]);
    }

    /// M11.
    #[test]
    fn a_job_put_first_by_an_operator_skips_the_round_robin() {
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
