//! noded's settings from the command line and `lanai.toml`, such as the users that may run jobs.

use super::args::NodedArgs;
use super::folder;
use crate::config::Config;
use crate::model::time::Span;
use crate::sys::filesystem;
use crate::sys::home::Home;
use anyhow::{Context, Result, bail};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// noded's settings for jobs on this host.
#[derive(Clone, Debug)]
pub struct NodeRules {
    /// Whether noded runs jobs of many users. If so, it refuses jobs of root.
    pub shared: bool,
    /// The lowest uid of job owners, if noded runs as root.
    pub min_uid: u32,
    /// Maximum number of processes and threads of a script or a task; 0 for unlimited.
    pub max_processes: u32,
    /// The program that lists processes on GPUs, and the interval at which it runs.
    pub gpu_tool: (PathBuf, Span),
    /// The names of the nodes for which `lanai.toml` lists GPUs.
    pub with_gpus: Vec<String>,
}

impl NodeRules {
    /// Reads the settings of this installation. Without a `lanai.toml`, the defaults apply.
    pub fn of(args: &NodedArgs, home: &Home) -> Result<NodeRules> {
        let text = match std::fs::read_to_string(&home.config) {
            Err(e) if e.kind() == ErrorKind::NotFound => String::new(),
            other => other.with_context(|| home.config.display().to_string())?,
        };
        let Config {
            server,
            launch,
            nodes,
            ..
        } = Config::parse(&text).with_context(|| home.config.display().to_string())?;
        let named = nodes
            .into_iter()
            .filter(|node| node.gpus.as_ref().is_some_and(|gpus| !gpus.is_empty()));
        let shared = args.shared || home.system || server.shared;
        Ok(NodeRules {
            shared,
            min_uid: args.min_uid.unwrap_or(server.min_uid),
            max_processes: launch.max_processes,
            gpu_tool: (launch.gpu_tool, launch.gpu_look),
            with_gpus: named.map(|node| node.name).collect(),
        })
    }

    /// Fails if noded runs jobs of many users, and other users cannot enter the state directory,
    /// which contains their scripts.
    pub fn check_scripts_reachable(&self, state: &Path) -> Result<()> {
        let attempts = folder::attempts(state);
        if self.shared
            && let Some(closed) = filesystem::first_closed_ancestor(&attempts)
        {
            bail!(
                "jobs of other users cannot reach their scripts in {}: other users cannot enter \
                 {}; run chmod a+x {}, or choose another directory with --state",
                attempts.display(),
                closed.display(),
                closed.display()
            );
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;

    fn rules(arguments: &[&str], config: &str) -> NodeRules {
        let folder = tempfile::tempdir().unwrap();
        let home = Home {
            state: folder.path().into(),
            runtime: folder.path().into(),
            config: folder.path().join("lanai.toml"),
            system: false,
        };
        fs::write(&home.config, config).unwrap();
        NodeRules::of(
            &NodedArgs::try_parse_from([&["noded"], arguments].concat()).unwrap(),
            &home,
        )
        .unwrap()
    }

    #[test]
    fn the_command_line_overrides_the_configuration_file() {
        let file = "[server]\nshared = true\nmin_uid = 500\n";
        assert_eq!(
            (rules(&[], file).shared, rules(&[], file).min_uid),
            (true, 500)
        );
        assert_eq!(rules(&["--min-uid", "7"], file).min_uid, 7);
        assert_eq!(
            (rules(&[], "").shared, rules(&[], "").min_uid),
            (false, 1000)
        );
        assert!(rules(&["--shared"], "").shared);
    }

    #[test]
    fn the_error_contains_the_directory_that_other_users_cannot_enter() {
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), Permissions::from_mode(0o700)).unwrap();
        let state = folder.path().join("node");
        fs::create_dir_all(folder::attempts(&state)).unwrap();
        let shared = rules(&["--shared"], "");
        let error = shared
            .check_scripts_reachable(&state)
            .unwrap_err()
            .to_string();
        assert!(
            error.contains(&format!("cannot enter {};", folder.path().display())),
            "{error}"
        );
        assert!(rules(&[], "").check_scripts_reachable(&state).is_ok());
        fs::set_permissions(folder.path(), Permissions::from_mode(0o711)).unwrap();
        assert!(shared.check_scripts_reachable(&state).is_ok());
    }
}
