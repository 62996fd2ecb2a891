//! Who asks, and what that person may do. Built from the kernel's word alone.

use super::setup::Setup;
use crate::model::config::Person;
use crate::model::job::{Job, Owner};
use crate::model::refusal::Refusal;
use crate::wire::peer::Peer;
use std::collections::BTreeMap;

/// The person behind a connection.
#[derive(Clone, Debug)]
pub struct Caller {
    /// User name, number and group.
    pub owner: Owner,
    /// Operator, manager, root, or the one user of a personal system.
    pub privileged: bool,
    /// All of these but operators.
    pub manager: bool,
    host: String,
}

/// Callers seen so far: looking up an account may take long.
#[derive(Default)]
pub struct Callers {
    known: BTreeMap<u32, String>,
}

impl Callers {
    /// The user's name; for one without an account the number, which is not remembered: the
    /// account service may only be away.
    fn name(&mut self, uid: u32) -> String {
        if let Some(name) = self.known.get(&uid) {
            return name.clone();
        }
        let Some(user) = nix::unistd::User::from_uid(uid.into()).ok().flatten() else { return uid.to_string() };
        self.known.insert(uid, user.name.clone());
        user.name
    }

    /// The caller behind `peer`.
    pub fn of(&mut self, peer: Peer, setup: &Setup) -> Caller {
        let uid = peer.uid();
        let user = self.name(uid);
        let owner = Owner { user, uid, gid: peer.gid() };
        let mut caller = Caller { privileged: false, manager: false, owner, host: setup.host.clone() };
        caller.authorize(setup);
        caller
    }
}

impl Caller {
    /// The site itself, as one of its hooks speaks.
    pub fn hook(name: &str, setup: &Setup) -> Caller {
        let (uid, gid) = (nix::unistd::geteuid().as_raw(), nix::unistd::getegid().as_raw());
        let owner = Owner { user: format!("hook {name}"), uid, gid };
        Caller { privileged: true, manager: true, owner, host: setup.host.clone() }
    }

    /// Where the caller sits.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Root, or schedd's own user.
    pub fn is_ourselves(&self) -> bool {
        let uid = self.owner.uid;
        uid == 0 || uid == nix::unistd::geteuid().as_raw()
    }

    /// Grants what the configuration does, and nothing else.
    pub fn authorize(&mut self, setup: &Setup) {
        let is_listed = |people: &[Person]| people.iter().any(|person| person.is(&self.owner.user, &setup.host));
        let server = &setup.config.server;
        let manager = self.is_ourselves() || is_listed(&server.managers);
        self.privileged = manager || is_listed(&server.operators);
        self.manager = manager;
    }

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
