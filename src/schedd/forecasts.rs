//! Forecast queries, such as `qstat --start`: the event loop's part of the work, before a reader
//! thread computes the answer.

use crate::model::job::state::JobState;
use crate::model::job::{Digest, Job, Life};
use crate::model::job_id::JobId;
use crate::model::refusal::Refusal;
use crate::model::report::outlook::{Explanation, Overtaker};
use crate::model::system_resource::PoolUse;
use crate::schedd::clients::readers;
use crate::schedd::clients::snapshot::ForecastTask;
use crate::schedd::clients::snapshot::SnapshotQuery;
use crate::schedd::programs::resource_poller::ResourcePoller;
use crate::schedd::state::Schedd;
use crate::server::caller::Caller;
use crate::server::effects::Token;
use crate::server::request_context::RequestContext;
use crate::server::state::ServerState;
use crate::spool::Spool;
use crate::sys::clock::monotonic;
use crate::wire::ahead::ForecastQuery;
use crate::wire::message::{NewJob, Reply, StoredScript};
use std::cmp::Reverse;
use std::os::unix::net::UnixStream;
use std::sync::Arc;

/// Maximum number of jobs that a query can name.
const MAX_JOBS: usize = 1000;

impl Schedd {
    /// Starts the work on a forecast query of a client.
    pub(super) fn answer_forecast(&mut self, token: Token, query: ForecastQuery) {
        if let Some((stream, caller)) = self.clients.detach(token) {
            self.start_forecast(stream, caller, query);
        }
    }

    /// If the time to try again has come, tries again to answer the queries that wait for a newer
    /// snapshot. Snapshots are limited in rate and number.
    pub(super) fn retry_forecasts(&mut self) {
        let now = monotonic();
        self.snapshots.expire(now);
        if self
            .waiting_forecasts
            .due
            .take_if(|due| *due <= now)
            .is_some()
        {
            for (stream, caller, query) in std::mem::take(&mut self.waiting_forecasts.questions) {
                self.start_forecast(stream, caller, query);
            }
        }
    }

    fn start_forecast(&mut self, stream: UnixStream, caller: Caller, query: ForecastQuery) {
        if number_of_jobs(&query) > MAX_JOBS {
            return self.refuse_forecast(stream, caller, &Refusal::too_many_jobs(MAX_JOBS));
        }
        let snapshot = match self
            .snapshots
            .of_revision(self.revision, &self.server, monotonic())
        {
            Ok(snapshot) => snapshot,
            Err(_) if self.waiting_forecasts.is_full_for(&caller) => {
                return self.refuse_forecast(stream, caller, &Refusal::spool(readers::BUSY));
            }
            Err(due) => {
                self.waiting_forecasts.due = Some(due);
                self.waiting_forecasts
                    .questions
                    .push((stream, caller, query));
                return;
            }
        };
        match task(
            &mut self.server,
            &self.resource_poller,
            &self.spool,
            &caller,
            query,
        ) {
            Ok(task) => self
                .readers
                .forecast(stream, caller, ForecastTask { snapshot, task }),
            Err(refusal) => self.refuse_forecast(stream, caller, &refusal),
        }
    }

    fn refuse_forecast(&mut self, stream: UnixStream, caller: Caller, refusal: &Refusal) {
        let token = self.clients.reattach(stream, caller);
        token
            .into_iter()
            .for_each(|token| self.clients.answer(token, &Reply::Refused(refusal.clone())));
    }
}

/// Number of jobs that a query names.
fn number_of_jobs(query: &ForecastQuery) -> usize {
    match query {
        ForecastQuery::Starts(jobs) | ForecastQuery::Places(jobs) | ForecastQuery::Scores(jobs) => {
            jobs.len()
        }
        ForecastQuery::Why(_) => 1,
        ForecastQuery::Windows(_) | ForecastQuery::Trial(_) | ForecastQuery::Usage => 0,
        ForecastQuery::Queue(_)
        | ForecastQuery::Shares
        | ForecastQuery::Limits
        | ForecastQuery::Resources => 0,
    }
}

fn task(
    server: &mut ServerState,
    resource_poller: &ResourcePoller,
    spool: &Spool,
    caller: &Caller,
    query: ForecastQuery,
) -> Result<SnapshotQuery, Refusal> {
    Ok(match query {
        ForecastQuery::Starts(jobs) => SnapshotQuery::Starts(jobs.into_iter().collect()),
        ForecastQuery::Why(job) => match released(server, job) {
            Some(released) => SnapshotQuery::Released(Box::new(released)),
            None => SnapshotQuery::Why(job, overtakers(server, job)),
        },
        ForecastQuery::Usage => SnapshotQuery::Usage,
        ForecastQuery::Places(jobs) => SnapshotQuery::Places(jobs),
        ForecastQuery::Queue(most) => SnapshotQuery::Queue(most),
        ForecastQuery::Scores(jobs) => SnapshotQuery::Scores(jobs),
        ForecastQuery::Shares => SnapshotQuery::Shares,
        ForecastQuery::Limits => {
            SnapshotQuery::Limits(server.counted(), Arc::new(server.setup.resources.clone()))
        }
        ForecastQuery::Resources => SnapshotQuery::Resources(pools(server, resource_poller)),
        ForecastQuery::Windows(submission) => {
            let (job, _) = trial_job(
                &RequestContext {
                    server,
                    history: spool,
                    caller,
                },
                &submission,
            )?;
            SnapshotQuery::Windows(Box::new(job))
        }
        ForecastQuery::Trial(mut submission) => {
            remove_script(&mut submission);
            let context = RequestContext {
                server,
                history: spool,
                caller,
            };
            context.job_owner()?;
            let (job, held) = trial_job(&context, &submission)?;
            context.server.refuse_impossible(&job)?;
            SnapshotQuery::Trial(Box::new(job), held)
        }
    })
}

/// Replaces the script of a trial submission by its size. This saves hashing the script in the
/// event loop.
fn remove_script(submission: &mut NewJob) {
    if let Some(size) = submission.script_size() {
        submission.stored = Some(Arc::new(StoredScript {
            digest: Digest([0; 32]),
            size,
        }));
    }
}

/// The system-wide resources with their reported amounts. The usage by jobs is added later, from
/// the snapshot.
fn pools(server: &ServerState, resource_poller: &ResourcePoller) -> Vec<PoolUse> {
    let config = &server.setup.config;
    let mut pools = Vec::new();
    for (name, pool) in &config.pools {
        let reported = server.reported(name).cloned();
        let is_metered = config.meters.iter().any(|(meter, _)| meter == name);
        pools.push(PoolUse {
            name: name.clone(),
            pool: pool.with_reported_counts(reported.as_ref()),
            is_license: is_metered || reported.is_some(),
            jobs: 0,
            reported,
            fault: resource_poller.fault(name).map(String::from),
        });
    }
    pools
}

/// The job that a submission would create, with its begin time, if any. The job is in state queued
/// even if it would be held. The flag is true if it would be held.
fn trial_job(context: &RequestContext, submission: &NewJob) -> Result<(Job, bool), Refusal> {
    let owner = context.caller.owner.clone();
    let (draft, dependencies) = context.draft(&owner, submission)?;
    let elements = context.new_subjobs(&draft.spec)?;
    let (server, number) = (&context.server, context.server.next_number());
    let held = !draft.holds.is_none() || !dependencies.bars().are_open();
    let mut life = Life::new(draft.holds, draft.run_count, server.now);
    life.state = JobState::Queued;
    life.not_before = draft
        .spec
        .begin
        .map(|begin| server.clock().table().time(begin));
    let id = if elements.is_some() {
        JobId::array(number)
    } else {
        JobId::job(number)
    };
    Ok((
        Job {
            id,
            owner,
            spec: Arc::new(draft.spec),
            life,
            elements,
        },
        held,
    ))
}

/// A copy of a held job as if it were queued; None if the job is not held.
fn released(server: &ServerState, id: JobId) -> Option<Job> {
    let mut job = server
        .known(id)
        .filter(|job| job.life.state == JobState::Held)
        .map(|job| Job::clone(&job))?;
    let begin = job
        .spec
        .begin
        .map(|begin| server.clock().table().time(begin));
    job.life.state = JobState::Queued;
    job.life.not_before = begin.filter(|begin| *begin > server.now);
    Some(job)
}

/// The running and suspended jobs that are behind a job in the queue and started after the job
/// became eligible. The latest start comes first, and at most [`Explanation::MOST`] are listed
/// (I9).
fn overtakers(server: &ServerState, id: JobId) -> Vec<Overtaker> {
    let Some((job, since)) = server
        .known(id)
        .and_then(|job| job.life.etime.map(|since| (job, since)))
    else {
        return Vec::new();
    };
    let place = (job.rank(), job.id.number);
    let passed = |other: &Arc<Job>| {
        let run = other.life.open_run().filter(|run| run.started > since)?;
        let walltime = other
            .spec
            .walltime()
            .unwrap_or(server.setup.policy.default_walltime);
        let end = run.until(walltime, server.now);
        let came_later = (other.rank(), other.id.number) > place;
        came_later.then_some(Overtaker {
            job: other.id,
            started: run.started,
            end,
        })
    };
    let mut overtakers: Vec<Overtaker> = server.holders().filter_map(passed).collect();
    overtakers.sort_by_key(|overtaker| (Reverse(overtaker.started), overtaker.job));
    overtakers.truncate(Explanation::MOST);
    overtakers
}
