//! The amounts of system-wide resources, such as licenses, that commands and operators report
//! (Q21). A reported amount stays in force, also after a restart, until another one is reported.

use crate::model::system_resource::Pool;
use crate::model::system_resource::ReportedCount;
use std::collections::BTreeMap;

/// The reported amounts by resource, and those that the tick has changed.
#[derive(Default)]
pub(crate) struct LicenseCounts {
    reported: BTreeMap<String, ReportedCount>,
    /// The amounts that the tick has changed, as they were before.
    before: BTreeMap<String, Option<ReportedCount>>,
}

impl LicenseCounts {
    /// The amounts that were reported earlier.
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

    /// A configured resource with its reported amount.
    pub fn pool(&self, name: &str, pool: &Pool) -> Pool {
        pool.with_reported_counts(self.get(name))
    }

    /// If the report equals the amount in force, updates only its time. Returns whether it does.
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

    /// Replaces an amount. Until [`LicenseCounts::settle`] the earlier one can be restored.
    pub fn set(&mut self, resource: &str, count: Option<ReportedCount>) {
        let before = match count {
            Some(count) => self.reported.insert(resource.to_string(), count),
            None => self.reported.remove(resource),
        };
        self.before.entry(resource.to_string()).or_insert(before);
    }

    /// The tick is stored: its changes can no longer be undone.
    pub fn settle(&mut self) {
        self.before.clear();
    }

    /// Undoes the changes of the tick. Returns the resources concerned.
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
