//! Starting a program of the user's, in our place: with our input, output and terminal.

#![allow(
    clippy::disallowed_methods,
    reason = "the one place that starts a program in our place"
)]

use super::process;
use nix::unistd::Pid;
use std::ffi::OsStr;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// Starts it, with every signal let through. Whoever calls this reaps it.
pub fn start<S: AsRef<OsStr>>(program: &OsStr, arguments: &[S]) -> io::Result<Pid> {
    let mut command = Command::new(program);
    command.args(arguments);
    // SAFETY: between fork and exec, one system call that touches no memory of ours.
    unsafe {
        command.pre_exec(process::unblock_signals);
    }
    command
        .spawn()
        .map(|child| Pid::from_raw(child.id() as i32))
}
