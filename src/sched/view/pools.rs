//! System-wide resources, such as licenses (Q21). The code also calls them pools. Jobs use them
//! while they run; a site program reports the amounts that are used outside the cluster.

use super::cluster::Cluster;
pub use crate::model::system_resource::Pool;
use crate::sched::amounts::{Amounts, Catalog, add, subtract};
use std::collections::BTreeMap;

/// All system-wide resources.
#[derive(Clone, Debug)]
pub struct Pools {
    pools: BTreeMap<usize, Pool>,
    /// The amount of each resource that jobs use; 0 for node resources.
    used: Amounts,
    /// The index of the first system-wide resource.
    first: usize,
}

impl Pools {
    /// A table without system-wide resources.
    pub fn new(catalog: &Catalog) -> Pools {
        Pools {
            pools: BTreeMap::new(),
            used: catalog.nothing(),
            first: catalog.pooled().start,
        }
    }

    /// Sets a resource.
    pub fn set(&mut self, index: usize, pool: Pool) {
        self.pools.insert(index, pool);
    }

    /// The settings of a resource.
    pub fn get(&self, index: usize) -> Option<&Pool> {
        self.pools.get(&index)
    }

    /// The indexes of the resources that are counted per host.
    pub fn by_host(&self) -> impl Iterator<Item = usize> + use<'_> {
        self.pools
            .iter()
            .filter(|(_, pool)| pool.per_host)
            .map(|(&index, _)| index)
    }

    /// The free amount of a resource; negative if more than the total is used.
    pub fn free(&self, index: usize) -> i64 {
        self.pools.get(&index).map_or(0, |pool| pool.total) - self.used(index)
    }

    /// The amount of a resource that is not free: used by jobs, used outside the cluster, or
    /// missing from the configured total.
    pub fn used(&self, index: usize) -> i64 {
        self.used[index]
            + self
                .pools
                .get(&index)
                .map_or(0, |pool| pool.missing + pool.elsewhere)
    }

    /// Adds the system-wide resources of a job to the used amounts.
    pub fn take(&mut self, taken: &[i64]) {
        add(&mut self.used[self.first..], &taken[self.first..]);
    }

    /// Subtracts the system-wide resources of a job from the used amounts.
    pub fn give(&mut self, taken: &[i64]) {
        subtract(&mut self.used[self.first..], &taken[self.first..]);
    }
}

impl Cluster {
    /// Sets the total and the other settings of a system-wide resource.
    pub fn set_pool(&mut self, index: usize, pool: Pool) {
        self.capacity[index] = pool.total;
        self.pools.set(index, pool);
    }
}

#[cfg(test)]
mod tests {
    use crate::model::job_id::JobId;
    use crate::sched::fixture::{TestCluster, cluster};
    use crate::sched::view::pools::Pool;

    fn fixture(total: i64, per_host: bool) -> TestCluster {
        let mut fixture = cluster("3 x ncpus=4");
        fixture.state.set_pool(
            "site_lic",
            Pool {
                total,
                per_host,
                ..Pool::default()
            },
        );
        fixture
    }

    /// Q21, G2.
    #[test]
    fn jobs_wait_until_enough_of_a_system_wide_resource_is_released() {
        let mut fixture = fixture(3, false)
            .queued(1, "site_lic=2")
            .queued(2, "site_lic=2")
            .queued(3, "site_lic=1")
            .queued(4, "select=1");
        assert_eq!(fixture.starts(), "1 on n1; 3 on n1; 4 on n1");
        let why = "Not Running: Insufficient amount of resource: site_lic (R: 2 A: 1 T: 3)";
        assert_eq!(fixture.why(2), why);
        let plan = fixture.plan();
        fixture.apply(&plan);
        assert_eq!(fixture.state.pool("site_lic"), Some((3, 3)));
        fixture.state.vacate(JobId::job(1));
        assert_eq!(fixture.starts(), "2 on n1");
    }

    /// Q21: as with `license.X` in Qube!, the shown use is the reported use plus the missing part
    /// of the configured total.
    #[test]
    fn amounts_used_outside_the_cluster_or_missing_are_not_free() {
        let mut fixture = fixture(50, false);
        let shown = |fixture: &TestCluster| fixture.state.pool("site_lic").unwrap();
        fixture.state.set_total("site_lic", 50, 10);
        assert_eq!(shown(&fixture), (10, 50));
        fixture.state.set_total("site_lic", 40, 10);
        assert_eq!(shown(&fixture), (20, 50));
        assert_eq!(fixture.clone().queued(1, "site_lic=31").starts(), "");
        let mut fixture = fixture.queued(1, "site_lic=30");
        assert_eq!(fixture.starts(), "1 on n1");
        let plan = fixture.plan();
        fixture.apply(&plan);
        fixture.state.set_total("site_lic", 10, 0);
        assert_eq!(
            fixture.queued(2, "site_lic=1").starts(),
            "",
            "no job gets more of a resource that is overcommitted"
        );
    }

    /// Q21: as with `global_host.X` in Qube!.
    #[test]
    fn a_job_uses_a_per_host_resource_once_on_each_host() {
        let fixture = fixture(2, true);
        let mut one = fixture.clone().queued(1, "select=4:ncpus=1 site_lic=1");
        assert_eq!(one.starts(), "1 on n1,n1,n1,n1");
        let plan = one.plan();
        one.apply(&plan);
        assert_eq!(one.state.pool("site_lic"), Some((1, 2)));
        assert_eq!(
            fixture
                .clone()
                .queued(1, "select=2:ncpus=1 place=scatter site_lic=1")
                .starts(),
            "1 on n1,n2"
        );
        assert_eq!(
            fixture
                .queued(1, "select=3:ncpus=1 place=scatter site_lic=1")
                .starts(),
            ""
        );
    }

    /// Q21.
    #[test]
    fn a_job_on_several_hosts_uses_a_system_wide_resource_once() {
        let mut fixture = fixture(2, false).queued(1, "select=3:ncpus=1 place=scatter site_lic=1");
        let plan = fixture.plan();
        fixture.apply(&plan);
        assert_eq!(fixture.state.pool("site_lic"), Some((1, 2)));
    }

    /// Q21: a resource with the scope `hosts=n3`.
    #[test]
    fn a_job_that_requests_a_resource_of_some_hosts_runs_only_on_these_hosts() {
        let mut fixture = cluster("3 x ncpus=4")
            .queued(1, "select=1:ncpus=1 site_lic=1")
            .queued(2, "select=1:ncpus=1");
        let scope = "hosts=n3".parse().unwrap();
        fixture.state.set_pool(
            "site_lic",
            Pool {
                total: 5,
                scope,
                ..Pool::default()
            },
        );
        assert_eq!(fixture.starts(), "1 on n3; 2 on n1");
    }

    /// Q21.
    #[test]
    fn a_job_with_all_chunks_on_one_host_gets_a_system_wide_resource() {
        let fixture = fixture(2, false).queued(1, "select=2:ncpus=2 place=pack site_lic=1");
        assert_eq!(fixture.starts(), "1 on n1,n1");
        let fixture = fixture.queued(2, "select=3:ncpus=3 place=pack site_lic=1");
        let why = "Can Never Run: Insufficient amount of resource: ncpus (R: 9 A: 4 T: 12)";
        assert_eq!(fixture.why(2), why);
    }

    #[test]
    fn a_planned_start_uses_system_wide_resources_that_running_jobs_release() {
        let fixture = fixture(2, false)
            .running(9, "select=1:ncpus=1 site_lic=2", "n1", 600)
            .queued(1, "site_lic=1");
        assert_eq!(
            (fixture.starts().as_str(), fixture.booked().as_str()),
            ("", "1 at 600 on n1")
        );
    }
}
