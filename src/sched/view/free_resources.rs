//! The free resources of a node, and which jobs may use it.

use super::node_access::{AccessPolicy, JobCountLimits, JobOwner, User};
use crate::sched::amounts::{Amounts, add, subtract};
use std::collections::BTreeMap;

/// Which jobs may still use a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Joinable {
    /// All jobs, because the node has no jobs.
    Idle,
    /// All jobs that share nodes with all other jobs.
    Shared,
    /// Jobs of this user that do not request exclusive nodes.
    Of(User),
    /// No jobs, because a job has the node exclusively, the node has its maximum number of jobs, or
    /// the node is closed for another reason, such as its load.
    Alone,
}

impl Joinable {
    /// Whether a job of this user with this access policy may use the node.
    pub fn admits(self, access: AccessPolicy, user: User) -> bool {
        match self {
            Joinable::Idle => true,
            Joinable::Shared => access <= AccessPolicy::Shared,
            Joinable::Of(owner) => access <= AccessPolicy::User && owner == user,
            Joinable::Alone => false,
        }
    }
}

/// The free resources of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FreeResources {
    /// The free amounts; negative if the node now has less than its jobs use.
    pub free: Amounts,
    /// The number of jobs on the node.
    pub tenants: u32,
    /// The number of jobs that have the node exclusively, plus the number of times that the node
    /// was closed for other reasons.
    pub alone: u32,
    /// The number of jobs that share the node only with jobs of the same user.
    personal: u32,
    /// The user of the jobs that `personal` counts.
    owner: Option<User>,
    /// The number of jobs of each user, if the node limits the jobs of one user.
    users: BTreeMap<User, u32>,
    /// The limits of the node on its jobs.
    pub bounds: JobCountLimits,
}

impl FreeResources {
    /// The free resources of a node without jobs.
    pub fn empty(free: Amounts, bounds: JobCountLimits) -> FreeResources {
        FreeResources {
            free,
            tenants: 0,
            alone: 0,
            personal: 0,
            owner: None,
            users: BTreeMap::new(),
            bounds,
        }
    }

    /// Which jobs may use the node.
    pub fn condition(&self) -> Joinable {
        match (self.tenants, self.alone, self.owner) {
            (_, 1.., _) => Joinable::Alone,
            (tenants, _, _) if tenants >= self.bounds.jobs => Joinable::Alone,
            (0, 0, _) => Joinable::Idle,
            (_, 0, Some(owner)) => Joinable::Of(owner),
            _ => Joinable::Shared,
        }
    }

    /// The users who have reached the maximum number of jobs of one user on the node (M48).
    pub fn barred(&self) -> Vec<User> {
        self.users
            .iter()
            .filter(|&(_, &jobs)| jobs >= self.bounds.user_jobs)
            .map(|(&user, _)| user)
            .collect()
    }

    /// Whether a job of this owner may use the node, regardless of amounts.
    pub fn admits(&self, owner: JobOwner) -> bool {
        let is_at_limit = self
            .users
            .get(&owner.user)
            .is_some_and(|&jobs| jobs >= self.bounds.user_jobs);
        !is_at_limit && self.condition().admits(owner.on(self.bounds), owner.user)
    }

    /// Adds a job and subtracts its amounts from the free amounts.
    pub fn admit(&mut self, taken: &[i64], owner: JobOwner) {
        subtract(&mut self.free, taken);
        self.join(owner);
    }

    /// Adds a job without a change of the free amounts.
    pub fn join(&mut self, owner: JobOwner) {
        self.tenants += 1;
        match owner.on(self.bounds) {
            AccessPolicy::Nodes | AccessPolicy::Hosts => self.alone += 1,
            AccessPolicy::User => {
                self.personal += 1;
                self.owner = Some(owner.user);
            }
            AccessPolicy::Unsaid | AccessPolicy::Shared => (),
        }
        if self.bounds.user_jobs < u32::MAX {
            *self.users.entry(owner.user).or_default() += 1;
        }
    }

    /// Removes a job and adds its amounts to the free amounts.
    pub fn dismiss(&mut self, taken: &[i64], owner: JobOwner) {
        add(&mut self.free, taken);
        self.tenants = self.tenants.saturating_sub(1);
        match owner.on(self.bounds) {
            AccessPolicy::Nodes | AccessPolicy::Hosts => self.alone = self.alone.saturating_sub(1),
            AccessPolicy::User => {
                self.personal = self.personal.saturating_sub(1);
                if self.personal == 0 {
                    self.owner = None;
                }
            }
            AccessPolicy::Unsaid | AccessPolicy::Shared => (),
        }
        if let Some(jobs) = self.users.get_mut(&owner.user) {
            *jobs = jobs.saturating_sub(1);
            self.users.retain(|_, jobs| *jobs > 0);
        }
    }

    /// Closes the node to all further jobs.
    pub fn close(&mut self) {
        self.alone += 1;
    }

    /// Merges with `other`: keeps the lower amounts and the stricter conditions. If both have
    /// single-user jobs, keeps the owner of `self`, even if the owner of `other` is another user.
    pub fn narrow(&mut self, other: &FreeResources) {
        for (free, other) in self.free.iter_mut().zip(&other.free) {
            *free = (*free).min(*other);
        }
        self.tenants = self.tenants.max(other.tenants);
        self.alone = self.alone.max(other.alone);
        self.personal = self.personal.max(other.personal);
        self.owner = self.owner.or(other.owner);
        for (&user, &jobs) in &other.users {
            let own = self.users.entry(user).or_default();
            *own = jobs.max(*own);
        }
    }
}

/// The measured use of a node beyond the resources allocated to its jobs (M6).
#[derive(Clone, Debug)]
pub struct InUse {
    /// The used amount of each resource; 0 or more.
    pub amounts: Amounts,
    /// Whether the load of the node allows no further job (M48).
    pub is_closed: bool,
}

impl InUse {
    /// The free resources that the node would have without this use.
    pub fn free_without_use(&self, room: &FreeResources) -> FreeResources {
        let mut room = room.clone();
        add(&mut room.free, &self.amounts);
        room.alone -= u32::from(self.is_closed);
        room
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(user: &str, access: AccessPolicy) -> JobOwner {
        JobOwner {
            access,
            user: User::of(user),
        }
    }

    /// M46.
    #[test]
    fn a_node_with_a_single_user_job_admits_other_users_after_the_job_has_ended() {
        let mut room = FreeResources::empty([8].into(), JobCountLimits::default());
        let (single, ann, bob) = (
            of("ann", AccessPolicy::User),
            of("ann", AccessPolicy::Unsaid),
            of("bob", AccessPolicy::Unsaid),
        );
        assert!(room.admits(single) && room.admits(bob));
        room.admit(&[1], single);
        assert_eq!(
            (room.admits(ann), room.admits(single), room.admits(bob)),
            (true, true, false)
        );
        room.dismiss(&[1], single);
        assert_eq!(
            room,
            FreeResources::empty([8].into(), JobCountLimits::default())
        );
        room.admit(&[1], bob);
        assert_eq!((room.admits(single), room.admits(ann)), (false, true));
    }

    /// M48.
    #[test]
    fn a_node_can_limit_the_number_of_its_jobs_and_of_the_jobs_of_one_user() {
        let mut room = FreeResources::empty(
            [8].into(),
            JobCountLimits {
                jobs: 3,
                user_jobs: 2,
                ..JobCountLimits::default()
            },
        );
        let (ann, bob) = (
            of("ann", AccessPolicy::Unsaid),
            of("bob", AccessPolicy::Unsaid),
        );
        room.admit(&[1], ann);
        room.admit(&[1], ann);
        assert_eq!(
            (room.admits(ann), room.admits(bob), room.barred()),
            (false, true, vec![ann.user])
        );
        room.admit(&[1], bob);
        assert!(!room.admits(bob));
        room.dismiss(&[1], ann);
        assert!(room.admits(ann) && room.barred().is_empty());
    }

    /// M46.
    #[test]
    fn a_node_admits_other_users_only_after_its_last_single_user_job_has_ended() {
        let mut room = FreeResources::empty([8].into(), JobCountLimits::default());
        let (single, bob) = (
            of("ann", AccessPolicy::User),
            of("bob", AccessPolicy::Unsaid),
        );
        room.admit(&[1], single);
        room.admit(&[1], single);
        room.dismiss(&[1], single);
        assert!(!room.admits(bob));
        room.dismiss(&[1], single);
        assert!(room.admits(bob));
    }

    /// M48.
    #[test]
    fn the_end_of_a_job_does_not_change_the_number_of_jobs_of_another_user() {
        let mut room = FreeResources::empty(
            [8].into(),
            JobCountLimits {
                user_jobs: 2,
                ..JobCountLimits::default()
            },
        );
        let (ann, bob) = (
            of("ann", AccessPolicy::Unsaid),
            of("bob", AccessPolicy::Unsaid),
        );
        [ann, ann, bob, bob]
            .iter()
            .for_each(|&owner| room.admit(&[1], owner));
        room.dismiss(&[1], ann);
        assert_eq!((room.barred(), room.admits(bob)), (vec![bob.user], false));
        room.admit(&[1], ann);
        assert!(!room.admits(ann));
    }

    #[test]
    fn merged_free_resources_have_the_lower_amounts_and_the_stricter_conditions() {
        let (ann, bob) = (
            of("ann", AccessPolicy::Unsaid),
            of("bob", AccessPolicy::User),
        );
        let empty = FreeResources::empty(
            [8, 8].into(),
            JobCountLimits {
                user_jobs: 1,
                ..JobCountLimits::default()
            },
        );
        let with = |taken: [i64; 2], tenants: &[JobOwner]| {
            let mut room = empty.clone();
            room.admit(&taken, tenants[0]);
            tenants[1..]
                .iter()
                .for_each(|&owner| room.admit(&[0, 0], owner));
            room
        };
        let alone = of("carl", AccessPolicy::Nodes);
        for [one, other] in [[ann, bob], [ann, alone], [bob, alone]] {
            let (mut first, second) = (with([6, 1], &[one]), with([2, 3], &[other]));
            let mut again = second.clone();
            again.narrow(&first);
            first.narrow(&second);
            assert_eq!(first, again);
            assert_eq!(
                (&*first.free, first.condition()),
                (&[2, 5][..], with([0, 0], &[one, other]).condition())
            );
            assert!(first.barred().contains(&one.user) && first.barred().contains(&other.user));
        }
    }
}
