//! Numbers of jobs and their resources, in total and by user, queue and reason. A waiting or
//! running subjob counts as a job.

use crate::model::account::accounting::RequestedResources;
use crate::model::job::held::Held;
use crate::model::job::state::JobState;
use crate::model::job::{Job, NodeShare};
use crate::model::job_id::JobId;
use crate::model::time::Time;
use crate::wire::message::{JobRecord, NodeRecord};
use std::collections::BTreeMap;

/// Resources, in base units.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Amounts {
    /// Number of processors.
    pub processors: u64,
    /// Memory in bytes.
    pub memory: u64,
    /// Number of GPUs.
    pub gpus: u64,
}

impl Amounts {
    fn add(&mut self, other: Amounts, times: u64) {
        let add = |sum: &mut u64, amount: u64| {
            *sum = sum.saturating_add(amount.saturating_mul(times));
        };
        add(&mut self.processors, other.processors);
        add(&mut self.memory, other.memory);
        add(&mut self.gpus, other.gpus);
    }

    fn held(shares: &[NodeShare]) -> Amounts {
        let held = Held::of(shares);
        Amounts {
            processors: held.cores.into(),
            memory: held.mem_kb.saturating_mul(1024),
            gpus: held.gpus.into(),
        }
    }

    /// The amounts that a job requests, or one subjob of an array.
    fn requested(job: &Job) -> Amounts {
        let requested = RequestedResources::of(&job.spec.request);
        Amounts {
            processors: requested.cores.into(),
            memory: requested.mem_kb.unwrap_or(0).saturating_mul(1024),
            gpus: requested.gpus.into(),
        }
    }
}

/// The states that a summary distinguishes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SummaryState {
    /// The job waits for the scheduler.
    Queued,
    /// A hold or a dependency prevents the start.
    Held,
    /// The job waits for its begin time (`qsub -a`).
    Waiting,
    /// The job runs.
    Running,
    /// The job is suspended.
    Suspended,
}

impl SummaryState {
    /// All states with their names.
    pub const ALL: [(&str, SummaryState); 5] = [
        ("queued", SummaryState::Queued),
        ("held", SummaryState::Held),
        ("waiting", SummaryState::Waiting),
        ("running", SummaryState::Running),
        ("suspended", SummaryState::Suspended),
    ];

    /// The state of a job; None for a finished job.
    fn of(state: JobState) -> Option<SummaryState> {
        match state {
            // The waiting subjobs of a begun array wait for the scheduler.
            JobState::Queued | JobState::Begun => Some(SummaryState::Queued),
            JobState::Held => Some(SummaryState::Held),
            JobState::Waiting => Some(SummaryState::Waiting),
            JobState::Running => Some(SummaryState::Running),
            JobState::Suspended => Some(SummaryState::Suspended),
            JobState::Expired | JobState::Finished => None,
        }
    }
}

/// The jobs of a user, of a queue or of all, by state.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JobTotals {
    /// Number of jobs in each state that occurs.
    pub jobs: BTreeMap<SummaryState, u64>,
    /// Resources that running jobs hold.
    pub running: Amounts,
    /// Resources that queued jobs request.
    pub waiting: Amounts,
}

impl JobTotals {
    /// Number of jobs in a state.
    pub fn count(&self, state: SummaryState) -> u64 {
        self.jobs.get(&state).copied().unwrap_or(0)
    }

    /// Number of all jobs.
    pub fn all(&self) -> u64 {
        self.jobs.values().sum()
    }

    fn add(&mut self, state: SummaryState, count: u64, amounts: Amounts) {
        if count == 0 {
            return;
        }
        *self.jobs.entry(state).or_default() += count;
        match state {
            SummaryState::Running => self.running.add(amounts, count),
            SummaryState::Queued => self.waiting.add(amounts, count),
            SummaryState::Held | SummaryState::Waiting | SummaryState::Suspended => {}
        }
    }

    /// Adds the jobs of `other`.
    pub fn merge(&mut self, other: &JobTotals) {
        for (state, count) in &other.jobs {
            *self.jobs.entry(*state).or_default() += count;
        }
        self.running.add(other.running, 1);
        self.waiting.add(other.waiting, 1);
    }
}

/// The unfinished jobs of an installation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JobSummary {
    /// All jobs.
    pub total: JobTotals,
    /// Jobs by owner.
    pub users: BTreeMap<String, JobTotals>,
    /// Jobs by queue.
    pub queues: BTreeMap<String, JobTotals>,
    /// Number of queued jobs by the code of the reason that blocks them. A job that the scheduler
    /// has not considered yet has the empty code.
    pub reasons: BTreeMap<String, u64>,
    /// Time since when the oldest queued job is eligible to start.
    pub oldest: Option<Time>,
}

/// Counts jobs one by one, so that a caller need not keep the records of all jobs.
pub struct JobCounter {
    summary: JobSummary,
    subjobs: RunningSubjobs,
}

impl JobCounter {
    /// Starts with no jobs. `nodes` are the nodes with their running subjobs.
    pub fn new(nodes: &[NodeRecord]) -> JobCounter {
        JobCounter {
            summary: JobSummary::default(),
            subjobs: running_subjobs(nodes),
        }
    }

    /// Adds a job, or an array with its running subjobs.
    pub fn add(&mut self, record: &JobRecord) {
        self.summary.add_record(record);
        let job = &record.job;
        for shares in self.subjobs.remove(&job.id).into_iter().flatten() {
            let held = Amounts::held(&shares);
            self.summary.add(job, SummaryState::Running, 1, held);
        }
    }

    /// The summary of the added jobs.
    pub fn end(self) -> JobSummary {
        self.summary
    }
}

impl JobSummary {
    /// Summarizes jobs and arrays (`records`, without subjobs) and the subjobs that run on `nodes`.
    pub fn of<'a>(
        records: impl IntoIterator<Item = &'a JobRecord>,
        nodes: &[NodeRecord],
    ) -> JobSummary {
        let mut counter = JobCounter::new(nodes);
        records.into_iter().for_each(|record| counter.add(record));
        counter.end()
    }

    fn add_record(&mut self, record: &JobRecord) {
        let job = &record.job;
        let Some(state) = SummaryState::of(job.life.state) else {
            return;
        };
        let (count, amounts) = match (&job.elements, state) {
            (Some(elements), _) => {
                let waiting = u64::from(elements.counts().waiting);
                let count = waiting + u64::from(record.waiting_again);
                (count, Amounts::requested(job))
            }
            (None, SummaryState::Running) => {
                let run = job.life.open_run();
                let held = run.map(|run| Amounts::held(&run.shares));
                (1, held.unwrap_or_default())
            }
            (None, _) => (1, Amounts::requested(job)),
        };
        self.add(job, state, count, amounts);
        if state == SummaryState::Queued && count > 0 {
            let code = record
                .reason
                .as_ref()
                .map(|reason| reason.code().to_string());
            *self.reasons.entry(code.unwrap_or_default()).or_default() += count;
            let since = job.life.etime.unwrap_or(job.life.qtime);
            self.oldest = Some(self.oldest.map_or(since, |oldest| oldest.min(since)));
        }
    }

    fn add(&mut self, job: &Job, state: SummaryState, count: u64, amounts: Amounts) {
        let user = self.users.entry(job.owner.user.clone()).or_default();
        let queue = self.queues.entry(job.spec.queue.clone()).or_default();
        for totals in [&mut self.total, user, queue] {
            totals.add(state, count, amounts);
        }
    }

    /// The users with the most jobs, up to `count`, by name, and the sum of all other users; None
    /// if there are no others.
    pub fn largest_users(&self, count: usize) -> (Vec<(&str, &JobTotals)>, Option<JobTotals>) {
        let mut users: Vec<(&str, &JobTotals)> = self
            .users
            .iter()
            .map(|(user, totals)| (user.as_str(), totals))
            .collect();
        users.sort_by_key(|(user, totals)| (std::cmp::Reverse(totals.all()), *user));
        let others = users.split_off(count.min(users.len()));
        users.sort_by_key(|(user, _)| *user);
        let mut sum = JobTotals::default();
        others.iter().for_each(|(_, totals)| sum.merge(totals));
        (users, (!others.is_empty()).then_some(sum))
    }
}

/// For each array, the shares of each of its running subjobs.
type RunningSubjobs = BTreeMap<JobId, Vec<Vec<NodeShare>>>;

fn running_subjobs(nodes: &[NodeRecord]) -> RunningSubjobs {
    let mut subjobs: BTreeMap<JobId, Vec<NodeShare>> = BTreeMap::new();
    for (job, share) in nodes.iter().flat_map(|record| &record.jobs) {
        if job.index().is_some() {
            subjobs.entry(*job).or_default().push(share.clone());
        }
    }
    let mut arrays = RunningSubjobs::new();
    for (subjob, shares) in subjobs {
        if let Some(array) = subjob.parent() {
            arrays.entry(array).or_default().push(shares);
        }
    }
    arrays
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::example::{array, finished, node, queued, running, share};
    use crate::model::reason::Reason;
    use std::sync::Arc;

    fn of_user(mut record: JobRecord, user: &str) -> JobRecord {
        record.job.owner.user = user.into();
        record
    }

    #[test]
    fn subjobs_count_as_jobs_and_finished_jobs_do_not() {
        let mut begun = array(queued(3, "c", "ncpus=2 mem=1gb"), "0-9");
        begun.job.life.state = JobState::Begun;
        let mut elements = (**begun.job.elements.as_ref().unwrap()).clone();
        elements.mark(0, 2, crate::model::job::array::SubjobState::Begun);
        begun.job.elements = Some(Arc::new(elements));
        begun.waiting_again = 1;
        begun.reason = Some(Reason::QueueStopped);
        let mut host = node("n1", "n1");
        host.jobs = [0, 1]
            .map(|index| (JobId::element(3, index), share(2, Some("1gb"))))
            .to_vec();
        let records = [
            of_user(queued(1, "a", "ncpus=4"), "bob"),
            running(queued(2, "b", "ncpus=1"), vec![share(1, None)]),
            begun,
            finished(queued(4, "d", ""), 0, false),
        ];
        let summary = JobSummary::of(&records, &[host]);
        let of_alice = &summary.users["alice"];
        assert_eq!(of_alice.count(SummaryState::Queued), 8);
        assert_eq!(of_alice.waiting.processors, 16);
        assert_eq!(of_alice.count(SummaryState::Running), 3);
        assert_eq!(summary.users["bob"].count(SummaryState::Queued), 1);
        assert_eq!(summary.total.waiting.processors, 20);
        assert_eq!(summary.total.waiting.memory, 8 << 30);
        assert_eq!(summary.total.all(), 12);
        assert_eq!(summary.queues["workq"].all(), 12);
        assert_eq!(summary.reasons.values().sum::<u64>(), 9);
    }

    #[test]
    fn users_beyond_the_maximum_are_added_up() {
        let user = |id, user: &str| of_user(queued(id, "a", "ncpus=1"), user);
        let records = [
            user(1, "ann"),
            user(2, "bob"),
            user(3, "bob"),
            user(4, "carl"),
        ];
        let summary = JobSummary::of(&records, &[]);
        let (users, others) = summary.largest_users(2);
        let names: Vec<&str> = users.iter().map(|(user, _)| *user).collect();
        assert_eq!(names, ["ann", "bob"]);
        assert_eq!(others.unwrap().all(), 1);
        assert_eq!(summary.largest_users(3).1, None);
    }
}
