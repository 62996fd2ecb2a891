//! Requests that move a job to another queue (qmove), swap two jobs (qorder), write a message to a
//! job (qmsg), retry a deferred job (qalter --shove) or start a job at once (qrun).

use crate::model::admission::elsewhere;
use crate::model::attribute;
use crate::model::job::Job;
use crate::model::job::Run;
use crate::model::job::Spec;
use crate::model::job::event::Event;
use crate::model::job::state::JobState;
use crate::model::job_id::JobId;
use crate::model::policy::PriorityOrder as Precedes;
use crate::model::queue::counters::EnteringJob;
use crate::model::reason::Reason;
use crate::model::refusal::Refusal;
use crate::model::text::Text;
use crate::sched::cycle::forced;
use crate::sched::view::change::is_candidate;
use crate::sched::view::plan::Start;
use crate::server::granted::Granted;
use crate::server::node_reports;
use crate::server::request_context::RequestContext;
use crate::server::routing;
use crate::wire::message::Placing;
use crate::wire::order::ScheddOrder;
use std::collections::BTreeSet;
use std::iter;
use std::sync::Arc;

/// Maximum length of a message to a job, in bytes. The message must fit into one order to the
/// shepherd, the process that runs the job.
pub const LONGEST_MESSAGE: usize = 1024;

impl RequestContext<'_> {
    /// `qmove`: moves an unstarted job to another queue of this server; with an empty destination,
    /// to the default queue.
    pub(crate) fn move_job(&mut self, id: JobId, destination: &str) -> Result<Granted, Refusal> {
        let job = self.whole_unstarted(id)?;
        let setup = &self.server.setup;
        let named = attribute::destination(destination, &setup.name)?;
        let name = if named.is_empty() {
            setup.config.server.default_queue.clone()
        } else {
            named
        };
        self.keep_quality(&job, &name)?;
        let entered = self.admit_to_queue(
            EnteringJob::Known(id),
            &job.owner,
            &elsewhere(&job.spec, &name),
            job.life.state,
        )?;
        if entered.spec.queue != job.spec.queue {
            routing::put_into(self.server, id, entered.spec, self.caller.shown());
        }
        Ok(entered
            .notes
            .into_iter()
            .next()
            .map_or(Granted::Done, Granted::Noted))
    }

    /// `qorder`: swaps the queue positions of two jobs, and their queues if these differ.
    pub(crate) fn swap(&mut self, one: JobId, other: JobId) -> Result<Granted, Refusal> {
        let (first, second) = (self.whole_unstarted(one)?, self.whole_unstarted(other)?);
        if one == other {
            return Ok(Granted::Done);
        }
        let ineffective_swap = if first.spec.queue == second.spec.queue {
            self.ineffective_swap(one, other)
        } else {
            None
        };
        let (of_one, of_other) = (
            self.swapped_spec(&first, &second)?,
            self.swapped_spec(&second, &first)?,
        );
        self.apply_swap(one, &second, of_one);
        self.apply_swap(other, &first, of_other);
        Ok(ineffective_swap.map_or(Granted::Done, Granted::Noted))
    }

    /// The warning if swapping two jobs does not change which job starts first (X18).
    fn ineffective_swap(&self, one: JobId, other: JobId) -> Option<String> {
        let setup = &self.server.setup;
        let first = self
            .server
            .cluster()
            .higher_priority(&setup.policy, one, other)?;
        let order = setup.policy.precedence.order;
        let (id, by) = (first.full(&setup.name), order.name());
        let help = match order {
            Precedes::Multifactor => {
                format!("; qalter --user-factor=0.5 {id} lowers this priority")
            }
            Precedes::Cluster | Precedes::Priority => {
                "; qalter -p changes the priority".to_string()
            }
            _ => String::new(),
        };
        Some(format!(
            "warning: {id} still starts first: with [order] by = \"{by}\", {id} has the higher \
             priority, and qorder affects only jobs of equal priority (qstat --priority){help}"
        ))
    }

    /// The spec of a job after a swap with `other`: the job moves to the queue of `other`.
    fn swapped_spec(&self, job: &Job, other: &Job) -> Result<Spec, Refusal> {
        if job.spec.queue == other.spec.queue {
            return Ok(Spec::clone(&job.spec));
        }
        self.keep_quality(job, &other.spec.queue)?;
        let spec = elsewhere(&job.spec, &other.spec.queue);
        Ok(self
            .admit_to_queue(
                EnteringJob::InPlaceOf {
                    own: job.id,
                    other: other.id,
                },
                &job.owner,
                &spec,
                job.life.state,
            )?
            .spec)
    }

    fn apply_swap(&mut self, id: JobId, other: &Job, spec: Spec) {
        self.server.change(id, |job| {
            job.life.rank = Some(other.own_rank());
            job.spec = Arc::new(spec);
        });
        self.server.apply_event(
            id,
            Event::Reordered {
                by: self.caller.shown(),
                with: other.id,
            },
        );
    }

    /// `qmsg`: writes a message to the standard output file or the standard error file (or both) of
    /// a running job.
    pub(crate) fn message(
        &mut self,
        id: JobId,
        output: bool,
        errors: bool,
        text: &Text,
    ) -> Result<Granted, Refusal> {
        let job = self.owned_job(id)?;
        let is_reachable = |run: &&Run| run.session.is_some() && run.has_script();
        let run = job
            .life
            .open_run()
            .filter(is_reachable)
            .ok_or_else(Refusal::bad_state)?;
        if text.0.len() > LONGEST_MESSAGE {
            return Err(Refusal::too_large("a message", LONGEST_MESSAGE));
        }
        if !node_reports::is_node_up(self.server, id) {
            return Err(Refusal::node_not_responding());
        }
        self.server.apply_event(
            id,
            Event::Messaged {
                by: self.caller.shown(),
                output,
                errors,
            },
        );
        Ok(Granted::Tell(
            id,
            ScheddOrder::Message {
                job: id,
                attempt: run.attempt,
                output,
                errors,
                text: text.clone(),
            },
        ))
    }

    /// `qalter --shove`: makes the scheduler retry a deferred job now, for example after a failed
    /// start (Q1). For an array, its deferred subjobs are retried, too.
    pub(crate) fn shove(&mut self, id: JobId) -> Result<Granted, Refusal> {
        let job = self.owned_job(id)?;
        if !is_candidate(&job) {
            return Err(Refusal::bad_state());
        }
        // A subjob that has never started has no record, so its array is retried.
        let target = if self.server.job(id).is_some() {
            id
        } else {
            id.parent().unwrap_or(id)
        };
        let elements = self
            .server
            .job(target)
            .map_or(Vec::new(), |job| job.running_subjobs());
        let is_deferred = |id: &JobId| {
            self.server
                .job(*id)
                .is_some_and(|job| job.life.not_before.is_some())
        };
        let deferred: Vec<JobId> = elements.into_iter().filter(is_deferred).collect();
        for id in iter::once(target).chain(deferred) {
            self.server.apply_event(
                id,
                Event::Shoved {
                    by: self.caller.shown(),
                },
            );
        }
        Ok(Granted::Done)
    }

    /// `qrun`: starts a job at once, or refuses with the reason why the job cannot start. With
    /// `detached`, a job that cannot start now is no error.
    pub(crate) fn run_now(
        &mut self,
        id: JobId,
        on: &Placing,
        detached: bool,
    ) -> Result<Granted, Refusal> {
        let (job, start) = self.planned_run(id, on, detached)?;
        start
            .into_iter()
            .for_each(|start| self.start_now(&job, start));
        Ok(Granted::Done)
    }

    /// The job that `qrun` names, and the start that is possible now. A job that cannot start now
    /// is refused; with `detached`, its start is None instead.
    pub(crate) fn planned_run(
        &self,
        id: JobId,
        on: &Placing,
        detached: bool,
    ) -> Result<(Arc<Job>, Option<Start>), Refusal> {
        self.caller.must_be_privileged()?;
        let job = self.unstarted(id)?;
        if id.is_array() {
            return Err(Refusal::invalid_request());
        }
        let nodes = self.wanted_nodes(&job, on)?;
        let (setup, now) = (&self.server.setup, self.server.now);
        match forced::start(
            self.server.cluster(),
            &setup.policy,
            &job,
            nodes.as_ref(),
            now,
        ) {
            Ok(start) => Ok((job, Some(start))),
            Err(reason) if !detached => Err(Refusal::cannot_start(&reason.to_string())),
            Err(_) => Ok((job, None)),
        }
    }

    fn start_now(&mut self, job: &Job, start: Start) {
        // An operator starts the job, so the start has no score.
        let started = Event::Started {
            attempt: job.life.attempt + 1,
            shares: start.shares,
            score: None,
            extra: false,
        };
        self.server.apply_event(
            job.id,
            Event::RunWanted {
                by: self.caller.shown(),
            },
        );
        self.server.apply_event(job.id, started);
    }

    /// The nodes that the request names, or those of the job's last attempt; None for any nodes.
    fn wanted_nodes(&self, job: &Job, on: &Placing) -> Result<Option<BTreeSet<String>>, Refusal> {
        let names: BTreeSet<String> = match on {
            Placing::Anywhere => return Ok(None),
            Placing::On(names) => names.iter().cloned().collect(),
            Placing::Again => {
                let run = job
                    .life
                    .run
                    .as_ref()
                    .ok_or_else(|| Refusal::cannot_start(&Reason::NoNodes.to_string()))?;
                run.shares.iter().map(|share| share.node.clone()).collect()
            }
        };
        match names.iter().find(|name| self.server.node(name).is_none()) {
            Some(unknown) => Err(Refusal::no_such_node(unknown)),
            None => Ok(Some(names)),
        }
    }

    /// A job or array that has not started. Subjobs are refused, because they have no queue
    /// position of their own.
    fn whole_unstarted(&self, id: JobId) -> Result<Arc<Job>, Refusal> {
        let job = self.unstarted(id)?;
        if id.index().is_none() {
            Ok(job)
        } else {
            Err(Refusal::invalid_request())
        }
    }

    /// A job that has not started and that the caller may change.
    fn unstarted(&self, id: JobId) -> Result<Arc<Job>, Refusal> {
        let job = self.owned_job(id)?;
        match job.life.state {
            // An open attempt of a waiting job means that tasks of an earlier attempt are still
            // being ended.
            JobState::Queued | JobState::Held | JobState::Waiting
                if job.life.open_run().is_none() && !job.has_begun() =>
            {
                Ok(job)
            }
            _ => Err(Refusal::bad_state()),
        }
    }
}
