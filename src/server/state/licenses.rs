//! What of the whole system's resources is told from outside (Q21): by their commands, and by
//! operators. What was told holds, over restarts too, until something else is.

use crate::model::system_resource::Pool;
use crate::model::system_resource::ReportedCount;
use crate::model::trigger::Trigger;
use crate::sched::view::change::Change;
use crate::server::state::ServerState;
use crate::update::Update;
use std::borrow::Cow;
use std::collections::BTreeMap;

/// All that was told, and what the tick has changed of it.
#[derive(Default)]
pub(crate) struct LicenseCounts {
    told: BTreeMap<String, ReportedCount>,
    /// What the tick has changed, as it was before.
    before: BTreeMap<String, Option<ReportedCount>>,
}

impl LicenseCounts {
    pub fn new(told: BTreeMap<String, ReportedCount>) -> LicenseCounts {
        LicenseCounts {
            told,
            before: BTreeMap::new(),
        }
    }

    /// A resource with what was told of it.
    pub fn pool(&self, name: &str, pool: &Pool) -> Pool {
        pool.as_told(self.told.get(name))
    }
}

impl ServerState {
    /// What was last told of a resource.
    pub fn reported(&self, resource: &str) -> Option<&ReportedCount> {
        self.outside.told.get(resource)
    }

    /// Takes note of what is told of a resource; None for that nothing told before counts. That the
    /// same is told once more is worth no write and no cycle.
    pub fn tell(&mut self, resource: &str, reported: Option<ReportedCount>) {
        let known = self.outside.told.get_mut(resource);
        match (known, &reported) {
            (None, None) => return,
            (Some(known), Some(reported)) if known.says_as(reported) && known.by == reported.by => {
                known.at = reported.at;
                return;
            }
            _ => {}
        }
        let free = |server: &ServerState| server.cluster.pool_free(resource);
        let before = free(self);
        self.hear_of(resource, reported.clone());
        self.tick
            .changes
            .push(Update::ReportedCount(resource.to_string(), reported));
        let is_more = free(self) > before;
        let what = resource.to_string();
        self.want_cycle(if is_more {
            Trigger::ResourceFree(what)
        } else {
            Trigger::Resource(what)
        });
    }

    /// What a command has said counts no more where there is none, and nothing counts of what is no
    /// such resource any more.
    pub fn forget_unasked(&mut self) {
        let config = &self.setup.config;
        let is_pool = |name: &String| config.pools.iter().any(|(pool, _)| pool == name);
        let has_meter = |name: &String| config.meters.iter().any(|(meter, _)| meter == name);
        let is_stale = |(name, reported): &(&String, &ReportedCount)| {
            !is_pool(name) || (reported.by == ReportedCount::BY_COMMAND && !has_meter(name))
        };
        let stale: Vec<String> = self
            .outside
            .told
            .iter()
            .filter(is_stale)
            .map(|(name, _)| name.clone())
            .collect();
        stale.into_iter().for_each(|name| self.tell(&name, None));
    }

    fn hear_of(&mut self, resource: &str, reported: Option<ReportedCount>) {
        let before = match reported {
            Some(reported) => self.outside.told.insert(resource.to_string(), reported),
            None => self.outside.told.remove(resource),
        };
        self.outside
            .before
            .entry(resource.to_string())
            .or_insert(before);
        self.show_pool(resource);
    }

    /// Brings the scheduler's view of a resource in line with what is configured and told.
    fn show_pool(&mut self, resource: &str) {
        let configured = self
            .setup
            .config
            .pools
            .iter()
            .find(|(name, _)| name == resource);
        if let Some(pool) = configured.map(|(_, pool)| self.outside.pool(resource, pool)) {
            self.cluster
                .make(Change::Pool(Cow::Borrowed(resource), Cow::Owned(pool)));
        }
    }

    pub(crate) fn settle_outside(&mut self) {
        self.outside.before.clear();
    }

    pub(crate) fn roll_back_outside(&mut self) {
        for (resource, before) in std::mem::take(&mut self.outside.before) {
            match before {
                Some(reported) => drop(self.outside.told.insert(resource.clone(), reported)),
                None => drop(self.outside.told.remove(&resource)),
            }
            self.show_pool(&resource);
        }
    }
}
