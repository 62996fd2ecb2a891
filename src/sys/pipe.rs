//! A bell: rung in one thread, heard in another that waits for descriptors.

use nix::fcntl::OFlag;
use nix::unistd::{pipe2, read, write};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// The end that rings.
#[derive(Debug)]
pub struct Bell(OwnedFd);

/// The end that hears.
#[derive(Debug)]
pub struct Ear(OwnedFd);

/// A bell and who hears it.
pub fn bell() -> io::Result<(Bell, Ear)> {
    let (ear, bell) = pipe2(OFlag::O_CLOEXEC | OFlag::O_NONBLOCK)?;
    Ok((Bell(bell), Ear(ear)))
}

impl Bell {
    /// Rings; never waits. One that has rung and was not heard yet need not ring louder.
    pub fn ring(&self) {
        let _ = write(&self.0, b"!");
    }
}

impl Ear {
    /// Silences what has rung so far.
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
    fn a_bell_is_heard_until_it_is_hushed() {
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
