//! The user who sends a request, and the user's rights.

use crate::config::UserPattern;
use crate::model::job::Job;
use crate::model::job::Owner;
use crate::model::refusal::Refusal;
use crate::server::setup::Setup;

/// The user who sent a request, and the user's rights.
#[derive(Clone, Debug)]
pub struct Caller {
    /// Name, uid and gid.
    pub owner: Owner,
    /// Whether the user is an operator, a manager, root, or the account that the server runs as.
    pub privileged: bool,
    /// Whether the user is a manager, root, or the account that the server runs as. The right of an
    /// operator is not enough.
    pub manager: bool,
    /// Whether the user is root, or the account that the server runs as.
    is_ourselves: bool,
    host: String,
}

impl Caller {
    /// The caller for this user, with the rights that the configuration grants.
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

    /// The caller for changes by a site hook. Hooks have all rights.
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

    /// The host of the caller.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Whether the user is root, or the account that the server runs as.
    pub fn is_ourselves(&self) -> bool {
        self.is_ourselves
    }

    /// Sets the rights that the configuration grants, and removes all others.
    pub fn authorize(&mut self, setup: &Setup) {
        let is_listed =
            |people: &[UserPattern]| people.iter().any(|person| self.is_named_by(person, setup));
        let server = &setup.config.server;
        let manager = self.is_ourselves() || is_listed(&server.managers);
        self.privileged = manager || is_listed(&server.operators);
        self.manager = manager;
    }

    fn is_named_by(&self, person: &UserPattern, setup: &Setup) -> bool {
        let Owner { user, uid, .. } = &self.owner;
        let is_account = person
            .account()
            .is_none_or(|name| setup.grantees.allow(name, *uid));
        person.is(user, &setup.host) && is_account
    }

    /// Warns if rights of this user name belong to an earlier account with another uid. An
    /// administrator must then grant the rights to the new account.
    pub fn warn_of_other_account(&self, setup: &Setup) {
        let Owner { user, uid, .. } = &self.owner;
        let Some(bound) = setup.grantees.number(user).filter(|bound| bound != uid) else {
            return;
        };
        tracing::warn!(
            "user {user} (uid {uid}) has no operator rights: `managers` and `operators` refer to \
             an earlier account {user} (uid {bound}); to grant the rights to the new \
             account, set these attributes again with qmgr"
        );
    }

    /// `user@host`, as comments and events show it.
    pub fn shown(&self) -> String {
        format!("{}@{}", self.owner.user, self.host)
    }

    /// Refuses callers who neither own the job nor are privileged.
    pub fn must_own(&self, job: &Job) -> Result<(), Refusal> {
        if self.privileged || self.owner.is_same_account(&job.owner) {
            Ok(())
        } else {
            Err(Refusal::unauthorized())
        }
    }

    /// Refuses callers who are not privileged.
    pub fn must_be_privileged(&self) -> Result<(), Refusal> {
        if self.privileged {
            Ok(())
        } else {
            Err(Refusal::unauthorized())
        }
    }
}
