//! Tests of the fair share and the usage of operations and pools. An operation is a job, or an
//! array with all its subjobs. A pool is an account.

use super::exemption::PreemptionExemption;
use super::groups::AllocationGroup;
use super::time_below::StarvationStatus;
use super::{FairShares, PendingChanges};
use crate::model::account::Account;
use crate::model::account::pool_terms::Overrides;
use crate::model::account::pool_terms::{FifoKey, PoolMode};
use crate::model::job::NodeShare;
use crate::model::job_id::JobId;
use crate::model::limit::{Limit, LimitScope, LimitStage, Quantity, Selector};
use crate::model::resource::ResourceValue;
use crate::model::time::{Span, Time};
use crate::sched::fixture::{TestCluster, cluster, pool, share};
use crate::sched::view::starvation::{ShareParty, StarvationSubject, TimeBelow};
use std::sync::Arc;

/// Adds an array with `runs` running subjobs of `each` CPUs each, and `waits` waiting subjobs.
fn array(
    mut fixture: TestCluster,
    id: u64,
    account: &str,
    (runs, each): (u32, u32),
    waits: u32,
) -> TestCluster {
    let text = format!("select=1:ncpus={each} array=1-{}", runs + waits);
    let mut job = fixture.job(id, &text);
    Arc::make_mut(&mut job.spec).account =
        Some(account.to_string()).filter(|account| !account.is_empty());
    for index in 1..=runs {
        let share = NodeShare {
            taken: vec![("ncpus".into(), ResourceValue::Long(each.into()))],
            ..share("n1")
        };
        let element = JobId::element(id, index);
        fixture
            .state
            .occupy(element, &[share], true, Time(1_000_000));
        fixture.state.belongs_to(
            element,
            &crate::sched::view::holdings::RunningOwner::of(&job),
        );
        fixture = fixture.begun_at(element, i64::from(index));
    }
    let elements = job.elements.as_mut().map(Arc::make_mut).unwrap();
    if runs > 0 {
        elements.mark(0, runs - 1, crate::model::job::array::SubjobState::Begun);
    }
    fixture.state.enqueue(&job);
    fixture
}

impl TestCluster {
    /// Sets the start time of a running job, in seconds.
    fn begun_at(self, id: JobId, started: i64) -> TestCluster {
        self.candidate(id, started, 0.0, |_| ())
    }
}

fn with(accounts: Vec<Account>) -> TestCluster {
    let mut fixture = cluster("1 x ncpus=10");
    fixture.policy.fair_share.accounts = accounts;
    fixture
}

fn shares(fixture: &TestCluster) -> FairShares {
    FairShares::of(
        &fixture.state,
        &fixture.policy,
        &PendingChanges::default(),
        fixture.now,
    )
}

fn rounded(number: f64) -> f64 {
    (number * 1e6).round() / 1e6
}

/// The fair share and the usage of the arrays with these ids.
fn entitled(fixture: &TestCluster, operations: &[u64]) -> Vec<(f64, f64)> {
    let shares = shares(fixture);
    let of = |&id: &u64| {
        let party = shares.party(JobId::array(id), None).unwrap();
        let of_party = shares.entitled(party).unwrap();
        (rounded(of_party.fair), rounded(of_party.used))
    };
    operations.iter().map(of).collect()
}

/// Y20, Y10: in the first case, each of the two arrays requests at least all 10 CPUs.
#[test]
fn operations_divide_the_cluster_equally_up_to_their_demand() {
    let fixture = array(array(with(vec![]), 1, "", (7, 1), 9), 2, "", (1, 1), 9);
    assert_eq!(entitled(&fixture, &[1, 2]), [(0.5, 0.7), (0.5, 0.1)]);
    let fixture = array(array(with(vec![]), 1, "", (7, 1), 9), 2, "", (1, 1), 1);
    assert_eq!(
        entitled(&fixture, &[1, 2]),
        [(0.8, 0.7), (0.2, 0.1)],
        "array 1 gets the part that array 2 does not need"
    );
}

/// Y26, Y20.
#[test]
fn the_fair_share_of_a_pool_is_between_its_guarantee_and_its_maximum() {
    let mut accounts = vec![pool("a", None, 1.0), pool("b", None, 1.0)];
    accounts[0].pool.guarantee = [("ncpus".to_string(), ResourceValue::Long(7))].into();
    let fixture = |accounts| {
        array(
            array(with(accounts), 1, "a", (0, 1), 20),
            2,
            "b",
            (0, 1),
            20,
        )
    };
    assert_eq!(
        entitled(&fixture(accounts.clone()), &[1, 2]),
        [(0.7, 0.0), (0.3, 0.0)]
    );
    accounts[0].pool.guarantee.clear();
    accounts[1].pool.max_share = Some(0.3);
    assert_eq!(
        entitled(&fixture(accounts.clone()), &[1, 2]),
        [(0.7, 0.0), (0.3, 0.0)]
    );
    accounts[1].pool.max_share = None;
    let limit = |account, most| Limit {
        scope: LimitScope {
            account,
            ..LimitScope::default()
        },
        stage: LimitStage::Running,
        quantity: Quantity::Resource("ncpus".to_string()),
        soft: None,
        hard: Some(most),
        overrides: false,
    };
    let mut limited = fixture(accounts.clone());
    limited.policy.limits.all = vec![
        limit(Selector::Each, 4),
        limit(Selector::Named("a".into()), 2),
    ];
    assert_eq!(entitled(&limited, &[1, 2]), [(0.2, 0.0), (0.4, 0.0)]);
    // Limits on queued jobs, on one user of the pool, or on a resource that no job requests, change
    // no fair share.
    let waiting = Limit {
        stage: LimitStage::Queued,
        ..limit(Selector::Named("b".into()), 1)
    };
    let mut of_user = limit(Selector::Named("b".into()), 1);
    of_user.scope.user = Selector::Named("ann".into());
    let memory = Limit {
        quantity: Quantity::Resource("mem".into()),
        ..limit(Selector::Named("b".into()), 1)
    };
    limited.policy.limits.all.extend([waiting, of_user, memory]);
    assert_eq!(entitled(&limited, &[1, 2]), [(0.2, 0.0), (0.4, 0.0)]);
}

/// Y23.
#[test]
fn in_a_fifo_pool_the_demand_of_the_first_array_is_met_first() {
    let mut accounts = vec![pool("a", None, 1.0)];
    let fixture = |accounts| array(array(with(accounts), 1, "a", (2, 1), 6), 2, "a", (2, 1), 1);
    assert_eq!(
        entitled(&fixture(accounts.clone()), &[1, 2]),
        [(0.7, 0.2), (0.3, 0.2)]
    );
    accounts[0].pool.mode = PoolMode::Fifo;
    assert_eq!(
        entitled(&fixture(accounts.clone()), &[1, 2]),
        [(0.8, 0.2), (0.2, 0.2)]
    );
    accounts[0].pool.fifo_sort = vec![FifoKey::PendingJobCount];
    assert_eq!(
        entitled(&fixture(accounts.clone()), &[1, 2]),
        [(0.7, 0.2), (0.3, 0.2)]
    );
}

/// Y1.
#[test]
fn an_operation_at_its_fair_share_times_the_tolerance_is_not_below() {
    let below = |runs: u32| {
        let mut fixture = array(
            array(with(vec![]), 1, "", (runs, 39), 9),
            2,
            "",
            (0, 1),
            1000,
        );
        fixture = fixture.node("n1", "ncpus=100", true);
        shares(&fixture)
            .below()
            .any(|it| it == StarvationSubject::Party(ShareParty::Operation(JobId::array(1))))
    };
    assert!(
        below(1),
        "array 1 uses 39 of 100 CPUs; its fair share is 50"
    );
    let fixture = array(array(with(vec![]), 1, "", (4, 1), 9), 2, "", (0, 1), 20);
    let is_below = |id| {
        shares(&fixture)
            .below()
            .any(|it| it == StarvationSubject::Party(ShareParty::Operation(JobId::array(id))))
    };
    assert_eq!(
        [1, 2].map(is_below),
        [false, true],
        "array 1 uses 4 of 10 CPUs; its fair share is 5"
    );
}

#[test]
fn similar_jobs_have_equal_fair_shares_and_jobs_that_cannot_start_have_no_demand() {
    let fixture = array(with(vec![]), 1, "", (0, 1), 20);
    let fixture = (2..6).fold(fixture, |fixture, id| {
        fixture.queued(id, "select=1:ncpus=4")
    });
    assert_eq!(entitled(&fixture, &[1]), [(0.2, 0.0)]);
    let similar = shares(&fixture)
        .party(JobId::job(3), fixture.state.class_of(JobId::job(3)))
        .unwrap();
    assert_eq!(
        rounded(shares(&fixture).entitled(similar).unwrap().fair),
        0.2
    );
    let fixture =
        array(with(vec![]), 1, "", (0, 1), 20).queued(2, "select=1:ncpus=4 not_before=100");
    let fixture = fixture.queued(3, "select=1:ncpus=4 queue=stopped");
    assert_eq!(entitled(&fixture, &[1]), [(1.0, 0.0)]);
    assert_eq!(
        entitled(&fixture.at(100), &[1]),
        [(0.6, 0.0)],
        "job 2 can start from second 100 on"
    );
}

/// Y23.
#[test]
fn in_a_fifo_pool_the_demand_of_similar_jobs_is_met_one_job_after_another() {
    let mut accounts = vec![pool("a", None, 1.0)];
    accounts[0].pool.mode = PoolMode::Fifo;
    let mut fixture = with(accounts);
    for id in 1..=3 {
        let mut job = fixture.job(id, "select=1:ncpus=4");
        Arc::make_mut(&mut job.spec).account = Some("a".to_string());
        fixture.state.enqueue(&job);
    }
    let shares = shares(&fixture);
    let fair = |id| {
        let job = JobId::job(id);
        shares
            .party(job, fixture.state.class_of(job))
            .and_then(|party| shares.entitled(party))
            .unwrap()
            .fair
    };
    assert_eq!([1, 2, 3].map(fair).map(rounded), [0.4, 0.4, 0.2]);
}

#[test]
fn the_demand_of_an_array_does_not_exceed_its_limit_on_running_subjobs() {
    let fixture = array(with(vec![]), 1, "", (0, 1), 20).queued(2, "select=1:ncpus=1 array=1-20%3");
    assert_eq!(entitled(&fixture, &[1, 2]), [(0.7, 0.0), (0.3, 0.0)]);
}

#[test]
fn pending_starts_and_preemptions_change_the_usage_but_not_the_demand() {
    let fixture = array(array(with(vec![]), 1, "", (7, 1), 9), 2, "", (1, 1), 9);
    let fixture = (3..6).fold(fixture, |fixture, id| {
        fixture.queued(id, "select=1:ncpus=1")
    });
    let ahead = PendingChanges {
        coming: [JobId::element(2, 2), JobId::job(3)].into(),
        preempted: [JobId::element(1, 7), JobId::element(1, 6)].into(),
    };
    let shares = FairShares::of(&fixture.state, &fixture.policy, &ahead, fixture.now);
    let used = |party| rounded(shares.entitled(party).unwrap().used);
    let parties =
        [JobId::array(1), JobId::array(2), JobId::job(3)].map(|id| shares.party(id, None).unwrap());
    assert_eq!(parties.map(used), [0.5, 0.2, 0.1]);
    let fair = |party| rounded(shares.entitled(party).unwrap().fair);
    assert_eq!(
        parties.map(fair),
        [0.35, 0.35, 0.1],
        "the fair shares of both arrays stay equal"
    );
    let similar = shares
        .party(JobId::job(4), fixture.state.class_of(JobId::job(4)))
        .unwrap();
    assert_eq!((used(similar), fair(similar)), (0.0, 0.1));
}

#[test]
fn fair_shares_are_kept_until_the_update_period_ends_or_parties_or_nodes_change() {
    let mut fixture = array(array(with(vec![]), 1, "", (7, 1), 9), 2, "", (1, 1), 1);
    fixture.policy.starvation.update_period = Span::seconds(10);
    fixture.state.starvation.held = Some(shares(&fixture).held);
    fixture.state.vacate(JobId::element(2, 1));
    assert_eq!(entitled(&fixture, &[1, 2]), [(0.8, 0.7), (0.2, 0.0)]);
    assert_eq!(
        entitled(&fixture.clone().at(9), &[1, 2]),
        [(0.8, 0.7), (0.2, 0.0)]
    );
    let mut later = fixture.clone().at(10);
    assert_eq!(entitled(&later, &[1, 2]), [(0.9, 0.7), (0.1, 0.0)]);
    later = fixture.clone().queued(3, "select=1:ncpus=2");
    assert_eq!(entitled(&later, &[1, 2]), [(0.7, 0.7), (0.1, 0.0)]);
    let grown = fixture.node("n1", "ncpus=20", true);
    assert_eq!(entitled(&grown, &[1, 2]), [(0.8, 0.35), (0.05, 0.0)]);
}

fn may_preempt(
    fixture: &TestCluster,
    victim: u64,
    preemptor: u64,
    threshold: f64,
    starving: &[StarvationSubject],
) -> bool {
    let mut fixture = fixture.clone();
    fixture.policy.starvation.preemption_threshold = threshold;
    let shares = shares(&fixture);
    let time_below = TimeBelow::default().renewed(starving.iter().cloned(), Time(-1_000_000));
    let exemption = PreemptionExemption {
        shares: &shares,
        time_below: &time_below,
        last: AllocationGroup::Preemptible,
        now: fixture.now,
    };
    let row = |id| {
        shares
            .row(shares.party(JobId::array(id), None).unwrap())
            .unwrap()
    };
    let to = &exemption.by_line()[row(victim).line];
    victim != preemptor
        && !exemption.is_exempt(row(victim))
        && to.is_to(shares.line(row(preemptor).party))
}

/// Y27: operations 1 and 2 are in pool prod, operation 3 is in pool dev.
#[test]
fn starving_operations_are_exempt_and_starving_pools_lose_nothing_to_other_pools() {
    let accounts = || vec![pool("prod", None, 1.0), pool("dev", None, 1.0)];
    let fixture = array(
        array(with(accounts()), 1, "prod", (3, 1), 9),
        2,
        "prod",
        (0, 1),
        9,
    );
    let fixture = array(fixture, 3, "dev", (7, 1), 9);
    let party = |id| StarvationSubject::Party(ShareParty::Operation(JobId::array(id)));
    let prod = || StarvationSubject::Pool("prod".to_string());
    assert!(may_preempt(&fixture, 3, 2, 1.0, &[]) && may_preempt(&fixture, 1, 2, 1.0, &[]));
    assert!(
        !may_preempt(&fixture, 3, 2, 1.0, &[party(3)]),
        "operation 3 starves"
    );
    assert!(!may_preempt(&fixture, 1, 1, 1.0, &[]));
    assert!(
        !may_preempt(&fixture, 1, 3, 1.0, &[]),
        "prod uses 3 CPUs; its fair share is 5"
    );
    assert!(may_preempt(&fixture, 1, 3, 0.2, &[]));
    assert!(!may_preempt(&fixture, 1, 3, 0.2, &[prod()]), "prod starves");
    assert!(
        may_preempt(&fixture, 1, 2, 0.2, &[prod()]),
        "operation 2 is in prod, too"
    );
}

/// Y18, Y29.
#[test]
fn settings_of_a_pool_apply_to_the_pool_and_to_pools_and_operations_below_it() {
    let mut accounts = vec![
        pool("prod", None, 1.0),
        pool("x", Some("prod"), 1.0),
        pool("dev", None, 1.0),
    ];
    accounts[0].pool.starvation = Overrides {
        enable_aggressive: Some(true),
        ..Overrides::default()
    };
    let fixture = array(
        array(with(accounts), 1, "x", (0, 1), 9),
        2,
        "dev",
        (0, 1),
        9,
    )
    .at(200);
    let shares = shares(&fixture);
    let time_below = TimeBelow::default().renewed(shares.below(), Time(0));
    let starvation =
        |subject: StarvationSubject| shares.starvation(&subject, &time_below, fixture.now);
    let party = |id| StarvationSubject::Party(ShareParty::Operation(JobId::array(id)));
    assert_eq!(
        [1, 2].map(|id| starvation(party(id))),
        [StarvationStatus::Aggressive, StarvationStatus::Starving]
    );
    assert_eq!(
        ["prod", "x", "dev"].map(|name| starvation(StarvationSubject::Pool(name.to_string()))),
        [
            StarvationStatus::Aggressive,
            StarvationStatus::Aggressive,
            StarvationStatus::Starving
        ]
    );
}
