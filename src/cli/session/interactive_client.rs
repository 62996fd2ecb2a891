//! The user's end of a job's terminal: sends keys unchanged and displays the output.
//!
//! At the start of a line, `~.` ends the session and `~^Z` suspends qsub.

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
    /// The user's terminal closed, or a signal with this number arrived.
    HungUp(i32),
    /// The connection to the job broke.
    Lost,
}

/// Connects the terminal to `connection` until the session ends. The terminal is in raw mode
/// meanwhile and is always restored.
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
    /// Waits for signals, output or keys, and handles them. Returns the end of the session.
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
            self.show()?
        } else {
            end
        };
        if end.is_none() && ready.get(2) == Some(&true) {
            self.type_in()
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
                    // Another program used the terminal in the meantime and may have changed its
                    // mode.
                    if let Some(raw) = &self.raw {
                        raw.renew();
                    }
                    self.send_window()?;
                }
                Ok(Signal::SIGTTOU) => {}
                // Sent by another process with kill: in raw mode, Ctrl-C at the keyboard is input.
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

    /// Sends input. A broken connection is detected when output is read.
    fn send(&mut self, input: &TerminalInput) -> Result<(), Failure> {
        match self.link.send(input) {
            Ok(()) | Err(FrameError::Io(_)) => Ok(()),
            Err(error) => Err(Failure::new(183, format!("the job's node: {error}"))),
        }
    }

    fn show(&mut self) -> Result<Option<SessionEnd>, Failure> {
        let _ = self.link.flush();
        let outputs = match self.link.receive::<TerminalOutput>() {
            Ok(outputs) => outputs,
            Err(FrameError::Closed | FrameError::Io(_)) => return Ok(Some(SessionEnd::Lost)),
            Err(error) => return Err(Failure::new(183, format!("the job's node: {error}"))),
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

    fn type_in(&mut self) -> Result<Option<SessionEnd>, Failure> {
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

    /// Stops qsub, as `^Z` stops a program on a terminal that is not in raw mode.
    fn suspend(&mut self) -> Result<(), Failure> {
        self.raw = None;
        let _ = kill(Pid::from_raw(0), Signal::SIGTSTP);
        self.raw = Some(Raw::enter()?);
        self.send_window()
    }
}

/// An action that results from keys.
#[derive(Clone, Debug, PartialEq, Eq)]
enum KeyAction {
    Typed(Vec<u8>),
    Leave,
    Suspend,
}

/// Finds the escape sequences for qsub among the keys.
struct Keys {
    /// True if the next key is the first of a line.
    fresh: bool,
    /// True if a `~` at the start of a line has not been sent yet.
    held: bool,
}

impl Keys {
    fn new() -> Keys {
        Keys {
            fresh: true,
            held: false,
        }
    }

    fn read(&mut self, bytes: &[u8]) -> Vec<KeyAction> {
        let (mut actions, mut typed) = (Vec::new(), Vec::new());
        for &byte in bytes {
            if byte == b'~' && self.fresh && !self.held {
                self.held = true;
                continue;
            }
            let escape = match byte {
                b'.' if self.held => Some(KeyAction::Leave),
                0x1a if self.held => Some(KeyAction::Suspend),
                _ => None,
            };
            self.fresh = escape.is_some() || matches!(byte, b'\r' | b'\n');
            if let Some(escape) = escape {
                if !typed.is_empty() {
                    actions.push(KeyAction::Typed(std::mem::take(&mut typed)));
                }
                actions.push(escape);
            } else {
                if self.held {
                    typed.push(b'~');
                }
                typed.push(byte);
            }
            self.held = false;
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
