//! The environment and rules that all attempts of one noded share.

use super::launch_fault::LaunchFault;
use crate::model::job::Owner;
use crate::model::job::value_syntax::for_host;
use crate::sys::clock;
use crate::sys::home::Home;
use crate::sys::user::{self, UserAccount};
use chrono::DateTime;
use std::path::{Path, PathBuf};

const SECONDS_A_DAY: i64 = 86_400;

/// The environment and rules of jobs on this host. noded creates the site before it forks the
/// spawner, so every shepherd has a copy.
#[derive(Clone, Debug)]
pub struct Site {
    /// noded's state directory.
    pub state: PathBuf,
    /// The kernel's boot id.
    pub boot: String,
    /// The directory in which each job's `TMPDIR` is created.
    pub tmp: PathBuf,
    /// The value of `LANAI_HOME` in the environment of jobs, so that their commands use the
    /// installation that runs the jobs. Set for a personal installation, and inside a job of
    /// another Lanai.
    pub home: Option<PathBuf>,
    /// The directory of Lanai's commands; None if it cannot be determined.
    pub commands: Option<PathBuf>,
    /// The host's short name.
    pub host: String,
    /// Whether a node of this host has GPUs.
    pub gpus: bool,
    /// Whether the host has AMD GPUs.
    pub amd: bool,
    /// The parent directory for cgroups of jobs; None if noded does not use cgroups.
    pub cgroup: Option<PathBuf>,
    /// Maximum number of processes and threads of a script or a task; None for no limit.
    pub max_processes: Option<u64>,
    /// The account that noded runs as.
    pub own: UserAccount,
    /// Whether many users run jobs on this host. Then jobs of root are refused.
    pub shared: bool,
    /// The lowest uid of job owners, if noded runs as root.
    pub min_uid: u32,
}

impl Site {
    /// Adapts the site to run inside a job of another Lanai: all files are removed with that outer
    /// job, and no process leaves the cgroup in which the outer job is measured and ended.
    pub fn inside_job(self, home: &Home) -> Site {
        Site {
            tmp: home.state.clone(),
            home: Some(home.state.clone()),
            cgroup: None,
            ..self
        }
    }

    /// The directory of commands that a login shell appends to `PATH` after reading the profile.
    /// None if the directory is in the default `PATH`, which profiles usually extend.
    pub fn commands_after_profile(&self) -> Option<&Path> {
        let usual = ["/usr/local/bin", "/usr/bin", "/bin"].map(Path::new);
        self.commands
            .as_deref()
            .filter(|folder| !usual.contains(folder))
    }

    /// The socket for task requests of jobs.
    pub fn tasks(&self) -> PathBuf {
        self.state.join("tasks.sock")
    }

    /// The account under which a job of `owner` runs on this host. The error is why the job cannot
    /// run on this host.
    pub fn admit(&self, owner: &Owner) -> Result<UserAccount, LaunchFault> {
        if self.shared && owner.uid == 0 {
            let why = "jobs of root do not run in a shared installation: submit as another user";
            return Err(LaunchFault::Owner(why.into()));
        }
        if owner.uid == self.own.uid {
            return Ok(self.own.clone());
        }
        let (user, uid) = (&owner.user, owner.uid);
        if self.own.uid != 0 {
            let why = format!(
                "noded on {} runs as {} and cannot run jobs of {user}",
                self.host, self.own.name
            );
            return Err(LaunchFault::Node(why));
        }
        if uid < self.min_uid {
            let why = format!(
                "user {user} has uid {uid}, below the minimum for jobs on this node (min_uid {})",
                self.min_uid
            );
            return Err(LaunchFault::Owner(why));
        }
        // A failing name service may cause the next two errors. Another node, or a later try, may
        // succeed.
        let account = user::named(user)
            .map_err(|e| LaunchFault::Node(format!("cannot look up user {user}: {e}")))?;
        let account = account.ok_or_else(|| {
            LaunchFault::Node(format!("user {user} is not known on {}", self.host))
        })?;
        if account.uid != uid {
            let why = format!(
                "user {user} has uid {} on {}, but submitted the job with uid {uid}",
                account.uid, self.host
            );
            return Err(LaunchFault::Node(why));
        }
        self.refuse_closed(&account)?;
        Ok(account)
    }

    /// Refuses an account that the administrator has closed: the account has expired, or its login
    /// shell prevents logins. An account with a locked password is not closed, because its user can
    /// log in by key.
    fn refuse_closed(&self, account: &UserAccount) -> Result<(), LaunchFault> {
        let UserAccount { name, shell, .. } = account;
        let expiry = user::expiry(name).map_err(|e| {
            LaunchFault::Node(format!("cannot read the expiry date of user {name}: {e}"))
        })?;
        let today = clock::wall().0.div_euclid(SECONDS_A_DAY);
        if let Some(day) = expiry.filter(|&day| has_expired(day, today)) {
            let why = format!(
                "the account of user {name} on {} expired{}",
                self.host,
                on_day(day)
            );
            return Err(LaunchFault::Owner(format!(
                "{why}: ask your administrator to extend it"
            )));
        }
        if let Some(fault) = user::login_shell_fault(shell) {
            let why = format!(
                "user {name} cannot log in on {}: the login shell {}",
                self.host,
                shell.display()
            );
            return Err(LaunchFault::Owner(format!(
                "{why} {fault}; ask your administrator to change it"
            )));
        }
        Ok(())
    }

    /// The account with the group that the job requests for this host. `list` is
    /// `group[@host],...`; without an entry for this host, the account is unchanged.
    pub fn in_group(
        &self,
        account: UserAccount,
        list: Option<&str>,
    ) -> Result<UserAccount, LaunchFault> {
        let name = list.and_then(|list| for_host(list.as_bytes(), &self.host));
        let Some(name) = name.map(String::from_utf8_lossy) else {
            return Ok(account);
        };
        let (user, host) = (&account.name, &self.host);
        let found = user::group_of(&account, &name)
            .map_err(|e| LaunchFault::Node(format!("cannot look up group {name}: {e}")))?;
        let gid = found.ok_or_else(|| {
            LaunchFault::Owner(format!(
                "user {user} is not a member of group {name} on {host}"
            ))
        })?;
        if account.uid == self.own.uid && !user::may_set_group(gid) {
            return Err(LaunchFault::Owner(format!(
                "noded does not run as root and cannot give the job the group {name}"
            )));
        }
        Ok(UserAccount { gid, ..account })
    }
}

/// A day, counted from 1970, as ` on YYYY-MM-DD`; empty if the day is out of range.
fn on_day(day: i64) -> String {
    let date = DateTime::from_timestamp(day.saturating_mul(SECONDS_A_DAY), 0);
    date.map(|date| format!(" on {}", date.format("%Y-%m-%d")))
        .unwrap_or_default()
}

/// Whether an account with the expiry day `day` has expired, by the rule of `pam_unix`.
fn has_expired(day: i64, today: i64) -> bool {
    today >= day
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub fn site(uid: u32, shared: bool) -> Site {
        let own = UserAccount {
            name: "me".into(),
            uid,
            gid: uid,
            home: "/home/me".into(),
            shell: "/bin/bash".into(),
        };
        Site {
            state: "/state".into(),
            boot: "boot".into(),
            tmp: "/tmp".into(),
            home: None,
            commands: None,
            host: "n1".into(),
            gpus: false,
            amd: false,
            cgroup: None,
            max_processes: None,
            own,
            shared,
            min_uid: 1000,
        }
    }

    #[test]
    fn jobs_of_root_and_of_users_below_the_minimum_uid_are_refused() {
        let owner = |user: &str, uid| Owner {
            user: user.into(),
            uid,
            gid: uid,
        };
        assert!(site(0, false).admit(&owner("root", 0)).is_ok());
        let refused = |site: Site, user: &str, uid: u32, text: &str| {
            let fault = site.admit(&owner(user, uid)).unwrap_err();
            assert!(
                matches!(&fault, LaunchFault::Owner(why) if why.contains(text)),
                "{fault:?}"
            );
        };
        refused(site(0, true), "root", 0, "shared");
        refused(site(0, false), "daemon", 1, "below");
        assert!(site(5000, false).admit(&owner("me", 5000)).is_ok());
    }

    #[test]
    fn an_account_is_closed_from_its_expiry_day() {
        assert_eq!(
            [99, 100, 101].map(|today| has_expired(100, today)),
            [false, true, true]
        );
        assert!(has_expired(0, 20_000), "closed by day 0");
        assert_eq!(
            (on_day(18_262), on_day(i64::MAX)),
            (" on 2020-01-01".into(), String::new())
        );
    }

    #[test]
    fn an_unknown_or_different_user_is_a_fault_of_the_node() {
        let cases = [
            (0, "no-such-user", 4242, "not known"),
            (0, "root", 4242, "has uid 0"),
            (5000, "you", 5001, "cannot run jobs of you"),
        ];
        for (own, user, uid, text) in cases {
            let fault = site(own, false)
                .admit(&Owner {
                    user: user.into(),
                    uid,
                    gid: 1,
                })
                .unwrap_err();
            assert!(
                matches!(&fault, LaunchFault::Node(why) if why.contains(text)),
                "{fault:?}"
            );
        }
    }
}
