//! `schedd --nested`: a private queue within a job of another Lanai (F17).
//!
//! It is a personal installation whose folder lies in the job's `TMPDIR` and whose noded offers what
//! the job was given: schedd and noded themselves are the same at every level. The process here is
//! what the job waits for. It runs the command it was given, waits for the jobs that were submitted
//! meanwhile, and ends whatever is left, so that nothing outlives it.

use super::brood::{Brood, News};
use super::start;
use crate::model::grant::{self, Grant};
use crate::model::state::State;
use crate::model::time::Span;
use crate::spool::lock;
use crate::sys::home::Home;
use crate::sys::process::End;
use crate::sys::{clock, daemon, env, filesystem, program};
use crate::wire::client::{Client, ClientError};
use crate::wire::message::{Reply, Request, Status, Watched};
use anyhow::{Context, Result, anyhow, bail};
use nix::sys::signal::Signal;
use nix::unistd::Pid;
use std::ffi::OsString;
use std::io::{ErrorKind, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

/// What holds in a nested instance that is told nothing else: strictly first come, first served.
const FIRST_COME_FIRST_SERVED: &str = "[order]\nby = \"fcfs\"\n[backfill]\npolicy = \"none\"\n";
/// How long it waits for jobs when it runs no command, unless its configuration says.
const IDLE: &str = "1m";
/// How long noded may take to be there.
const PATIENCE: Span = Span::seconds(10);
/// How long what is left may take to end by itself, and once it has been asked to.
const LINGER: Span = Span::seconds(3);
const GRACE: Span = Span::seconds(10);

/// What is asked of a nested instance.
#[derive(Debug)]
pub struct Wishes<'a> {
    /// `--preset`: whose habits are its defaults.
    pub preset: Option<&'a str>,
    /// `--config`: its `lanai.toml`.
    pub config: Option<&'a Path>,
    /// The command to run; empty for none.
    pub command: &'a [OsString],
}

/// Serves the job this process belongs to; the result is the exit status of the command.
pub fn run(wishes: &Wishes) -> Result<ExitCode> {
    let home = settle(wishes)?;
    let schedd = daemon::start_and_wait("schedd", &["--foreground", "--ready"], &home.log("schedd"))?;
    until_there_are_nodes(&home);
    let mut brood = Brood::gather()?;
    let served = serve(&home, schedd.pid(), wishes.command, &mut brood);
    if !matches!(served, Ok(Over::Signal(_))) {
        let _ = start::stop(&home);
    }
    brood.end(LINGER, matches!(served, Ok(Over::Signal(_))).then_some(GRACE));
    Ok(ExitCode::from(match served? {
        Over::Ended(End::Exited(status)) => status.rem_euclid(256) as u8,
        Over::Ended(End::Signaled(number)) => after_signal(number),
        Over::Signal(signal) => after_signal(signal as i32),
    }))
}

/// Waits for noded, but not for ever: until then nobody can tell which jobs ask for more than there is.
fn until_there_are_nodes(home: &Home) {
    let until = clock::monotonic() + PATIENCE;
    while clock::monotonic() < until {
        let status = Client::reach(home).and_then(|mut client| client.call(&Request::Status));
        if matches!(status, Ok(Reply::Status(status)) if status.nodes.iter().any(|(_, is_up)| *is_up)) {
            return;
        }
        clock::sleep(Duration::from_millis(5));
    }
}

/// The status by which a shell tells of a signal.
fn after_signal(number: i32) -> u8 {
    (128 + number).rem_euclid(256) as u8
}

// ------------------------------------------------------------------------- its folder

/// Makes the installation, and has this process and all that it starts belong to it.
fn settle(wishes: &Wishes) -> Result<Home> {
    let remedy = "schedd --nested serves within a job of Lanai: submit it, as in \
                  `qsub -l select=1:ncpus=8 -- schedd --nested`";
    let grant = env::text(grant::VARIABLE).context(remedy)?;
    let granted = Grant::parse(&grant).map_err(|why| anyhow!(why)).context(grant::VARIABLE)?;
    if granted.ncpus == 0 {
        bail!("this job was given no processors, so none can be offered: ask for some with -l select=1:ncpus=N");
    }
    let folder = env::var("TMPDIR").map(PathBuf::from).filter(|folder| folder.is_absolute());
    let folder = folder.context("TMPDIR names no folder of the job's own to live in")?.join("lanai");
    let job = env::text("PBS_JOBID").context("PBS_JOBID is not set")?;
    let config = configuration(wishes, &job)?;
    env::set("LANAI_HOME", &folder);
    let home = Home::find()?;
    if lock::is_held(&home) {
        bail!("this job has a schedd already: export LANAI_HOME={}", quoted(&folder));
    }
    filesystem::make_private(&folder).with_context(|| folder.display().to_string())?;
    std::fs::write(home.grant(), grant).with_context(|| home.grant().display().to_string())?;
    std::fs::write(&home.config, config).with_context(|| home.config.display().to_string())?;
    Ok(home)
}

/// Its `lanai.toml`: the one it was given, else what holds by default.
fn configuration(wishes: &Wishes, job: &str) -> Result<String> {
    let text = match (wishes.config, wishes.preset) {
        (Some(file), _) => std::fs::read_to_string(file).with_context(|| file.display().to_string())?,
        (None, Some(preset)) => format!("preset = \"{preset}\"\n"),
        (None, None) => FIRST_COME_FIRST_SERVED.to_string(),
    };
    // So that what is wrong with it is told with its own name and line.
    let place = || wishes.config.map_or_else(String::new, |file| file.display().to_string());
    let config = crate::model::config::Config::parse(&text).with_context(place)?;
    if config.nodes.iter().any(|node| node.socket.is_some()) {
        bail!("{}: a [[node]] with a socket is not the job's to offer: remove it", place());
    }
    let mut table: toml::Table = text.parse().with_context(place)?;
    let server = table.entry("server").or_insert_with(|| toml::Table::new().into());
    if let Some(server) = server.as_table_mut() {
        server.entry("name").or_insert_with(|| name(job).into());
        server.entry("idle").or_insert_with(|| IDLE.into());
        // One job's queue is its owner's.
        server.insert("shared".into(), false.into());
    }
    Ok(toml::to_string(&table)?)
}

/// The name after the dot of its job ids: `job12.head`, or `job12-3.head` in element 3 of an array.
fn name(job: &str) -> String {
    format!("job{}", job.replace('[', "-").replace(']', ""))
}

/// As a shell reads it as one word.
fn quoted(path: &Path) -> String {
    format!("'{}'", path.display().to_string().replace('\'', r"'\''"))
}

// ------------------------------------------------------------------------- its life

/// Why it is over.
enum Over {
    /// The command ended so, and all jobs have; or nothing came for long.
    Ended(End),
    /// It was told to end.
    Signal(Signal),
}

fn serve(home: &Home, schedd: Pid, command: &[OsString], brood: &mut Brood) -> Result<Over> {
    let Some((first, arguments)) = command.split_first() else {
        announce(home)?;
        return Ok(match brood.until_gone(schedd, true)? {
            Err(signal) => Over::Signal(signal),
            Ok(End::Exited(0)) => Over::Ended(End::Exited(0)),
            Ok(_) => bail!("its schedd ended before its time; see {}", home.log("schedd").display()),
        });
    };
    let command = match program::start(first, arguments) {
        Ok(process) => process,
        Err(error) => return Ok(Over::Ended(End::Exited(not_started(first, &error)))),
    };
    match brood.until_gone(command, false)? {
        Err(signal) => Ok(Over::Signal(signal)),
        Ok(end) => Ok(until_jobs_are_over(home, brood)?.map_or(Over::Ended(end), Over::Signal)),
    }
}

/// Says how commands find it, in the words of a shell.
fn announce(home: &Home) -> Result<()> {
    let mut out = std::io::stdout();
    writeln!(out, "export LANAI_HOME={}", quoted(&home.state))?;
    Ok(out.flush()?)
}

/// Says why a command cannot be started; the status by which a shell tells that.
fn not_started(program: &OsString, error: &std::io::Error) -> i32 {
    eprintln!("schedd: {}: {error}", program.display());
    if error.kind() == ErrorKind::NotFound { 127 } else { 126 }
}

/// Waits until no job is left that could run; the signal, if one comes first.
fn until_jobs_are_over(home: &Home, brood: &mut Brood) -> Result<Option<Signal>> {
    let mut seen = 0;
    let mut client = Client::connect(home)?;
    loop {
        match look(&mut client, brood, seen) {
            Ok(Look::Changed(now)) => seen = now,
            Ok(Look::Over) => return Ok(None),
            Ok(Look::Signal(signal)) => return Ok(Some(signal)),
            // One that was killed is followed by another, which knows all jobs.
            Err(ClientError::Unreachable(_)) => (client, seen) = (Client::connect(home)?, 0),
            Err(error) => bail!(error),
        }
    }
}

/// What a look at the jobs has shown.
enum Look {
    /// Some wait or run, as of this change.
    Changed(u64),
    /// None does.
    Over,
    /// We were told to end.
    Signal(Signal),
}

/// Waits for a change after `seen`, then looks.
fn look(client: &mut Client, brood: &mut Brood, seen: u64) -> Result<Look, ClientError> {
    client.begin(&Request::Watch { of: Watched::Any, since: seen })?;
    loop {
        match brood.wait(Some(client.stream().as_fd())) {
            News::Signal(Signal::SIGCHLD) => {}
            News::Signal(signal) => return Ok(Look::Signal(signal)),
            News::Readable => break,
        }
    }
    let seen = client.changed()?;
    let Reply::Status(status) = client.call(&Request::Status)? else { return Ok(Look::Changed(seen)) };
    if works(&status) {
        return Ok(Look::Changed(seen));
    }
    let held = status.jobs.iter().find(|(state, _)| *state == State::Held).map_or(0, |(_, count)| *count);
    if held > 0 {
        eprintln!("schedd: {held} held jobs have not run, and end here");
    }
    Ok(Look::Over)
}

fn works(status: &Status) -> bool {
    let works = |state: State| matches!(state, State::Queued | State::Waiting | State::Running | State::Begun);
    status.jobs.iter().any(|&(state, count)| works(state) && count > 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::config::Config;
    use crate::model::policy::{Filling, Order};

    fn config(wishes: &Wishes) -> Config {
        Config::parse(&configuration(wishes, "12[3].head").unwrap()).unwrap()
    }

    #[test]
    fn it_serves_in_order_unless_it_is_told_otherwise() {
        let wishes = |preset, config| Wishes { preset, config, command: &[] };
        let plain = config(&wishes(None, None));
        assert_eq!((plain.precedence.order, plain.backfill.policy), (Order::Fcfs, Filling::None));
        assert_eq!((plain.server.name.as_deref(), plain.server.idle), (Some("job12-3.head"), Span::seconds(60)));
        assert_ne!(config(&wishes(Some("flux"), None)).precedence.order, Order::Fcfs);
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("own.toml");
        std::fs::write(&file, "[server]\nidle = \"5m\"\nshared = true\n[cycle]\npoll_interval = \"7s\"\n").unwrap();
        let own = config(&wishes(None, Some(&file)));
        assert_eq!((own.server.idle, own.cycle.poll_interval), (Span::seconds(300), Span::seconds(7)));
        assert!(!own.server.shared && own.server.name.is_some());
    }

    #[test]
    fn nodes_of_others_and_mistakes_are_refused_by_the_files_name() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("own.toml");
        let refused = |text: &str| {
            std::fs::write(&file, text).unwrap();
            format!(
                "{:#}",
                configuration(&Wishes { preset: None, config: Some(&file), command: &[] }, "1.h").unwrap_err()
            )
        };
        let foreign = refused("[[node]]\nname = \"n2\"\nsocket = \"/run/n2.sock\"\n");
        assert!(foreign.contains("own.toml") && foreign.contains("socket"), "{foreign}");
        let mistake = refused("[order]\nby = \"fcsf\"\n");
        assert!(mistake.contains("own.toml") && mistake.contains("line 2"), "{mistake}");
    }

    #[test]
    fn a_folder_is_one_word_to_a_shell() {
        assert_eq!(quoted(Path::new("/tmp/it's here")), r"'/tmp/it'\''s here'");
    }
}
