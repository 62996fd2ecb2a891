//! Fair share and usage, with the numbers of the rules.

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

/// An array with this many running subjobs of this many CPUs each, and this many waiting ones.
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

/// The fair share and the usage of operations.
fn entitled(fixture: &TestCluster, operations: &[u64]) -> Vec<(f64, f64)> {
    let shares = shares(fixture);
    let of = |&id: &u64| {
        let party = shares.party(JobId::array(id), None).unwrap();
        let of_party = shares.entitled(party).unwrap();
        (rounded(of_party.fair), rounded(of_party.used))
    };
    operations.iter().map(of).collect()
}

/// Y20, Y10: two arrays that each request the whole cluster.
#[test]
fn operations_share_the_cluster_by_demand() {
    let fixture = array(array(with(vec![]), 1, "", (7, 1), 9), 2, "", (1, 1), 9);
    assert_eq!(entitled(&fixture, &[1, 2]), [(0.5, 0.7), (0.5, 0.1)]);
    let fixture = array(array(with(vec![]), 1, "", (7, 1), 9), 2, "", (1, 1), 1);
    assert_eq!(
        entitled(&fixture, &[1, 2]),
        [(0.8, 0.7), (0.2, 0.1)],
        "unused demand goes to the other"
    );
}

/// Y26, Y20.
#[test]
fn pools_get_their_guarantee_and_at_most_their_maximum() {
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
    // Limits on waiting jobs, on a user or on another resource do not bound a pool.
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
fn in_a_fifo_pool_the_first_job_receives_its_whole_demand() {
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
fn a_party_at_its_tolerance_is_not_below() {
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
    assert!(below(1), "39 of 100 CPUs with a fair share of 50");
    let fixture = array(array(with(vec![]), 1, "", (4, 1), 9), 2, "", (0, 1), 20);
    let is_below = |id| {
        shares(&fixture)
            .below()
            .any(|it| it == StarvationSubject::Party(ShareParty::Operation(JobId::array(id))))
    };
    assert_eq!(
        [1, 2].map(is_below),
        [false, true],
        "4 of 10 CPUs with a fair share of 5"
    );
}

/// Similar jobs have equal fair shares; deferred jobs and jobs in a stopped queue have none.
#[test]
fn jobs_that_cannot_start_have_no_demand() {
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
        "job 2 can start from then on"
    );
}

/// Y23: similar jobs are in line one by one.
#[test]
fn in_a_fifo_pool_equal_jobs_receive_their_demand_in_turn() {
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

/// The demand of an array with a limit of its own ends at that limit.
#[test]
fn the_demand_of_an_array_ends_at_its_limit() {
    let fixture = array(with(vec![]), 1, "", (0, 1), 20).queued(2, "select=1:ncpus=1 array=1-20%3");
    assert_eq!(entitled(&fixture, &[1, 2]), [(0.7, 0.0), (0.3, 0.0)]);
}

/// Pending starts and preemptions count.
#[test]
fn pending_changes_count() {
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
        "the demands are the same"
    );
    let similar = shares
        .party(JobId::job(4), fixture.state.class_of(JobId::job(4)))
        .unwrap();
    assert_eq!((used(similar), fair(similar)), (0.0, 0.1));
}

/// Fair shares are kept for a period, and computed again when a party is added.
#[test]
fn fair_shares_are_kept_for_a_period() {
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

/// Y27: operations 1 and 2 are in prod, 3 in dev.
#[test]
fn starving_parties_and_pools_lose_nothing_to_outsiders() {
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
        "a starving party is no victim"
    );
    assert!(!may_preempt(&fixture, 1, 1, 1.0, &[]));
    assert!(!may_preempt(&fixture, 1, 3, 1.0, &[]), "prod has 3 of 5");
    assert!(may_preempt(&fixture, 1, 3, 0.2, &[]));
    assert!(!may_preempt(&fixture, 1, 3, 0.2, &[prod()]), "prod starves");
    assert!(
        may_preempt(&fixture, 1, 2, 0.2, &[prod()]),
        "2 is in prod, too"
    );
}

/// Y18, Y29: settings of a pool apply to its operations and to itself.
#[test]
fn settings_of_a_pool_apply_to_it_and_its_operations() {
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
