//! Handing a message to the site's mailer.

#![allow(
    clippy::disallowed_methods,
    reason = "one of the places that start programs"
)]

use super::process;
use crate::model::time::Span;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

/// Runs `program` with these arguments, the message as its standard input, and waits for its end,
/// but no longer than `patience`: then it is killed, with all that it has started.
pub fn send(
    program: &Path,
    arguments: &[String],
    message: &[u8],
    patience: Span,
) -> io::Result<()> {
    let mut command = Command::new(program);
    command.args(arguments).current_dir("/").process_group(0);
    // SAFETY: between fork and exec, one system call that touches no memory of ours.
    unsafe { command.pre_exec(process::unblock_signals) };
    let stdin = Stdio::from(process::in_memory(message)?);
    let mut child = command
        .stdin(stdin)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?;
    let number = Pid::from_raw(child.id() as i32);
    let patience = PollTimeout::try_from(patience.0).unwrap_or(PollTimeout::MAX);
    let ended = process::pidfd(number);
    let waited = ended.map(|ended| {
        poll(
            &mut [PollFd::new(ended.as_fd(), PollFlags::POLLIN)],
            patience,
        )
    });
    let late = !matches!(waited, Ok(Ok(1)));
    if late {
        // Not waited for yet, so the number is still its own.
        let _ = killpg(number, Signal::SIGKILL);
    }
    match child.wait()? {
        _ if late => Err(io::ErrorKind::TimedOut.into()),
        status if status.success() => Ok(()),
        status => Err(io::Error::other(status.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::procfs;

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

    #[test]
    fn a_mailer_that_hangs_goes_with_all_that_it_has_started_and_may_be_given_any_length() {
        let mark = format!("{}.25", std::process::id());
        let words = ["-c".to_string(), format!("sleep 6{mark} & wait")];
        let late =
            send(Path::new("/bin/sh"), &words, &[b'x'; 1 << 20], Span(200)).map_err(|e| e.kind());
        assert_eq!(late, Err(io::ErrorKind::TimedOut));
        let left = || {
            procfs::all().into_iter().filter(|p| p.lives()).any(|p| {
                let line = std::fs::read(format!("/proc/{}/cmdline", p.pid)).unwrap_or_default();
                String::from_utf8_lossy(&line).contains(&format!("6{mark}"))
            })
        };
        for _ in 0..200 {
            if !left() {
                return;
            }
            crate::sys::clock::sleep(std::time::Duration::from_millis(10));
        }
        panic!("something of it still runs");
    }

    #[test]
    fn a_mailer_hears_signals_though_its_sender_does_not() {
        process::block_signals().unwrap();
        let words = ["-c".to_string(), "kill -TERM $$; exit 0".to_string()];
        let ended = send(Path::new("/bin/sh"), &words, b"", Span(5000)).map_err(|e| e.to_string());
        assert_eq!(ended, Err("signal: 15 (SIGTERM)".to_string()));
    }
}
