//! Is it worth enough? Where the policy sets a bar, who does not get over it starts nothing (I15, X17).

use super::ledger::Ledger;
use super::plan::Plan;
use super::priority::Candidate;
use super::shape::{ClassId, ClassKey};
use super::snapshot::State;
use super::yardstick::Yardstick;
use crate::model::job::JobId;
use crate::model::policy::Policy;
use crate::model::reason::Reason;
use crate::model::time::Time;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The bar, if there is one, and what jobs are held against it by.
pub struct Threshold<'s> {
    bar: Option<(Yardstick<'s>, f64)>,
}

impl<'s> Threshold<'s> {
    /// That of the policy.
    pub fn new(state: &'s State, policy: &'s Policy, now: Time) -> Threshold<'s> {
        let bar = policy.precedence.threshold.map(|least| (Yardstick::new(state, policy, now), least));
        Threshold { bar }
    }

    /// Refuses a job that is worth no more than the bar.
    fn admit(&self, state: &State, job: JobId, class: &ClassKey) -> Result<(), Reason> {
        let Some((yardstick, least)) = &self.bar else { return Ok(()) };
        let score = state.wait(job).map(|wait| yardstick.rate(class).merit(wait).score());
        match score.filter(|score| score <= least) {
            Some(score) => Err(Reason::UnderThreshold { value: score.to_string(), threshold: least.to_string() }),
            None => Ok(()),
        }
    }
}

/// Refuses who is worth too little.
pub fn admit(job: Candidate, ledger: &Ledger) -> Result<(), Reason> {
    ledger.threshold.admit(ledger.state, job.job, job.class)
}

/// Says of the classes of which no job gets over the bar that this is why they wait, where all that ask
/// for the same were refused at one stroke for want of room: that would come only after (G5).
pub fn tell_low(state: &State, threshold: &Threshold, plan: &mut Plan) {
    if threshold.bar.is_none() {
        return;
    }
    let told: BTreeMap<ClassId, bool> = plan.verdicts.iter().map(|(whom, reason)| (*whom, reason.is_never())).collect();
    let shadowed = state.classes.values().filter(|class| {
        let [own, shape] = class.key.verdict_names();
        !told.contains_key(&own) && told.get(&shape) == Some(&false)
    });
    let low = shadowed.filter_map(|class| {
        let reasons = class.jobs.keys().map(|place| threshold.admit(state, place.1, &class.key).err());
        let best = reasons.collect::<Option<Vec<Reason>>>()?.into_iter().next()?;
        Some((class.key.id, Arc::new(best)))
    });
    let low: Vec<_> = low.collect();
    plan.verdicts.extend(low);
}
