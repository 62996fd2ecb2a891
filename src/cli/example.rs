//! Example records for the tests of the commands' output.

use super::client::exit::Failure;
use super::client::query::{Ask, TakePart};
use super::client::source::Answers;
use crate::model::job::array::{Elements, Indices};
use crate::model::job::state::{Holds, JobState};
use crate::model::job::{Digest, Exit, Job, JobProgram, Life, NodeShare, Owner, Run, Spec, Usage};
use crate::model::job_id::JobId;
use crate::model::node::{Node, NodeFacts};
use crate::model::queue::Queue;
use crate::model::request::select::Request;
use crate::model::resource::{ResourceList, ResourceValue, Resources, Size};
use crate::model::time::{ClockTable, Span, Time, Wall};
use crate::wire::message::{
    Arrays, ClientAnswer, Detail, Filter, History, JobRecord, JobRow, NodeRecord, Question,
    QueueCounts, ServerFacts,
};
use std::sync::Arc;

/// The submission time of the examples.
pub const SUBMITTED: Time = Time(1_700_000_000_000);

/// The current time of the examples.
pub const NOW: Wall = Wall(1_700_000_300);

/// The server `head`.
pub fn server() -> ServerFacts {
    ServerFacts {
        name: "head".into(),
        host: "head".into(),
        version: "23.06.06".into(),
        default_queue: Some("workq".into()),
        comment: None,
        query_other_jobs: true,
        default_qsub_arguments: String::new(),
        clock: ClockTable::default(),
        now: Time(1000 * NOW.0),
        resources: Resources::builtin(),
        managers: vec!["root@head".into()],
        operators: vec![],
        privileged: true,
        history: true,
        scheduling: true,
        fair_shares: Vec::new(),
        has_scores: false,
    }
}

/// Parses resources, separated by blanks: `walltime=01:00:00 mem=512mb ncpus=2`.
pub fn resources(list: &str) -> ResourceList {
    let value = |name: &str, text: &str| {
        ResourceValue::parse(Resources::builtin().get(name).unwrap().kind, text).unwrap()
    };
    let pairs = list
        .split_whitespace()
        .map(|pair| pair.split_once('=').unwrap());
    pairs
        .map(|(name, text)| (name.to_string(), value(name, text)))
        .collect()
}

fn spec(name: &str, list: &str) -> Spec {
    let script = JobProgram::Script(Digest([0; 32]));
    Spec {
        name: name.into(),
        queue: "workq".into(),
        request: Arc::new(Request {
            list: resources(list),
            ..Request::default()
        }),
        submit_host: "head".into(),
        arguments: "job.sh".into(),
        ..Spec::new(script, Digest([0; 32]), "/home/alice/w".into())
    }
}

/// A queued job of user alice.
pub fn queued(id: u64, name: &str, list: &str) -> JobRecord {
    let life = Life {
        state: JobState::Queued,
        etime: Some(SUBMITTED),
        ..Life::new(Holds::NONE, 0, SUBMITTED)
    };
    let owner = Owner {
        user: "alice".into(),
        uid: 1000,
        gid: 1000,
    };
    let job = Job {
        id: JobId::job(id),
        owner,
        spec: Arc::new(spec(name, list)),
        life,
        elements: None,
    };
    JobRecord {
        job,
        reason: None,
        never_since: None,
        promise: None,
        waiting_again: 0,
        environ: None,
        links: vec![],
        score: None,
    }
}

/// An allocation on node `head`.
pub fn share(ncpus: i64, mem: Option<&str>) -> NodeShare {
    let mem = mem.map(|text| {
        (
            "mem".to_string(),
            ResourceValue::Size(Size::parse(text).unwrap()),
        )
    });
    let taken = std::iter::once(("ncpus".to_string(), ResourceValue::Long(ncpus)))
        .chain(mem)
        .collect();
    NodeShare {
        node: "head".into(),
        host: "head".into(),
        taken,
        cpus: vec![],
        gpus: vec![],
        mpiprocs: 1,
        pooled: vec![],
        ranks: vec![],
    }
}

/// The job, running on `shares` for 301 seconds.
pub fn running(mut record: JobRecord, shares: Vec<NodeShare>) -> JobRecord {
    let life = &mut record.job.life;
    let ncpus = shares
        .iter()
        .map(|share| crate::shown::exec_host::processors(share) as u32)
        .sum();
    life.state = JobState::Running;
    life.run_count = 1;
    let run = Run {
        session: Some(4711),
        ..Run::new(1, shares, SUBMITTED)
    };
    life.run = Some(run);
    life.used = Usage {
        walltime: Span::seconds(301),
        cput: Span::seconds(295),
        mem_kb: 5952,
        vmem_kb: 9032,
        ncpus,
    };
    record
}

/// The running job, finished with this exit status after 301 seconds.
pub fn finished(mut record: JobRecord, status: i32, deleted: bool) -> JobRecord {
    let life = &mut record.job.life;
    life.state = JobState::Finished;
    life.exit = Some(Exit { status, deleted });
    life.obittime = Some(SUBMITTED + Span::seconds(301));
    record
}

/// The job with a changed specification.
pub fn with(mut record: JobRecord, change: impl FnOnce(&mut Spec)) -> JobRecord {
    let mut spec = (*record.job.spec).clone();
    change(&mut spec);
    record.job.spec = Arc::new(spec);
    record
}

/// A node of 4 processors and 8 GB.
pub fn node(name: &str, host: &str) -> NodeRecord {
    let mut available = resources("arch=linux mem=8gb ncpus=4");
    available.insert("host".into(), ResourceValue::String(host.into()));
    available.insert("vnode".into(), ResourceValue::String(name.into()));
    let facts = NodeFacts {
        name: name.into(),
        host: host.into(),
        available,
        pcpus: 4,
        cpus: vec![],
        gpus: vec![],
        ..NodeFacts::default()
    };
    let node = Node::new(facts, "b".into(), SUBMITTED);
    NodeRecord {
        node,
        jobs: vec![],
        exclusive: false,
        reservations: vec![],
        reserved: false,
    }
}

/// A simplified substitute for schedd that answers questions.
#[derive(Default)]
pub struct System {
    pub jobs: Vec<JobRecord>,
    pub nodes: Vec<NodeRecord>,
}

impl System {
    /// Returns a function that answers a question in parts. Each job is a part of its own.
    pub fn feed(&self) -> impl FnMut(&Question, &mut TakePart) -> Result<(), Failure> + '_ {
        |question, part| {
            let answers = self.answer(question);
            part(ClientAnswer::Server(Box::new(answers.server)))?;
            answers
                .rows
                .into_iter()
                .try_for_each(|row| part(ClientAnswer::Rows(vec![row])))?;
            answers
                .jobs
                .into_iter()
                .try_for_each(|record| part(ClientAnswer::Jobs(vec![record])))?;
            part(ClientAnswer::Queues(answers.queues))?;
            part(ClientAnswer::Nodes(answers.nodes))
        }
    }

    /// Returns a function that answers a question.
    pub fn ask(&self) -> impl FnMut(&Question) -> Result<Answers, Failure> + '_ {
        |question| Ok(self.answer(question))
    }

    fn answer(&self, question: &Question) -> Answers {
        let mut answers = Answers::from(server());
        match question {
            Question::JobsById(ids, detail) => {
                add_found(
                    &mut answers,
                    *detail,
                    ids.iter().filter_map(|id| self.named(*id)),
                );
            }
            Question::Jobs(filter, detail) => {
                add_found(
                    &mut answers,
                    *detail,
                    self.jobs
                        .iter()
                        .filter(|record| meets(filter, record))
                        .cloned(),
                );
            }
            Question::Elements(id, only, detail) => {
                add_found(&mut answers, *detail, self.elements(*id, *only))
            }
            Question::Queues => answers.queues = vec![self.queue()],
            Question::Nodes => answers.nodes = self.nodes.clone(),
            Question::Trace(id) => {
                add_found(&mut answers, Detail::Whole, self.named(*id).into_iter())
            }
            Question::Server | Question::Reservations | Question::Ahead(_) | Question::Objects => {}
            Question::Accounts(..)
            | Question::Entries(..)
            | Question::Cycles
            | Question::Offer { .. } => {}
        }
        answers
    }

    /// Finds a job, or a subjob, even if only its array has a record.
    fn named(&self, id: JobId) -> Option<JobRecord> {
        let own = self.jobs.iter().find(|record| record.job.id == id).cloned();
        let array = id.parent().and_then(|array| self.named(array));
        let element = || {
            Some(JobRecord {
                job: array.as_ref()?.job.subjob_without_record(id.index()?)?,
                ..array.clone()?
            })
        };
        own.or_else(element)
    }

    fn elements(&self, id: JobId, only: Option<Indices>) -> impl Iterator<Item = JobRecord> {
        let all = self.named(id).and_then(|record| record.job.indices());
        let wanted = all.and_then(|all| only.map_or(Some(all), |only| all.common(only)));
        let ids = wanted
            .into_iter()
            .flat_map(Indices::iter)
            .map(move |index| JobId::element(id.number, index));
        ids.filter_map(|id| self.named(id))
    }

    /// The queue `workq`.
    pub fn queue(&self) -> QueueCounts {
        let count = |state| {
            (
                state,
                self.jobs
                    .iter()
                    .filter(|record| record.job.life.state == state)
                    .count() as u64,
            )
        };
        let states = [
            JobState::Queued,
            JobState::Held,
            JobState::Waiting,
            JobState::Running,
            JobState::Begun,
            JobState::Finished,
        ];
        QueueCounts {
            queue: Queue::named("workq"),
            jobs: states.map(count).to_vec(),
            elements: 0,
            assigned: vec![("mem".into(), 512 << 20), ("ncpus".into(), 2)],
        }
    }
}

fn add_found(answers: &mut Answers, detail: Detail, found: impl Iterator<Item = JobRecord>) {
    match detail {
        Detail::Row => answers.rows = found.map(|record| row(&record)).collect(),
        Detail::Whole => {
            answers.jobs = found
                .map(|record| JobRecord {
                    environ: None,
                    ..record
                })
                .collect()
        }
        Detail::Environment => answers.jobs = found.collect(),
    }
}

/// The job as an array with these indices; no subjob has started.
pub fn array(record: JobRecord, indices: &str) -> JobRecord {
    let indices: Indices = indices.parse().unwrap();
    let mut record = with(record, |spec| spec.array = Some(indices));
    record.job.id = JobId::array(record.job.id.number);
    record.job.elements = Some(Arc::new(Elements::new(indices.count())));
    record
}

fn meets(filter: &Filter, record: &JobRecord) -> bool {
    let (job, state) = (&record.job, record.job.life.state);
    let history = match filter.history {
        History::All => true,
        History::Live => state != JobState::Finished,
        History::Finished => state == JobState::Finished,
    };
    let arrays = !matches!(filter.arrays, Arrays::Only | Arrays::ElementsOnly) || job.id.is_array();
    history
        && arrays
        && (filter.queues.is_empty() || filter.queues.contains(&job.spec.queue))
        && (filter.owners.is_empty() || filter.owners.contains(&job.owner.user))
        && (filter.states.is_empty() || filter.states.contains(&state))
}

fn row(record: &JobRecord) -> JobRow {
    let job = &record.job;
    JobRow {
        id: job.id,
        name: job.spec.name.clone(),
        owner: job.owner.user.clone(),
        cput: job.life.run.is_some().then_some(job.life.used.cput),
        state: job.life.state,
        queue: job.spec.queue.clone(),
    }
}

/// Parses words as the command line of a command. `_` represents a blank in a word.
pub fn parse<T: clap::FromArgMatches>(
    command: fn() -> clap::Command,
    words: &str,
) -> Result<T, Failure> {
    let words = words
        .split_whitespace()
        .map(|word| word.replace('_', " ").trim().to_string().into());
    let matches = super::arguments::getopt::matches(&mut command(), words)?;
    Ok(T::from_arg_matches(&matches).unwrap())
}

/// Checks that a [`System`] can replace a query source as [`Ask`].
#[test]
fn a_system_answers_questions_of_commands() {
    let system = System {
        jobs: vec![queued(1, "a", "")],
        nodes: vec![],
    };
    let mut source = system.ask();
    let ask: &mut Ask = &mut source;
    assert_eq!(
        ask(&Question::Jobs(Filter::default(), Detail::Row))
            .unwrap()
            .rows
            .len(),
        1
    );
}
