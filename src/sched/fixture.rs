//! Short descriptions of clusters and jobs, for tests and benchmarks:
//!
//! ```ignore
//! let fixture = cluster("2 x ncpus=8").queued(1, "select=3:ncpus=4 walltime=1:00:00");
//! assert_eq!(fixture.starts(), "1 on n1,n1,n2");
//! ```
//!
//! An invalid description panics, because it is an error in the test.

use crate::model::account::{Account, Shares};
use crate::model::job::array::{Elements, Indices, SubjobState};
use crate::model::job::eligible_time::{Accrues, Eligibility};
use crate::model::job::event::Event;
use crate::model::job::life::EventContext;
use crate::model::job::state::{Holds, JobState};
use crate::model::job::suspension::SuspendMode;
use crate::model::job::{Digest, Job, JobProgram, Life, NodeShare, Owner, Spec, value_syntax};
use crate::model::job_id::JobId;
use crate::model::node::{NodeFacts, NodeTerms};
use crate::model::policy::{Filling, Policy, Precedence};
use crate::model::queue::Queue;
use crate::model::reason::Reason;
use crate::model::report::priority_score::PriorityScore;
use crate::model::request::placement_requirements::{self, PlacementRequirements};
use crate::model::request::select::{Arrangement, Chunk, Place, Request, Select, Sharing};
use crate::model::resource::amount::{Amount, split_chunks};
use crate::model::resource::{Definition, ResourceList, ResourceType, ResourceValue, Resources};
use crate::model::text::Text;
use crate::model::time::{Span, Time, Wall};
use crate::sched::cycle::{self, forced};
use crate::sched::view::change::Change;
use crate::sched::view::holdings::RunningOwner;
use crate::sched::view::plan::{Plan, Start};
use crate::sched::view::preemption_candidate::PreemptionCandidate;
use crate::sched::view::snapshot::{ClassId, ClusterState, JobOwner};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A snapshot of a cluster with the policy and the time of a cycle.
#[derive(Clone, Debug)]
pub struct TestCluster {
    /// The snapshot.
    pub state: ClusterState,
    /// The policy: first come, first served with EASY backfill, unless changed.
    pub policy: Policy,
    /// The time of the cycle: 0, unless changed.
    pub now: Time,
    resources: Resources,
    classes: BTreeMap<u64, ClassId>,
    arrays: BTreeMap<u64, Job>,
    nodes: usize,
    user: String,
}

/// The resources of PBS and five custom resources: `lic` is consumable, `big` is Boolean, `color`
/// is text, `speed` is a number that is only compared, and `site_lic` is consumable and
/// system-wide.
pub fn resources() -> Resources {
    let mut resources = Resources::builtin();
    let custom = [
        ("lic", ResourceType::Long, true),
        ("big", ResourceType::Boolean, false),
        ("color", ResourceType::String, false),
    ];
    for (name, kind, consumable) in
        custom
            .into_iter()
            .chain([("speed", ResourceType::Float, false)])
    {
        resources.define(
            name,
            Definition {
                kind,
                host_level: true,
                consumable,
                requestable: true,
            },
        );
    }
    let licences = Definition {
        kind: ResourceType::Long,
        host_level: false,
        consumable: true,
        requestable: true,
    };
    resources.define("site_lic", licences);
    resources
}

/// Checks that a priority is the sum of its parts.
#[track_caller]
pub fn assert_score_is_sum(priority: &PriorityScore) {
    let products = priority.parts.iter().filter_map(|part| part.product());
    let sum: f64 = products.sum();
    assert!((sum - priority.score).abs() < 1e-9, "{priority:?}");
}

/// A cluster with a queue `workq` and nodes `n1`, `n2`, ..., each on its own host. `text` describes
/// the nodes: `"4 x ncpus=8:mem=32gb, 1 x ncpus=64"`.
pub fn cluster(text: &str) -> TestCluster {
    let resources = resources();
    let mut state = ClusterState::new(&resources);
    state.set_queue(&queue("workq", true));
    // The jobs start in order of submission, so that priorities do not affect the tests.
    let policy = Policy {
        precedence: Precedence::fcfs(),
        ..Policy::default()
    };
    let (classes, arrays, user) = (BTreeMap::new(), BTreeMap::new(), "ann".to_string());
    let fixture = TestCluster {
        state,
        policy,
        now: Time(0),
        resources,
        classes,
        arrays,
        nodes: 0,
        user,
    };
    fixture.with_nodes(text, |name| name.to_string())
}

/// A queue with this name.
pub fn queue(name: &str, started: bool) -> Queue {
    Queue {
        started,
        ..Queue::named(name)
    }
}

impl TestCluster {
    /// Adds nodes, all on one host.
    pub fn on_host(self, host: &str, text: &str) -> TestCluster {
        self.with_nodes(text, |_| host.to_string())
    }

    fn with_nodes(mut self, text: &str, host: impl Fn(&str) -> String) -> TestCluster {
        for group in text.split(", ").filter(|group| !group.is_empty()) {
            let (count, available) = group.split_once(" x ").expect("'COUNT x resources'");
            for _ in 0..count.parse::<usize>().expect("a count") {
                self.nodes += 1;
                let name = format!("n{}", self.nodes);
                let facts = facts(&self.resources, &name, &host(&name), available);
                self.state.set_node(&facts, true);
            }
        }
        self
    }

    /// Adds a node on its own host, or replaces it.
    pub fn node(mut self, name: &str, available: &str, usable: bool) -> TestCluster {
        self.state
            .set_node(&facts(&self.resources, name, name, available), usable);
        self
    }

    /// Adds or replaces a node. Processes outside of jobs use its GPUs with the numbers `gpus`.
    pub fn used_outside(mut self, name: &str, available: &str, gpus: &[u16]) -> TestCluster {
        let facts = NodeFacts {
            gpus_outside: gpus.to_vec(),
            ..facts(&self.resources, name, name, available)
        };
        self.state.set_node(&facts, true);
        self
    }

    /// Adds or replaces a node with these terms.
    pub fn terms(self, name: &str, available: &str, terms: NodeTerms) -> TestCluster {
        self.loaded(name, available, terms, 0)
    }

    /// Adds or replaces a node with these terms and this load, in thousandths.
    pub fn loaded(
        mut self,
        name: &str,
        available: &str,
        terms: NodeTerms,
        load: u32,
    ) -> TestCluster {
        let facts = NodeFacts {
            terms,
            load,
            ..facts(&self.resources, name, name, available)
        };
        self.state.set_node(&facts, true);
        self
    }

    /// Adds or replaces a node with this measured use (`"ncpus=5:mem=1gb"` or an empty string) and
    /// this load, in thousandths.
    pub fn measured(mut self, name: &str, available: &str, used: &str, load: u32) -> TestCluster {
        let words = used.split(':').filter(|word| !word.is_empty());
        let utilized = words.map(|word| resource(&self.resources, word)).collect();
        let facts = NodeFacts {
            utilized,
            load,
            ..facts(&self.resources, name, name, available)
        };
        self.state.set_node(&facts, true);
        self
    }

    /// Sets the owner of the jobs that are added later.
    pub fn owned(mut self, user: &str) -> TestCluster {
        self.user = user.to_string();
        self
    }

    /// Adds a waiting job: `"select=2:ncpus=4+1:ngpus=1 place=scatter:excl walltime=1:00:00"`, also
    /// `queue=NAME`, `qos=NAME`, `not_before=SECONDS`, `failed_on=HOST`, `rank=N`, `array=X-Y:Z%M`,
    /// `expand=N`, `site_lic=N`, `preempt_targets=TEXT` and the placement requirements of `-W`.
    pub fn queued(mut self, id: u64, text: &str) -> TestCluster {
        let job = self.job(id, text);
        self.state.enqueue(&job);
        self.classes
            .extend(self.state.class_of(job.id).map(|class| (id, class)));
        if job.id.is_array() {
            self.arrays.insert(id, job);
        }
        self
    }

    /// Adds a running job with its chunks on these nodes (`"n1,n1,n2"`). The walltime of the job
    /// ends at second `until`.
    pub fn running(mut self, id: u64, text: &str, nodes: &str, until: i64) -> TestCluster {
        let job = self.job(id, text);
        let chunks = job
            .spec
            .request
            .select
            .chunks
            .iter()
            .flat_map(|c| (0..c.count).map(move |_| c));
        let mut shares: Vec<NodeShare> = chunks
            .zip(nodes.split(','))
            .map(|(chunk, node)| share_of(chunk, node))
            .collect();
        let pooled = job
            .spec
            .request
            .list
            .iter()
            .filter(|(name, _)| *name == "site_lic");
        shares[0].pooled = pooled
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect();
        self.state.user(&self.user);
        self.state.occupy(
            job.id,
            &shares,
            JobOwner::of(&job, self.policy.placement.access),
            Time(until.saturating_mul(1000)),
        );
        self.state.belongs_to(job.id, &RunningOwner::of(&job));
        self
    }

    /// Sets how preemption sees a running job: the start time in seconds, the priority, and
    /// everything that `also` changes.
    pub fn candidate(
        mut self,
        id: JobId,
        started: i64,
        score: f64,
        also: impl FnOnce(&mut PreemptionCandidate),
    ) -> TestCluster {
        let mut candidate = PreemptionCandidate {
            started: Time(started * 1000),
            score: Some(score),
            rerunnable: true,
            processors: 1,
            can_stop: true,
            ..PreemptionCandidate::default()
        };
        also(&mut candidate);
        self.state.set_candidate(id, candidate);
        self
    }

    /// Adds a suspended job that ran on these nodes from second 0 to second `since`, has released
    /// its CPUs, and waits to resume. `score` is its priority at its start. Its preemptor is job
    /// 99.
    pub fn suspended(
        mut self,
        id: u64,
        text: &str,
        nodes: &str,
        since: i64,
        score: f64,
    ) -> TestCluster {
        let mut job = self.job(id, text);
        let chunks = job
            .spec
            .request
            .select
            .chunks
            .iter()
            .flat_map(|c| (0..c.count).map(move |_| c));
        let shares: Vec<NodeShare> = chunks
            .zip(nodes.split(','))
            .map(|(chunk, node)| share_of(chunk, node))
            .collect();
        let manner = SuspendMode::For {
            job: JobId::job(99),
            releases: vec!["ncpus".to_string()],
        };
        let by = "Scheduler@porch".to_string();
        for (at, event) in [
            (
                0,
                Event::Started {
                    attempt: 1,
                    shares,
                    score: Some(score),
                    extra: false,
                },
            ),
            (
                0,
                Event::Launched {
                    attempt: 1,
                    session: 1,
                    boot: "b".to_string(),
                },
            ),
            (
                since,
                Event::SuspendWanted {
                    by,
                    attempt: 1,
                    manner,
                },
            ),
            (since, Event::Suspended { attempt: 1 }),
        ] {
            job.apply(&event, moment(at));
        }
        self.state
            .make(&Change::of(job.id, Some(&job), &self.policy));
        self
    }

    /// The jobs that a cycle resumes, with nodes, CPU numbers, and end in seconds:
    /// `"1 on n1 with 0,1 until 60"`.
    pub fn resumes(&self) -> String {
        let resumes = self.plan().resumes.into_iter().map(|resume| {
            let nodes: Vec<&str> = resume
                .shares
                .iter()
                .map(|share| share.node.as_str())
                .collect();
            let cpus: Vec<String> = resume
                .shares
                .iter()
                .flat_map(|share| &share.cpus)
                .map(u16::to_string)
                .collect();
            let until = resume.until.0 / 1000;
            format!(
                "{} on {} with {} until {until}",
                resume.job,
                nodes.join(","),
                cpus.join(",")
            )
        });
        resumes.collect::<Vec<_>>().join("; ")
    }

    /// Marks subjobs of a waiting array as started, without giving them nodes: those from position
    /// `first` to position `last`, inclusive.
    pub fn begun(mut self, id: u64, first: u32, last: u32) -> TestCluster {
        self.begin(id, first, last);
        self
    }

    fn begin(&mut self, id: u64, first: u32, last: u32) {
        let Some(job) = self.arrays.get_mut(&id) else {
            return;
        };
        let elements = job.elements.as_mut().map(Arc::make_mut);
        elements
            .expect("an array")
            .mark(first, last, SubjobState::Begun);
        self.state.enqueue(job);
    }

    /// Sets the time of the cycle, in seconds.
    pub fn at(mut self, seconds: i64) -> TestCluster {
        self.now = Time(seconds * 1000);
        self
    }

    /// Disables backfill.
    pub fn strictly(mut self) -> TestCluster {
        self.policy.backfill.policy = Filling::None;
        self
    }

    /// Runs a cycle and checks that its plan is consistent.
    pub fn plan(&self) -> Plan {
        let plan = cycle::run(&self.state, &self.policy, self.now);
        assert_eq!(plan.audit(&self.state), Ok(()));
        plan
    }

    /// The nodes of a forced start (`qrun`), or why the start is impossible. `on` limits the nodes,
    /// unless it is empty.
    pub fn forced(&self, id: u64, text: &str, on: &[&str]) -> Result<String, String> {
        let names: BTreeSet<String> = on.iter().map(ToString::to_string).collect();
        let on = Some(&names).filter(|names| !names.is_empty());
        let start = forced::start(&self.state, &self.policy, &self.job(id, text), on, self.now);
        let nodes = |start: Start| {
            start
                .shares
                .iter()
                .map(|share| share.node.clone())
                .collect::<Vec<_>>()
                .join(",")
        };
        start.map(nodes).map_err(|why| why.to_string())
    }

    /// Carries out a plan: stores its planned starts, and starts and resumes its jobs. Does not
    /// preempt jobs.
    pub fn apply(&mut self, plan: &Plan) {
        self.state.take_over(plan);
        for resume in &plan.resumes {
            self.state
                .occupy(resume.job, &resume.shares, resume.exclusive, resume.until);
        }
        for start in &plan.starts {
            let candidate = self.state.future_candidate(&self.policy, start, plan.now);
            self.state
                .occupy(start.job, &start.shares, start.exclusive, start.until);
            candidate
                .into_iter()
                .for_each(|candidate| self.state.set_candidate(start.job, candidate));
            let indices = self.arrays.get(&start.job.number).and_then(Job::indices);
            let position = indices
                .zip(start.job.index())
                .and_then(|(indices, index)| indices.position(index));
            position
                .into_iter()
                .for_each(|position| self.begin(start.job.number, position, position));
        }
    }

    /// The jobs that a cycle starts: `"1 on n1,n1; 3 on n2"`.
    pub fn starts(&self) -> String {
        let plan = self.plan();
        let starts = plan.starts.iter().map(|start| {
            let nodes: Vec<&str> = start
                .shares
                .iter()
                .map(|share| share.node.as_str())
                .collect();
            format!("{} on {}", start.job, nodes.join(","))
        });
        starts.collect::<Vec<_>>().join("; ")
    }

    /// The planned starts of a cycle, with times in seconds: `"2 at 3600 on n1,n2"`.
    pub fn booked(&self) -> String {
        let plan = self.plan();
        let bookings = plan.bookings.iter().map(|b| {
            format!(
                "{} at {} on {}",
                b.job,
                b.at.0 / 1000,
                b.distinct_nodes().join(",")
            )
        });
        bookings.collect::<Vec<_>>().join("; ")
    }

    /// Why this job waits after a cycle; None if its class (the set of jobs that are
    /// interchangeable with it) has no verdict.
    pub fn reason(&self, id: u64) -> Option<Reason> {
        let class = self.classes.get(&id)?;
        self.plan().verdict(self.state.class(*class)?).cloned()
    }

    /// The reason why this job waits after a cycle, as text; empty if its class has no verdict.
    pub fn why(&self, id: u64) -> String {
        self.reason(id)
            .map(|reason| reason.to_string())
            .unwrap_or_default()
    }

    /// A queued job of the current user (`ann`, unless changed by `owned`).
    pub fn job(&self, id: u64, text: &str) -> Job {
        let mut words: BTreeMap<&str, &str> = text
            .split(' ')
            .map(|word| word.split_once('=').expect("'word=value'"))
            .collect();
        let select = words.remove("select").unwrap_or("1:ncpus=1");
        let mut list = ResourceList::new();
        if let Some(walltime) = words.remove("walltime") {
            list.insert(
                "walltime".to_string(),
                ResourceValue::Time(Span::parse(walltime).expect("a walltime")),
            );
        }
        if let Some(amount) = words.remove("site_lic") {
            list.insert(
                "site_lic".to_string(),
                ResourceValue::Long(amount.parse().expect("an amount")),
            );
        }
        if let Some(targets) = words.remove("preempt_targets") {
            list.insert(
                "preempt_targets".to_string(),
                ResourceValue::String(targets.to_string()),
            );
        }
        let mut placement = PlacementRequirements::default();
        for name in placement_requirements::ATTRIBUTES {
            if let Some(text) = words.remove(name) {
                placement.set(name, text).expect("a placement requirement");
            }
        }
        let request = Request {
            list,
            select: self.select(select),
            place: place(words.remove("place").unwrap_or("free")),
            asked: Vec::new(),
        };
        let not_before = words
            .remove("not_before")
            .map(|seconds| Time(seconds.parse::<i64>().expect("seconds") * 1000));
        let failed_on = words
            .remove("failed_on")
            .map_or(BTreeSet::new(), |host| BTreeSet::from([host.to_string()]));
        let rank = words
            .remove("rank")
            .map(|rank| rank.parse().expect("a rank"));
        let qos = words.remove("qos").map(String::from);
        let queue = words.remove("queue").unwrap_or("workq").to_string();
        let array = words
            .remove("array")
            .map(|text| text.split_once('%').unwrap_or((text, "0")));
        let array = array.map(|(indices, most)| {
            (
                indices.parse().expect("indices"),
                most.parse().expect("a limit"),
            )
        });
        let array: Option<(Indices, u32)> = array;
        let expand = words
            .remove("expand")
            .map_or(0, |most| value_syntax::expand(most).expect("a number"));
        assert!(words.is_empty(), "unknown words: {words:?}");
        Job {
            id: if array.is_some() {
                JobId::array(id)
            } else {
                JobId::job(id)
            },
            owner: Owner {
                user: self.user.clone(),
                uid: 1000,
                gid: 1000,
            },
            spec: Arc::new(Spec {
                array: array.map(|(indices, _)| indices),
                max_run_subjobs: array.map(|(_, most)| most),
                expand,
                placement,
                qos,
                ..spec(request, queue)
            }),
            life: Life {
                not_before,
                hosts_to_try: failed_on.len() as u32,
                failed_hosts: failed_on,
                rank,
                ..life()
            },
            elements: array.map(|(indices, _)| Arc::new(Elements::new(indices.count()))),
        }
    }

    fn select(&self, text: &str) -> Select {
        let chunk = |text: &str| {
            let mut words = text.split(':').peekable();
            let count = words
                .next_if(|word| !word.contains('='))
                .map_or(1, |count| count.parse().expect("a count"));
            let mut chunk = Chunk {
                count,
                resources: Vec::new(),
                growing: Vec::new(),
            };
            for word in words {
                let (name, text) = word.split_once('=').expect("'resource=value'");
                let growing = text
                    .parse::<Amount>()
                    .ok()
                    .filter(|amount| !amount.is_exact());
                let least = growing.map_or(word.to_string(), |amount| {
                    format!("{name}={}", amount.least())
                });
                chunk
                    .growing
                    .extend(growing.map(|amount| (name.to_string(), amount)));
                chunk.resources.push(resource(&self.resources, &least));
            }
            chunk
        };
        Select {
            chunks: split_chunks(text).map(chunk).collect(),
            text: text.to_string(),
        }
    }
}

fn resource(resources: &Resources, word: &str) -> (String, ResourceValue) {
    let (name, text) = word.split_once('=').expect("'resource=value'");
    let kind = resources.get(name).expect("a known resource").kind;
    (
        name.to_string(),
        ResourceValue::parse(kind, text).expect("a value of its kind"),
    )
}

/// The report of a node with these resources; CPUs and GPUs are numbered from 0.
fn facts(resources: &Resources, name: &str, host: &str, available: &str) -> NodeFacts {
    let available: ResourceList = available
        .split(':')
        .map(|word| resource(resources, word))
        .collect();
    let count = |name: &str| {
        available
            .get(name)
            .and_then(ResourceValue::amount)
            .unwrap_or(0) as u16
    };
    NodeFacts {
        name: name.to_string(),
        host: host.to_string(),
        pcpus: u32::from(count("ncpus")),
        cpus: (0..count("ncpus")).collect(),
        gpus: (0..count("ngpus")).collect(),
        available,
        ..NodeFacts::default()
    }
}

/// A share of a node on its own host, without resources.
pub fn share(node: &str) -> NodeShare {
    let (node, host) = (node.to_string(), node.to_string());
    NodeShare {
        node,
        host,
        taken: vec![],
        cpus: vec![],
        gpus: vec![],
        mpiprocs: 1,
        pooled: vec![],
        ranks: vec![],
    }
}

fn share_of(chunk: &Chunk, node: &str) -> NodeShare {
    NodeShare {
        taken: chunk.resources.clone(),
        ..share(node)
    }
}

/// An event context at this second, with default rules.
pub fn moment(seconds: i64) -> EventContext {
    let (rules, accrual) = (Default::default(), Default::default());
    EventContext {
        now: Time(seconds * 1000),
        wall: Wall(seconds),
        rules,
        accrual,
        hosts: 1,
        grows: false,
    }
}

/// An account with these shares, below `parent` or at the top of the share tree.
pub fn pool(name: &str, parent: Option<&str>, shares: f64) -> Account {
    let parent = parent.map(str::to_string);
    Account {
        name: name.to_string(),
        parent,
        shares: Shares::Of(shares),
        ..Account::default()
    }
}

fn place(text: &str) -> Place {
    let mut place = Place {
        text: text.to_string(),
        ..Place::default()
    };
    for word in text.split(':') {
        match word {
            "free" => place.arrangement = Arrangement::Free,
            "pack" => place.arrangement = Arrangement::Pack,
            "scatter" => place.arrangement = Arrangement::Scatter,
            "vscatter" => place.arrangement = Arrangement::Vscatter,
            "excl" => place.sharing = Sharing::Excl,
            "exclhost" => place.sharing = Sharing::Exclhost,
            "shared" => place.sharing = Sharing::Shared,
            word => {
                place.group = Some(
                    word.strip_prefix("group=")
                        .expect("a word of place")
                        .to_string(),
                )
            }
        }
    }
    place
}

fn spec(request: Request, queue: String) -> Spec {
    let script = JobProgram::Script(Digest([0; 32]));
    Spec {
        queue,
        request: Arc::new(request),
        submit_host: "porch".to_string(),
        ..Spec::new(script, Digest([0; 32]), Text::from("/home/ann"))
    }
}

fn life() -> Life {
    Life {
        state: JobState::Queued,
        etime: Some(Time(0)),
        eligibility: Eligibility {
            accrues: Accrues::Eligible,
            ..Eligibility::default()
        },
        ..Life::new(Holds::NONE, 0, Time(0))
    }
}
