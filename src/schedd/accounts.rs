//! Implements the server's lookup of users, groups and time zones with the system's databases.

use crate::model::job::Owner;
use crate::model::refusal::Refusal;
use crate::model::reservation::recurrence::Zone;
use crate::server::outside::Accounts;
use crate::sys::user;
use crate::sys::zone;

/// Account lookups in the system's user databases.
#[derive(Clone, Copy, Debug)]
pub struct SystemAccounts;

impl Accounts for SystemAccounts {
    fn user_number(&self, name: &str) -> Option<u32> {
        Some(user::named(name).ok()??.uid)
    }

    fn group_number(&self, name: &str) -> Option<u32> {
        user::group_number(name)
    }

    fn group_name(&self, gid: u32) -> String {
        user::group_name(gid)
    }

    fn membership(&self, owner: &Owner, group: &str) -> Result<Option<u32>, Refusal> {
        let Some(account) = user::named(&owner.user).map_err(Refusal::spool)? else {
            return Ok(None);
        };
        user::group_of(&account, group).map_err(Refusal::spool)
    }

    fn may_set_group(&self, gid: u32) -> bool {
        user::may_set_group(gid)
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
