//! Suspension of running jobs in a forecast. The resources that a suspended job keeps or needs
//! again, and its priority, are derived from the snapshot (the input of a cycle).

use super::class::Wait;
use super::cluster::NodeIx;
use super::preemption_candidate::PreemptionCandidate;
use super::shape::{ClassId, ClassKey, JobOwner, Shape};
use super::snapshot::{ClusterState, RunningJob};
use super::suspended::Suspended;
use crate::model::job::NodeShare;
use crate::model::job::eligible_time::Eligibility;
use crate::model::job_id::JobId;
use crate::model::request::select::{Chunk, Request, Select};
use crate::model::time::{Span, Time};
use std::sync::Arc;

impl ClusterState {
    /// Suspends a running job for the preemptor `to`. The job releases the resources named in
    /// `releases`, keeps all others, and waits to resume (M45). If its owner or the facts that
    /// preemption uses are unknown, the job ends instead.
    pub(in crate::sched) fn predict_suspension(
        &mut self,
        id: JobId,
        releases: &[String],
        to: Option<JobId>,
        now: Time,
    ) {
        let running = self.running.get(&id).cloned();
        let suspended = running.and_then(|running| self.as_suspended(id, &running, releases, now));
        let Some((suspended, owner)) = suspended else {
            return self.vacate(id);
        };
        let kept: Vec<NodeShare> = suspended
            .shares
            .iter()
            .map(|share| share.part(|name| !is_in(releases, name)))
            .collect();
        self.occupy(id, &kept, owner, Time::NEVER);
        self.suspended.insert(
            id,
            Arc::new(Suspended {
                made_way_for: to,
                ..suspended
            }),
        );
        self.note_suspended(id, true);
    }

    /// Marks a running job as suspended or not suspended. Suspended jobs are not preempted.
    pub(in crate::sched) fn note_suspended(&mut self, id: JobId, is_suspended: bool) {
        let candidate = self
            .running
            .get(&id)
            .and_then(|running| running.candidate.as_deref().cloned());
        if let Some(candidate) = candidate {
            self.set_candidate(
                id,
                PreemptionCandidate {
                    told: None,
                    suspended: is_suspended,
                    ..candidate
                },
            )
        }
    }

    /// A running job as a suspended job, with its owner and access policy; None if its owner or the
    /// facts that preemption uses are unknown.
    fn as_suspended(
        &self,
        id: JobId,
        running: &RunningJob,
        releases: &[String],
        now: Time,
    ) -> Option<(Suspended, JobOwner)> {
        let (holder, candidate) = (running.holder.as_ref()?, running.candidate.as_deref()?);
        let shares: Vec<NodeShare> = running
            .nodes
            .iter()
            .filter_map(|&ix| self.share_on(ix, id))
            .collect();
        let owner = self
            .cluster
            .node(*running.nodes.first()?)
            .tenants
            .get(&id)?
            .owner;
        let key = ClassKey {
            id: ClassId(0),
            shape: Arc::new(Shape::of_request(&request(&shares), &self.cluster.catalog)),
            walltime: candidate.walltime,
            who: holder.who.clone(),
            user: owner.user,
            priority: 0,
            user_factor: 1.0,
            system_priority: None,
            reservation: None,
            not_before: None,
            unpromised: false,
            protected: candidate.protected,
            rerunnable: candidate.rerunnable,
            checkpoints: candidate.checkpoints,
            may_be_checkpointed: candidate.may_be_checkpointed,
            targets: None,
            at_once: None,
            expands_to: None,
            beyond: None,
        };
        let suspended = Suspended {
            key,
            place: (id.number, id),
            score: candidate.score,
            needed: shares
                .iter()
                .map(|share| share.part(|name| is_in(releases, name)))
                .collect(),
            shares,
            made_way_for: None,
            ran: ran(candidate, running.until, now),
            wait: Wait {
                since: candidate.started - candidate.waited,
                eligibility: Eligibility::default(),
                bypassed: 0,
            },
        };
        Some((suspended, owner))
    }

    /// The share of a job on a node; None if the job is not on the node.
    fn share_on(&self, ix: NodeIx, id: JobId) -> Option<NodeShare> {
        let node = self.cluster.node(ix);
        let hold = node.tenants.get(&id)?;
        let catalog = &self.cluster.catalog;
        let amounts = |indices: std::ops::Range<usize>| {
            let taken = indices.filter(|&index| hold.taken[index] != 0);
            taken
                .map(|index| {
                    let value = catalog.value(index, hold.taken[index]);
                    (catalog.names()[index].clone(), value)
                })
                .collect()
        };
        Some(NodeShare {
            node: node.name.clone(),
            host: node.host.clone(),
            taken: amounts(0..catalog.pooled().start),
            cpus: hold.cpus.clone(),
            gpus: hold.gpus.clone(),
            mpiprocs: 0,
            pooled: amounts(catalog.pooled()),
            ranks: Vec::new(),
        })
    }
}

fn is_in(names: &[String], name: &str) -> bool {
    names.iter().any(|listed| listed == name)
}

/// The request for exactly the node resources of these shares, with one chunk for each share.
fn request(shares: &[NodeShare]) -> Request {
    let chunks = shares.iter().map(|share| Chunk {
        count: 1,
        resources: share.taken.clone(),
        growing: Vec::new(),
    });
    Request {
        select: Select {
            chunks: chunks.collect(),
            text: String::new(),
        },
        ..Request::default()
    }
}

/// How long a job that ends at `until` has run. Suspensions are excluded only if the walltime is
/// known.
fn ran(candidate: &PreemptionCandidate, until: Time, now: Time) -> Span {
    let left = until.since(now).0.max(0);
    Span(
        candidate
            .walltime
            .map_or(now.since(candidate.started).0, |walltime| walltime.0 - left)
            .max(0),
    )
}
