//! Handing a message to the site's mailer.

#![allow(clippy::disallowed_methods, reason = "one of the places that start programs")]

use super::process;
use crate::model::time::Span;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::unistd::Pid;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::path::Path;
use std::process::{Command, Stdio};

/// Runs `program` with these arguments, the message on its standard input, and waits for its end,
/// but no longer than `patience`: then it is killed. The message must fit into a pipe.
pub fn send(program: &Path, arguments: &[String], message: &[u8], patience: Span) -> io::Result<()> {
    let mut command = Command::new(program);
    command.args(arguments).current_dir("/");
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
    // One that does not read it has its reasons, told by its status.
    let _ = child.stdin.take().map(|mut stdin| stdin.write_all(message));
    let ended = process::pidfd(Pid::from_raw(child.id() as i32))?;
    let patience = PollTimeout::try_from(patience.0).unwrap_or(PollTimeout::MAX);
    let late = poll(&mut [PollFd::new(ended.as_fd(), PollFlags::POLLIN)], patience) == Ok(0);
    if late {
        let _ = child.kill();
    }
    match child.wait()? {
        status if status.success() => Ok(()),
        _ if late => Err(io::ErrorKind::TimedOut.into()),
        status => Err(io::Error::other(status.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mailer_that_hangs_or_fails_is_told_from_one_that_sends() {
        let run = |line: &str| {
            let words = ["-c".to_string(), line.to_string()];
            send(Path::new("/bin/sh"), &words, b"text\n", Span(200)).map_err(|e| e.kind())
        };
        assert_eq!(run("read line; [ \"$line\" = text ]"), Ok(()));
        assert_eq!(run("exit 3"), Err(io::ErrorKind::Other));
        assert_eq!(run("exec sleep 60"), Err(io::ErrorKind::TimedOut));
        assert!(send(Path::new("/no/such/mailer"), &[], b"", Span(200)).is_err());
    }
}
