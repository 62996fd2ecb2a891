//! Asking a program of somebody else's: bounded in time and in what it may say, and never waited
//! for.

#![allow(clippy::disallowed_methods, reason = "the one place that starts programs of others")]

use super::process;
use crate::model::time::Span;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::sys::prctl;
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use std::io::{self, ErrorKind, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

/// The most a program may say, in bytes.
const MOST: u64 = 1 << 20;

/// A program that has been asked.
#[derive(Debug)]
pub struct Tool {
    child: Child,
    out: ChildStdout,
    said: Vec<u8>,
    /// When it must have answered.
    pub until: Span,
}

impl Tool {
    /// Starts it, with nothing to read and nobody to hear its errors. It does not outlive us.
    pub fn start(program: &Path, arguments: &[&str], until: Span) -> io::Result<Tool> {
        Tool::spawn(program, arguments, Stdio::null(), until)
    }

    /// The same, with a question to read.
    pub fn ask(program: &Path, question: &[u8], until: Span) -> io::Result<Tool> {
        Tool::spawn(program, &[], Stdio::from(process::in_memory(question)?), until)
    }

    fn spawn(program: &Path, arguments: &[&str], input: Stdio, until: Span) -> io::Result<Tool> {
        let mut command = Command::new(program);
        command.args(arguments).current_dir("/").process_group(0);
        // SAFETY: between fork and exec, two system calls that touch no memory of ours.
        unsafe {
            command.pre_exec(|| {
                prctl::set_pdeathsig(Signal::SIGKILL)?;
                process::unblock_signals()
            });
        }
        let mut child = command.stdin(input).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
        let out = child.stdout.take().ok_or_else(|| io::Error::other("no pipe"))?;
        fcntl(&out, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
        Ok(Tool { child, out, said: Vec::new(), until })
    }

    /// Takes in what it has said: all of it, once it has closed its output; None before that.
    pub fn hear(&mut self) -> Option<io::Result<String>> {
        let left = (MOST + 1).saturating_sub(self.said.len() as u64);
        match self.out.by_ref().take(left).read_to_end(&mut self.said) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => None,
            Err(error) => Some(Err(error)),
            Ok(_) if self.said.len() as u64 > MOST => Some(Err(io::Error::other("it says too much"))),
            Ok(_) => Some(Ok(String::from_utf8_lossy(&self.said).into_owned())),
        }
    }

    /// Ends it, if it has not ended by itself.
    pub fn end(mut self) -> Ended {
        let over = matches!(self.child.try_wait(), Ok(Some(_)));
        if !over {
            // With all that it has started: the group is its own.
            let _ = killpg(Pid::from_raw(self.child.id() as i32), Signal::SIGKILL);
        }
        Ended(self.child)
    }
}

impl AsFd for Tool {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.out.as_fd()
    }
}

/// A program that has answered, or was told to end: one stuck in the kernel may still be there.
#[derive(Debug)]
pub struct Ended(Child);

impl Ended {
    /// Whether it is gone; no zombie stays.
    pub fn is_gone(&mut self) -> bool {
        !matches!(self.0.try_wait(), Ok(None))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::clock;
    use std::time::Duration;

    fn asked(script: &str) -> (Option<io::Result<String>>, Tool) {
        let mut tool = Tool::start(Path::new("/bin/sh"), &["-c", script], Span(0)).unwrap();
        for _ in 0..200 {
            match tool.hear() {
                None => clock::sleep(Duration::from_millis(5)),
                heard => return (heard, tool),
            }
        }
        (None, tool)
    }

    #[test]
    fn an_answer_is_heard_whole_and_no_zombie_stays() {
        let (said, tool) = asked("echo one; sleep 0.05; echo two");
        assert_eq!(said.unwrap().unwrap(), "one\ntwo\n");
        let mut ended = tool.end();
        while !ended.is_gone() {
            clock::sleep(Duration::from_millis(5));
        }
    }

    #[test]
    fn one_that_talks_for_ever_is_cut_short() {
        let (said, tool) = asked("yes");
        assert!(said.unwrap().unwrap_err().to_string().contains("too much"));
        let mut ended = tool.end();
        while !ended.is_gone() {
            clock::sleep(Duration::from_millis(5));
        }
    }
}
