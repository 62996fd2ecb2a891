//! What happens to the jobs of a personal installation when the user logs out.

use super::exit::Failure;
use crate::sys::home::Home;
use crate::sys::{logind, user};
use std::io::IsTerminal;
use std::path::PathBuf;

/// Name of the systemd service that `lanai service install` creates.
pub const UNIT: &str = "lanai.service";

/// The facts that decide whether jobs continue when the user logs out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogoutEffect {
    /// The service is installed.
    pub has_service: bool,
    /// The user's services run without a session of the user.
    pub lingers: bool,
    /// logind kills the processes of a session that ends (`KillUserProcesses=yes`).
    pub kills: bool,
}

impl LogoutEffect {
    /// Reads the effect for this user.
    pub fn find() -> LogoutEffect {
        let user = user::own().name;
        LogoutEffect {
            has_service: unit_path().is_ok_and(|path| path.exists()),
            lingers: logind::lingers(&user),
            kills: logind::kills_processes_of(&user),
        }
    }

    /// Whether jobs end when the user logs out. The jobs of a service belong to the user's systemd,
    /// which ends with the last session unless the user lingers. Other jobs belong to the session.
    pub fn ends_jobs(self) -> bool {
        if self.has_service {
            !self.lingers
        } else {
            self.kills
        }
    }

    /// The effect and the remedy in one line.
    pub fn text(self) -> &'static str {
        match (self.ends_jobs(), self.has_service) {
            (true, true) => {
                "jobs end when you log out, because lingering is off: run loginctl enable-linger"
            }
            (true, false) => {
                "jobs end when you log out, because logind kills the processes of the session \
                 (KillUserProcesses=yes): run lanai service install and loginctl enable-linger"
            }
            (false, true) => "jobs continue when you log out, and schedd starts at boot",
            (false, false) => {
                "jobs continue when you log out; after a reboot, the next command starts schedd"
            }
        }
    }
}

/// Warns on a terminal if the job that `command` has submitted will not survive a logout.
pub fn warn(command: &str, home: &Home) {
    let is_inside_job = crate::sys::env::var("PBS_JOBID").is_some();
    if home.system || is_inside_job || !std::io::stderr().is_terminal() {
        return;
    }
    let effect = LogoutEffect::find();
    if effect.ends_jobs() {
        eprintln!("{command}: {}", effect.text());
    }
}

/// The path of the unit in the user's configuration directory.
pub fn unit_path() -> Result<PathBuf, Failure> {
    let folder = directories::BaseDirs::new().map(|folders| folders.config_dir().to_path_buf());
    let folder =
        folder.ok_or_else(|| Failure::new(1, "the home directory is unknown: set HOME"))?;
    Ok(folder.join("systemd/user").join(UNIT))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_end_at_logout_with_their_session_or_with_the_services_of_the_user() {
        let ends = |has_service, lingers, kills| {
            let effect = LogoutEffect {
                has_service,
                lingers,
                kills,
            };
            assert_eq!(effect.text().contains("jobs end"), effect.ends_jobs());
            effect.ends_jobs()
        };
        assert!(ends(false, false, true) && ends(false, true, true));
        assert!(!ends(false, false, false));
        assert!(ends(true, false, false) && ends(true, false, true));
        assert!(!ends(true, true, true) && !ends(true, true, false));
    }
}
