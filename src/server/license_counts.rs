//! The amounts of system-wide resources, such as licenses, that operators and the commands
//! configured for these resources report (Q21). A reported amount applies until the next report or
//! until it is revoked, even after a restart.

use crate::model::system_resource::Pool;
use crate::model::system_resource::ReportedCount;
use std::collections::BTreeMap;

/// The reported amounts by resource, with the earlier amounts for a rollback.
#[derive(Default)]
pub(crate) struct LicenseCounts {
    reported: BTreeMap<String, ReportedCount>,
    /// The earlier amounts of the resources that the current transaction has changed.
    before: BTreeMap<String, Option<ReportedCount>>,
}

impl LicenseCounts {
    /// Starts with the stored amounts of an earlier schedd.
    pub fn new(reported: BTreeMap<String, ReportedCount>) -> LicenseCounts {
        LicenseCounts {
            reported,
            before: BTreeMap::new(),
        }
    }

    /// The last reported amount of a resource.
    pub fn get(&self, resource: &str) -> Option<&ReportedCount> {
        self.reported.get(resource)
    }

    /// All reported amounts.
    pub fn iter(&self) -> impl Iterator<Item = (&String, &ReportedCount)> {
        self.reported.iter()
    }

    /// The configured resource `pool` with the amounts that are reported for it.
    pub fn pool(&self, name: &str, pool: &Pool) -> Pool {
        pool.with_reported_counts(self.get(name))
    }

    /// If a report repeats the current amount from the same source, updates only the time of the
    /// report. Returns whether this is the case.
    pub fn confirm(&mut self, resource: &str, count: &ReportedCount) -> bool {
        let Some(known) = self.reported.get_mut(resource) else {
            return false;
        };
        let is_equal = known.has_same_counts(count) && known.by == count.by;
        if is_equal {
            known.at = count.at;
        }
        is_equal
    }

    /// Replaces an amount; None removes it. [`LicenseCounts::roll_back`] restores the earlier
    /// amount.
    pub fn set(&mut self, resource: &str, count: Option<ReportedCount>) {
        let before = match count {
            Some(count) => self.reported.insert(resource.to_string(), count),
            None => self.reported.remove(resource),
        };
        self.before.entry(resource.to_string()).or_insert(before);
    }

    /// Ends a stored transaction. Its changes can no longer be undone.
    pub fn settle(&mut self) {
        self.before.clear();
    }

    /// Undoes the changes of the current transaction. Returns the changed resources.
    pub fn roll_back(&mut self) -> Vec<String> {
        let before = std::mem::take(&mut self.before);
        let resources = before.keys().cloned().collect();
        for (resource, count) in before {
            match count {
                Some(count) => self.reported.insert(resource, count),
                None => self.reported.remove(&resource),
            };
        }
        resources
    }
}
