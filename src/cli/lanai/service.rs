//! `lanai service`: a systemd service of the user that starts the schedd of a personal
//! installation at boot, and starts it again after a failure.

use crate::cli::client::exit::{self, Failure};
use crate::cli::client::logout::{LogoutEffect, UNIT, unit_path};
use crate::spool::lock;
use crate::sys::home::Home;
use crate::sys::{env, filesystem, logind};
use clap::{Args, Subcommand};
use std::path::Path;

/// Start the schedd of a personal installation at boot
#[derive(Clone, Debug, Args)]
pub struct ServiceArgs {
    /// What to do
    #[command(subcommand)]
    pub action: ServiceAction,
}

/// An action on the service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Subcommand)]
pub enum ServiceAction {
    /// Create and start the systemd service of this user. Running jobs continue
    Install,
    /// Show the state of the service, and what happens to jobs at logout
    Status,
    /// Stop and remove the service. Running jobs continue, and the next command starts schedd
    Remove,
}

/// Runs `lanai service`. Returns the exit status: 0, or 1 for `status` without a service.
pub fn run(arguments: &ServiceArgs) -> Result<u8, Failure> {
    let home = Home::find()?;
    if home.system {
        let text = "this is the shared installation; its services are started with: sudo \
                    systemctl enable --now schedd.socket schedd.service noded.service";
        return Err(Failure::new(1, text));
    }
    let path = unit_path()?;
    match arguments.action {
        ServiceAction::Install => install(&home, &path),
        ServiceAction::Status => status(&path),
        ServiceAction::Remove => remove(&path),
    }
}

/// The text of the unit that runs the program `schedd` for the installation in `state`.
///
/// `KillMode=process`: noded and the jobs continue while schedd restarts. With `Delegate=yes`,
/// noded creates the control groups of jobs below the control group of the service.
pub fn unit(schedd: &Path, state: &Path) -> String {
    let program = quoted(&schedd.display().to_string()).replace('$', "$$");
    let variable = quoted(&format!("LANAI_HOME={}", state.display()));
    format!(
        "[Unit]
Description=Lanai: runs the batch jobs of this user
Documentation=man:schedd(8) man:lanai(7)

[Service]
Type=simple
Environment={variable}
ExecStart={program} --foreground --stay
Restart=on-failure
RestartSec=1
KillMode=process
Delegate=yes
TasksMax=infinity
TimeoutStopSec=30

[Install]
WantedBy=default.target
"
    )
}

/// Quotes a word of a unit file, in which `%` begins a specifier.
fn quoted(word: &str) -> String {
    let mut quoted = String::from("\"");
    for c in word.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            '%' => quoted.push_str("%%"),
            '\n' => quoted.push_str("\\n"),
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

/// The instruction for a system without a systemd that manages the user's services.
fn without_systemd(schedd: &Path, state: &Path) -> String {
    format!(
        "no systemd manages services of this user; to start schedd at boot, add this line with \
         crontab -e: @reboot LANAI_HOME='{}' '{}'",
        state.display(),
        schedd.display()
    )
}

fn install(home: &Home, path: &Path) -> Result<u8, Failure> {
    let schedd = env::program()?.with_file_name("schedd");
    if !logind::has_user_manager() {
        return Err(Failure::new(1, without_systemd(&schedd, &home.state)));
    }
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    filesystem::replace(path, unit(&schedd, &home.state).as_bytes(), 0o644)?;
    systemctl(&["daemon-reload"])?;
    systemctl(&["enable", UNIT])?;
    if lock::is_held(home) {
        crate::schedd::stop(home).map_err(|error| Failure::new(1, format!("{error:#}")))?;
    }
    systemctl(&["restart", UNIT])?;
    let effect = LogoutEffect::find().text();
    exit::print(format!("installed {}\n{effect}\n", path.display()))?;
    Ok(0)
}

fn status(path: &Path) -> Result<u8, Failure> {
    let effect = LogoutEffect::find();
    let state = if effect.has_service && logind::has_user_manager() {
        let (_, enabled) = logind::systemctl(&["is-enabled", UNIT])?;
        let (_, active) = logind::systemctl(&["is-active", UNIT])?;
        format!("{}: {enabled}, {active}", path.display())
    } else if effect.has_service {
        format!("{}: no systemd runs for this user", path.display())
    } else {
        "no service is installed".to_string()
    };
    exit::print(format!("{state}\n{}\n", effect.text()))?;
    Ok(u8::from(!effect.has_service))
}

fn remove(path: &Path) -> Result<u8, Failure> {
    if !path.exists() {
        exit::print("no service is installed\n")?;
        return Ok(0);
    }
    if logind::has_user_manager() {
        systemctl(&["disable", "--now", UNIT])?;
    }
    std::fs::remove_file(path)?;
    if logind::has_user_manager() {
        systemctl(&["daemon-reload"])?;
    }
    exit::print(format!("removed {}\n", path.display()))?;
    Ok(0)
}

fn systemctl(arguments: &[&str]) -> Result<(), Failure> {
    let command = || format!("systemctl --user {}", arguments.join(" "));
    match logind::systemctl(arguments) {
        Ok((true, _)) => Ok(()),
        Ok((false, output)) => Err(Failure::new(1, format!("{}: {output}", command()))),
        Err(error) => Err(Failure::new(1, format!("{}: {error}", command()))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_unit_runs_schedd_for_its_installation() {
        let text = unit(Path::new("/o p/t$/schedd"), Path::new("/h/\"50%\""));
        for line in [
            "Environment=\"LANAI_HOME=/h/\\\"50%%\\\"\"",
            "ExecStart=\"/o p/t$$/schedd\" --foreground --stay",
            "Restart=on-failure",
            "KillMode=process",
            "Delegate=yes",
            "WantedBy=default.target",
        ] {
            assert!(text.lines().any(|known| known == line), "{line}\n{text}");
        }
    }

    #[test]
    fn without_systemd_the_remedy_is_a_line_of_crontab() {
        let text = without_systemd(Path::new("/b/schedd"), Path::new("/h"));
        assert!(
            text.ends_with("@reboot LANAI_HOME='/h' '/b/schedd'"),
            "{text}"
        );
        assert_eq!(text.lines().count(), 1);
    }
}
