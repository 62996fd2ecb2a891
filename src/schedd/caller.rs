//! Who asks, and what that person may do. Built from the kernel's word alone.

use super::setup::Setup;
use crate::model::job::{Job, Owner};
use crate::model::refusal::Refusal;
use crate::wire::peer::Peer;
use std::collections::BTreeMap;

/// The user's name; the number itself for one without an account.
fn name(uid: u32) -> String {
    let user = nix::unistd::User::from_uid(uid.into()).ok().flatten();
    user.map_or_else(|| uid.to_string(), |user| user.name)
}

/// The person behind a connection.
#[derive(Clone, Debug)]
pub struct Caller {
    /// User name, number and group.
    pub owner: Owner,
    /// Operator, manager, root, or the one user of a personal system.
    pub privileged: bool,
    host: String,
}

/// Callers seen so far: looking up an account may take long.
#[derive(Default)]
pub struct Callers {
    known: BTreeMap<u32, String>,
}

impl Callers {
    /// The caller behind `peer`.
    pub fn of(&mut self, peer: Peer, setup: &Setup) -> Caller {
        let uid = peer.uid();
        let user = self.known.entry(uid).or_insert_with(|| name(uid)).clone();
        let listed = setup.config.server.managers.iter().chain(&setup.config.server.operators);
        let mut listed = listed.filter(|person| person.is(&user, &setup.host));
        let ourselves = uid == 0 || uid == nix::unistd::geteuid().as_raw();
        Caller {
            privileged: ourselves || listed.next().is_some(),
            owner: Owner { user, uid, gid: peer.gid() },
            host: setup.host.clone(),
        }
    }
}

impl Caller {
    /// `user@host`, as comments and events show it.
    pub fn shown(&self) -> String {
        format!("{}@{}", self.owner.user, self.host)
    }

    /// Refuses everybody but the job's owner and the privileged.
    pub fn must_own(&self, job: &Job) -> Result<(), Refusal> {
        match self.privileged || self.owner.uid == job.owner.uid {
            true => Ok(()),
            false => Err(Refusal::unauthorized()),
        }
    }

    /// Refuses everybody but the privileged.
    pub fn must_be_privileged(&self) -> Result<(), Refusal> {
        if self.privileged { Ok(()) } else { Err(Refusal::unauthorized()) }
    }
}
