//! Work on a disk that may hang, done by a process of its own: noded's loop hears of its end and
//! never waits.

use crate::sys::process::{self, Fork, ProcessEnd, Reaped};
use nix::fcntl::OFlag;
use nix::sys::prctl;
use nix::sys::signal::Signal;
use nix::unistd::Pid;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// The most that is heard of what went wrong, in bytes.
const LONGEST: u64 = 2000;

/// Work that has begun.
#[derive(Debug)]
pub struct BlockingIo {
    worker: Pid,
    ended: OwnedFd,
    said: File,
}

impl BlockingIo {
    /// Begins it. It does not outlive us.
    pub fn begin(work: impl FnOnce() -> io::Result<()>) -> io::Result<BlockingIo> {
        let (near, far) = nix::unistd::pipe2(OFlag::O_CLOEXEC | OFlag::O_NONBLOCK)?;
        match process::fork()? {
            Fork::Child => {
                let _ = prctl::set_pdeathsig(Signal::SIGKILL);
                process::close_all_but(&[far.as_fd()]);
                let text = work()
                    .err()
                    .map(|error| error.to_string())
                    .unwrap_or_default();
                let _ = File::from(far).write_all(text.as_bytes());
                process::leave(i32::from(!text.is_empty()))
            }
            Fork::Parent(worker) => {
                let ended =
                    process::pidfd(worker).inspect_err(|_| process::end(worker.as_raw()))?;
                Ok(BlockingIo {
                    worker,
                    ended,
                    said: File::from(near),
                })
            }
        }
    }

    /// What becomes readable when there is something to [hear](Chore::hear).
    pub fn watched(&self) -> BorrowedFd<'_> {
        self.ended.as_fd()
    }

    /// What has come of it, once it has ended: why it was not done, or nothing. None before that.
    pub fn hear(&mut self) -> Option<Result<(), String>> {
        match process::reap(Some(self.worker)) {
            Reaped::Living => return None,
            Reaped::Ended(_, ProcessEnd::Exited(0)) => return Some(Ok(())),
            Reaped::Ended(..) | Reaped::NoChild => {}
        }
        let mut said = Vec::new();
        let _ = (&self.said).take(LONGEST).read_to_end(&mut said);
        let text = if said.is_empty() {
            "it was killed".into()
        } else {
            String::from_utf8_lossy(&said)
        };
        Some(Err(text.into_owned()))
    }

    /// Gives it up. While the disk hangs it may be there all the same.
    pub fn kill(&self) {
        process::end(self.worker.as_raw());
    }
}
