//! Resumes suspended jobs (M45) on the nodes on which they were suspended. If the former CPUs of a
//! job are in use, the job gets other CPUs of the node.
//!
//! Suspended jobs are considered in order of priority, together with the waiting jobs. The priority
//! of a suspended job is its priority at its start, or its current priority if that is higher. A
//! suspended job is considered before waiting jobs of equal priority (I14, X25), but after its
//! preemptor. Resuming delays no planned start. If a job cannot resume because not all of its
//! resources are free, or because it would delay a planned start, the free part of its resources is
//! held for it. The calendar plans all of its resources from the time at which they will be free.
//! Therefore other jobs cannot starve a suspended job, and no planned start uses its resources.

use super::state::CycleState;
use crate::model::job::NodeShare;
use crate::model::job_id::JobId;
use crate::model::policy::Policy;
use crate::model::time::Time;
use crate::sched::amounts::Amounts;
use crate::sched::placement::availability_map::JobAmounts;
use crate::sched::priority::ranking::Candidate;
use crate::sched::view::class::QueuePlace;
use crate::sched::view::cluster::NodeIx;
use crate::sched::view::node_access::JobOwner;
use crate::sched::view::plan::Resume;
use crate::sched::view::snapshot::ClusterState;
use crate::sched::view::sort_key::SortKey;
use crate::sched::view::suspended::Suspended;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The suspended jobs that the cycle has not considered yet, in reverse order of consideration.
pub struct ResumeOrder(Vec<(ResumePosition, Arc<Suspended>)>);

/// The position of a suspended job among the waiting jobs: the sort key, whether the job comes
/// after a waiting job with an equal key, and the job's place in its queue.
type ResumePosition = (SortKey, bool, QueuePlace);

impl ResumeOrder {
    /// All suspended jobs of the snapshot.
    pub fn of(cycle: &CycleState, policy: &Policy) -> ResumeOrder {
        let state = cycle.state;
        if state.suspended.is_empty() {
            return ResumeOrder(Vec::new());
        }
        let calculator = state.rated_by(policy);
        let mut jobs: Vec<_> = state
            .suspended
            .values()
            .map(|job| (position(state, job, job.sort_key(&calculator)), job.clone()))
            .collect();
        jobs.sort_by(|(one, _), (other, _)| other.cmp(one));
        ResumeOrder(jobs)
    }

    /// Considers the suspended jobs that come before a waiting job, and resumes them if possible.
    /// Does nothing if the waiting job requests a reservation.
    pub fn resume_before(&mut self, candidate: Candidate, cycle: &mut CycleState) {
        if self.0.is_empty() || candidate.class.reservation.is_some() {
            return;
        }
        let sort_key = cycle
            .state
            .waiting(candidate.job)
            .map(|waiting| waiting.sort_key);
        while let Some((_, job)) = self.0.pop_if(|((own, comes_after, _), _)| match sort_key {
            Some(sort_key) if *comes_after => *own < sort_key,
            Some(sort_key) => *own <= sort_key,
            None => true,
        }) {
            cycle.resume(&job);
        }
    }

    /// Considers the remaining suspended jobs, and resumes them if possible.
    pub fn resume_remaining(mut self, cycle: &mut CycleState) {
        while let Some((_, job)) = self.0.pop() {
            cycle.resume(&job);
        }
    }
}

/// The position of a suspended job with the sort key `own` among the waiting jobs. If the job's
/// preemptor waits, the position is not before the preemptor.
fn position(state: &ClusterState, job: &Suspended, own: SortKey) -> ResumePosition {
    let own = (own, false, job.place);
    match job.made_way_for.and_then(|other| state.waiting(other)) {
        Some(other) => own.max((other.sort_key, true, job.place)),
        None => own,
    }
}

impl CycleState<'_> {
    /// Resumes a suspended job if possible. Otherwise holds the free part of its resources. Holds
    /// nothing if one of its nodes is closed or was removed, or if the site times or a reservation
    /// forbid the job to resume.
    fn resume(&mut self, job: &Suspended) {
        self.count_considered();
        let (id, until) = (job.place.1, self.end_of_resumed(job));
        let Some(need) = self.needed_resources(job) else {
            return;
        };
        let nodes = job.nodes();
        let is_open = need.holds.keys().all(|&ix| self.space.is_open(ix));
        let site_time = &self.state.site_time;
        if site_time
            .admits(&job.key.who.queue, self.now, until)
            .is_err()
        {
            if let Some(change) = site_time.next_change(self.now) {
                self.request_cycle_at(change);
            }
            return;
        }
        if !is_open
            || self.windows().excludes(
                &job.key,
                self.state.jobs_in_reservations.get(&id),
                &nodes,
                (self.now, until),
            )
        {
            return;
        }
        if !self.has_free(&need) || !self.delays_no_booking(&need, until) {
            return self.hold_and_plan(id, need, until);
        }
        self.claim_resources(&need);
        let shares = job
            .shares
            .iter()
            .zip(&job.needed)
            .map(|(whole, needed)| self.resumed_share(whole, needed))
            .collect();
        self.add_resumption(
            Resume {
                job: id,
                shares,
                exclusive: need.owner,
                until,
            },
            need,
        );
    }

    /// The end of a suspended job's walltime if the job resumed now.
    fn end_of_resumed(&self, job: &Suspended) -> Time {
        match self.now + self.span_of(&job.key) {
            Time::NEVER => Time::NEVER,
            end => (end - job.ran).max(self.now),
        }
    }

    /// The resources that a suspended job released and must get back to resume, by node; None if
    /// one of its nodes was removed.
    fn needed_resources(&self, job: &Suspended) -> Option<JobAmounts> {
        let cluster = &self.state.cluster;
        let own = cluster.find(&job.shares.first()?.node)?;
        let owner: JobOwner = cluster.node(own).tenants.get(&job.place.1)?.owner;
        let holds = cluster.holds(&job.needed, owner).ok()?;
        let holds = holds
            .into_iter()
            .map(|(ix, hold)| (ix, hold.taken))
            .collect();
        Some(JobAmounts {
            holds,
            owner,
            joins: Vec::new(),
        })
    }

    /// Whether these resources are free now.
    fn has_free(&self, need: &JobAmounts) -> bool {
        self.free_of(need) == need.holds
    }

    /// The part of the resources `need` that is free now. A system-wide resource is given to the
    /// nodes of the job one after another, as long as it is free.
    fn free_of(&self, need: &JobAmounts) -> BTreeMap<NodeIx, Amounts> {
        let mut given = self.state.cluster.catalog.nothing();
        let pooled = self.state.cluster.catalog.pooled();
        let mut free = need.holds.clone();
        for (&ix, kept) in &mut free {
            for (index, amount) in kept.iter_mut().enumerate() {
                let free = if pooled.contains(&index) {
                    self.space.shared(index) - given[index]
                } else {
                    self.space.room(ix).free[index]
                };
                *amount = (*amount).min(free.max(0));
                given[index] += *amount;
            }
        }
        free
    }

    /// Removes the resources of a claim from the free resources.
    fn claim_resources(&mut self, claim: &JobAmounts) {
        for (&ix, taken) in &claim.holds {
            self.space.reduce(ix, taken);
        }
    }

    /// Holds the free part of the resources `need` for the job from now on. If the time is known at
    /// which all of `need` will be free, plans all of `need` for the job from this time on.
    fn hold_and_plan(&mut self, id: JobId, need: JobAmounts, until: Time) {
        let kept = JobAmounts {
            holds: self.free_of(&need),
            ..need.clone()
        };
        let length = until.since(self.now);
        let at = self.earliest_resumption(&need, length);
        self.claim_resources(&kept);
        self.hold_for_suspended(id, kept, at, (need, length));
    }

    /// The share of a resumed job on one node, with new CPU and GPU numbers for the resources that
    /// the job had released.
    fn resumed_share(&mut self, whole: &NodeShare, needed: &NodeShare) -> NodeShare {
        let cluster = &self.state.cluster;
        match cluster.find(&whole.node) {
            Some(ix) => self.numbers.reassign_numbers(cluster, ix, whole, needed),
            None => whole.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::model::job_id::JobId;
    use crate::model::policy::Precedence;
    use crate::model::policy::site_time::SiteTime;
    use crate::model::time::Time;
    use crate::sched::cycle;
    use crate::sched::explain::forecast::{self, Budget};
    use crate::sched::fixture::{TestCluster, cluster};
    use crate::sched::placement::cycle_cache::CycleCache;

    /// A cluster in which the priority of a job is its walltime in seconds.
    fn by_priority(nodes: &str) -> TestCluster {
        let mut fixture = cluster(nodes);
        fixture.policy.precedence = Precedence::by_formula("walltime");
        fixture
    }

    #[test]
    fn a_job_resumes_on_free_cpus_for_its_remaining_walltime() {
        let fixture = cluster("1 x ncpus=4:mem=8gb");
        let fixture = fixture
            .suspended(1, "select=1:ncpus=2:mem=4gb walltime=100", "n1", 40, 0.0)
            .at(70);
        assert_eq!(fixture.resumes(), "1 on n1 with 0,1 until 130");
        assert!(
            fixture.state.waits_to_resume(JobId::job(1))
                && !fixture.state.waits_to_resume(JobId::job(2))
        );
        let mut fixture = fixture.queued(2, "select=1:ncpus=2 walltime=50");
        let mut plan = fixture.plan();
        plan.resumes.clear();
        plan.starts[0].shares[0].cpus = vec![0, 1];
        fixture.apply(&plan);
        assert_eq!(fixture.clone().resumes(), "1 on n1 with 2,3 until 130");
        let plan = fixture.plan();
        fixture.apply(&plan);
        assert_eq!(
            (
                fixture.resumes().as_str(),
                fixture.state.waits_to_resume(JobId::job(1))
            ),
            ("", false)
        );
        assert_eq!(
            fixture.state.assigned("n1").taken["ncpus"].amount(),
            Some(4)
        );
    }

    #[test]
    fn a_suspended_job_keeps_its_memory_and_releases_its_cpus() {
        let fixture = cluster("1 x ncpus=4:mem=8gb");
        let fixture = fixture
            .suspended(1, "select=1:ncpus=4:mem=6gb walltime=100", "n1", 40, 9.0)
            .at(70);
        let taken = fixture.state.assigned("n1").taken;
        assert_eq!(
            (
                taken.get("ncpus").and_then(|it| it.amount()).unwrap_or(0),
                taken["mem"].amount()
            ),
            (0, Some(6 << 30))
        );
    }

    /// I14, X25.
    #[test]
    fn a_suspended_job_resumes_before_jobs_of_equal_but_not_of_higher_priority() {
        let fixture = by_priority("1 x ncpus=2")
            .suspended(1, "select=1:ncpus=2 walltime=60", "n1", 10, 60.0)
            .at(20);
        let starts = |walltime: i64| {
            let fixture = fixture
                .clone()
                .queued(2, &format!("select=1:ncpus=2 walltime={walltime}"));
            (fixture.starts(), fixture.resumes())
        };
        let resumed = || "1 on n1 with 0,1 until 70".to_string();
        assert_eq!(
            [starts(60), starts(59)],
            [(String::new(), resumed()), (String::new(), resumed())]
        );
        assert_eq!(starts(61), ("2 on n1".to_string(), String::new()));
    }

    /// G9: if job 1 resumed before its preemptor (job 99), the two jobs would preempt each other
    /// forever.
    #[test]
    fn a_suspended_job_does_not_resume_before_its_preemptor() {
        let fixture = by_priority("1 x ncpus=2")
            .suspended(1, "select=1:ncpus=2 walltime=500", "n1", 10, 60.0)
            .at(20);
        let fixture = fixture
            .queued(99, "select=1:ncpus=2 walltime=30")
            .queued(3, "select=1:ncpus=2 walltime=29");
        assert_eq!(
            (fixture.starts().as_str(), fixture.resumes().as_str()),
            ("99 on n1", "")
        );
        let mut fixture = fixture;
        fixture.state.withdraw(JobId::job(99));
        assert_eq!(
            (fixture.starts().as_str(), fixture.resumes().as_str()),
            ("", "1 on n1 with 0,1 until 510")
        );
    }

    #[test]
    fn no_job_resumes_that_would_run_into_dedicated_time() {
        let mut fixture = cluster("1 x ncpus=2")
            .suspended(1, "select=1:ncpus=2 walltime=100", "n1", 10, 0.0)
            .at(20);
        let dedicated = |from: i64| Some(vec![(Time(from * 1000), Time(500_000))]);
        fixture.state.set_site_time(SiteTime {
            dedicated: dedicated(109),
            ..SiteTime::default()
        });
        assert_eq!(
            (fixture.resumes().as_str(), fixture.plan().next),
            ("", Some(Time(109_000)))
        );
        fixture.state.set_site_time(SiteTime {
            dedicated: dedicated(110),
            ..SiteTime::default()
        });
        assert_eq!(fixture.resumes(), "1 on n1 with 0,1 until 110");
    }

    #[test]
    fn suspended_jobs_resume_in_order_of_their_start_priority() {
        let fixture =
            by_priority("1 x ncpus=4").suspended(1, "select=1:ncpus=3 walltime=70", "n1", 10, 70.0);
        let fixture = fixture
            .suspended(2, "select=1:ncpus=3 walltime=80", "n1", 10, 80.0)
            .at(20);
        assert_eq!(fixture.resumes(), "2 on n1 with 0,1,2 until 90");
    }

    /// I13: the priority of job 1 was 60 at its start and is now 500.
    #[test]
    fn a_suspended_job_uses_its_current_priority_if_that_is_higher() {
        let fixture = by_priority("1 x ncpus=2")
            .suspended(1, "select=1:ncpus=2 walltime=500", "n1", 10, 60.0)
            .at(20);
        let fixture = fixture.queued(2, "select=1:ncpus=2 walltime=100");
        assert_eq!(fixture.resumes(), "1 on n1 with 0,1 until 510");
    }

    #[test]
    fn the_free_part_of_needed_resources_is_held_for_a_suspended_job() {
        let fixture = cluster("2 x ncpus=4").running(9, "select=1:ncpus=3", "n1", 60);
        let fixture = fixture
            .suspended(1, "select=1:ncpus=2 walltime=500", "n1", 10, 0.0)
            .at(20);
        let fixture = fixture
            .queued(2, "select=1:ncpus=1 walltime=10")
            .queued(3, "select=1:ncpus=1 walltime=10 hosts=n1");
        assert_eq!(
            (fixture.starts().as_str(), fixture.resumes().as_str()),
            ("2 on n2", "")
        );
        let mut fixture = fixture;
        fixture.state.vacate(JobId::job(9));
        assert_eq!(fixture.resumes(), "1 on n1 with 0,1 until 510");
    }

    /// Job 2 requests 3 of the 4 CPUs. It cannot start at 60, because job 1 then resumes on 2 CPUs.
    #[test]
    fn planned_starts_use_no_resources_of_suspended_jobs() {
        let fixture = cluster("1 x ncpus=4").running(9, "select=1:ncpus=3", "n1", 60);
        let fixture = fixture
            .suspended(1, "select=1:ncpus=2 walltime=100", "n1", 10, 0.0)
            .at(20);
        let fixture = fixture.queued(2, "select=1:ncpus=3 walltime=10");
        assert_eq!(
            fixture.booked(),
            "2 at 150 on n1",
            "job 1 resumes at 60, for 90 s"
        );
        let outlook = forecast::run(
            fixture.state.clone(),
            &fixture.policy,
            fixture.now,
            Budget::default(),
        );
        let order: Vec<String> = outlook
            .starts
            .iter()
            .map(|start| start.job.to_string())
            .collect();
        assert_eq!(
            (order.join(" "), outlook.horizon.is_whole),
            ("1 2".to_string(), true)
        );
    }

    #[test]
    fn resuming_delays_no_booking_of_higher_priority() {
        let fixture = by_priority("1 x ncpus=4").running(9, "select=1:ncpus=3", "n1", 60);
        let fixture = fixture
            .suspended(1, "select=1:ncpus=1 walltime=100", "n1", 10, 5.0)
            .at(20);
        assert_eq!(fixture.resumes(), "1 on n1 with 0 until 110");
        let fixture = fixture.queued(2, "select=1:ncpus=4 walltime=500");
        assert_eq!(
            (fixture.booked().as_str(), fixture.resumes().as_str()),
            ("2 at 60 on n1", "")
        );
    }

    /// Job 1 resumes before job 2, although job 99, the preemptor of job 1, still waits for
    /// resources. Job 2 has a lower priority than job 99.
    #[test]
    fn a_suspended_job_resumes_before_jobs_behind_its_preemptor() {
        let fixture = by_priority("1 x ncpus=4").running(9, "select=1:ncpus=2", "n1", 60);
        let fixture = fixture
            .suspended(1, "select=1:ncpus=1 walltime=100", "n1", 10, 950.0)
            .at(20);
        let fixture = fixture.queued(99, "select=1:ncpus=3 walltime=900");
        let fixture = fixture.queued(2, "select=1:ncpus=2 walltime=10");
        assert_eq!(
            (fixture.starts().as_str(), fixture.resumes().as_str()),
            ("", "1 on n1 with 0 until 110")
        );
        assert_eq!(fixture.booked(), "99 at 60 on n1");
    }

    #[test]
    fn no_job_resumes_on_a_node_that_takes_no_jobs() {
        let fixture = cluster("2 x ncpus=2")
            .suspended(1, "select=1:ncpus=2 walltime=100", "n1", 10, 0.0)
            .at(20);
        let fixture = fixture.node("n1", "ncpus=2", false);
        assert_eq!(
            fixture.clone().queued(2, "select=1:ncpus=1").starts(),
            "2 on n2"
        );
        assert_eq!(
            (
                fixture.resumes().as_str(),
                fixture.node("n1", "ncpus=2", true).resumes().is_empty()
            ),
            ("", false)
        );
    }

    /// With random jobs, every plan passes the audit and equals the plan without a cache. In the
    /// forecast, every job that is still suspended at the end resumes.
    #[test]
    fn every_suspended_job_resumes_and_no_node_is_overcommitted() {
        let mut dice = 7_u64;
        let mut roll = |sides: u64| {
            dice = dice
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (dice >> 33) % sides
        };
        let (mut fixture, mut cache, mut resumed) =
            (cluster("4 x ncpus=4:mem=16gb"), CycleCache::default(), 0);
        for step in 1..400 {
            let (ncpus, walltime, node) = (1 + roll(4), 5 + roll(60), 1 + roll(4));
            let request = format!("ncpus={ncpus}:mem=1gb walltime={walltime}");
            fixture = match roll(8) {
                0 if fixture.state.suspended.len() < 6 => fixture.suspended(
                    step,
                    &format!("select=1:{request}"),
                    &format!("n{node}"),
                    2,
                    roll(40) as f64,
                ),
                1..4 => fixture.queued(
                    step,
                    &format!("select={}:{request} place=scatter", 1 + roll(3)),
                ),
                _ => fixture,
            };
            fixture = fixture.at(step as i64 * 3);
            let ended: Vec<JobId> = fixture
                .state
                .ends
                .iter()
                .take_while(|(end, _)| *end <= fixture.now)
                .map(|it| it.1)
                .collect();
            ended.into_iter().for_each(|job| fixture.state.vacate(job));
            fixture.state.prioritise(&fixture.policy, fixture.now);
            let plan = cycle::run_again(&fixture.state, &fixture.policy, fixture.now, &mut cache);
            assert_eq!(
                (plan.audit(&fixture.state), &plan),
                (
                    Ok(()),
                    &cycle::run(&fixture.state, &fixture.policy, fixture.now)
                )
            );
            resumed += plan.resumes.len();
            fixture.apply(&plan);
        }
        let outlook = forecast::run(
            fixture.state.clone(),
            &fixture.policy,
            fixture.now,
            Budget::default(),
        );
        let is_resumed = |job: &JobId| outlook.starts.iter().any(|start| start.job == *job);
        assert!(resumed > 20 && outlook.horizon.is_whole, "{resumed}");
        assert!(
            fixture.state.suspended.keys().all(is_resumed),
            "{:?}",
            fixture.state.suspended.keys()
        );
    }

    #[test]
    fn the_audit_finds_errors_in_resumptions() {
        let fixture = cluster("2 x ncpus=4")
            .suspended(1, "select=1:ncpus=4 walltime=100", "n1", 10, 0.0)
            .at(20);
        let plan = fixture.plan();
        let mut elsewhere = plan.clone();
        elsewhere.resumes[0].shares[0].node = "n2".into();
        assert_eq!(
            elsewhere.audit(&fixture.state),
            Err("job 1: resumes on other nodes".to_string())
        );
        let full = fixture.clone().running(2, "select=1:ncpus=1", "n1", 60);
        assert_eq!(
            plan.audit(&full.state),
            Err("job 1: n1 is overcommitted".to_string())
        );
        let mut gone = fixture.clone();
        gone.state.vacate(JobId::job(1));
        assert_eq!(
            plan.audit(&gone.state),
            Err("job 1: does not wait to resume".to_string())
        );
        assert!(
            plan.to_string().starts_with("resume 1  n1, for 00:01:30\n"),
            "{plan}"
        );
    }
}
