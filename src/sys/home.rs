//! Where an installation lives: spool, sockets and configuration.

use anyhow::{Context, Result};
use directories::ProjectDirs;
use std::path::{Path, PathBuf};

/// The folders of one installation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Home {
    /// What must survive a reboot: `spool/`, `node/`, `schedd.json`.
    pub state: PathBuf,
    /// Sockets.
    pub runtime: PathBuf,
    /// `lanai.toml`; need not exist.
    pub config: PathBuf,
    /// Found through `/etc/lanai/lanai.toml`: many users.
    pub system: bool,
}

impl Home {
    /// The installation this process belongs to: the folder `LANAI_HOME`, else the one of
    /// `/etc/lanai/lanai.toml`, else the user's own.
    pub fn find() -> Result<Home> {
        if let Some(folder) = super::env::var("LANAI_HOME").filter(|folder| !folder.is_empty()) {
            return Home::under(Path::new(&folder));
        }
        let config = PathBuf::from("/etc/lanai/lanai.toml");
        if config.exists() {
            return Ok(Home { state: "/var/spool/lanai".into(), runtime: "/run/lanai".into(), config, system: true });
        }
        Home::personal()
    }

    fn under(folder: &Path) -> Result<Home> {
        let folder = std::path::absolute(folder).context("LANAI_HOME names no folder")?;
        Ok(Home { config: folder.join("lanai.toml"), runtime: folder.clone(), state: folder, system: false })
    }

    fn personal() -> Result<Home> {
        let remedy = "no home folder is known: set HOME, or LANAI_HOME to a folder for Lanai";
        let folders = ProjectDirs::from("", "", "lanai").context(remedy)?;
        let state = folders.state_dir().unwrap_or_else(|| folders.data_local_dir()).to_path_buf();
        let runtime = folders.runtime_dir().map_or_else(|| state.clone(), Path::to_path_buf);
        Ok(Home { config: folders.config_dir().join("lanai.toml"), runtime, state, system: false })
    }

    /// The folder of the spool: database, lock.
    pub fn spool(&self) -> PathBuf {
        self.state.join("spool")
    }

    /// The folder of the programs of hooks that `qmgr` has brought.
    pub fn hooks(&self) -> PathBuf {
        self.state.join("hook-programs")
    }

    /// The folder in which noded keeps its attempts.
    pub fn node(&self) -> PathBuf {
        self.state.join("node")
    }

    /// The log of a daemon that was started without a terminal.
    pub fn log(&self, daemon: &str) -> PathBuf {
        self.state.join(format!("{daemon}.log"))
    }

    /// What of its host this installation may offer; only where it lives within a job.
    pub fn grant(&self) -> PathBuf {
        self.state.join("grant.json")
    }

    /// The record that says who holds the spool and where its socket is.
    pub fn record(&self) -> PathBuf {
        self.state.join("schedd.json")
    }
}
