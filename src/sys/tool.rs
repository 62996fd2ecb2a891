//! Asking a program of somebody else's: bounded in time and in what it may say, and never waited
//! for.

#![allow(
    clippy::disallowed_methods,
    reason = "the one place that starts programs of others"
)]

use super::complaints::Complaints;
use super::process;
use crate::model::hook::HookExit;
use crate::model::time::Span;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::sys::prctl;
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use std::io::{self, ErrorKind, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
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
    /// Whether it has closed its output.
    is_silent: bool,
    /// Readable once it has ended, and what it has written to its standard error: of one that is
    /// consulted.
    over: Option<(OwnedFd, Complaints)>,
    /// When it must have answered.
    pub until: Span,
}

impl Tool {
    /// Starts it, with nothing to read and nobody to hear its errors. It does not outlive us.
    pub fn start(program: &Path, arguments: &[&str], until: Span) -> io::Result<Tool> {
        Tool::spawn(
            Command::new(program).args(arguments).stderr(Stdio::null()),
            Stdio::null(),
            until,
        )
    }

    /// The same, with a question to read.
    pub fn ask(program: &Path, question: &[u8], until: Span) -> io::Result<Tool> {
        let input = Stdio::from(process::in_memory(question)?);
        Tool::spawn(Command::new(program).stderr(Stdio::null()), input, until)
    }

    /// The same of a program with arguments, whose end counts and not only what it says:
    /// [`Tool::outcome`].
    pub fn consult(words: &[String], question: &[u8], until: Span) -> io::Result<Tool> {
        let (program, arguments) = words
            .split_first()
            .ok_or_else(|| io::Error::other("no program"))?;
        let (input, complaints) = (process::in_memory(question)?, Complaints::new()?);
        let mut command = Command::new(program);
        command.args(arguments).stderr(complaints.stdio()?);
        let mut tool = Tool::spawn(&mut command, Stdio::from(input), until)?;
        tool.over = Some((
            process::pidfd(Pid::from_raw(tool.child.id() as i32))?,
            complaints,
        ));
        Ok(tool)
    }

    fn spawn(command: &mut Command, input: Stdio, until: Span) -> io::Result<Tool> {
        command.current_dir("/").process_group(0);
        // SAFETY: between fork and exec, two system calls that touch no memory of ours.
        unsafe {
            command.pre_exec(|| {
                prctl::set_pdeathsig(Signal::SIGKILL)?;
                process::unblock_signals()
            });
        }
        let mut child = command.stdin(input).stdout(Stdio::piped()).spawn()?;
        let out = child
            .stdout
            .take()
            .ok_or_else(|| io::Error::other("no pipe"))?;
        fcntl(&out, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
        Ok(Tool {
            child,
            out,
            said: Vec::new(),
            is_silent: false,
            over: None,
            until,
        })
    }

    /// What is to be watched for something new.
    pub fn watched(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let out = (!self.is_silent).then(|| self.out.as_fd());
        out.into_iter()
            .chain(self.over.as_ref().map(|(over, _)| over.as_fd()))
    }

    /// How it ended, and what it has said; None while it runs. What it has left running is not
    /// waited for.
    pub fn outcome(&mut self) -> Option<io::Result<HookExit>> {
        if let Err(error) = self.listen() {
            return Some(Err(error));
        }
        let ended = self.child.try_wait().transpose()?;
        // It may have spoken between the two looks.
        Some(ended.and_then(|status| {
            self.listen()?;
            Ok(HookExit {
                status: status.code(),
                text: String::from_utf8_lossy(&self.said).into_owned(),
            })
        }))
    }

    fn listen(&mut self) -> io::Result<()> {
        match self.hear() {
            None => Ok(()),
            Some(heard) => heard.map(|_| self.is_silent = true),
        }
    }

    /// The last line it has written to its standard error, if it was consulted.
    pub fn complaint(&self) -> Option<String> {
        self.over
            .as_ref()
            .and_then(|(_, complaints)| complaints.last())
    }

    /// Takes in what it has said: all of it, once it has closed its output; None before that.
    pub fn hear(&mut self) -> Option<io::Result<String>> {
        let left = (MOST + 1).saturating_sub(self.said.len() as u64);
        match self.out.by_ref().take(left).read_to_end(&mut self.said) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => None,
            Err(error) => Some(Err(error)),
            Ok(_) if self.said.len() as u64 > MOST => {
                Some(Err(io::Error::other("it says too much")))
            }
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
    use super::super::complaints;
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

    fn consulted(script: &str) -> (HookExit, Tool) {
        let words = ["/bin/sh", "-c", script].map(String::from);
        let mut tool = Tool::consult(&words, b"question", Span(0)).unwrap();
        for _ in 0..400 {
            match tool.outcome() {
                None => clock::sleep(Duration::from_millis(5)),
                Some(said) => return (said.unwrap(), tool),
            }
        }
        panic!("{script} did not end");
    }

    #[test]
    fn of_one_that_is_consulted_the_end_counts() {
        let (said, tool) = consulted("cat; echo first >&2; echo >&2 no such table; exit 3");
        assert_eq!(
            said,
            HookExit {
                status: Some(3),
                text: "question".to_string()
            }
        );
        assert_eq!(tool.complaint().as_deref(), Some("no such table"));
        let (said, tool) = consulted("exec >&-; sleep 0.05; kill -9 $$");
        assert_eq!(
            (said.status, said.text.as_str(), tool.complaint()),
            (None, "", None)
        );
    }

    #[test]
    fn what_one_leaves_running_is_not_waited_for_and_complaints_are_bounded() {
        let (said, _) = consulted("(sleep 20 &) ; echo yes");
        assert_eq!((said.status, said.text.as_str()), (Some(0), "yes\n"));
        let (said, tool) = consulted("head -c 1000000 /dev/zero | tr '\\0' x >&2; true");
        assert_eq!(
            (said.status, tool.complaint().map(|text| text.len())),
            (Some(0), Some(complaints::LONGEST))
        );
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
