//! The terminal of an interactive job, kept by its shepherd.
//!
//! The shepherd listens in the attempt's directory. For each
//! [`crate::wire::order::ScheddOrder::Attach`] noded connects there and passes a connection from
//! `qsub -I`; after that, neither noded nor schedd is involved. Output that qsub does not read
//! stays in the terminal and blocks the job's programs; input that they do not read stays with
//! qsub. When qsub disconnects, the terminal hangs up.

use super::folder::Folder;
use crate::model::time::Span;
use crate::sys::terminal::{self, Pair};
use crate::sys::{clock, packet, socket};
use crate::wire::frame::FrameSocket;
use crate::wire::terminal::{AHEAD, TerminalInput, TerminalOutput};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};

/// Maximum time for a client to connect before the terminal hangs up.
const PATIENCE: Span = Span::seconds(120);
/// Maximum time for the client to read the remaining output after the job has ended.
const FINISH_TIMEOUT: Span = Span::seconds(5);
/// Maximum size of a read from the terminal, and number of reads per turn.
const GULP: usize = 16 << 10;
const GULPS: usize = 8;

/// Passes a connection to the shepherd of the attempt in `folder`.
#[derive(Debug)]
pub struct Door(UnixStream);

impl Door {
    /// Connects to the shepherd; an error if no shepherd of an interactive job listens there.
    pub fn knock(folder: &Folder) -> io::Result<Door> {
        Ok(Door(socket::knock(&folder.terminal())?))
    }

    /// Passes the connection.
    pub fn hand_in(&self, connection: BorrowedFd) -> io::Result<()> {
        packet::send(self.0.as_fd(), b"t", Some(connection), false)
    }
}

/// The result of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TerminalStep {
    /// No event.
    Quiet,
    /// A client has connected for the first time: the program may start.
    Begins,
    /// The client has disconnected, or none connected in time.
    HungUp,
}

/// The terminal.
#[derive(Debug)]
pub struct Terminal {
    /// None once hung up.
    keyboard: Option<OwnedFd>,
    /// None once the job is forked.
    screen: Option<OwnedFd>,
    listener: UnixListener,
    /// A connection of noded that has not passed a descriptor yet.
    knocking: Option<UnixStream>,
    link: Option<FrameSocket>,
    /// Whether the client has sent a message.
    seated: bool,
    /// Input that the terminal has not taken yet.
    typed: Vec<u8>,
    /// When waiting for a client ends.
    until: Span,
}

impl Terminal {
    /// Opens a terminal, its device owned by `owner` if given, and listens in `folder`.
    pub fn open(folder: &Folder, owner: Option<u32>) -> io::Result<Terminal> {
        let Pair { keyboard, screen } = terminal::pair(owner)?;
        Ok(Terminal {
            keyboard: Some(keyboard),
            screen: Some(screen),
            listener: socket::bind(&folder.terminal(), 0o600)?,
            knocking: None,
            link: None,
            seated: false,
            typed: Vec::new(),
            until: clock::monotonic() + PATIENCE,
        })
    }

    /// The job's end, until [`Terminal::forked`].
    pub fn screen(&self) -> Option<BorrowedFd<'_>> {
        self.screen.as_ref().map(AsFd::as_fd)
    }

    /// Closes the job's end after the fork.
    pub fn forked(&mut self) {
        self.screen = None;
    }

    /// The descriptors to poll.
    pub fn watched(&self) -> Vec<PollFd<'_>> {
        let Some(keyboard) = &self.keyboard else {
            return Vec::new();
        };
        let mut fds = vec![PollFd::new(self.listener.as_fd(), PollFlags::POLLIN)];
        fds.extend(
            self.knocking
                .as_ref()
                .map(|stream| PollFd::new(stream.as_fd(), PollFlags::POLLIN)),
        );
        let Some(link) = &self.link else { return fds };
        let mut flags = PollFlags::empty();
        flags.set(PollFlags::POLLIN, self.typed.len() < AHEAD);
        flags.set(PollFlags::POLLOUT, link.wants_write());
        fds.push(PollFd::new(link.as_fd(), flags));
        let mut wants = PollFlags::empty();
        wants.set(PollFlags::POLLIN, self.seated && link.backlog() < AHEAD);
        wants.set(PollFlags::POLLOUT, !self.typed.is_empty());
        // With no flags the kernel would still report a closed job's end.
        if !wants.is_empty() {
            fds.push(PollFd::new(keyboard.as_fd(), wants));
        }
        fds
    }

    /// When the next timeout is due.
    pub fn due(&self) -> Option<Span> {
        (self.keyboard.is_some() && !self.seated).then_some(self.until)
    }

    /// Handles all pending events without blocking.
    pub fn turn(&mut self) -> TerminalStep {
        if self.keyboard.is_none() {
            return TerminalStep::Quiet;
        }
        self.admit();
        let before = self.seated;
        if self.link.is_some() && self.converse().is_err() {
            self.link = None;
            if self.seated {
                return self.hang_up();
            }
        }
        if self.seated && !before {
            TerminalStep::Begins
        } else if !self.seated && clock::monotonic() >= self.until {
            self.hang_up()
        } else {
            TerminalStep::Quiet
        }
    }

    fn hang_up(&mut self) -> TerminalStep {
        (self.keyboard, self.link) = (None, None);
        TerminalStep::HungUp
    }

    /// Accepts a client connection from noded, unless one is active: further ones are closed.
    fn admit(&mut self) {
        while let Ok((stream, _)) = self.listener.accept() {
            self.knocking = stream.set_nonblocking(true).is_ok().then_some(stream);
        }
        let Some(stream) = &self.knocking else { return };
        let passed = match packet::receive(stream.as_fd(), &mut [0; 8], false) {
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => return,
            received => received.ok().flatten().and_then(|(_, passed)| passed),
        };
        self.knocking = None;
        if let Some(connection) = passed
            && !self.seated
        {
            self.link = FrameSocket::new(UnixStream::from(connection)).ok();
            self.until = clock::monotonic() + PATIENCE;
        }
    }

    fn converse(&mut self) -> io::Result<()> {
        self.listen()?;
        self.type_in()?;
        if self.seated { self.show() } else { Ok(()) }
    }

    fn listen(&mut self) -> io::Result<()> {
        let (Some(link), Some(keyboard)) = (&mut self.link, &self.keyboard) else {
            return Ok(());
        };
        link.flush()?;
        if self.typed.len() >= AHEAD {
            return if is_closed(link) {
                Err(io::ErrorKind::BrokenPipe.into())
            } else {
                Ok(())
            };
        }
        for input in link.receive::<TerminalInput>().map_err(io::Error::other)? {
            match input {
                TerminalInput::Window(window) => {
                    terminal::set_window(keyboard, window);
                    self.seated = true;
                }
                TerminalInput::Typed(bytes) => self.typed.extend(bytes),
            }
        }
        // No message of qsub is that large.
        if link.partial() > 2 * AHEAD {
            Err(io::ErrorKind::InvalidData.into())
        } else {
            Ok(())
        }
    }

    fn type_in(&mut self) -> io::Result<()> {
        let Some(keyboard) = &self.keyboard else {
            return Ok(());
        };
        while !self.typed.is_empty() {
            match nix::unistd::write(keyboard, &self.typed) {
                Ok(written) => drop(self.typed.drain(..written)),
                Err(Errno::EINTR) => {}
                Err(Errno::EAGAIN) => break,
                // The job's end is closed: the job is about to end.
                Err(_) => self.typed.clear(),
            }
        }
        Ok(())
    }

    fn show(&mut self) -> io::Result<()> {
        for _ in 0..GULPS {
            let (Some(link), Some(keyboard)) = (&mut self.link, &self.keyboard) else {
                break;
            };
            if link.backlog() >= AHEAD {
                break;
            }
            let mut buffer = [0; GULP];
            match nix::unistd::read(keyboard, &mut buffer) {
                Ok(length) if length > 0 => {
                    link.send(&TerminalOutput::Shown(buffer[..length].to_vec()))
                        .map_err(io::Error::other)?;
                }
                Err(Errno::EINTR) => {}
                _ => break,
            }
        }
        Ok(())
    }

    /// Sends the remaining output and the exit status of an ended job, for a limited time.
    pub fn finish(mut self, status: i32) {
        if !self.seated {
            return;
        }
        let until = clock::monotonic() + FINISH_TIMEOUT;
        while self.left_to_show() && clock::monotonic() < until {
            if self.show().is_err() || !self.drain(until) {
                return;
            }
        }
        let told = self
            .link
            .as_mut()
            .is_some_and(|link| link.send(&TerminalOutput::Over { status }).is_ok());
        if told {
            self.drain(until);
        }
    }

    fn left_to_show(&self) -> bool {
        let Some(keyboard) = &self.keyboard else {
            return false;
        };
        let mut fds = [PollFd::new(keyboard.as_fd(), PollFlags::POLLIN)];
        poll(&mut fds, PollTimeout::ZERO).is_ok()
            && fds[0]
                .revents()
                .is_some_and(|what| what.contains(PollFlags::POLLIN))
    }

    /// Waits until all data is sent; false if that fails or times out.
    fn drain(&mut self, until: Span) -> bool {
        while let Some(link) = self.link.as_mut().filter(|link| link.wants_write()) {
            let left = (until.0 - clock::monotonic().0).max(0);
            let mut fds = [PollFd::new(link.as_fd(), PollFlags::POLLOUT)];
            let waited = poll(
                &mut fds,
                PollTimeout::try_from(left).unwrap_or(PollTimeout::ZERO),
            );
            if left == 0 || waited.is_err() || link.flush().is_err() {
                return false;
            }
        }
        true
    }
}

/// Whether the other end has closed the connection, even with unread data.
fn is_closed(link: &FrameSocket) -> bool {
    let mut fds = [PollFd::new(link.as_fd(), PollFlags::empty())];
    let gone = PollFlags::POLLHUP | PollFlags::POLLERR;
    poll(&mut fds, PollTimeout::ZERO).is_ok()
        && fds[0].revents().is_some_and(|what| what.intersects(gone))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::terminal::TerminalSize;
    use crate::wire::frame;
    use std::io::{Read, Write};

    const SIZE: TerminalSize = TerminalSize {
        rows: 30,
        columns: 90,
    };

    /// A terminal, the far end of its connection, and the job's end.
    struct TerminalRelay {
        _folder: tempfile::TempDir,
        at: Folder,
        terminal: Terminal,
        person: UnixStream,
        job: std::fs::File,
    }

    impl TerminalRelay {
        fn new() -> TerminalRelay {
            let folder = tempfile::tempdir().unwrap();
            let name = super::super::folder::AttemptName {
                job: crate::model::job_id::JobId::job(1),
                attempt: 1,
                task: 0,
            };
            std::fs::create_dir_all(folder.path().join("attempts/1.1")).unwrap();
            let at = Folder::of(folder.path(), name);
            let mut terminal = Terminal::open(&at, None).unwrap();
            let job = std::fs::File::from(terminal.screen().unwrap().try_clone_to_owned().unwrap());
            terminal.forked();
            let person = call(&at);
            TerminalRelay {
                _folder: folder,
                at,
                terminal,
                person,
                job,
            }
        }

        fn say(&mut self, input: &TerminalInput) -> TerminalStep {
            frame::write(&mut self.person, input).unwrap();
            self.terminal.turn()
        }
    }

    fn call(at: &Folder) -> UnixStream {
        let (person, near) = UnixStream::pair().unwrap();
        Door::knock(at).unwrap().hand_in(near.as_fd()).unwrap();
        person
    }

    #[test]
    fn what_is_typed_is_read_by_the_job_and_what_it_writes_is_shown() {
        let mut relay = TerminalRelay::new();
        assert_eq!(relay.terminal.turn(), TerminalStep::Quiet);
        assert_eq!(
            relay.say(&TerminalInput::Window(SIZE)),
            TerminalStep::Begins
        );
        assert_eq!(terminal::window(&relay.job), Some(SIZE));
        relay.say(&TerminalInput::Typed(b"hello\n".to_vec()));
        let mut line = [0; 6];
        relay.job.read_exact(&mut line).unwrap();
        assert_eq!(&line, b"hello\n");
        relay.job.write_all(b"bye").unwrap();
        drop(relay.job);
        relay.terminal.finish(7);
        let mut shown = Vec::new();
        while let Ok(TerminalOutput::Shown(bytes)) = frame::read(&mut relay.person) {
            shown.extend(bytes);
        }
        assert_eq!(String::from_utf8(shown).unwrap(), "hello\r\nbye");
    }

    #[test]
    fn one_who_leaves_before_he_speaks_is_followed_by_another_and_a_second_person_is_not_let_in() {
        let mut relay = TerminalRelay::new();
        relay.terminal.turn();
        relay.person = call(&relay.at);
        assert_eq!(relay.terminal.turn(), TerminalStep::Quiet);
        assert_eq!(
            relay.say(&TerminalInput::Window(SIZE)),
            TerminalStep::Begins
        );
        let mut late = call(&relay.at);
        assert_eq!(relay.terminal.turn(), TerminalStep::Quiet);
        assert_eq!(late.read(&mut [0; 8]).unwrap(), 0);
        drop(std::mem::replace(&mut relay.person, late));
        assert_eq!(relay.terminal.turn(), TerminalStep::HungUp);
        assert!(relay.terminal.watched().is_empty());
    }

    #[test]
    fn a_person_who_reads_nothing_stops_the_job_and_costs_no_memory() {
        let mut relay = TerminalRelay::new();
        relay.say(&TerminalInput::Window(SIZE));
        nix::fcntl::fcntl(
            &relay.job,
            nix::fcntl::FcntlArg::F_SETFL(nix::fcntl::OFlag::O_NONBLOCK),
        )
        .unwrap();
        let mut written = 0;
        for _ in 0..100_000 {
            relay.terminal.turn();
            match relay.job.write(&[b'x'; 1000]) {
                Ok(length) => written += length,
                Err(_) if relay.terminal.link.as_ref().unwrap().backlog() >= AHEAD => break,
                Err(_) => {}
            }
        }
        assert!(written < 4 << 20, "{written}");
        assert!(relay.terminal.link.as_ref().unwrap().backlog() < 2 * AHEAD);
    }

    #[test]
    fn one_who_hangs_up_is_noticed_though_nobody_reads_what_he_typed() {
        let mut relay = TerminalRelay::new();
        relay.say(&TerminalInput::Window(SIZE));
        relay.terminal.typed = vec![b'x'; 2 * AHEAD];
        drop(relay.person);
        assert_eq!(relay.terminal.turn(), TerminalStep::HungUp);
    }
}
