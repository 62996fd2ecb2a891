//! The usage of members (users under accounts): a decaying sum for each member, including running
//! jobs. A *charge* is the usage of one attempt (start) of a job.
//!
//! The decayed sum at a later time is computed from the sum alone, without the charges. The cost is
//! therefore the same for a day and for a year of charges. The result equals the sum of the decayed
//! charges, in whatever order they were added. After a restart, or when the rules change, the sums
//! are recomputed from the charges. Each member has two numbers (X6): the decayed usage, and the
//! resources in use at the moment.

mod balance;

use crate::model::account::charge::{Charge, UsageRules, Used};
use crate::model::account::member::Member;
use crate::model::job_id::JobId;
use crate::model::time::Time;
use balance::DecayingSum;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The usage of all members.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(from = "StoredUsage", into = "StoredUsage")]
pub struct UsageTable {
    rules: UsageRules,
    members: BTreeMap<Member, MemberUsage>,
    /// The charges of running jobs.
    open: BTreeMap<JobId, Charge>,
}

/// The usage of one member.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct MemberUsage {
    /// The decayed sum of the charges that have ended.
    ended: DecayingSum,
    /// The number of charges that have ended.
    charges: u64,
    /// The sum of the charges that have ended, without decay.
    total: f64,
    /// The decayed sum of the charges of running jobs, until the time of this sum.
    running: DecayingSum,
    /// The number of running jobs.
    jobs: u64,
    /// The increase of usage per second by running jobs, after the time of `running`.
    rate: f64,
}

impl MemberUsage {
    fn open(&mut self, charge: &Charge, rules: &UsageRules) {
        let begun = self.running.at().max(charge.from);
        self.advance(begun, rules);
        let stretch = rules.stretch(charge, begun);
        self.running.add(stretch, 1.0, rules);
        self.rate += stretch.rate;
        self.jobs += 1;
    }

    fn close(&mut self, charge: &Charge, rules: &UsageRules) {
        let stretch = rules.stretch(charge, self.running.at());
        self.jobs -= 1;
        match self.jobs {
            // Resetting to zero removes rounding errors.
            0 => (self.running, self.rate) = (DecayingSum::default(), 0.0),
            _ => {
                self.running.add(stretch, -1.0, rules);
                self.rate -= stretch.rate;
            }
        }
    }

    fn advance(&mut self, until: Time, rules: &UsageRules) {
        let stretch = self.running.stretch_until(until, self.rate);
        self.running.add(stretch, 1.0, rules);
    }

    fn add(&mut self, charge: &Charge, sign: f64, rules: &UsageRules) {
        let Some(to) = charge.to else { return };
        let stretch = rules.stretch(charge, to);
        self.total += sign * rules.rate(charge) * (to.since(charge.from).0 as f64 / 1000.0);
        self.ended.add(stretch, sign, rules);
    }

    fn decayed(&self, now: Time, rules: &UsageRules) -> f64 {
        self.left(now, now, rules)
    }

    /// The usage until `until`, decayed to the time `then`. What running jobs use after `until`
    /// does not count.
    fn left(&self, until: Time, then: Time, rules: &UsageRules) -> f64 {
        let continuing = rules.counted(self.running.stretch_until(until, self.rate), then);
        let left = self.ended.left(then, rules)
            + self.running.left(then, rules)
            + rules.decay.left(continuing, then);
        left.max(0.0)
    }

    fn is_unused(&self) -> bool {
        self.charges == 0 && self.jobs == 0
    }
}

impl UsageTable {
    /// A table without usage.
    pub fn new(rules: UsageRules) -> UsageTable {
        UsageTable {
            rules,
            ..UsageTable::default()
        }
    }

    /// A table with the usage of these charges, which must have ended.
    pub fn of<'c>(rules: UsageRules, charges: impl IntoIterator<Item = &'c Charge>) -> UsageTable {
        let mut usage = UsageTable::new(rules);
        for charge in charges {
            usage.add(charge);
        }
        usage
    }

    /// The rules for weights and decay.
    pub fn rules(&self) -> &UsageRules {
        &self.rules
    }

    /// Adds a charge that has ended. Ignores the charge of a running job, and a charge without
    /// duration.
    pub fn add(&mut self, charge: &Charge) {
        if charge.to.is_some() && !charge.is_empty() {
            let tally = self.members.entry(charge.member.clone()).or_default();
            tally.add(charge, 1.0, &self.rules);
            tally.charges += 1;
        }
    }

    /// Removes a charge that has ended and is no longer stored. Does nothing if the member has no
    /// charges that have ended.
    pub fn forget(&mut self, charge: &Charge) {
        let Some(tally) = self
            .members
            .get_mut(&charge.member)
            .filter(|tally| tally.charges > 0)
        else {
            return;
        };
        tally.add(charge, -1.0, &self.rules);
        tally.charges -= 1;
        self.drop_if_unused(&charge.member);
    }

    /// Sets the charge of a job that runs or has ended. Replaces the charge that the job had while
    /// it ran, if any.
    pub fn charge(&mut self, job: JobId, charge: &Charge) {
        if self.is_charged(job, charge) {
            return;
        }
        if let Some(open) = self.open.remove(&job) {
            self.close(&open);
        }
        if charge.to.is_some() {
            return self.add(charge);
        }
        self.members
            .entry(charge.member.clone())
            .or_default()
            .open(charge, &self.rules);
        self.open.insert(job, charge.clone());
    }

    fn close(&mut self, charge: &Charge) {
        if let Some(tally) = self.members.get_mut(&charge.member) {
            tally.close(charge, &self.rules);
        }
        self.drop_if_unused(&charge.member);
    }

    fn drop_if_unused(&mut self, member: &Member) {
        if self.members.get(member).is_some_and(MemberUsage::is_unused) {
            self.members.remove(member);
        }
    }

    /// Whether this is the current charge of a running job.
    pub fn is_charged(&self, job: JobId, charge: &Charge) -> bool {
        self.open.get(&job) == Some(charge)
    }

    /// The charge of a running job.
    pub fn open(&self, job: JobId) -> Option<&Charge> {
        self.open.get(&job)
    }

    /// The decayed usage of a member at `now` in seconds of weighted resources, including its
    /// running jobs: `usage_decayed` of X6.
    pub fn decayed(&self, member: &Member, now: Time) -> f64 {
        self.members
            .get(member)
            .map_or(0.0, |tally| tally.decayed(now, &self.rules))
    }

    /// The decayed usage of all members, in the order of [`UsageTable::members`].
    pub fn all_decayed(&self, now: Time) -> impl Iterator<Item = f64> + '_ {
        self.members
            .values()
            .map(move |tally| tally.decayed(now, &self.rules))
    }

    /// The weighted resources that the running jobs of a member use: `usage_now` of X6.
    pub fn in_use(&self, member: &Member) -> f64 {
        self.members
            .get(member)
            .map_or(0.0, |tally| tally.rate.max(0.0))
    }

    /// All members with charges, sorted.
    pub fn members(&self) -> impl Iterator<Item = &Member> {
        self.members.keys()
    }

    /// The decayed usage of each member at a later time `then`, in the order of
    /// [`UsageTable::members`]: (the usage if no jobs run from `now` on, the usage if all running
    /// jobs continue).
    pub fn ahead(&self, now: Time, then: Time) -> impl Iterator<Item = (f64, f64)> {
        self.members.values().map(move |tally| {
            (
                tally.left(now, then, &self.rules),
                tally.decayed(then, &self.rules),
            )
        })
    }

    /// The raw usage (without decay), the decayed usage, and the resources in use of each member,
    /// in the order of [`UsageTable::members`].
    pub fn all(&self, now: Time) -> Vec<Used> {
        let mut running: BTreeMap<&Member, f64> = BTreeMap::new();
        for charge in self.open.values() {
            let length = now.since(charge.from).0 as f64 / 1000.0;
            *running.entry(&charge.member).or_default() += length * self.rules.rate(charge);
        }
        self.members
            .iter()
            .map(|(member, tally)| Used {
                member: member.clone(),
                raw: (tally.total + running.get(member).unwrap_or(&0.0)).max(0.0),
                decayed: tally.decayed(now, &self.rules),
                now: tally.rate.max(0.0),
            })
            .collect()
    }
}

/// The serialized form of [`UsageTable`]: lists, because members and jobs cannot be keys in JSON.
#[derive(Serialize, Deserialize)]
struct StoredUsage {
    rules: UsageRules,
    members: Vec<(Member, MemberUsage)>,
    open: Vec<(JobId, Charge)>,
}

impl From<UsageTable> for StoredUsage {
    fn from(usage: UsageTable) -> StoredUsage {
        StoredUsage {
            rules: usage.rules,
            members: usage.members.into_iter().collect(),
            open: usage.open.into_iter().collect(),
        }
    }
}

impl From<StoredUsage> for UsageTable {
    fn from(stored: StoredUsage) -> UsageTable {
        UsageTable {
            rules: stored.rules,
            members: stored.members.into_iter().collect(),
            open: stored.open.into_iter().collect(),
        }
    }
}

#[cfg(test)]
mod tests;
