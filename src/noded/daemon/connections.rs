//! noded's connections: authorization, sending, and closing.

use super::super::poller::PollSource;
use super::Daemon;
use crate::model::time::Span;
use crate::sys::{clock, filesystem, socket};
use crate::wire::frame::{FrameError, FrameSocket};
use crate::wire::order::{NodeReport, ScheddOrder};
use crate::wire::peer;
use anyhow::{Context, Result};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use tracing::{error, info, warn};

/// Maximum number of connections that have not greeted yet.
const MOST_GUESTS: usize = 16;
/// Maximum size of unread reports in bytes, before schedd is disconnected.
const BACKLOG: usize = 64 << 20;

/// A connection.
pub(super) struct Guest {
    pub(super) link: FrameSocket,
    uid: u32,
    pub(super) since: Span,
    writing: bool,
    /// The error that prevents sending. Orders received before are still carried out: a schedd that
    /// exits waits for no answer.
    deaf: Option<FrameError>,
}

impl Guest {
    /// Writes as much as the socket takes.
    fn flush(&mut self) {
        if let Err(e) = self.link.flush() {
            self.deaf.get_or_insert(e.into());
        }
    }
}

impl Daemon {
    pub(super) fn admit(&mut self) {
        while let Ok((stream, _)) = self.listener.accept() {
            if let Err(e) = self.take_in(stream) {
                warn!("a connection was refused: {e:#}");
            }
        }
    }

    fn take_in(&mut self, stream: UnixStream) -> Result<()> {
        let peer = peer::of(&stream)?;
        anyhow::ensure!(
            self.welcome.contains(&peer.uid()),
            "user {} is not schedd's",
            peer.uid()
        );
        anyhow::ensure!(self.guests.len() <= MOST_GUESTS, "too many connections");
        let guest = Guest {
            link: FrameSocket::new(stream)?,
            uid: peer.uid(),
            since: clock::monotonic(),
            writing: false,
            deaf: None,
        };
        let number = self.poller.number();
        self.poller.add(&guest.link, PollSource::Guest(number))?;
        self.guests.insert(number, guest);
        Ok(())
    }

    pub(super) fn listen_to(&mut self, number: u64) {
        let Some(guest) = self.guests.get_mut(&number) else {
            return;
        };
        guest.flush();
        let orders = match guest.link.receive::<ScheddOrder>() {
            Ok(orders) => orders,
            Err(e) => return self.close(number, &e),
        };
        for order in orders {
            if !self.guests.contains_key(&number) {
                return;
            }
            self.carry_out(number, order);
        }
        self.settle(number);
    }

    pub(super) fn close(&mut self, number: u64, why: &FrameError) {
        let Some(guest) = self.guests.get_mut(&number) else {
            return;
        };
        match why {
            FrameError::Closed if self.refused.is_some() => {}
            FrameError::Closed => info!("a connection of user {} was closed", guest.uid),
            FrameError::Version { .. } => guest.link.send_version(),
            _ => {}
        }
        if !matches!(why, FrameError::Closed) {
            warn!("a connection of user {} is closed: {why}", guest.uid);
        }
        self.let_go(number);
    }

    pub(super) fn let_go(&mut self, number: u64) {
        let Some(guest) = self.guests.remove(&number) else {
            return;
        };
        self.poller.remove(&guest.link, PollSource::Guest(number));
        if self.schedd == Some(number) {
            self.schedd = None;
            self.idle_since = clock::monotonic();
        }
    }

    pub(super) fn send(&mut self, number: u64, report: &NodeReport) {
        let Some(guest) = self
            .guests
            .get_mut(&number)
            .filter(|guest| guest.deaf.is_none())
        else {
            return;
        };
        guest.deaf = guest.link.send(report).err();
        let backlog = guest.link.backlog();
        if backlog > BACKLOG {
            guest.deaf = Some(FrameError::TooLarge(backlog));
        }
    }

    /// Closes a connection that cannot be written to. Otherwise updates whether to poll for
    /// writing.
    pub(super) fn settle(&mut self, number: u64) {
        let Some(guest) = self.guests.get_mut(&number) else {
            return;
        };
        if let Some(why) = guest.deaf.take() {
            return self.close(number, &why);
        }
        if guest.writing != guest.link.wants_write() {
            guest.writing = guest.link.wants_write();
            self.poller
                .want_write(&guest.link, PollSource::Guest(number), guest.writing);
        }
    }

    /// Whether task requests may be passed on. Others are repeated by their processes.
    pub(super) fn schedd_listens(&self) -> bool {
        let schedd = self.schedd.and_then(|number| self.guests.get(&number));
        schedd.is_some_and(|guest| guest.link.backlog() < BACKLOG / 4)
    }

    /// Recreates the socket if the runtime directory was emptied.
    pub(super) fn listen_again(&mut self) {
        if self.path.exists() {
            return;
        }
        warn!(
            "the socket {} has vanished: making it again",
            self.path.display()
        );
        match listen(&self.path, self.socket_mode) {
            Ok(listener) => {
                self.poller.remove(&self.listener, PollSource::Listener);
                self.listener = listener;
                if let Err(e) = self.poller.add(&self.listener, PollSource::Listener) {
                    error!("the socket cannot be listened at: {e}");
                }
            }
            Err(e) => error!("{e:#}"),
        }
    }
}

/// Listens at a socket of this mode.
pub(super) fn listen(path: &Path, mode: u32) -> Result<UnixListener> {
    if let Some(folder) = path.parent()
        && !folder.exists()
    {
        filesystem::make_private(folder).with_context(|| listening_at(path))?;
    }
    socket::bind(path, mode).with_context(|| listening_at(path))
}

fn listening_at(path: &Path) -> String {
    format!(
        "listening at {}: give another place with --socket",
        path.display()
    )
}
