//! The descriptors that noded polls.

use super::folder::AttemptName;
use crate::sys::program::RunningProgram;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// The source of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PollSource {
    /// The spawner or one of its shepherds has sent a message.
    Spawner,
    /// A shepherd has sent a message after the end of its spawner.
    OldSpawner(u64),
    /// A spawner has ended, and none of its launches is in progress any more.
    OldLaunches(u64),
    /// The spawner has ended.
    SpawnerEnded,
    /// A shepherd of the attempt has ended.
    Shepherd(AttemptName, u64),
    /// A new connection at noded's socket.
    Listener,
    /// A signal to noded.
    Signals,
    /// A connection at noded's socket can be read or written.
    Connection(u64),
    /// A new connection for task requests.
    TaskListener,
    /// A connection for task requests can be read or written.
    TaskClient(u64),
    /// A program that was [watched](Poller::watch) has written something or has exited.
    Program,
}

/// The epoll token of all programs.
const PROGRAM: u64 = 0;

/// The epoll set with its sources.
#[derive(Debug)]
pub struct Poller {
    epoll: Epoll,
    sources: BTreeMap<u64, PollSource>,
    tokens: BTreeMap<PollSource, u64>,
    /// Descriptors that the poller owns.
    kept: BTreeMap<PollSource, OwnedFd>,
    next: u64,
}

impl Poller {
    /// Creates an empty set.
    pub fn new() -> io::Result<Poller> {
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
        Ok(Poller {
            epoll,
            sources: BTreeMap::new(),
            tokens: BTreeMap::new(),
            kept: BTreeMap::new(),
            next: 0,
        })
    }

    /// A number that this poller has not returned before.
    pub fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    /// Polls `fd` for reading.
    pub fn add(&mut self, fd: impl AsFd, source: PollSource) -> io::Result<()> {
        let token = self.number();
        self.epoll
            .add(fd, EpollEvent::new(EpollFlags::EPOLLIN, token))?;
        self.sources.insert(token, source);
        self.tokens.insert(source, token);
        Ok(())
    }

    /// Polls the output and the exit of a program. The kernel removes the descriptors from the set
    /// when they are closed. A program that cannot be polled is killed.
    pub fn watch(&mut self, program: RunningProgram) -> io::Result<RunningProgram> {
        for fd in program.watched() {
            let event = EpollEvent::new(EpollFlags::EPOLLIN, PROGRAM);
            if let Err(error) = self.epoll.add(fd, event) {
                program.kill();
                return Err(error.into());
            }
        }
        Ok(program)
    }

    /// Polls `fd` for reading, and keeps it open until [`Poller::forget`].
    pub fn keep(&mut self, fd: OwnedFd, source: PollSource) -> io::Result<()> {
        self.add(&fd, source)?;
        self.kept.insert(source, fd);
        Ok(())
    }

    /// Whether the source is polled.
    pub fn watches(&self, source: PollSource) -> bool {
        self.tokens.contains_key(&source)
    }

    /// The descriptor of a source that was given to [`Poller::keep`].
    pub fn kept(&self, source: PollSource) -> Option<BorrowedFd<'_>> {
        self.kept.get(&source).map(AsFd::as_fd)
    }

    /// Sets whether `fd` is polled for writing in addition to reading.
    pub fn want_write(&mut self, fd: impl AsFd, source: PollSource, want: bool) {
        let Some(&token) = self.tokens.get(&source) else {
            return;
        };
        let flags = if want {
            EpollFlags::EPOLLIN | EpollFlags::EPOLLOUT
        } else {
            EpollFlags::EPOLLIN
        };
        let _ = self.epoll.modify(fd, &mut EpollEvent::new(flags, token));
    }

    /// Stops polling `fd`.
    pub fn remove(&mut self, fd: impl AsFd, source: PollSource) {
        let _ = self.epoll.delete(fd);
        if let Some(token) = self.tokens.remove(&source) {
            self.sources.remove(&token);
        }
    }

    /// Forgets a source after the caller has closed its descriptor.
    pub fn forget_closed(&mut self, source: PollSource) {
        if let Some(token) = self.tokens.remove(&source) {
            self.sources.remove(&token);
        }
    }

    /// Stops polling a kept descriptor, and closes it.
    pub fn forget(&mut self, source: PollSource) {
        if let Some(fd) = self.kept.remove(&source) {
            self.remove(fd, source);
        }
    }

    /// Waits up to `milliseconds` for an event. Returns the ready sources in the order of
    /// [`PollSource`]. So the messages of a shepherd come before its end.
    pub fn wait(&mut self, milliseconds: i64) -> Vec<PollSource> {
        let mut events = [EpollEvent::empty(); 256];
        let timeout =
            EpollTimeout::try_from(milliseconds.clamp(0, 3_600_000)).unwrap_or(EpollTimeout::ZERO);
        let count = self.epoll.wait(&mut events, timeout).unwrap_or(0);
        let mut ready: Vec<PollSource> = events[..count]
            .iter()
            .filter_map(|event| self.source(event.data()))
            .collect();
        ready.sort_unstable();
        ready.dedup();
        ready
    }

    fn source(&self, token: u64) -> Option<PollSource> {
        if token == PROGRAM {
            Some(PollSource::Program)
        } else {
            self.sources.get(&token).copied()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::time::Span;
    use crate::sys::program::ProgramCall;
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;

    const ONE: PollSource = PollSource::Connection(1);
    const TWO: PollSource = PollSource::TaskClient(2);

    fn poller() -> Poller {
        Poller::new().unwrap()
    }

    /// Two ends of a connection. The first end has data to read.
    fn readable() -> (UnixStream, UnixStream) {
        let (near, mut far) = UnixStream::pair().unwrap();
        far.write_all(b"x").unwrap();
        (near, far)
    }

    #[test]
    fn ready_sources_are_returned_in_order() {
        let (mut poller, [one, two, silent]) = (
            poller(),
            [readable(), readable(), UnixStream::pair().unwrap()],
        );
        poller.add(&two.0, TWO).unwrap();
        poller.add(&one.0, ONE).unwrap();
        poller.add(&silent.0, PollSource::Signals).unwrap();
        assert_eq!(poller.wait(10_000), [ONE, TWO]);
        assert!(
            poller.watches(ONE) && poller.watches(TWO) && !poller.watches(PollSource::Listener)
        );
        assert!((&one.0).read(&mut [0; 8]).is_ok_and(|read| read == 1));
        assert_eq!(poller.wait(10_000), [TWO]);
    }

    #[test]
    fn numbers_do_not_repeat() {
        let mut poller = poller();
        let numbers = [0; 3].map(|_| poller.number());
        assert!(
            numbers[0] != numbers[1] && numbers[1] != numbers[2] && numbers[0] != numbers[2],
            "{numbers:?}"
        );
    }

    #[test]
    fn writability_is_reported_while_requested() {
        let (mut poller, (near, mut far)) = (poller(), UnixStream::pair().unwrap());
        poller.add(&near, ONE).unwrap();
        assert_eq!(poller.wait(0), []);
        poller.want_write(&near, ONE, true);
        assert_eq!(poller.wait(0), [ONE]);
        poller.want_write(&near, ONE, false);
        assert_eq!(poller.wait(0), []);
        poller.want_write(&near, ONE, true);
        near.set_nonblocking(true).unwrap();
        while (&near).write(&[0; 4096]).is_ok() {}
        assert_eq!(poller.wait(0), [], "the buffer is full");
        far.write_all(b"x").unwrap();
        assert_eq!(poller.wait(0), [ONE]);
        poller.want_write(&near, TWO, true);
        assert_eq!(poller.wait(0), [ONE], "TWO is not polled");
    }

    #[test]
    fn removed_sources_are_not_reported() {
        let (mut poller, (near, _far)) = (poller(), readable());
        poller.add(&near, ONE).unwrap();
        assert!(
            poller.add(&near, TWO).is_err(),
            "the descriptor is already polled"
        );
        poller.remove(&near, ONE);
        assert_eq!((poller.wait(0), poller.watches(ONE)), (vec![], false));
        poller.add(&near, TWO).unwrap();
        assert_eq!(poller.wait(0), [TWO]);
        poller.forget_closed(TWO);
        assert_eq!((poller.wait(0), poller.watches(TWO)), (vec![], false));
        assert_eq!((poller.sources.len(), poller.tokens.len()), (0, 0));
    }

    #[test]
    fn a_kept_descriptor_stays_open_until_it_is_forgotten() {
        let (mut poller, (near, mut far)) = (poller(), readable());
        poller.keep(near.into(), ONE).unwrap();
        assert_eq!(
            (
                poller.wait(0),
                poller.kept(ONE).is_some(),
                poller.kept(TWO).is_some()
            ),
            (vec![ONE], true, false)
        );
        far.write_all(b"y").unwrap();
        poller.forget(ONE);
        assert_eq!(
            (
                poller.wait(0),
                poller.kept(ONE).is_some(),
                poller.watches(ONE)
            ),
            (vec![], false, false)
        );
        // A process that another test is starting may hold the descriptor until its exec.
        let is_closed = |_| {
            poller.wait(10);
            far.write_all(b"z").is_err()
        };
        assert!((0..1_000).any(is_closed), "the other end is open");
    }

    #[test]
    fn a_program_is_watched_until_it_is_dropped() {
        let mut poller = poller();
        let words = ["/bin/sh", "-c", "echo x; exec sleep 60"].map(String::from);
        let call = ProgramCall::new(&words, Span::seconds(60));
        let mut program = poller.watch(call.start(Span(0)).unwrap()).unwrap();
        assert_eq!(poller.wait(10_000), [PollSource::Program], "the output");
        assert!(program.poll(Span(0)).is_none());
        assert_eq!(poller.wait(0), []);
        program.kill();
        assert_eq!(poller.wait(10_000), [PollSource::Program], "the exit");
        drop(program);
        assert_eq!(poller.wait(0), []);
    }
}
