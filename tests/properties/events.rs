//! An event-driven cycle, which uses results of previous cycles, decides the same as a full cycle,
//! for random events (Q1, X2). Only for orders in which a job's priority does not depend on the
//! host: otherwise a cycle for one host is a different decision.

use crate::fixture::{TestCluster, cluster};
use crate::properties::cycle::{Made, made, promising};
use crate::support::cases;
use lanai::config::Config;
use lanai::model::job_id::JobId;
use lanai::model::policy::{Backfill, Filling};
use lanai::model::system_resource::Pool;
use lanai::model::time::Span;
use lanai::sched::cycle;
use lanai::sched::placement::cycle_cache::CycleCache;
use lanai::sched::view::plan::Plan;
use proptest::prelude::*;

/// A generated event. Numbers select the job or node.
#[derive(Clone, Debug)]
enum Happening {
    Submitted {
        job: Made,
        user: &'static str,
        licences: i64,
        put_off: i64,
        ahead: bool,
    },
    Ended(usize),
    Held(u64),
    Shoved(u64),
    NodeGone(u32),
    NodeBack(u32),
    NodeChanged(u32, u32),
    Licences {
        there: i64,
        elsewhere: i64,
    },
    Nothing,
}

fn happening() -> impl Strategy<Value = Happening> {
    let user = prop_oneof![Just("ann"), Just("bob"), Just("cid")];
    let put_off = prop_oneof![4 => Just(0), 1 => 1..60i64];
    let ahead = prop::bool::weighted(0.1);
    let submitted = (made(), user, 0..3i64, put_off, ahead).prop_map(
        |(job, user, licences, put_off, ahead)| Happening::Submitted {
            job,
            user,
            licences,
            put_off,
            ahead,
        },
    );
    prop_oneof![
        8 => submitted,
        5 => (0..8usize).prop_map(Happening::Ended),
        1 => (1..30u64).prop_map(Happening::Held),
        1 => (1..30u64).prop_map(Happening::Shoved),
        1 => (1..4u32).prop_map(Happening::NodeGone),
        1 => (1..4u32).prop_map(Happening::NodeBack),
        1 => (1..4u32, 1..9u32).prop_map(|(node, ncpus)| Happening::NodeChanged(node, ncpus)),
        2 => (0..5i64, 0..3i64).prop_map(|(there, elsewhere)| Happening::Licences { there, elsewhere }),
        2 => Just(Happening::Nothing),
    ]
}

const LICENCES: i64 = 4;

/// Orders that do not depend on the host.
const ORDERS: [&str; 5] = [
    "by = \"fcfs\"",
    "by = \"priority\"",
    "by = \"multifactor\"",
    "by = \"formula\"\nformula = \"ncpus * 10 + eligible_time\"",
    "by = \"components\"",
];

fn ways() -> impl Strategy<Value = Backfill> {
    let without = prop_oneof![Just(Filling::Skip), Just(Filling::None)];
    let without = without.prop_map(|policy| Backfill {
        policy,
        depth: 0,
        ..Backfill::default()
    });
    prop_oneof![3 => promising(false), 1 => without]
}

/// A cluster, and the request and user of each job.
struct Course {
    fixture: TestCluster,
    asked: Vec<(String, &'static str)>,
}

impl Course {
    fn new(order: &str, backfill: Backfill) -> Course {
        let mut fixture = cluster("2 x ncpus=4:mem=4gb, 1 x ncpus=8:mem=2gb");
        fixture.policy = Config::parse(&format!("[order]\n{order}\n"))
            .unwrap()
            .effective_policy();
        fixture.policy.backfill = backfill;
        fixture.state.set_pool(
            "site_lic",
            Pool {
                total: LICENCES,
                ..Pool::default()
            },
        );
        Course {
            fixture,
            asked: Vec::new(),
        }
    }

    fn happen(&mut self, happening: &Happening) {
        let fixture = self.fixture.clone();
        match happening {
            Happening::Submitted {
                job,
                user,
                licences,
                put_off,
                ahead,
            } => {
                let licences = if *licences > 0 {
                    format!(" site_lic={licences}")
                } else {
                    String::new()
                };
                let rank = if *ahead { " rank=0" } else { "" };
                let text = format!("{} walltime={}{licences}{rank}", job.request, job.walltime);
                let until = fixture.now.0 / 1000 + put_off;
                let put_off = if *put_off > 0 {
                    format!(" not_before={until}")
                } else {
                    String::new()
                };
                self.asked.push((text.clone(), user));
                self.fixture = fixture
                    .owned(user)
                    .queued(self.asked.len() as u64, &format!("{text}{put_off}"));
            }
            Happening::Ended(which) => {
                let running: Vec<JobId> = fixture.state.holders().collect();
                running
                    .get(*which)
                    .into_iter()
                    .for_each(|job| self.fixture.state.vacate(*job));
            }
            Happening::Held(job) => self.fixture.state.withdraw(JobId::job(*job)),
            // The job stays queued; its delay ends.
            Happening::Shoved(job) if fixture.state.class_of(JobId::job(*job)).is_some() => {
                let (text, user) = self.asked[*job as usize - 1].clone();
                self.fixture = fixture.owned(user).queued(*job, &text);
            }
            Happening::NodeGone(node) => {
                self.fixture = fixture.node(&format!("n{node}"), "ncpus=4:mem=4gb", false)
            }
            Happening::NodeBack(node) => {
                self.fixture = fixture.node(&format!("n{node}"), "ncpus=4:mem=4gb", true)
            }
            Happening::NodeChanged(node, ncpus) => {
                self.fixture =
                    fixture.node(&format!("n{node}"), &format!("ncpus={ncpus}:mem=4gb"), true);
            }
            Happening::Licences { there, elsewhere } => {
                self.fixture.state.set_total("site_lic", *there, *elsewhere)
            }
            Happening::Shoved(_) | Happening::Nothing => {}
        }
    }

    /// Plan of a full cycle, without previous results.
    fn whole(&self) -> Plan {
        cycle::run(&self.fixture.state, &self.fixture.policy, self.fixture.now)
    }
}

proptest! {
    #![proptest_config(cases(120))]

    #[test]
    fn x2_a_cycle_for_what_has_happened_decides_what_a_full_one_would(
        order in 0..ORDERS.len(),
        backfill in ways(),
        happenings in prop::collection::vec((happening(), 0..30i64), 1..40),
    ) {
        let mut course = Course::new(ORDERS[order], backfill);
        let mut memory = CycleCache::default();
        let mut told = String::new();
        for (happening, seconds) in &happenings {
            course.fixture.now = course.fixture.now + Span::seconds(*seconds);
            course.happen(happening);
            let fixture = &mut course.fixture;
            if !cycle::is_due(&fixture.state, &fixture.policy, fixture.now, &memory) {
                let plan = course.whole();
                let decided = (plan.starts.len(), plan.preempts.len());
                prop_assert_eq!(decided, (0, 0), "{:?} was passed over\n{}at {} then\n{}", happening, told, course.fixture.now.0, plan);
                continue;
            }
            fixture.state.prioritise(&fixture.policy, fixture.now);
            let plan = cycle::run_again(&fixture.state, &fixture.policy, fixture.now, &mut memory);
            told += &format!("at {}, {happening:?}, next {:?}\n{plan}", plan.now.0, plan.next);
            prop_assert_eq!(&plan, &course.whole(), "after {:?}\n{}", happening, told);
            prop_assert_eq!(plan.audit(&course.fixture.state), Ok(()));
            course.fixture.apply(&plan);
        }
    }
}
