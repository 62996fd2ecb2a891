//! An event-driven cycle, which uses results of previous cycles, decides the same as a full cycle,
//! for random events (Q1, X2). Only for orders in which a job's priority does not depend on the
//! host: otherwise a cycle for one host is a different decision.

use crate::fixture::{TestCluster, cluster};
use crate::properties::cycle::{GeneratedJob, backfill_policy, generated_job};
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
enum Event {
    Submitted {
        job: GeneratedJob,
        user: &'static str,
        licenses: i64,
        delay: i64,
        ahead: bool,
    },
    Ended(usize),
    Held(u64),
    Shoved(u64),
    NodeGone(u32),
    NodeBack(u32),
    NodeChanged(u32, u32),
    Licenses {
        there: i64,
        elsewhere: i64,
    },
    Nothing,
}

fn event() -> impl Strategy<Value = Event> {
    let user = prop_oneof![Just("ann"), Just("bob"), Just("cid")];
    let delay = prop_oneof![4 => Just(0), 1 => 1..60i64];
    let ahead = prop::bool::weighted(0.1);
    let submitted = (generated_job(), user, 0..3i64, delay, ahead).prop_map(
        |(job, user, licenses, delay, ahead)| Event::Submitted {
            job,
            user,
            licenses,
            delay,
            ahead,
        },
    );
    prop_oneof![
        8 => submitted,
        5 => (0..8usize).prop_map(Event::Ended),
        1 => (1..30u64).prop_map(Event::Held),
        1 => (1..30u64).prop_map(Event::Shoved),
        1 => (1..4u32).prop_map(Event::NodeGone),
        1 => (1..4u32).prop_map(Event::NodeBack),
        1 => (1..4u32, 1..9u32).prop_map(|(node, ncpus)| Event::NodeChanged(node, ncpus)),
        2 => (0..5i64, 0..3i64).prop_map(|(there, elsewhere)| Event::Licenses { there, elsewhere }),
        2 => Just(Event::Nothing),
    ]
}

const LICENSES: i64 = 4;

/// Orders that do not depend on the host.
const ORDERS: [&str; 5] = [
    "by = \"fcfs\"",
    "by = \"priority\"",
    "by = \"multifactor\"",
    "by = \"formula\"\nformula = \"ncpus * 10 + eligible_time\"",
    "by = \"components\"",
];

fn backfill_or_none() -> impl Strategy<Value = Backfill> {
    let without = prop_oneof![Just(Filling::Skip), Just(Filling::None)];
    let without = without.prop_map(|policy| Backfill {
        policy,
        depth: 0,
        ..Backfill::default()
    });
    prop_oneof![3 => backfill_policy(false), 1 => without]
}

/// A cluster, and the request and user of each job.
struct Simulation {
    fixture: TestCluster,
    requests: Vec<(String, &'static str)>,
}

impl Simulation {
    fn new(order: &str, backfill: Backfill) -> Simulation {
        let mut fixture = cluster("2 x ncpus=4:mem=4gb, 1 x ncpus=8:mem=2gb");
        fixture.policy = Config::parse(&format!("[order]\n{order}\n"))
            .unwrap()
            .effective_policy();
        fixture.policy.backfill = backfill;
        fixture.state.set_pool(
            "site_lic",
            Pool {
                total: LICENSES,
                ..Pool::default()
            },
        );
        Simulation {
            fixture,
            requests: Vec::new(),
        }
    }

    fn apply(&mut self, event: &Event) {
        let fixture = self.fixture.clone();
        match event {
            Event::Submitted {
                job,
                user,
                licenses,
                delay,
                ahead,
            } => {
                let licenses = if *licenses > 0 {
                    format!(" site_lic={licenses}")
                } else {
                    String::new()
                };
                let rank = if *ahead { " rank=0" } else { "" };
                let text = format!("{} walltime={}{licenses}{rank}", job.request, job.walltime);
                let until = fixture.now.0 / 1000 + delay;
                let delay = if *delay > 0 {
                    format!(" not_before={until}")
                } else {
                    String::new()
                };
                self.requests.push((text.clone(), user));
                self.fixture = fixture
                    .owned(user)
                    .queued(self.requests.len() as u64, &format!("{text}{delay}"));
            }
            Event::Ended(which) => {
                let running: Vec<JobId> = fixture.state.holders().collect();
                running
                    .get(*which)
                    .into_iter()
                    .for_each(|job| self.fixture.state.vacate(*job));
            }
            Event::Held(job) => self.fixture.state.withdraw(JobId::job(*job)),
            // The job stays queued; its delay ends.
            Event::Shoved(job) if fixture.state.class_of(JobId::job(*job)).is_some() => {
                let (text, user) = self.requests[*job as usize - 1].clone();
                self.fixture = fixture.owned(user).queued(*job, &text);
            }
            Event::NodeGone(node) => {
                self.fixture = fixture.node(&format!("n{node}"), "ncpus=4:mem=4gb", false)
            }
            Event::NodeBack(node) => {
                self.fixture = fixture.node(&format!("n{node}"), "ncpus=4:mem=4gb", true)
            }
            Event::NodeChanged(node, ncpus) => {
                self.fixture =
                    fixture.node(&format!("n{node}"), &format!("ncpus={ncpus}:mem=4gb"), true);
            }
            Event::Licenses { there, elsewhere } => {
                self.fixture.state.set_total("site_lic", *there, *elsewhere)
            }
            Event::Shoved(_) | Event::Nothing => {}
        }
    }

    /// Plan of a full cycle, without previous results.
    fn full_plan(&self) -> Plan {
        cycle::run(&self.fixture.state, &self.fixture.policy, self.fixture.now)
    }
}

proptest! {
    #![proptest_config(cases(120))]

    #[test]
    fn x2_an_event_driven_cycle_decides_the_same_as_a_full_cycle(
        order in 0..ORDERS.len(),
        backfill in backfill_or_none(),
        events in prop::collection::vec((event(), 0..30i64), 1..40),
    ) {
        let mut simulation = Simulation::new(ORDERS[order], backfill);
        let mut cache = CycleCache::default();
        let mut log = String::new();
        for (event, seconds) in &events {
            simulation.fixture.now = simulation.fixture.now + Span::seconds(*seconds);
            simulation.apply(event);
            let fixture = &mut simulation.fixture;
            if !cycle::is_due(&fixture.state, &fixture.policy, fixture.now, &cache) {
                let plan = simulation.full_plan();
                let decided = (plan.starts.len(), plan.preempts.len());
                prop_assert_eq!(decided, (0, 0), "{:?} triggers no cycle\n{}but at {} a cycle decides\n{}", event, log, simulation.fixture.now.0, plan);
                continue;
            }
            fixture.state.prioritise(&fixture.policy, fixture.now);
            let plan = cycle::run_again(&fixture.state, &fixture.policy, fixture.now, &mut cache);
            log += &format!("at {}, {event:?}, next {:?}\n{plan}", plan.now.0, plan.next);
            prop_assert_eq!(&plan, &simulation.full_plan(), "after {:?}\n{}", event, log);
            prop_assert_eq!(plan.audit(&simulation.fixture.state), Ok(()));
            simulation.fixture.apply(&plan);
        }
    }
}
