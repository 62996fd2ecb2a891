//! Reported amounts of system-wide resources, such as licenses (Q21).

use crate::model::system_resource::ReportedCount;
use crate::model::trigger::Trigger;
use crate::sched::view::change::Change;
use crate::server::state::ServerState;
use crate::update::Update;
use std::borrow::Cow;

impl ServerState {
    /// The last reported amount of a resource.
    pub fn reported(&self, resource: &str) -> Option<&ReportedCount> {
        self.license_counts.get(resource)
    }

    /// Records the reported amount of a resource; None revokes the earlier report. An unchanged
    /// amount from the same source causes neither a write nor a cycle.
    pub fn set_reported(&mut self, resource: &str, count: Option<ReportedCount>) {
        let is_unchanged = match &count {
            Some(count) => self.license_counts.confirm(resource, count),
            None => self.reported(resource).is_none(),
        };
        if is_unchanged {
            return;
        }
        let before = self.cluster.pool_free(resource);
        self.license_counts.set(resource, count.clone());
        self.update_pool(resource);
        self.transaction
            .changes
            .push(Update::ReportedCount(resource.to_string(), count));
        let name = resource.to_string();
        self.want_cycle(if self.cluster.pool_free(resource) > before {
            Trigger::ResourceFree(name)
        } else {
            Trigger::Resource(name)
        });
    }

    /// Revokes reports on resources that are no longer configured, and the reports of commands that
    /// are no longer configured.
    pub fn revoke_stale_reports(&mut self) {
        let config = &self.setup.config;
        let mut stale = Vec::new();
        for (name, count) in self.license_counts.iter() {
            let is_pool = config.pools.iter().any(|(pool, _)| pool == name);
            let has_meter = config.meters.iter().any(|(meter, _)| meter == name);
            if !is_pool || (count.by == ReportedCount::BY_COMMAND && !has_meter) {
                stale.push(name.clone());
            }
        }
        for name in stale {
            self.set_reported(&name, None);
        }
    }

    /// Updates the scheduler's view of a resource from the configured and reported amounts.
    fn update_pool(&mut self, resource: &str) {
        let pools = &self.setup.config.pools;
        if let Some((_, pool)) = pools.iter().find(|(name, _)| name == resource) {
            let pool = self.license_counts.pool(resource, pool);
            self.cluster
                .make(Change::Pool(Cow::Borrowed(resource), Cow::Owned(pool)));
        }
    }

    /// Undoes the changes of a transaction that was not written.
    pub(crate) fn roll_back_license_counts(&mut self) {
        for resource in self.license_counts.roll_back() {
            self.update_pool(&resource);
        }
    }
}
