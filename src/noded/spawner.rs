//! The spawner: a small process that only forks.
//!
//! noded's memory grows with the number of its jobs, and a fork of noded copies noded's page
//! tables. So noded forks the spawner when it starts, and the spawner forks one shepherd (the
//! process that runs an attempt) per launch. The spawner exits if noded dies. If the spawner dies,
//! noded forks a new spawner, and repeats the launches that certainly have not begun.
//!
//! Packets to the spawner: attempt name, then the launch. A large launch is in a file; the
//! packet carries the file's descriptor.
//! Packets from the spawner and its shepherds: [`SpawnerMessage`].

use super::folder::AttemptName;
use super::shepherd::{self, ShepherdContext};
use super::site::Site;
use super::spawner_messages::{self, SpawnerMessage, send_message};
use crate::sys::process::{self, Fork, Reaped};
use crate::sys::{fault, packet};
use nix::fcntl::OFlag;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::signal::Signal;
use nix::sys::signalfd::SignalFd;
use nix::sys::wait::waitpid;
use nix::unistd::Pid;
use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::os::fd::{AsFd, OwnedFd};

/// Maximum encoded size of an attempt name in bytes.
const MAX_NAME: usize = 32;
/// Maximum size in bytes of a launch inside a packet. Larger launches are passed as files.
const MAX_INLINE: usize = 60 << 10;

/// The launch lock. A noded takes the lock when it starts, and shares it with its spawner. A
/// shepherd also holds the lock until it has created the directory of the attempt. Once a noded has
/// the lock, no launch of an earlier noded is in progress.
pub type LaunchLock = File;

/// noded's handle of the spawner.
#[derive(Debug)]
pub struct Spawner {
    /// Packets to and from the spawner.
    pub socket: OwnedFd,
    /// Readable when the spawner has ended.
    pub ended: OwnedFd,
    /// The read end of a pipe: readable when the spawner has ended and none of its shepherds is
    /// still creating the directory of an attempt.
    pub launches_over: OwnedFd,
    pid: Pid,
}

impl Spawner {
    /// Forks the spawner.
    pub fn start(site: &Site, launch_lock: &LaunchLock) -> io::Result<Spawner> {
        let (near, far) = packet::pair()?;
        let (launches_over, launch_pipe) = nix::unistd::pipe2(OFlag::O_CLOEXEC)?;
        let launch_lock = launch_lock.try_clone()?;
        match process::fork()? {
            Fork::Child => serve(
                site,
                ShepherdContext {
                    socket: far,
                    launch_lock: launch_lock.into(),
                    launch_pipe,
                },
            ),
            Fork::Parent(pid) => Ok(Spawner {
                socket: near,
                ended: process::pidfd(pid)?,
                launches_over,
                pid,
            }),
        }
    }

    /// Sends an encoded launch. After [`io::ErrorKind::WouldBlock`], the caller must retry later.
    pub fn send(&self, name: AttemptName, launch: &[u8]) -> io::Result<()> {
        fault::point("spawner.send")?;
        let mut bytes = postcard::to_stdvec(&name).map_err(io::Error::other)?;
        if launch.len() <= MAX_INLINE {
            bytes.extend(launch);
            return packet::send(self.socket.as_fd(), &bytes, None, false);
        }
        let mut file = File::from(memfd_create("launch", MFdFlags::MFD_CLOEXEC)?);
        file.write_all(launch)?;
        file.rewind()?;
        packet::send(self.socket.as_fd(), &bytes, Some(file.as_fd()), false)
    }

    /// The next message of the spawner or a shepherd; None if no message has arrived, or if
    /// receiving fails.
    pub fn receive(&self) -> Option<(SpawnerMessage, Option<OwnedFd>)> {
        spawner_messages::receive(self.socket.as_fd()).ok()?
    }

    /// The spawner's pid.
    pub fn pid(&self) -> i32 {
        self.pid.as_raw()
    }

    /// Waits until the spawner has ended, so that it does not remain a zombie.
    pub fn reap(&self) {
        let _ = waitpid(self.pid, None);
    }
}

fn serve(site: &Site, context: ShepherdContext) -> ! {
    process::close_all_but(&[
        context.socket.as_fd(),
        context.launch_lock.as_fd(),
        context.launch_pipe.as_fd(),
    ]);
    process::set_name(c"lanai-spawner");
    let _ = nix::unistd::setsid();
    let ready = process::block_signals().and_then(|()| process::signals(&[Signal::SIGCHLD]));
    let Ok(children) = ready else {
        process::leave(1)
    };
    let mut buffer = vec![0; MAX_NAME + MAX_INLINE];
    loop {
        let mut fds = [
            PollFd::new(context.socket.as_fd(), PollFlags::POLLIN),
            PollFd::new(children.as_fd(), PollFlags::POLLIN),
        ];
        let _ = poll(&mut fds, PollTimeout::NONE);
        if fds[1].any() == Some(true) {
            reap(&children);
        }
        if fds[0].any() != Some(true) {
            continue;
        }
        let (length, passed) = match packet::receive(context.socket.as_fd(), &mut buffer, false) {
            Ok(Some(packet)) => packet,
            Ok(None) => process::leave(0),
            Err(_) => continue,
        };
        let Some((name, inline)) = split(&buffer[..length]) else {
            continue;
        };
        match process::fork() {
            Ok(Fork::Child) => shepherd::run(site, context, name, launch(inline, passed)),
            Ok(Fork::Parent(pid)) => announce(&context, name, pid),
            Err(e) => {
                let message = SpawnerMessage::Failed(name, format!("cannot fork a shepherd: {e}"));
                send_message(&context.socket, &message, None, true);
            }
        }
    }
}

fn reap(children: &SignalFd) {
    while let Ok(Some(_)) = children.read_signal() {}
    while let Reaped::Ended(..) = process::reap(None) {}
}

fn announce(context: &ShepherdContext, name: AttemptName, pid: Pid) {
    // The child has not been reaped, so its pid cannot belong to another process.
    match process::pidfd(pid) {
        Ok(ended) => send_message(
            &context.socket,
            &SpawnerMessage::Forked(name),
            Some(&ended),
            true,
        ),
        Err(_) => send_message(&context.socket, &SpawnerMessage::Forked(name), None, true),
    };
}

fn split(packet: &[u8]) -> Option<(AttemptName, &[u8])> {
    postcard::take_from_bytes(packet).ok()
}

fn launch(inline: &[u8], passed: Option<OwnedFd>) -> io::Result<Vec<u8>> {
    let Some(file) = passed else {
        return Ok(inline.to_vec());
    };
    let mut bytes = Vec::new();
    File::from(file).read_to_end(&mut bytes)?;
    Ok(bytes)
}
