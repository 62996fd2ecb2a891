//! Queue admission with the server's state. `qsub`, `qmove` and routing queues all use
//! [`QueueAdmission`]; this module adds reservations, groups and job counts.

use crate::model::account::lineage::Lineages;
use crate::model::admission::Entered;
use crate::model::admission::QueueAdmission;
use crate::model::admission::Visitor;
use crate::model::credentials::Credentials;
use crate::model::job::Job;
use crate::model::job::Owner;
use crate::model::job::Spec;
use crate::model::job::state::JobState;
use crate::model::limit::LimitSubject;
use crate::model::policy::Policy;
use crate::model::queue::counters::EnteringJob;
use crate::model::refusal::Refusal;
use crate::server::outside::Accounts;
use crate::server::request_context::RequestContext;
use crate::server::request_context::is_member;
use crate::server::state::ServerState;
use std::cell::OnceCell;

impl RequestContext<'_> {
    /// Admits a new job to its queue, or to the destination of a routing queue. Gives a job without
    /// an account its owner's default account. A reservation's queue confines the job to the
    /// reservation.
    pub(crate) fn enter(
        &self,
        owner: &Owner,
        spec: &Spec,
        state: JobState,
    ) -> Result<Entered, Refusal> {
        let default = || self.server.setup.policy.fair_share.default_for(&owner.user);
        let spec = Spec {
            account: spec.account.clone().or_else(default),
            ..spec.clone()
        };
        self.admit_to_queue(EnteringJob::New(state), owner, &spec, state)
    }

    /// Admits a new or existing job to the queue in its spec, which may be the queue of a
    /// reservation.
    pub(crate) fn admit_to_queue(
        &self,
        entering: EnteringJob,
        owner: &Owner,
        spec: &Spec,
        state: JobState,
    ) -> Result<Entered, Refusal> {
        let entered = match self.server.reservation_queue(&spec.queue) {
            Some(reservation) => {
                self.may_enter(reservation)?;
                let queue = self
                    .server
                    .queue(&spec.queue)
                    .ok_or_else(Refusal::unknown_queue)?;
                if !queue.enabled {
                    return Err(Refusal::queue_disabled());
                }
                let spec = Spec {
                    reservation: Some(spec.queue.clone()),
                    ..spec.clone()
                };
                let notes = self.server.check_limits(entering, owner, &spec)?;
                Entered { spec, notes }
            }
            None => enter(self.server, entering, owner, spec, state)?,
        };
        if entered
            .spec
            .reservation
            .as_ref()
            .is_some_and(|name| !self.is_reservation(name))
        {
            return Err(Refusal::unknown_reservation());
        }
        Ok(entered)
    }

    /// Checks an altered job against limits on queued jobs (M27, I19). If its request or quality of
    /// service has changed, also adds the queue's defaults and checks the queue's bounds (F4).
    /// Returns warnings. Running jobs are not checked.
    pub(crate) fn check_altered(
        &self,
        before: &Job,
        after: &mut Spec,
    ) -> Result<Vec<String>, Refusal> {
        if before.life.state.is_under_way() {
            return Ok(Vec::new());
        }
        let (entering, owner) = (EnteringJob::Known(before.id), &before.owner);
        let is_as_before = before.spec.request == after.request && before.spec.qos == after.qos;
        if !is_as_before && let Some(queue) = self.server.setup.queue(&after.queue) {
            with_queue_admission(self.server, entering, owner, |admission| {
                admission.fit(after, queue)
            })?;
        }
        self.server.check_limits(entering, owner, after)
    }

    /// Refuses to move a job to a queue that does not allow its quality of service. Operators may
    /// move any job (M27).
    pub(crate) fn keep_quality(&self, job: &Job, queue: &str) -> Result<(), Refusal> {
        if self.caller.privileged {
            return Ok(());
        }
        with_queue_admission(
            self.server,
            EnteringJob::Known(job.id),
            &job.owner,
            |admission| admission.keep_quality(&job.spec, queue),
        )
    }
}

/// Admits a job to the configured queue in its spec, or to the destination of a routing queue.
pub fn enter(
    server: &ServerState,
    entering: EnteringJob,
    owner: &Owner,
    spec: &Spec,
    state: JobState,
) -> Result<Entered, Refusal> {
    with_queue_admission(server, entering, owner, |admission| {
        admission.enter(spec, state)
    })
}

/// Calls `call` with the queue admission for jobs of this owner.
pub fn with_queue_admission<T>(
    server: &ServerState,
    entering: EnteringJob,
    owner: &Owner,
    call: impl FnOnce(&QueueAdmission) -> T,
) -> T {
    let (setup, name) = (&server.setup, OnceCell::new());
    let is_member = |group: &str| is_member(setup, owner, group);
    let group = || {
        name.get_or_init(|| setup.installation.accounts.group_name(owner.gid))
            .clone()
    };
    call(&QueueAdmission {
        queues: &setup.queues,
        resources: &setup.resources,
        qualities: &setup.policy.qualities,
        visitor: Visitor {
            user: &owner.user,
            group: &group,
            is_member: &is_member,
            host: &setup.host,
        },
        room: &|spec| server.check_limits(entering, owner, spec),
    })
}

/// The names by which limits identify a job. Without `uses_groups`, the name of the group is empty.
pub fn subject(
    policy: &Policy,
    accounts: &dyn Accounts,
    who: &Credentials,
    uses_groups: bool,
) -> LimitSubject {
    // A gid may have several names: use the name that the limits use, as for running jobs.
    let named = || policy.limits.groups.get(&who.gid).cloned();
    let group = if uses_groups {
        named().unwrap_or_else(|| accounts.group_name(who.gid))
    } else {
        String::new()
    };
    let lineages = Lineages::new(&policy.fair_share.accounts);
    let lineage = lineages.of(&who.user, who.account.as_deref());
    LimitSubject::new(who, group, lineage)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedd::accounts::SystemAccounts;

    /// I19. This gid is not in the system's group database.
    #[test]
    fn a_group_is_matched_by_the_name_that_limits_use() {
        let [user, project, queue] = ["ann", "none", "batch"].map(str::to_string);
        let who = Credentials {
            user,
            gid: 3_999_999_999,
            project,
            account: None,
            qos: None,
            queue,
        };
        let mut policy = Policy::default();
        policy.limits.groups.insert(who.gid, "staff".to_string());
        assert_eq!(
            subject(&policy, &SystemAccounts, &who, true).names[2],
            ["staff"]
        );
    }
}
