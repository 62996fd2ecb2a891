//! systemd as a user sees it: services of the user, lingering, and what happens at logout.

#![allow(clippy::disallowed_methods, reason = "only this module runs systemctl")]

use super::env;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Directories of systemd's configuration. A file in an earlier directory hides a file of the same
/// name in a later one.
const CONFIGURATION: [&str; 4] = [
    "etc/systemd",
    "run/systemd",
    "usr/local/lib/systemd",
    "usr/lib/systemd",
];

/// Which processes logind kills when a user logs out, by `logind.conf`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct LogoutRules {
    /// `KillUserProcesses`.
    kills: bool,
    /// `KillOnlyUsers`; empty for all users.
    only: Vec<String>,
    /// `KillExcludeUsers`.
    except: Vec<String>,
}

impl LogoutRules {
    /// Reads the main file and the files that take precedence over it, in order.
    fn read(main: &str, drop_ins: &[String]) -> LogoutRules {
        let mut rules = LogoutRules {
            except: vec!["root".to_string()],
            ..LogoutRules::default()
        };
        // The main file lists the defaults with which logind was compiled as comments.
        let defaults = main.lines().filter_map(|line| line.strip_prefix('#'));
        defaults.for_each(|line| rules.apply(line));
        let files = [main]
            .into_iter()
            .chain(drop_ins.iter().map(String::as_str));
        files
            .flat_map(str::lines)
            .for_each(|line| rules.apply(line));
        rules
    }

    fn apply(&mut self, line: &str) {
        let Some((name, value)) = line.split_once('=') else {
            return;
        };
        let users = || value.split_whitespace().map(String::from).collect();
        match name.trim() {
            "KillUserProcesses" => {
                self.kills = ["1", "yes", "true", "on", "y", "t"].contains(&value.trim());
            }
            "KillOnlyUsers" => self.only = users(),
            "KillExcludeUsers" => self.except = users(),
            _ => {}
        }
    }

    fn apply_to(&self, user: &str) -> bool {
        let is_listed = |list: &[String]| list.iter().any(|listed| listed == user);
        self.kills && !is_listed(&self.except) && (self.only.is_empty() || is_listed(&self.only))
    }
}

/// Whether logind kills the processes of a user's sessions when the sessions end. False without
/// systemd.
pub fn kills_processes_of(user: &str) -> bool {
    let root = root();
    let is_booted = root.join("run/systemd/system").exists();
    is_booted && rules(&root).apply_to(user)
}

/// Whether the services of a user run without a session of the user.
pub fn lingers(user: &str) -> bool {
    root().join("var/lib/systemd/linger").join(user).exists()
}

/// The root of the file system. Tests set the variable `LANAI_TEST_ROOT` to another directory.
fn root() -> PathBuf {
    let test = env::var("LANAI_TEST_ROOT").filter(|_| cfg!(debug_assertions));
    test.map_or_else(|| PathBuf::from("/"), PathBuf::from)
}

fn rules(root: &Path) -> LogoutRules {
    let folders = CONFIGURATION.map(|folder| root.join(folder));
    let mut mains = folders.iter().map(|folder| folder.join("logind.conf"));
    let main = mains.find_map(|path| std::fs::read_to_string(path).ok());
    let mut names: Vec<(std::ffi::OsString, PathBuf)> = Vec::new();
    for folder in folders.iter().map(|folder| folder.join("logind.conf.d")) {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let is_hidden = names.iter().any(|(known, _)| *known == name);
            if !is_hidden && entry.path().extension().is_some_and(|end| end == "conf") {
                names.push((name, entry.path()));
            }
        }
    }
    names.sort();
    let drop_ins = names.into_iter();
    let drop_ins: Vec<String> = drop_ins
        .filter_map(|(_, path)| std::fs::read_to_string(path).ok())
        .collect();
    LogoutRules::read(&main.unwrap_or_default(), &drop_ins)
}

/// Whether the user has a running systemd that manages the user's services.
pub fn has_user_manager() -> bool {
    let runtime = env::var("XDG_RUNTIME_DIR").map(PathBuf::from);
    runtime.is_some_and(|folder| folder.join("systemd/private").exists())
}

/// Runs `systemctl --user`. Returns whether it succeeded, and its output in one line.
pub fn systemctl(arguments: &[&str]) -> io::Result<(bool, String)> {
    let output = Command::new("systemctl")
        .arg("--user")
        .args(arguments)
        .stdin(Stdio::null())
        .output()?;
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    Ok((output.status.success(), lines.join("; ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_setting_of_logind_applies() {
        let kills = |main: &str, drop_ins: &[&str]| {
            let drop_ins: Vec<String> = drop_ins.iter().map(|text| text.to_string()).collect();
            LogoutRules::read(main, &drop_ins).apply_to("ann")
        };
        assert!(!kills("", &[]));
        assert!(kills("[Login]\nKillUserProcesses=yes\n", &[]));
        assert!(kills("[Login]\n#KillUserProcesses=yes\n", &[]));
        assert!(!kills(
            "[Login]\n#KillUserProcesses=yes\nKillUserProcesses = no\n",
            &[]
        ));
        let yes = "KillUserProcesses=yes\n";
        assert!(kills("KillUserProcesses=no\n", &[yes]));
        assert!(!kills(yes, &["KillUserProcesses=no\n"]));
        assert!(!kills(yes, &["KillExcludeUsers=bob ann\n"]));
        assert!(!kills(yes, &["KillOnlyUsers=bob\n"]));
        assert!(kills(yes, &["KillOnlyUsers=bob ann\n"]));
        assert!(!LogoutRules::read(yes, &[]).apply_to("root"));
    }
}
