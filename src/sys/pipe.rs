//! A wakeup from one thread to another that polls descriptors.

use nix::fcntl::OFlag;
use nix::unistd::{pipe2, read, write};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// The sending end.
#[derive(Debug)]
pub struct Bell(OwnedFd);

/// The receiving end.
#[derive(Debug)]
pub struct Ear(OwnedFd);

/// Creates both ends.
pub fn bell() -> io::Result<(Bell, Ear)> {
    let (ear, bell) = pipe2(OFlag::O_CLOEXEC | OFlag::O_NONBLOCK)?;
    Ok((Bell(bell), Ear(ear)))
}

impl Bell {
    /// Wakes the receiver. Never blocks. Several wakeups may be combined.
    pub fn ring(&self) {
        let _ = write(&self.0, b"!");
    }
}

impl Ear {
    /// Clears all wakeups so far.
    pub fn hush(&self) {
        let mut buffer = [0; 512];
        while read(&self.0, &mut buffer).is_ok_and(|length| length > 0) {}
    }
}

impl AsFd for Ear {
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
        ear.hush();
        assert_eq!(rings(), 0);
    }
}
