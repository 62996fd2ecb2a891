//! Running jobs by owner, for limits. The sums for each owner are updated when jobs start and end,
//! so that the time to begin a cycle depends on the number of owners, not on the number of jobs.

use super::shape::ClassKey;
use crate::model::credentials::Credentials;
use crate::model::job::Job;
use crate::model::job_id::JobId;
use crate::model::resource::ResourceValue;
use crate::model::time::Time;
use crate::sched::amounts::{Amounts, Catalog, add, counted, subtract};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The owner of a running job, and the job's request without the nodes that the job has released.
/// schedd needs both after a restart, because it has not seen the job waiting.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunningOwner {
    who: Credentials,
    chunks: u64,
    /// The total request of the chunks, by resource.
    asked: BTreeMap<String, i64>,
    /// The job-wide requests (`-l`), which can be for system-wide resources.
    besides: BTreeMap<String, i64>,
}

impl RunningOwner {
    /// The owner and the request of a job.
    pub fn of(job: &Job) -> RunningOwner {
        let request = &job.spec.request;
        let mut asked: BTreeMap<String, i64> = BTreeMap::new();
        for chunk in &request.select.chunks {
            for (name, amount) in chunk
                .resources
                .iter()
                .filter_map(|(name, value)| Some((name, counted(value)?)))
            {
                let all = amount.saturating_mul(i64::from(chunk.count));
                let sum = asked.entry(name.clone()).or_default();
                *sum = sum.saturating_add(all);
            }
        }
        let besides = request
            .list
            .iter()
            .filter(|(name, value)| {
                *name != "nodect"
                    && !asked.contains_key(*name)
                    && matches!(value, ResourceValue::Long(_) | ResourceValue::Size(_))
            })
            .filter_map(|(name, value)| Some((name.clone(), counted(value)?)))
            .collect();
        let released = job.life.open_run().map_or(&[][..], |run| &run.released);
        for released in released {
            give_back(&mut asked, &released.share.taken);
        }
        let groups = job
            .spec
            .placement
            .geometry
            .as_ref()
            .map(|geometry| geometry.groups().len() as u64);
        let chunks = request
            .select
            .chunks
            .iter()
            .map(|chunk| u64::from(chunk.count))
            .sum();
        let chunks = groups
            .unwrap_or(chunks)
            .saturating_sub(released.len() as u64);
        RunningOwner {
            who: Credentials::of(job),
            chunks,
            asked,
            besides,
        }
    }

    pub(super) fn holder(&self, catalog: &Catalog) -> Holder {
        let mut asked = catalog.nothing();
        let of_nodes = self
            .asked
            .iter()
            .filter_map(|(name, amount)| Some((catalog.index_on_node(name)?, *amount)));
        let besides = self
            .besides
            .iter()
            .filter_map(|(name, amount)| Some((catalog.index(name)?, *amount)));
        let shared = besides.filter(|(index, _)| catalog.pooled().contains(index));
        for (index, amount) in of_nodes.chain(shared) {
            asked[index] = amount;
        }
        Holder {
            who: Arc::new(self.who.clone()),
            chunks: self.chunks,
            asked,
        }
    }
}

/// Subtracts released resources from the request.
fn give_back(asked: &mut BTreeMap<String, i64>, taken: &[(String, ResourceValue)]) {
    for (name, value) in taken {
        if let Some((sum, amount)) = asked.get_mut(name).zip(counted(value)) {
            *sum = (*sum - amount).max(0);
        }
    }
}

/// The owner and the request of a running job.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::sched) struct Holder {
    /// The owner.
    pub who: Arc<Credentials>,
    /// The number of chunks.
    pub chunks: u64,
    /// The total request, by resource index.
    pub asked: Amounts,
}

impl Holder {
    /// The owner and the request of a job of this class.
    pub fn of(class: &ClassKey) -> Holder {
        Holder {
            who: class.who.clone(),
            chunks: class.shape.instances,
            asked: class.shape.total.clone(),
        }
    }

    pub(super) fn processors(&self, catalog: &Catalog) -> i64 {
        catalog.index("ncpus").map_or(0, |index| self.asked[index])
    }
}

/// The sum of the remaining use of several running jobs. The remaining use of a job is its weight
/// (1, or its number of CPUs) multiplied by the milliseconds until its end. Two sums over the jobs
/// with a known end, `rate` and `due`, give the total at any time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::sched) struct RemainingUse {
    /// The sum of the weights of the jobs with a known end.
    pub rate: i64,
    /// The sum of (weight multiplied by end) of the jobs with a known end.
    due: i128,
    /// The sum of the weights of the jobs without a known end.
    pub endless: i64,
}

impl RemainingUse {
    /// Adds the weight of a job with this end.
    pub fn enter(&mut self, weight: i64, until: Time) {
        match until {
            Time::NEVER => self.endless += weight,
            Time(end) => {
                (self.rate, self.due) = (
                    self.rate + weight,
                    self.due + i128::from(weight) * i128::from(end),
                )
            }
        }
    }

    /// Removes the weight of a job with this end.
    pub fn leave(&mut self, weight: i64, until: Time) {
        self.enter(-weight, until);
    }

    /// The remaining use of the jobs of both sums.
    pub fn plus(self, other: RemainingUse) -> RemainingUse {
        RemainingUse {
            rate: self.rate + other.rate,
            due: self.due + other.due,
            endless: self.endless + other.endless,
        }
    }

    /// The total remaining use at `now`: weights multiplied by milliseconds. The result is right
    /// only if no job is past its end. If a job has no known end, the result is `i64::MAX`, which
    /// exceeds any limit.
    pub fn left(&self, now: Time) -> i64 {
        let left = self.due - i128::from(self.rate) * i128::from(now.0);
        if self.endless > 0 {
            i64::MAX
        } else {
            i64::try_from(left.max(0)).unwrap_or(i64::MAX)
        }
    }
}

/// The running jobs of an owner, and their sums.
#[derive(Clone, Debug, Default, PartialEq)]
pub(in crate::sched) struct Holding {
    /// The jobs.
    pub jobs: BTreeSet<JobId>,
    /// The total number of chunks of the jobs.
    pub chunks: u64,
    /// The total request of the jobs, by resource index.
    pub asked: Amounts,
    /// The remaining CPU time of the jobs.
    pub processors: RemainingUse,
    /// The remaining walltime of the jobs.
    pub times: RemainingUse,
}

/// The running jobs by owner.
#[derive(Clone, Debug, Default, PartialEq)]
pub(in crate::sched) struct Holdings(BTreeMap<Arc<Credentials>, Holding>);

impl Holdings {
    /// All owners with their running jobs.
    pub fn all(&self) -> impl Iterator<Item = (&Arc<Credentials>, &Holding)> {
        self.0.iter()
    }

    /// Adds a job with this end.
    pub fn enter(&mut self, id: JobId, holder: &Holder, until: Time, catalog: &Catalog) {
        let holding = self.0.entry(holder.who.clone()).or_insert_with(|| Holding {
            asked: catalog.nothing(),
            ..Holding::default()
        });
        holding.jobs.insert(id);
        holding.chunks += holder.chunks;
        add(&mut holding.asked, &holder.asked);
        holding.processors.enter(holder.processors(catalog), until);
        holding.times.enter(1, until);
    }

    /// Removes a job.
    pub fn leave(&mut self, id: JobId, holder: &Holder, until: Time, catalog: &Catalog) {
        let Some(holding) = self.0.get_mut(&holder.who) else {
            return;
        };
        holding.jobs.remove(&id);
        if holding.jobs.is_empty() {
            self.0.remove(&holder.who);
            return;
        }
        holding.chunks -= holder.chunks;
        subtract(&mut holding.asked, &holder.asked);
        holding.processors.leave(holder.processors(catalog), until);
        holding.times.leave(1, until);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::policy::Policy;
    use crate::sched::fixture::{TestCluster, cluster};
    use crate::sched::view::change::Change;

    fn lines(fixture: &TestCluster) -> Vec<String> {
        let ncpus = fixture.state.cluster.catalog.index("ncpus").unwrap();
        let of = |(who, holding): (&Arc<Credentials>, &Holding)| {
            let jobs: Vec<String> = holding.jobs.iter().map(ToString::to_string).collect();
            let left = holding.processors.left(fixture.now) / 1000;
            format!(
                "{} {}: {} {} {left}",
                who.user,
                jobs.join(","),
                holding.chunks,
                holding.asked[ncpus]
            )
        };
        fixture.state.holdings.all().map(of).collect()
    }

    /// M21.
    #[test]
    fn running_jobs_are_counted_by_owner() {
        let mut fixture = cluster("1 x ncpus=20").queued(1, "select=2:ncpus=2 walltime=100");
        fixture = fixture
            .queued(2, "select=3:ncpus=1 walltime=50")
            .owned("bob")
            .queued(3, "select=1 walltime=10");
        let plan = fixture.plan();
        fixture.apply(&plan);
        assert_eq!(lines(&fixture), ["ann 1,2: 5 7 550", "bob 3: 1 0 0"]);
        fixture.state.vacate(JobId::job(3));
        let mut fixture = fixture.at(20);
        assert_eq!(lines(&fixture), ["ann 1,2: 5 7 410"]);
        fixture.state.vacate(JobId::job(1));
        assert_eq!(lines(&fixture), ["ann 2: 3 3 90"]);
    }

    /// A restarted schedd computes the same sums as before the restart.
    #[test]
    fn a_running_job_that_was_never_seen_waiting_counts_like_any_other_job() {
        for request in [
            "select=2:ncpus=2:mem=1gb+1:ncpus=1 site_lic=3 walltime=60",
            "select=1 walltime=60",
        ] {
            let mut seen = cluster("1 x ncpus=8:mem=8gb");
            seen.state.set_pool(
                "site_lic",
                crate::sched::view::pools::Pool {
                    total: 5,
                    ..Default::default()
                },
            );
            let mut restarted = seen.clone();
            seen = seen.queued(1, request);
            let plan = seen.plan();
            let job = seen.job(1, request);
            seen.apply(&plan);
            restarted.apply(&plan);
            assert_eq!(restarted.state.holdings.all().count(), 0);
            restarted.state.belongs_to(job.id, &RunningOwner::of(&job));
            assert_eq!(restarted.state.holdings, seen.state.holdings);
            restarted
                .state
                .make(&Change::of(job.id, None, &Policy::default()));
            assert_eq!(restarted.state.holdings, Holdings::default());
        }
    }

    #[test]
    fn the_remaining_use_exceeds_any_limit_while_a_job_has_no_known_end() {
        let mut remaining = RemainingUse::default();
        remaining.enter(4, Time(3_600_000));
        remaining.enter(2, Time(21_600_000));
        assert_eq!(
            [remaining.left(Time(0)), remaining.left(Time(600_000))].map(|left| left / 1000),
            [57_600, 54_000]
        );
        remaining.enter(1, Time::NEVER);
        assert_eq!(remaining.left(Time(0)), i64::MAX);
        remaining.leave(1, Time::NEVER);
        assert_eq!(remaining.left(Time(0)) / 1000, 57_600);
    }
}
