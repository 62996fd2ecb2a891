//! Filter: determines the nodes that a job may use, and the number of chunks that fit on each.
//!
//! A node *suits* a job if it meets all conditions that concern neither amounts nor access. These
//! are the job's requirements (Q3) and host lists (Q24), restrictions of jobs and nodes (Q19), the
//! scopes of system-wide resources (Q21) and the site's veto (Q26). While a deferred job tries
//! other hosts after failed starts, the hosts of these starts do not suit it (M10). The values that
//! single chunks request are checked separately.
//!
//! All nodes of a node class are of one kind (total resources and terms) and have the same free
//! resources. Conditions on the kind, and the amounts that chunks request, can be checked for a
//! whole class. Other conditions, such as a requirement on `host.memory.avail`, must be checked for
//! each node.

use super::availability_map::AvailabilityMap;
use super::expression_context::{NodeView, is_changing, is_of_kind};
use crate::model::expression::Expression;
use crate::model::reason::Mismatch;
use crate::model::request::cluster_path::ClusterPath;
use crate::sched::view::cluster::{Joinable, KindIx, NodeClassKey, NodeIx, NodeKind};
use crate::sched::view::node_access::JobOwner;
use crate::sched::view::node_filter::NodeFilter;
use crate::sched::view::shape::{ChunkShape, Shape};

/// Whether an expression has the same value for all nodes of a kind.
fn is_of_kinds(expression: Option<&Expression>) -> bool {
    expression.is_none_or(|expression| expression.names().into_iter().all(is_of_kind))
}

/// Whether the value of an expression can change while a job waits.
fn can_change(expression: Option<&Expression>) -> bool {
    expression.is_some_and(|expression| expression.names().into_iter().any(is_changing))
}

impl NodeFilter {
    /// Whether the filter can accept one node and exclude another node of the same kind.
    fn distinguishes_nodes(&self) -> bool {
        !is_of_kinds(self.requirement.as_ref())
            || !is_of_kinds(self.veto.as_ref())
            || self.hosts.names_hosts()
            || !self.failed_hosts.is_empty()
    }

    /// The job's restriction or host group that excludes all nodes of a kind; None if there is
    /// none.
    fn objection_to_kind(&self, kind: &NodeKind) -> Option<(Mismatch, String)> {
        if self
            .restriction
            .as_ref()
            .is_some_and(|own| !own.accepts(&kind.terms.cluster))
        {
            return Some((
                Mismatch::Restriction,
                format!("the job excludes nodes of cluster {}", kind.terms.cluster),
            ));
        }
        if !self.hosts.names_hosts() && !self.hosts.accepts("", &kind.terms.groups) {
            return Some((Mismatch::Hosts, self.hosts.to_string()));
        }
        None
    }

    /// Why the requirement or the veto excludes a node; None if neither does.
    fn objection(&self, view: &NodeView, name: &str) -> Option<(Mismatch, String)> {
        let refusal = self
            .requirement
            .as_ref()
            .and_then(|requirement| requirement.verdict(view).refusal());
        if let Some(refusal) = refusal {
            return Some((Mismatch::Requirement, refusal.on(name).to_string()));
        }
        let vetoed = self.veto.as_ref().filter(|veto| veto.holds(view));
        vetoed.map(|veto| (Mismatch::Veto, format!("{veto} on {name}")))
    }
}

/// Whether each node must be checked separately for a job of this shape.
pub fn distinguishes_nodes(space: &AvailabilityMap, shape: &Shape) -> bool {
    let pools = &space.cluster.pools;
    shape
        .pooled
        .iter()
        .any(|&(index, _)| pools.get(index).is_some_and(|pool| !pool.scope.is_empty()))
        || shape
            .node_filter
            .as_ref()
            .is_some_and(|filter| filter.distinguishes_nodes())
}

/// Whether a kind of nodes meets all conditions on kinds. Conditions on single nodes are not
/// checked.
pub fn suits_kind(space: &AvailabilityMap, shape: &Shape, kind: KindIx) -> bool {
    if shape
        .kinds
        .as_ref()
        .is_some_and(|kinds| !kinds.contains(&kind))
    {
        return false;
    }
    objection_to_kind(space, shape, kind).is_none()
        && shape.node_filter.as_ref().is_none_or(|filter| {
            let view = NodeView::of_kind(space, kind).for_job(&filter.job);
            let holds = |expression: &Expression| {
                is_of_kinds(Some(expression)).then(|| expression.holds(&view))
            };
            filter.requirement.as_ref().and_then(holds) != Some(false)
                && filter.veto.as_ref().and_then(holds) != Some(true)
        })
}

/// Why the nodes' restrictions, the job's restriction or its host groups exclude all nodes of a
/// kind. None if they do not, or if the job ignores restrictions.
fn objection_to_kind(
    space: &AvailabilityMap,
    shape: &Shape,
    kind: KindIx,
) -> Option<(Mismatch, String)> {
    let kind = space.cluster.kind(kind);
    if shape.ignores_restrictions {
        return None;
    }
    if let Some(own) = &kind.terms.restrictions {
        let cluster = shape
            .node_filter
            .as_ref()
            .map_or_else(ClusterPath::root, |filter| filter.cluster.clone());
        if !own.accepts(&cluster) {
            return Some((
                Mismatch::Restriction,
                format!("the node excludes jobs of cluster {cluster}"),
            ));
        }
    }
    shape
        .node_filter
        .as_ref()
        .and_then(|filter| filter.objection_to_kind(kind))
}

/// Whether a node suits a job of this shape.
pub fn suits(space: &AvailabilityMap, shape: &Shape, ix: NodeIx) -> bool {
    let by_kind = space
        .cluster
        .node(ix)
        .kind
        .is_some_and(|kind| suits_kind(space, shape, kind));
    by_kind && objection(space, shape, ix).is_none()
}

/// Why a node does not suit; None if no reason is found. The kinds of nodes to which the job is
/// limited are not checked. In a map without jobs, a requirement and a veto are not checked if the
/// value of either can change.
pub fn objection(space: &AvailabilityMap, shape: &Shape, ix: NodeIx) -> Option<(Mismatch, String)> {
    let node = space.cluster.node(ix);
    let by_kind = node
        .kind
        .and_then(|kind| objection_to_kind(space, shape, kind));
    by_kind
        .or_else(|| out_of_scope(space, shape, &node.host))
        .or_else(|| {
            let filter = shape.node_filter.as_ref()?;
            let groups = node
                .kind
                .map_or(&[][..], |kind| &space.cluster.kind(kind).terms.groups);
            if filter.hosts.names_hosts() && !filter.hosts.accepts(&node.host, groups) {
                return Some((Mismatch::Hosts, filter.hosts.to_string()));
            }
            if filter.failed_hosts.contains(&node.host) {
                return Some((
                    Mismatch::FailedStart,
                    format!(
                        "an earlier start of the job failed on the host of {}",
                        node.name
                    ),
                ));
            }
            let may_change =
                can_change(filter.requirement.as_ref()) || can_change(filter.veto.as_ref());
            if space.is_vacant() && may_change {
                return None;
            }
            filter.objection(&NodeView::new(space, ix).for_job(&filter.job), &node.name)
        })
}

/// Why a host is excluded: a requested system-wide resource is not available there. None if all
/// requested resources are available there.
fn out_of_scope(space: &AvailabilityMap, shape: &Shape, host: &str) -> Option<(Mismatch, String)> {
    let cluster = space.cluster;
    let missing = shape.pooled.iter().find(|&&(index, _)| {
        let scope = cluster.pools.get(index).map(|pool| &pool.scope);
        scope.is_some_and(|scope| !scope.accepts(host, &[] as &[String]))
    });
    missing.map(|&(index, _)| {
        (
            Mismatch::Hosts,
            format!(
                "{} is not available on {host}",
                cluster.catalog.names()[index]
            ),
        )
    })
}

/// A node class in which chunks fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FittingClass {
    /// The index of the class in the availability map.
    pub place: usize,
    /// The number of nodes in the class.
    pub nodes: u64,
    /// The number of chunks that fit on each node, at most the requested number.
    pub times: u64,
}

impl FittingClass {
    /// The sum of `times` for all nodes of the class.
    pub fn supply(self) -> u64 {
        self.nodes.saturating_mul(self.times)
    }
}

/// The nodes with the host or node name that a chunk requests; None if the chunk requests no name.
pub fn named_nodes(space: &AvailabilityMap, chunk: &ChunkShape) -> Option<Vec<NodeIx>> {
    if let Some(node) = named(chunk, "vnode") {
        Some(space.cluster.find(&node).into_iter().collect())
    } else {
        let host = named(chunk, "host")?;
        Some(space.cluster.nodes_of_host(&host).collect())
    }
}

/// The value that a chunk requires for a resource, as text.
fn named(chunk: &ChunkShape, resource: &str) -> Option<String> {
    let need = chunk.needs.iter().find(|need| need.resource == resource)?;
    Some(need.value.to_string())
}

/// The node classes in which at least one chunk of this part of the request fits. Conditions on
/// single nodes, such as host and node names, are not checked.
pub fn fitting_classes<'a>(
    space: &'a AvailabilityMap,
    shape: &'a Shape,
    chunk: &'a ChunkShape,
) -> impl Iterator<Item = FittingClass> + 'a {
    space
        .with_free(&chunk.asked)
        .filter_map(move |place| fitting_class(space, shape, chunk, place))
}

fn fitting_class(
    space: &AvailabilityMap,
    shape: &Shape,
    chunk: &ChunkShape,
    place: usize,
) -> Option<FittingClass> {
    let times = times_on(space, shape, chunk, &space.buckets()[place].key);
    (times > 0).then(|| FittingClass {
        place,
        nodes: space.head(place).nodes,
        times,
    })
}

/// The number of chunks of this part of the request that fit on a node with this class key, at most
/// the requested number. Conditions on single nodes are not checked.
pub fn times_on(
    space: &AvailabilityMap,
    shape: &Shape,
    chunk: &ChunkShape,
    key: &NodeClassKey,
) -> u64 {
    let times = chunk.times_in(&key.free).min(chunk.count);
    let is_suitable = times > 0
        && admits_owner(space, key, shape.owner())
        && space.meets(key.kind, &chunk.needs)
        && suits_kind(space, shape, key.kind)
        && (!chunk.needs_idle_hosts() || key.condition == Joinable::Idle);
    if !is_suitable {
        return 0;
    }
    if chunk.needs_idle_hosts() || shape.is_one_to_a_node(space.cluster.kind(key.kind)) {
        return 1;
    }
    times
}

/// Whether the access policies of a job and of the nodes of a class allow the job on these nodes.
/// Other nodes of the same hosts are not checked.
pub fn admits_owner(space: &AvailabilityMap, key: &NodeClassKey, owner: JobOwner) -> bool {
    let access = owner.on(space.cluster.kind(key.kind).empty.bounds);
    !key.barred.contains(&owner.user) && key.condition.admits(access, owner.user)
}

/// The nodes on which chunks of this part of the request fit, in order of preference, each with the
/// number of chunks that fit. Conditions on single nodes are not checked, and neither are the other
/// nodes of a host. Jobs with such conditions or with exclusive hosts must not use this function.
pub fn fitting_nodes<'a>(
    space: &'a AvailabilityMap,
    shape: &'a Shape,
    chunk: &'a ChunkShape,
) -> impl Iterator<Item = (NodeIx, u64)> + 'a {
    space.nodes_with_free(&chunk.asked).filter_map(move |ix| {
        let (room, kind) = (space.room(ix), space.cluster.node(ix).kind?);
        // `nodes_with_free` excludes closed nodes only if the request has a positive amount.
        let suits = space.is_open(ix)
            && room.admits(shape.owner())
            && space.meets(kind, &chunk.needs)
            && suits_kind(space, shape, kind)
            && (!chunk.needs_idle_hosts() || room.condition() == Joinable::Idle);
        let is_single =
            shape.is_one_to_a_node(space.cluster.kind(kind)) || chunk.needs_idle_hosts();
        suits.then(|| {
            (
                ix,
                if is_single {
                    1
                } else {
                    chunk.times_in(&room.free)
                },
            )
        })
    })
}

/// The number of chunks of this part of the request that fit on a node on which no chunk of the job
/// is placed yet. Only access policies and amounts are checked.
pub fn times_on_node(
    space: &AvailabilityMap,
    shape: &Shape,
    chunk: &ChunkShape,
    node: NodeIx,
) -> u64 {
    let room = space.room(node);
    if !space.admits(node, shape.owner()) || chunk.needs_idle_hosts() && room.tenants > 0 {
        return 0;
    }
    let times = chunk.times_in(&room.free);
    if takes_one(space, shape, chunk, node) {
        return times.min(1);
    }
    times
}

/// Whether at most one chunk of this part of the request may be placed on a node.
pub fn takes_one(space: &AvailabilityMap, shape: &Shape, chunk: &ChunkShape, node: NodeIx) -> bool {
    let kind = space.cluster.node(node).kind;
    kind.is_some_and(|kind| {
        shape.is_one_to_a_node(space.cluster.kind(kind)) || chunk.needs_idle_hosts()
    })
}

#[cfg(test)]
mod tests {
    use crate::model::expression::Expression;
    use crate::model::node::NodeTerms;
    use crate::sched::fixture::{TestCluster, cluster};

    fn two() -> TestCluster {
        cluster("1 x ncpus=1:mem=16000mb:arch=linux, 1 x ncpus=1:mem=64000mb:arch=linux")
    }

    /// Q3.
    #[test]
    fn a_node_must_meet_the_requirement() {
        let request = "select=1:ncpus=1 requirements=host.memory.total>=32000&&host.os==linux";
        let fixture = two()
            .running(9, "select=1:ncpus=1", "n2", 600)
            .queued(1, request)
            .queued(2, "select=1:ncpus=1");
        assert_eq!(fixture.starts(), "2 on n1");
        let why = "Not Running: requirement: host.memory.total>=32000 false on n1 (16000)";
        assert_eq!(
            two()
                .running(9, "select=1:ncpus=1", "n2", 600)
                .queued(1, request)
                .why(1),
            why
        );
        assert_eq!(fixture.reason(1).unwrap().code(), "requirement");
        assert_eq!(two().queued(1, request).starts(), "1 on n2");
    }

    /// Q3: a requirement that is false or undefined on every node.
    #[test]
    fn a_job_with_a_requirement_that_no_node_meets_can_never_run() {
        let why = |requirement: &str| {
            two()
                .queued(1, &format!("requirements={requirement}"))
                .why(1)
        };
        assert_eq!(
            why("host.memory.total>99000"),
            "Can Never Run: requirement: host.memory.total>99000 false on n1 (16000)"
        );
        assert_eq!(
            why("host.nosuch>1"),
            "Can Never Run: requirement: host.nosuch>1 undefined on n1"
        );
        assert!(
            !two()
                .queued(1, "requirements=host.processors.used>0")
                .reason(1)
                .unwrap()
                .is_never()
        );
    }

    /// Q20.
    #[test]
    fn a_requirement_may_depend_on_the_use_of_a_node() {
        let gpu = NodeTerms {
            groups: vec!["gpu".to_string()],
            ..NodeTerms::default()
        };
        let fixture = cluster("1 x ncpus=8:mem=4000mb").terms("n2", "ncpus=8:mem=4000mb", gpu);
        let starts = |fixture: &TestCluster, text: &str| {
            fixture
                .clone()
                .queued(1, &format!("requirements={text}"))
                .starts()
        };
        assert_eq!(starts(&fixture, "\"gpu\"in(host.groups)"), "1 on n2");
        assert_eq!(starts(&fixture, "host.memory.avail/2>1000"), "1 on n1");
        let fixture = fixture
            .owned("bob")
            .running(9, "select=1:ncpus=1:mem=2000mb", "n1", 600)
            .owned("ann");
        assert_eq!(starts(&fixture, "host.memory.avail/2>1000"), "1 on n2");
        assert_eq!(starts(&fixture, "host.jobs>0"), "1 on n1");
        assert_eq!(starts(&fixture, "host.name==\"n2\""), "1 on n2");
        assert_eq!(starts(&fixture, "job.user==\"ann\""), "1 on n1");
        assert_eq!(starts(&fixture, "job.user==\"bob\""), "");
        let fixture = fixture.running(8, "select=1:ncpus=1", "n2", 600);
        assert_eq!(starts(&fixture, "host.duty.user==\"ann\""), "1 on n2");
    }

    /// Q19: restrictions of a node exclude jobs by cluster; restrictions of a job exclude nodes.
    #[test]
    fn nodes_and_jobs_restrict_each_other_by_cluster() {
        let terms = NodeTerms {
            restrictions: Some("/post/+ || /promo".parse().unwrap()),
            ..NodeTerms::default()
        };
        let fixture = cluster("").terms("n1", "ncpus=9", terms);
        let starts = |cluster: &str| {
            fixture
                .clone()
                .queued(1, &format!("cluster={cluster}"))
                .starts()
        };
        assert_eq!(
            ["/post", "/post/x", "/promo", "/promo/y"].map(|c| !starts(c).is_empty()),
            [true, true, true, false]
        );
        assert!(
            fixture
                .clone()
                .queued(1, "select=1:ncpus=1")
                .why(1)
                .contains("restriction: the node excludes jobs of cluster /")
        );
        let post = NodeTerms {
            cluster: "/post".parse().unwrap(),
            ..NodeTerms::default()
        };
        let fixture = cluster("1 x ncpus=9").terms("n2", "ncpus=9", post);
        assert_eq!(
            fixture.clone().queued(1, "restrictions=/post/+").starts(),
            "1 on n2"
        );
        assert_eq!(
            fixture.queued(1, "cluster=/post").starts(),
            "1 on n1",
            "nodes without restrictions exclude no job"
        );
    }

    /// Q24.
    #[test]
    fn only_named_hosts_are_used() {
        let gpu = NodeTerms {
            groups: vec!["gpu".to_string()],
            ..NodeTerms::default()
        };
        let fixture = cluster("2 x ncpus=4").terms("n3", "ncpus=4", gpu);
        let starts = |text: &str| fixture.clone().queued(1, text).starts();
        assert_eq!(starts("hosts=n1,n2 omit_hosts=n2"), "1 on n1");
        assert_eq!(starts("hosts=n2,n3"), "1 on n2");
        assert_eq!(starts("groups=gpu"), "1 on n3");
        assert_eq!(starts("omit_hosts=n1,n2"), "1 on n3");
        assert_eq!(
            fixture.clone().queued(1, "hosts=nosuch").why(1),
            "Can Never Run: hosts: hosts=nosuch"
        );
    }

    /// Q26.
    #[test]
    fn a_vetoed_node_is_not_used() {
        let mut fixture = cluster("2 x ncpus=1");
        fixture.policy.placement.veto =
            Expression::parse("job.user==\"guest\" && host.name==\"n1\"").ok();
        let guest = fixture.clone().owned("guest").queued(1, "select=1:ncpus=1");
        assert_eq!(guest.starts(), "1 on n2");
        assert_eq!(
            fixture.clone().queued(1, "select=1:ncpus=1").starts(),
            "1 on n1"
        );
        let full = fixture
            .running(9, "select=1:ncpus=1", "n2", 600)
            .owned("guest")
            .queued(1, "select=1:ncpus=1");
        assert!(
            full.why(1).starts_with("Not Running: vetoed: "),
            "{}",
            full.why(1)
        );
        assert!(full.why(1).ends_with(" on n1"));
    }
}
