//! Calls of programs that are not ours, as whoever they are to run: with an environment and an
//! input of their own, heard while they speak, ended with all that they have started. Nobody waits
//! here: who called watches [`Called::watched`].

#![allow(
    clippy::disallowed_methods,
    reason = "one of the places that start programs of others"
)]

use super::cgroup::Cgroup;
use super::complaints::Complaints;
use super::process;
use super::user::{self, UserAccount};
use crate::model::hook::HookExit;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::sys::prctl;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::{Gid, Pid};
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdout, Command, Stdio};

/// The most a program may say, in bytes.
const MOST: usize = 1 << 20;
/// Where it finds other programs.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// What is to be run, and as whom.
#[derive(Clone, Debug)]
pub struct ProgramCall<'a> {
    /// The program, absolute, and its arguments.
    pub words: &'a [String],
    /// All its variables but `PATH`.
    pub environment: &'a [(&'a str, &'a str)],
    /// What it reads.
    pub input: &'a [u8],
    /// Whom it becomes, with all groups of that account; None for us.
    pub identity: Option<(&'a UserAccount, &'a [Gid])>,
}

/// What limits a program, and all processes that it starts.
#[derive(Clone, Debug, Default)]
pub struct Confinement<'a> {
    /// The control group in which it runs, if it can be moved there.
    pub cgroup: Option<&'a Cgroup>,
    /// Resource limits of each process.
    pub limits: Vec<(Resource, u64)>,
}

/// A program that was called.
#[derive(Debug)]
pub struct Called {
    child: Child,
    ended: OwnedFd,
    out: Option<ChildStdout>,
    said: Vec<u8>,
    complaints: Complaints,
}

impl ProgramCall<'_> {
    /// Starts it in `/`, in a process group of its own. It does not outlive us.
    pub fn start(&self) -> io::Result<Called> {
        self.start_within(Confinement::default())
    }

    /// The same, with limits.
    pub fn start_within(&self, confinement: Confinement) -> io::Result<Called> {
        let Confinement { cgroup, limits } = confinement;
        let members = cgroup.map(Cgroup::members).transpose()?;
        let (program, arguments) = self.words.split_first().ok_or(ErrorKind::InvalidInput)?;
        let mut command = Command::new(program);
        command.args(arguments).current_dir("/").process_group(0);
        command
            .env_clear()
            .env("PATH", PATH)
            .envs(self.environment.iter().copied());
        let identity = self
            .identity
            .map(|(account, groups)| (account.clone(), groups.to_vec()));
        // SAFETY: between fork and exec only system calls are made, none of which allocates.
        unsafe {
            command.pre_exec(move || {
                if let Some(mut members) = members.as_ref() {
                    // Zero is the process that writes. Where it cannot be moved, the limits remain.
                    let _ = members.write(b"0");
                }
                limits
                    .iter()
                    .try_for_each(|&(resource, most)| lower(resource, most))?;
                if let Some((account, groups)) = &identity {
                    user::become_user(account, groups)?;
                }
                // Only now: becoming another user forgets this.
                prctl::set_pdeathsig(Signal::SIGKILL)?;
                // Whoever started this daemon may have left descriptors open.
                process::close_others_on_exec();
                process::usual_descriptor_limit();
                process::unblock_signals()
            });
        }
        let (input, complaints) = (
            Stdio::from(process::in_memory(self.input)?),
            Complaints::new()?,
        );
        let mut child = command
            .stdin(input)
            .stdout(Stdio::piped())
            .stderr(complaints.stdio()?)
            .spawn()?;
        let out = child.stdout.take();
        match follow(&child, out.as_ref()) {
            Ok(ended) => Ok(Called {
                child,
                ended,
                out,
                said: Vec::new(),
                complaints,
            }),
            Err(error) => {
                let _ = child.kill().and_then(|()| child.wait());
                Err(error)
            }
        }
    }
}

fn lower(resource: Resource, most: u64) -> io::Result<()> {
    let (_, hard) = getrlimit(resource)?;
    Ok(setrlimit(resource, most.min(hard), most.min(hard))?)
}

fn follow(child: &Child, out: Option<&ChildStdout>) -> io::Result<OwnedFd> {
    if let Some(out) = out {
        fcntl(out, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
    }
    process::pidfd(Pid::from_raw(child.id() as i32))
}

impl Called {
    /// What becomes readable when there is something to [hear](Called::hear).
    pub fn watched(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        [self.ended.as_fd()]
            .into_iter()
            .chain(self.out.as_ref().map(AsFd::as_fd))
    }

    /// Takes in what it has said; all of it, once it has ended, and None before that. What it has
    /// left running ends then.
    pub fn hear(&mut self) -> Option<io::Result<HookExit>> {
        let over = process::is_over(&self.ended);
        self.listen();
        if self.said.len() > MOST {
            self.kill();
        }
        if !over {
            return None;
        }
        // Not reaped yet, so the number is still its own.
        self.kill();
        let ended = self.child.wait();
        if self.said.len() > MOST {
            return Some(Err(io::Error::other("it says too much")));
        }
        let text = String::from_utf8_lossy(&self.said).into_owned();
        Some(ended.map(|ended| HookExit {
            status: ended.code(),
            text,
        }))
    }

    fn listen(&mut self) {
        let Some(out) = &mut self.out else { return };
        let left = (MOST + 1).saturating_sub(self.said.len()) as u64;
        match out.take(left).read_to_end(&mut self.said) {
            Err(error) if error.kind() == ErrorKind::WouldBlock && self.said.len() <= MOST => {}
            _ => self.out = None,
        }
    }

    /// Why something went wrong, with what it has complained of.
    pub fn blame(&self, why: String) -> String {
        match self.complaints.last() {
            Some(complaint) => format!("{why}; it complains: {complaint}"),
            None => why,
        }
    }

    /// Ends it, with all that it has started in its group.
    pub fn kill(&self) {
        let _ = killpg(Pid::from_raw(self.child.id() as i32), Signal::SIGKILL);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::clock;
    use std::time::Duration;

    fn start(script: &str, input: &[u8]) -> Called {
        let words = ["/bin/sh", "-c", script].map(String::from);
        ProgramCall {
            words: &words,
            environment: &[("X", "y")],
            input,
            identity: None,
        }
        .start()
        .unwrap()
    }

    fn heard(mut called: Called) -> io::Result<HookExit> {
        for _ in 0..1000 {
            if let Some(said) = called.hear() {
                return said;
            }
            clock::sleep(Duration::from_millis(5));
        }
        panic!("it does not end")
    }

    fn said(status: i32, text: &str) -> HookExit {
        HookExit {
            status: Some(status),
            text: text.into(),
        }
    }

    #[test]
    fn what_it_reads_says_and_ends_with_is_heard_whole() {
        let script = "read a; echo \"$a $X ${HOME-none} $(pwd)\"; exit 3";
        assert_eq!(
            heard(start(script, b"told\n")).unwrap(),
            said(3, "told y none /\n")
        );
        let long = "i=0; while [ $i -lt 20000 ]; do echo 123456789; i=$((i+1)); done";
        assert_eq!(
            heard(start(long, b"")).unwrap().text.len(),
            200_000,
            "more than a pipe holds"
        );
        assert!(
            heard(start("yes", b""))
                .unwrap_err()
                .to_string()
                .contains("too much")
        );
    }

    #[test]
    fn it_inherits_no_descriptor_beyond_the_standard_three() {
        use std::os::fd::AsRawFd;
        // Unlike those of the standard library this one is not closed by an exec.
        let open = nix::unistd::dup(std::fs::File::open("/dev/null").unwrap()).unwrap();
        let script = format!("[ -e /proc/$$/fd/{} ]; echo $?", open.as_raw_fd());
        assert_eq!(heard(start(&script, b"")).unwrap(), said(0, "1\n"));
    }

    #[test]
    fn it_is_over_when_it_ends_whatever_it_has_left_running() {
        let called = start("sleep 60 & echo $!", b"");
        let left = heard(called).unwrap().text.trim().parse().unwrap();
        for _ in 0..400 {
            if crate::sys::procfs::process(left).is_none_or(|process| !process.lives()) {
                return;
            }
            clock::sleep(Duration::from_millis(5));
        }
        panic!("something of it still runs");
    }

    #[test]
    fn what_it_complains_of_last_is_told() {
        let mut called = start("echo one >&2; echo two >&2; exit 1", b"");
        while called.hear().is_none() {
            clock::sleep(Duration::from_millis(5));
        }
        assert_eq!(
            called.blame("it failed".into()),
            "it failed; it complains: two"
        );
        assert_eq!(start("true", b"").blame("it failed".into()), "it failed");
    }

    #[test]
    fn one_that_hangs_is_ended() {
        let called = start("trap '' TERM; sleep 60", b"");
        called.kill();
        assert_eq!(
            heard(called).unwrap(),
            HookExit {
                status: None,
                text: String::new()
            }
        );
    }
}
