//! The user who sends a request, and the rights of this user.

use crate::config::Person;
use crate::model::job::Job;
use crate::model::job::Owner;
use crate::model::refusal::Refusal;
use crate::server::setup::Setup;

/// The person behind a connection.
#[derive(Clone, Debug)]
pub struct Caller {
    /// User name, number and group.
    pub owner: Owner,
    /// Operator, manager, root, or the one user of a personal system.
    pub privileged: bool,
    /// All of these but operators.
    pub manager: bool,
    /// Root, or the account that the server runs as.
    is_ourselves: bool,
    host: String,
}

impl Caller {
    /// This user, with the rights that the configuration grants.
    pub fn of(owner: Owner, setup: &Setup) -> Caller {
        let mut caller = Caller {
            privileged: false,
            manager: false,
            is_ourselves: owner.uid == 0 || owner.uid == setup.installation.own.uid,
            owner,
            host: setup.host.clone(),
        };
        caller.authorize(setup);
        caller
    }

    /// The site itself, as one of its hooks speaks.
    pub fn hook(name: &str, setup: &Setup) -> Caller {
        let own = &setup.installation.own;
        let owner = Owner {
            user: format!("hook {name}"),
            uid: own.uid,
            gid: own.gid,
        };
        Caller {
            privileged: true,
            manager: true,
            is_ourselves: true,
            owner,
            host: setup.host.clone(),
        }
    }

    /// Where the caller sits.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Root, or the account that the server runs as.
    pub fn is_ourselves(&self) -> bool {
        self.is_ourselves
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
    pub fn warn_of_other_account(&self, setup: &Setup) {
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
        if self.privileged || self.owner.is_same_account(&job.owner) {
            Ok(())
        } else {
            Err(Refusal::unauthorized())
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
