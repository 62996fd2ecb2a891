//! The effect of the job priority (`-p`) if jobs are ordered by factors. The job priority then
//! orders only the waiting jobs of one owner in one queue. With `lowest_is_best`, the lowest number
//! is the highest `-p`.
//!
//! The score of a job is lowered until the job comes after all jobs of the same owner, queue and
//! tier that have a higher `-p`. No score is ever raised, so no user gains an advantage over other
//! users. If all `-p` of an owner in a queue are equal, no score changes.

use crate::model::policy::{OwnerPriorityRule, Precedence, PriorityOrder};
use crate::model::report::priority_score::ScorePart;
use crate::sched::view::class::{Class, QueuePosition};
use crate::sched::view::shape::{ClassId, ClassKey};
use crate::sched::view::snapshot::ClusterState;
use crate::sched::view::sort_key::{SortKey, highest_first};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The name of the part of a score that is due to `-p`.
const PART: &str = "job_priority";

type OwnerClasses = BTreeMap<ClassId, Arc<Class>>;

/// The classes (sets of interchangeable jobs) of an owner in a queue by `-p`, the highest first.
type PriorityLevels = BTreeMap<i64, Vec<ClassId>>;

impl Precedence {
    /// Whether `-p` orders only the jobs of one owner.
    pub(super) fn orders_own_jobs(&self) -> bool {
        self.order == PriorityOrder::Multifactor
    }
}

impl ClusterState {
    /// Lowers the scores of jobs that must come after jobs of the same owner with a higher `-p`.
    /// Returns the changed classes, each with the former position of its first job.
    pub(super) fn lower_scores(
        &self,
        classes: &mut OwnerClasses,
        rule: &Precedence,
    ) -> Vec<(ClassId, Option<QueuePosition>)> {
        if !rule.orders_own_jobs() || self.prioritized.is_empty() {
            return Vec::new();
        }
        let mut changed = Vec::new();
        for levels in levels(classes, &self.prioritized, &rule.own_say) {
            lower_scores_of_levels(classes, levels, &mut changed);
        }
        changed
    }
}

/// The levels of `-p` for each owner and queue with more than one level. `prioritized` are the
/// classes with a `-p` other than 0.
fn levels(
    classes: &OwnerClasses,
    prioritized: &BTreeSet<ClassId>,
    own_say: &OwnerPriorityRule,
) -> Vec<PriorityLevels> {
    let mut lines: BTreeMap<(String, String), PriorityLevels> = prioritized
        .iter()
        .filter_map(|id| classes.get(id))
        .map(|class| (owner_and_queue(&class.key), PriorityLevels::new()))
        .collect();
    // Jobs with a system priority, which an operator has set, are not changed (M11).
    for (id, class) in classes
        .iter()
        .filter(|(_, class)| class.key.system_priority.is_none())
    {
        if let Some(levels) = lines.get_mut(&owner_and_queue(&class.key)) {
            levels
                .entry(highest_first(own_say.score(class.key.priority)))
                .or_default()
                .push(*id);
        }
    }
    lines
        .into_values()
        .filter(|levels| levels.len() > 1)
        .collect()
}

fn lower_scores_of_levels(
    classes: &mut OwnerClasses,
    levels: PriorityLevels,
    changed: &mut Vec<(ClassId, Option<QueuePosition>)>,
) {
    // For each tier, the last of the jobs with a higher `-p`. A job is moved only within its tier,
    // which depends on the queue and on `max_starve`.
    let mut last: BTreeMap<i64, SortKey> = BTreeMap::new();
    for level in levels.into_values() {
        for id in &level {
            let Some(class) = classes.get_mut(id) else {
                continue;
            };
            if class
                .jobs()
                .all(|(_, waiting)| behind(waiting.sort_key, &last) == waiting.sort_key)
            {
                continue;
            }
            let class = Arc::make_mut(class);
            changed.push((*id, class.first()));
            class.set_sort_keys(|_, waiting| behind(waiting.sort_key, &last));
        }
        for (_, waiting) in level
            .iter()
            .filter_map(|id| classes.get(id))
            .flat_map(|class| class.jobs())
        {
            let worst = last
                .entry(waiting.sort_key.tier())
                .or_insert(waiting.sort_key);
            *worst = waiting.sort_key.max(*worst);
        }
    }
}

/// The user and the queue of a class.
fn owner_and_queue(class: &ClassKey) -> (String, String) {
    (class.who.user.clone(), class.who.queue.clone())
}

/// The sort key of a job, moved behind the last job of the higher levels if necessary. `last`
/// contains the last job of each tier.
fn behind(sort_key: SortKey, last: &BTreeMap<i64, SortKey>) -> SortKey {
    last.get(&sort_key.tier())
        .map_or(sort_key, |last| sort_key.max(last.next_below()))
}

/// The effect of `-p` on a score: the difference between the score and the sum of its other parts.
/// None if jobs are not ordered by factors, or if the job has a system priority. Also None if the
/// job has no `-p` and its score is not lowered.
pub(super) fn part(
    rule: &Precedence,
    class: &ClassKey,
    score: f64,
    parts: &[ScorePart],
) -> Option<ScorePart> {
    if !rule.orders_own_jobs() || class.system_priority.is_some() {
        return None;
    }
    let difference = score - parts.iter().filter_map(ScorePart::product).sum::<f64>();
    let is_set = class.priority != rule.own_say.default_priority();
    (is_set || difference != 0.0)
        .then(|| ScorePart::weighed(PART, class.priority.to_string(), difference, 1.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::job_id::JobId;
    use crate::sched::fixture::{TestCluster, cluster};
    use crate::sched::priority::queue_order::QueueOrder;

    /// Adds a job of the fixture's user with this `-p`. The longer the walltime of a job, the lower
    /// its score.
    fn with(mut fixture: TestCluster, id: u64, text: &str, priority: i32) -> TestCluster {
        let mut job = fixture.job(id, &format!("select=1:ncpus=1 {text}"));
        Arc::make_mut(&mut job.spec).priority = priority;
        fixture.state.enqueue(&job);
        fixture
    }

    fn order(fixture: &mut TestCluster) -> Vec<u64> {
        let (policy, now) = (fixture.policy.clone(), fixture.now);
        fixture.state.prioritise(&policy, now);
        QueueOrder::of(&fixture.state, &policy, now)
            .turns()
            .map(|turn| turn.priority.job.number)
            .collect()
    }

    fn scores(fixture: &TestCluster) -> BTreeMap<u64, f64> {
        let queue = QueueOrder::of(&fixture.state, &fixture.policy, fixture.now);
        queue
            .turns()
            .map(|turn| (turn.priority.job.number, turn.priority.score))
            .collect()
    }

    /// Jobs 1 to 3 of ann and jobs 4 and 5 of bob, with these values of `-p`.
    fn fixture(priorities: [i32; 5]) -> TestCluster {
        let [one, two, three, four, five] = priorities;
        let mut fixture = cluster("1 x ncpus=1").owned("ann");
        fixture.policy.precedence = Precedence::default();
        let fixture = with(
            with(fixture, 1, "walltime=600", one),
            2,
            "walltime=6000",
            two,
        );
        let fixture = with(fixture, 3, "walltime=60000", three).owned("bob");
        with(
            with(fixture, 4, "walltime=1000", four),
            5,
            "walltime=10000",
            five,
        )
        .at(300)
    }

    #[test]
    fn equal_priorities_change_no_score() {
        let (mut plain, mut equal) = (fixture([0; 5]), fixture([7, 7, 7, -3, -3]));
        assert_eq!(order(&mut plain), [1, 4, 2, 5, 3]);
        assert_eq!(order(&mut equal), [1, 4, 2, 5, 3]);
        assert_eq!(scores(&plain), scores(&equal));
    }

    #[test]
    fn a_job_comes_after_the_jobs_of_its_owner_with_a_higher_priority() {
        assert_eq!(
            order(&mut fixture([0, 0, 5, 0, 0])),
            [4, 5, 3, 1, 2],
            "job 3 comes before jobs 1 and 2 of ann"
        );
        assert_eq!(
            order(&mut fixture([-5, 0, 0, 0, 0])),
            [4, 2, 5, 3, 1],
            "job 1 comes after jobs 2 and 3 of ann"
        );
        assert_eq!(order(&mut fixture([1, 2, 3, 0, 0])), [4, 5, 3, 2, 1]);
    }

    #[test]
    fn no_score_is_raised_and_the_scores_of_other_users_do_not_change() {
        let mut plain = fixture([0; 5]);
        order(&mut plain);
        let before = scores(&plain);
        for priorities in [[1, 2, 3, 0, 0], [1023, -5, 0, 0, 0], [0, 1023, -1024, 0, 0]] {
            let mut fixture = fixture(priorities);
            order(&mut fixture);
            let after = scores(&fixture);
            assert!(
                after.iter().all(|(job, score)| *score <= before[job]),
                "{priorities:?}: {after:?}"
            );
            assert!(
                [4, 5].iter().all(|job| after[job] == before[job]),
                "{priorities:?}: {after:?}"
            );
        }
    }

    #[test]
    fn job_priorities_count_within_a_queue_and_after_system_priorities() {
        let fixture = with(
            fixture([0, 0, 0, 0, 0]).owned("ann"),
            6,
            "walltime=90000 queue=night",
            9,
        )
        .at(300);
        assert_eq!(order(&mut fixture.clone())[..5], [1, 4, 2, 5, 3]);
        let mut job = fixture.job(7, "select=1:ncpus=1 walltime=90000");
        Arc::make_mut(&mut job.spec).system_priority = Some(1);
        let mut fixture = with(fixture, 8, "walltime=9", 9);
        fixture.state.enqueue(&job);
        assert_eq!(order(&mut fixture)[0], 7);
    }

    #[test]
    fn the_priority_of_a_new_job_counts_at_once() {
        let mut first = fixture([0; 5]);
        order(&mut first);
        let mut second = with(first.clone().owned("ann"), 6, "walltime=90000", 9);
        assert_eq!(
            order(&mut second),
            [4, 5, 6, 1, 2, 3],
            "job 6 has a higher priority"
        );
        let mut second = with(first.owned("ann"), 6, "walltime=9", -9);
        assert_eq!(
            order(&mut second),
            [1, 4, 2, 5, 3, 6],
            "job 6 has a lower priority"
        );
    }

    #[test]
    fn the_parts_of_a_score_add_up() {
        let mut fixture = fixture([0, 0, 5, 0, 0]);
        order(&mut fixture);
        for job in 1..=5 {
            let priority = fixture
                .state
                .report(&fixture.policy, fixture.now, JobId::job(job))
                .unwrap();
            let sum: f64 = priority.parts.iter().filter_map(ScorePart::product).sum();
            assert!((sum - priority.score).abs() < 1e-9, "{priority:?}");
            let own = priority.parts.iter().find(|part| part.name == PART);
            assert_eq!(own.is_some(), job <= 3, "{priority:?}");
        }
    }
}
