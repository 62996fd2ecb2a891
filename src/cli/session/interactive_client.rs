//! The user's side of an interactive job: sends typed keys to the job's terminal and displays the
//! output.
//!
//! All keys are sent unchanged, with two exceptions: at the start of a line, `~.` ends the session
//! and `~^Z` suspends qsub.

use crate::cli::client::exit::Failure;
use crate::sys::terminal::{self, Raw, TerminalSize};
use crate::wire::frame::{FrameError, FrameSocket};
use crate::wire::terminal::{AHEAD, TerminalInput, TerminalOutput};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{Signal, kill};
use nix::sys::signalfd::SignalFd;
use nix::unistd::Pid;
use std::io::{Write, stdin, stdout};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;

/// The maximum number of bytes read from the keyboard at once.
const READ_SIZE: usize = 16 << 10;

/// How a session ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionEnd {
    /// The job ended with this exit status.
    Ended(i32),
    /// The user typed `~.`.
    Left,
    /// A signal with this number ended the session. A closed terminal counts as SIGHUP.
    HungUp(i32),
    /// The connection to the job is broken.
    Lost,
}

/// Transfers data between the user's terminal and `connection` until the session ends. During the
/// session, the terminal is in raw mode.
pub fn run_session(connection: UnixStream, signals: &SignalFd) -> Result<SessionEnd, Failure> {
    let mut client = InteractiveClient {
        link: FrameSocket::new(connection)?,
        signals,
        keys: Keys::new(),
        raw: Some(Raw::enter()?),
    };
    client.send_window()?;
    loop {
        if let Some(end) = client.poll_once()? {
            return Ok(end);
        }
    }
}

struct InteractiveClient<'a> {
    link: FrameSocket,
    signals: &'a SignalFd,
    keys: Keys,
    raw: Option<Raw>,
}

impl InteractiveClient<'_> {
    /// Waits for signals, output or keys, and handles them. Returns None if the session continues.
    fn poll_once(&mut self) -> Result<Option<SessionEnd>, Failure> {
        let out = if self.link.wants_write() {
            PollFlags::POLLOUT
        } else {
            PollFlags::empty()
        };
        let (input, signals) = (stdin(), self.signals);
        let mut fds = vec![
            PollFd::new(signals.as_fd(), PollFlags::POLLIN),
            PollFd::new(self.link.as_fd(), PollFlags::POLLIN | out),
        ];
        if self.link.backlog() < AHEAD {
            fds.push(PollFd::new(input.as_fd(), PollFlags::POLLIN));
        }
        if let Err(error) = poll(&mut fds, PollTimeout::NONE)
            && error != Errno::EINTR
        {
            return Err(std::io::Error::from(error).into());
        }
        let ready: Vec<bool> = fds.iter().map(|fd| fd.any() == Some(true)).collect();
        let end = if ready[0] {
            self.handle_signals()?
        } else {
            None
        };
        let end = if end.is_none() && ready[1] {
            self.show_output()?
        } else {
            end
        };
        if end.is_none() && ready.get(2) == Some(&true) {
            self.send_keys()
        } else {
            Ok(end)
        }
    }

    fn handle_signals(&mut self) -> Result<Option<SessionEnd>, Failure> {
        while let Ok(Some(signal)) = self.signals.read_signal() {
            let number = signal.ssi_signo as i32;
            match Signal::try_from(number) {
                Ok(Signal::SIGWINCH) => self.send_window()?,
                Ok(Signal::SIGCONT) => {
                    // While qsub was stopped, another program may have changed the modes of the
                    // terminal.
                    if let Some(raw) = &self.raw {
                        raw.renew();
                    }
                    self.send_window()?;
                }
                Ok(Signal::SIGTTOU) => {}
                // In raw mode, Ctrl-C at the keyboard sends no signal, so SIGINT comes from another
                // process. The job receives it as Ctrl-C.
                Ok(Signal::SIGINT) => self.send(&TerminalInput::Typed(vec![3]))?,
                _ => return Ok(Some(SessionEnd::HungUp(number))),
            }
        }
        Ok(None)
    }

    fn send_window(&mut self) -> Result<(), Failure> {
        let window = terminal::window(stdin()).unwrap_or(TerminalSize::USUAL);
        self.send(&TerminalInput::Window(window))
    }

    /// Sends input. Ignores a broken connection, which is detected when output is read.
    fn send(&mut self, input: &TerminalInput) -> Result<(), Failure> {
        match self.link.send(input) {
            Ok(()) | Err(FrameError::Io(_)) => Ok(()),
            Err(error) => Err(Failure::new(
                183,
                format!("cannot send to the job's node: {error}"),
            )),
        }
    }

    fn show_output(&mut self) -> Result<Option<SessionEnd>, Failure> {
        let _ = self.link.flush();
        let outputs = match self.link.receive::<TerminalOutput>() {
            Ok(outputs) => outputs,
            Err(FrameError::Closed | FrameError::Io(_)) => return Ok(Some(SessionEnd::Lost)),
            Err(error) => {
                return Err(Failure::new(
                    183,
                    format!("cannot read from the job's node: {error}"),
                ));
            }
        };
        let mut screen = stdout().lock();
        for output in outputs {
            match output {
                TerminalOutput::Over { status } => return Ok(Some(SessionEnd::Ended(status))),
                TerminalOutput::Shown(bytes) => {
                    if screen
                        .write_all(&bytes)
                        .and_then(|()| screen.flush())
                        .is_err()
                    {
                        return Ok(Some(SessionEnd::HungUp(Signal::SIGHUP as i32)));
                    }
                }
            }
        }
        Ok(None)
    }

    fn send_keys(&mut self) -> Result<Option<SessionEnd>, Failure> {
        let mut buffer = [0; READ_SIZE];
        let length = match nix::unistd::read(stdin(), &mut buffer) {
            Err(Errno::EINTR | Errno::EAGAIN) => return Ok(None),
            other => other.unwrap_or(0),
        };
        if length == 0 {
            return Ok(Some(SessionEnd::HungUp(Signal::SIGHUP as i32)));
        }
        for action in self.keys.read(&buffer[..length]) {
            match action {
                KeyAction::Typed(bytes) => self.send(&TerminalInput::Typed(bytes))?,
                KeyAction::Leave => return Ok(Some(SessionEnd::Left)),
                KeyAction::Suspend => self.suspend()?,
            }
        }
        Ok(None)
    }

    /// Stops qsub like `^Z` on a terminal that is not in raw mode.
    fn suspend(&mut self) -> Result<(), Failure> {
        self.raw = None;
        let _ = kill(Pid::from_raw(0), Signal::SIGTSTP);
        self.raw = Some(Raw::enter()?);
        self.send_window()
    }
}

/// An action that the user has requested by typing keys.
#[derive(Clone, Debug, PartialEq, Eq)]
enum KeyAction {
    Typed(Vec<u8>),
    Leave,
    Suspend,
}

/// Finds the escape sequences for qsub among the typed keys.
struct Keys {
    /// True if the next key is at the start of a line, or follows a `~` that has not been sent.
    is_at_line_start: bool,
    /// True if a `~` at the start of a line has not been sent yet.
    holds_tilde: bool,
}

impl Keys {
    fn new() -> Keys {
        Keys {
            is_at_line_start: true,
            holds_tilde: false,
        }
    }

    fn read(&mut self, bytes: &[u8]) -> Vec<KeyAction> {
        let (mut actions, mut typed) = (Vec::new(), Vec::new());
        for &byte in bytes {
            if byte == b'~' && self.is_at_line_start && !self.holds_tilde {
                self.holds_tilde = true;
                continue;
            }
            let escape = match byte {
                b'.' if self.holds_tilde => Some(KeyAction::Leave),
                0x1a if self.holds_tilde => Some(KeyAction::Suspend),
                _ => None,
            };
            self.is_at_line_start = escape.is_some() || matches!(byte, b'\r' | b'\n');
            if let Some(escape) = escape {
                if !typed.is_empty() {
                    actions.push(KeyAction::Typed(std::mem::take(&mut typed)));
                }
                actions.push(escape);
            } else {
                if self.holds_tilde {
                    typed.push(b'~');
                }
                typed.push(byte);
            }
            self.holds_tilde = false;
        }
        if !typed.is_empty() {
            actions.push(KeyAction::Typed(typed));
        }
        actions
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(keys: &[&str]) -> String {
        let mut reader = Keys::new();
        let actions = keys
            .iter()
            .flat_map(|keys| reader.read(keys.as_bytes()))
            .collect::<Vec<_>>();
        let text = |action: &KeyAction| match action {
            KeyAction::Typed(bytes) => String::from_utf8_lossy(bytes).into_owned(),
            KeyAction::Leave => "LEAVE".into(),
            KeyAction::Suspend => "SUSPEND".into(),
        };
        actions.iter().map(text).collect::<Vec<_>>().join("|")
    }

    #[test]
    fn a_tilde_is_an_escape_only_at_the_start_of_a_line() {
        for (keys, expected) in [
            (&["~."][..], "LEAVE"),
            (&["~", "."], "LEAVE"),
            (&["ls\r~."], "ls\r|LEAVE"),
            (&["ls ~."], "ls ~."),
            (&["~x~."], "~x~."),
            (&["~~."], "~~."),
            (&["\r", "~\x1a", "~."], "\r|SUSPEND|LEAVE"),
            (&["~"], ""),
            (&["~", "a"], "~a"),
        ] {
            assert_eq!(shown(keys), expected, "{keys:?}");
        }
    }
}
