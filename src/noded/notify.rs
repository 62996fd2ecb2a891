//! Programs of users that are notified of their jobs (`qsub -W notify=PATH`). Each runs under a process of its
//! own, which limits it, ends all that it has started and outlives noded.

use super::child::Fault;
use super::chore::Chore;
use super::poller::{Poller, Source};
use super::shepherd::UMASK;
use super::site::Site;
use super::sweep;
use crate::model::text::shortened;
use crate::model::time::Span;
use crate::sys::call::{Call, Called, Confinement};
use crate::sys::cgroup::Cgroup;
use crate::sys::user::{self, Account};
use crate::sys::{clock, process, procfs};
use crate::wire::order::{Notification, Report};
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
    running: Vec<Running>,
    reports: Vec<Report>,
}

#[derive(Debug)]
struct Running {
    token: u64,
    chore: Chore,
    sources: Vec<Source>,
}

impl Notifications {
    /// No program runs.
    pub fn new(site: Site) -> Notifications {
        Notifications { site, running: Vec::new(), reports: Vec::new() }
    }

    /// Runs a program.
    pub fn begin(&mut self, notification: &Notification, poller: &mut Poller) {
        let token = notification.token;
        match self.start(notification, poller) {
            Ok(running) => self.running.push(running),
            Err(error) => self.report(token, Some(cannot_be_run(notification, &error.to_string()))),
        }
    }

    fn start(&self, notification: &Notification, poller: &mut Poller) -> io::Result<Running> {
        if self.running.len() >= MOST {
            return Err(io::Error::other(format!("{MOST} programs run already")));
        }
        let chore = Chore::begin(|| supervise(&self.site, notification).map_err(io::Error::other))?;
        let sources = poller.add_all([chore.watched()].into_iter(), Source::Notification);
        let sources = sources.inspect_err(|_| chore.kill())?;
        Ok(Running { token: notification.token, chore, sources })
    }

    /// Reports the programs that have ended.
    pub fn hear(&mut self, poller: &mut Poller) {
        for mut running in std::mem::take(&mut self.running) {
            let Some(result) = running.chore.hear() else {
                self.running.push(running);
                continue;
            };
            running.sources.drain(..).for_each(|source| poller.overlook(source));
            self.report(running.token, result.err());
        }
    }

    /// The reports for schedd since the last call.
    pub fn said(&mut self) -> Vec<Report> {
        std::mem::take(&mut self.reports)
    }

    fn report(&mut self, token: u64, why: Option<String>) {
        self.reports.push(Report::Notified { token, why });
    }
}

fn cannot_be_run(notification: &Notification, why: &str) -> String {
    let Notification { program, owner, .. } = notification;
    shortened(format!("{} cannot be run for {}: {why}", program.display(), owner.user), LONGEST)
}

/// Runs the program, ends all its processes, and returns why it failed.
fn supervise(site: &Site, notification: &Notification) -> Result<(), String> {
    let unable = |error: io::Error| cannot_be_run(notification, &error.to_string());
    let children = detach().map_err(unable)?;
    let cgroup = cgroup(site);
    let ran = start(site, notification, cgroup.as_ref()).map_err(unable).and_then(|called| {
        let program = notification.program.display().to_string();
        wait(called).map_err(|why| shortened(format!("{program} {why}"), LONGEST))
    });
    sweep::end(cgroup.as_ref(), &children);
    ran
}

/// Separates this process from noded and makes it the parent of every orphan of the program. Returns where it
/// reads that a child has ended.
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
    let account = admitted.map_err(|(Fault::Owner(why) | Fault::Node(why))| io::Error::other(why))?;
    let groups = user::groups(&account)?;
    let is_other = account.uid != site.own.uid;
    let words = [notification.program.display().to_string()];
    let call = Call {
        words: &words,
        environment: &[],
        input: &notification.document,
        identity: is_other.then_some((&account, groups.as_slice())),
    };
    call.start_within(Confinement { cgroup, limits: limits(&account, cgroup) })
}

/// The limits of each process. The kernel counts all processes of the user for the last one, so it is set only
/// where the control group limits those of the program.
fn limits(account: &Account, cgroup: Option<&Cgroup>) -> Vec<(Resource, u64)> {
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
    procfs::owned_by(uid).into_iter().filter_map(procfs::process).map(|process| process.threads).sum()
}

/// Waits until the program has ended, or kills it when its time is over; why it failed, to follow its name.
fn wait(mut called: Called) -> Result<(), String> {
    let until = clock::monotonic() + LIMIT;
    loop {
        if let Some(ended) = called.hear() {
            return match ended {
                Ok(said) if said.status == Some(0) => Ok(()),
                Ok(said) => {
                    let status = said.status.map_or("a signal".to_string(), |status| format!("status {status}"));
                    Err(format!("ended with {}", called.blame(status)))
                }
                Err(error) => Err(format!("failed: {error}")),
            };
        }
        let left = until.0.saturating_sub(clock::monotonic().0);
        if left <= 0 {
            called.kill();
            return Err(format!("took longer than {} s", LIMIT.as_seconds()));
        }
        let mut fds: Vec<PollFd> = called.watched().map(|fd| PollFd::new(fd, PollFlags::POLLIN)).collect();
        let _ = poll(&mut fds, PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX));
    }
}
