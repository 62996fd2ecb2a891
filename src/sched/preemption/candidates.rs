//! Who may have whose place: for each trigger, which waiting jobs may preempt at all, and whom.

use super::levels::Levels;
use super::victims::{self, Exposed};
use crate::model::cluster_path::ClusterPath;
use crate::model::job::JobId;
use crate::model::policy::preemption::{Mode, NoAgenda, Trigger};
use crate::model::policy::{Order, Policy};
use crate::model::preemption::{Action, Cause};
use crate::model::quality::Flag;
use crate::model::time::{Span, Time};
use crate::sched::ledger::Ledger;
use crate::sched::priority::Candidate;
use crate::sched::shape::ClassKey;
use crate::sched::snapshot::State;

/// The jobs that run and those that wait, under one trigger.
pub struct Rivalry<'s> {
    trigger: Trigger,
    state: &'s State,
    policy: &'s Policy,
    now: Time,
    levels: Option<Levels<'s>>,
    /// Those that could be asked, in the order in which they are asked.
    exposed: Vec<Exposed<'s>>,
    /// Those that their owners want left alone (Q9).
    protected: Vec<Exposed<'s>>,
}

/// What counts of a waiting job beside those that run.
struct Claim {
    job: JobId,
    score: f64,
    cluster: ClusterPath,
    level: usize,
}

impl<'s> Rivalry<'s> {
    /// As it stands; None where nobody can preempt anybody.
    pub fn open(trigger: Trigger, ledger: &mut Ledger<'s>) -> Option<Rivalry<'s>> {
        let (state, policy, now) = (ledger.state, ledger.policy(), ledger.now);
        let has = |flag: &Flag| policy.qualities.all.iter().any(|quality| quality.flags.contains(flag));
        let levels = match trigger {
            Trigger::Qube if policy.preemption.mode == Mode::Disabled => return None,
            Trigger::Qos if !has(&Flag::Preemptor) || !has(&Flag::Preemptee) => return None,
            Trigger::Levels => Some(Levels::open(state, policy, ledger.books(), now)?),
            // Decided node by node.
            Trigger::Starvation => return None,
            Trigger::Qube | Trigger::Qos => None,
        };
        let all = victims::exposed(state, policy, now).into_iter();
        let (protected, exposed): (Vec<_>, Vec<_>) =
            all.filter(|one| !ledger.is_preempted(one.job)).partition(|one| one.tenure.protected);
        let next = victims::next_exposed(state, policy, now).filter(|_| policy.preemption.exempt > Span(0));
        next.into_iter().for_each(|moment| ledger.look_again_at(moment));
        let rivalry = Rivalry { trigger, state, policy, now, levels, exposed, protected };
        (!rivalry.exposed.is_empty() || !rivalry.protected.is_empty()).then_some(rivalry)
    }

    /// Whether a waiting job may preempt anybody.
    pub fn may_preempt(&mut self, job: Candidate, ledger: &Ledger) -> bool {
        match self.trigger {
            Trigger::Qos => ledger.policy().qualities.flags(job.class.who.qos.as_deref()).contains(&Flag::Preemptor),
            Trigger::Levels => self.level(job.job, job.class) < self.policy.preemption.levels.len(),
            Trigger::Qube | Trigger::Starvation => true,
        }
    }

    /// Why those make way that do.
    pub fn cause(&self) -> Cause {
        match self.trigger {
            Trigger::Qube => Cause::Rank,
            Trigger::Qos => Cause::Quality,
            Trigger::Levels => Cause::Level,
            Trigger::Starvation => Cause::Starvation,
        }
    }

    /// Whom a waiting job may have make way, in the order in which they are asked, each with how it can; of
    /// several levels the lowest first.
    pub fn yielding_to(&mut self, job: Candidate) -> Vec<(Exposed<'s>, Vec<Action>)> {
        let claim = self.claim(job);
        let exposed = std::mem::take(&mut self.exposed);
        let targets = job.class.targets.as_deref();
        let mut found = Vec::new();
        for one in exposed.iter().filter(|one| is_target(one, targets)) {
            if self.is_free_to_leave(one, &claim)
                && let Some(rank) = self.rank_below(one, &claim)
            {
                let actions = self.actions(one);
                found.extend((!actions.is_empty()).then_some((rank, *one, actions)));
            }
        }
        self.exposed = exposed;
        // The order within a level is kept.
        found.sort_by_key(|(rank, ..)| std::cmp::Reverse(*rank));
        found.into_iter().map(|(_, one, actions)| (one, actions)).collect()
    }

    /// How many could be asked besides, did their owners not want them left alone.
    pub fn protected_from(&mut self, job: Candidate) -> u64 {
        let claim = self.claim(job);
        let protected = std::mem::take(&mut self.protected);
        let count = protected.iter().filter(|one| self.rank_below(one, &claim).is_some()).count();
        self.protected = protected;
        count as u64
    }

    fn claim(&mut self, job: Candidate) -> Claim {
        Claim {
            job: job.job,
            score: self.state.score(self.policy, job.job).unwrap_or(0.0),
            cluster: job.class.cluster(),
            level: self.level(job.job, job.class),
        }
    }

    /// A job was told to make way: nobody else has its place.
    pub fn forget(&mut self, gone: &[JobId]) {
        self.exposed.retain(|one| !gone.contains(&one.job));
    }

    /// G9: who made way for a job that runs now does not drive it out at once.
    fn is_free_to_leave(&self, one: &Exposed, claim: &Claim) -> bool {
        let way = self.state.standing.made_way(claim.job);
        way.is_none_or(|(to, at)| to != one.job || self.now >= at + self.policy.preemption.exempt)
    }

    /// How far below a waiting job a running one stands; None if it does not.
    fn rank_below(&mut self, one: &Exposed, claim: &Claim) -> Option<usize> {
        let flags = |who: Option<&str>| self.policy.qualities.flags(who);
        let who = || Some(&one.running.holder.as_ref()?.who);
        match self.trigger {
            Trigger::Qube => self.sorts_behind(one, claim).then_some(0),
            Trigger::Qos => {
                let is_exposed = flags(who()?.qos.as_deref()).contains(&Flag::Preemptee);
                (is_exposed && claim.score > one.tenure.score?).then_some(0)
            }
            Trigger::Levels => {
                let level = self.levels.as_mut()?.of(who()?, one.tenure.waited);
                (level > claim.level).then_some(level)
            }
            Trigger::Starvation => None,
        }
    }

    /// Q8: by how far they are from its nodes, where clusters count, then by what they are worth; of equals
    /// nobody drives the other out.
    fn sorts_behind(&self, one: &Exposed, claim: &Claim) -> bool {
        let is_worth_less = one.tenure.score.is_some_and(|score| score < claim.score);
        if self.policy.precedence.order != Order::Cluster {
            return is_worth_less;
        }
        let mut distances = one.distances(self.state, &claim.cluster);
        distances.all(|(own, others)| others < own || (others == own && is_worth_less))
    }

    /// How it can make way, what is tried first first (Q11 to Q13).
    fn actions(&self, one: &Exposed) -> Vec<Action> {
        let rule = &self.policy.preemption;
        let at_once = || one.actions(self.policy, self.now).collect();
        let is_element = one.job.index().is_some();
        match rule.mode {
            _ if self.trigger != Trigger::Qube => at_once(),
            Mode::Disabled => Vec::new(),
            Mode::Aggressive => at_once(),
            Mode::Passive if is_element => vec![Action::Finish],
            Mode::Mixed if is_element && one.tenure.left(self.now).is_none_or(|left| left <= 50.0) => {
                vec![Action::Finish]
            }
            Mode::Mixed if is_element => at_once(),
            Mode::Passive | Mode::Mixed if rule.no_agenda == NoAgenda::Wait => Vec::new(),
            Mode::Passive | Mode::Mixed => at_once(),
        }
    }

    fn level(&mut self, job: JobId, class: &ClassKey) -> usize {
        let Some(levels) = &mut self.levels else { return 0 };
        let waited = self.state.waiting(job).map_or(Span(0), |waiting| waiting.wait.eligibility.at(self.now));
        levels.of(&class.who, waited)
    }
}

/// Whether a job is among those that another says it may have the place of (`preempt_targets`): those of
/// queues, or none at all.
fn is_target(one: &Exposed, targets: Option<&str>) -> bool {
    let Some(targets) = targets else { return true };
    let queue = one.running.holder.as_ref().map_or("", |holder| holder.who.queue.as_str());
    targets.split(',').any(|target| match target.trim().split_once('=') {
        Some((kind, name)) => kind.eq_ignore_ascii_case("queue") && name == queue,
        None => false,
    })
}
