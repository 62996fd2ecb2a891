//! Properties of preemption over time, for random clusters and jobs: it is never futile and never
//! cyclic, freed resources are used once, and every rerunnable job finishes.

use crate::fixture::{TestCluster, cluster, queue};
use crate::support::cases;
use lanai::model::job::preemption::PreemptAction;
use lanai::model::job_id::JobId;
use lanai::model::policy::preemption::{PreemptMode, PreemptTrigger, PreemptionPolicy, Victims};
use lanai::model::policy::{Backfill, Filling, Precedence, PriorityOrder};
use lanai::model::time::{Span, Time};
use lanai::sched::cycle;
use lanai::sched::placement::cycle_cache::CycleCache;
use lanai::sched::view::plan::Plan;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

/// A generated job; times in seconds.
#[derive(Clone, Debug)]
struct GeneratedJob {
    at: i64,
    chunks: i64,
    ncpus: i64,
    walltime: i64,
    priority: i32,
    express: bool,
    protected: bool,
    /// Seconds from the order to end until the end.
    stops: i64,
}

fn generated_job() -> impl Strategy<Value = GeneratedJob> {
    let sizes = (0i64..200, 1i64..4, 1i64..4, 1i64..120, -3i32..4);
    (sizes, any::<bool>(), prop::bool::weighted(0.15), 0i64..15).prop_map(
        |((at, chunks, ncpus, walltime, priority), express, protected, stops)| GeneratedJob {
            at,
            chunks,
            ncpus,
            walltime,
            priority,
            express,
            protected,
            stops,
        },
    )
}

/// A generated policy; `exempt` in seconds.
#[derive(Clone, Debug)]
struct Site {
    nodes: usize,
    trigger: PreemptTrigger,
    victims: Victims,
    filling: Filling,
    exempt: i64,
}

fn site() -> impl Strategy<Value = Site> {
    let trigger = prop::sample::select(vec![PreemptTrigger::Qube, PreemptTrigger::Levels]);
    let victims = prop::sample::select(vec![Victims::Newest, Victims::Cheapest, Victims::Worst]);
    let filling = prop::sample::select(vec![
        Filling::Skip,
        Filling::FirstFit,
        Filling::None,
        Filling::Preempt,
    ]);
    (
        1usize..4,
        trigger,
        victims,
        filling,
        prop::sample::select(vec![0i64, 20, 60]),
    )
        .prop_map(|(nodes, trigger, victims, filling, exempt)| Site {
            nodes,
            trigger,
            victims,
            filling,
            exempt,
        })
}

/// State of the simulation.
struct Run {
    fixture: TestCluster,
    cache: CycleCache,
    jobs: Vec<GeneratedJob>,
    /// Running jobs and their starts.
    running: BTreeMap<u64, i64>,
    /// Preempted jobs that still run: their preemptor, and the time of their end.
    victims_running: BTreeMap<u64, (u64, i64)>,
    /// Last preemptor of each job, and the time of that preemption.
    preemptions: BTreeMap<u64, (u64, i64)>,
    /// Victims that a preemptor still waits for, and the end of the last one.
    awaited: BTreeMap<u64, (BTreeSet<u64>, Option<i64>)>,
    done: BTreeSet<u64>,
    exempt: i64,
    preempted: usize,
}

impl Run {
    fn new(site: &Site, jobs: Vec<GeneratedJob>) -> Run {
        let mut fixture = cluster(&format!("{} x ncpus=4", site.nodes));
        fixture.state.set_queue(&lanai::model::queue::Queue {
            priority: 150,
            ..queue("express", true)
        });
        fixture.policy.precedence = Precedence {
            order: PriorityOrder::Priority,
            ..Precedence::default()
        };
        fixture.policy.backfill = Backfill {
            policy: site.filling,
            ..Backfill::default()
        };
        fixture.policy.preemption = PreemptionPolicy {
            mode: PreemptMode::Aggressive,
            victims: site.victims,
            exempt: Span::seconds(site.exempt),
            ..PreemptionPolicy::by(site.trigger)
        };
        Run {
            fixture,
            cache: CycleCache::default(),
            jobs,
            running: BTreeMap::new(),
            victims_running: BTreeMap::new(),
            preemptions: BTreeMap::new(),
            awaited: BTreeMap::new(),
            done: BTreeSet::new(),
            exempt: site.exempt,
            preempted: 0,
        }
    }

    fn job(&self, id: u64) -> &GeneratedJob {
        &self.jobs[id as usize - 1]
    }

    fn enqueue(&mut self, id: u64) {
        let GeneratedJob {
            chunks,
            ncpus,
            walltime,
            priority,
            express,
            protected,
            ..
        } = *self.job(id);
        let queue = if express { "express" } else { "workq" };
        let text = format!("select={chunks}:ncpus={ncpus} walltime={walltime} queue={queue}");
        let mut job = self.fixture.job(id, &text);
        let spec = std::sync::Arc::make_mut(&mut job.spec);
        (spec.priority, spec.rerunnable) = (priority, true);
        if protected {
            spec.other
                .insert("no_preempt".to_string(), "True".to_string());
        }
        if let Some(&(to, at)) = self.preemptions.get(&id) {
            job.life.preemption = Some(Box::new(lanai::model::job::preemption::JobPreemption {
                attempt: None,
                to: Some(JobId::job(to)),
                cause: lanai::model::job::preemption::PreemptCause::Rank,
                action: PreemptAction::Requeue,
                at: Time(at * 1000),
            }));
        }
        self.fixture.state.enqueue(&job);
    }

    /// Simulates one second.
    fn step(&mut self, now: i64) -> Result<(), TestCaseError> {
        self.fixture.now = Time(now * 1000);
        let ended: Vec<u64> = self
            .victims_running
            .iter()
            .filter(|(_, (_, at))| *at <= now)
            .map(|(id, _)| *id)
            .collect();
        for id in ended {
            self.end(id, now);
            self.enqueue(id);
        }
        let finished =
            |(id, since): (&u64, &i64)| (now >= since + self.job(*id).walltime).then_some(*id);
        for id in self.running.iter().filter_map(finished).collect::<Vec<_>>() {
            self.end(id, now);
            self.done.insert(id);
        }
        let submitted: Vec<u64> = (1..=self.jobs.len() as u64)
            .filter(|id| self.job(*id).at == now)
            .collect();
        submitted.into_iter().for_each(|id| self.enqueue(id));
        for _ in 0..100 {
            self.fixture
                .state
                .prioritise(&self.fixture.policy, self.fixture.now);
            let plan = cycle::run_again(
                &self.fixture.state,
                &self.fixture.policy,
                self.fixture.now,
                &mut self.cache,
            );
            prop_assert_eq!(plan.audit(&self.fixture.state), Ok(()));
            self.check(&plan, now)?;
            if plan.starts.is_empty() && plan.preempts.is_empty() {
                break;
            }
        }
        Ok(())
    }

    fn end(&mut self, id: u64, now: i64) {
        self.running.remove(&id);
        self.fixture.state.vacate(JobId::job(id));
        if let Some((to, _)) = self.victims_running.remove(&id)
            && let Some((victims, last_end)) = self.awaited.get_mut(&to)
        {
            victims.remove(&id);
            *last_end = Some(now);
        }
    }

    fn check(&mut self, plan: &Plan, now: i64) -> Result<(), TestCaseError> {
        for preempt in &plan.preempts {
            let (id, to) = (preempt.job.number, preempt.by.unwrap().number);
            self.preempted += 1;
            prop_assert!(
                self.running.contains_key(&id) && !self.victims_running.contains_key(&id),
                "victim {} is not running, or is already being preempted",
                id
            );
            prop_assert!(!self.job(id).protected, "protected job {} is preempted", id);
            if preempt.cause != lanai::model::job::preemption::PreemptCause::Promise {
                prop_assert!(
                    now >= self.running[&id] + self.exempt,
                    "{} is preempted within its exempt time",
                    id
                );
            }
            // G9: a preempted job does not preempt its preemptor before the exempt time has passed.
            if let Some(&(preemptor, at)) = self.preemptions.get(&to) {
                prop_assert!(
                    preemptor != id || now >= at + self.exempt,
                    "{} preempts {}, which had just preempted it",
                    to,
                    id
                );
            }
            let stops = self.job(id).stops;
            self.victims_running.insert(id, (to, now + stops.max(1)));
            self.preemptions.insert(id, (to, now));
            self.awaited.entry(to).or_default().0.insert(id);
        }
        self.fixture.apply(plan);
        for start in &plan.starts {
            let id = start.job.number;
            self.running.insert(id, now);
            self.awaited.remove(&id);
        }
        // G8: when all victims have ended, their preemptors have started. The resources of one
        // victim may serve several preemptors.
        for (id, (victims, last_end)) in &self.awaited {
            let is_futile =
                self.victims_running.is_empty() && victims.is_empty() && last_end.is_some();
            prop_assert!(
                !is_futile,
                "all victims of {} have ended, but it has not started at {}",
                id,
                now
            );
        }
        Ok(())
    }
}

proptest! {
    #![proptest_config(cases(300))]

    #[test]
    fn preemption_is_neither_futile_nor_cyclic_and_all_jobs_end(
        site in site(),
        jobs in prop::collection::vec(generated_job(), 1..14),
    ) {
        let fits = |job: &GeneratedJob| job.chunks <= site.nodes as i64 * (4 / job.ncpus);
        let jobs: Vec<GeneratedJob> = jobs.into_iter().filter(fits).collect();
        let mut run = Run::new(&site, jobs);
        for now in 0..6000 {
            run.step(now)?;
            if now > 200 && run.done.len() == run.jobs.len() {
                break;
            }
        }
        let unfinished: Vec<u64> = (1..=run.jobs.len() as u64).filter(|id| !run.done.contains(id)).collect();
        prop_assert!(unfinished.is_empty(), "jobs that never finished: {:?}", unfinished);
    }
}
