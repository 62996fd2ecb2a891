//! The users and groups of a world, and its time zone.

use crate::model::job::Owner;
use crate::model::refusal::Refusal;
use crate::model::reservation::recurrence::Zone;
use crate::server::outside::Accounts;
use crate::sys::zone;
use std::collections::BTreeMap;

/// The groups of a scenario. A user is a member only of the group with which the user submits jobs.
#[derive(Clone, Debug, Default)]
pub struct WorldAccounts {
    /// The gids of the groups, by name.
    pub groups: BTreeMap<String, u32>,
}

impl Accounts for WorldAccounts {
    fn user_number(&self, _: &str) -> Option<u32> {
        None
    }

    fn group_number(&self, name: &str) -> Option<u32> {
        self.groups.get(name).copied()
    }

    fn group_name(&self, gid: u32) -> String {
        let named = self.groups.iter().find(|(_, number)| **number == gid);
        named.map_or_else(|| gid.to_string(), |(name, _)| name.clone())
    }

    fn membership(&self, owner: &Owner, group: &str) -> Result<Option<u32>, Refusal> {
        let is_member = self.groups.get(group) == Some(&owner.gid);
        Ok(is_member.then_some(owner.gid))
    }

    fn may_set_group(&self, _: u32) -> bool {
        true
    }

    fn zone(&self) -> &dyn Zone {
        &zone::KnownZone::Own
    }

    fn zone_name(&self) -> String {
        zone::own_name()
    }

    fn zone_named(&self, name: &str) -> Option<Box<dyn Zone>> {
        Some(Box::new(zone::named(name)?))
    }
}
