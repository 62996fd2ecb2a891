//! What is told from outside of what the whole system has (Q21).

use super::World;
use crate::model::system_resource::{Pool, Telling};
use crate::model::trigger::Trigger;
use crate::sched::view::change::Change;
use std::borrow::Cow;

impl World {
    /// There is so much of a resource, and so much of it is used elsewhere; the error names what is
    /// not known.
    pub(super) fn tell(
        &mut self,
        name: &str,
        total: &str,
        used: Option<&str>,
    ) -> Result<(), String> {
        let pool = self
            .config
            .pools
            .iter()
            .find(|(known, _)| known == name)
            .map(|(_, pool)| pool.clone());
        let pool = pool.ok_or_else(|| format!("the whole system has no `{name}`"))?;
        let amount = |text: &str| {
            let amount = self
                .value(name, text)?
                .amount()
                .filter(|amount| *amount >= 0);
            amount.ok_or_else(|| format!("`{text}` is no amount of `{name}`"))
        };
        let (total, elsewhere) = (Some(amount(total)?), used.map_or(Ok(0), amount)?);
        let before = self.state.pool_free(name);
        let telling = Telling {
            total,
            elsewhere,
            at: self.now,
            by: "license@sim".to_string(),
        };
        self.told.insert(name.to_string(), telling);
        self.show_pool(name, &pool);
        let is_more = self.state.pool_free(name) > before;
        let what = name.to_string();
        self.want_cycle(if is_more {
            Trigger::ResourceFree(what)
        } else {
            Trigger::Resource(what)
        });
        Ok(())
    }

    /// What is in use of a resource of the whole system, what is not there included, and of how
    /// much.
    pub fn in_use(&self, name: &str) -> Option<(i64, i64)> {
        self.state.pool(name)
    }

    /// Brings the scheduler's view of a resource in line with what is configured and told.
    pub(super) fn show_pool(&mut self, name: &str, pool: &Pool) {
        let pool = pool.as_told(self.told.get(name));
        self.state
            .make(&Change::Pool(Cow::Borrowed(name), Cow::Owned(pool)));
    }
}
