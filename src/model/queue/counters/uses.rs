//! Usage of limits on queued jobs, for `qstat --limits` (P9).

use super::{CounterEntry, CredentialGroup, JobCounters};
use crate::model::job_id::JobId;
use crate::model::limit::usage::{Figure, LimitUse};
use crate::model::limit::{Limit, LimitKey, LimitValues, Quantity};
use crate::model::resource::{ResourceValue, Resources};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Usage of one limit by the jobs that count together, for example all jobs of one user.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// Index of the limit.
    pub place: usize,
    /// Key of the jobs that count together.
    pub key: LimitKey,
    /// Soft and hard value.
    pub bounds: LimitValues,
    /// Amount used, in the unit of the limit.
    pub used: i64,
    /// Jobs that count, in order of id, at most [`LimitUse::MOST`].
    pub by: Vec<JobId>,
    /// Number of further jobs that count.
    pub more: u64,
}

/// Jobs that use a limit.
#[derive(Clone, Debug, Default)]
struct LimitUsers {
    bounds: LimitValues,
    by: Vec<JobId>,
    more: u64,
}

impl Counted {
    /// Formats the amounts. `waiting` and `barred` are 0; the caller can set `waiting`.
    pub fn with_texts(&self, limit: &Limit, resources: &Resources) -> LimitUse {
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
    /// Returns the usage of each limit on queued jobs, if the limit applies to at least one
    /// unfinished job. A limit with a usage of 0 can be missing.
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

    /// Returns the jobs that count toward each limit and key. Jobs with equal credentials count
    /// toward the same limits, so the jobs are grouped by credentials first.
    fn users(&self) -> BTreeMap<(usize, &LimitKey), LimitUsers> {
        let mut credential_groups: BTreeMap<*const CredentialGroup, Vec<LimitUsers>> =
            BTreeMap::new();
        for (id, CounterEntry { group, amounts, .. }) in &self.jobs {
            let users = credential_groups
                .entry(Arc::as_ptr(group))
                .or_insert_with(|| vec![LimitUsers::default(); group.concerns.len()]);
            for (users, amount) in users.iter_mut().zip(amounts) {
                if *amount > 0 {
                    users.add(&[*id], 0);
                }
            }
        }
        let mut all: BTreeMap<(usize, &LimitKey), LimitUsers> = BTreeMap::new();
        // Iterates in the order of credentials, because the order of pointers is not reproducible.
        for group in self.credential_groups.values() {
            let users = credential_groups
                .get(&Arc::as_ptr(group))
                .into_iter()
                .flatten();
            for (one, users) in group.concerns.iter().zip(users) {
                let all = all.entry((one.place, &one.key)).or_default();
                all.bounds = one.bounds;
                all.add(&users.by, users.more);
            }
        }
        all.values_mut().for_each(|users| users.by.sort_unstable());
        all
    }
}
