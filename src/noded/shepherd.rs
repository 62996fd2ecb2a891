//! The shepherd: the process that starts and watches one attempt (one start of a job). The shepherd
//! outlives noded, so a restart of noded does not lose the job's exit status. The shepherd is
//! outside the job's cgroup and session, so it is not ended together with the job.
//!
//! The shepherd's main steps, in this order: record the attempt, check that it was not canceled,
//! run hooks and stage files in, fork the job, watch it, kill remaining processes, run hooks and
//! stage files out, and record the outcome.

mod files;

use super::child::{self, ChildPlan};
use super::environment::{self, EnvironmentSource};
use super::folder::{self, AttemptName, Built, Contents, Folder, Identity, ProcessTrace};
use super::job_hooks::{self, JobHookRunner};
use super::launch_fault::LaunchFault;
use super::limits::{self, Guard, KernelLimits};
use super::meter::UsageMeter;
use super::shared_memory::SharedMemory;
use super::site::Site;
use super::spawner_messages::{self, SpawnerMessage, send_message};
use super::terminal::Terminal;
use super::watch::{JobWatch, WatchedEnd};
use super::{dialects, program, tmpdir, variables};
use crate::model::hook::HookEvent;
use crate::model::job::task::node_file;
use crate::model::job::value_syntax::for_host;
use crate::model::job::{AttemptOutcome, How, attempt, checkpoint};
use crate::model::text::Text;
use crate::sys::cgroup::Cgroup;
use crate::sys::process::{self, Fork};
use crate::sys::user::UserAccount;
use crate::sys::{clock, packet, procfs};
use crate::wire::message::Payload;
use crate::wire::order::Launch;
use nix::sys::prctl;
use nix::sys::signal::Signal;
use nix::unistd::Pid;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Number of tries to write an outcome, one second apart, before it is sent to noded instead.
const RECORD_TRIES: usize = 10;
/// Number of further tries, ten seconds apart, to send or write the outcome.
const SEND_TRIES: usize = 360;

/// The descriptors that a spawner gives to each shepherd.
#[derive(Debug)]
pub struct ShepherdContext {
    /// The connection to noded.
    pub socket: OwnedFd,
    /// A lock that is held until the attempt's directory exists. A starting noded waits for the
    /// lock.
    pub launch_lock: OwnedFd,
    /// The write end of a pipe, closed together with `launch_lock`. At the read end, noded sees
    /// when the spawner has ended and no shepherd holds the lock.
    pub launch_pipe: OwnedFd,
}

/// Runs one attempt in the forked process.
pub fn run(
    site: &Site,
    context: ShepherdContext,
    name: AttemptName,
    launch: io::Result<Vec<u8>>,
) -> ! {
    let ShepherdContext {
        socket: noded,
        launch_lock,
        launch_pipe,
    } = context;
    detach();
    let begun = launch.and_then(|bytes| {
        let launch: Launch = postcard::from_bytes(&bytes).map_err(io::Error::other)?;
        let account = site
            .admit(&launch.owner)
            .and_then(|account| site.in_group(account, launch.groups.as_deref()));
        let recorded = record(site, &launch, account.as_ref().ok())?;
        Ok((recorded, launch, account))
    });
    match begun {
        Err(e) => {
            send_message(
                &noded,
                &SpawnerMessage::Failed(name, format!("cannot record attempt {name}: {e}")),
                None,
                true,
            );
        }
        Ok((None, ..)) => {}
        Ok((Some((built, cookie)), launch, account)) => {
            // Once both are closed, noded assumes that the launch has begun, so a failure to begin
            // must be reported before.
            drop((launch_lock, launch_pipe));
            let mut terminal = None;
            let checkpoint = checkpoint_folder(site, &launch);
            let (outcome, tmpdir) = run_attempt(
                site,
                launch,
                account,
                &built,
                &cookie,
                (&noded, &mut terminal),
            );
            // A job that has succeeded needs no checkpoint any more. If the attempt was ordered to
            // end, which the tombstone shows, the job possibly runs again and needs the checkpoint.
            // Read the tombstone before the outcome is written: when schedd has confirmed the
            // outcome, noded removes the tombstone.
            let is_done = outcome.how == How::Exited(0)
                && folder::read_tombstone(&site.state, name).is_none();
            write_outcome(&noded, &built, name, &outcome);
            if let Some(terminal) = terminal {
                send_message(&noded, &SpawnerMessage::Over(name), None, false);
                terminal.finish(attempt::exit_status(&outcome).unwrap_or(attempt::LOST));
            }
            // The outcome is recorded, so the removal may fail or take long.
            if let Some(tmpdir) = tmpdir
                && !tmpdir::remove_empty(&tmpdir)
            {
                send_message(&noded, &SpawnerMessage::Over(name), None, false);
                remove(&noded, name, &tmpdir);
            }
            if let Some(folder) = checkpoint
                && is_done
            {
                // Notify noded before accessing the file system of the directory, which may hang.
                send_message(&noded, &SpawnerMessage::Over(name), None, false);
                remove(&noded, name, &folder);
            }
        }
    }
    process::leave(0)
}

/// Detaches the shepherd from the spawner's session, terminal and output, and makes it the
/// subreaper of the job's orphans.
fn detach() {
    process::set_name(c"lanai-shepherd");
    let _ = nix::unistd::setsid();
    let _ = process::silence();
    let _ = prctl::set_child_subreaper(true);
}

/// Creates the attempt's directory with a new cookie (a random value that identifies processes of
/// the attempt). Returns the directory and the cookie, or None if the attempt was started before.
fn record(
    site: &Site,
    launch: &Launch,
    account: Option<&UserAccount>,
) -> io::Result<Option<(Built, String)>> {
    let own = procfs::own().ok_or_else(|| io::Error::other("/proc/self/stat cannot be read"))?;
    let cookie: String = process::random()?
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    let identity = Identity {
        version: folder::VERSION,
        name: AttemptName::of(launch),
        pid: own.pid,
        started: own.started,
        boot: site.boot.clone(),
        uid: launch.owner.uid,
        cookie: cookie.clone(),
    };
    let script = match &launch.payload {
        Payload::Script(text) => Some(text.as_slice()),
        Payload::Command(_) => None,
    };
    let owner = account.and_then(|account| other_owner(site, account));
    let nodes = launch
        .place
        .nodes
        .clone()
        .unwrap_or_else(|| node_file(&launch.shares));
    let more = dialects::files(launch);
    let contents = Contents {
        identity: &identity,
        script,
        nodes: &nodes,
        more: &more,
        owner,
    };
    let built = folder::build(&site.state, &contents)?;
    Ok(built.map(|built| (built, cookie)))
}

/// The account's uid and gid; None if noded runs as the account, which then owns new files anyway.
fn other_owner(site: &Site, account: &UserAccount) -> Option<(u32, u32)> {
    (account.uid != site.own.uid).then_some((account.uid, account.gid))
}

/// Runs the job until it ends, unless the attempt was canceled or cannot start. Returns the
/// outcome, and the `TMPDIR` to remove, if any.
fn run_attempt(
    site: &Site,
    mut launch: Launch,
    account: Result<UserAccount, LaunchFault>,
    built: &Built,
    cookie: &str,
    (noded, terminal): (&OwnedFd, &mut Option<Terminal>),
) -> (AttemptOutcome, Option<PathBuf>) {
    if folder::read_tombstone(&site.state, AttemptName::of(&launch)).is_some() {
        return (AttemptOutcome::new(How::Cancelled), None);
    }
    let admitted = account.and_then(|account| {
        Ok((
            hook_runner(site, &mut launch, &account, &built.folder)?,
            account,
        ))
    });
    let (hooks, account) = match &admitted {
        Ok((hooks, account)) => (hooks.as_ref(), account),
        Err(fault) => {
            return (
                AttemptOutcome::new(fault.clone().into_outcome(&launch)),
                None,
            );
        }
    };
    let begun = hooks.and_then(|hooks| hooks.before(HookEvent::ExecjobBegin, &mut launch));
    let (mut outcome, tmpdir) = match begun {
        Some(outcome) => (outcome, None),
        None => JobContext {
            site,
            built,
            account,
            cookie,
            hooks,
        }
        .run(&mut launch, noded, terminal),
    };
    // execjob_end hooks run even if the job did not, so that they can clean up.
    if let Some(hooks) = hooks {
        hooks.after(HookEvent::ExecjobEnd, &launch, &mut outcome);
    }
    (outcome, tmpdir)
}

/// The runner of the site's hooks, prologue and epilogue; None if none apply to the job.
fn hook_runner<'a>(
    site: &'a Site,
    launch: &mut Launch,
    account: &UserAccount,
    folder: &'a Folder,
) -> Result<Option<JobHookRunner<'a>>, LaunchFault> {
    let Some(job_hooks) = launch.job_hooks.take() else {
        return Ok(None);
    };
    let groups = job_hooks::groups(site, account, launch)
        .map_err(|e| LaunchFault::Node(format!("cannot read the owner's groups: {e}")))?;
    Ok(Some(JobHookRunner {
        site,
        account: account.clone(),
        groups,
        folder,
        job_hooks: *job_hooks,
    }))
}

/// The attempt's directory, and the owner, cookie and hooks of its job.
struct JobContext<'a> {
    site: &'a Site,
    built: &'a Built,
    account: &'a UserAccount,
    cookie: &'a str,
    hooks: Option<&'a JobHookRunner<'a>>,
}

impl JobContext<'_> {
    /// Creates the job's `TMPDIR` (except for a task that uses the `TMPDIR` of the script) and the
    /// terminal of an interactive job. Then runs the job. Returns the outcome, and the `TMPDIR` to
    /// remove, if any.
    fn run(
        &self,
        launch: &mut Launch,
        noded: &OwnedFd,
        terminal: &mut Option<Terminal>,
    ) -> (AttemptOutcome, Option<PathBuf>) {
        let JobContext {
            site,
            built,
            account,
            cookie,
            hooks,
        } = *self;
        let inherited = tmpdir::of_script(site, launch);
        let owns_tmpdir = inherited.is_none();
        let owner = other_owner(site, account);
        let made = match inherited {
            Some(tmpdir) => Ok(tmpdir),
            None => tmpdir::make(&site.tmp, &launch.full_id, cookie, owner),
        };
        let tmpdir = match made {
            Ok(tmpdir) => tmpdir,
            Err(e) => {
                return (
                    AttemptOutcome::new(How::NodeFault(format!(
                        "cannot create TMPDIR in {}: {e}",
                        site.tmp.display()
                    ))),
                    None,
                );
            }
        };
        if launch.interactive {
            match Terminal::open(&built.folder, owner.map(|(uid, _)| uid)) {
                Ok(made) => *terminal = Some(made),
                Err(e) => {
                    return (
                        AttemptOutcome::new(How::NodeFault(format!("cannot open a terminal: {e}"))),
                        Some(tmpdir),
                    );
                }
            }
        }
        let jobdir = jobdir(launch, account, cookie);
        let mut job = PreparedJob {
            site,
            launch,
            built,
            account,
            cookie,
            tmpdir: &tmpdir,
            jobdir: &jobdir,
            owns_tmpdir,
        };
        let ran = job.run_with_files(noded, terminal.as_mut(), hooks);
        let outcome =
            ran.unwrap_or_else(|e| AttemptOutcome::new(not_started(&e).into_outcome(job.launch)));
        (outcome, owns_tmpdir.then_some(tmpdir))
    }
}

/// The job directory (`PBS_JOBDIR`): the owner's home directory, or a private directory in the home
/// directory if the job requests that. The name of the private directory cannot be guessed.
fn jobdir(launch: &Launch, account: &UserAccount, cookie: &str) -> PathBuf {
    if launch.files.private {
        account.home.join(format!(
            "pbs.{}.{}",
            launch.full_id,
            cookie.get(..6).unwrap_or(cookie)
        ))
    } else {
        account.home.clone()
    }
}

fn not_started(error: &io::Error) -> LaunchFault {
    match error.kind() {
        io::ErrorKind::InvalidInput => {
            LaunchFault::Owner(format!("the command contains a zero byte: {error}"))
        }
        _ => LaunchFault::Node(format!("cannot start the job: {error}")),
    }
}

/// The checkpoint directory of a job's script; None for tasks that the script starts, or if the
/// site does not checkpoint jobs.
fn checkpoint_folder(site: &Site, launch: &Launch) -> Option<PathBuf> {
    let folders = launch.checkpoints.as_deref()?;
    (launch.place.task == 0).then(|| checkpoint::folder(&site.state, folders, &launch.full_id))
}

/// A job with all that is prepared before the fork.
struct PreparedJob<'a> {
    site: &'a Site,
    launch: &'a mut Launch,
    built: &'a Built,
    account: &'a UserAccount,
    cookie: &'a str,
    tmpdir: &'a PathBuf,
    jobdir: &'a Path,
    /// Whether this attempt created `tmpdir`, and removes it at the end.
    owns_tmpdir: bool,
}

impl PreparedJob<'_> {
    /// Stages files in, runs the prologue, the job and the epilogue, delivers the output, and
    /// stages files out.
    fn run_with_files(
        &mut self,
        noded: &OwnedFd,
        terminal: Option<&mut Terminal>,
        hooks: Option<&JobHookRunner>,
    ) -> io::Result<AttemptOutcome> {
        if let Some(outcome) = self.stage_in()? {
            return Ok(outcome);
        }
        if let Some(outcome) = hooks.and_then(|hooks| self.prologue(hooks)) {
            self.discard_private()?;
            return Ok(outcome);
        }
        let mut ran = self.run(noded, terminal);
        if let (Some(hooks), Ok(WatchedEnd { outcome, .. })) = (hooks, &mut ran)
            && outcome.how.ran()
        {
            hooks.after(HookEvent::ExecjobEpilogue, self.launch, outcome);
            hooks.epilogue(self.launch, outcome);
        }
        match ran {
            Ok(end) => Ok(self.deliver_and_stage_out(noded, end)),
            Err(e) => self.discard_private().and(Err(e)),
        }
    }

    /// Runs the execjob_prologue hooks and the prologue. Returns the outcome if the job must not
    /// run.
    fn prologue(&mut self, hooks: &JobHookRunner) -> Option<AttemptOutcome> {
        self.write_trace(None);
        hooks
            .before(HookEvent::ExecjobPrologue, self.launch)
            .or_else(|| hooks.prologue(self.launch))
    }

    /// The gid of the group that the job requests for this host, if any.
    fn group(&self) -> Option<u32> {
        let requested = self
            .launch
            .groups
            .as_ref()
            .and_then(|list| for_host(list.as_bytes(), &self.site.host));
        requested.map(|_| self.account.gid)
    }

    fn run(&self, noded: &OwnedFd, mut terminal: Option<&mut Terminal>) -> io::Result<WatchedEnd> {
        let mut plan = self.plan()?;
        plan.screen = terminal.as_ref().and_then(|terminal| terminal.screen());
        let signals = process::signals(&[Signal::SIGCHLD, Signal::SIGUSR1, Signal::SIGUSR2])?;
        let (near, far) = packet::pair()?;
        let began = clock::monotonic();
        let files = if limits::has_memory_limit(self.launch) {
            let attempts = folder::attempts(&self.site.state);
            Some(SharedMemory::begin(self.account.uid, attempts))
        } else {
            None
        };
        let (forked, cgroup, kernel_limits) = self.fork()?;
        let session = match forked {
            Fork::Child => child::run(&plan, far.as_fd()),
            Fork::Parent(session) => session,
        };
        drop((far, plan));
        if let Some(terminal) = &mut terminal {
            terminal.forked();
        }
        self.write_trace(Some((session, cgroup.as_ref())));
        let files = if kernel_limits.memory { None } else { files };
        let meter = UsageMeter::new(&self.launch.shares, files);
        let guard = Guard::new(self.launch, self.site.max_processes, kernel_limits, began);
        let watch = JobWatch::new(self.launch, self.built, noded, session, began, guard)
            .with_terminal(terminal);
        Ok(watch.until_end(near, signals, cgroup, meter))
    }

    fn plan(&self) -> io::Result<ChildPlan<'_>> {
        let folder = &self.built.folder;
        let commands = self.site.commands.as_deref();
        let reads_profile = program::reads_profile(self.launch);
        let checkpoint = checkpoint_folder(self.site, self.launch);
        let source = EnvironmentSource {
            account: self.account,
            nodes: &folder.nodes(),
            jobdir: self.jobdir,
            tmpdir: self.tmpdir,
            cookie: self.cookie,
            gpus: self.site.gpus,
            amd: self.site.amd,
            home: self.site.home.as_deref(),
            tasks: &self.site.tasks(),
            checkpoint: checkpoint.as_deref(),
            commands: if reads_profile { None } else { commands },
        };
        let processors =
            variables::here(&self.launch.shares).flat_map(|share| share.cpus.iter().copied());
        Ok(ChildPlan {
            launch: self.launch,
            account: self.account,
            host: &self.site.host,
            groups: job_hooks::groups(self.site, self.account, self.launch)?,
            group: self.group(),
            jobdir: self.launch.files.private.then_some(self.jobdir),
            program: program::of(
                self.launch,
                self.account,
                &self.site.host,
                &folder.script(),
                self.site.commands_after_profile(),
            )?,
            environment: environment::of(self.launch, &source),
            processors: processors.collect(),
            shepherd: nix::unistd::getpid(),
            screen: None,
        })
    }

    /// Forks the job into a new cgroup, or without a cgroup if noded does not use cgroups or the
    /// new cgroup cannot be used. Also returns the limits that the kernel enforces.
    fn fork(&self) -> io::Result<(Fork, Option<Cgroup>, KernelLimits)> {
        let name = format!(
            "lanai-{}-{}",
            AttemptName::of(self.launch),
            std::process::id()
        );
        let made = self
            .site
            .cgroup
            .as_ref()
            .and_then(|parent| Cgroup::create(parent, &name).ok());
        if let Some(group) = made {
            let kernel_limits =
                limits::set_kernel_limits(self.launch, &group, self.site.max_processes);
            if let Ok(forked) = group
                .open()
                .and_then(|folder| process::fork_into(folder.as_fd()))
            {
                return Ok((forked, Some(group), kernel_limits));
            }
            group.remove();
        }
        Ok((process::fork()?, None, KernelLimits::default()))
    }

    /// Records what noded must clean up if this shepherd is killed: the job, once it is forked, and
    /// its `TMPDIR`.
    fn write_trace(&self, job: Option<(Pid, Option<&Cgroup>)>) {
        let session = job.map_or(0, |(session, _)| session.as_raw());
        let cgroup = job.and_then(|(_, cgroup)| cgroup);
        let started = match job {
            Some(_) => procfs::process(session).map(|process| process.started),
            None => None,
        };
        let trace = ProcessTrace {
            session,
            started: started.unwrap_or(0),
            cgroup: cgroup.map(|group| Text(group.folder().as_os_str().as_bytes().to_vec())),
            stopped: false,
            tmpdir: if self.owns_tmpdir {
                Text(self.tmpdir.as_os_str().as_bytes().to_vec())
            } else {
                Text::default()
            },
        };
        // If this fails and the shepherd is lost, noded still finds the job by its cookie.
        let _ = self.built.write_trace(&trace);
    }
}

/// Writes the outcome to the record. After repeated failures, as on a read-only disk, sends the
/// outcome to noded instead. While no noded listens, retries both for an hour, because the exit
/// status is not stored anywhere else. Gives up if the attempt's directory no longer exists.
fn write_outcome(noded: &OwnedFd, built: &Built, name: AttemptName, outcome: &AttemptOutcome) {
    for failures in 0..RECORD_TRIES + SEND_TRIES {
        let Err(error) = built.write_outcome(outcome) else {
            return;
        };
        if !built.folder.exists() {
            return;
        }
        if failures < RECORD_TRIES {
            clock::sleep(Duration::from_secs(1));
            continue;
        }
        let message = SpawnerMessage::Unrecorded(name, outcome.clone(), error.to_string());
        if spawner_messages::deliver(noded, &message).is_ok() {
            return;
        }
        clock::sleep(Duration::from_secs(10));
    }
}

/// Removes a directory of the job. If that fails, noded logs a warning, and the administrator must
/// remove the directory.
fn remove(noded: &OwnedFd, name: AttemptName, folder: &Path) {
    if let Err(error) = tmpdir::remove(folder) {
        let why = format!("cannot remove {}: {error}", folder.display());
        send_message(noded, &SpawnerMessage::LeftBehind(name, why), None, false);
    }
}
