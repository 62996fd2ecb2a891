//! Programs of users that are notified of their jobs (`qsub -W notify=PATH`). Each runs under two
//! processes of its own: one starts it, the other limits the time of both, ends all that they have
//! started, and outlives noded.

use super::child::LaunchFault;
use super::chore::BlockingIo;
use super::poller::{PollSource, Poller};
use super::shepherd::UMASK;
use super::site::Site;
use super::sweep;
use crate::model::text::shortened;
use crate::model::time::Span;
use crate::sys::call::{Called, Confinement, ProgramCall};
use crate::sys::cgroup::Cgroup;
use crate::sys::user::{self, UserAccount};
use crate::sys::{clock, process, procfs};
use crate::wire::order::{NodeReport, Notification};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::prctl;
use nix::sys::resource::Resource;
use nix::sys::signal::Signal;
use nix::sys::stat::{Mode, umask};
use nix::unistd::setsid;
use std::io;

/// How long a program may take.
const LIMIT: Span = Span::seconds(30);
/// Programs that run at once.
const MOST: usize = 64;
/// Programs of one user that run at once. schedd sends one at a time, but a new schedd knows of
/// none.
const MOST_OF_USER: usize = 4;
/// The memory of a program: of all its processes in a control group, else of each, in kilobytes.
const MEMORY_KB: u64 = 1 << 20;
/// The processes and threads of a program.
const PROCESSES: u64 = 256;
/// The descriptors of each process.
const DESCRIPTORS: u64 = 1024;
/// The longest failure that is reported, in characters.
const LONGEST: usize = 500;

/// The programs that run.
#[derive(Debug)]
pub struct Notifications {
    site: Site,
    running: Vec<RunningNotice>,
    reports: Vec<NodeReport>,
}

#[derive(Debug)]
struct RunningNotice {
    token: u64,
    uid: u32,
    /// The program and its user, for the report.
    name: String,
    supervisor: BlockingIo,
    sources: Vec<PollSource>,
}

impl Notifications {
    /// No program runs.
    pub fn new(site: Site) -> Notifications {
        Notifications {
            site,
            running: Vec::new(),
            reports: Vec::new(),
        }
    }

    /// Runs a program.
    pub fn begin(&mut self, notification: &Notification, poller: &mut Poller) {
        let name = format!(
            "{} of {}",
            notification.program.display(),
            notification.owner.user
        );
        match self.start(notification, poller) {
            Ok((supervisor, sources)) => {
                let (token, uid) = (notification.token, notification.owner.uid);
                self.running.push(RunningNotice {
                    token,
                    uid,
                    name,
                    supervisor,
                    sources,
                });
            }
            Err(error) => self.report(
                notification.token,
                &name,
                Err(not_started(error).to_string()),
            ),
        }
    }

    fn start(
        &self,
        notification: &Notification,
        poller: &mut Poller,
    ) -> io::Result<(BlockingIo, Vec<PollSource>)> {
        if self.running.len() >= MOST {
            return Err(io::Error::other(format!("{MOST} programs run already")));
        }
        if self
            .running
            .iter()
            .filter(|running| running.uid == notification.owner.uid)
            .count()
            >= MOST_OF_USER
        {
            return Err(io::Error::other(format!(
                "{MOST_OF_USER} programs of this user run already"
            )));
        }
        let supervisor =
            BlockingIo::begin(|| supervise(&self.site, notification).map_err(io::Error::other))?;
        let sources = poller.add_all([supervisor.watched()].into_iter(), PollSource::Notification);
        let sources = sources.inspect_err(|_| supervisor.kill())?;
        Ok((supervisor, sources))
    }

    /// Reports the programs that have ended.
    pub fn hear(&mut self, poller: &mut Poller) {
        for mut running in std::mem::take(&mut self.running) {
            let Some(result) = running.supervisor.hear() else {
                self.running.push(running);
                continue;
            };
            running
                .sources
                .drain(..)
                .for_each(|source| poller.overlook(source));
            self.report(running.token, &running.name, result);
        }
    }

    /// The reports for schedd since the last call.
    pub fn said(&mut self) -> Vec<NodeReport> {
        std::mem::take(&mut self.reports)
    }

    fn report(&mut self, token: u64, name: &str, result: Result<(), String>) {
        let why = result
            .err()
            .map(|why| shortened(format!("{name}: {why}"), LONGEST));
        self.reports.push(NodeReport::Notified { token, why });
    }
}

fn not_started(error: io::Error) -> io::Error {
    io::Error::other(format!("it was not started: {error}"))
}

/// Has a process run the program, ends all processes within [`LIMIT`], and returns why the program
/// failed. Only that process looks the user up and opens the program's file: both can hang.
fn supervise(site: &Site, notification: &Notification) -> Result<(), String> {
    let until = clock::monotonic() + LIMIT;
    let children = detach().map_err(|error| not_started(error).to_string())?;
    let cgroup = cgroup(site);
    let runner = BlockingIo::begin(|| run(site, notification, cgroup.as_ref()));
    let result = runner
        .map_err(|error| not_started(error).to_string())
        .and_then(|runner| wait(runner, until));
    sweep::end(cgroup.as_ref(), &children);
    result
}

/// Waits until a process has ended; the error says why it failed, or that its time is over.
fn wait(mut runner: BlockingIo, until: Span) -> Result<(), String> {
    loop {
        if let Some(result) = runner.hear() {
            return result;
        }
        let left = until.0.saturating_sub(clock::monotonic().0);
        if left <= 0 {
            return Err(format!("it took longer than {} s", LIMIT.as_seconds()));
        }
        let timeout = PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX);
        let _ = poll(
            &mut [PollFd::new(runner.watched(), PollFlags::POLLIN)],
            timeout,
        );
    }
}

/// Separates this process from noded and makes it the parent of every orphan of the program.
/// Returns where it reads that a child has ended.
fn detach() -> io::Result<nix::sys::signalfd::SignalFd> {
    process::set_name(c"lanai-notify");
    // Only this process can end what the program starts, so it must outlive noded.
    prctl::set_pdeathsig(None)?;
    setsid()?;
    process::silence()?;
    prctl::set_child_subreaper(true)?;
    umask(Mode::from_bits_truncate(UMASK));
    process::signals(&[Signal::SIGCHLD])
}

/// The control group of this process's program, where there can be one.
fn cgroup(site: &Site) -> Option<Cgroup> {
    let parent = site.cgroup.as_ref()?;
    Cgroup::create(parent, &format!("lanai-notify-{}", std::process::id())).ok()
}

fn start(site: &Site, notification: &Notification, cgroup: Option<&Cgroup>) -> io::Result<Called> {
    let admitted = site.admit(&notification.owner);
    let account = admitted
        .map_err(|(LaunchFault::Owner(why) | LaunchFault::Node(why))| io::Error::other(why))?;
    let groups = user::groups(&account)?;
    let is_other = account.uid != site.own.uid;
    let words = [notification.program.display().to_string()];
    let call = ProgramCall {
        words: &words,
        environment: &[],
        input: &notification.document,
        identity: is_other.then_some((&account, groups.as_slice())),
    };
    call.start_within(Confinement {
        cgroup,
        limits: limits(&account, cgroup),
    })
}

/// The limits of each process. The kernel counts all processes of the user for the last one, so it
/// is set only where the control group limits those of the program.
fn limits(account: &UserAccount, cgroup: Option<&Cgroup>) -> Vec<(Resource, u64)> {
    let mut limits = vec![
        (Resource::RLIMIT_CORE, 0),
        (Resource::RLIMIT_NOFILE, DESCRIPTORS),
        (Resource::RLIMIT_DATA, MEMORY_KB * 1024),
    ];
    if let Some(group) = cgroup {
        group.bound_memory(MEMORY_KB);
    }
    if !cgroup.is_some_and(|group| group.bound_processes(PROCESSES)) {
        limits.push((Resource::RLIMIT_NPROC, threads_of(account.uid) + PROCESSES));
    }
    limits
}

/// The threads of all processes of a user.
fn threads_of(uid: u32) -> u64 {
    procfs::owned_by(uid)
        .into_iter()
        .filter_map(procfs::process)
        .map(|process| process.threads)
        .sum()
}

/// Runs the program to its end; the error says why it failed.
fn run(site: &Site, notification: &Notification, cgroup: Option<&Cgroup>) -> io::Result<()> {
    let mut called = start(site, notification, cgroup).map_err(not_started)?;
    let said = loop {
        if let Some(ended) = called.hear() {
            break ended?;
        }
        let mut fds: Vec<PollFd> = called
            .watched()
            .map(|fd| PollFd::new(fd, PollFlags::POLLIN))
            .collect();
        let _ = poll(&mut fds, PollTimeout::NONE);
    };
    if said.status == Some(0) {
        return Ok(());
    }
    let status = said
        .status
        .map_or("a signal".to_string(), |status| format!("status {status}"));
    Err(io::Error::other(
        called.blame(format!("it ended with {status}")),
    ))
}
