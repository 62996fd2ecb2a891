//! From the fork to the user's own exec: the steps of the job's first process, in order.
//!
//! Everything that belongs to the owner (output files, working directory, interpreter) is touched
//! only after the process has become the owner: a path that leads into somebody else's files then
//! opens nothing. What fails is told to the shepherd over a socket that a successful exec closes.

use super::environment::{self, Environment};
use super::program::Program;
use crate::model::job::Join;
use crate::model::text::Text;
use crate::sys::user::{self, Account};
use crate::sys::{packet, process};
use crate::wire::message::Launch;
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::libc;
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
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// All the child needs, made ready by the shepherd.
#[derive(Debug)]
pub struct Plan<'a> {
    /// The order.
    pub launch: &'a Launch,
    /// Who it runs as.
    pub account: &'a Account,
    /// All the owner's groups, when the child must become the owner first.
    pub groups: Option<Vec<Gid>>,
    /// What to execute.
    pub program: Program,
    /// With which variables.
    pub environment: Environment,
    /// Processors to be bound to; empty for none.
    pub processors: Vec<u16>,
    /// The process that waits for it.
    pub shepherd: Pid,
}

/// What the child tells its shepherd.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Word {
    /// About to exec; comes with the job's standard error.
    Ready,
    /// It cannot.
    Failed(Fault),
}

/// Why a job cannot start, and who can mend that.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Fault {
    /// Its owner: `what: on what: why`.
    Owner(String),
    /// This node: to be tried again.
    Node(String),
}

impl Fault {
    fn of(what: &str, on: &Path, error: Errno) -> Fault {
        let text = format!("{what}: {}: {}", on.display(), error.desc());
        match error {
            Errno::ENOMEM | Errno::EAGAIN | Errno::EMFILE | Errno::ENFILE | Errno::EIO | Errno::ENOSPC => {
                Fault::Node(text)
            }
            _ => Fault::Owner(text),
        }
    }

    fn node(what: &'static str) -> impl Fn(io::Error) -> Fault {
        move |error| Fault::Node(format!("{what}: {error}"))
    }

    fn text(&self) -> &str {
        match self {
            Fault::Owner(text) | Fault::Node(text) => text,
        }
    }
}

/// Becomes the job. Returns never: into the user's program, or out.
pub fn run(plan: &Plan, start: BorrowedFd) -> ! {
    let Err(fault) = become_job(plan, start);
    // Into the job's error file if that is open by now, else into /dev/null.
    let _ = io::stderr().write_all(format!("lanai: {}\n", fault.text()).as_bytes());
    if let Ok(bytes) = postcard::to_stdvec(&Word::Failed(fault)) {
        let _ = packet::send(start, &bytes, None, true);
    }
    process::leave(1)
}

fn become_job(plan: &Plan, start: BorrowedFd) -> Result<Infallible, Fault> {
    setsid().map_err(|e| Fault::node("session")(e.into()))?;
    stay_under(plan.shepherd)?;
    bind(&plan.processors).map_err(Fault::node("processors"))?;
    if let Some(groups) = &plan.groups {
        user::become_user(plan.account, groups).map_err(Fault::node("identity"))?;
        stay_under(plan.shepherd)?;
    }
    umask(Mode::from_bits_truncate(plan.launch.umask.unwrap_or(0o077) & 0o777));
    open_outputs(plan.launch)?;
    enter(plan)?;
    for (what, path) in &plan.program.needs {
        executable(path).map_err(|e| Fault::of(what, path, e))?;
    }
    let ready = postcard::to_stdvec(&Word::Ready).unwrap_or_default();
    packet::send(start, &ready, Some(io::stderr().as_fd()), true).map_err(Fault::node("shepherd"))?;
    process::unblock_signals().map_err(Fault::node("signals"))?;
    process::close_all_but(&[start]);
    // Whoever started us may have raised it for its own needs.
    process::usual_descriptor_limit();
    execute(plan)
}

/// The job does not outlive its shepherd unseen. Becoming another user forgets this.
fn stay_under(shepherd: Pid) -> Result<(), Fault> {
    prctl::set_pdeathsig(Signal::SIGKILL).map_err(|e| Fault::node("session")(e.into()))?;
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

fn open_outputs(launch: &Launch) -> Result<(), Fault> {
    // Errors first, so that what fails from here on can be read there.
    let errors = match launch.join {
        Join::Output => None,
        Join::No | Join::Error => Some(open_output(launch, "error file", &launch.error, "ER")?),
    };
    if let Some(file) = &errors {
        process::as_standard(file, true).map_err(Fault::node("error file"))?;
    }
    let output = match launch.join {
        Join::Error => errors,
        Join::No | Join::Output => Some(open_output(launch, "output file", &launch.output, "OU")?),
    };
    if let Some(file) = &output {
        process::as_standard(file, false).map_err(Fault::node("output file"))?;
        if launch.join == Join::Output {
            process::as_standard(file, true).map_err(Fault::node("error file"))?;
        }
    }
    Ok(())
}

/// Opens a file for output; in a folder, the file `<full id>.<ending>`. Always at its end, so that
/// joined streams, and the tasks of a job, do not overwrite each other. The script begins it anew.
fn open_output(launch: &Launch, what: &str, path: &Text, ending: &str) -> Result<File, Fault> {
    let path = PathBuf::from(OsStr::from_bytes(&path.0));
    let anew = launch.place.task == 0;
    let open = |path: &Path| {
        // A FIFO that nobody reads is an error, not something to wait for.
        let flags = libc::O_APPEND | libc::O_NOCTTY | libc::O_NONBLOCK;
        let file = File::options().write(true).create(true).truncate(anew).mode(0o666).custom_flags(flags).open(path);
        let file = file.map_err(errno)?;
        fcntl(&file, FcntlArg::F_SETFL(OFlag::O_APPEND))?;
        Ok(file)
    };
    match open(&path) {
        Err(Errno::EISDIR) => {
            let inside = path.join(format!("{}.{ending}", launch.full_id));
            open(&inside).map_err(|e| Fault::of(what, &inside, e))
        }
        other => other.map_err(|e| Fault::of(what, &path, e)),
    }
}

fn errno(error: io::Error) -> Errno {
    error.raw_os_error().map_or(Errno::EIO, Errno::from_raw)
}

fn enter(plan: &Plan) -> Result<(), Fault> {
    let workdir = &plan.launch.workdir;
    let path = if workdir.is_empty() { &plan.account.home } else { Path::new(OsStr::from_bytes(&workdir.0)) };
    chdir(path).map_err(|e| Fault::of("working directory", path, e))
}

fn executable(path: &Path) -> Result<(), Errno> {
    let kind = std::fs::metadata(path).map_err(errno)?;
    if kind.is_dir() {
        return Err(Errno::EISDIR);
    }
    eaccess(path, AccessFlags::X_OK)
}

fn execute(plan: &Plan) -> Result<Infallible, Fault> {
    let program = &plan.program;
    let environment = environment::entries(&plan.environment);
    let what = program.needs.last().map_or("command", |(what, _)| *what);
    let mut error = Errno::ENOENT;
    for file in candidates(&program.file, &plan.environment) {
        let Ok(path) = CString::new(file.as_os_str().as_bytes()) else { continue };
        match execve(&path, &program.arguments, &environment) {
            Err(Errno::ENOENT | Errno::ENOTDIR) => {}
            Err(Errno::EACCES) => error = Errno::EACCES,
            Err(other) => return Err(Fault::of(what, &file, other)),
            Ok(never) => match never {},
        }
    }
    Err(Fault::of(what, &program.file, error))
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
    let folder = |entry: &[u8]| if entry.is_empty() { PathBuf::from(".") } else { OsStr::from_bytes(entry).into() };
    path.split(|&b| b == b':').map(|entry| folder(entry).join(file)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_searched_for_along_the_jobs_path() {
        let environment = Environment::from([(b"PATH".to_vec(), b"/a::/b".to_vec())]);
        let shown = |file| candidates(Path::new(file), &environment);
        assert_eq!(shown("x"), [Path::new("/a/x"), Path::new("./x"), Path::new("/b/x")]);
        assert_eq!(shown("./x"), [Path::new("./x")]);
        assert!(shown("").is_empty());
    }

    #[test]
    fn a_fault_names_what_failed_on_what_and_why() {
        let fault = Fault::of("interpreter", Path::new("/no/such"), Errno::ENOENT);
        assert_eq!(fault, Fault::Owner("interpreter: /no/such: No such file or directory".into()));
        assert!(matches!(Fault::of("output file", Path::new("/x"), Errno::ENOSPC), Fault::Node(_)));
    }
}
