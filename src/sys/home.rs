//! The directories of an installation: spool, sockets and configuration.

use anyhow::{Context, Result};
use directories::ProjectDirs;
use std::fmt;
use std::path::{Path, PathBuf};

/// The configuration file of the shared installation.
const SHARED_CONFIG: &str = "/etc/lanai/lanai.toml";

/// The environment variable that selects an installation.
const VARIABLE: &str = "LANAI_HOME";

/// The directories of one installation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Home {
    /// The directory of persistent state, such as `spool/`, `node/` and `schedd.json`.
    pub state: PathBuf,
    /// The directory of sockets.
    pub runtime: PathBuf,
    /// The path of `lanai.toml`, which need not exist.
    pub config: PathBuf,
    /// Whether this is the shared installation, which `/etc/lanai/lanai.toml` selects.
    pub system: bool,
}

impl Home {
    /// The installation that this process uses: the installation in `LANAI_HOME` if that is set,
    /// else the shared installation if `/etc/lanai/lanai.toml` exists, else the user's personal
    /// installation.
    pub fn find() -> Result<Home> {
        match super::env::var(VARIABLE).filter(|folder| !folder.is_empty()) {
            Some(folder) => Home::under(Path::new(&folder)),
            None => Home::shared().map_or_else(Home::personal, Ok),
        }
    }

    /// The user's other installation, which hints can suggest. For the shared installation, this
    /// is the user's personal installation, if it has a spool. For the personal installation, it is
    /// the shared installation, if it exists. None in all other cases.
    pub fn other(&self) -> Option<Home> {
        let personal = Home::personal().ok()?;
        if self.system {
            return personal.spool().exists().then_some(personal);
        }
        if *self != personal {
            return None;
        }
        Home::shared()
    }

    /// Whether this is the user's personal installation, in the default directories.
    pub fn is_personal(&self) -> bool {
        Home::personal().is_ok_and(|personal| *self == personal)
    }

    /// The shell command that selects this installation.
    pub fn selection(&self) -> String {
        if self.system {
            return format!("unset {VARIABLE}");
        }
        format!("export {VARIABLE}={}", self.state.display())
    }

    fn shared() -> Option<Home> {
        let config = PathBuf::from(SHARED_CONFIG);
        let home = Home {
            state: "/var/spool/lanai".into(),
            runtime: "/run/lanai".into(),
            config,
            system: true,
        };
        home.config.exists().then_some(home)
    }

    /// The installation in `folder`. If `folder` is the state directory of the personal
    /// installation and contains no `lanai.toml`, the result is the personal installation. The
    /// personal installation's daemons and jobs have its state directory as `LANAI_HOME`, so that
    /// they do not switch to a shared installation that is created while they run.
    fn under(folder: &Path) -> Result<Home> {
        let folder = std::path::absolute(folder).context("LANAI_HOME is not a valid path")?;
        let config = folder.join("lanai.toml");
        let personal = Home::personal()
            .ok()
            .filter(|personal| personal.state == folder && !config.exists());
        Ok(personal.unwrap_or_else(|| Home {
            config,
            runtime: folder.clone(),
            state: folder,
            system: false,
        }))
    }

    fn personal() -> Result<Home> {
        let remedy =
            "the home directory is unknown: set HOME, or set LANAI_HOME to a directory for Lanai";
        let folders = ProjectDirs::from("", "", "lanai").context(remedy)?;
        let state = folders
            .state_dir()
            .unwrap_or_else(|| folders.data_local_dir())
            .to_path_buf();
        let runtime = folders
            .runtime_dir()
            .map_or_else(|| state.clone(), Path::to_path_buf);
        Ok(Home {
            config: folders.config_dir().join("lanai.toml"),
            runtime,
            state,
            system: false,
        })
    }

    /// The directory of the spool: schedd's database and lock.
    pub fn spool(&self) -> PathBuf {
        self.state.join("spool")
    }

    /// The directory of imported hook programs.
    pub fn hooks(&self) -> PathBuf {
        self.state.join("hook-programs")
    }

    /// noded's state directory, with the records of its attempts.
    pub fn node(&self) -> PathBuf {
        self.state.join("node")
    }

    /// The log file of a daemon that a command has started in the background.
    pub fn log(&self, daemon: &str) -> PathBuf {
        self.state.join(format!("{daemon}.log"))
    }

    /// The file with the resources granted to this installation. It exists only inside a job.
    pub fn grant(&self) -> PathBuf {
        self.state.join("grant.json")
    }

    /// The record of the process that has locked the spool (see [`super::record`]).
    pub fn record(&self) -> PathBuf {
        self.state.join("schedd.json")
    }
}

/// Displays an installation, for instance as `shared installation (/etc/lanai/lanai.toml)` or
/// `personal installation (/home/ann/.local/state/lanai)`.
impl fmt::Display for Home {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        if self.system {
            write!(f, "shared installation ({})", self.config.display())
        } else if self.is_personal() {
            write!(f, "personal installation ({})", self.state.display())
        } else {
            write!(f, "installation at {VARIABLE} ({})", self.state.display())
        }
    }
}
