//! Who may do what in the world, as in schedd: the owner of a job with it, operators and managers
//! with all.

use super::World;
use super::act::Deed;
use crate::model::attribute::{Context, Rights};
use crate::model::job::Owner;
use crate::model::job::state::{Holds, State};
use crate::model::job_id::JobId;
use crate::model::refusal::Refusal;

/// The host of all users.
const HOST: &str = "sim";

impl World {
    /// Does something as this user.
    pub fn act_as(&mut self, user: &str, deed: &Deed) -> Result<(), String> {
        let privileged = self.is_privileged(user);
        if !privileged {
            self.may(user, deed).map_err(|refusal| refusal.text)?;
        }
        self.act_with(deed, privileged)
    }

    /// Whether a user is an operator or a manager; one's own installation is for its one user to
    /// run.
    pub(super) fn is_privileged(&self, user: &str) -> bool {
        let server = &self.config.server;
        !server.shared
            || server
                .operators
                .iter()
                .chain(&server.managers)
                .any(|person| person.is(user, HOST))
    }

    fn may(&self, user: &str, deed: &Deed) -> Result<(), Refusal> {
        let owns = |id: &JobId| {
            let job = self.jobs.get(&id.parent().unwrap_or(*id));
            if job.is_none_or(|job| job.owner.user == user) {
                Ok(())
            } else {
                Err(Refusal::unauthorized())
            }
        };
        match deed {
            // M49: the holds of operators and of the system are not for owners.
            Deed::Hold(id, holds) | Deed::Release(id, holds) => {
                owns(id)?;
                if Holds::USER.contains(*holds) {
                    Ok(())
                } else {
                    Err(Refusal::unauthorized())
                }
            }
            Deed::Delete(id, _) | Deed::Rerun(id) | Deed::Shove(id) => owns(id),
            Deed::Alter(id, _) | Deed::Move(id, _) => owns(id),
            Deed::Swap(one, other) => owns(one).and_then(|()| owns(other)),
            Deed::Reserve(_) | Deed::Cycle => Ok(()),
            _ => Err(Refusal::unauthorized()),
        }
    }

    /// What bars a job as it stands, before the scheduler looks at it (M3), by the name of the
    /// reason.
    pub fn barred_by(&self, id: JobId) -> Option<&'static str> {
        let life = &self.jobs.get(&id)?.life;
        let names = [
            (Holds::USER, "held.user"),
            (Holds::OPERATOR, "held.operator"),
            (Holds::SYSTEM, "held.system"),
        ];
        match life.state {
            State::Waiting => Some("begin_time"),
            State::Held => {
                let hold = names
                    .into_iter()
                    .find(|(hold, _)| life.holds.contains(*hold));
                Some(hold.map_or("dep_wait", |(_, name)| name))
            }
            _ => None,
        }
    }

    /// What settings of a job of this owner are judged by.
    pub(super) fn context<'a>(
        &'a self,
        owner: &'a Owner,
        rights: Rights,
        is_member: &'a dyn Fn(&str) -> bool,
    ) -> Context<'a> {
        Context {
            resources: &self.resources,
            rights,
            owner: &owner.user,
            server: HOST,
            default_queue: Some(&self.config.server.default_queue),
            policy: &self.policy,
            is_member,
        }
    }

    /// Whether the group of a user's jobs has this name.
    pub(super) fn is_member(&self, owner: &Owner, group: &str) -> bool {
        self.groups.get(group) == Some(&owner.gid)
    }
}
