//! When a planned start is due, preempts the backfilled jobs that use its resources (M34).

use crate::model::job::preemption::{PreemptAction, PreemptCause};
use crate::model::job_id::JobId;
use crate::sched::amounts::Amounts;
use crate::sched::placement::availability_map::AvailabilityMap;
use crate::sched::placement::{allocation, place};
use crate::sched::view::cluster::NodeIx;
use crate::sched::view::node_access::JobOwner;
use crate::sched::view::plan::Preemption;
use crate::sched::view::shape::Shape;
use crate::sched::view::snapshot::ClusterState;
use std::collections::BTreeSet;

/// The backfilled jobs that may be preempted, and the resources that are free once all jobs
/// preempted so far have ended.
pub struct PreemptibleBackfill<'s> {
    state: &'s ClusterState,
    space: AvailabilityMap<'s>,
    /// The backfilled jobs that may still be preempted, in order of their ids.
    left: Vec<JobId>,
    /// The preempted jobs. Their resources are free in `space`.
    gone: BTreeSet<JobId>,
}

impl<'s> PreemptibleBackfill<'s> {
    /// All running preemptible backfilled jobs, without those already preempted in an earlier
    /// cycle.
    pub fn new(state: &'s ClusterState, space: &AvailabilityMap<'s>) -> PreemptibleBackfill<'s> {
        let left = state
            .bookings
            .preemptible_backfill()
            .filter(|job| state.running.contains_key(job) && !state.bookings.is_preempted(*job))
            .collect();
        let mut backfilled = PreemptibleBackfill {
            state,
            space: space.clone(),
            left,
            gone: BTreeSet::new(),
        };
        let mut space = space.clone();
        for (job, _) in state.bookings.preempted() {
            backfilled.remove(&mut space, job);
        }
        backfilled.space = space;
        backfilled
    }

    /// Returns the backfilled jobs to preempt for job `by`, so that its request fits once they have
    /// ended. The jobs with the highest ids are preempted first. Returns no jobs if the request
    /// already fits, or if it would not fit even if all backfilled jobs were preempted.
    pub fn reclaim(&mut self, by: JobId, shape: &Shape) -> Vec<Preemption> {
        let (mut trial, before) = (self.space.clone(), self.gone.clone());
        let mut gone = Vec::new();
        for job in self.left.clone().into_iter().rev() {
            if place::fits(&trial, shape) {
                break;
            }
            self.remove(&mut trial, job);
            gone.push(job);
        }
        if !place::fits(&trial, shape) {
            self.gone = before;
            return Vec::new();
        }
        gone.retain(|&job| {
            self.restore(&mut trial, job);
            let is_needed = !place::fits(&trial, shape);
            if is_needed {
                self.remove(&mut trial, job);
            }
            is_needed
        });
        self.left.retain(|job| !gone.contains(job));
        // Claim the resources, so that no later request uses them.
        if let Ok(placement) = place::fit(&trial, shape) {
            trial.claim(&allocation::claim(trial.cluster, shape, &placement));
        }
        self.space = trial;
        let requeue = |job| Preemption {
            job,
            by: Some(by),
            cause: PreemptCause::Promise,
            action: PreemptAction::Requeue,
        };
        gone.into_iter().map(requeue).collect()
    }

    fn remove(&mut self, space: &mut AvailabilityMap<'s>, job: JobId) {
        self.each_hold(job, |ix, given, owner| space.dismiss(ix, given, owner));
        self.gone.insert(job);
    }

    fn restore(&mut self, space: &mut AvailabilityMap<'s>, job: JobId) {
        self.gone.remove(&job);
        self.each_hold(job, |ix, given, owner| space.admit(ix, given, owner));
    }

    /// Calls `each` with the amounts that a job releases on each of its nodes once the jobs in
    /// `gone` have ended.
    fn each_hold(&self, job: JobId, mut each: impl FnMut(NodeIx, &Amounts, JobOwner)) {
        for &ix in self
            .state
            .running
            .get(&job)
            .into_iter()
            .flat_map(|running| &running.nodes)
        {
            if let Some(hold) = self.state.cluster.node(ix).tenants.get(&job) {
                each(
                    ix,
                    &self.state.released_by((job, ix), hold, &self.gone),
                    hold.owner,
                );
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::model::policy::{Backfill, Filling};
    use crate::model::reservation::window::{Window, WindowAccess};
    use crate::model::system_resource::Pool;
    use crate::model::time::Time;
    use crate::sched::backfill::reservation_window;
    use crate::sched::fixture::{TestCluster, cluster};

    /// On a node with 7 CPUs, job 1 uses one CPU until 100. Backfilled jobs 3 to 5 use the other
    /// CPUs for much longer. Job 2, for which their resources were planned, is removed from the
    /// queue, and the jobs in `waiting` are added.
    fn with_backfill(waiting: &[(u64, &str)]) -> TestCluster {
        let mut fixture = cluster("1 x ncpus=7").running(1, "select=1:ncpus=1", "n1", 100);
        fixture.policy.backfill.policy = Filling::Preempt;
        fixture.policy.backfill.depth = Backfill::ALL;
        fixture = fixture.queued(2, "select=1:ncpus=7 walltime=100");
        for option in [3, 4, 5] {
            fixture = fixture.queued(option, "select=1:ncpus=2 walltime=1:00:00");
        }
        let plan = fixture.plan();
        assert!(plan.starts.len() == 3 && plan.starts.iter().all(|start| start.preemptible));
        fixture.apply(&plan);
        fixture.state.withdraw(crate::model::job_id::JobId::job(2));
        waiting
            .iter()
            .fold(fixture, |fixture, &(id, text)| fixture.queued(id, text))
            .at(50)
    }

    #[test]
    fn no_backfilled_job_is_preempted_before_hooks_accept_the_start() {
        let mut fixture = with_backfill(&[(2, "select=1:ncpus=4 walltime=100")]);
        assert!(!preempted(&fixture).is_empty());
        fixture.state.set_permits(Some(Default::default()));
        let plan = fixture.plan();
        assert_eq!(
            plan.asks,
            [(crate::model::job_id::JobId::job(2), vec!["n1".to_string()])]
        );
        assert!(
            plan.preempts.is_empty()
                && plan
                    .bookings
                    .iter()
                    .all(|booking| booking.held_until.is_none())
        );
    }

    /// The preempted jobs, each with its preemptor.
    fn preempted(fixture: &TestCluster) -> Vec<(u64, u64)> {
        fixture
            .plan()
            .preempts
            .iter()
            .map(|preemption| (preemption.job.number, preemption.by.unwrap().number))
            .collect()
    }

    /// M34: resources reclaimed for one planned start are not available to the next.
    #[test]
    fn each_due_booking_preempts_its_own_victims() {
        let small = "select=1:ncpus=2 walltime=100";
        assert_eq!(
            preempted(&with_backfill(&[(12, small), (13, small), (14, small)])),
            [(5, 12), (4, 13), (3, 14)]
        );
        let larger = with_backfill(&[(12, small), (13, "select=1:ncpus=4 walltime=100")]);
        assert_eq!(preempted(&larger), [(5, 12), (4, 13), (3, 13)]);
    }

    #[test]
    fn free_resources_are_counted_for_only_one_booking() {
        let mut fixture = with_backfill(&[
            (12, "select=1:ncpus=3 walltime=100"),
            (13, "select=1:ncpus=2 walltime=100"),
        ]);
        fixture.state.vacate(crate::model::job_id::JobId::job(1));
        assert_eq!(preempted(&fixture), [(5, 12), (4, 13)]);
    }

    /// G8, M34: no job is backfilled onto resources that are reclaimed for a planned start.
    #[test]
    fn reclaimed_resources_are_not_backfilled_again() {
        let mut fixture = with_backfill(&[
            (12, "select=1:ncpus=7 walltime=100"),
            (13, "select=1:ncpus=1 walltime=1000"),
        ]);
        fixture.state.vacate(crate::model::job_id::JobId::job(1));
        assert_eq!(
            (preempted(&fixture), fixture.starts().as_str()),
            (vec![(5, 12), (4, 12), (3, 12)], "")
        );
    }

    /// M34, M37: a job that waits for a reservation to end preempts no backfilled job.
    #[test]
    fn no_backfilled_job_is_preempted_before_a_booking_is_due() {
        let mut fixture = with_backfill(&[(12, "select=1:ncpus=6 walltime=100")]);
        assert_eq!(preempted(&fixture), [(5, 12), (4, 12), (3, 12)]);
        fixture.state.set_window(Window {
            id: "R1".into(),
            from: Time(0),
            to: Time(90_000),
            shares: reservation_window::whole(&fixture.state, &["n1".to_string()]).unwrap(),
            whole: true,
            access: WindowAccess {
                users: vec!["bob".to_string()],
                ..WindowAccess::default()
            },
            by_name: false,
            owner_preempts: false,
        });
        assert_eq!(
            (fixture.booked().as_str(), preempted(&fixture)),
            ("12 at 90 on n1", vec![])
        );
    }

    /// Q21: subjobs that share a per-host resource must all be preempted to free this resource.
    #[test]
    fn subjobs_that_share_a_license_are_preempted_together() {
        let mut fixture = cluster("1 x ncpus=7").running(1, "select=1:ncpus=1", "n1", 100);
        fixture.state.set_pool(
            "site_lic",
            Pool {
                total: 1,
                per_host: true,
                ..Pool::default()
            },
        );
        fixture.policy.backfill.policy = Filling::Preempt;
        fixture.policy.backfill.depth = Backfill::ALL;
        fixture = fixture.queued(2, "select=1:ncpus=7 walltime=100");
        fixture = fixture.queued(3, "select=1:ncpus=2 site_lic=1 walltime=1:00:00 array=1-2");
        let plan = fixture.plan();
        assert!(plan.starts.len() == 2 && plan.starts.iter().all(|start| start.preemptible));
        fixture.apply(&plan);
        fixture.state.withdraw(crate::model::job_id::JobId::job(2));
        let fixture = fixture
            .queued(12, "select=1:ncpus=1 site_lic=1 walltime=100")
            .at(50);
        assert_eq!(preempted(&fixture), [(3, 12), (3, 12)]);
    }

    /// On n1, a backfilled job of four CPUs and two subjobs that share a license use resources of a
    /// planned start. On n2, job 8 runs past its walltime. Returns the preempted jobs, each with
    /// its preemptor.
    fn preempted_with_license(total: i64, waiting: &[(u64, &str)]) -> Vec<(u64, u64)> {
        let mut fixture =
            cluster("1 x ncpus=7, 1 x ncpus=1").running(1, "select=1:ncpus=1", "n1", 100);
        fixture = fixture.running(8, "select=1:ncpus=1", "n2", 20);
        fixture.state.set_pool(
            "site_lic",
            Pool {
                total,
                per_host: true,
                ..Pool::default()
            },
        );
        fixture.policy.backfill.policy = Filling::Preempt;
        fixture.policy.backfill.depth = Backfill::ALL;
        fixture = fixture
            .queued(2, "select=1:ncpus=7 walltime=100")
            .queued(3, "select=1:ncpus=4 walltime=1:00:00");
        fixture = fixture.queued(4, "select=1:ncpus=1 site_lic=1 walltime=1:00:00 array=1-2");
        let plan = fixture.plan();
        assert!(plan.starts.len() == 3 && plan.starts.iter().all(|start| start.preemptible));
        fixture.apply(&plan);
        fixture.state.withdraw(crate::model::job_id::JobId::job(2));
        preempted(
            &waiting
                .iter()
                .fold(fixture, |fixture, &(id, text)| fixture.queued(id, text))
                .at(50),
        )
    }

    /// Q21: the search for victims considers the subjobs that share a license. Subjobs that it does
    /// not preempt still use the license, even if the search finds no victims at all.
    #[test]
    fn a_spared_job_still_uses_its_license() {
        let large = "select=1:ncpus=4 site_lic=1 walltime=100";
        assert_eq!(preempted_with_license(2, &[(12, large)]), [(3, 12)]);
        let useless = (12, "select=1:ncpus=1 walltime=40 hosts=n2");
        let small = (13, "select=1:ncpus=1 site_lic=1 walltime=40");
        assert_eq!(
            preempted_with_license(1, &[useless, small]),
            [(4, 13), (4, 13)]
        );
    }
}
