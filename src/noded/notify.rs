//! Users' notification programs (`qsub -W notify=PATH`). Each program runs under two processes. The
//! runner starts the program and waits for its end. The supervisor, which is the runner's parent,
//! enforces the time limit and kills all remaining descendants. The supervisor outlives noded.

use super::child::UMASK;
use super::launch_fault::LaunchFault;
use super::poller::Poller;
use super::site::Site;
use super::sweep;
use crate::model::text::shortened;
use crate::model::time::Span;
use crate::sys::cgroup::Cgroup;
use crate::sys::program::{
    Confinement, ProgramCall, ProgramPool, RunningProgram, Surroundings, UNLIMITED,
};
use crate::sys::user::{self, UserAccount};
use crate::sys::{clock, process, procfs};
use crate::wire::order::{NodeReport, Notification};
use nix::sys::prctl;
use nix::sys::resource::Resource;
use nix::sys::signal::Signal;
use nix::sys::stat::{Mode, umask};
use nix::unistd::setsid;
use std::io;

/// Time limit of a program.
const TIMEOUT: Span = Span::seconds(30);
/// Maximum number of running programs.
const MAX_PROGRAMS: usize = 64;
/// Maximum number of a user's running programs. schedd orders the next program of a user when the
/// previous one has ended, but a restarted schedd does not wait for programs that it ordered before
/// the restart.
const MAX_PROGRAMS_PER_USER: usize = 4;
/// Memory limit in kilobytes: of each process of a program, and of all its processes together if
/// the program has a cgroup.
const MEMORY_KB: u64 = 1 << 20;
/// Maximum number of processes and threads of a program.
const MAX_PROCESSES: u64 = 256;
/// Maximum number of descriptors of each process.
const MAX_DESCRIPTORS: u64 = 1024;
/// Maximum length of a reported failure, in characters.
const MAX_MESSAGE: usize = 500;

/// The running programs.
#[derive(Debug)]
pub struct Notifications {
    site: Site,
    /// The supervisors of programs.
    running: ProgramPool<RunningNotice>,
    reports: Vec<NodeReport>,
}

#[derive(Debug)]
struct RunningNotice {
    token: u64,
    /// The program and its user, as text for the report.
    name: String,
}

impl Notifications {
    /// Creates an empty set of running programs.
    pub fn new(site: Site) -> Notifications {
        Notifications {
            site,
            running: ProgramPool::with_user_limit(MAX_PROGRAMS, MAX_PROGRAMS_PER_USER),
            reports: Vec::new(),
        }
    }

    /// Starts a program. Reports a failure to schedd.
    pub fn begin(&mut self, notification: &Notification, poller: &mut Poller) {
        let name = format!(
            "{} of {}",
            notification.program.display(),
            notification.owner.user
        );
        let token = notification.token;
        match self.start(notification, poller) {
            Ok(supervisor) => {
                let uid = notification.owner.uid;
                self.running
                    .add(RunningNotice { token, name }, Some(uid), supervisor);
            }
            Err(error) => self.report(token, &name, Err(start_failure(error).to_string())),
        }
    }

    fn start(
        &self,
        notification: &Notification,
        poller: &mut Poller,
    ) -> io::Result<RunningProgram> {
        if !self.running.has_room() {
            return Err(io::Error::other(format!(
                "{MAX_PROGRAMS} notification programs are already running"
            )));
        }
        if !self.running.has_room_for(Some(notification.owner.uid)) {
            let why = format!(
                "{MAX_PROGRAMS_PER_USER} notification programs of this user are already running"
            );
            return Err(io::Error::other(why));
        }
        let supervisor = RunningProgram::fork(clock::monotonic(), UNLIMITED, || {
            supervise(&self.site, notification).map_err(io::Error::other)
        })?;
        poller.watch(supervisor)
    }

    /// Reports the programs that have ended.
    pub fn update(&mut self, now: Span) {
        for (notice, result) in self.running.finished(now) {
            self.report(notice.token, &notice.name, result.work());
        }
    }

    /// Takes the reports for schedd.
    pub fn take_reports(&mut self) -> Vec<NodeReport> {
        std::mem::take(&mut self.reports)
    }

    fn report(&mut self, token: u64, name: &str, result: Result<(), String>) {
        let why = result
            .err()
            .map(|why| shortened(format!("{name}: {why}"), MAX_MESSAGE));
        self.reports.push(NodeReport::Notified { token, why });
    }
}

fn start_failure(error: io::Error) -> io::Error {
    io::Error::other(format!("it was not started: {error}"))
}

/// The supervisor: forks the runner, waits up to [`TIMEOUT`] for its end, and then kills all
/// remaining processes. The error is why the program failed. Only the runner looks up the user and
/// opens the program's file, because both can hang.
fn supervise(site: &Site, notification: &Notification) -> Result<(), String> {
    let now = clock::monotonic();
    let children = detach().map_err(|error| start_failure(error).to_string())?;
    let cgroup = cgroup(site);
    let runner = RunningProgram::fork(now, TIMEOUT, || run(site, notification, cgroup.as_ref()));
    let result = match runner {
        Ok(mut runner) => runner.wait().work(),
        Err(error) => Err(start_failure(error).to_string()),
    };
    sweep::kill_all(cgroup.as_ref(), &children);
    result
}

/// Separates the supervisor from noded and makes it the subreaper of the program's orphans. Returns
/// the descriptor that reports ended children.
fn detach() -> io::Result<nix::sys::signalfd::SignalFd> {
    process::set_name(c"lanai-notify");
    // Only this process can end the descendants, so it must outlive noded.
    prctl::set_pdeathsig(None)?;
    setsid()?;
    process::silence()?;
    prctl::set_child_subreaper(true)?;
    umask(Mode::from_bits_truncate(UMASK));
    process::signals(&[Signal::SIGCHLD])
}

/// Creates a cgroup for the program; None if that fails, or if noded does not use cgroups.
fn cgroup(site: &Site) -> Option<Cgroup> {
    let parent = site.cgroup.as_ref()?;
    Cgroup::create(parent, &format!("lanai-notify-{}", std::process::id())).ok()
}

fn start(
    site: &Site,
    notification: &Notification,
    cgroup: Option<&Cgroup>,
) -> io::Result<RunningProgram> {
    let admitted = site.admit(&notification.owner);
    let account = admitted
        .map_err(|(LaunchFault::Owner(why) | LaunchFault::Node(why))| io::Error::other(why))?;
    let groups = user::groups(&account)?;
    let is_other = account.uid != site.own.uid;
    let words = [notification.program.display().to_string()];
    let call = ProgramCall {
        input: &notification.document,
        surroundings: Surroundings::Own(&[]),
        identity: is_other.then_some((&account, groups.as_slice())),
        confinement: Confinement {
            cgroup,
            limits: limits(&account, cgroup),
        },
        ..ProgramCall::new(&words, UNLIMITED)
    };
    call.start(clock::monotonic())
}

/// Sets the limits of the cgroup, and returns the limits of each process. RLIMIT_NPROC counts all
/// processes of the user. So it is set only if the cgroup does not limit the number of processes.
fn limits(account: &UserAccount, cgroup: Option<&Cgroup>) -> Vec<(Resource, u64)> {
    let mut limits = vec![
        (Resource::RLIMIT_CORE, 0),
        (Resource::RLIMIT_NOFILE, MAX_DESCRIPTORS),
        (Resource::RLIMIT_DATA, MEMORY_KB * 1024),
    ];
    if let Some(group) = cgroup {
        group.limit_memory(MEMORY_KB);
    }
    if !cgroup.is_some_and(|group| group.limit_processes(MAX_PROCESSES)) {
        limits.push((
            Resource::RLIMIT_NPROC,
            threads_of(account.uid) + MAX_PROCESSES,
        ));
    }
    limits
}

/// Number of threads of all processes of a user.
fn threads_of(uid: u32) -> u64 {
    procfs::owned_by(uid)
        .into_iter()
        .filter_map(procfs::process)
        .map(|process| process.threads)
        .sum()
}

/// The runner: runs the program until it ends. The error is why the program failed.
fn run(site: &Site, notification: &Notification, cgroup: Option<&Cgroup>) -> io::Result<()> {
    let mut program = start(site, notification, cgroup).map_err(start_failure)?;
    let result = program.wait();
    let exit = match &result.exit {
        Ok(exit) => exit,
        Err(fault) => return Err(io::Error::other(fault.to_string())),
    };
    if exit.status == Some(0) {
        return Ok(());
    }
    let why = match exit.status {
        Some(status) => format!("it ended with status {status}"),
        None => "it was killed by a signal".to_string(),
    };
    Err(io::Error::other(result.blame(why)))
}
