//! A wakeup from one thread to another that polls descriptors.

use nix::fcntl::OFlag;
use nix::unistd::{pipe2, read, write};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// The sending end.
#[derive(Debug)]
pub struct WakeupSender(OwnedFd);

/// The receiving end.
#[derive(Debug)]
pub struct WakeupReceiver(OwnedFd);

/// Creates both ends.
pub fn bell() -> io::Result<(WakeupSender, WakeupReceiver)> {
    let (ear, bell) = pipe2(OFlag::O_CLOEXEC | OFlag::O_NONBLOCK)?;
    Ok((WakeupSender(bell), WakeupReceiver(ear)))
}

impl WakeupSender {
    /// Wakes the receiver. Never blocks. Several wakeups may be combined.
    pub fn ring(&self) {
        let _ = write(&self.0, b"!");
    }
}

impl WakeupReceiver {
    /// Clears all wakeups so far.
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
        let (bell, ear) = bell().unwrap();
        let rings = || {
            poll(
                &mut [PollFd::new(ear.as_fd(), PollFlags::POLLIN)],
                PollTimeout::ZERO,
            )
            .unwrap()
        };
        assert_eq!(rings(), 0);
        (0..100_000).for_each(|_| bell.ring());
        assert_eq!(rings(), 1);
        ear.clear_wakeups();
        assert_eq!(rings(), 0);
    }
}
