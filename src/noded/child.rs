//! The job's first process, from its fork until it executes the user's program.
//!
//! The process only accesses the owner's files (output files, working directory, interpreter) after
//! it has become the owner. So it cannot open files of other users. The process reports
//! failures to its parent, the shepherd, over a socket that a successful exec closes.

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

/// The umask of jobs that request no umask, and of users' notification programs.
pub const UMASK: u32 = 0o077;
/// Maximum length of a note about a stream, in characters.
const MAX_NOTE: usize = 400;

/// The data that the shepherd prepares for the child.
#[derive(Debug)]
pub struct ChildPlan<'a> {
    /// The order of schedd to start the attempt.
    pub launch: &'a Launch,
    /// The account that the child runs as.
    pub account: &'a UserAccount,
    /// This host's short name.
    pub host: &'a str,
    /// The owner's groups and the group that the job requests, if the child must change its user to
    /// the owner.
    pub groups: Option<Vec<Gid>>,
    /// The group to set if the child already runs as the owner.
    pub group: Option<u32>,
    /// The job's private directory, in which the child starts, if the job has one.
    pub jobdir: Option<&'a Path>,
    /// The program to execute.
    pub program: ProgramToRun,
    /// The environment of the program.
    pub environment: Environment,
    /// The processors that the child is bound to; empty for all.
    pub processors: Vec<u16>,
    /// The shepherd's pid.
    pub shepherd: Pid,
    /// The terminal of an interactive job.
    pub screen: Option<BorrowedFd<'a>>,
}

impl ChildPlan<'_> {
    /// Classifies a failure on a path as the owner's or the node's fault. A missing home directory
    /// is the node's fault, because another node may have it mounted. A missing file below an
    /// existing home directory is the owner's fault.
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

    /// The submission host; None if that is this host or unknown.
    fn submit_host(&self) -> Option<String> {
        let mut entries = self.launch.environ.split(|&byte| byte == 0);
        let host =
            String::from_utf8_lossy(entries.find_map(|entry| entry.strip_prefix(b"PBS_O_HOST="))?)
                .into_owned();
        (!host.is_empty() && !same_server(&host, self.host)).then_some(host)
    }
}

/// Returns an error if the home directory of an account is missing on this host, or if its file
/// server does not respond. Other errors are ignored.
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

/// Whether the error means that a path does not exist or that its file server does not respond.
fn is_gone(error: Errno) -> bool {
    is_missing(error)
        || matches!(
            error,
            Errno::ESTALE | Errno::ETIMEDOUT | Errno::EHOSTDOWN | Errno::ENOTCONN
        )
}

/// Messages from the child to the shepherd.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ChildMessage {
    /// The descriptor of the job's standard output, passed with this message.
    Output,
    /// The child is ready to execute the program (in an interactive job: once a client is
    /// attached). The descriptor of the job's standard error is passed with this message.
    Ready,
    /// A stream is written to a temporary file, which is moved to its final path when the job ends.
    Beside(Stream),
    /// A note for the owner; the start continues.
    Note(String),
    /// The start failed.
    Failed(LaunchFault),
}

/// Runs the child: executes the user's program, or reports the failure and exits. Never returns.
pub fn run(plan: &ChildPlan, start: BorrowedFd) -> ! {
    let Err(fault) = become_job(plan, start);
    // Standard error is /dev/null at first, and the job's error file or terminal once it is open.
    let _ = io::stderr().write_all(format!("lanai: {}\n", fault.text()).as_bytes());
    if let Ok(bytes) = postcard::to_stdvec(&ChildMessage::Failed(fault)) {
        let _ = packet::send(start, &bytes, None, true);
    }
    process::leave(1)
}

fn become_job(plan: &ChildPlan, start: BorrowedFd) -> Result<Infallible, LaunchFault> {
    setsid().map_err(|e| LaunchFault::node("cannot start a session")(e.into()))?;
    die_with_shepherd(plan.shepherd)?;
    bind(&plan.processors).map_err(LaunchFault::node("cannot bind to processors"))?;
    if let Some(groups) = &plan.groups {
        user::become_user(plan.account, groups)
            .map_err(LaunchFault::node("cannot become the job's owner"))?;
        die_with_shepherd(plan.shepherd)?;
    }
    plan.group
        .map_or(Ok(()), user::set_group)
        .map_err(LaunchFault::node("cannot set the group"))?;
    umask(Mode::from_bits_truncate(
        plan.launch.umask.unwrap_or(UMASK) & 0o777,
    ));
    match plan.screen {
        Some(screen) => terminal::attach_standard_streams(screen)
            .map_err(LaunchFault::node("cannot use the terminal"))?,
        None => open_outputs(plan, start)?,
    }
    enter_workdir(plan)?;
    for (what, path) in &plan.program.needs {
        check_executable(path).map_err(|e| plan.fault(what, path, e))?;
    }
    report(start, ChildMessage::Output, io::stdout().as_fd())?;
    report(start, ChildMessage::Ready, io::stderr().as_fd())?;
    process::unblock_signals().map_err(LaunchFault::node("cannot unblock signals"))?;
    process::close_all_but(&[start]);
    // noded may have inherited a higher limit on descriptors from its parent.
    process::lower_descriptor_limit();
    if plan.screen.is_some() {
        await_client(start)?;
    }
    limits::set_process_limits(&plan.launch.limits)
        .map_err(LaunchFault::node("cannot set resource limits"))?;
    execute(plan)
}

fn report(start: BorrowedFd, message: ChildMessage, file: BorrowedFd) -> Result<(), LaunchFault> {
    let message = postcard::to_stdvec(&message).unwrap_or_default();
    packet::send(start, &message, Some(file), true)
        .map_err(LaunchFault::node("cannot report to the shepherd"))
}

/// Waits until a client is attached, so that the program starts with the client's window size.
fn await_client(start: BorrowedFd) -> Result<(), LaunchFault> {
    match packet::receive(start, &mut [0; 8], true) {
        Ok(Some(_)) => Ok(()),
        Ok(None) => process::leave(1),
        Err(e) => Err(LaunchFault::node("cannot use the terminal")(e)),
    }
}

/// Lets the kernel kill this process if its shepherd dies. A change of user clears this setting, so
/// it must be set again. Exits if the shepherd has died already.
fn die_with_shepherd(shepherd: Pid) -> Result<(), LaunchFault> {
    prctl::set_pdeathsig(Signal::SIGKILL)
        .map_err(|e| LaunchFault::node("cannot set the parent-death signal")(e.into()))?;
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
    // The error file is opened first, so that later failures are written to it.
    let errors = match launch.join {
        Join::Output => None,
        Join::No | Join::Error => Some(streams.open("error file", &launch.error, 'e')?),
    };
    if let Some(file) = &errors {
        process::as_standard(file, true)
            .map_err(LaunchFault::node("cannot redirect to the error file"))?;
    }
    let output = match launch.join {
        Join::Error => errors,
        Join::No | Join::Output => Some(streams.open("output file", &launch.output, 'o')?),
    };
    if let Some(file) = &output {
        process::as_standard(file, false)
            .map_err(LaunchFault::node("cannot redirect to the output file"))?;
        if launch.join == Join::Output {
            process::as_standard(file, true)
                .map_err(LaunchFault::node("cannot redirect to the error file"))?;
        }
    }
    Ok(())
}

/// Opens the job's output files as the owner.
struct Streams<'a> {
    plan: &'a ChildPlan<'a>,
    start: BorrowedFd<'a>,
    /// The open streams that are written to temporary files.
    begun: Vec<Stream>,
}

impl Streams<'_> {
    /// Opens an output file. If that fails and the owner can correct the fault, opens a file with
    /// the default name in the home directory and notes this for the owner. So the job's output is
    /// not lost because of a mistyped path.
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
                    .map_or(Ok(()), |stream| self.report(&ChildMessage::Beside(stream)))?;
                self.begun.extend(opened.stream);
                return Ok(opened.file);
            }
            Err(errno) => self.plan.fault(what, &path, errno),
        };
        let place = home.join(launch.job.output_file(&launch.name, letter));
        match (
            fault,
            // Only the script empties the file. A task appends to it.
            delivery::open_at_place(&place, launch.place.task == 0),
        ) {
            (LaunchFault::Owner(why), Ok(file)) => {
                let note = format!("{why}; the output is in {}", place.display());
                self.report(&ChildMessage::Note(shortened(note, MAX_NOTE)))?;
                Ok(file)
            }
            (fault, _) => Err(fault),
        }
    }

    fn report(&self, message: &ChildMessage) -> Result<(), LaunchFault> {
        let bytes = postcard::to_stdvec(message).unwrap_or_default();
        packet::send(self.start, &bytes, None, true)
            .map_err(LaunchFault::node("cannot report to the shepherd"))
    }
}

fn errno(error: io::Error) -> Errno {
    error.raw_os_error().map_or(Errno::EIO, Errno::from_raw)
}

fn enter_workdir(plan: &ChildPlan) -> Result<(), LaunchFault> {
    let workdir = &plan.launch.workdir;
    let path = match plan.jobdir {
        Some(own) => own,
        None if workdir.is_empty() => &plan.account.home,
        None => Path::new(OsStr::from_bytes(&workdir.0)),
    };
    chdir(path).map_err(|e| match plan.fault("working directory", path, e) {
        // The directory probably exists on the submission host. Another node may have it, too.
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

fn check_executable(path: &Path) -> Result<(), Errno> {
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

/// The files to try to execute: `file` if it contains a slash, else `file` in each directory of the
/// job's `PATH`.
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
    fn a_command_without_a_slash_is_searched_in_the_path_of_the_job() {
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
    fn a_fault_contains_the_kind_of_file_its_path_and_the_error() {
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
