//! Who may have whose place: for each trigger, which waiting jobs may preempt at all, and whom.

use super::levels::Levels;
use super::victims::{self, Exposed};
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

/// The jobs that run and those that wait, under one trigger.
pub struct Rivalry<'s> {
    trigger: PreemptTrigger,
    state: &'s ClusterState,
    policy: &'s Policy,
    now: Time,
    levels: Option<Levels<'s>>,
    /// Those that could be asked, in the order in which they are asked.
    exposed: Vec<Exposed<'s>>,
    /// Those that their owners want left alone (Q9).
    protected: Vec<Exposed<'s>>,
    /// Those whose places others have been given in this cycle.
    given: Vec<Exposed<'s>>,
}

/// What counts of a waiting job beside those that run.
struct Preemptor {
    score: f64,
    cluster: ClusterPath,
    level: usize,
    /// Whether its quality of service preempts those that make way, and those that can be run
    /// again.
    preempts: bool,
    restarts: bool,
}

impl<'s> Rivalry<'s> {
    /// As it stands; None where nobody can preempt anybody.
    pub fn open(trigger: PreemptTrigger, cycle: &mut CycleState<'s>) -> Option<Rivalry<'s>> {
        let (state, policy, now) = (cycle.state, cycle.policy(), cycle.now);
        let levels = match trigger {
            PreemptTrigger::Qube if policy.preemption.mode == PreemptMode::Disabled => return None,
            PreemptTrigger::Qos if has_preemptors(&policy.qualities) => None,
            PreemptTrigger::Levels => {
                Some(Levels::open(state, policy, cycle.limit_counters(), now)?)
            }
            // Decided node by node.
            PreemptTrigger::Starvation | PreemptTrigger::Qos => return None,
            PreemptTrigger::Qube => None,
        };
        let (protected, others): (Vec<_>, Vec<_>) = victims::exposed(state, policy, now)
            .into_iter()
            .partition(|one| one.candidate.protected);
        let (given, exposed): (Vec<_>, Vec<_>) = others
            .into_iter()
            .partition(|one| cycle.is_preempted(one.job));
        if policy.preemption.exempt > Span(0)
            && let Some(moment) = victims::next_exposed(state, policy, now)
        {
            cycle.look_again_at(moment);
        }
        let rivalry = Rivalry {
            trigger,
            state,
            policy,
            now,
            levels,
            exposed,
            protected,
            given,
        };
        let are_none =
            rivalry.exposed.is_empty() && rivalry.protected.is_empty() && rivalry.given.is_empty();
        (!are_none).then_some(rivalry)
    }

    /// Whether a waiting job may preempt anybody.
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

    /// Why those make way that do.
    pub fn cause(&self) -> PreemptCause {
        match self.trigger {
            PreemptTrigger::Qube => PreemptCause::Rank,
            PreemptTrigger::Qos => PreemptCause::Quality,
            PreemptTrigger::Levels => PreemptCause::Level,
            PreemptTrigger::Starvation => PreemptCause::Starvation,
        }
    }

    /// Whom a waiting job may have make way, in the order in which they are asked, each with how it
    /// can; of several levels the lowest first.
    pub fn victims_of(&mut self, job: Candidate) -> Vec<(Exposed<'s>, Vec<PreemptAction>)> {
        let preemptor = self.preemptor(job);
        let exposed = std::mem::take(&mut self.exposed);
        let targets = job.class.targets.as_deref();
        let mut found = Vec::new();
        let catalog = &self.state.cluster.catalog;
        for one in exposed
            .iter()
            .filter(|one| targets.is_none_or(|targets| is_target(one, targets, catalog)))
        {
            if let Some(rank) = self.rank_below(one, &preemptor) {
                let actions = self.actions(one, &preemptor);
                found.extend((!actions.is_empty()).then_some((rank, *one, actions)));
            }
        }
        self.exposed = exposed;
        // The order within a level is kept.
        found.sort_by_key(|(rank, ..)| std::cmp::Reverse(*rank));
        found
            .into_iter()
            .map(|(_, one, actions)| (one, actions))
            .collect()
    }

    /// How many could be asked, or could have been, and how many besides, did their owners not want
    /// them left alone.
    pub fn below(&mut self, job: Candidate<'s>) -> (u64, u64) {
        let preemptor = self.preemptor(job);
        let given = std::mem::take(&mut self.given);
        let protected = std::mem::take(&mut self.protected);
        let late = self.count_below(&given, &preemptor);
        let barred = self.count_below(&protected, &preemptor);
        (self.given, self.protected) = (given, protected);
        (self.victims_of(job).len() as u64 + late, barred)
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

    /// A job was told to make way: nobody else has its place.
    pub fn forget(&mut self, gone: &[JobId]) {
        self.exposed.retain(|one| !gone.contains(&one.job));
    }

    /// The number of those that are below a waiting job.
    fn count_below(&mut self, all: &[Exposed], preemptor: &Preemptor) -> u64 {
        let below = all
            .iter()
            .filter(|one| self.rank_below(one, preemptor).is_some());
        below.count() as u64
    }

    /// How far below a waiting job a running one stands; None if it does not.
    fn rank_below(&mut self, one: &Exposed, preemptor: &Preemptor) -> Option<usize> {
        let holder = one.running.holder.as_ref().map(|holder| &holder.who);
        match self.trigger {
            PreemptTrigger::Qube => self.sorts_behind(one, preemptor).then_some(0),
            PreemptTrigger::Qos => {
                holder?;
                let is_exposed = self.yields_by_flag(one, preemptor)
                    || (preemptor.restarts && one.candidate.rerunnable);
                (is_exposed && preemptor.score > one.candidate.score?).then_some(0)
            }
            PreemptTrigger::Levels => {
                let level = self.levels.as_mut()?.of(holder?, one.candidate.waited);
                (level > preemptor.level).then_some(level)
            }
            PreemptTrigger::Starvation => None,
        }
    }

    /// M43: whether one's quality of service preempts, and the other's makes way.
    fn yields_by_flag(&self, one: &Exposed, preemptor: &Preemptor) -> bool {
        let qos = one
            .running
            .holder
            .as_ref()
            .and_then(|holder| holder.who.qos.as_deref());
        preemptor.preempts && self.policy.qualities.flags(qos).contains(&Flag::Preemptee)
    }

    /// Q8: by how far they are from its nodes, where clusters count, then by what they are worth;
    /// of equals nobody drives the other out.
    fn sorts_behind(&self, one: &Exposed, preemptor: &Preemptor) -> bool {
        let has_lower_score = one
            .candidate
            .score
            .is_some_and(|score| score < preemptor.score);
        if self.policy.precedence.order != PriorityOrder::Cluster {
            return has_lower_score;
        }
        let mut distances = one.distances(self.state, &preemptor.cluster);
        distances.all(|(own, others)| others < own || (others == own && has_lower_score))
    }

    /// How it can make way, what is tried first first (Q11 to Q13).
    fn actions(&self, one: &Exposed, preemptor: &Preemptor) -> Vec<PreemptAction> {
        let rule = &self.policy.preemption;
        let is_element = one.job.index().is_some();
        let finishes = match rule.mode {
            // Rerunnable jobs without the flag are requeued: nothing else was agreed to.
            _ if self.trigger == PreemptTrigger::Qos && !self.yields_by_flag(one, preemptor) => {
                return vec![PreemptAction::Requeue];
            }
            _ if self.trigger != PreemptTrigger::Qube => false,
            PreemptMode::Disabled => return Vec::new(),
            PreemptMode::Aggressive => false,
            PreemptMode::Passive if is_element => true,
            PreemptMode::Mixed if is_element => {
                one.candidate.left(self.now).is_none_or(|left| left <= 50.0)
            }
            PreemptMode::Passive | PreemptMode::Mixed => rule.no_agenda == NoAgenda::Wait,
        };
        if finishes {
            vec![PreemptAction::Finish]
        } else {
            one.actions(self.policy, self.now).collect()
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

/// Whether a job is among those that another says it may have the place of (`preempt_targets`): in
/// any of the queues, or asking for as much of any of the resources; `None` names nobody.
fn is_target(one: &Exposed, targets: &str, catalog: &Catalog) -> bool {
    targets
        .split(',')
        .any(|target| match PreemptTarget::parse(target) {
            Some(PreemptTarget::Queue(name)) => one
                .running
                .holder
                .as_ref()
                .is_some_and(|holder| holder.who.queue == name),
            Some(PreemptTarget::Resource(name, value)) => asks_for(one, name, value, catalog),
            Some(PreemptTarget::Nobody) | None => false,
        })
}

/// Whether a running job asked for so much of a resource.
fn asks_for(one: &Exposed, name: &str, value: &str, catalog: &Catalog) -> bool {
    match catalog.index(name) {
        Some(index) => {
            let amount = one.running.taken.get(index).copied().unwrap_or(0);
            amount > 0 && equals(&catalog.value(index, amount), value)
        }
        None if name == "walltime" => one
            .candidate
            .walltime
            .is_some_and(|walltime| equals(&ResourceValue::Time(walltime), value)),
        None => one
            .candidate
            .asked
            .iter()
            .any(|(known, asked)| known == name && equals(asked, value)),
    }
}

/// Whether a value equals the text of another of its kind.
fn equals(known: &ResourceValue, text: &str) -> bool {
    ResourceValue::parse(known.kind(), text).as_ref() == Some(known)
}

/// Whether the qualities of service have jobs that preempt and jobs that they may preempt.
fn has_preemptors(qualities: &Qualities) -> bool {
    has_flag(qualities, Flag::RestartPreempt)
        || (has_flag(qualities, Flag::Preemptor) && has_flag(qualities, Flag::Preemptee))
}

fn has_flag(qualities: &Qualities, flag: Flag) -> bool {
    let mut all = qualities.all.iter();
    all.any(|quality| quality.flags.contains(&flag))
}
