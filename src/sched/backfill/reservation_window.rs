//! Places a reservation: finds nodes with enough free resources. Resources that a running job or
//! another reservation uses at any time of the reservation's period are not free.
//!
//! A running job uses its nodes until the end of its walltime. As in PBS, planned starts of waiting
//! jobs do not count, because the scheduler plans these starts again after the reservation is
//! placed.

use crate::model::job::NodeShare;
use crate::model::job_id::JobId;
use crate::model::reason::Reason;
use crate::model::request::placement_policy::Distribution;
use crate::model::request::select::Request;
use crate::model::reservation::window::Window;
use crate::model::time::Time;
use crate::sched::amounts::{Amounts, add};
use crate::sched::placement::availability_map::AvailabilityMap;
use crate::sched::placement::{place, shortage, task_distribution};
use crate::sched::view::cluster::{Joinable, NodeIx};
use crate::sched::view::node_access::JobOwner;
use crate::sched::view::shape::Shape;
use crate::sched::view::snapshot::ClusterState;
use std::collections::{BTreeMap, BTreeSet};

/// The request for a reservation.
#[derive(Clone, Copy, Debug)]
pub struct WindowRequest<'a> {
    /// The requested resources.
    pub request: &'a Request,
    /// The time at which the reservation begins.
    pub from: Time,
    /// The time at which the reservation ends.
    pub to: Time,
    /// The name of the reservation to alter; its present resources count as free. Empty for a new
    /// reservation.
    pub except: &'a str,
}

/// Returns the shares of nodes of the reservation, one for each chunk. The error is the reason why
/// the reservation does not fit. `inside` are jobs that run inside reservations; they are ignored,
/// because their resources are already counted for their reservations.
pub fn place(
    state: &ClusterState,
    wanted: &WindowRequest,
    inside: &BTreeSet<JobId>,
    now: Time,
) -> Result<Vec<NodeShare>, Reason> {
    let cluster = &state.cluster;
    let shape = Shape::of_request(wanted.request, &cluster.catalog);
    let vacant = AvailabilityMap::vacant(cluster);
    if !vacant.has_no_nodes() && !place::fits(&vacant, &shape) {
        return Err(shortage::never(&vacant, &shape));
    }
    let space = throughout(state, wanted, inside, now);
    let placement =
        place::fit(&space, &shape).map_err(|misfit| shortage::now(&space, &shape, misfit))?;
    Ok(
        task_distribution::distribute(cluster, &shape, &placement, &[], Distribution::Pack)
            .into_iter()
            .map(|(_, share)| share)
            .collect(),
    )
}

/// Whether the nodes of these shares exist, and neither a job outside reservations nor another
/// reservation uses the shares during the period. If so, a reservation that has begun keeps the
/// shares when it is altered.
pub fn keeps(
    state: &ClusterState,
    wanted: &WindowRequest,
    shares: &[NodeShare],
    inside: &BTreeSet<JobId>,
    now: Time,
) -> bool {
    let space = throughout(state, wanted, inside, now);
    let Ok(holds) = state.cluster.holds(shares, JobOwner::default()) else {
        return false;
    };
    holds.iter().all(|(&ix, hold)| {
        let room = space.room(ix);
        room.condition() != Joinable::Alone
            && hold
                .taken
                .iter()
                .zip(&room.free)
                .all(|(taken, free)| taken <= free)
    })
}

/// The resources that are free during the whole period of a reservation.
fn throughout<'s>(
    state: &'s ClusterState,
    wanted: &WindowRequest,
    inside: &BTreeSet<JobId>,
    now: Time,
) -> AvailabilityMap<'s> {
    let mut space = AvailabilityMap::now(&state.cluster);
    for (job, running) in &state.running {
        // A job past its walltime is assumed to end soon, but not before a reservation that begins
        // now.
        let has_ended = running.until.max(now) <= wanted.from && wanted.from > now;
        if has_ended || inside.contains(job) {
            release(state, &mut space, *job, &running.nodes);
        }
    }
    let windows: Vec<&Window> = state
        .windows
        .values()
        .filter(|window| window.name() != wanted.except && window.meets(wanted.from, wanted.to))
        .collect();
    for (ix, taken) in most_at_once(state, &windows, wanted.from) {
        space.admit(ix, &taken, false);
    }
    for window in windows.iter().filter(|window| window.whole) {
        for share in &window.shares {
            if let Some(ix) = state.cluster.find(&share.node) {
                space.close(ix);
            }
        }
    }
    space
}

fn release(state: &ClusterState, space: &mut AvailabilityMap, job: JobId, nodes: &[NodeIx]) {
    for &ix in nodes {
        if let Some(hold) = state.cluster.node(ix).tenants.get(&job) {
            space.dismiss(ix, &hold.taken, hold.owner);
        }
    }
}

/// For each resource of each node, the maximum that reservations use at the same time, from `from`
/// on. The maximum occurs at `from` or when a reservation begins.
fn most_at_once(
    state: &ClusterState,
    windows: &[&Window],
    from: Time,
) -> BTreeMap<NodeIx, Amounts> {
    let openings: BTreeSet<Time> = windows.iter().map(|window| window.from.max(from)).collect();
    let mut most: BTreeMap<NodeIx, Amounts> = BTreeMap::new();
    for time in openings {
        let mut sums: BTreeMap<NodeIx, Amounts> = BTreeMap::new();
        for window in windows.iter().filter(|window| window.is_open(time)) {
            // Shares on nodes that were removed from the cluster do not count.
            for (ix, hold) in state
                .cluster
                .holds(&existing_shares(state, window), JobOwner::default())
                .unwrap_or_default()
            {
                add(
                    sums.entry(ix)
                        .or_insert_with(|| state.cluster.catalog.nothing()),
                    &hold.taken,
                );
            }
        }
        for (ix, sum) in sums {
            let most = most
                .entry(ix)
                .or_insert_with(|| state.cluster.catalog.nothing());
            for (most, sum) in most.iter_mut().zip(sum) {
                *most = sum.max(*most);
            }
        }
    }
    most
}

fn existing_shares(state: &ClusterState, window: &Window) -> Vec<NodeShare> {
    window
        .shares
        .iter()
        .filter(|share| state.cluster.find(&share.node).is_some())
        .cloned()
        .collect()
}

/// One share for each of these nodes, with all resources of the node except `vmem`. The error is
/// the name of the first node that does not exist or has no known properties.
pub fn whole(state: &ClusterState, names: &[String]) -> Result<Vec<NodeShare>, String> {
    names
        .iter()
        .map(|name| whole_node(state, name).ok_or_else(|| name.clone()))
        .collect()
}

fn whole_node(state: &ClusterState, name: &str) -> Option<NodeShare> {
    let cluster = &state.cluster;
    let node = cluster.node(cluster.find(name)?);
    let empty = &cluster.kind(node.kind?).empty.free;
    // Virtual memory is not bounded by hardware, so it cannot be reserved.
    let taken = cluster
        .catalog
        .names()
        .iter()
        .enumerate()
        .filter(|(ix, name)| empty.get(*ix).is_some_and(|amount| *amount > 0) && *name != "vmem")
        .map(|(index, name)| (name.clone(), cluster.catalog.value(index, empty[index])))
        .collect();
    Some(NodeShare {
        node: node.name.clone(),
        host: node.host.clone(),
        taken,
        cpus: Vec::new(),
        gpus: Vec::new(),
        mpiprocs: 1,
        pooled: Vec::new(),
        ranks: Vec::new(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::reservation::window::WindowAccess;
    use crate::model::time::Span;
    use crate::sched::fixture::{TestCluster, cluster};

    /// The nodes of a reservation from `from` to `to` (in seconds) that replaces R9. The error is
    /// the reason's code. Job 8 counts as a job inside a reservation.
    fn placed(fixture: &TestCluster, text: &str, from: i64, to: i64) -> Result<String, String> {
        let job = fixture.job(99, text);
        let at = |seconds| Time(0) + Span::seconds(seconds);
        let wanted = WindowRequest {
            request: &job.spec.request,
            from: at(from),
            to: at(to),
            except: "R9",
        };
        let shares = place(
            &fixture.state,
            &wanted,
            &BTreeSet::from([JobId::job(8)]),
            fixture.now,
        );
        let nodes = |shares: Vec<NodeShare>| {
            shares
                .iter()
                .map(|share| share.node.clone())
                .collect::<Vec<_>>()
                .join(",")
        };
        shares
            .map(nodes)
            .map_err(|reason| reason.code().to_string())
    }

    /// Adds a reservation on one node; `hours` are its beginning and end.
    fn window(fixture: &mut TestCluster, id: &str, text: &str, hours: (i64, i64)) {
        let (request, node) = text.split_once(" on ").unwrap();
        let chunks = fixture.job(98, request).spec.request.select.chunks.clone();
        let share = |chunk: crate::model::request::select::Chunk| NodeShare {
            node: node.into(),
            host: node.into(),
            taken: chunk.resources,
            cpus: Vec::new(),
            gpus: Vec::new(),
            mpiprocs: 1,
            pooled: Vec::new(),
            ranks: Vec::new(),
        };
        let shares = chunks.into_iter().map(share).collect();
        let at = |hour| Time(0) + Span::seconds(3600 * hour);
        fixture.state.set_window(Window {
            id: id.into(),
            from: at(hours.0),
            to: at(hours.1),
            shares,
            whole: false,
            access: WindowAccess::default(),
            by_name: true,
            owner_preempts: false,
        });
    }

    #[test]
    fn a_reservation_gets_nodes_of_jobs_that_end_before_it() {
        let fixture = cluster("2 x ncpus=4").running(1, "select=1:ncpus=3", "n1", 3600);
        assert_eq!(placed(&fixture, "select=1:ncpus=4", 0, 60), Ok("n2".into()));
        assert_eq!(
            placed(&fixture, "select=2:ncpus=4", 3599, 7200),
            Err("amount.ncpus".into())
        );
        assert_eq!(
            placed(&fixture, "select=2:ncpus=4", 3600, 7200),
            Ok("n1,n2".into())
        );
        assert_eq!(
            placed(&fixture, "select=1:ncpus=5", 3600, 7200),
            Err("unsatisfiable".into())
        );
    }

    #[test]
    fn only_reservations_at_the_same_time_are_added_up() {
        let mut fixture = cluster("1 x ncpus=8");
        window(&mut fixture, "R1", "select=1:ncpus=3 on n1", (1, 2));
        window(&mut fixture, "R2", "select=1:ncpus=3 on n1", (2, 3));
        assert_eq!(
            placed(&fixture, "select=1:ncpus=5", 0, 4 * 3600),
            Ok("n1".into()),
            "R1 and R2 are never open at the same time"
        );
        assert_eq!(
            placed(&fixture, "select=1:ncpus=6", 0, 4 * 3600),
            Err("amount.ncpus".into())
        );
        assert_eq!(
            placed(&fixture, "select=1:ncpus=8", 0, 3600),
            Ok("n1".into())
        );
        window(&mut fixture, "R9", "select=1:ncpus=5 on n1", (0, 9));
        assert_eq!(
            placed(&fixture, "select=1:ncpus=5", 0, 4 * 3600),
            Ok("n1".into()),
            "R9, the reservation to alter, does not count"
        );
    }

    #[test]
    fn a_job_inside_a_reservation_does_not_count_in_addition_to_it() {
        let mut fixture = cluster("1 x ncpus=8").running(8, "select=1:ncpus=3", "n1", 7200);
        window(&mut fixture, "R1", "select=1:ncpus=3 on n1", (0, 2));
        assert_eq!(placed(&fixture, "select=1:ncpus=5", 0, 60), Ok("n1".into()));
    }

    #[test]
    fn no_other_reservation_uses_nodes_reserved_as_a_whole() {
        let mut fixture = cluster("2 x ncpus=8:mem=4gb");
        let shares = whole(&fixture.state, &["n1".to_string()]).unwrap();
        let taken: Vec<String> = shares[0]
            .taken
            .iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        assert_eq!(taken, ["mem=4194304kb", "ncpus=8"]);
        assert_eq!(
            whole(&fixture.state, &["n7".to_string()]),
            Err("n7".to_string())
        );
        window(&mut fixture, "M1", "select=1:ncpus=0 on n1", (0, 2));
        let closed = Window {
            whole: true,
            ..fixture.state.windows["M1"].clone()
        };
        fixture.state.set_window(closed);
        assert_eq!(placed(&fixture, "select=1:ncpus=0", 0, 60), Ok("n2".into()));
    }

    #[test]
    fn a_reservation_keeps_its_shares_if_no_other_job_or_reservation_uses_them() {
        let mut fixture = cluster("2 x ncpus=4:mem=4gb").running(1, "select=1:ncpus=2", "n1", 3600);
        window(&mut fixture, "R1", "select=1:ncpus=1 on n2", (2, 3));
        fixture = fixture.queued(5, "select=1");
        let request = fixture.job(99, "select=1").spec.request.clone();
        let kept = |fixture: &TestCluster, nodes: &[&str], ncpus: i64, hours: (i64, i64)| {
            let at = |hour| Time(0) + Span::seconds(3600 * hour);
            let wanted = WindowRequest {
                request: &request,
                from: at(hours.0),
                to: at(hours.1),
                except: "R9",
            };
            let mut shares = whole(
                &fixture.state,
                &nodes.iter().map(ToString::to_string).collect::<Vec<_>>(),
            )
            .unwrap();
            let ncpus = crate::model::resource::ResourceValue::Long(ncpus);
            shares
                .iter_mut()
                .for_each(|share| share.taken = vec![("ncpus".to_string(), ncpus.clone())]);
            keeps(
                &fixture.state,
                &wanted,
                &shares,
                &BTreeSet::new(),
                fixture.now,
            )
        };
        assert!(
            kept(&fixture, &["n1"], 2, (0, 1))
                && !kept(&fixture, &["n1"], 3, (0, 1))
                && kept(&fixture, &["n1"], 4, (1, 2))
        );
        assert!(
            kept(&fixture, &["n2"], 4, (0, 2))
                && kept(&fixture, &["n2"], 3, (0, 9))
                && !kept(&fixture, &["n2"], 4, (0, 9))
        );
        assert!(
            !kept(&fixture, &["n1", "n2"], 3, (0, 1)),
            "3 CPUs are requested on each node, 2 are free on n1"
        );
        let alone = fixture.running(2, "select=1:ncpus=1 place=excl", "n2", 60);
        assert!(!kept(&alone, &["n2"], 1, (0, 1)));
        let unknown = NodeShare {
            node: "nosuch".to_string(),
            ..whole(&alone.state, &["n1".to_string()]).unwrap().remove(0)
        };
        let wanted = WindowRequest {
            request: &request,
            from: Time(0),
            to: Time(1),
            except: "",
        };
        assert!(!keeps(
            &alone.state,
            &wanted,
            &[unknown],
            &BTreeSet::new(),
            Time(0)
        ));
    }

    /// A reservation may begin when a job is expected to end. It may not begin now if a job has
    /// reached the end of its walltime and still runs.
    #[test]
    fn an_overdue_job_is_not_expected_to_end_now() {
        let fixture = cluster("1 x ncpus=4")
            .running(1, "select=1:ncpus=4", "n1", 60)
            .at(60);
        assert_eq!(
            placed(&fixture, "select=1:ncpus=4", 60, 120),
            Err("amount.ncpus".into())
        );
        assert_eq!(
            placed(&fixture, "select=1:ncpus=4", 61, 120),
            Ok("n1".into())
        );
    }
}
