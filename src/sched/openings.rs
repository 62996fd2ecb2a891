//! The gaps there are for fillers: how many nodes are idle, and for how long (M29).
//!
//! Widest first: all nodes that are idle now until the first of them is wanted, then those that are
//! left for longer, down to those that nobody waits for.

use super::cluster::Condition;
use super::plan::Plan;
use super::snapshot::State;
use crate::model::time::Time;
use std::collections::BTreeMap;

/// Idle nodes, and how long they are all idle together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opening {
    /// How many.
    pub nodes: usize,
    /// Until then; `Time::NEVER` where nothing is promised and nothing set aside.
    pub until: Time,
}

/// The gaps that a plan leaves.
pub fn list(state: &State, plan: &Plan) -> Vec<Opening> {
    let wanted = wanted(state, plan);
    let idle = state.cluster.present().filter(|node| node.usable && node.room.condition() == Condition::Idle);
    let ends = idle.map(|node| wanted.get(node.name.as_str()).copied().unwrap_or(Time::NEVER));
    let mut ends: Vec<Time> = ends.filter(|end| *end > plan.now).collect();
    ends.sort_unstable();
    let widest = |run: &[Time]| run.first().map(|&until| (until, run.len()));
    let runs: Vec<(Time, usize)> = ends.chunk_by(|a, b| a == b).filter_map(widest).collect();
    let mut nodes = ends.len();
    let opening = |&(until, leaving): &(Time, usize)| {
        let opening = Opening { nodes, until };
        nodes -= leaving;
        opening
    };
    runs.iter().map(opening).collect()
}

/// When somebody wants a node first.
fn wanted<'a>(state: &'a State, plan: &'a Plan) -> BTreeMap<&'a str, Time> {
    let starts = plan.starts.iter().flat_map(|start| &start.shares).map(|share| (share.node.as_str(), plan.now));
    let promised = |booking: &'a super::plan::Booking| booking.nodes.iter().map(|node| (node.as_str(), booking.at));
    let windows = state.windows.values().filter(|window| window.to > plan.now);
    let aside = windows.flat_map(|window| window.shares.iter().map(|share| (share.node.as_str(), window.from)));
    let mut wanted = BTreeMap::new();
    for (node, at) in starts.chain(plan.bookings.iter().flat_map(promised)).chain(aside) {
        let first = wanted.entry(node).or_insert(at);
        *first = at.min(*first);
    }
    wanted
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::window::{Access, Window};
    use crate::sched::fixture::cluster;
    use crate::sched::window;

    #[test]
    fn m29_the_widest_gap_comes_first() {
        let names = ["n5", "n6", "n7"].map(String::from);
        let mut scene = cluster("8 x ncpus=1").running(1, "select=4:ncpus=1", "n1,n2,n3,n4", 7200);
        let aside = Window {
            id: "R1".to_string(),
            from: Time(3_600_000),
            to: Time::NEVER,
            shares: window::whole(&scene.state, &names).unwrap(),
            whole: true,
            access: Access::default(),
            by_name: false,
            owner_preempts: false,
        };
        scene.state.set_window(aside);
        let gaps = |scene: &crate::sched::fixture::Scene| {
            let openings = list(&scene.state, &scene.plan());
            openings.iter().map(|opening| (opening.nodes, opening.until.0)).collect::<Vec<_>>()
        };
        assert_eq!(gaps(&scene), [(4, 3_600_000), (1, i64::MAX)]);
        let taken = scene.clone().queued(2, "select=1:ncpus=1:vnode=n8");
        assert_eq!(gaps(&taken), [(3, 3_600_000)]);
        let promised = scene.queued(2, "select=1:ncpus=1:vnode=n1+1:ncpus=1:vnode=n8");
        assert_eq!(gaps(&promised), [(4, 3_600_000), (1, 7_200_000)]);
    }
}
