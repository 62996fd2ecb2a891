//! The terminal of an interactive job. The job's shepherd opens the terminal and transfers input
//! and output.
//!
//! The shepherd listens at a socket in the attempt's directory. For each
//! [`crate::wire::order::ScheddOrder::Attach`], noded connects to that socket and passes the
//! connection of a `qsub -I` to the shepherd. From then on, the data does not pass through noded
//! and schedd. The shepherd's buffers are small. When they are full, output that qsub does not read
//! stays in the terminal and blocks the job's programs, and input that the programs do not read
//! stays with qsub. When qsub disconnects, the terminal hangs up.

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

/// Time after which the terminal hangs up if no client is attached. The time begins again with each
/// connection of a client.
const CONNECT_TIMEOUT: Span = Span::seconds(120);
/// Maximum time for the client to read the remaining output after the job has ended.
const FINISH_TIMEOUT: Span = Span::seconds(5);
/// Maximum number of bytes per read from the terminal.
const READ_SIZE: usize = 16 << 10;
/// Maximum number of reads from the terminal before other events are handled.
const MAX_READS: usize = 8;

/// noded's connection to the shepherd of an interactive job.
#[derive(Debug)]
pub struct TerminalConnection(UnixStream);

impl TerminalConnection {
    /// Connects to the shepherd of the attempt in `folder`. Fails if the job is not
    /// interactive, or if the shepherd does not run.
    pub fn connect_nonblocking(folder: &Folder) -> io::Result<TerminalConnection> {
        Ok(TerminalConnection(socket::connect_nonblocking(
            &folder.terminal(),
        )?))
    }

    /// Passes a client's connection to the shepherd.
    pub fn pass_connection(&self, connection: BorrowedFd) -> io::Result<()> {
        packet::send(self.0.as_fd(), b"t", Some(connection), false)
    }
}

/// The event that [`Terminal::handle_events`] returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TerminalStep {
    /// No event.
    Quiet,
    /// A client has been attached, so the program may start.
    Begins,
    /// The terminal has hung up, because the client has disconnected, or no client was attached in
    /// time.
    HungUp,
}

/// A job's terminal and the connection of its client.
#[derive(Debug)]
pub struct Terminal {
    /// The shepherd's side of the terminal; None after it has hung up.
    keyboard: Option<OwnedFd>,
    /// The job's side of the terminal; None after the job has been forked.
    screen: Option<OwnedFd>,
    listener: UnixListener,
    /// A connection from noded through which no client's connection has been passed yet.
    incoming: Option<UnixStream>,
    /// The connection of the client.
    link: Option<FrameSocket>,
    /// Whether a client is attached, that is, has connected and sent its window size.
    is_attached: bool,
    /// Input of the client that has not been written to the terminal yet.
    typed: Vec<u8>,
    /// The time at which the terminal hangs up, unless a client is attached by then.
    until: Span,
}

impl Terminal {
    /// Opens a terminal and listens at a socket in `folder`. The owner of the terminal device is
    /// the user `owner`, or noded's user if None.
    pub fn open(folder: &Folder, owner: Option<u32>) -> io::Result<Terminal> {
        let Pair { keyboard, screen } = terminal::pair(owner)?;
        Ok(Terminal {
            keyboard: Some(keyboard),
            screen: Some(screen),
            listener: socket::bind(&folder.terminal(), 0o600)?,
            incoming: None,
            link: None,
            is_attached: false,
            typed: Vec::new(),
            until: clock::monotonic() + CONNECT_TIMEOUT,
        })
    }

    /// The job's side of the terminal; None after [`Terminal::forked`].
    pub fn screen(&self) -> Option<BorrowedFd<'_>> {
        self.screen.as_ref().map(AsFd::as_fd)
    }

    /// Closes the job's side of the terminal. Called after the job has been forked.
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
            self.incoming
                .as_ref()
                .map(|stream| PollFd::new(stream.as_fd(), PollFlags::POLLIN)),
        );
        let Some(link) = &self.link else { return fds };
        let mut flags = PollFlags::empty();
        flags.set(PollFlags::POLLIN, self.typed.len() < AHEAD);
        flags.set(PollFlags::POLLOUT, link.wants_write());
        fds.push(PollFd::new(link.as_fd(), flags));
        let mut wants = PollFlags::empty();
        wants.set(
            PollFlags::POLLIN,
            self.is_attached && link.backlog() < AHEAD,
        );
        wants.set(PollFlags::POLLOUT, !self.typed.is_empty());
        // Do not poll without flags, because poll would still report that the job's side is closed.
        if !wants.is_empty() {
            fds.push(PollFd::new(keyboard.as_fd(), wants));
        }
        fds
    }

    /// The time at which the terminal hangs up, unless a client is attached by then. None if a
    /// client is attached or the terminal has hung up.
    pub fn due(&self) -> Option<Span> {
        (self.keyboard.is_some() && !self.is_attached).then_some(self.until)
    }

    /// Handles all pending events without blocking.
    pub fn handle_events(&mut self) -> TerminalStep {
        if self.keyboard.is_none() {
            return TerminalStep::Quiet;
        }
        self.admit();
        let before = self.is_attached;
        if self.link.is_some() && self.transfer().is_err() {
            self.link = None;
            if self.is_attached {
                return self.hang_up();
            }
        }
        if self.is_attached && !before {
            TerminalStep::Begins
        } else if !self.is_attached && clock::monotonic() >= self.until {
            self.hang_up()
        } else {
            TerminalStep::Quiet
        }
    }

    fn hang_up(&mut self) -> TerminalStep {
        (self.keyboard, self.link) = (None, None);
        TerminalStep::HungUp
    }

    /// Receives a client's connection from noded. Closes the connection if another client is
    /// attached.
    fn admit(&mut self) {
        while let Ok((stream, _)) = self.listener.accept() {
            self.incoming = stream.set_nonblocking(true).is_ok().then_some(stream);
        }
        let Some(stream) = &self.incoming else { return };
        let passed = match packet::receive(stream.as_fd(), &mut [0; 8], false) {
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => return,
            received => received.ok().flatten().and_then(|(_, passed)| passed),
        };
        self.incoming = None;
        if let Some(connection) = passed
            && !self.is_attached
        {
            self.link = FrameSocket::new(UnixStream::from(connection)).ok();
            self.until = clock::monotonic() + CONNECT_TIMEOUT;
        }
    }

    fn transfer(&mut self) -> io::Result<()> {
        self.read_input()?;
        self.write_input()?;
        if self.is_attached {
            self.send_output()
        } else {
            Ok(())
        }
    }

    fn read_input(&mut self) -> io::Result<()> {
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
                    self.is_attached = true;
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

    fn write_input(&mut self) -> io::Result<()> {
        let Some(keyboard) = &self.keyboard else {
            return Ok(());
        };
        while !self.typed.is_empty() {
            match nix::unistd::write(keyboard, &self.typed) {
                Ok(written) => drop(self.typed.drain(..written)),
                Err(Errno::EINTR) => {}
                Err(Errno::EAGAIN) => break,
                // The job's side is closed, because the job is about to end.
                Err(_) => self.typed.clear(),
            }
        }
        Ok(())
    }

    fn send_output(&mut self) -> io::Result<()> {
        for _ in 0..MAX_READS {
            let (Some(link), Some(keyboard)) = (&mut self.link, &self.keyboard) else {
                break;
            };
            if link.backlog() >= AHEAD {
                break;
            }
            let mut buffer = [0; READ_SIZE];
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

    /// Sends the remaining output and the exit status of a job that has ended, if a client is
    /// attached. Gives up after `FINISH_TIMEOUT`.
    pub fn finish(mut self, status: i32) {
        if !self.is_attached {
            return;
        }
        let until = clock::monotonic() + FINISH_TIMEOUT;
        while self.has_output() && clock::monotonic() < until {
            if self.send_output().is_err() || !self.drain(until) {
                return;
            }
        }
        let is_sent = self
            .link
            .as_mut()
            .is_some_and(|link| link.send(&TerminalOutput::Over { status }).is_ok());
        if is_sent {
            self.drain(until);
        }
    }

    fn has_output(&self) -> bool {
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

/// Whether the other end has closed the connection, even if there is unread data.
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

    /// A terminal, the job's side of the terminal, and the client's end of the connection.
    struct TerminalRelay {
        _folder: tempfile::TempDir,
        at: Folder,
        terminal: Terminal,
        client: UnixStream,
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
            let client = connect(&at);
            TerminalRelay {
                _folder: folder,
                at,
                terminal,
                client,
                job,
            }
        }

        fn send_input(&mut self, input: &TerminalInput) -> TerminalStep {
            frame::write(&mut self.client, input).unwrap();
            self.terminal.handle_events()
        }
    }

    fn connect(at: &Folder) -> UnixStream {
        let (client, near) = UnixStream::pair().unwrap();
        TerminalConnection::connect_nonblocking(at)
            .unwrap()
            .pass_connection(near.as_fd())
            .unwrap();
        client
    }

    #[test]
    fn input_reaches_the_job_and_its_output_reaches_the_client() {
        let mut relay = TerminalRelay::new();
        assert_eq!(relay.terminal.handle_events(), TerminalStep::Quiet);
        assert_eq!(
            relay.send_input(&TerminalInput::Window(SIZE)),
            TerminalStep::Begins
        );
        assert_eq!(terminal::window(&relay.job), Some(SIZE));
        relay.send_input(&TerminalInput::Typed(b"hello\n".to_vec()));
        let mut line = [0; 6];
        relay.job.read_exact(&mut line).unwrap();
        assert_eq!(&line, b"hello\n");
        relay.job.write_all(b"bye").unwrap();
        drop(relay.job);
        relay.terminal.finish(7);
        let mut shown = Vec::new();
        while let Ok(TerminalOutput::Shown(bytes)) = frame::read(&mut relay.client) {
            shown.extend(bytes);
        }
        assert_eq!(String::from_utf8(shown).unwrap(), "hello\r\nbye");
    }

    #[test]
    fn a_client_is_replaced_until_it_sends_its_window_size() {
        let mut relay = TerminalRelay::new();
        relay.terminal.handle_events();
        relay.client = connect(&relay.at);
        assert_eq!(relay.terminal.handle_events(), TerminalStep::Quiet);
        assert_eq!(
            relay.send_input(&TerminalInput::Window(SIZE)),
            TerminalStep::Begins
        );
        let mut late = connect(&relay.at);
        assert_eq!(relay.terminal.handle_events(), TerminalStep::Quiet);
        assert_eq!(late.read(&mut [0; 8]).unwrap(), 0);
        drop(std::mem::replace(&mut relay.client, late));
        assert_eq!(relay.terminal.handle_events(), TerminalStep::HungUp);
        assert!(relay.terminal.watched().is_empty());
    }

    #[test]
    fn a_client_that_reads_nothing_blocks_the_job_and_uses_little_memory() {
        let mut relay = TerminalRelay::new();
        relay.send_input(&TerminalInput::Window(SIZE));
        nix::fcntl::fcntl(
            &relay.job,
            nix::fcntl::FcntlArg::F_SETFL(nix::fcntl::OFlag::O_NONBLOCK),
        )
        .unwrap();
        let mut written = 0;
        for _ in 0..100_000 {
            relay.terminal.handle_events();
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
    fn a_disconnect_is_noticed_while_input_is_unread() {
        let mut relay = TerminalRelay::new();
        relay.send_input(&TerminalInput::Window(SIZE));
        relay.terminal.typed = vec![b'x'; 2 * AHEAD];
        drop(relay.client);
        assert_eq!(relay.terminal.handle_events(), TerminalStep::HungUp);
    }
}
