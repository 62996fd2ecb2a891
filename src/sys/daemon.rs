//! Starts Lanai's daemons, such as `schedd`.

#![allow(
    clippy::disallowed_methods,
    reason = "only this module starts programs of Lanai"
)]

use super::env;
use super::home::Home;
use anyhow::{Context, Result, bail};
use nix::sys::signal::{SigHandler, Signal, kill, signal};
use nix::unistd::Pid;
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// Size in bytes above which a log is rotated.
const MAX_LOG: u64 = 8 << 20;

/// The program file of a daemon: the file with this name in the directory of the running program,
/// if it exists; else only the name, which exec looks up in `PATH`.
fn program(name: &str) -> PathBuf {
    let next_to_this = env::program()
        .ok()
        .map(|own| own.with_file_name(name))
        .filter(|path| path.exists());
    next_to_this.unwrap_or_else(|| name.into())
}

/// Starts a daemon of an installation in a new session. The daemon inherits only standard error.
pub fn start(name: &str, arguments: &[&str], home: &Home) -> Result<Started> {
    let mut command = detached(name, arguments, home);
    command.stdin(Stdio::null()).stdout(Stdio::null());
    let child = command
        .spawn()
        .with_context(|| format!("cannot start {}", program(name).display()))?;
    Ok(Started(child))
}

/// A started daemon.
#[derive(Debug)]
pub struct Started(Child);

impl Started {
    /// The daemon's pid.
    pub fn pid(&self) -> Pid {
        Pid::from_raw(self.0.id() as i32)
    }

    /// Whether the daemon is alive. Reaps it if it has ended.
    pub fn lives(&mut self) -> bool {
        matches!(self.0.try_wait(), Ok(None))
    }

    /// Sends SIGTERM to the daemon if it is alive. This works even before the daemon listens.
    pub fn send_away(&mut self) {
        if self.lives() {
            // The daemon has not been reaped, so its pid cannot belong to another process.
            let _ = kill(self.pid(), Signal::SIGTERM);
        }
    }
}

/// Starts a daemon and waits until it reports that it is ready (see [`report`]). The error contains
/// any other text that the daemon reports.
pub fn start_and_wait(name: &str, arguments: &[&str], home: &Home) -> Result<Started> {
    let log = home.log(name);
    let mut command = detached(name, arguments, home);
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(open_log(&log)?);
    let mut child = command
        .spawn()
        .with_context(|| format!("cannot start {}", program(name).display()))?;
    let mut output = Vec::new();
    if let Some(mut out) = child.stdout.take() {
        out.read_to_end(&mut output)?;
    }
    match String::from_utf8_lossy(&output).trim() {
        "ready" => Ok(Started(child)),
        "" => bail!("{name} exited without a message; see {}", log.display()),
        error => bail!("{error}"),
    }
}

fn open_log(log: &Path) -> Result<File> {
    // An existing directory keeps its mode, because in a shared installation other users need
    // access to it.
    if let Some(folder) = log.parent().filter(|folder| !folder.exists()) {
        super::filesystem::make_private(folder).with_context(|| folder.display().to_string())?;
    }
    let large = std::fs::metadata(log).is_ok_and(|metadata| metadata.len() > MAX_LOG);
    if large {
        std::fs::rename(log, log.with_extension("log.old"))?;
    }
    File::options()
        .create(true)
        .append(true)
        .mode(0o600)
        .open(log)
        .with_context(|| log.display().to_string())
}

/// A command that runs in a new session and inherits only the standard descriptors, which the
/// caller redirects. Otherwise, with `id=$(qsub job.sh)`, the shell would wait for a daemon that
/// has the pipe open. `LANAI_HOME` is set unless the installation is shared, so that the daemon
/// does not switch to a shared installation when `/etc/lanai/lanai.toml` is created.
fn detached(name: &str, arguments: &[&str], home: &Home) -> Command {
    let mut command = Command::new(program(name));
    command.args(arguments).current_dir("/");
    if !home.system {
        command.env("LANAI_HOME", &home.state);
    }
    // SAFETY: between fork and exec only system calls are made, none of which allocates.
    unsafe {
        command.pre_exec(|| {
            nix::unistd::setsid()?;
            signal(Signal::SIGCHLD, SigHandler::SigDfl)?;
            signal(Signal::SIGHUP, SigHandler::SigDfl)?;
            super::process::close_others_on_exec();
            Ok(())
        });
    }
    command
}

/// Writes `ready` or an error to standard output, and redirects standard output to `/dev/null`.
/// This closes the pipe, so [`start_and_wait`] returns in the process that started this daemon.
pub fn report(text: &str) -> Result<()> {
    use std::io::Write;
    let mut out = std::io::stdout();
    writeln!(out, "{text}")?;
    out.flush()?;
    let null = File::options().read(true).write(true).open("/dev/null")?;
    nix::unistd::dup2_stdout(&null)?;
    Ok(())
}
