//! The input of the site's allocation script, which selects the nodes of jobs (M8i): the classes
//! (of equal jobs) for which the script must still be run, and their candidate nodes. The jobs of a
//! class wait while the script runs. If the script gives no usable answer, the nodes for these jobs
//! are ranked by size.

use super::availability_map::AvailabilityMap;
use super::rank::Candidates;
use crate::model::policy::Policy;
use crate::model::request::placement_policy::NodeAllocation;
use crate::sched::view::shape::ClassId;
use crate::sched::view::snapshot::ClusterState;
use std::collections::BTreeSet;

impl ClusterState {
    /// The classes for which the script must be started: it selects the nodes of their jobs, and it
    /// has neither answered nor been started for them.
    pub fn without_answer(&self, policy: &Policy) -> Vec<ClassId> {
        let waiting = self.classes.iter().filter(|(id, class)| {
            let allocation = class.key.shape.allocation;
            allocation.unwrap_or(policy.placement.allocation) == NodeAllocation::Site
                && !self.answers.contains_key(id)
        });
        waiting.map(|(&id, _)| id).collect()
    }

    /// The usable nodes on which at least one chunk of the request of a class would fit if no job
    /// ran, in the order of the nodes. Empty if no job of the class waits.
    pub fn candidates(&self, class: ClassId) -> Vec<&str> {
        let Some(class) = self.classes.get(&class) else {
            return Vec::new();
        };
        let vacant = AvailabilityMap::vacant(&self.cluster);
        let shape = &class.key.shape;
        let mut nodes = BTreeSet::new();
        for chunk in 0..shape.chunks.len() {
            let candidates = Candidates::of(&vacant, shape, chunk, None);
            nodes.extend(candidates.nodes(&vacant, shape).map(|(ix, _)| ix));
        }
        let usable = nodes
            .into_iter()
            .map(|ix| self.cluster.node(ix))
            .filter(|node| node.usable);
        usable.map(|node| node.name.as_str()).collect()
    }
}

#[cfg(test)]
mod tests {
    use crate::model::job_id::JobId;
    use crate::model::request::placement_policy::NodeAllocation;
    use crate::sched::fixture::cluster;

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn m8i_a_class_waits_for_the_answer_of_the_script() {
        let mut fixture =
            cluster("2 x ncpus=1, 1 x ncpus=4").queued(1, "select=1:ncpus=2 nalloc=local");
        fixture = fixture.queued(2, "select=1:ncpus=1");
        let class = fixture.state.class_of(JobId::job(1)).unwrap();
        assert_eq!(fixture.state.without_answer(&fixture.policy), [class]);
        assert_eq!(fixture.state.candidates(class), ["n3"]);
        fixture.state.await_answer(class);
        assert_eq!(
            [fixture.starts(), fixture.reason(1).unwrap().code().into()],
            ["2 on n1", "awaits_choice"]
        );
        fixture.state.set_answer(class, None);
        assert_eq!(fixture.starts(), "1 on n3; 2 on n1");
        assert!(fixture.state.without_answer(&fixture.policy).is_empty());
    }

    #[test]
    fn m8i_an_answer_holds_until_nodes_change_or_no_job_waits() {
        let mut fixture = cluster("3 x ncpus=4").queued(1, "select=1:ncpus=2 nalloc=local");
        fixture.policy.placement.allocation = NodeAllocation::FirstAvailable;
        let class = fixture.state.class_of(JobId::job(1)).unwrap();
        fixture
            .state
            .set_answer(class, Some(&names(&["n3", "n2", "n3"])));
        assert_eq!(fixture.starts(), "1 on n3");
        let again = fixture.clone().node("n3", "ncpus=4", true);
        assert_eq!(again.starts(), "1 on n3", "the node has not changed");
        let changed = fixture.clone().node("n1", "ncpus=8", true);
        assert_eq!(
            (
                changed.starts().as_str(),
                changed.state.without_answer(&changed.policy)
            ),
            ("1 on n2", vec![class])
        );
        fixture.state.withdraw(JobId::job(1));
        fixture.state.await_answer(class);
        assert!(fixture.state.set_answer(class, Some(&names(&["n2"]))));
        assert_eq!(
            fixture.queued(1, "select=1:ncpus=2 nalloc=local").starts(),
            "1 on n1"
        );
    }

    #[test]
    fn m8i_a_forecast_waits_for_no_answer() {
        let mut fixture = cluster("2 x ncpus=4")
            .queued(1, "select=1:ncpus=2 nalloc=local")
            .queued(2, "select=1:ncpus=3 nalloc=local");
        let [one, two] = [1, 2].map(|job| fixture.state.class_of(JobId::job(job)).unwrap());
        assert_eq!(fixture.state.class(one).map(|class| class.id), Some(one));
        fixture.state.await_answer(one);
        fixture.state.set_answer(two, Some(&names(&["n2"])));
        assert_eq!(fixture.starts(), "2 on n2");
        fixture.state.drop_outstanding_answers();
        assert!(!fixture.state.is_awaited(one));
        assert_eq!(
            fixture.starts(),
            "1 on n1; 2 on n2",
            "existing answers still hold"
        );
    }

    #[test]
    fn m8i_an_answer_with_an_unknown_node_is_ignored() {
        let mut fixture = cluster("2 x ncpus=4").queued(1, "select=1:ncpus=2 nalloc=local");
        let class = fixture.state.class_of(JobId::job(1)).unwrap();
        assert!(
            !fixture
                .state
                .set_answer(class, Some(&names(&["n2", "nosuch"])))
        );
        assert_eq!(fixture.starts(), "1 on n1");
        assert!(
            fixture.state.set_answer(class, Some(&[])) && fixture.state.set_answer(class, None)
        );
    }
}
