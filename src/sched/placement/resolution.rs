//! Resolution: adds the terms of the policy to the requests of waiting jobs before matching. The
//! terms are node access, node sets, the answers of the allocation script and the site's veto.
//! After a start has failed because of a node, the job avoids the node's host for a while.

use super::availability_map::AvailabilityMap;
use super::guide::Guide;
use super::{cluster_passes, place};
use crate::model::expression::Expression;
use crate::model::policy::Policy;
use crate::model::request::placement_policy::{NodeAccess, NodeAllocation};
use crate::model::resource::{ResourceList, ResourceValue};
use crate::model::time::Time;
use crate::sched::view::allocation_answer::AllocationAnswer;
use crate::sched::view::cluster::{Cluster, Joinable};
use crate::sched::view::job_facts::facts;
use crate::sched::view::node_filter::{AllowedSets, NodeFilter};
use crate::sched::view::shape::{AccessPolicy, ClassId, ClassKey, Shape};
use crate::sched::view::snapshot::ClusterState;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The classes (of equal jobs) as the policy changes them. Classes that are not included stay as
/// they are.
#[derive(Default)]
pub struct Resolved {
    classes: BTreeMap<ClassId, ClassKey>,
    /// Whether the policy can change every class.
    by_policy: bool,
    /// The next time at which a job may span node sets, or may again use a host on which its start
    /// failed.
    pub next: Option<Time>,
    /// The changed classes of each pass by distance (`cluster_distance`); empty unless the policy
    /// orders jobs by cluster. The last pass, which allows all nodes, is not included.
    pub passes: Vec<Resolved>,
}

impl Resolved {
    /// Changes the classes of the waiting jobs as the policy requires.
    pub fn new(state: &ClusterState, policy: &Policy, now: Time) -> Resolved {
        let mut whole = Resolved::whole(state, policy, now);
        whole.avoid_failed_hosts(state, policy, now);
        Resolved {
            passes: cluster_passes::passes(state, policy, &whole),
            ..whole
        }
    }

    fn whole(state: &ClusterState, policy: &Policy, now: Time) -> Resolved {
        let mut resolved = Resolved::default();
        let Some(resolution) = Resolution::needed(state, policy, now) else {
            return resolved;
        };
        resolved.by_policy = true;
        for (&id, class) in &state.classes {
            // Jobs of a class start in order, so the waiting time of the first job counts.
            let first = class.jobs().next().map(|(_, waiting)| waiting.wait.since);
            let from = first.and_then(|since| resolution.spans_from(since));
            resolved.next = resolved
                .next
                .into_iter()
                .chain(from.filter(|from| *from > now))
                .min();
            let may_span = from.is_some_and(|from| from <= now);
            let mut class = resolution.class(&class.key, may_span);
            if let Some(AllocationAnswer::Order(answer)) = state.answers.get(&id) {
                let shape = Shape {
                    answer: Some(answer.clone()),
                    ..Shape::clone(&class.shape)
                };
                class.shape = Arc::new(shape.renamed(answer));
            }
            resolved.classes.insert(id, class);
        }
        resolved
    }

    /// Returns all classes, after applying `narrow` to each resolved class.
    pub fn narrowed(
        &self,
        state: &ClusterState,
        mut narrow: impl FnMut(&ClassKey) -> ClassKey,
    ) -> Resolved {
        let classes = state
            .classes
            .iter()
            .map(|(&id, class)| (id, narrow(self.of(&class.key))));
        Resolved {
            classes: classes.collect(),
            by_policy: true,
            ..Resolved::default()
        }
    }

    /// M10: a job that is deferred after a failed start may start now on other hosts. This applies
    /// only if the job would fit on the other hosts without the current jobs.
    fn avoid_failed_hosts(&mut self, state: &ClusterState, policy: &Policy, now: Time) {
        let mut failed = failed_classes(state, now).peekable();
        if failed.peek().is_none() {
            return;
        }
        let cluster = &state.cluster;
        let vacant = AvailabilityMap::vacant(cluster)
            .guided(Arc::new(Guide::new(&policy.placement, cluster)));
        for class in failed {
            let elsewhere = elsewhere(self.of(class));
            if place::fits(&vacant, &elsewhere.shape) {
                self.next = self.next.into_iter().chain(class.not_before).min();
                self.classes.insert(class.id, elsewhere);
            }
        }
    }

    /// Whether the policy can add different terms to two classes with the same request.
    pub fn distinguishes_classes(&self) -> bool {
        self.by_policy
    }

    /// The class as the policy changes it; the class itself if the policy does not change it.
    pub fn of<'s>(&'s self, class: &'s ClassKey) -> &'s ClassKey {
        self.classes.get(&class.id).unwrap_or(class)
    }
}

/// The classes of jobs that are deferred because a start failed on a host.
fn failed_classes(state: &ClusterState, now: Time) -> impl Iterator<Item = &ClassKey> {
    let failed = state
        .alike
        .groups()
        .filter(|(_, members)| members.shape.failed_hosts.is_some());
    let ids = failed.flat_map(|(_, members)| members.classes.iter().map(|(_, id)| id));
    let classes = ids
        .filter_map(|id| state.classes.get(id))
        .map(|class| &class.key);
    classes.filter(move |class| class.not_before.is_some_and(|until| until > now))
}

/// A deferred class, changed so that its jobs may start now on hosts where no start has failed.
fn elsewhere(class: &ClassKey) -> ClassKey {
    let failed_hosts = class
        .shape
        .failed_hosts
        .as_deref()
        .cloned()
        .unwrap_or_default();
    let known = class.shape.node_filter.as_deref().cloned();
    let shape = Shape::clone(&class.shape).renamed(&("elsewhere", &failed_hosts));
    let filter = NodeFilter {
        failed_hosts,
        ..known.unwrap_or_default()
    };
    ClassKey {
        not_before: None,
        shape: Arc::new(Shape {
            node_filter: Some(Arc::new(filter)),
            ..shape
        }),
        ..class.clone()
    }
}

/// The terms that the policy adds to requests.
pub struct Resolution<'a> {
    policy: &'a Policy,
    now: Time,
    veto: Option<Expression>,
    /// Whether the owner of a job matters for its placement.
    depends_on_owner: bool,
}

impl<'a> Resolution<'a> {
    /// The terms that the policy adds at this time. None if the policy changes no request and the
    /// owners of jobs do not matter for placement.
    pub fn needed(state: &ClusterState, policy: &'a Policy, now: Time) -> Option<Resolution<'a>> {
        let placement = &policy.placement;
        let shapes = || state.shapes();
        let depends_on_owner = depends_on_owner(&state.cluster)
            || placement.access == NodeAccess::SingleUser
            || shapes().any(|shape| shape.access == AccessPolicy::User);
        let is_needed = depends_on_owner
            || placement.veto.is_some()
            || placement.access != NodeAccess::Shared
            || placement.allocation == NodeAllocation::LastAvailable
            || placement.sets.is_some()
            || !state.answers.is_empty()
            || shapes().any(|shape| shape.allocation == Some(NodeAllocation::LastAvailable));
        is_needed.then(|| Resolution {
            policy,
            now,
            veto: placement.veto.clone(),
            depends_on_owner,
        })
    }

    /// The time from which a job that has waited since `since` may span node sets; None if never.
    fn spans_from(&self, since: Time) -> Option<Time> {
        Some(since + self.policy.placement.sets.as_ref()?.delay?)
    }

    /// Returns a class with the added terms. If `may_span` is true, its jobs may span node sets.
    pub fn class(&self, class: &ClassKey, may_span: bool) -> ClassKey {
        let placement = &self.policy.placement;
        let mut shape = Shape::clone(&class.shape);
        if shape.access == AccessPolicy::Unsaid {
            shape.access = shape.owner().by_default(placement.access).access;
            shape.is_single_task |= placement.access == NodeAccess::SingleTask;
        }
        if shape.allocation.unwrap_or(placement.allocation) == NodeAllocation::LastAvailable {
            shape.end = Some(self.now + class.walltime.unwrap_or(self.policy.default_walltime));
        }
        shape.sets = placement
            .sets
            .clone()
            .map(|sets| Arc::new(AllowedSets { sets, may_span }));
        if let Some(veto) = &self.veto {
            let walltime = class
                .walltime
                .map(|walltime| ("walltime".to_string(), ResourceValue::Time(walltime)));
            let list: ResourceList = walltime.into_iter().collect();
            let known = shape.node_filter.as_deref().cloned();
            let filter = known.unwrap_or_else(|| NodeFilter {
                job: facts(&class.who, &list, None),
                ..NodeFilter::default()
            });
            shape.node_filter = Some(Arc::new(NodeFilter {
                veto: Some(veto.clone()),
                ..filter
            }));
        }
        let user = self.depends_on_owner.then_some(class.user);
        shape.user = user.unwrap_or_default();
        let own = self.veto.as_ref().map(|_| class.id);
        let additions = (user, shape.end, may_span, own);
        ClassKey {
            shape: Arc::new(shape.renamed(&additions)),
            ..class.clone()
        }
    }
}

/// Whether a node can be closed to some users but open to others.
fn depends_on_owner(cluster: &Cluster) -> bool {
    let by_terms = cluster.kinds().any(|(_, kind)| {
        kind.terms.max_user_jobs.is_some() || kind.terms.access == NodeAccess::SingleUser
    });
    let mut buckets = cluster.buckets();
    by_terms || buckets.any(|(key, _)| matches!(key.condition, Joinable::Of(_)))
}

#[cfg(test)]
mod tests {
    use crate::model::node::NodeTerms;
    use crate::model::policy::{NodeSets, SetChoice};
    use crate::model::request::placement_policy::NodeAccess;
    use crate::model::time::{Span, Time};
    use crate::sched::fixture::{TestCluster, cluster};

    fn with(access: NodeAccess) -> TestCluster {
        let mut fixture = cluster("3 x ncpus=4");
        fixture.policy.placement.access = access;
        fixture
            .queued(1, "select=2:ncpus=1 place=free")
            .queued(2, "select=1:ncpus=1")
            .queued(3, "select=1:ncpus=1 place=shared")
    }

    /// M46: the access policy of the site applies to jobs that request no access policy.
    #[test]
    fn m46_jobs_without_access_policy_get_the_policy_of_the_site() {
        assert_eq!(
            with(NodeAccess::Shared).starts(),
            "1 on n1,n1; 2 on n1; 3 on n1"
        );
        assert_eq!(
            with(NodeAccess::SingleJob).starts(),
            "1 on n1,n1; 2 on n2; 3 on n3"
        );
        assert_eq!(with(NodeAccess::SingleTask).starts(), "1 on n1,n2; 2 on n3");
        let bob = with(NodeAccess::SingleUser)
            .owned("bob")
            .queued(4, "select=1:ncpus=1");
        assert_eq!(bob.starts(), "1 on n1,n1; 2 on n1; 3 on n1; 4 on n2");
    }

    /// M46, M48: owners matter for all jobs if they matter on one node or for one job.
    #[test]
    fn owners_matter_if_one_node_distinguishes_users() {
        let once = NodeTerms {
            max_user_jobs: Some(1),
            ..NodeTerms::default()
        };
        let fixture = cluster("1 x ncpus=4").terms("n2", "ncpus=8", once);
        let starts = |fixture: TestCluster| fixture.queued(2, "select=1:ncpus=8").starts();
        assert_eq!(
            starts(
                fixture
                    .clone()
                    .owned("ann")
                    .running(9, "select=1:ncpus=0", "n2", 60)
            ),
            ""
        );
        assert_eq!(
            starts(
                fixture
                    .owned("bob")
                    .running(9, "select=1:ncpus=0", "n2", 60)
                    .owned("ann")
            ),
            "2 on n2"
        );
        let owned = cluster("2 x ncpus=4").owned("bob").running(
            9,
            "select=1:ncpus=1 naccess=singleuser",
            "n1",
            60,
        );
        let fixture = owned
            .queued(1, "select=1:ncpus=1")
            .owned("ann")
            .queued(2, "select=1:ncpus=1");
        assert_eq!(fixture.starts(), "1 on n1; 2 on n2");
        let mixed = cluster("2 x ncpus=4")
            .queued(1, "select=1:ncpus=1 naccess=singleuser")
            .queued(2, "select=1:ncpus=4");
        assert_eq!(
            mixed.owned("bob").queued(3, "select=1:ncpus=1").starts(),
            "1 on n1; 2 on n2"
        );
    }

    /// M10: after a failed start on a node, a job is not deferred on other hosts.
    #[test]
    fn m10_a_job_starts_at_once_on_another_host_after_a_failure() {
        let failed =
            |nodes: &str| cluster(nodes).queued(1, "select=1:ncpus=2 not_before=60 failed_on=n1");
        assert_eq!(failed("2 x ncpus=2").starts(), "1 on n2");
        assert_eq!(failed("1 x ncpus=2").starts(), "", "there is no other host");
        assert_eq!(
            failed("1 x ncpus=2, 1 x ncpus=1").starts(),
            "",
            "the other host is too small"
        );
        assert_eq!(failed("1 x ncpus=2").at(61).starts(), "1 on n1");
        let busy = failed("2 x ncpus=2").running(9, "select=1:ncpus=1", "n2", 600);
        assert_eq!(
            (busy.starts().as_str(), busy.plan().next),
            ("", Some(Time(60_000)))
        );
        assert_ne!(busy.why(1), "", "job 1 has a reason");
        assert_eq!(busy.at(61).starts(), "1 on n1");
        let both = cluster("3 x ncpus=2").queued(
            1,
            "select=2:ncpus=2 place=scatter not_before=60 failed_on=n1",
        );
        assert_eq!(
            both.queued(2, "select=1:ncpus=2").starts(),
            "1 on n2,n3; 2 on n1"
        );
    }

    /// M47: a job may span sets 600 seconds after it has begun to wait. Job 1 begins to wait at
    /// second 200, job 2 at second 100, and job 3 at second 300.
    #[test]
    fn a_cycle_is_due_when_the_next_job_may_span_sets() {
        let mut fixture = cluster("1 x ncpus=1:color=a, 1 x ncpus=1:color=b");
        let values = vec!["a".to_string(), "b".to_string()];
        let delay = Some(Span::seconds(600));
        fixture.policy.placement.sets = Some(NodeSets {
            choice: SetChoice::OneOf,
            by: "color".to_string(),
            values,
            delay,
        });
        for (id, since) in [(1, 200), (2, 100), (3, 300)] {
            let mut job = fixture.job(id, &format!("select=2:ncpus=1 walltime={}", id * 60));
            job.life.etime = Some(Time(since * 1000));
            fixture.state.enqueue(&job);
        }
        assert_eq!(fixture.clone().at(300).plan().next, Some(Time(700_000)));
        assert_eq!(fixture.clone().at(750).plan().next, Some(Time(800_000)));
        assert_eq!((fixture.at(700).starts().as_str()), "2 on n1,n2");
    }
}
