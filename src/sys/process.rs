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

/// The flag of `linux/sched.h`. The constant in the bindings of the C library is too narrow.
const CLONE_INTO_CGROUP: u64 = 0x2_0000_0000;

/// The usual limit on open descriptors in a login session.
const USUAL_DESCRIPTORS: u64 = 1024;

/// The process in which the caller continues after a fork.
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

/// Forks this process. The child begins in a cgroup, which is cheaper than moving it there later.
/// `cgroup` is the opened directory of the cgroup. The caller must be single-threaded.
pub fn fork_into(cgroup: BorrowedFd) -> io::Result<Fork> {
    // SAFETY: clone_args consists of numbers; zero requests nothing.
    let mut arguments: libc::clone_args = unsafe { std::mem::zeroed() };
    arguments.flags = CLONE_INTO_CGROUP;
    arguments.exit_signal = libc::SIGCHLD as u64;
    arguments.cgroup = cgroup.as_raw_fd() as u64;
    // SAFETY: without CLONE_VM and a stack this is a fork; `arguments` lives through the call. The
    // fork handlers of the C library do not run, but only programs with threads need them.
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

/// Exits immediately, without flushing buffers or running destructors.
pub fn leave(status: i32) -> ! {
    // SAFETY: _exit has no preconditions.
    unsafe { libc::_exit(status) }
}

/// Opens a descriptor that becomes readable when the process ends. The descriptor never refers to a
/// later process with the same pid.
pub fn pidfd(pid: Pid) -> io::Result<OwnedFd> {
    // SAFETY: the arguments are numbers, and the result is a new descriptor.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid.as_raw(), 0) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just returned this new descriptor; no other value owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

/// Closes every descriptor above standard error except those in `keep`. No value that owns
/// a closed descriptor may be dropped later. So call this function only in a child that ends with
/// [`leave`] or exec, or in a process that has not opened other descriptors yet.
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

/// Makes exec close all descriptors except the standard descriptors. This function makes only
/// system calls, so it can be called between fork and exec.
pub fn close_others_on_exec() {
    // SAFETY: the call changes flags of descriptors and no memory.
    unsafe {
        libc::close_range(
            3,
            libc::c_uint::MAX,
            libc::CLOSE_RANGE_CLOEXEC as libc::c_int,
        )
    };
}

/// Whether the process of a [`pidfd`] has ended, even if it has not been reaped.
pub fn is_over(process: &OwnedFd) -> bool {
    use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
    poll(
        &mut [PollFd::new(process.as_fd(), PollFlags::POLLIN)],
        PollTimeout::ZERO,
    ) == Ok(1)
}

/// Whether two processes share their memory. False if the kernel does not report that.
pub fn shares_memory(one: i32, other: i32) -> bool {
    /// `KCMP_VM` of `linux/kcmp.h`.
    const MEMORY: i32 = 1;
    // SAFETY: the arguments and the result are numbers.
    unsafe { libc::syscall(libc::SYS_kcmp, one, other, MEMORY, 0, 0) == 0 }
}

fn close_range(first: u32, last: u32) {
    // SAFETY: the callers of close_all_but never use the closed descriptors again.
    if unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) } == 0 {
        return;
    }
    // Kernels before 5.9 do not have close_range, so close the open descriptors separately.
    let open = std::fs::read_dir("/proc/self/fd")
        .into_iter()
        .flatten()
        .flatten();
    let numbers: Vec<u32> = open
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect();
    for fd in numbers.into_iter().filter(|fd| (first..=last).contains(fd)) {
        // SAFETY: the callers of close_all_but never use the closed descriptors again.
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

/// Resets all standard signals to their default actions. Otherwise children would inherit ignored
/// signals, such as SIGHUP under `nohup`, or SIGPIPE, which Rust's runtime ignores.
pub fn default_signals() {
    let default = SigAction::new(SigHandler::SigDfl, SaFlags::empty(), SigSet::empty());
    for signal in Signal::iterator().filter(|s| !matches!(s, Signal::SIGKILL | Signal::SIGSTOP)) {
        // SAFETY: the default action runs no code of this program.
        let _ = unsafe { sigaction(signal, &default) };
    }
}

/// Blocks all signals that can be blocked. A blocked signal can be read from a descriptor
/// ([`signals`]), and otherwise has no effect.
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

/// Creates a file in memory with this content, positioned at its start.
pub fn in_memory(content: &[u8]) -> io::Result<File> {
    let mut file = File::from(memfd_create("message", MFdFlags::MFD_CLOEXEC)?);
    file.write_all(content)?;
    file.rewind()?;
    Ok(file)
}

/// Creates a file of zeros with a fixed size in memory. Writes beyond that size fail.
pub fn fixed_size_file(bytes: u64) -> io::Result<File> {
    let flags = MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING;
    let file = File::from(memfd_create("scratch", flags)?);
    file.set_len(bytes)?;
    let seals = SealFlag::F_SEAL_GROW | SealFlag::F_SEAL_SHRINK | SealFlag::F_SEAL_SEAL;
    nix::fcntl::fcntl(&file, FcntlArg::F_ADD_SEALS(seals))?;
    Ok(file)
}

/// Opens a descriptor from which the signals in `which` can be read. The signals must be blocked.
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
    /// The process exited with this status.
    Exited(i32),
    /// The process was killed by the signal with this number, which can be a real-time signal.
    Signaled(i32),
}

/// The result of [`reap`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reaped {
    /// The child with this pid had ended and has been reaped.
    Ended(Pid, ProcessEnd),
    /// The given child has not ended. For any child: there are children, but none has ended.
    Living,
    /// The given child does not exist. For any child: there are no children.
    NoChild,
}

/// Reaps a child that has ended: `which`, or any child if None. Never blocks. Use this instead of
/// nix's `waitpid`: if a child was killed by a real-time signal, `waitpid` reaps the child, but
/// returns an error.
pub fn reap(which: Option<Pid>) -> Reaped {
    let mut status = 0;
    loop {
        // SAFETY: the kernel writes one number to `status`.
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

/// Sends the signal with this number to a process. Returns whether that succeeded. Number 0 only
/// checks that the process exists.
pub fn send_signal(pid: i32, number: i32) -> bool {
    // SAFETY: kill accesses no memory of this process.
    pid > 0 && unsafe { libc::kill(pid, number) } == 0
}

/// Sends a signal to the process of a [`pidfd`].
pub fn send_to(process: &OwnedFd, signal: Signal) -> io::Result<()> {
    let (fd, number) = (process.as_raw_fd(), signal as i32);
    // SAFETY: the arguments are numbers and a null pointer, which requests an ordinary signal.
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

/// The first fields of a `siginfo_t` for a signal with a value.
#[repr(C)]
struct Valued {
    signo: libc::c_int,
    errno: libc::c_int,
    code: libc::c_int,
    sender: Sender,
}

/// The member for a queued signal in the union of `siginfo_t`.
#[repr(C)]
struct Sender {
    pid: libc::pid_t,
    uid: libc::uid_t,
    value: libc::sigval,
}

/// Sends a signal with a value to the process of a [`pidfd`].
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
    // SAFETY: `Valued` has the layout of the start of a siginfo_t with this code. Its size and
    // alignment do not exceed the size and alignment of siginfo_t.
    unsafe { info.as_mut_ptr().cast::<Valued>().write(valued) };
    // SAFETY: `info` lives through the call, and all of it has been written.
    match unsafe { libc::syscall(libc::SYS_pidfd_send_signal, fd, number, info.as_ptr(), 0) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Sends SIGKILL to a process.
pub fn end(pid: i32) {
    if pid > 0 {
        let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
    }
}

/// Sets the name of this process for `ps` and `top`, up to 15 bytes.
pub fn set_name(name: &CStr) {
    let _ = nix::sys::prctl::set_name(name);
}

/// Sixteen random bytes that cannot be guessed.
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

/// Raises this process's limit on open descriptors to the hard limit.
pub fn raise_descriptor_limit() {
    use nix::sys::resource::{Resource, getrlimit, setrlimit};
    if let Ok((_, hard)) = getrlimit(Resource::RLIMIT_NOFILE) {
        let _ = setrlimit(Resource::RLIMIT_NOFILE, hard, hard);
    }
}

/// Lowers this process's limit on open descriptors to the usual value, if it is higher. With a
/// higher limit, programs that use `select` can write out of bounds, and programs that close all
/// possible descriptors take very long.
pub fn lower_descriptor_limit() {
    use nix::sys::resource::{Resource, getrlimit, setrlimit};
    if let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) {
        let _ = setrlimit(Resource::RLIMIT_NOFILE, soft.min(USUAL_DESCRIPTORS), hard);
    }
}

/// Opens the file of `fd` again for nonblocking writes. The flags of existing descriptors do not
/// change.
pub fn open_again(fd: impl AsFd) -> io::Result<File> {
    let path = format!("/proc/self/fd/{}", fd.as_fd().as_raw_fd());
    File::options()
        .write(true)
        .custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY)
        .open(path)
}

/// Makes the file of `fd` the standard output, or with `error` the standard error, of this process
/// and the program that it executes.
pub fn as_standard(fd: impl AsFd, error: bool) -> io::Result<()> {
    Ok(if error {
        nix::unistd::dup2_stderr(fd)
    } else {
        nix::unistd::dup2_stdout(fd)
    }?)
}
