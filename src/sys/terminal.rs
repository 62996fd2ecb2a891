//! Terminals: pseudo terminals of jobs, and the terminal of the user who runs a command.

use nix::fcntl::{FcntlArg, FdFlag, OFlag, fcntl};
use nix::libc;
use nix::pty::openpty;
use nix::sys::termios::{SetArg, Termios, cfmakeraw, tcgetattr, tcsetattr};
use nix::unistd::{Uid, dup2_stderr, dup2_stdin, dup2_stdout, fchown};
use serde::{Deserialize, Serialize};
use std::io::{self, stdin};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::{Mutex, Once, PoisonError};

/// The window size of a terminal, in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TerminalSize {
    /// The number of rows.
    pub rows: u16,
    /// The number of columns.
    pub columns: u16,
}

impl TerminalSize {
    /// The size that is assumed for a terminal that reports no size.
    pub const USUAL: TerminalSize = TerminalSize {
        rows: 24,
        columns: 80,
    };
}

/// Both ends of a pseudo terminal.
#[derive(Debug)]
pub struct Pair {
    /// The nonblocking master end, from which the output of programs is read and to which their
    /// input is written.
    pub keyboard: OwnedFd,
    /// The slave end, which programs use as their terminal.
    pub screen: OwnedFd,
}

/// Creates a pseudo terminal. The terminal device belongs to `owner`, if given.
pub fn pair(owner: Option<u32>) -> io::Result<Pair> {
    let made = openpty(None, None)?;
    for end in [&made.master, &made.slave] {
        fcntl(end, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC))?;
    }
    fcntl(&made.master, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
    if let Some(uid) = owner {
        fchown(&made.slave, Some(Uid::from_raw(uid)), None)?;
    }
    Ok(Pair {
        keyboard: made.master,
        screen: made.slave,
    })
}

/// Makes `screen` the controlling terminal and the standard input, output and error of this
/// process. This process must lead a session without a controlling terminal.
pub fn attach_standard_streams(screen: BorrowedFd) -> io::Result<()> {
    // SAFETY: the arguments are numbers.
    if unsafe { libc::ioctl(screen.as_raw_fd(), libc::TIOCSCTTY, 0) } != 0 {
        return Err(io::Error::last_os_error());
    }
    dup2_stdin(screen)?;
    dup2_stdout(screen)?;
    Ok(dup2_stderr(screen)?)
}

/// The window size of a terminal. None if `terminal` is not a terminal or reports no size.
pub fn window(terminal: impl AsFd) -> Option<TerminalSize> {
    let mut size = libc::winsize {
        ws_row: 0,
        ws_col: 0,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    // SAFETY: the kernel writes one winsize, which lives through the call.
    let result = unsafe {
        libc::ioctl(
            terminal.as_fd().as_raw_fd(),
            libc::TIOCGWINSZ,
            &raw mut size,
        )
    };
    let window = TerminalSize {
        rows: size.ws_row,
        columns: size.ws_col,
    };
    (result == 0 && window.rows > 0 && window.columns > 0).then_some(window)
}

/// Sets the window size of a terminal. The kernel notifies the foreground programs of a change.
pub fn set_window(terminal: impl AsFd, window: TerminalSize) {
    let size = libc::winsize {
        ws_row: window.rows,
        ws_col: window.columns,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    // SAFETY: the kernel reads one winsize, which lives through the call.
    unsafe {
        libc::ioctl(
            terminal.as_fd().as_raw_fd(),
            libc::TIOCSWINSZ,
            &raw const size,
        )
    };
}

/// The modes that the user's terminal had before it was made raw.
static BEFORE: Mutex<Option<Termios>> = Mutex::new(None);

/// Raw mode of the user's terminal: while this value exists, every key is passed to the program
/// unchanged. The modes of the terminal are restored when the value is dropped and at a panic.
#[derive(Debug)]
pub struct Raw(());

impl Raw {
    /// Makes the terminal at standard input raw.
    pub fn enter() -> io::Result<Raw> {
        static HOOK: Once = Once::new();
        // In a release build, a panic does not drop values, so the panic hook restores the modes.
        HOOK.call_once(|| {
            let next = std::panic::take_hook();
            std::panic::set_hook(Box::new(move |panic| {
                restore();
                next(panic);
            }));
        });
        let modes = tcgetattr(stdin())?;
        *BEFORE.lock().unwrap_or_else(PoisonError::into_inner) = Some(modes);
        let raw = Raw(());
        raw.renew();
        Ok(raw)
    }

    /// Makes the terminal raw again after another program has used it.
    pub fn renew(&self) {
        let before = BEFORE
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        if let Some(mut modes) = before {
            cfmakeraw(&mut modes);
            let _ = tcsetattr(stdin(), SetArg::TCSANOW, &modes);
        }
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        restore();
    }
}

fn restore() {
    if let Some(modes) = BEFORE.lock().unwrap_or_else(PoisonError::into_inner).take() {
        let _ = tcsetattr(stdin(), SetArg::TCSANOW, &modes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_has_the_size_that_was_set() {
        let pair = pair(None).unwrap();
        assert_eq!(window(&pair.screen), None);
        let size = TerminalSize {
            rows: 33,
            columns: 77,
        };
        set_window(&pair.keyboard, size);
        assert_eq!(window(&pair.screen), Some(size));
        assert_eq!(window(tempfile::tempfile().unwrap()), None);
    }
}
