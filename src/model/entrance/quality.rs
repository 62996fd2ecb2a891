//! The quality of service that a job has that asks for none, and what comes with one (M27).

use super::Entrance;
use crate::model::job::Spec;
use crate::model::policy::Access;
use crate::model::quality::{Asker, Flag};

impl Entrance<'_> {
    /// Gives a job that asks for no quality of service the one that goes without saying for it, and what its
    /// quality brings along.
    pub(super) fn assign_quality(&self, spec: &mut Spec) {
        if spec.qos.is_none() {
            let is_member = |group: &str| (self.visitor.group)() == group;
            let asker = Asker {
                user: self.visitor.user,
                account: spec.account.as_deref(),
                queue: &spec.queue,
                privileged: false,
                is_member: &is_member,
            };
            spec.qos = self.qualities.default_for(&asker).map(str::to_string);
        }
        for flag in self.qualities.flags(spec.qos.as_deref()) {
            match flag {
                Flag::Dedicated => drop(spec.wishes.access.get_or_insert(Access::SingleJob)),
                Flag::UseReserved(name) => drop(spec.reservation.get_or_insert_with(|| name.clone())),
                _ => (),
            }
        }
    }
}
