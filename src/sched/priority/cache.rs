//! Computes the priorities of the waiting jobs, and keeps them in the snapshot (the input of a
//! cycle). A new job gets its priority at the next cycle. Priorities that do not depend on time are
//! all computed again after a change that can affect them. Priorities that depend on time are
//! computed again whenever the update period of the policy has ended (F9). All priorities are
//! computed again immediately after a change of the policy, after the clock has been set back and,
//! if queues or pools take turns, for a new job.

use super::calculator::PriorityCalculator;
use super::round_robin;
use crate::model::expression::EvaluationFault;
use crate::model::policy::Policy;
use crate::model::time::{Span, Time};
use crate::sched::view::class::{Class, QueuePosition};
use crate::sched::view::fair_share_factors::FairShareFactors;
use crate::sched::view::priority_cache::{PriorityCache, PriorityRule};
use crate::sched::view::request_groups::RequestGroup;
use crate::sched::view::shape::ClassId;
use crate::sched::view::snapshot::ClusterState;
use std::borrow::Cow;
use std::sync::Arc;

impl PriorityRule {
    fn of(policy: &Policy) -> PriorityRule {
        let Policy {
            precedence,
            fair_share,
            default_walltime,
            ..
        } = policy.clone();
        PriorityRule {
            precedence,
            fair_share,
            default_walltime,
        }
    }

    fn is_of(&self, policy: &Policy) -> bool {
        if self.precedence.is_by_rank() && policy.precedence.is_by_rank() {
            return true;
        }
        let Policy {
            precedence,
            fair_share,
            default_walltime,
            ..
        } = policy;
        (&self.precedence, &self.fair_share, &self.default_walltime)
            == (precedence, fair_share, default_walltime)
    }
}

/// The jobs that need a new priority.
#[derive(Debug, PartialEq)]
enum Recalculation {
    NoJobs,
    New,
    All,
}

impl PriorityCache {
    fn due(&self, policy: &Policy, now: Time, retention: Span) -> Recalculation {
        let Some(rule) = self.rule.as_deref().filter(|rule| rule.is_of(policy)) else {
            return Recalculation::All;
        };
        let is_recent = now >= self.at && now.since(self.at) < retention;
        let is_outdated = if rule.precedence.moves() {
            !is_recent && (now != self.at || self.is_stale || self.has_new_usage)
        } else {
            self.is_stale
        };
        // If queues or pools take turns, a new job can change the order of all jobs.
        let has_new_turns = !self.new.is_empty() && rule.precedence.takes_turns();
        if is_outdated || has_new_turns {
            Recalculation::All
        } else if self.new.is_empty() {
            Recalculation::NoJobs
        } else {
            Recalculation::New
        }
    }
}

/// The time for which priorities are kept: the update period of the policy, but at least 1 s per
/// 100,000 waiting jobs. Computing the priorities of 100,000 jobs takes about 0.05 s, so it uses at
/// most a twentieth of the time.
fn retention(policy: &Policy, waiting: usize) -> Span {
    policy
        .precedence
        .update_period
        .max(Span(waiting as i64 / 100))
}

impl ClusterState {
    /// Updates the priorities and the order of the waiting jobs for a cycle at this time, if
    /// necessary.
    pub fn prioritise(&mut self, policy: &Policy, now: Time) {
        self.prioritise_within(policy, now, Span(0));
    }

    /// Like [`prioritise`](Self::prioritise), but keeps priorities that depend on time for at least
    /// `ago`.
    pub(in crate::sched) fn prioritise_within(&mut self, policy: &Policy, now: Time, ago: Span) {
        match self
            .ranks
            .due(policy, now, retention(policy, self.jobs.len()).max(ago))
        {
            Recalculation::NoJobs => (),
            Recalculation::New => self.rate_new(policy, now),
            Recalculation::All => self.rate_all(policy, now),
        }
    }

    /// Whether the priorities of all jobs are valid for the policy at this time.
    pub(in crate::sched) fn is_in_order(&self, policy: &Policy, now: Time) -> bool {
        self.ranks
            .due(policy, now, retention(policy, self.jobs.len()))
            == Recalculation::NoJobs
    }

    /// The first error of the priority formula since all priorities were last computed. A job for
    /// which the formula fails has the score 0 (I15).
    pub fn formula_fault(&self) -> Option<&EvaluationFault> {
        self.ranks.fault.as_ref()
    }

    /// A state with valid priorities: this state if its priorities are valid, otherwise a copy.
    pub(in crate::sched) fn prioritised(
        &self,
        policy: &Policy,
        now: Time,
    ) -> Cow<'_, ClusterState> {
        if self.is_in_order(policy, now) {
            return Cow::Borrowed(self);
        }
        let mut copy = self.clone();
        copy.prioritise(policy, now);
        Cow::Owned(copy)
    }

    /// A calculator with the time of the last computation of all priorities, and with the
    /// fair-share factors as last computed.
    pub(in crate::sched) fn rated_by<'s>(&'s self, policy: &'s Policy) -> PriorityCalculator<'s> {
        PriorityCalculator::new(self, policy, self.ranks.at, self.ranks.shares.clone())
    }

    /// The fair-share factors as last computed.
    pub(in crate::sched) fn shares(&self) -> &FairShareFactors {
        &self.ranks.shares
    }

    /// Computes the priority of new jobs for the time of the last computation of all priorities.
    /// The time since then therefore does not change the priority of a job that is enqueued again
    /// (F9).
    fn rate_new(&mut self, policy: &Policy, now: Time) {
        let new = std::mem::take(&mut self.ranks.new);
        let mut classes = new.iter().filter_map(|id| self.waiting_class(*id));
        if policy.precedence.is_by_rank()
            && !classes.clone().any(|class| class.system_priority.is_some())
        {
            return;
        }
        if policy.precedence.uses_fair_share()
            && !classes.all(|class| self.ranks.shares.knows(class))
        {
            let mut before = std::mem::take(&mut self.ranks.shares);
            self.ranks.shares = Arc::new(FairShareFactors::joined(self, policy, now, &mut before));
        }
        let mut classes = std::mem::take(&mut self.classes);
        let mut alike = std::mem::take(&mut self.alike);
        let calculator = self.rated_by(policy);
        for id in new {
            let Some(&(class, rank)) = self.jobs.get(&id) else {
                continue;
            };
            let Some(class) = classes.get_mut(&class).map(Arc::make_mut) else {
                continue;
            };
            let first = class.first();
            class.compute_sort_key((rank, id), &calculator);
            alike.refile(class, first);
        }
        for (id, first) in self.lower_scores(&mut classes, &policy.precedence) {
            if let Some(class) = classes.get(&id) {
                alike.refile(class, first);
            }
        }
        let fault = calculator.fault().cloned();
        self.ranks.fault = self.ranks.fault.take().or(fault);
        (self.classes, self.alike) = (classes, alike);
    }

    /// Computes the priorities of all jobs.
    fn rate_all(&mut self, policy: &Policy, now: Time) {
        let before = self.ranks.rule.take();
        let was_by_rank = before
            .as_ref()
            .is_none_or(|rule| rule.precedence.is_by_rank());
        let rule = before
            .filter(|rule| rule.is_of(policy))
            .unwrap_or_else(|| Arc::new(PriorityRule::of(policy)));
        let mut before = std::mem::take(&mut self.ranks.shares);
        let shares = if policy.precedence.uses_fair_share() {
            FairShareFactors::of(self, policy, now, &mut before)
        } else {
            FairShareFactors::default()
        };
        let is_unchanged = was_by_rank
            && rule.precedence.is_by_rank()
            && !self
                .classes
                .values()
                .any(|class| class.key.system_priority.is_some());
        self.ranks = PriorityCache {
            rule: Some(rule),
            at: now,
            shares: Arc::new(shares),
            ..PriorityCache::default()
        };
        if is_unchanged {
            return;
        }
        let mut classes = std::mem::take(&mut self.classes);
        let calculator = PriorityCalculator::new(self, policy, now, self.ranks.shares.clone());
        // If nearly every job has a class of its own, memory access takes most of the time. One
        // loop over the classes therefore computes priorities and finds the first jobs.
        let rated = classes.values_mut().filter_map(|class| {
            let class = Arc::make_mut(class);
            class.rate(&calculator);
            head(class)
        });
        let mut heads: Vec<(RequestGroup, QueuePosition, ClassId)> = rated.collect();
        let are_lowered = !self
            .lower_scores(&mut classes, &policy.precedence)
            .is_empty();
        if policy.precedence.takes_turns() {
            round_robin::assign_turns(&mut classes, &calculator.inputs);
        }
        if are_lowered || policy.precedence.takes_turns() {
            heads = classes.values().filter_map(|class| head(class)).collect();
        }
        self.ranks.fault = calculator.fault().cloned();
        self.classes = classes;
        self.alike.set_order(heads);
    }
}

/// The entry of a class for the order of the request groups (classes with equal requests): its
/// group, the position of its first job, and its id. None for a class without jobs.
fn head(class: &Class) -> Option<(RequestGroup, QueuePosition, ClassId)> {
    Some((RequestGroup::of(&class.key), class.first()?, class.key.id))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::account::charge::Charge;
    use crate::model::account::member::Member;
    use crate::model::expression::Expression;
    use crate::model::job::Job;
    use crate::model::job::eligible_time::{Accrues, Eligibility};
    use crate::model::job::held::Held;
    use crate::model::job_id::JobId;
    use crate::model::policy::{Factor, Factors, Precedence, PriorityOrder, Tiers, TurnPolicy};
    use crate::sched::fixture::{TestCluster, assert_score_is_sum, cluster};
    use crate::sched::share_tree::usage::UsageTable;
    use crate::sched::view::change::Change;

    const JOBS: &[(i64, &str)] = &[
        (1, "walltime=600"),
        (2, "walltime=60"),
        (3, "walltime=600"),
        (4, "walltime=6000"),
    ];

    /// The ids of the waiting jobs, in the order in which a cycle considers them.
    fn order(fixture: &TestCluster) -> Vec<u64> {
        let resolved = crate::sched::placement::resolution::Resolved::new(
            &fixture.state,
            &fixture.policy,
            fixture.now,
        );
        let mut ranking = crate::sched::priority::ranking::rank(&fixture.state, &resolved);
        let mut order = Vec::new();
        while let Some(job) = ranking.next() {
            order.push(job.job.number);
            ranking.follow(job);
        }
        order
    }

    fn by(formula: &str) -> TestCluster {
        let mut fixture = cluster("1 x ncpus=1");
        fixture.policy.precedence = Precedence::by_formula(formula);
        JOBS.iter().fold(fixture, |fixture, (id, text)| {
            fixture.queued(*id as u64, &format!("select=1:ncpus=1 {text}"))
        })
    }

    fn put_in_order(fixture: &mut TestCluster) -> Vec<u64> {
        let (policy, now) = (fixture.policy.clone(), fixture.now);
        fixture.state.prioritise(&policy, now);
        order(fixture)
    }

    /// F9: job 5 is added within the update period. It gets a priority at once, while all other
    /// jobs keep theirs until the period ends.
    #[test]
    fn priorities_are_kept_until_the_update_period_ends_or_the_rule_changes() {
        let mut fixture = by("eligible_time < 59.5 ? walltime : -walltime");
        fixture.policy.precedence.update_period = Span::seconds(60);
        assert_eq!(put_in_order(&mut fixture), [4, 1, 3, 2]);
        let mut fixture = fixture.at(59).queued(5, "select=1:ncpus=1 walltime=100");
        assert_eq!(put_in_order(&mut fixture), [4, 1, 3, 5, 2]);
        let mut fixture = fixture.at(60);
        assert_eq!(put_in_order(&mut fixture), [2, 5, 1, 3, 4]);
        fixture.policy.precedence.formula = Expression::parse("walltime").ok();
        assert_eq!(
            put_in_order(&mut fixture),
            [4, 1, 3, 5, 2],
            "a new rule applies at once"
        );
    }

    /// F9: job 4 is altered within the update period.
    #[test]
    fn a_job_that_is_enqueued_again_keeps_its_priority() {
        let mut fixture = by("eligible_time");
        fixture.policy.precedence.update_period = Span::seconds(60);
        assert_eq!(put_in_order(&mut fixture), [1, 2, 3, 4]);
        let altered = fixture.clone().queued(4, "select=1:ncpus=1 walltime=60");
        let mut fixture = altered.at(59);
        assert_eq!(put_in_order(&mut fixture), [1, 2, 3, 4]);
        assert_eq!(
            fixture.state.score(&fixture.policy, JobId::job(4)),
            Some(0.0)
        );
        let mut back = fixture.job(5, "select=1:ncpus=1");
        back.life.eligibility = Eligibility {
            accrues: Accrues::Eligible,
            since: fixture.now,
            had: Span::seconds(7),
            limit: None,
        };
        fixture.state.enqueue(&back);
        assert_eq!(
            put_in_order(&mut fixture),
            [5, 1, 2, 3, 4],
            "job 5, which was requeued, had waited 7 s before it ran"
        );
    }

    /// Ann has all the usage. When bob submits his first job, the entitlement of ann is halved, but
    /// her factor changes only after the update period.
    #[test]
    fn a_new_user_changes_the_factors_of_others_only_after_the_update_period() {
        let mut fixture = cluster("1 x ncpus=1").queued(1, "select=1:ncpus=1");
        let mut usage = UsageTable::default();
        usage.add(&Charge {
            to: Some(Time(1000)),
            ..charge()
        });
        fixture.state.make(&Change::Usage(Cow::Owned(usage)));
        fixture.policy.precedence = Precedence {
            update_period: Span::seconds(60),
            ..Precedence::default()
        };
        let factor = |fixture: &mut TestCluster, job| {
            put_in_order(fixture);
            let priority = fixture
                .state
                .report(&fixture.policy, fixture.now, JobId::job(job))
                .unwrap();
            assert_score_is_sum(&priority);
            priority
                .parts
                .iter()
                .find(|part| part.name == "fair_share")
                .unwrap()
                .factor
        };
        assert_eq!(factor(&mut fixture, 1), 0.5);
        let mut fixture = fixture.at(59).owned("bob").queued(2, "select=1:ncpus=1");
        assert_eq!([1, 2].map(|job| factor(&mut fixture, job)), [0.5, 1.0]);
        let mut fixture = fixture.at(60);
        assert_eq!([1, 2].map(|job| factor(&mut fixture, job)), [0.25, 1.0]);
    }

    /// A charge of one CPU to ann, from time 0.
    fn charge() -> Charge {
        let held = Held {
            nodes: 1,
            cores: 1,
            ..Held::default()
        };
        Charge {
            member: Member::new("", "ann"),
            from: Time(0),
            to: None,
            held,
            amounts: Default::default(),
            factor: 1.0,
        }
    }

    #[test]
    fn a_change_of_the_policy_to_fcfs_applies_at_once() {
        let mut fixture = by("walltime");
        assert_eq!(put_in_order(&mut fixture), [4, 1, 3, 2]);
        fixture.policy.precedence = Precedence::fcfs();
        assert_eq!(put_in_order(&mut fixture), [1, 2, 3, 4]);
    }

    /// Q16: with the order `priority`, usage does not affect the order.
    #[test]
    fn usage_triggers_no_computation_if_the_order_does_not_depend_on_it() {
        let mut fixture = cluster("1 x ncpus=1").queued(1, "select=1:ncpus=1");
        let charged = Change::Charged(JobId::job(9), Cow::Owned(charge()));
        for (order, due) in [
            (PriorityOrder::Priority, Recalculation::NoJobs),
            (PriorityOrder::Multifactor, Recalculation::All),
        ] {
            fixture.policy.precedence.order = order;
            put_in_order(&mut fixture);
            fixture
                .state
                .make(&Change::Usage(Cow::Owned(UsageTable::default())));
            fixture.state.make(&charged);
            assert_eq!(
                fixture
                    .state
                    .ranks
                    .due(&fixture.policy, fixture.now, Span(0)),
                due
            );
        }
    }

    #[test]
    fn priorities_that_do_not_depend_on_time_are_computed_again_only_after_changes() {
        let mut fixture = cluster("1 x ncpus=1")
            .queued(1, "select=1:ncpus=1")
            .queued(2, "select=1:ncpus=1 queue=night");
        fixture.policy.precedence = Precedence {
            lexicographic: true,
            order: PriorityOrder::Fcfs,
            ..Precedence::default()
        };
        assert_eq!(put_in_order(&mut fixture), [1, 2]);
        assert_eq!(
            fixture
                .state
                .ranks
                .due(&fixture.policy, Time(9_000_000), Span(0)),
            Recalculation::NoJobs
        );
        let mut night = crate::model::queue::Queue::named("night");
        night.priority = 5;
        fixture.state.set_queue(&night);
        assert_eq!(
            put_in_order(&mut fixture),
            [2, 1],
            "X18: jobs of the queue with the higher priority come first"
        );
    }

    /// M11.
    #[test]
    fn a_system_priority_comes_first_under_fcfs() {
        let mut fixture = cluster("1 x ncpus=1")
            .queued(1, "select=1:ncpus=1")
            .queued(2, "select=1:ncpus=1");
        assert_eq!(put_in_order(&mut fixture), [1, 2]);
        let mut first = fixture.job(3, "select=1:ncpus=1");
        Arc::make_mut(&mut first.spec).system_priority = Some(5);
        fixture.state.enqueue(&first);
        assert_eq!(put_in_order(&mut fixture), [3, 1, 2]);
        fixture
            .state
            .set_node(&crate::model::node::NodeFacts::default(), true);
        assert_eq!(
            put_in_order(&mut fixture),
            [3, 1, 2],
            "the order is the same when all priorities are computed again"
        );
        Arc::make_mut(&mut first.spec).system_priority = None;
        fixture.state.enqueue(&first);
        assert_eq!(put_in_order(&mut fixture), [1, 2, 3]);
    }

    /// Q6: jobs are added, replaced and withdrawn in random order.
    #[test]
    fn an_order_that_is_updated_job_by_job_equals_a_newly_sorted_order() {
        let mut dice = 7_u64;
        let mut roll = |sides: u64| {
            dice = dice
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (dice >> 33) % sides
        };
        let formula = "(eligible_time + 1) * (job_priority + 3) * (walltime - 100)";
        let mut fixture = cluster("1 x ncpus=1");
        fixture.policy.precedence = Precedence::by_formula(formula);
        for step in 1..600 {
            fixture = fixture.at(step as i64);
            match roll(4) {
                0 => fixture.state.withdraw(JobId::job(roll(step))),
                _ => {
                    let (ncpus, walltime) = (1 + roll(3), 40 + roll(3) * 60);
                    let text = format!(
                        "select=1:ncpus={ncpus} walltime={walltime} rank={}",
                        roll(step + 2)
                    );
                    fixture = fixture.queued(step, &text);
                }
            }
            let kept = put_in_order(&mut fixture);
            fixture.state.ranks.rule = None;
            assert_eq!(kept, put_in_order(&mut fixture), "step {step}");
            let heads = fixture
                .state
                .classes
                .values()
                .flat_map(|class| class.in_order())
                .map(|(head, _)| head);
            let mut heads: Vec<QueuePosition> = heads.collect();
            heads.sort_unstable();
            let all: Vec<u64> = heads.iter().map(|(_, (_, job))| job.number).collect();
            assert_eq!(kept, all, "step {step}");
        }
    }

    #[test]
    fn priorities_are_kept_longer_with_more_waiting_jobs() {
        assert_eq!(
            (
                retention(&Policy::default(), 1_000),
                retention(&Policy::default(), 100_000)
            ),
            (Span(10), Span::seconds(1))
        );
    }

    fn with_system_priority(fixture: &TestCluster, id: u64, number: i32) -> Job {
        let mut job = fixture.job(id, "select=1:ncpus=1");
        Arc::make_mut(&mut job.spec).system_priority = Some(number);
        job
    }

    /// M11.
    #[test]
    fn jobs_with_a_system_priority_come_first_with_and_without_other_jobs() {
        let mut fixture = cluster("1 x ncpus=1").queued(1, "select=1:ncpus=1");
        fixture.state.enqueue(&with_system_priority(&fixture, 2, 5));
        assert_eq!(put_in_order(&mut fixture), [2, 1]);
        let mut fixture = fixture.queued(3, "select=1:ncpus=1");
        fixture.state.enqueue(&with_system_priority(&fixture, 4, 7));
        assert_eq!(put_in_order(&mut fixture), [4, 2, 1, 3]);
        let mut fixture = cluster("1 x ncpus=1");
        for (id, number) in [(1, 3), (2, 5)] {
            fixture
                .state
                .enqueue(&with_system_priority(&fixture, id, number));
        }
        assert_eq!(put_in_order(&mut fixture), [2, 1], "without other jobs");
    }

    /// F9: the factors of known users are kept within the update period.
    #[test]
    fn a_new_user_gets_a_fair_share_factor_at_once() {
        let one = "select=1:ncpus=1";
        let mut fixture = cluster("1 x ncpus=1").queued(1, one);
        let mut usage = UsageTable::default();
        let held = Held {
            cores: 1,
            ..Held::default()
        };
        usage.add(&Charge {
            member: Member::new("", "ann"),
            from: Time(-9_000),
            to: Some(Time(0)),
            held,
            amounts: Default::default(),
            factor: 1.0,
        });
        fixture.state.usage = Arc::new(usage);
        fixture.policy.precedence = Precedence {
            weights: Factors::NONE.with(Factor::FairShare, 2000.0),
            update_period: Span::seconds(60),
            ..Precedence::default()
        };
        assert_eq!(put_in_order(&mut fixture), [1]);
        let before = fixture.state.ranks.shares.clone();
        let mut fixture = fixture.at(20).queued(2, one);
        assert_eq!(put_in_order(&mut fixture), [1, 2]);
        assert!(
            Arc::ptr_eq(&before, &fixture.state.ranks.shares),
            "known users keep their factors"
        );
        let mut fixture = fixture.at(40).queued(3, one).owned("bob").queued(4, one);
        assert_eq!(put_in_order(&mut fixture), [4, 1, 2, 3]);
    }

    /// I22: with round-robin order, new jobs of a queue can come before old jobs of another queue.
    #[test]
    fn turns_are_assigned_again_when_jobs_are_added() {
        let text = |queue| format!("select=1:ncpus=1 queue={queue}");
        let mut fixture = cluster("1 x ncpus=1");
        let tiers = Tiers {
            turns: TurnPolicy::RoundRobin,
            ..Tiers::default()
        };
        fixture.policy.precedence = Precedence {
            tiers,
            update_period: Span::seconds(60),
            ..Precedence::fcfs()
        };
        let mut fixture = [1, 2, 3]
            .into_iter()
            .fold(fixture, |fixture, id| fixture.queued(id, &text("workq")));
        assert_eq!(put_in_order(&mut fixture), [1, 2, 3]);
        let mut fixture = fixture
            .at(1)
            .queued(4, &text("night"))
            .queued(5, &text("night"));
        assert_eq!(put_in_order(&mut fixture), [1, 4, 2, 5, 3]);
    }

    #[test]
    fn all_priorities_are_computed_again_when_the_clock_is_set_back() {
        let mut fixture = by("eligible_time").at(100);
        put_in_order(&mut fixture);
        let due = |at: i64| {
            fixture
                .state
                .ranks
                .due(&fixture.policy, Time(at * 1000), Span::seconds(60))
        };
        assert_eq!(
            [50, 100, 159, 160].map(due),
            [
                Recalculation::All,
                Recalculation::NoJobs,
                Recalculation::NoJobs,
                Recalculation::All
            ]
        );
        let mut fixture = fixture.queued(5, "select=1:ncpus=1");
        fixture.state.withdraw(JobId::job(5));
        let (policy, now) = (&fixture.policy, fixture.now);
        assert_eq!(
            fixture.state.ranks.due(policy, now, Span::seconds(60)),
            Recalculation::NoJobs,
            "the new job has been withdrawn"
        );
    }

    /// I15.
    #[test]
    fn a_formula_error_is_recorded_and_counts_as_0() {
        let mut fixture = by("1 / (walltime - 600)");
        assert_eq!(put_in_order(&mut fixture), [4, 1, 3, 2]);
        assert!(fixture.state.formula_fault().is_some());
        let mut fixture = by("1 / (walltime - 77)");
        put_in_order(&mut fixture);
        assert_eq!(fixture.state.formula_fault(), None);
        fixture.policy.precedence.update_period = Span::seconds(60);
        put_in_order(&mut fixture);
        let mut fixture = fixture.queued(5, "select=1:ncpus=1 walltime=77");
        assert_eq!(put_in_order(&mut fixture), [1, 3, 4, 5, 2]);
        assert!(
            fixture.state.formula_fault().is_some(),
            "the error of a job that is added later is recorded too"
        );
    }
}
