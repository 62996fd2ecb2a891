//! Computes the priority of jobs at one time, according to the configured order. The part that all
//! jobs of a class (a set of interchangeable jobs) share is computed first, then the part of each
//! job.

use super::components::Common;
use super::factors::FactorContext;
use super::formula::FormulaJob;
use super::inputs::PriorityInputs;
use super::pool_satisfaction::PoolTurns;
use super::{tiers, user_priority};
use crate::model::expression::{EvaluationFault, Expression};
use crate::model::job_id::JobId;
use crate::model::policy::{Components, Factors, Policy, PriorityOrder};
use crate::model::report::priority_score::{PriorityScore, ScorePart};
use crate::model::time::{Span, Time};
use crate::sched::view::class::Wait;
use crate::sched::view::fair_share_factors::FairShareFactors;
use crate::sched::view::shape::ClassKey;
use crate::sched::view::snapshot::ClusterState;
use crate::sched::view::sort_key::SortKey;
use std::cell::OnceCell;
use std::sync::Arc;

/// Computes the priority of jobs at one time.
pub struct PriorityCalculator<'s> {
    pub(super) inputs: PriorityInputs<'s>,
    /// The first error of the priority formula.
    fault: OnceCell<EvaluationFault>,
    /// The satisfaction (usage divided by fair share) of pools (accounts) and operations (jobs, or
    /// arrays with all their subjobs), computed on demand.
    pools: OnceCell<PoolTurns>,
}

/// The common part of the priority of the jobs of a class.
pub struct Rating<'y> {
    calculator: &'y PriorityCalculator<'y>,
    class: &'y ClassKey,
    tier: i64,
    basis: Basis<'y>,
}

/// The part of the score that all jobs of a class share.
enum Basis<'y> {
    /// The complete score, which is equal for all jobs of the class. It is 0 with the orders `fcfs`
    /// and `pool`.
    Whole(f64),
    Formula(&'y Expression),
    /// The factors that a job of the class has while its waiting time is 0.
    Factors(Factors),
    Components(Common<'y>),
    /// The system priority that an operator has set (`qalter --system-priority`).
    Ordered(i32),
}

impl<'s> PriorityCalculator<'s> {
    /// The calculator for this policy. While priorities are computed, the waiting classes are taken
    /// out of `state`. Only `pool_parts`, which is called later, reads them.
    pub(super) fn new(
        state: &'s ClusterState,
        policy: &'s Policy,
        now: Time,
        shares: Arc<FairShareFactors>,
    ) -> PriorityCalculator<'s> {
        let nodes = state.cluster.present().count();
        PriorityCalculator {
            inputs: PriorityInputs {
                state,
                policy,
                now,
                shares,
                nodes,
            },
            fault: OnceCell::new(),
            pools: OnceCell::new(),
        }
    }

    /// Computes the common part of the priority of a class.
    pub fn rate<'y>(&'y self, class: &'y ClassKey) -> Rating<'y> {
        let precedence = &self.inputs.policy.precedence;
        let basis = match precedence.order {
            PriorityOrder::Fcfs | PriorityOrder::Pool => Basis::Whole(0.0),
            PriorityOrder::Cluster | PriorityOrder::Priority => {
                Basis::Whole(precedence.own_say.score(class.priority))
            }
            PriorityOrder::Formula => precedence
                .formula
                .as_ref()
                .map_or(Basis::Whole(0.0), Basis::Formula),
            PriorityOrder::Multifactor => {
                Basis::Factors(self.factor_context(class, Span(0)).factors())
            }
            PriorityOrder::Components => Basis::Components(Common::of(&self.inputs, class)),
        };
        // A system priority takes precedence over any order (M11).
        let basis = class.system_priority.map_or(basis, Basis::Ordered);
        Rating {
            calculator: self,
            class,
            tier: tiers::of_class(&self.inputs, class),
            basis,
        }
    }

    fn factor_context<'a>(&'a self, class: &'a ClassKey, waited: Span) -> FactorContext<'a> {
        FactorContext {
            inputs: &self.inputs,
            class,
            waited,
        }
    }

    /// The first error of the priority formula so far. A job for which the formula fails has the
    /// score 0.
    pub fn fault(&self) -> Option<&EvaluationFault> {
        self.fault.get()
    }

    /// The parts of the score of a job if pools take turns. The first part is the satisfaction of
    /// the pool before the turn of the job, which is the negated score. The second part is the sort
    /// key of the operation within the pool.
    fn pool_parts(&self, job: JobId, class: &ClassKey, score: f64) -> Vec<ScorePart> {
        let PriorityInputs {
            state, policy, now, ..
        } = self.inputs;
        let classes = state.classes.values().map(|class| &**class);
        let pools = self
            .pools
            .get_or_init(|| PoolTurns::new(state, policy, classes, now));
        let (pool, operation) = (pools.pool_of(class), pools.key_in_pool(job, class));
        vec![
            ScorePart {
                input: pool,
                ..ScorePart::named("pool_satisfaction", -score)
            },
            ScorePart::named("operation_satisfaction", operation),
        ]
    }
}

impl Rating<'_> {
    /// The sort key that a job of the class has after this waiting time.
    pub(in crate::sched) fn sort_key(&self, wait: &Wait) -> SortKey {
        tiers::of_job(&self.calculator.inputs, self.tier, wait, self.score(wait))
    }

    fn score(&self, wait: &Wait) -> f64 {
        match &self.basis {
            Basis::Whole(score) => *score,
            Basis::Formula(formula) => self
                .subject(wait)
                .value(formula)
                .unwrap_or_else(|fault| self.fail(fault)),
            Basis::Factors(factors) => self
                .factor_context(wait)
                .after(*factors)
                .weighed(&self.calculator.inputs.policy.precedence.weights),
            Basis::Components(common) => common.score(self.waited(wait), wait),
            Basis::Ordered(number) => Components::MOST + f64::from(*number),
        }
    }

    /// The parts of the score of a job with this waiting time.
    pub(super) fn parts(&self, wait: &Wait) -> Vec<ScorePart> {
        let waited = self.waited(wait);
        let rule = &self.calculator.inputs.policy.precedence;
        match &self.basis {
            Basis::Whole(_) if matches!(rule.order, PriorityOrder::Fcfs | PriorityOrder::Pool) => {
                Vec::new()
            }
            Basis::Whole(score) => {
                vec![ScorePart {
                    input: self.class.priority.to_string(),
                    ..ScorePart::named("job_priority", *score)
                }]
            }
            Basis::Formula(formula) => self.subject(wait).parts(formula),
            Basis::Factors(factors) => {
                let job = self.factor_context(wait);
                job.parts(&job.after(*factors))
            }
            Basis::Components(common) => common.parts(waited, wait),
            Basis::Ordered(number) => vec![ScorePart::named(
                PriorityScore::SYSTEM_PRIORITY,
                f64::from(*number),
            )],
        }
    }

    fn factor_context(&self, wait: &Wait) -> FactorContext<'_> {
        self.calculator
            .factor_context(self.class, self.waited(wait))
    }

    /// The values that the formula can use for a job with this waiting time.
    fn subject<'a>(&'a self, wait: &'a Wait) -> FormulaJob<'a> {
        FormulaJob {
            inputs: &self.calculator.inputs,
            class: self.class,
            wait,
        }
    }

    /// Records an error of the formula, and returns the score 0.
    fn fail(&self, fault: EvaluationFault) -> f64 {
        self.calculator.fault.get_or_init(|| fault);
        0.0
    }

    fn waited(&self, wait: &Wait) -> Span {
        self.calculator.inputs.waited(wait)
    }
}

impl ClusterState {
    /// The priority of a waiting job and its parts. Uses the priority as last computed if it is
    /// still valid (F9). A subjob has the priority of its array. None if the job does not wait.
    pub fn report(&self, policy: &Policy, now: Time, job: JobId) -> Option<PriorityScore> {
        let state = self.prioritised(policy, now);
        state.report_by(&state.rated_by(policy), job)
    }

    /// The priority of a waiting job and its parts, with an existing calculator.
    pub(super) fn report_by(
        &self,
        calculator: &PriorityCalculator,
        job: JobId,
    ) -> Option<PriorityScore> {
        let (class, waiting) = (self.waiting_class(job)?, self.waiting(job)?);
        let (score, parts) = match calculator.inputs.policy.precedence.order {
            PriorityOrder::Fcfs if class.system_priority.is_none() => {
                let (rank, score) = self.first_come(job)?;
                (
                    score,
                    vec![ScorePart {
                        input: rank.to_string(),
                        ..ScorePart::named("rank", score)
                    }],
                )
            }
            PriorityOrder::Pool if class.system_priority.is_none() => {
                let score = waiting.sort_key.score();
                (score, calculator.pool_parts(job, class, score))
            }
            _ => (
                waiting.sort_key.score(),
                calculator.rate(class).parts(&waiting.wait),
            ),
        };
        let own = user_priority::part(&calculator.inputs.policy.precedence, class, score, &parts);
        let parts = parts.into_iter().chain(own).collect();
        Some(PriorityScore {
            job,
            tier: waiting.sort_key.tier(),
            score,
            parts,
        })
    }

    /// The rank of a waiting job and its score with order `fcfs` (F8, F14). The higher the rank,
    /// the lower the score. None if the job does not wait.
    pub(super) fn first_come(&self, job: JobId) -> Option<(u64, f64)> {
        let (_, rank) = self.class_and_rank(job)?;
        Some((rank, FIRST - rank.saturating_sub(1) as f64))
    }
}

/// The score of the first job with [`PriorityOrder::Fcfs`]: the highest priority in Flux.
const FIRST: f64 = u32::MAX as f64;
