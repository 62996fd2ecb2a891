//! Processes: fork, signals, descriptors, and preparations for exec.

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, SealFlag};
use nix::libc;
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::signal::{
    SaFlags, SigAction, SigHandler, SigSet, SigmaskHow, Signal, kill, sigaction, sigprocmask,
};
use nix::sys::stat::Mode;
use nix::unistd::{ForkResult, Pid};
use std::ffi::CStr;
use std::fs::File;
use std::io::{self, Seek, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;

/// From `linux/sched.h`: too wide for the constant in the C library's bindings.
const CLONE_INTO_CGROUP: u64 = 0x2_0000_0000;

/// The usual limit on open descriptors of a login.
const USUAL_DESCRIPTORS: u64 = 1024;

/// The side of a fork.
#[derive(Debug)]
pub enum Fork {
    /// The parent, with the child's pid.
    Parent(Pid),
    /// The child.
    Child,
}

/// Forks this process. The caller must be single-threaded.
pub fn fork() -> io::Result<Fork> {
    // SAFETY: every caller is a single-threaded daemon, so the child finds no lock held by a
    // thread that it does not have.
    Ok(match unsafe { nix::unistd::fork() }? {
        ForkResult::Parent { child } => Fork::Parent(child),
        ForkResult::Child => Fork::Child,
    })
}

/// Forks this process into a cgroup, which is cheaper than moving it later. `cgroup` is the opened
/// directory. The caller must be single-threaded.
pub fn fork_into(cgroup: BorrowedFd) -> io::Result<Fork> {
    // SAFETY: clone_args consists of numbers; zero requests nothing.
    let mut arguments: libc::clone_args = unsafe { std::mem::zeroed() };
    arguments.flags = CLONE_INTO_CGROUP;
    arguments.exit_signal = libc::SIGCHLD as u64;
    arguments.cgroup = cgroup.as_raw_fd() as u64;
    // SAFETY: without CLONE_VM and a stack this is a fork; `arguments` lives through the call. The
    // fork handlers of the C library do not run: only programs with threads need them.
    match unsafe {
        libc::syscall(
            libc::SYS_clone3,
            &raw const arguments,
            size_of::<libc::clone_args>(),
        )
    } {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(Fork::Child),
        pid => Ok(Fork::Parent(Pid::from_raw(pid as i32))),
    }
}

/// Exits at once, without flushing buffers or running destructors.
pub fn leave(status: i32) -> ! {
    // SAFETY: _exit has no preconditions.
    unsafe { libc::_exit(status) }
}

/// A descriptor that becomes readable when the process ends. It never refers to a later process
/// with the same pid.
pub fn pidfd(pid: Pid) -> io::Result<OwnedFd> {
    // SAFETY: plain numbers go in, a new descriptor comes out.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid.as_raw(), 0) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just returned this new descriptor; no other value owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

/// Closes every descriptor above standard error except these. Owners of closed ones must never be
/// dropped: only for processes that end with [`leave`] or exec.
pub fn close_all_but(keep: &[BorrowedFd]) {
    let mut keep: Vec<u32> = keep
        .iter()
        .map(|fd| fd.as_raw_fd() as u32)
        .filter(|&fd| fd > 2)
        .collect();
    keep.sort_unstable();
    let mut first = 3;
    for fd in keep {
        if fd > first {
            close_range(first, fd - 1);
        }
        first = fd + 1;
    }
    close_range(first, u32::MAX);
}

/// Makes exec close all descriptors except the standard ones. It makes only system calls, so it may
/// be called between fork and exec.
pub fn close_others_on_exec() {
    // SAFETY: it changes flags of descriptors and no memory.
    unsafe {
        libc::close_range(
            3,
            libc::c_uint::MAX,
            libc::CLOSE_RANGE_CLOEXEC as libc::c_int,
        )
    };
}

/// Whether the process behind a [`pidfd`] has ended, reaped or not.
pub fn is_over(process: &OwnedFd) -> bool {
    use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
    poll(
        &mut [PollFd::new(process.as_fd(), PollFlags::POLLIN)],
        PollTimeout::ZERO,
    ) == Ok(1)
}

/// Whether two processes share their memory. False if the kernel does not report it.
pub fn shares_memory(one: i32, other: i32) -> bool {
    /// `KCMP_VM` of linux/kcmp.h.
    const MEMORY: i32 = 1;
    // SAFETY: plain numbers go in and out.
    unsafe { libc::syscall(libc::SYS_kcmp, one, other, MEMORY, 0, 0) == 0 }
}

fn close_range(first: u32, last: u32) {
    // SAFETY: the callers of close_all_but never use the closed descriptors again.
    if unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) } == 0 {
        return;
    }
    // Kernels before 5.9: close them one by one.
    let open = std::fs::read_dir("/proc/self/fd")
        .into_iter()
        .flatten()
        .flatten();
    let numbers: Vec<u32> = open
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect();
    for fd in numbers.into_iter().filter(|fd| (first..=last).contains(fd)) {
        // SAFETY: as above.
        unsafe { libc::close(fd as i32) };
    }
}

/// Redirects standard input, output and error to /dev/null.
pub fn silence() -> io::Result<()> {
    let null = nix::fcntl::open(
        "/dev/null",
        nix::fcntl::OFlag::O_RDWR | nix::fcntl::OFlag::O_CLOEXEC,
        Mode::empty(),
    )?;
    nix::unistd::dup2_stdin(&null)?;
    nix::unistd::dup2_stdout(&null)?;
    nix::unistd::dup2_stderr(&null)?;
    Ok(())
}

/// Resets all signals to their default actions, so that children do not inherit others from this
/// process's parent (`nohup`, a runtime that ignores SIGPIPE).
pub fn default_signals() {
    let default = SigAction::new(SigHandler::SigDfl, SaFlags::empty(), SigSet::empty());
    for signal in Signal::iterator().filter(|s| !matches!(s, Signal::SIGKILL | Signal::SIGSTOP)) {
        // SAFETY: the default effect runs no code of ours.
        let _ = unsafe { sigaction(signal, &default) };
    }
}

/// Blocks all signals that can be blocked: they are read from a descriptor, or have no effect.
pub fn block_signals() -> io::Result<()> {
    Ok(sigprocmask(
        SigmaskHow::SIG_SETMASK,
        Some(&SigSet::all()),
        None,
    )?)
}

/// Unblocks all signals.
pub fn unblock_signals() -> io::Result<()> {
    Ok(sigprocmask(
        SigmaskHow::SIG_SETMASK,
        Some(&SigSet::empty()),
        None,
    )?)
}

/// A file in memory with this content, positioned at its start: writing it never blocks.
pub fn in_memory(content: &[u8]) -> io::Result<File> {
    let mut file = File::from(memfd_create("message", MFdFlags::MFD_CLOEXEC)?);
    file.write_all(content)?;
    file.rewind()?;
    Ok(file)
}

/// A file in memory of a fixed size: writes beyond it fail.
pub fn scratch(bytes: u64) -> io::Result<File> {
    let flags = MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING;
    let file = File::from(memfd_create("scratch", flags)?);
    file.set_len(bytes)?;
    let seals = SealFlag::F_SEAL_GROW | SealFlag::F_SEAL_SHRINK | SealFlag::F_SEAL_SEAL;
    nix::fcntl::fcntl(&file, FcntlArg::F_ADD_SEALS(seals))?;
    Ok(file)
}

/// A descriptor from which these signals, which must be blocked, can be read.
pub fn signals(which: &[Signal]) -> io::Result<nix::sys::signalfd::SignalFd> {
    use nix::sys::signalfd::{SfdFlags, SignalFd};
    let mask: SigSet = which.iter().copied().collect();
    Ok(SignalFd::with_flags(
        &mask,
        SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK,
    )?)
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProcessEnd {
    /// With this exit status.
    Exited(i32),
    /// By this signal number, which may be a real-time signal.
    Signaled(i32),
}

/// The result of [`reap`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reaped {
    /// This child had ended and has been reaped.
    Ended(Pid, ProcessEnd),
    /// No child is left to reap now.
    Living,
    /// There is no such child.
    NoChild,
}

/// Reaps one ended child, the given one or any. Never blocks. nix's `waitpid` does not support
/// real-time signals: it reaps a child killed by one, and then fails.
pub fn reap(which: Option<Pid>) -> Reaped {
    let mut status = 0;
    loop {
        // SAFETY: the kernel writes one number, into `status`.
        match unsafe {
            libc::waitpid(
                which.map_or(-1, Pid::as_raw),
                &raw mut status,
                libc::WNOHANG,
            )
        } {
            0 => return Reaped::Living,
            pid if pid > 0 && libc::WIFSIGNALED(status) => {
                return Reaped::Ended(
                    Pid::from_raw(pid),
                    ProcessEnd::Signaled(libc::WTERMSIG(status)),
                );
            }
            pid if pid > 0 => {
                return Reaped::Ended(
                    Pid::from_raw(pid),
                    ProcessEnd::Exited(libc::WEXITSTATUS(status)),
                );
            }
            _ if Errno::last() == Errno::ECHILD => return Reaped::NoChild,
            _ => {}
        }
    }
}

/// Sends a signal number to a process. Returns whether that succeeded. Zero only checks that the
/// process exists.
pub fn send_signal(pid: i32, number: i32) -> bool {
    // SAFETY: kill touches no memory of ours.
    pid > 0 && unsafe { libc::kill(pid, number) } == 0
}

/// Sends a signal to the process behind a [`pidfd`].
pub fn send_to(process: &OwnedFd, signal: Signal) -> io::Result<()> {
    let (fd, number) = (process.as_raw_fd(), signal as i32);
    // SAFETY: plain numbers go in, and a null pointer, which requests an ordinary signal.
    match unsafe {
        libc::syscall(
            libc::SYS_pidfd_send_signal,
            fd,
            number,
            std::ptr::null::<libc::siginfo_t>(),
            0,
        )
    } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// The start of a `siginfo_t` of a signal with a value.
#[repr(C)]
struct Valued {
    signo: libc::c_int,
    errno: libc::c_int,
    code: libc::c_int,
    sender: Sender,
}

/// The union member of a queued signal.
#[repr(C)]
struct Sender {
    pid: libc::pid_t,
    uid: libc::uid_t,
    value: libc::sigval,
}

/// Sends a signal to the process behind a [`pidfd`], with a value that the receiver reads.
pub fn send_value_to(process: &OwnedFd, signal: Signal, value: i32) -> io::Result<()> {
    let (fd, number) = (process.as_raw_fd(), signal as i32);
    let value = libc::sigval {
        sival_ptr: std::ptr::without_provenance_mut(value as u32 as usize),
    };
    let sender = Sender {
        pid: nix::unistd::getpid().as_raw(),
        uid: nix::unistd::getuid().as_raw(),
        value,
    };
    let valued = Valued {
        signo: number,
        errno: 0,
        code: libc::SI_QUEUE,
        sender,
    };
    let mut info = MaybeUninit::<libc::siginfo_t>::zeroed();
    const { assert!(size_of::<Valued>() <= size_of::<libc::siginfo_t>()) };
    // SAFETY: it begins as a siginfo_t of that code does, and is no larger or more aligned than
    // one.
    unsafe { info.as_mut_ptr().cast::<Valued>().write(valued) };
    // SAFETY: `info` lives through the call, and all of it has been written.
    match unsafe { libc::syscall(libc::SYS_pidfd_send_signal, fd, number, info.as_ptr(), 0) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Kills a process.
pub fn end(pid: i32) {
    if pid > 0 {
        let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
    }
}

/// Sets the name of this process for `ps` and `top`, up to 15 bytes.
pub fn set_name(name: &CStr) {
    let _ = nix::sys::prctl::set_name(name);
}

/// Sixteen random bytes, unguessable.
pub fn random() -> io::Result<[u8; 16]> {
    let mut bytes = [0u8; 16];
    // SAFETY: the kernel writes at most `bytes.len()` bytes into `bytes`.
    let length = unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), bytes.len(), 0) };
    if length == bytes.len() as isize {
        Ok(bytes)
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Raises the limit on open descriptors to the hard limit.
pub fn raise_descriptor_limit() {
    use nix::sys::resource::{Resource, getrlimit, setrlimit};
    if let Ok((_, hard)) = getrlimit(Resource::RLIMIT_NOFILE) {
        let _ = setrlimit(Resource::RLIMIT_NOFILE, hard, hard);
    }
}

/// Lowers the limit on open descriptors to the usual value, if it is higher. With more descriptors
/// `select` writes out of bounds, and programs that close all possible ones take very long.
pub fn usual_descriptor_limit() {
    use nix::sys::resource::{Resource, getrlimit, setrlimit};
    if let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) {
        let _ = setrlimit(Resource::RLIMIT_NOFILE, soft.min(USUAL_DESCRIPTORS), hard);
    }
}

/// Opens the file of `fd` again, for nonblocking writes; the flags of other users of the file do
/// not change.
pub fn open_again(fd: impl AsFd) -> io::Result<File> {
    let path = format!("/proc/self/fd/{}", fd.as_fd().as_raw_fd());
    File::options()
        .write(true)
        .custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY)
        .open(path)
}

/// Copies `fd` to standard output or error; the copy stays open over an exec.
pub fn as_standard(fd: impl AsFd, error: bool) -> io::Result<()> {
    Ok(if error {
        nix::unistd::dup2_stderr(fd)
    } else {
        nix::unistd::dup2_stdout(fd)
    }?)
}
