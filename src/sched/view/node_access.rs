//! Access policies: which other jobs may share the nodes of a job.

use super::stable_hash::stable_hash;
use crate::model::job::Job;
use crate::model::node::{NodeSharing, NodeTerms};
use crate::model::request::placement_policy::NodeAccess;
use crate::model::request::placement_requirements::PlacementRequirements;
use crate::model::request::select::{Place, Sharing};
use serde::{Deserialize, Serialize};

/// A user: a hash of the user's name. The hash is the same in every process.
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

/// Which other jobs may be on the nodes of a job. The policies are sorted from the least to the
/// most restrictive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum AccessPolicy {
    /// The job specifies no policy; the configuration of the node decides.
    #[default]
    Unsaid,
    /// Jobs of all users, as far as their own policies allow it.
    Shared,
    /// Only jobs of the same user (M46).
    User,
    /// No other jobs: `place=excl`.
    Nodes,
    /// No other jobs on any node of the same hosts: `place=exclhost`.
    Hosts,
}

impl AccessPolicy {
    /// Whether no other jobs may be on the nodes.
    pub fn is_exclusive(self) -> bool {
        self >= AccessPolicy::Nodes
    }

    /// The policy that a job requests by its place specification (`-l place`). If this specifies
    /// none, the node access policy that the job requests, if any.
    pub fn requested(place: &Place, placement: &PlacementRequirements) -> AccessPolicy {
        match (AccessPolicy::from(place), placement.access) {
            (AccessPolicy::Unsaid, Some(access)) => AccessPolicy::from(access),
            (policy, _) => policy,
        }
    }
}

impl From<bool> for AccessPolicy {
    fn from(exclusive: bool) -> AccessPolicy {
        if exclusive {
            AccessPolicy::Nodes
        } else {
            AccessPolicy::Unsaid
        }
    }
}

impl From<&Place> for AccessPolicy {
    fn from(place: &Place) -> AccessPolicy {
        match place.sharing {
            Sharing::Default => AccessPolicy::Unsaid,
            Sharing::Shared => AccessPolicy::Shared,
            Sharing::Excl => AccessPolicy::Nodes,
            Sharing::Exclhost => AccessPolicy::Hosts,
        }
    }
}

impl From<NodeAccess> for AccessPolicy {
    fn from(access: NodeAccess) -> AccessPolicy {
        match access {
            NodeAccess::Shared => AccessPolicy::Shared,
            NodeAccess::SingleUser => AccessPolicy::User,
            NodeAccess::SingleJob | NodeAccess::SingleTask => AccessPolicy::Nodes,
        }
    }
}

/// The owner of a job, and which other jobs may share its nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct JobOwner {
    /// Which other jobs may share the nodes of the job.
    #[serde(rename = "tenancy")]
    pub access: AccessPolicy,
    /// The owner.
    pub user: User,
}

impl JobOwner {
    /// The owner and the requested policy of a job. An unspecified policy is replaced as by
    /// [`JobOwner::by_default`].
    pub fn of(job: &Job, access: NodeAccess) -> JobOwner {
        let requested = AccessPolicy::requested(&job.spec.request.place, &job.spec.placement);
        JobOwner {
            access: requested,
            user: User::of(&job.owner.user),
        }
        .by_default(access)
    }

    /// Replaces an unspecified policy by `access`, unless `access` is `Shared`.
    pub fn by_default(self, access: NodeAccess) -> JobOwner {
        match (self.access, access) {
            (_, NodeAccess::Shared) => self,
            (AccessPolicy::Unsaid, access) => JobOwner {
                access: access.into(),
                ..self
            },
            _ => self,
        }
    }

    /// The policy that results on a node with these limits; never `Unsaid`.
    pub fn on(self, bounds: JobCountLimits) -> AccessPolicy {
        let requested = match self.access {
            AccessPolicy::Unsaid | AccessPolicy::User => Sharing::Default,
            AccessPolicy::Shared => Sharing::Shared,
            AccessPolicy::Nodes => Sharing::Excl,
            AccessPolicy::Hosts => Sharing::Exclhost,
        };
        let resolved = match bounds.sharing.resolve(requested) {
            Sharing::Exclhost => AccessPolicy::Hosts,
            Sharing::Excl => AccessPolicy::Nodes,
            Sharing::Default | Sharing::Shared => AccessPolicy::Shared,
        };
        let own = if self.access == AccessPolicy::User {
            AccessPolicy::User
        } else {
            AccessPolicy::Shared
        };
        resolved.max(own).max(bounds.access.into())
    }
}

impl<T: Into<AccessPolicy>> From<T> for JobOwner {
    fn from(access: T) -> JobOwner {
        JobOwner {
            access: access.into(),
            user: User::default(),
        }
    }
}

/// The limits of a node on the number of its jobs, and its policy for sharing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JobCountLimits {
    /// The attribute `sharing`: whether jobs share the node, and whether the place specification
    /// of a job can override this.
    pub sharing: NodeSharing,
    /// The least restrictive access policy that a job can have on the node.
    pub access: NodeAccess,
    /// The maximum number of jobs on the node.
    pub jobs: u32,
    /// The maximum number of jobs of one user on the node.
    pub user_jobs: u32,
}

impl From<&NodeTerms> for JobCountLimits {
    fn from(terms: &NodeTerms) -> JobCountLimits {
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
        JobCountLimits::from(&NodeTerms::default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The table of PBS that combines the attribute `sharing` of a node with the place
    /// specification of a job.
    #[test]
    fn the_sharing_attribute_of_a_node_can_override_the_place_of_a_job() {
        use AccessPolicy::{Hosts, Nodes, Shared, Unsaid};
        let on = |sharing| {
            [Unsaid, Shared, Nodes, Hosts].map(|t| {
                JobOwner::from(t).on(JobCountLimits {
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

    /// M46: if the policy of the site is `shared`, the nodes decide.
    #[test]
    fn the_site_policy_applies_to_jobs_that_request_no_policy() {
        let by_default =
            |policy: AccessPolicy, access| JobOwner::from(policy).by_default(access).access;
        assert_eq!(
            by_default(AccessPolicy::Unsaid, NodeAccess::Shared),
            AccessPolicy::Unsaid
        );
        assert_eq!(
            by_default(AccessPolicy::Unsaid, NodeAccess::SingleUser),
            AccessPolicy::User
        );
        assert_eq!(
            by_default(AccessPolicy::Unsaid, NodeAccess::SingleJob),
            AccessPolicy::Nodes
        );
        assert_eq!(
            by_default(AccessPolicy::Shared, NodeAccess::SingleJob),
            AccessPolicy::Shared
        );
        assert_eq!(
            [true, false].map(AccessPolicy::from),
            [AccessPolicy::Nodes, AccessPolicy::Unsaid]
        );
    }
}
