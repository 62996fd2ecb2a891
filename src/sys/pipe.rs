//! Wakeups: a thread wakes another thread that polls descriptors.

use nix::fcntl::OFlag;
use nix::unistd::{pipe2, read, write};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// The sending end, with which a thread wakes the thread that polls the receiving end.
#[derive(Debug)]
pub struct WakeupSender(OwnedFd);

/// The receiving end, which the woken thread polls.
#[derive(Debug)]
pub struct WakeupReceiver(OwnedFd);

/// Creates both ends of a wakeup.
pub fn bell() -> io::Result<(WakeupSender, WakeupReceiver)> {
    let (read_end, write_end) = pipe2(OFlag::O_CLOEXEC | OFlag::O_NONBLOCK)?;
    Ok((WakeupSender(write_end), WakeupReceiver(read_end)))
}

impl WakeupSender {
    /// Makes the receiver readable, which wakes its thread. Never blocks.
    pub fn ring(&self) {
        let _ = write(&self.0, b"!");
    }
}

impl WakeupReceiver {
    /// Makes the receiver unreadable until the next wakeup.
    pub fn clear_wakeups(&self) {
        let mut buffer = [0; 512];
        while read(&self.0, &mut buffer).is_ok_and(|length| length > 0) {}
    }
}

impl AsFd for WakeupReceiver {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

    #[test]
    fn a_wakeup_is_readable_until_it_is_cleared() {
        let (sender, receiver) = bell().unwrap();
        let readable = || {
            poll(
                &mut [PollFd::new(receiver.as_fd(), PollFlags::POLLIN)],
                PollTimeout::ZERO,
            )
            .unwrap()
        };
        assert_eq!(readable(), 0);
        (0..100_000).for_each(|_| sender.ring());
        assert_eq!(readable(), 1);
        receiver.clear_wakeups();
        assert_eq!(readable(), 0);
    }
}
