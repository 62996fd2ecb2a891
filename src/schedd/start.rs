//! The command `schedd`: command line options, and the start of the daemon.

use crate::model::policy::Preset;
use crate::model::time::Span;
use crate::schedd::check;
use crate::schedd::clients::listen::Listener;
use crate::schedd::control;
use crate::schedd::nested;
use crate::schedd::nested::installation::NestedOptions;
use crate::schedd::state::Schedd;
use crate::schedd::storage::recover::Recovered;
use crate::schedd::storage::recover::recover;
use crate::spool::lock::LockError;
use crate::sys::home::Home;
use crate::sys::signals::Signals;
use crate::sys::{clock, daemon};
use anyhow::{Context, Result, bail};
use clap::{CommandFactory, Parser};
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// How long to wait until the schedd that has locked the spool responds or exits.
const TAKEOVER_TIMEOUT: Span = Span::seconds(30);

/// Schedule jobs: decide when and where each job runs.
///
/// Without options, schedd starts as a daemon, and the command returns as soon as the daemon
/// accepts requests. In a personal installation the first qsub starts schedd.
#[derive(Debug, Parser)]
#[command(name = "schedd", version, max_term_width = 100)]
struct Arguments {
    /// Stay in the foreground and log to standard error.
    #[arg(long)]
    foreground: bool,
    /// Report readiness on standard output, then close it.
    #[arg(long, hide = true, requires = "foreground")]
    ready: bool,
    /// Do not exit when idle: for a service that starts schedd. The schedd of a shared
    /// installation never exits when idle.
    #[arg(long, requires = "foreground")]
    stay: bool,
    /// Show the status of the running schedd.
    #[arg(long, conflicts_with_all = ["foreground", "stop", "check"])]
    status: bool,
    /// Stop the running schedd; running jobs continue, and the next schedd takes them over.
    #[arg(long, conflicts_with_all = ["foreground", "check"])]
    stop: bool,
    /// Validate the configuration, and print each setting with its value and origin: preset, line
    /// of the file, or qmgr.
    #[arg(long, conflicts_with = "foreground")]
    check: bool,
    /// Inside a job: run a private queue on the job's resources until COMMAND and all jobs of the
    /// queue have finished or, without COMMAND, until the queue has been idle for a while.
    #[arg(long, conflicts_with_all = ["foreground", "status", "stop", "check"])]
    nested: bool,
    /// Scheduling preset of the nested queue (default: first come, first served).
    #[arg(long, value_name = "PRESET", requires = "nested", value_parser = presets())]
    preset: Option<String>,
    /// Configuration file (lanai.toml) of the nested queue.
    #[arg(
        long,
        value_name = "FILE",
        requires = "nested",
        conflicts_with = "preset"
    )]
    config: Option<PathBuf>,
    /// Move waiting jobs of the job's owner from this queue of the outer schedd to the nested
    /// queue.
    #[arg(long, value_name = "QUEUE", requires = "nested")]
    queue: Option<String>,
    /// Command to run; its qsub and qstat use the nested queue.
    #[arg(last = true, value_name = "COMMAND", requires = "nested")]
    command: Vec<OsString>,
    /// Output format of --check: text (a valid lanai.toml) or json.
    #[arg(short = 'F', long, value_name = "FORMAT", requires = "check", default_value = "text", value_parser = ["text", "json"])]
    format: String,
}

/// The names of all presets.
fn presets() -> Vec<&'static str> {
    Preset::ALL.iter().map(|(name, _)| *name).collect()
}

/// The definition of the command line, for manual pages and completions.
pub fn command() -> clap::Command {
    Arguments::command()
}

/// Runs the program.
pub fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match run(&arguments) {
        Ok(status) => status,
        Err(error) => {
            if arguments.ready {
                let _ = daemon::report(&format!("{error:#}"));
            }
            eprintln!("schedd: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<ExitCode> {
    if arguments.nested {
        let (preset, config) = (arguments.preset.as_deref(), arguments.config.as_deref());
        let queue = arguments.queue.as_deref();
        return nested::run(&NestedOptions {
            preset,
            config,
            queue,
            command: &arguments.command,
        });
    }
    run_daemon_or_command(arguments).map(|()| ExitCode::SUCCESS)
}

fn run_daemon_or_command(arguments: &Arguments) -> Result<()> {
    let home = Home::find()?;
    match arguments {
        Arguments { status: true, .. } => control::status(&home),
        Arguments { stop: true, .. } => control::stop(&home),
        Arguments {
            check: true,
            format,
            ..
        } => check::check(home, format == "json"),
        Arguments {
            foreground: true,
            ready,
            stay,
            ..
        } => serve(home, *ready, *stay),
        _ => daemon::start_and_wait("schedd", &["--foreground", "--ready"], &home).map(drop),
    }
}

fn serve(home: Home, ready: bool, stay: bool) -> Result<()> {
    log_to_stderr();
    nix::sys::stat::umask(nix::sys::stat::Mode::from_bits_truncate(0o077));
    raise_descriptor_limit();
    let signals = Signals::catch()?;
    let Some(recovered) = lock_and_load(&home, ready)? else {
        return daemon::report("ready");
    };
    let listener = Listener::open(&recovered.server.setup, &home).context("schedd.sock")?;
    let mut schedd = Schedd::new(home.clone(), recovered, listener, signals)?;
    schedd.stays = stay;
    if ready {
        daemon::report("ready")?;
    }
    tracing::info!("schedd serves {}", home.spool().display());
    schedd.serve();
    Ok(())
}

/// Locks and loads the spool (schedd's database). If another schedd has locked the spool: without
/// `ready`, fails at once; with `ready`, waits until the other schedd answers requests (returns
/// None) or has exited, and fails after [`TAKEOVER_TIMEOUT`]. The other schedd may have just been
/// started by another command, or may be about to exit.
fn lock_and_load(home: &Home, ready: bool) -> Result<Option<Recovered>> {
    let until = clock::monotonic() + TAKEOVER_TIMEOUT;
    while clock::monotonic() < until {
        match recover(home) {
            Err(error) if ready && matches!(error.downcast_ref(), Some(LockError::Held(_))) => {}
            other => return other.map(Some),
        }
        if control::is_served(home) {
            return Ok(None);
        }
        clock::sleep(Duration::from_millis(10));
    }
    bail!(
        "another schedd has locked {} and does not answer",
        home.spool().display()
    )
}

fn log_to_stderr() {
    let level = crate::sys::env::text("LANAI_LOG")
        .and_then(|level| level.parse().ok())
        .unwrap_or(tracing::Level::INFO);
    let log = tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_ansi(false)
        .with_max_level(level);
    // Errors of logging itself, for example on a full disk, are ignored, because reporting them
    // would panic.
    log.log_internal_errors(false).init();
}

fn raise_descriptor_limit() {
    use nix::sys::resource::{Resource, getrlimit, setrlimit};
    if let Ok((_, hard)) = getrlimit(Resource::RLIMIT_NOFILE) {
        let _ = setrlimit(Resource::RLIMIT_NOFILE, hard.min(65_536), hard);
    }
}
