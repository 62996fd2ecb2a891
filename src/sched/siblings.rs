//! Elements of one array have what is counted by host together (Q21, G2): however many of them are on a host,
//! they take it once there. One of them holds it, the one that ends last, so that it is free again when all of
//! them are over.

use super::amounts::Amounts;
use super::cluster::{Cluster, Hold, NodeIx};
use super::matching::{self, Placement};
use super::pools;
use super::shape::Shape;
use super::snapshot::State;
use super::space::{Claim, Space};
use crate::model::job::JobId;
use crate::model::select::Arrangement;
use crate::model::time::Time;
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Where arrays have what: the number of each, the host, and the resource.
pub type SharedHosts = BTreeSet<(u64, String, usize)>;

impl Cluster {
    /// The elements of an array on a host, each with the node.
    fn siblings<'a>(&'a self, number: u64, host: &str) -> impl Iterator<Item = (JobId, NodeIx)> + use<'a> {
        let elements = JobId::element(number, 0)..=JobId::element(number, u32::MAX);
        let on = move |ix| self.node(ix).tenants.range(elements.clone()).map(move |(&job, _)| (job, ix));
        self.hosts.get(host).into_iter().flatten().copied().flat_map(on)
    }

    fn held(&self, (job, ix): (JobId, NodeIx), index: usize) -> i64 {
        self.node(ix).tenants.get(&job).map_or(0, |hold| hold.taken[index])
    }

    /// What others of its array are on a host with, too.
    fn others(&self, job: JobId, host: &str) -> impl Iterator<Item = (JobId, NodeIx)> + use<'_> {
        self.siblings(job.number, host).filter(move |&(other, _)| other != job)
    }
}

impl State {
    /// An element has come to its nodes: what is counted by host it has together with the others there.
    pub(super) fn join_siblings(&mut self, id: JobId) {
        for (host, index) in self.shared_by(id) {
            self.settle((id, &host, index), true);
        }
    }

    /// An element leaves: those that stay on its hosts have it from now on.
    pub(super) fn leave_to_siblings(&mut self, id: JobId) {
        for (host, index) in self.shared_by(id) {
            self.settle((id, &host, index), false);
        }
    }

    /// What an element has of what is counted by host, alone or with others.
    fn shared_by(&self, id: JobId) -> BTreeSet<(String, usize)> {
        let running = self.running.get(&id).filter(|_| id.index().is_some() && self.cluster.pools.has_by_host());
        let hosts = running.into_iter().flat_map(|running| &running.nodes).map(|&ix| &self.cluster.node(ix).host);
        let by_host = |host: &String| {
            let is_there = |index: &usize| {
                let mut there = self.cluster.siblings(id.number, host);
                there.any(|place| self.cluster.held(place, *index) > 0)
            };
            self.cluster.pools.by_host().filter(is_there).map(|index| (host.clone(), index)).collect::<Vec<_>>()
        };
        hosts.flat_map(by_host).collect()
    }

    /// Gives what an array has on a host to the element there that ends last; one comes, or leaves.
    fn settle(&mut self, (moved, host, index): (JobId, &str, usize), comes: bool) {
        let all: Vec<(JobId, NodeIx)> = self.cluster.siblings(moved.number, host).collect();
        let heirs = all.iter().filter(|&&(job, _)| (comes || job != moved) && !self.gave_up(job, index));
        let last = heirs.max_by_key(|&&(job, ix)| (self.end_of(job), job, ix)).copied();
        let key = (moved.number, host.to_string(), index);
        let Some(last) = last else {
            self.cluster.shared.remove(&key);
            return;
        };
        self.cluster.shared.insert(key);
        let most = all.iter().map(|&place| self.cluster.held(place, index)).max().unwrap_or(0);
        for place in all {
            let more = if place == last { most } else { 0 } - self.cluster.held(place, index);
            if more != 0 {
                self.hand(place, index, more, moved);
            }
        }
    }

    /// One holds so much more from now on, or less.
    fn hand(&mut self, (job, ix): (JobId, NodeIx), index: usize, more: i64, moved: JobId) {
        let Some(mut hold) = self.cluster.node(ix).tenants.get(&job).cloned() else { return };
        // Who moves is counted by whoever moves it.
        if job != moved {
            self.strike(job);
        }
        hold.taken[index] += more;
        self.cluster.occupy(ix, job, hold);
        if let Some(running) = self.running.get_mut(&job).map(Arc::make_mut) {
            running.taken[index] += more;
            if let Some(released) = self.releases.get_mut(&running.until) {
                released[index] += more;
            }
        }
        if job != moved {
            self.enroll(job);
        }
    }

    /// Whether a job stands still and has given that up meanwhile.
    fn gave_up(&self, id: JobId, index: usize) -> bool {
        let name = &self.cluster.catalog.names()[index];
        let given = self.suspended.get(&id).into_iter().flat_map(|suspended| &suspended.needed);
        given.flat_map(|share| &share.pooled).any(|(given, _)| given == name)
    }

    fn end_of(&self, id: JobId) -> Time {
        self.running.get(&id).map_or(Time(0), |running| running.until)
    }

    /// What is free of a node, and of what is counted by host, without a job, and without these that are gone:
    /// of the latter nothing as long as others of its array are there.
    pub(super) fn gives_back<'h>(
        &self,
        (id, ix): (JobId, NodeIx),
        hold: &'h Hold,
        gone: &BTreeSet<JobId>,
    ) -> Cow<'h, Amounts> {
        let mut given = Cow::Borrowed(&hold.taken);
        for (host, index) in self.shared_by(id) {
            let stays = |&(other, _): &(JobId, NodeIx)| !gone.contains(&other);
            let all = self.cluster.siblings(id.number, &host).map(|place| self.cluster.held(place, index)).sum();
            let is_here = self.cluster.node(ix).host == host;
            let first = self
                .running
                .get(&id)
                .and_then(|running| running.nodes.iter().find(|&&ix| self.cluster.node(ix).host == host).copied());
            if is_here {
                let is_last = self.cluster.others(id, &host).find(stays).is_none();
                given.to_mut()[index] = if is_last && first == Some(ix) { all } else { 0 };
            }
        }
        given
    }
}

impl Space<'_> {
    /// Whether elements of an array have a resource on a host. Of another moment than this nobody can tell; and
    /// where somebody is promised of it, one more would keep it for longer.
    fn is_shared(&self, number: u64, host: &str, index: usize) -> bool {
        let can_tell = !self.is_imagined() && self.is_unpromised(index);
        let key = (number, host.to_string(), index);
        can_tell && (self.cluster.shared.contains(&key) || self.joined().contains(&key))
    }

    /// What a job of this shape takes of the whole system's resources on these nodes, beside others of its array.
    pub fn pooled(&self, shape: &Shape, nodes: impl Iterator<Item = NodeIx>) -> BTreeMap<usize, i64> {
        let mut taken = BTreeMap::new();
        for (ix, index, amount) in pools::amounts(self.cluster, shape, nodes) {
            let host = &self.cluster.node(ix).host;
            if !shape.array.is_some_and(|number| self.is_shared(number, host, index)) {
                *taken.entry(index).or_default() += amount;
            }
        }
        taken
    }

    /// Leaves out of a claim what others of its array have on its hosts, and notes what it has there itself.
    pub fn share(&mut self, shape: &Shape, claim: &mut Claim) {
        let Some(number) = shape.array.filter(|_| self.cluster.pools.has_by_host()) else { return };
        let mut joins = SharedHosts::new();
        for (&ix, taken) in &mut claim.holds {
            let host = &self.cluster.node(ix).host;
            for index in self.cluster.pools.by_host() {
                if taken[index] == 0 {
                    continue;
                }
                if self.is_shared(number, host, index) {
                    taken[index] = 0;
                }
                joins.insert((number, host.clone(), index));
            }
        }
        self.join(joins);
    }
}

/// Where an element fits on hosts of others of its array: there it takes no more of what is counted by host.
pub fn place(space: &Space, shape: &Shape) -> Option<Placement> {
    let eased = eased(space, shape)?;
    let short: Vec<usize> = (0..eased.total.len()).filter(|&index| eased.total[index] < shape.total[index]).collect();
    let is_shared = |host: &str| short.iter().all(|&index| space.is_shared(shape.array.unwrap_or(0), host, index));
    let shared = space.cluster.shared.iter().chain(space.joined());
    let hosts: BTreeSet<&str> = shared.map(|(_, host, _)| host.as_str()).filter(|host| is_shared(host)).collect();
    let nodes = |host: &&str| space.cluster.nodes_of_host(host).collect::<Vec<_>>();
    match shape.arrangement {
        Arrangement::Pack => hosts.iter().find_map(|host| matching::spread(space, &eased, Some(&nodes(host)))),
        _ => matching::spread(space, &eased, Some(&hosts.iter().flat_map(nodes).collect::<Vec<_>>())),
    }
}

/// The request of an element without what is counted by host and too little of which is free: on hosts of others
/// of its array it takes none. None where that is nothing, or where its nodes must have something in common.
pub fn eased(space: &Space, shape: &Shape) -> Option<Shape> {
    let number = shape.array.filter(|_| shape.sets.is_none() && shape.group.is_none())?;
    let free = space.free(shape.tenancy);
    let is_had = |index: usize| {
        let mut shared = space.cluster.shared.iter().chain(space.joined());
        shared.any(|(array, host, of)| *array == number && *of == index && space.is_shared(number, host, index))
    };
    let short = space.cluster.pools.by_host().filter(|&index| shape.total[index] > free[index] && is_had(index));
    let mut eased: Option<Shape> = None;
    short.for_each(|index| eased.get_or_insert_with(|| shape.clone()).total[index] = 0);
    eased
}

#[cfg(test)]
mod tests {
    use crate::model::job::{JobId, Share};
    use crate::model::resource::Value;
    use crate::model::time::Time;
    use crate::sched::fixture::{self, Scene, cluster};
    use crate::sched::pools::Pool;
    use crate::sched::shape::Tenancy;
    use proptest::prelude::*;
    use proptest::{collection, sample::Index};

    /// So much of a resource that is counted by host.
    fn scene(nodes: &str, total: i64) -> Scene {
        let mut scene = cluster(nodes);
        scene.state.set_pool("site_lic", Pool { total, per_host: true, ..Pool::default() });
        scene
    }

    /// An element of array 1 runs on a node until then, in seconds, and asked for one of that.
    fn on(mut scene: Scene, index: u32, node: &str, until: i64) -> Scene {
        let amount = |name: &str| (name.to_string(), Value::Long(1));
        let share = Share { taken: vec![amount("ncpus")], pooled: vec![amount("site_lic")], ..fixture::share(node) };
        scene.state.occupy(JobId::element(1, index), &[share], Tenancy::Shared, Time(until * 1000));
        scene
    }

    fn used(scene: &Scene) -> i64 {
        scene.state.pool("site_lic").unwrap().0
    }

    /// G2: four elements on one host have one together; a fifth on another host would need one more.
    #[test]
    fn elements_on_one_host_take_it_once() {
        let mut scene = scene("2 x ncpus=4", 1).queued(1, "select=1:ncpus=1 site_lic=1 array=1-6");
        assert_eq!(scene.starts(), "1[1] on n1; 1[2] on n1; 1[3] on n1; 1[4] on n1");
        let plan = scene.plan();
        plan.audit(&scene.state).unwrap();
        scene.apply(&plan);
        assert_eq!((used(&scene), scene.starts().as_str()), (1, ""));
        let why = "Not Running: Insufficient amount of resource: site_lic (R: 1 A: 0 T: 1)";
        assert_eq!(scene.why(1), why);
        scene.state.vacate(JobId::element(1, 4));
        assert_eq!((used(&scene), scene.starts().as_str()), (1, "1[5] on n1"), "whoever had it, others have it");
        (1..=3).for_each(|index| scene.state.vacate(JobId::element(1, index)));
        assert_eq!(used(&scene), 0);
        assert_eq!(scene.starts(), "1[5] on n1; 1[6] on n1");
    }

    /// G2: other jobs and arrays have nothing of it.
    #[test]
    fn others_take_their_own() {
        let scene = on(scene("1 x ncpus=8", 2), 1, "n1", 100);
        let scene = scene.queued(2, "select=1:ncpus=1 site_lic=1").queued(3, "select=1:ncpus=1 site_lic=1 array=1-2");
        assert_eq!(scene.starts(), "2 on n1");
        let two = on(self::scene("2 x ncpus=2", 2), 1, "n1", 100);
        assert_eq!(used(&on(two, 2, "n2", 100)), 2, "on two hosts it takes two");
    }

    /// Where too little is free, the hosts of others of the array alone will do, and not the first that has room.
    #[test]
    fn an_element_goes_where_others_of_its_array_are() {
        let scene = on(scene("3 x ncpus=2", 1), 9, "n3", 100);
        let waiting = |more: &str| scene.clone().queued(1, &format!("select=1:ncpus=1 site_lic=1 array=1-2{more}"));
        assert_eq!(waiting("").starts(), "1[1] on n3");
        let pair = scene.clone().queued(1, "select=2:ncpus=1 place=pack site_lic=1 array=1-2");
        assert_eq!(pair.starts(), "", "n3 has no room for both");
        assert_eq!(
            on(self::scene("3 x ncpus=3", 1), 9, "n3", 100)
                .queued(1, "select=2:ncpus=1 place=pack site_lic=1 array=1-2")
                .starts(),
            "1[1] on n3,n3"
        );
        let two = scene.queued(1, "select=2:ncpus=1 place=scatter site_lic=1 array=1-2");
        assert_eq!(two.starts(), "", "one of two hosts would have too little");
    }

    /// It is free when the last of them is over, in whatever order they came.
    #[test]
    fn who_ends_last_holds_it() {
        for order in [[(1, 50), (2, 70), (3, 60)], [(2, 70), (3, 60), (1, 50)], [(3, 60), (1, 50), (2, 70)]] {
            let began = order.iter().fold(scene("1 x ncpus=8", 1), |scene, &(index, end)| on(scene, index, "n1", end));
            let scene = began.queued(7, "select=1:ncpus=1 site_lic=1 walltime=9");
            assert_eq!((used(&scene), scene.starts().as_str(), scene.booked().as_str()), (1, "", "7 at 70 on n1"));
            let mut scene = scene;
            scene.state.vacate(JobId::element(1, 2));
            assert_eq!((used(&scene), scene.booked().as_str()), (1, "7 at 60 on n1"));
        }
    }

    /// Who is promised it does not wait for longer because others of the array come.
    #[test]
    fn nobody_joins_beyond_a_promise() {
        let scene = on(scene("1 x ncpus=8", 1), 9, "n1", 100);
        let joins = |walltime: u32| {
            let array = format!("select=1:ncpus=1 site_lic=1 walltime={walltime} array=1-2");
            let scene = scene.clone().queued(0, "select=1:ncpus=1 site_lic=1 walltime=50").queued(1, &array);
            scene.starts()
        };
        assert_eq!(joins(100), "1[1] on n1; 1[2] on n1");
        assert_eq!(joins(101), "");
    }

    /// Who makes way frees it where no other of its array stays.
    #[test]
    fn who_leaves_gives_it_back_with_the_last_of_them() {
        let scene = on(on(on(scene("2 x ncpus=8", 2), 1, "n1", 70), 2, "n1", 50), 3, "n2", 60);
        let n1 = scene.state.cluster.find("n1").unwrap();
        let lic = scene.state.cluster.catalog.index("site_lic").unwrap();
        let gives = |index: u32, gone: &[u32]| {
            let (id, gone) = (JobId::element(1, index), gone.iter().map(|&index| JobId::element(1, index)).collect());
            scene.state.gives_back((id, n1), &scene.state.cluster.node(n1).tenants[&id], &gone)[lic]
        };
        assert_eq!((gives(1, &[]), gives(2, &[])), (0, 0));
        assert_eq!((gives(1, &[2]), gives(2, &[1]), gives(2, &[3])), (1, 1, 0));
    }

    /// On how many hosts jobs have it, those of one array together.
    fn hosts(scene: &Scene) -> i64 {
        let place = |job: JobId, ix| (job.index().map_or((job, 0), |_| (JobId::job(0), job.number)), ix);
        let running = scene.state.running.iter();
        let places = running.flat_map(|(&job, running)| running.nodes.iter().map(move |&ix| place(job, ix)));
        places.collect::<std::collections::BTreeSet<_>>().len() as i64
    }

    proptest! {
            /// G2: whatever comes and goes, so many are in use as there are hosts of arrays and jobs, never more than
            /// there are, and nobody who could start is left waiting.
            #[test]
            fn as_many_are_in_use_as_there_are_hosts(
                total in 1..4_i64,
                ends in collection::vec(any::<Index>(), 1..20),
                wants in collection::vec((1..3_u32, 1..3_u32, 10..99_u32), 1..4),
            ) {
                let mut scene = scene("3 x ncpus=4", total);
                for (id, (chunks, ncpus, walltime)) in (1..).zip(wants) {
                    let text = format!("select={chunks}:ncpus={ncpus} walltime={walltime} site_lic=1");
                    scene = scene.queued(2 * id, &format!("{text} array=1-5")).queued(2 * id + 1, &text);
                }
                for end in ends {
                    let plan = scene.plan();
                    prop_assert_eq!(plan.audit(&scene.state), Ok(()));
                    scene.apply(&plan);
                    prop_assert_eq!(used(&scene), hosts(&scene));
    prop_assert!(used(&scene) <= total);
                    prop_assert_eq!(scene.starts(), "");
                    let running: Vec<JobId> = scene.state.running.keys().copied().collect();
                    if let Some(&job) = (!running.is_empty()).then(|| end.get(&running)) {
                        scene.state.vacate(job);
                        prop_assert_eq!(used(&scene), hosts(&scene));
                    }
                }
            }
        }
}
