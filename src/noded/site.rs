//! What holds for every attempt of one noded.

use crate::model::job::Owner;
use crate::sys::user::{self, Account};
use std::path::PathBuf;

/// Where and under which rules jobs run here. Made before the spawner is forked, so that every
/// shepherd has it without asking.
#[derive(Clone, Debug)]
pub struct Site {
    /// noded's state folder.
    pub state: PathBuf,
    /// The kernel's boot id.
    pub boot: String,
    /// Where each job's `TMPDIR` is made.
    pub tmp: PathBuf,
    /// The host's short name.
    pub host: String,
    /// Whether this host has GPUs.
    pub gpus: bool,
    /// The folder under which control groups can be made, if any can.
    pub cgroup: Option<PathBuf>,
    /// The account noded itself runs under.
    pub own: Account,
    /// Many users: root's jobs are never run.
    pub shared: bool,
    /// The lowest user number whose jobs root's noded runs.
    pub min_uid: u32,
}

impl Site {
    /// The account under which a job of `owner` may run here, or why it may not.
    pub fn admit(&self, owner: &Owner) -> Result<Account, String> {
        if self.shared && owner.uid == 0 {
            return Err("root's jobs are not run in a shared installation: submit as another user".into());
        }
        if owner.uid == self.own.uid {
            return Ok(self.own.clone());
        }
        let (user, uid) = (&owner.user, owner.uid);
        if self.own.uid != 0 {
            return Err(format!("noded on {} runs as {} and only its jobs, not {user}'s", self.host, self.own.name));
        }
        if uid < self.min_uid {
            return Err(format!("user {user} ({uid}) is below the lowest user number run here, {}", self.min_uid));
        }
        let account = user::named(user).map_err(|e| format!("user {user}: {e}"))?;
        let account = account.ok_or_else(|| format!("user {user} is not known on {}", self.host))?;
        if account.uid != uid {
            return Err(format!("user {user} has number {} on {}, not {uid}", account.uid, self.host));
        }
        Ok(account)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub fn site(uid: u32, shared: bool) -> Site {
        let own = Account { name: "me".into(), uid, gid: uid, home: "/home/me".into(), shell: "/bin/bash".into() };
        Site {
            state: "/state".into(),
            boot: "boot".into(),
            tmp: "/tmp".into(),
            host: "n1".into(),
            gpus: false,
            cgroup: None,
            own,
            shared,
            min_uid: 1000,
        }
    }

    #[test]
    fn only_those_who_may_run_here_do() {
        let owner = |user: &str, uid| Owner { user: user.into(), uid, gid: uid };
        assert!(site(0, false).admit(&owner("root", 0)).is_ok());
        assert!(site(0, true).admit(&owner("root", 0)).unwrap_err().contains("shared"));
        assert!(site(0, false).admit(&owner("daemon", 1)).unwrap_err().contains("below"));
        assert!(site(0, false).admit(&owner("root", 4242)).unwrap_err().contains("has number 0"));
        assert!(site(0, false).admit(&owner("no-such-user", 4242)).unwrap_err().contains("not known"));
        assert!(site(5000, false).admit(&owner("me", 5000)).is_ok());
        assert!(site(5000, false).admit(&owner("you", 5001)).unwrap_err().contains("only its jobs"));
    }
}
