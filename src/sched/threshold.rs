//! Is it worth enough? Where the policy sets a bar, who does not get over it starts nothing (I15, X17).

use super::class::Class;
use super::ledger::Ledger;
use super::merit::Merit;
use super::plan::Plan;
use super::priority::Candidate;
use super::shape::ClassId;
use super::snapshot::State;
use crate::model::job::JobId;
use crate::model::policy::Policy;
use crate::model::reason::Reason;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Refuses who is worth too little.
pub fn admit(job: Candidate, ledger: &Ledger) -> Result<(), Reason> {
    let Some((least, merit)) = ledger.threshold().zip(ledger.state.merit(job.job)) else { return Ok(()) };
    judge(merit, least)
}

fn judge(merit: Merit, least: f64) -> Result<(), Reason> {
    let value = merit.score();
    let refusal = || Reason::UnderThreshold { value: value.to_string(), threshold: least.to_string() };
    (value > least).then_some(()).ok_or_else(refusal)
}

/// Says of the classes of which nobody gets over the bar that this is why they wait, where all that ask
/// for the same were refused at one stroke for want of room: that would come only after (G5).
pub fn tell_low(state: &State, policy: &Policy, plan: &mut Plan) {
    let Some(least) = policy.precedence.threshold else { return };
    let told: BTreeMap<ClassId, bool> = plan.verdicts.iter().map(|(whom, reason)| (*whom, reason.is_never())).collect();
    let is_shadowed = |class: &Class| {
        let [own, shape] = class.key.verdict_names();
        !told.contains_key(&own) && told.get(&shape) == Some(&false)
    };
    let shadowed = state.classes.values().filter(|class| is_shadowed(class));
    let best = shadowed.filter_map(|class| Some((class.key.id, class.first()?.0)));
    plan.verdicts.extend(best.filter_map(|(class, merit)| Some((class, Arc::new(judge(merit, least).err()?)))));
}

impl State {
    /// What a candidate is worth, as the queue stands; an element as much as its array.
    fn merit(&self, id: JobId) -> Option<Merit> {
        let own = |id| self.jobs.get(&id).and_then(|&(class, rank)| self.classes.get(&class)?.get((rank, id)));
        own(id).or_else(|| own(id.parent()?)).map(|waiting| waiting.merit)
    }
}
