//! Whose a job is, and whom it bears beside it.

use super::shape::stable_hash;
use crate::model::job::Job;
use crate::model::node::{NodeSharing, Terms};
use crate::model::request::placement_policy::NodeAccess;
use crate::model::request::placement_requirements::PlacementRequirements;
use crate::model::request::select::{Place, Sharing};
use serde::{Deserialize, Serialize};

/// A user, by a number that is the same in every process.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct User(u64);

impl User {
    /// The user of this name.
    pub fn of(name: &str) -> User {
        User(stable_hash(&name))
    }
}

/// Who else may be on the nodes of a job, the most sociable first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Tenancy {
    /// As the node says.
    #[default]
    Unsaid,
    /// Others that share.
    Shared,
    /// Jobs of the same user (M46).
    User,
    /// Nobody: `place=excl`.
    Nodes,
    /// Nobody, and nobody on the other nodes of their hosts: `place=exclhost`.
    Hosts,
}

impl Tenancy {
    /// Whether the job has its nodes alone, as far as it says so itself.
    pub fn is_exclusive(self) -> bool {
        self >= Tenancy::Nodes
    }

    /// What a job asks by its place, and by its wish where that says nothing.
    pub fn asked(place: &Place, wishes: &PlacementRequirements) -> Tenancy {
        match (Tenancy::from(place), wishes.access) {
            (Tenancy::Unsaid, Some(access)) => Tenancy::from(access),
            (said, _) => said,
        }
    }
}

impl From<bool> for Tenancy {
    fn from(exclusive: bool) -> Tenancy {
        if exclusive {
            Tenancy::Nodes
        } else {
            Tenancy::Unsaid
        }
    }
}

impl From<&Place> for Tenancy {
    fn from(place: &Place) -> Tenancy {
        match place.sharing {
            Sharing::Default => Tenancy::Unsaid,
            Sharing::Shared => Tenancy::Shared,
            Sharing::Excl => Tenancy::Nodes,
            Sharing::Exclhost => Tenancy::Hosts,
        }
    }
}

impl From<NodeAccess> for Tenancy {
    fn from(access: NodeAccess) -> Tenancy {
        match access {
            NodeAccess::Shared => Tenancy::Shared,
            NodeAccess::SingleUser => Tenancy::User,
            NodeAccess::SingleJob | NodeAccess::SingleTask => Tenancy::Nodes,
        }
    }
}

/// What a node's other jobs need to know of one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Tenant {
    /// Whom it bears.
    pub tenancy: Tenancy,
    /// Whose it is.
    pub user: User,
}

impl Tenant {
    /// What a job is where jobs that say nothing of it have `access`.
    pub fn of(job: &Job, access: NodeAccess) -> Tenant {
        let asked = Tenancy::asked(&job.spec.request.place, &job.spec.wishes);
        Tenant {
            tenancy: asked,
            user: User::of(&job.owner.user),
        }
        .by_default(access)
    }

    /// The same, where those that say nothing have `access`.
    pub fn by_default(self, access: NodeAccess) -> Tenant {
        match (self.tenancy, access) {
            (_, NodeAccess::Shared) => self,
            (Tenancy::Unsaid, access) => Tenant {
                tenancy: access.into(),
                ..self
            },
            _ => self,
        }
    }

    /// Whom it bears on a node with these bounds; never `Unsaid`.
    pub fn on(self, bounds: JobCountLimits) -> Tenancy {
        let asked = match self.tenancy {
            Tenancy::Unsaid | Tenancy::User => Sharing::Default,
            Tenancy::Shared => Sharing::Shared,
            Tenancy::Nodes => Sharing::Excl,
            Tenancy::Hosts => Sharing::Exclhost,
        };
        let resolved = match bounds.sharing.resolve(asked) {
            Sharing::Exclhost => Tenancy::Hosts,
            Sharing::Excl => Tenancy::Nodes,
            Sharing::Default | Sharing::Shared => Tenancy::Shared,
        };
        let own = if self.tenancy == Tenancy::User {
            Tenancy::User
        } else {
            Tenancy::Shared
        };
        resolved.max(own).max(bounds.access.into())
    }
}

impl<T: Into<Tenancy>> From<T> for Tenant {
    fn from(tenancy: T) -> Tenant {
        Tenant {
            tenancy: tenancy.into(),
            user: User::default(),
        }
    }
}

/// What a node bears, as far as its jobs are counted by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JobCountLimits {
    /// Whether jobs share it that do not say.
    pub sharing: NodeSharing,
    /// Who else may be where a job is.
    pub access: NodeAccess,
    /// Jobs at once.
    pub jobs: u32,
    /// Jobs of one user at once.
    pub user_jobs: u32,
}

impl From<&Terms> for JobCountLimits {
    fn from(terms: &Terms) -> JobCountLimits {
        JobCountLimits {
            sharing: terms.sharing,
            access: terms.access,
            jobs: terms.max_jobs.unwrap_or(u32::MAX),
            user_jobs: terms.max_user_jobs.unwrap_or(u32::MAX),
        }
    }
}

impl Default for JobCountLimits {
    fn default() -> JobCountLimits {
        JobCountLimits::from(&Terms::default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// PBS's table of a node's `sharing` against a job's place.
    #[test]
    fn a_node_may_overrule_what_a_job_says() {
        use Tenancy::{Hosts, Nodes, Shared, Unsaid};
        let on = |sharing| {
            [Unsaid, Shared, Nodes, Hosts].map(|t| {
                Tenant::from(t).on(JobCountLimits {
                    sharing,
                    ..JobCountLimits::default()
                })
            })
        };
        assert_eq!(
            on(NodeSharing::DefaultShared),
            [Shared, Shared, Nodes, Hosts]
        );
        assert_eq!(on(NodeSharing::DefaultExcl), [Nodes, Shared, Nodes, Hosts]);
        assert_eq!(
            on(NodeSharing::DefaultExclhost),
            [Hosts, Shared, Nodes, Hosts]
        );
        assert_eq!(on(NodeSharing::IgnoreExcl), [Shared; 4]);
        assert_eq!(on(NodeSharing::ForceExcl), [Nodes, Nodes, Nodes, Hosts]);
        assert_eq!(on(NodeSharing::ForceExclhost), [Hosts; 4]);
    }

    /// M46: what the site says holds for those that say nothing, and `shared` leaves it to the
    /// nodes.
    #[test]
    fn the_sites_access_is_for_those_that_say_nothing() {
        let by_default = |said: Tenancy, access| Tenant::from(said).by_default(access).tenancy;
        assert_eq!(
            by_default(Tenancy::Unsaid, NodeAccess::Shared),
            Tenancy::Unsaid
        );
        assert_eq!(
            by_default(Tenancy::Unsaid, NodeAccess::SingleUser),
            Tenancy::User
        );
        assert_eq!(
            by_default(Tenancy::Unsaid, NodeAccess::SingleJob),
            Tenancy::Nodes
        );
        assert_eq!(
            by_default(Tenancy::Shared, NodeAccess::SingleJob),
            Tenancy::Shared
        );
        assert_eq!(
            [true, false].map(Tenancy::from),
            [Tenancy::Nodes, Tenancy::Unsaid]
        );
    }
}
