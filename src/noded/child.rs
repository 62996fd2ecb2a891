//! From the fork to the user's own exec: the steps of the job's first process, in order.
//!
//! Everything that belongs to the owner (output files, working directory, interpreter) is touched
//! only after the process has become the owner: a path that leads into somebody else's files then
//! opens nothing. What fails is told to the shepherd over a socket that a successful exec closes.

use super::delivery::{self, Stream};
use super::launch_fault::LaunchFault;
use super::limits;
use super::program::ProgramToRun;
use super::variables::{self, Environment};
use crate::model::job::Join;
use crate::model::server_name::same_server;
use crate::model::text::{Text, shortened};
use crate::sys::user::{self, UserAccount};
use crate::sys::{packet, process, terminal};
use crate::wire::order::Launch;
use nix::errno::Errno;
use nix::sched::{CpuSet, sched_setaffinity};
use nix::sys::prctl;
use nix::sys::signal::Signal;
use nix::sys::stat::{Mode, umask};
use nix::unistd::{AccessFlags, Gid, Pid, chdir, eaccess, execve, getppid, setsid};
use serde::{Deserialize, Serialize};
use std::convert::Infallible;
use std::ffi::{CString, OsStr};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The umask of a job that requests none, and of users' notification programs.
pub const UMASK: u32 = 0o077;
/// The most that is said of one stream, in characters.
const LONGEST_NOTE: usize = 400;

/// All the child needs, made ready by the shepherd.
#[derive(Debug)]
pub struct ChildPlan<'a> {
    /// The order.
    pub launch: &'a Launch,
    /// Who it runs as.
    pub account: &'a UserAccount,
    /// This host's short name.
    pub host: &'a str,
    /// All the owner's groups, when the child must become the owner first.
    pub groups: Option<Vec<Gid>>,
    /// The group to take when it already is.
    pub group: Option<u32>,
    /// The job's own folder, where it starts, if it has one.
    pub jobdir: Option<&'a Path>,
    /// What to execute.
    pub program: ProgramToRun,
    /// With which variables.
    pub environment: Environment,
    /// Processors to be bound to; empty for none.
    pub processors: Vec<u16>,
    /// The process that waits for it.
    pub shepherd: Pid,
    /// Its terminal, for an interactive job.
    pub screen: Option<BorrowedFd<'a>>,
}

impl ChildPlan<'_> {
    /// What failed on a path. A home directory that is not there is this node's fault: another node
    /// may have it mounted. What is missing below one that is there is the owner's.
    fn fault(&self, what: &str, on: &Path, error: Errno) -> LaunchFault {
        let is_below_home = on.starts_with(&self.account.home) && is_gone(error);
        match LaunchFault::of(what, on, error) {
            LaunchFault::Owner(why) if is_below_home => match find_home(self.account, self.host) {
                Ok(()) => LaunchFault::Owner(why),
                Err(missing) => LaunchFault::Node(format!("{why}; {missing}")),
            },
            fault => fault,
        }
    }

    /// The host on which the job was submitted, if it is another one.
    fn submit_host(&self) -> Option<String> {
        let mut entries = self.launch.environ.split(|&byte| byte == 0);
        let host =
            String::from_utf8_lossy(entries.find_map(|entry| entry.strip_prefix(b"PBS_O_HOST="))?)
                .into_owned();
        (!host.is_empty() && !same_server(&host, self.host)).then_some(host)
    }
}

/// Looks for the home directory of an account on this host. The error says that it is missing.
pub fn find_home(account: &UserAccount, host: &str) -> Result<(), String> {
    let UserAccount { name, home, .. } = account;
    match std::fs::metadata(home).map_err(errno) {
        Err(error) if is_gone(error) => Err(format!(
            "the home directory {} of {name} is missing on {host}",
            home.display()
        )),
        _ => Ok(()),
    }
}

/// Whether a path leads nowhere: nothing is there, or the server that has it does not respond.
fn is_gone(error: Errno) -> bool {
    is_missing(error)
        || matches!(
            error,
            Errno::ESTALE | Errno::ETIMEDOUT | Errno::EHOSTDOWN | Errno::ENOTCONN
        )
}

/// What the child tells its shepherd.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ChildMessage {
    /// Comes with the job's standard output.
    Output,
    /// About to exec; comes with the job's standard error.
    Ready,
    /// A stream is written beside its place, and is to be brought there when the job is over.
    Beside(Stream),
    /// Something its owner should know, though it goes on.
    Note(String),
    /// It cannot.
    Failed(LaunchFault),
}

/// Becomes the job. Returns never: into the user's program, or out.
pub fn run(plan: &ChildPlan, start: BorrowedFd) -> ! {
    let Err(fault) = become_job(plan, start);
    // Into the job's error file if that is open by now, else into /dev/null.
    let _ = io::stderr().write_all(format!("lanai: {}\n", fault.text()).as_bytes());
    if let Ok(bytes) = postcard::to_stdvec(&ChildMessage::Failed(fault)) {
        let _ = packet::send(start, &bytes, None, true);
    }
    process::leave(1)
}

fn become_job(plan: &ChildPlan, start: BorrowedFd) -> Result<Infallible, LaunchFault> {
    setsid().map_err(|e| LaunchFault::node("session")(e.into()))?;
    stay_under(plan.shepherd)?;
    bind(&plan.processors).map_err(LaunchFault::node("processors"))?;
    if let Some(groups) = &plan.groups {
        user::become_user(plan.account, groups).map_err(LaunchFault::node("identity"))?;
        stay_under(plan.shepherd)?;
    }
    plan.group
        .map_or(Ok(()), user::take_group)
        .map_err(LaunchFault::node("group"))?;
    umask(Mode::from_bits_truncate(
        plan.launch.umask.unwrap_or(UMASK) & 0o777,
    ));
    match plan.screen {
        Some(screen) => terminal::sit_down(screen).map_err(LaunchFault::node("terminal"))?,
        None => open_outputs(plan, start)?,
    }
    enter(plan)?;
    for (what, path) in &plan.program.needs {
        executable(path).map_err(|e| plan.fault(what, path, e))?;
    }
    say(start, ChildMessage::Output, io::stdout().as_fd())?;
    say(start, ChildMessage::Ready, io::stderr().as_fd())?;
    process::unblock_signals().map_err(LaunchFault::node("signals"))?;
    process::close_all_but(&[start]);
    // Whoever started us may have raised it for its own needs.
    process::usual_descriptor_limit();
    if plan.screen.is_some() {
        await_person(start)?;
    }
    limits::impose(&plan.launch.limits).map_err(LaunchFault::node("limits"))?;
    execute(plan)
}

fn say(start: BorrowedFd, word: ChildMessage, file: BorrowedFd) -> Result<(), LaunchFault> {
    let word = postcard::to_stdvec(&word).unwrap_or_default();
    packet::send(start, &word, Some(file), true).map_err(LaunchFault::node("shepherd"))
}

/// The program finds the window as large as it is, so it starts when somebody sits before it.
fn await_person(start: BorrowedFd) -> Result<(), LaunchFault> {
    match packet::receive(start, &mut [0; 8], true) {
        Ok(Some(_)) => Ok(()),
        Ok(None) => process::leave(1),
        Err(e) => Err(LaunchFault::node("terminal")(e)),
    }
}

/// The job does not outlive its shepherd unseen. Becoming another user forgets this.
fn stay_under(shepherd: Pid) -> Result<(), LaunchFault> {
    prctl::set_pdeathsig(Signal::SIGKILL).map_err(|e| LaunchFault::node("session")(e.into()))?;
    if getppid() != shepherd {
        process::leave(1);
    }
    Ok(())
}

fn bind(processors: &[u16]) -> io::Result<()> {
    if processors.is_empty() {
        return Ok(());
    }
    let mut set = CpuSet::new();
    for &number in processors {
        set.set(usize::from(number))?;
    }
    Ok(sched_setaffinity(Pid::from_raw(0), &set)?)
}

fn open_outputs(plan: &ChildPlan, start: BorrowedFd) -> Result<(), LaunchFault> {
    let launch = plan.launch;
    let mut streams = Streams {
        plan,
        start,
        begun: Vec::new(),
    };
    // Errors first, so that what fails from here on can be read there.
    let errors = match launch.join {
        Join::Output => None,
        Join::No | Join::Error => Some(streams.open("error file", &launch.error, 'e')?),
    };
    if let Some(file) = &errors {
        process::as_standard(file, true).map_err(LaunchFault::node("error file"))?;
    }
    let output = match launch.join {
        Join::Error => errors,
        Join::No | Join::Output => Some(streams.open("output file", &launch.output, 'o')?),
    };
    if let Some(file) = &output {
        process::as_standard(file, false).map_err(LaunchFault::node("output file"))?;
        if launch.join == Join::Output {
            process::as_standard(file, true).map_err(LaunchFault::node("error file"))?;
        }
    }
    Ok(())
}

/// The files for output, opened as the owner.
struct Streams<'a> {
    plan: &'a ChildPlan<'a>,
    start: BorrowedFd<'a>,
    /// Those that are written beside their places.
    begun: Vec<Stream>,
}

impl Streams<'_> {
    /// Opens one; where that fails by the owner's fault, its namesake in the home folder, which is
    /// said: a path mistyped must not cost what the job computes.
    fn open(&mut self, what: &str, path: &Text, letter: char) -> Result<File, LaunchFault> {
        let (launch, home) = (self.plan.launch, &self.plan.account.home);
        let (ending, direct) = match letter {
            'o' => ("OU", launch.files.direct_output),
            _ => ("ER", launch.files.direct_error),
        };
        let path = delivery::place(&path.0, home, &launch.full_id, ending);
        let fault = match delivery::open(&path, launch, direct, &self.begun) {
            Ok(opened) => {
                opened
                    .stream
                    .clone()
                    .map_or(Ok(()), |stream| self.say(&ChildMessage::Beside(stream)))?;
                self.begun.extend(opened.stream);
                return Ok(opened.file);
            }
            Err(errno) => self.plan.fault(what, &path, errno),
        };
        let place = home.join(launch.job.output_file(&launch.name, letter));
        // A task adds to what the script has begun.
        match (
            fault,
            delivery::open_at_place(&place, launch.place.task == 0),
        ) {
            (LaunchFault::Owner(why), Ok(file)) => {
                let note = format!("{why}; it is left in {}", place.display());
                self.say(&ChildMessage::Note(shortened(note, LONGEST_NOTE)))?;
                Ok(file)
            }
            (fault, _) => Err(fault),
        }
    }

    fn say(&self, word: &ChildMessage) -> Result<(), LaunchFault> {
        let bytes = postcard::to_stdvec(word).unwrap_or_default();
        packet::send(self.start, &bytes, None, true).map_err(LaunchFault::node("shepherd"))
    }
}

fn errno(error: io::Error) -> Errno {
    error.raw_os_error().map_or(Errno::EIO, Errno::from_raw)
}

fn enter(plan: &ChildPlan) -> Result<(), LaunchFault> {
    let workdir = &plan.launch.workdir;
    let path = match plan.jobdir {
        Some(own) => own,
        None if workdir.is_empty() => &plan.account.home,
        None => Path::new(OsStr::from_bytes(&workdir.0)),
    };
    chdir(path).map_err(|e| match plan.fault("working directory", path, e) {
        // It was there when the job was submitted, on that host.
        LaunchFault::Owner(why) if is_missing(e) && !path.starts_with(&plan.account.home) => {
            match plan.submit_host() {
                Some(host) => LaunchFault::Node(format!("{why}; the job was submitted on {host}")),
                None => LaunchFault::Owner(why),
            }
        }
        fault => fault,
    })
}

fn is_missing(error: Errno) -> bool {
    matches!(error, Errno::ENOENT | Errno::ENOTDIR)
}

fn executable(path: &Path) -> Result<(), Errno> {
    let kind = std::fs::metadata(path).map_err(errno)?;
    if kind.is_dir() {
        return Err(Errno::EISDIR);
    }
    eaccess(path, AccessFlags::X_OK)
}

fn execute(plan: &ChildPlan) -> Result<Infallible, LaunchFault> {
    let program = &plan.program;
    let environment = variables::entries(&plan.environment);
    let what = program.needs.last().map_or("command", |(what, _)| *what);
    let mut error = Errno::ENOENT;
    for file in candidates(&program.file, &plan.environment) {
        let Ok(path) = CString::new(file.as_os_str().as_bytes()) else {
            continue;
        };
        match execve(&path, &program.arguments, &environment) {
            Err(Errno::ENOENT | Errno::ENOTDIR) => {}
            Err(Errno::EACCES) => error = Errno::EACCES,
            Err(other) => return Err(LaunchFault::of(what, &file, other)),
            Ok(never) => match never {},
        }
    }
    Err(LaunchFault::of(what, &program.file, error))
}

/// The file itself if it is a path, else what it may mean along the job's `PATH`.
fn candidates(file: &Path, environment: &Environment) -> Vec<PathBuf> {
    if file.as_os_str().as_bytes().contains(&b'/') {
        return vec![file.to_path_buf()];
    }
    if file.as_os_str().is_empty() {
        return Vec::new();
    }
    let path = environment.get(&b"PATH"[..]).map_or(&[][..], Vec::as_slice);
    path.split(|&b| b == b':')
        .map(|entry| if entry.is_empty() { b"." } else { entry })
        .map(|folder| Path::new(OsStr::from_bytes(folder)).join(file))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_searched_for_along_the_jobs_path() {
        let environment = Environment::from([(b"PATH".to_vec(), b"/a::/b".to_vec())]);
        let shown = |file| candidates(Path::new(file), &environment);
        assert_eq!(
            shown("x"),
            [Path::new("/a/x"), Path::new("./x"), Path::new("/b/x")]
        );
        assert_eq!(shown("./x"), [Path::new("./x")]);
        assert!(shown("").is_empty());
    }

    #[test]
    fn a_fault_names_what_failed_on_what_and_why() {
        let fault = LaunchFault::of("interpreter", Path::new("/no/such"), Errno::ENOENT);
        assert_eq!(
            fault,
            LaunchFault::Owner("interpreter: /no/such: No such file or directory".into())
        );
        assert!(matches!(
            LaunchFault::of("output file", Path::new("/x"), Errno::ENOSPC),
            LaunchFault::Node(_)
        ));
    }
}
