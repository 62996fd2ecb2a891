//! The rules of each trigger: which waiting jobs may preempt, and which running jobs they may
//! preempt.

use super::levels::Levels;
use super::victims::{self, PossibleVictim};
use crate::model::job::preemption::{PreemptAction, PreemptCause};
use crate::model::job_id::JobId;
use crate::model::policy::preemption::{NoAgenda, PreemptMode, PreemptTrigger};
use crate::model::policy::quality::{Flag, Qualities};
use crate::model::policy::{Policy, PriorityOrder};
use crate::model::request::cluster_path::ClusterPath;
use crate::model::request::preempt_targets::PreemptTarget;
use crate::model::resource::ResourceValue;
use crate::model::time::{Span, Time};
use crate::sched::amounts::Catalog;
use crate::sched::cycle::state::CycleState;
use crate::sched::priority::ranking::Candidate;
use crate::sched::view::shape::ClassKey;
use crate::sched::view::snapshot::ClusterState;

/// The running jobs that may be preempted under one trigger.
pub struct VictimSelection<'s> {
    trigger: PreemptTrigger,
    state: &'s ClusterState,
    policy: &'s Policy,
    now: Time,
    levels: Option<Levels<'s>>,
    /// The running jobs that may be preempted, in the order in which they are tried.
    possible_victims: Vec<PossibleVictim<'s>>,
    /// The jobs that their owners exempt from preemption (Q9).
    protected: Vec<PossibleVictim<'s>>,
    /// The jobs already preempted in this cycle.
    preempted_jobs: Vec<PossibleVictim<'s>>,
}

/// The properties of a waiting job that decide which jobs it may preempt.
struct Preemptor {
    score: f64,
    cluster: ClusterPath,
    level: usize,
    /// Whether the QOS of the waiting job allows it to preempt jobs of a QOS with the `PREEMPTEE`
    /// flag.
    preempts: bool,
    /// Whether the QOS of the waiting job allows it to preempt rerunnable jobs of any QOS.
    restarts: bool,
}

impl<'s> VictimSelection<'s> {
    /// The running jobs that may be preempted at the moment. None if the trigger cannot preempt any
    /// job, or is starvation, for which the module `starving` selects the victims. If the policy
    /// exempts jobs for a time after their start (key `exempt`), schedules a cycle for the next end
    /// of such an exemption.
    pub fn open(
        trigger: PreemptTrigger,
        cycle: &mut CycleState<'s>,
    ) -> Option<VictimSelection<'s>> {
        let (state, policy, now) = (cycle.state, cycle.policy(), cycle.now);
        let levels = match trigger {
            PreemptTrigger::Qube if policy.preemption.mode == PreemptMode::Disabled => return None,
            PreemptTrigger::Qos if has_preemptors(&policy.qualities) => None,
            PreemptTrigger::Levels => {
                Some(Levels::open(state, policy, cycle.limit_counters(), now)?)
            }
            // Starvation selects victims node by node.
            PreemptTrigger::Starvation | PreemptTrigger::Qos => return None,
            PreemptTrigger::Qube => None,
        };
        let (protected, others): (Vec<_>, Vec<_>) = victims::possible_victims(state, policy, now)
            .into_iter()
            .partition(|victim| victim.candidate.protected);
        let (preempted_jobs, possible_victims): (Vec<_>, Vec<_>) = others
            .into_iter()
            .partition(|victim| cycle.is_preempted(victim.job));
        if policy.preemption.exempt > Span(0)
            && let Some(time) = victims::next_possible_victim(state, policy, now)
        {
            cycle.schedule_cycle_at(time);
        }
        let victim_selection = VictimSelection {
            trigger,
            state,
            policy,
            now,
            levels,
            possible_victims,
            protected,
            preempted_jobs,
        };
        let is_empty = victim_selection.possible_victims.is_empty()
            && victim_selection.protected.is_empty()
            && victim_selection.preempted_jobs.is_empty();
        (!is_empty).then_some(victim_selection)
    }

    /// Whether a waiting job may preempt other jobs under this trigger.
    pub fn may_preempt(&mut self, job: Candidate, cycle: &CycleState) -> bool {
        match self.trigger {
            PreemptTrigger::Qos => {
                let flags = cycle.policy().qualities.flags(job.class.who.qos.as_deref());
                flags.contains(&Flag::Preemptor) || flags.contains(&Flag::RestartPreempt)
            }
            PreemptTrigger::Levels => {
                self.level(job.job, job.class) < self.policy.preemption.levels.len()
            }
            PreemptTrigger::Qube | PreemptTrigger::Starvation => true,
        }
    }

    /// The cause of preemptions under this trigger.
    pub fn cause(&self) -> PreemptCause {
        match self.trigger {
            PreemptTrigger::Qube => PreemptCause::Rank,
            PreemptTrigger::Qos => PreemptCause::Quality,
            PreemptTrigger::Levels => PreemptCause::Level,
            PreemptTrigger::Starvation => PreemptCause::Starvation,
        }
    }

    /// The running jobs that a waiting job may preempt, each with the possible actions. Jobs of the
    /// lowest preemption level come first; within a level, the policy determines the order.
    pub fn victims_of(&mut self, job: Candidate) -> Vec<(PossibleVictim<'s>, Vec<PreemptAction>)> {
        let preemptor = self.preemptor(job);
        let possible_victims = std::mem::take(&mut self.possible_victims);
        let targets = job.class.targets.as_deref();
        let mut found = Vec::new();
        let catalog = &self.state.cluster.catalog;
        for victim in possible_victims
            .iter()
            .filter(|victim| targets.is_none_or(|targets| is_target(victim, targets, catalog)))
        {
            if let Some(rank) = self.rank_below(victim, &preemptor) {
                let actions = self.actions(victim, &preemptor);
                found.extend((!actions.is_empty()).then_some((rank, *victim, actions)));
            }
        }
        self.possible_victims = possible_victims;
        // The sort is stable, so jobs of the same level stay in the order of the policy.
        found.sort_by_key(|(rank, ..)| std::cmp::Reverse(*rank));
        found
            .into_iter()
            .map(|(_, victim, actions)| (victim, actions))
            .collect()
    }

    /// The number of jobs that a waiting job may preempt (including jobs already preempted in this
    /// cycle), and the number of jobs that it could preempt if their owners did not exempt them.
    pub fn count_victims(&mut self, job: Candidate<'s>) -> (u64, u64) {
        let preemptor = self.preemptor(job);
        let preempted_jobs = std::mem::take(&mut self.preempted_jobs);
        let protected = std::mem::take(&mut self.protected);
        let already_preempted = self.count_below(&preempted_jobs, &preemptor);
        let exempt = self.count_below(&protected, &preemptor);
        (self.preempted_jobs, self.protected) = (preempted_jobs, protected);
        (
            self.victims_of(job).len() as u64 + already_preempted,
            exempt,
        )
    }

    fn preemptor(&mut self, job: Candidate) -> Preemptor {
        let flags = self.policy.qualities.flags(job.class.who.qos.as_deref());
        Preemptor {
            preempts: flags.contains(&Flag::Preemptor),
            restarts: flags.contains(&Flag::RestartPreempt),
            score: self.state.score(self.policy, job.job).unwrap_or(0.0),
            cluster: job.class.cluster(),
            level: self.level(job.job, job.class),
        }
    }

    /// Removes preempted jobs from the jobs that may be preempted.
    pub fn remove_preempted(&mut self, gone: &[JobId]) {
        self.possible_victims
            .retain(|victim| !gone.contains(&victim.job));
    }

    /// The number of jobs in `all` that the preemptor may preempt.
    fn count_below(&mut self, all: &[PossibleVictim], preemptor: &Preemptor) -> u64 {
        let below = all
            .iter()
            .filter(|victim| self.rank_below(victim, preemptor).is_some());
        below.count() as u64
    }

    /// With the trigger `Levels`, the index of a running job's preemption level; with other
    /// triggers, 0. None if the preemptor may not preempt the running job.
    fn rank_below(&mut self, victim: &PossibleVictim, preemptor: &Preemptor) -> Option<usize> {
        let holder = victim.running.holder.as_ref().map(|holder| &holder.who);
        match self.trigger {
            PreemptTrigger::Qube => self.sorts_behind(victim, preemptor).then_some(0),
            PreemptTrigger::Qos => {
                holder?;
                let is_exposed = self.is_preemptible_by_qos(victim, preemptor)
                    || (preemptor.restarts && victim.candidate.rerunnable);
                (is_exposed && preemptor.score > victim.candidate.score?).then_some(0)
            }
            PreemptTrigger::Levels => {
                let level = self.levels.as_mut()?.of(holder?, victim.candidate.waited);
                (level > preemptor.level).then_some(level)
            }
            PreemptTrigger::Starvation => None,
        }
    }

    /// M43: whether the QOS of the waiting job has the `PREEMPTOR` flag and the QOS of the running
    /// job has the `PREEMPTEE` flag.
    fn is_preemptible_by_qos(&self, victim: &PossibleVictim, preemptor: &Preemptor) -> bool {
        let qos = victim
            .running
            .holder
            .as_ref()
            .and_then(|holder| holder.who.qos.as_deref());
        preemptor.preempts && self.policy.qualities.flags(qos).contains(&Flag::Preemptee)
    }

    /// Q8: whether a running job has a lower priority than a waiting job. If the policy orders jobs
    /// by cluster: whether each node of the running job is nearer to the waiting job's cluster than
    /// to the running job's cluster, or equally near to both while the waiting job has a higher
    /// priority. Equal jobs never preempt each other.
    fn sorts_behind(&self, victim: &PossibleVictim, preemptor: &Preemptor) -> bool {
        let has_lower_score = victim
            .candidate
            .score
            .is_some_and(|score| score < preemptor.score);
        if self.policy.precedence.order != PriorityOrder::Cluster {
            return has_lower_score;
        }
        let mut distances = victim.distances(self.state, &preemptor.cluster);
        distances.all(|(own, others)| others < own || (others == own && has_lower_score))
    }

    /// The actions that can preempt a job, in the order in which they are tried (Q11 to Q13).
    fn actions(&self, victim: &PossibleVictim, preemptor: &Preemptor) -> Vec<PreemptAction> {
        let rule = &self.policy.preemption;
        let is_element = victim.job.index().is_some();
        let finishes = match rule.mode {
            // A job that only `RESTARTPREEMPT` makes preemptible can only be requeued.
            _ if self.trigger == PreemptTrigger::Qos
                && !self.is_preemptible_by_qos(victim, preemptor) =>
            {
                return vec![PreemptAction::Requeue];
            }
            _ if self.trigger != PreemptTrigger::Qube => false,
            PreemptMode::Disabled => return Vec::new(),
            PreemptMode::Aggressive => false,
            PreemptMode::Passive if is_element => true,
            PreemptMode::Mixed if is_element => victim
                .candidate
                .left(self.now)
                .is_none_or(|left| left <= 50.0),
            PreemptMode::Passive | PreemptMode::Mixed => rule.no_agenda == NoAgenda::Wait,
        };
        if finishes {
            vec![PreemptAction::Finish]
        } else {
            victim.actions(self.policy, self.now).collect()
        }
    }

    fn level(&mut self, job: JobId, class: &ClassKey) -> usize {
        let Some(levels) = &mut self.levels else {
            return 0;
        };
        let waited = self
            .state
            .waiting(job)
            .map_or(Span(0), |waiting| waiting.wait.eligibility.at(self.now));
        levels.of(&class.who, waited)
    }
}

/// Whether `preempt_targets` includes a running job: the job is in a named queue, or it requests
/// the given value of a named resource. `preempt_targets=None` includes no job.
fn is_target(victim: &PossibleVictim, targets: &str, catalog: &Catalog) -> bool {
    targets
        .split(',')
        .any(|target| match PreemptTarget::parse(target) {
            Some(PreemptTarget::Queue(name)) => victim
                .running
                .holder
                .as_ref()
                .is_some_and(|holder| holder.who.queue == name),
            Some(PreemptTarget::Resource(name, value)) => {
                has_requested(victim, name, value, catalog)
            }
            Some(PreemptTarget::Nobody) | None => false,
        })
}

/// Whether a running job requested this value of a resource.
fn has_requested(victim: &PossibleVictim, name: &str, value: &str, catalog: &Catalog) -> bool {
    match catalog.index(name) {
        Some(index) => {
            let amount = victim.running.taken.get(index).copied().unwrap_or(0);
            amount > 0 && equals(&catalog.value(index, amount), value)
        }
        None if name == "walltime" => victim
            .candidate
            .walltime
            .is_some_and(|walltime| equals(&ResourceValue::Time(walltime), value)),
        None => victim
            .candidate
            .asked
            .iter()
            .any(|(known, requested)| known == name && equals(requested, value)),
    }
}

/// Whether a value equals the value that `text` denotes.
fn equals(known: &ResourceValue, text: &str) -> bool {
    ResourceValue::parse(known.kind(), text).as_ref() == Some(known)
}

/// Whether the QOS definitions allow any preemption: one has the `RESTARTPREEMPT` flag, or one has
/// `PREEMPTOR` and one has `PREEMPTEE`.
fn has_preemptors(qualities: &Qualities) -> bool {
    has_flag(qualities, Flag::RestartPreempt)
        || (has_flag(qualities, Flag::Preemptor) && has_flag(qualities, Flag::Preemptee))
}

fn has_flag(qualities: &Qualities, flag: Flag) -> bool {
    let mut all = qualities.all.iter();
    all.any(|quality| quality.flags.contains(&flag))
}
