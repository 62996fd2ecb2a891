//! The fair share, usage and starvation status of pools (accounts) and operations (jobs, or arrays
//! with all their subjobs), as the next cycle would compute them. A *party* is an operation, or
//! each job of a group of similar waiting jobs.

use crate::model::job_id::JobId;
use crate::model::policy::Policy;
use crate::model::policy::preemption::PreemptTrigger;
use crate::model::report::fair_share_status::{FairShareReport, FairShareStatus, ShareHolder};
use crate::model::time::Time;
use crate::sched::amounts::{Amounts, add};
use crate::sched::cycle::state::CycleState;
use crate::sched::cycle::{self, preemption};
use crate::sched::fairshare::starvation::{Entitled, FairShares, StarvationStatus};
use crate::sched::placement::cycle_cache::CycleCache;
use crate::sched::placement::resolution::Resolved;
use crate::sched::view::snapshot::ClusterState;
use crate::sched::view::starvation::{ShareParty, StarvationSubject};
use std::collections::BTreeMap;

/// The reports of all pools and operations, each pool before its operations. Empty unless the
/// policy has the preemption trigger `starvation`.
pub fn reports(state: &ClusterState, policy: &Policy, now: Time) -> Vec<FairShareReport> {
    if !policy.preemption.has(PreemptTrigger::Starvation) {
        return Vec::new();
    }
    let state = &*state.prioritised(policy, now);
    let resolved = Resolved::new(state, policy, now);
    let cycle = cycle::decide(state, policy, &resolved, now, &mut CycleCache::default());
    let view = FairShareView::of(&cycle);
    let mut all: Vec<FairShareReport> = view.pools();
    all.extend(
        view.shares
            .rows()
            .map(|(party, number)| view.of_party(party, number)),
    );
    all.sort_by(|a, b| {
        path(a)
            .cmp(&path(b))
            .then_with(|| rank(&a.who).cmp(&rank(&b.who)))
    });
    all
}

/// The report of the party of a job, in the final state of a cycle. None if the job has no demand,
/// or if the policy does not have the preemption trigger `starvation`.
pub(super) fn of_job(job: JobId, cycle: &CycleState) -> Option<FairShareReport> {
    if !cycle.preemption().has(PreemptTrigger::Starvation) {
        return None;
    }
    let view = FairShareView::of(cycle);
    let party = view.shares.party(job, cycle.state.class_of(job))?;
    let number = view
        .shares
        .rows()
        .find(|(other, _)| *other == party)
        .map_or(1, |(_, number)| number);
    Some(view.of_party(party, number))
}

/// The pools of a report from the top down. For the report of a pool, the last element is the pool
/// itself.
fn path(report: &FairShareReport) -> Vec<&str> {
    let own = match &report.who {
        ShareHolder::Pool(name) => Some(name.as_str()),
        ShareHolder::Operation(_) | ShareHolder::Alike(..) => None,
    };
    report
        .pools
        .iter()
        .rev()
        .map(String::as_str)
        .chain(own)
        .collect()
}

/// The sort key among reports with the same path: a pool comes before its operations, which are
/// sorted by job id.
fn rank(who: &ShareHolder) -> Option<JobId> {
    match who {
        ShareHolder::Pool(_) => None,
        ShareHolder::Operation(job) | ShareHolder::Alike(job, _) => Some(*job),
    }
}

/// The final state of a cycle, with the fair shares at that time.
struct FairShareView<'l, 's> {
    cycle: &'l CycleState<'s>,
    shares: FairShares,
}

impl<'l, 's> FairShareView<'l, 's> {
    fn of(cycle: &'l CycleState<'s>) -> FairShareView<'l, 's> {
        FairShareView {
            cycle,
            shares: preemption::fair_shares(cycle),
        }
    }

    fn pools(&self) -> Vec<FairShareReport> {
        let mut above: BTreeMap<&str, &[String]> = BTreeMap::new();
        let mut taken: BTreeMap<&str, Amounts> = BTreeMap::new();
        for (party, _) in self.shares.rows() {
            // The pool of the party, then the pools above it.
            let lineage = self.shares.line(party);
            for (place, pool) in lineage.iter().enumerate() {
                above.insert(pool, &lineage[place + 1..]);
                let all = taken
                    .entry(pool)
                    .or_insert_with(|| self.cycle.state.cluster.catalog.nothing());
                add(all, self.has(party).unwrap_or(&[]));
            }
        }
        let pools = self.shares.pools().map(|(name, entitled)| {
            let (status, since) = self.status(&StarvationSubject::Pool(name.to_string()), entitled);
            FairShareReport {
                who: ShareHolder::Pool(name.to_string()),
                pools: above.get(name).map_or(Vec::new(), |above| above.to_vec()),
                fair: entitled.fair,
                used: entitled.used,
                resource: taken.get(name).and_then(|taken| self.resource(taken)),
                status,
                since,
            }
        });
        pools.collect()
    }

    fn of_party(&self, party: ShareParty, number: u64) -> FairShareReport {
        let state = self.cycle.state;
        let who = match party {
            ShareParty::Operation(job) => ShareHolder::Operation(job),
            ShareParty::Alike(class) => {
                let jobs = state.classes.get(&class).into_iter();
                let jobs = jobs.flat_map(|class| class.jobs());
                let first = jobs.map(|((_, id), _)| id).min();
                ShareHolder::Alike(first.unwrap_or(JobId::job(0)), number)
            }
        };
        let entitled = self.shares.entitled(party).unwrap_or_default();
        let (status, since) = self.status(&StarvationSubject::Party(party), entitled);
        let resource = self
            .has(party)
            .or_else(|| self.wants(party))
            .and_then(|amounts| self.resource(amounts));
        let pools = self.shares.line(party).to_vec();
        FairShareReport {
            who,
            pools,
            fair: entitled.fair,
            used: entitled.used,
            resource,
            status,
            since,
        }
    }

    /// The usage of a party; None if it has no running jobs.
    fn has(&self, party: ShareParty) -> Option<&[i64]> {
        match party {
            ShareParty::Operation(job) => Some(&self.cycle.state.operations.get(job)?.taken),
            ShareParty::Alike(_) => None,
        }
    }

    /// The request of a waiting job of a party.
    fn wants(&self, party: ShareParty) -> Option<&[i64]> {
        match party {
            ShareParty::Operation(job) => Some(&self.cycle.state.waiting_class(job)?.shape.total),
            ShareParty::Alike(class) => {
                Some(&self.cycle.state.classes.get(&class)?.key.shape.total)
            }
        }
    }

    fn resource(&self, amounts: &[i64]) -> Option<String> {
        let index = self.shares.whole.dominant(amounts)?;
        self.cycle.state.cluster.catalog.names().get(index).cloned()
    }

    fn status(
        &self,
        subject: &StarvationSubject,
        entitled: Entitled,
    ) -> (FairShareStatus, Option<Time>) {
        let (time_below, now) = (&self.cycle.starving().time_below, self.cycle.now);
        if !entitled.is_below(self.shares.patience_of(subject).tolerance) {
            return (FairShareStatus::Normal, None);
        }
        let status = match self.shares.starvation(subject, time_below, now) {
            StarvationStatus::None => FairShareStatus::Below,
            StarvationStatus::Starving => FairShareStatus::Starving,
            StarvationStatus::Aggressive => FairShareStatus::Aggressive,
        };
        (status, Some(time_below.since(subject).unwrap_or(now)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::time::Span;
    use crate::sched::fixture::{TestCluster, cluster, pool};
    use std::sync::Arc;

    fn rows(fixture: &TestCluster) -> Vec<(ShareHolder, i64, i64, FairShareStatus, Option<Time>)> {
        let percent = |part: f64| (part * 100.0).round() as i64;
        let row = |report: FairShareReport| {
            (
                report.who,
                percent(report.fair),
                percent(report.used),
                report.status,
                report.since,
            )
        };
        reports(&fixture.state, &fixture.policy, fixture.now)
            .into_iter()
            .map(row)
            .collect()
    }

    /// Y1, Y2: job 1 uses 8 of 10 CPUs, and the fair share of each of the three jobs is a third.
    /// Jobs 2 and 3 are similar and share one row.
    #[test]
    fn operations_below_their_fair_share_are_reported_with_status_and_time() {
        let mut fixture = cluster("1 x ncpus=10").running(1, "select=1:ncpus=8", "n1", 1000);
        let one =
            crate::sched::view::holdings::RunningOwner::of(&fixture.job(1, "select=1:ncpus=8"));
        fixture.state.belongs_to(JobId::job(1), &one);
        fixture = fixture
            .candidate(JobId::job(1), 0, 0.0, |candidate| {
                candidate.protected = true
            })
            .queued(2, "select=1:ncpus=5")
            .queued(3, "select=1:ncpus=5");
        assert!(
            rows(&fixture).is_empty(),
            "without the trigger, there are no reports"
        );
        fixture.policy.preemption.triggers = vec![PreemptTrigger::Starvation];
        fixture.policy.starvation.patience.timeout = Span::seconds(30);
        let one = (
            ShareHolder::Operation(JobId::job(1)),
            33,
            80,
            FairShareStatus::Normal,
            None,
        );
        let similar = |status| {
            (
                ShareHolder::Alike(JobId::job(2), 2),
                33,
                0,
                status,
                Some(Time(0)),
            )
        };
        assert_eq!(
            rows(&fixture),
            [one.clone(), similar(FairShareStatus::Below)]
        );
        let resolved = Resolved::new(&fixture.state, &fixture.policy, fixture.now);
        let cycle = cycle::decide(
            &fixture.state,
            &fixture.policy,
            &resolved,
            fixture.now,
            &mut CycleCache::default(),
        );
        let who = |id| of_job(JobId::job(id), &cycle).map(|report| report.who);
        assert_eq!(
            [1, 3].map(who),
            [
                Some(one.0.clone()),
                Some(ShareHolder::Alike(JobId::job(2), 2))
            ]
        );
        let plan = cycle::run(&fixture.state, &fixture.policy, fixture.now);
        fixture.state.take_over(&plan);
        let fixture = fixture.at(30);
        assert_eq!(rows(&fixture)[1], similar(FairShareStatus::Starving));
        let all = reports(&fixture.state, &fixture.policy, fixture.now);
        assert_eq!(
            (all[0].resource.as_deref(), all[1].resource.as_deref()),
            (Some("ncpus"), Some("ncpus"))
        );
    }

    /// Adds a waiting job of this account.
    fn of_account(mut fixture: TestCluster, id: u64, account: &str, text: &str) -> TestCluster {
        let mut job = fixture.job(id, text);
        Arc::make_mut(&mut job.spec).account = Some(account.to_string());
        fixture.state.enqueue(&job);
        fixture
    }

    /// Y24.
    #[test]
    fn each_pool_is_reported_before_its_operations_which_are_in_order_of_submission() {
        let mut fixture = cluster("1 x ncpus=10");
        fixture.policy.fair_share.accounts = vec![
            pool("b", None, 1.0),
            pool("a", None, 1.0),
            pool("x", Some("a"), 1.0),
        ];
        fixture.policy.preemption.triggers = vec![PreemptTrigger::Starvation];
        let fixture = of_account(fixture, 1, "b", "select=1:ncpus=1");
        let fixture = of_account(fixture, 4, "x", "select=1:ncpus=1");
        let fixture = of_account(fixture, 5, "x", "select=1:ncpus=1");
        let fixture = of_account(fixture, 2, "x", "select=1:ncpus=11");
        let fixture = of_account(fixture, 3, "x", "select=1:ncpus=2 array=1-2");
        let fixture = of_account(fixture, 6, "x", "select=1:ncpus=3 array=1-2");
        let shown = |report: FairShareReport| {
            let who = match report.who {
                ShareHolder::Pool(name) => name,
                ShareHolder::Operation(job) => job.to_string(),
                ShareHolder::Alike(job, number) => format!("{number} from {job} on"),
            };
            format!("{who} in {}", report.pools.join(" "))
        };
        let all: Vec<String> = reports(&fixture.state, &fixture.policy, fixture.now)
            .into_iter()
            .map(shown)
            .collect();
        let in_x = [
            "1 from 2 on in x a",
            "3[] in x a",
            "4 in x a",
            "5 in x a",
            "6[] in x a",
        ];
        assert_eq!(
            all,
            [&["a in ", "x in a"], &in_x[..], &["b in ", "1 in b"]].concat()
        );
        let resolved = Resolved::new(&fixture.state, &fixture.policy, fixture.now);
        let cycle = cycle::decide(
            &fixture.state,
            &fixture.policy,
            &resolved,
            fixture.now,
            &mut CycleCache::default(),
        );
        assert_eq!(
            of_job(JobId::job(5), &cycle).map(shown).as_deref(),
            Some("5 in x a")
        );
        assert_eq!(
            of_job(JobId::job(1), &cycle).map(shown).as_deref(),
            Some("1 in b")
        );
    }
}
