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

/// Maximum number of connections in addition to schedd's connection.
const MAX_OTHERS: usize = 16;
/// Maximum size of unread reports in bytes. If there are more, the connection is closed.
const MAX_BACKLOG: usize = 64 << 20;

/// A connection of schedd, or a connection on which no order has arrived yet.
pub(super) struct Connection {
    pub(super) link: FrameSocket,
    uid: u32,
    /// When noded accepted the connection.
    pub(super) since: Span,
    writing: bool,
    /// The error that prevents sending. noded still executes orders that arrived before the error,
    /// because a schedd that exits does not wait for replies.
    send_error: Option<FrameError>,
}

impl Connection {
    /// Sends pending data until the socket is full.
    fn flush(&mut self) {
        if let Err(e) = self.link.flush() {
            self.send_error.get_or_insert(e.into());
        }
    }
}

impl Daemon {
    pub(super) fn admit(&mut self) {
        while let Ok((stream, _)) = self.listener.accept() {
            if let Err(e) = self.add_connection(stream) {
                warn!("refused a connection: {e:#}");
            }
        }
    }

    fn add_connection(&mut self, stream: UnixStream) -> Result<()> {
        let peer = peer::of(&stream)?;
        anyhow::ensure!(
            self.schedd_uids.contains(&peer.uid()),
            "uid {} is not allowed to give orders; see --schedd-uid",
            peer.uid()
        );
        anyhow::ensure!(self.connections.len() <= MAX_OTHERS, "too many connections");
        let connection = Connection {
            link: FrameSocket::new(stream)?,
            uid: peer.uid(),
            since: clock::monotonic(),
            writing: false,
            send_error: None,
        };
        let number = self.poller.number();
        self.poller
            .add(&connection.link, PollSource::Connection(number))?;
        self.connections.insert(number, connection);
        Ok(())
    }

    pub(super) fn read_orders(&mut self, number: u64) {
        let Some(connection) = self.connections.get_mut(&number) else {
            return;
        };
        connection.flush();
        let orders = match connection.link.receive::<ScheddOrder>() {
            Ok(orders) => orders,
            Err(e) => return self.close(number, &e),
        };
        for order in orders {
            if !self.connections.contains_key(&number) {
                return;
            }
            self.execute(number, order);
        }
        self.update_polling(number);
    }

    pub(super) fn close(&mut self, number: u64, why: &FrameError) {
        let Some(connection) = self.connections.get_mut(&number) else {
            return;
        };
        match why {
            FrameError::Closed if self.refused.is_some() => {}
            FrameError::Closed => {
                info!(
                    "the connection of a client with uid {} is closed",
                    connection.uid
                )
            }
            FrameError::Version { .. } => connection.link.send_version(),
            _ => {}
        }
        if !matches!(why, FrameError::Closed) {
            warn!(
                "closed the connection of a client with uid {}: {why}",
                connection.uid
            );
        }
        self.drop_connection(number);
    }

    pub(super) fn drop_connection(&mut self, number: u64) {
        let Some(connection) = self.connections.remove(&number) else {
            return;
        };
        self.poller
            .remove(&connection.link, PollSource::Connection(number));
        if self.schedd == Some(number) {
            self.schedd = None;
            self.idle_since = clock::monotonic();
        }
    }

    pub(super) fn send(&mut self, number: u64, report: &NodeReport) {
        let Some(connection) = self
            .connections
            .get_mut(&number)
            .filter(|connection| connection.send_error.is_none())
        else {
            return;
        };
        connection.send_error = connection.link.send(report).err();
        let backlog = connection.link.backlog();
        if backlog > MAX_BACKLOG {
            connection.send_error = Some(FrameError::TooLarge(backlog));
        }
    }

    /// Closes a connection that cannot be written to. Otherwise updates whether to poll for
    /// writing.
    pub(super) fn update_polling(&mut self, number: u64) {
        let Some(connection) = self.connections.get_mut(&number) else {
            return;
        };
        if let Some(why) = connection.send_error.take() {
            return self.close(number, &why);
        }
        if connection.writing != connection.link.wants_write() {
            connection.writing = connection.link.wants_write();
            self.poller.want_write(
                &connection.link,
                PollSource::Connection(number),
                connection.writing,
            );
        }
    }

    /// Whether noded can pass requests of tasks to schedd: schedd is connected, and not too many
    /// reports are unread. Processes repeat requests that noded drops.
    pub(super) fn can_pass_requests(&self) -> bool {
        let schedd = self.schedd.and_then(|number| self.connections.get(&number));
        schedd.is_some_and(|connection| connection.link.backlog() < MAX_BACKLOG / 4)
    }

    /// Recreates the socket if it is missing, for instance because the runtime directory was
    /// emptied.
    pub(super) fn recreate_socket(&mut self) {
        if self.path.exists() {
            return;
        }
        warn!("recreating the missing socket {}", self.path.display());
        match listen(&self.path, self.socket_mode) {
            Ok(listener) => {
                self.poller.remove(&self.listener, PollSource::Listener);
                self.listener = listener;
                if let Err(e) = self.poller.add(&self.listener, PollSource::Listener) {
                    error!("cannot poll the recreated socket: {e}");
                }
            }
            Err(e) => error!("{e:#}"),
        }
    }
}

/// Listens at a Unix socket with the file mode `mode`. Creates its directory if needed.
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
        "cannot listen at {}; choose another path with --socket",
        path.display()
    )
}
