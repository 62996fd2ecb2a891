//! What of the limits on what is queued is used, and by which jobs: what `qstat --limits` shows
//! (P9).

use super::{CounterEntry, CredentialGroup, JobCounters};
use crate::model::job_id::JobId;
use crate::model::limit::usage::{Figure, LimitUse};
use crate::model::limit::{Limit, LimitKey, LimitValues, Quantity};
use crate::model::resource::{ResourceValue, Resources};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What those a limit counts together have of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// The limit's place among all.
    pub place: usize,
    /// Who they are.
    pub key: LimitKey,
    /// How much they may have by this limit.
    pub bounds: LimitValues,
    /// What they have, as the limit counts.
    pub used: i64,
    /// Their jobs, the first [`LimitUse::MOST`].
    pub by: Vec<JobId>,
    /// How many more there are.
    pub more: u64,
}

/// The jobs that use a limit.
#[derive(Clone, Debug, Default)]
struct LimitUsers {
    bounds: LimitValues,
    by: Vec<JobId>,
    more: u64,
}

impl Counted {
    /// As it is told; how many wait to be considered is for the scheduler to say.
    pub fn told(&self, limit: &Limit, resources: &Resources) -> LimitUse {
        let quantity = &limit.quantity;
        let LimitValues { soft, hard } = self.bounds;
        LimitUse {
            place: self.place,
            limit: limit.clone(),
            key: self.key.clone(),
            used: figure(quantity, self.used, resources),
            soft: soft.map(|amount| figure(quantity, amount, resources)),
            hard: hard.map(|amount| figure(quantity, amount, resources)),
            by: self.by.clone(),
            more: self.more,
            waiting: 0,
            barred: 0,
        }
    }
}

fn figure(quantity: &Quantity, amount: i64, resources: &Resources) -> Figure {
    let definition = match quantity {
        Quantity::Resource(name) => resources.get(name),
        _ => None,
    };
    let shown = match definition {
        Some(definition) => ResourceValue::of_amount(definition.kind, amount).to_string(),
        None => amount.to_string(),
    };
    Figure { amount, shown }
}

impl LimitUsers {
    fn add(&mut self, jobs: &[JobId], more: u64) {
        let named = jobs.len().min(LimitUse::MOST.saturating_sub(self.by.len()));
        self.by.extend(&jobs[..named]);
        self.more += more + (jobs.len() - named) as u64;
    }
}

impl JobCounters {
    /// Of each limit on what is queued that anybody uses.
    pub fn uses(&self) -> Vec<Counted> {
        let users = self.users();
        let mut all = Vec::new();
        for limit in self.sums.keys() {
            let (place, key) = limit;
            let LimitUsers { bounds, by, more } =
                users.get(&(*place, key)).cloned().unwrap_or_default();
            all.push(Counted {
                place: *place,
                key: key.clone(),
                bounds,
                used: self.sum(limit),
                by,
                more,
            });
        }
        all
    }

    /// Jobs of one party use the same limits: their many are gone through by party, and parties by
    /// limit.
    fn users(&self) -> BTreeMap<(usize, &LimitKey), LimitUsers> {
        let mut parties: BTreeMap<*const CredentialGroup, Vec<LimitUsers>> = BTreeMap::new();
        for (id, CounterEntry { party, amounts, .. }) in &self.jobs {
            let users = parties
                .entry(Arc::as_ptr(party))
                .or_insert_with(|| vec![LimitUsers::default(); party.concerns.len()]);
            for (users, amount) in users.iter_mut().zip(amounts) {
                if *amount > 0 {
                    users.add(&[*id], 0);
                }
            }
        }
        let mut all: BTreeMap<(usize, &LimitKey), LimitUsers> = BTreeMap::new();
        // In the order of their names, and not in that of the pointers.
        for party in self.parties.values() {
            let users = parties.get(&Arc::as_ptr(party)).into_iter().flatten();
            for (one, users) in party.concerns.iter().zip(users) {
                let all = all.entry((one.place, &one.key)).or_default();
                all.bounds = one.bounds;
                all.add(&users.by, users.more);
            }
        }
        all.values_mut().for_each(|users| users.by.sort_unstable());
        all
    }
}
