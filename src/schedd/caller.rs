//! Who asks, and what that person may do. Built from the kernel's word alone.

use super::setup::Setup;
use crate::config::Person;
use crate::model::job::{Job, Owner};
use crate::model::refusal::Refusal;
use crate::model::time::Span;
use crate::sys::clock;
use crate::wire::peer::Peer;
use nix::unistd::User;
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

/// For how long the name of a user is known: looking up an account may take long.
const FRESH: Span = Span::seconds(5);

/// Callers seen lately.
#[derive(Default)]
pub struct Callers {
    known: BTreeMap<u32, Known>,
}

/// The name of a user, and when it was looked up.
struct Known {
    name: String,
    at: Span,
}

impl Callers {
    /// The user's name, and whether it was looked up just now. For a user without an account it is
    /// the number, which is not remembered. While the account service gives an error, the last name
    /// holds.
    fn name(&mut self, uid: u32) -> (String, bool) {
        let now = clock::monotonic();
        if let Some(known) = self.known.get(&uid).filter(|known| now < known.at + FRESH) {
            return (known.name.clone(), false);
        }
        match User::from_uid(uid.into()) {
            Ok(Some(user)) => {
                self.known.insert(
                    uid,
                    Known {
                        name: user.name.clone(),
                        at: now,
                    },
                );
                (user.name, true)
            }
            Ok(None) => {
                self.known.remove(&uid);
                (uid.to_string(), true)
            }
            Err(_) => (
                self.known
                    .get(&uid)
                    .map_or_else(|| uid.to_string(), |known| known.name.clone()),
                false,
            ),
        }
    }

    /// The caller behind `peer`.
    pub fn of(&mut self, peer: Peer, setup: &Setup) -> Caller {
        let uid = peer.uid();
        let (user, is_new) = self.name(uid);
        let owner = Owner {
            user,
            uid,
            gid: peer.gid(),
        };
        let caller = Caller::of(owner, setup);
        if is_new {
            caller.warn_of_other_account(setup);
        }
        caller
    }
}

impl Caller {
    /// This user, with the rights that the configuration grants.
    pub fn of(owner: Owner, setup: &Setup) -> Caller {
        let mut caller = Caller {
            privileged: false,
            manager: false,
            owner,
            host: setup.host.clone(),
        };
        caller.authorize(setup);
        caller
    }

    /// The site itself, as one of its hooks speaks.
    pub fn hook(name: &str, setup: &Setup) -> Caller {
        let (uid, gid) = (
            nix::unistd::geteuid().as_raw(),
            nix::unistd::getegid().as_raw(),
        );
        let owner = Owner {
            user: format!("hook {name}"),
            uid,
            gid,
        };
        Caller {
            privileged: true,
            manager: true,
            owner,
            host: setup.host.clone(),
        }
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
        let is_listed =
            |people: &[Person]| people.iter().any(|person| self.is_meant(person, setup));
        let server = &setup.config.server;
        let manager = self.is_ourselves() || is_listed(&server.managers);
        self.privileged = manager || is_listed(&server.operators);
        self.manager = manager;
    }

    fn is_meant(&self, person: &Person, setup: &Setup) -> bool {
        let Owner { user, uid, .. } = &self.owner;
        let is_account = person
            .account()
            .is_none_or(|name| setup.grantees.allow(name, *uid));
        person.is(user, &setup.host) && is_account
    }

    /// An administrator who deleted and remade an account must grant its rights anew.
    fn warn_of_other_account(&self, setup: &Setup) {
        let Owner { user, uid, .. } = &self.owner;
        let Some(bound) = setup.grantees.number(user).filter(|bound| bound != uid) else {
            return;
        };
        tracing::warn!(
            "user {user} ({uid}) has no rights: `managers` and `operators` mean the account {user} ({bound}); name \
             {user} there again with qmgr if this account is to have them"
        );
    }

    /// `user@host`, as comments and events show it.
    pub fn shown(&self) -> String {
        format!("{}@{}", self.owner.user, self.host)
    }

    /// Refuses everybody but the job's owner and the privileged.
    pub fn must_own(&self, job: &Job) -> Result<(), Refusal> {
        match self.privileged || self.owner.is_same_account(&job.owner) {
            true => Ok(()),
            false => Err(Refusal::unauthorized()),
        }
    }

    /// Refuses everybody but the privileged.
    pub fn must_be_privileged(&self) -> Result<(), Refusal> {
        if self.privileged {
            Ok(())
        } else {
            Err(Refusal::unauthorized())
        }
    }
}
