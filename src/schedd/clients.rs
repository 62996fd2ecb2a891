//! Client connections: accepting, reading, replying, and limits on number, size and time.

pub mod callers;
pub mod calls;
pub mod limits;
pub mod listen;
pub mod readers;
mod run_times;
pub mod scripts;
pub mod snapshot;
pub mod watchers;

use crate::model::job_id::JobId;
use crate::model::refusal::Refusal;
use crate::model::time::Span;
use crate::schedd::clients::callers::Callers;
use crate::server::caller::Caller;
use crate::server::effects::Token;
use crate::server::setup::Setup;
use crate::spool::scripts::SMALLEST;
use crate::sys::{clock, fault};
use crate::wire::frame::{FrameError, FrameSocket};
use crate::wire::message::{ClientRequest, Reply};
use crate::wire::peer;
use std::collections::BTreeMap;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::{UnixListener, UnixStream};

/// Maximum number of connections of all users together.
const MAX_CONNECTIONS: usize = 2000;
/// Maximum number of connections of a user who is not privileged.
const MAX_CONNECTIONS_PER_USER: usize = 200;
/// Connections with an incomplete message are closed this long after the last complete message. The
/// same holds for connections with an unread reply, unless the client waits for another reply.
const MESSAGE_TIMEOUT: Span = Span::seconds(30);
/// Other connections are closed this long after the last complete message, unless the client waits
/// for a reply.
const IDLE_TIMEOUT: Span = Span::seconds(300);
/// Maximum size in bytes of replies that a client has not read. Clients with more are disconnected.
const MAX_BACKLOG: usize = 4 << 20;

/// Maximum size in bytes of the incomplete messages on all connections of a user.
const MAX_PARTIAL: usize = 64 << 20;

/// Maximum number of requests handled per client in one tick (pass of the event loop).
const MAX_REQUESTS: usize = 16;

/// All connected clients.
#[derive(Default)]
pub struct Clients {
    connections: BTreeMap<Token, Connection>,
    callers: Callers,
    last: Token,
}

struct Connection {
    link: FrameSocket,
    caller: Caller,
    /// The job that must end before the client gets its reply; None if the client does not wait for
    /// the end of a job.
    awaits: Option<JobId>,
    /// Whether the client waits for something other than the end of a job, such as a change of
    /// jobs.
    watches: bool,
    /// Whether reading is paused.
    is_paused: bool,
    /// Monotonic time of the last complete message in either direction.
    active: Span,
}

impl Clients {
    /// Accepts pending connections, within the limits.
    pub fn accept(&mut self, listener: &UnixListener, setup: &Setup) {
        while let Ok((stream, _)) = listener.accept() {
            if let Err(error) = self.admit(stream, setup) {
                tracing::debug!("cannot accept a connection: {error}");
            }
        }
    }

    /// Updates the rights of connected users to a changed configuration.
    pub fn authorize(&mut self, setup: &Setup) {
        self.connections
            .values_mut()
            .for_each(|connection| connection.caller.authorize(setup));
    }

    fn admit(&mut self, stream: UnixStream, setup: &Setup) -> Result<(), FrameError> {
        let caller = self.callers.of(peer::of(&stream)?, setup);
        let mut link = FrameSocket::new(stream)?;
        let same = self
            .connections
            .values()
            .filter(|other| other.caller.owner.uid == caller.owner.uid)
            .count();
        if self.connections.len() >= MAX_CONNECTIONS
            || (same >= MAX_CONNECTIONS_PER_USER && !caller.privileged)
        {
            return link.send(&Reply::Refused(Refusal::spool(
                "too many connections; try again in a moment",
            )));
        }
        self.keep(link, caller);
        Ok(())
    }

    fn keep(&mut self, link: FrameSocket, caller: Caller) -> Token {
        self.last += 1;
        self.connections.insert(
            self.last,
            Connection {
                link,
                caller,
                awaits: None,
                watches: false,
                is_paused: false,
                active: clock::monotonic(),
            },
        );
        self.last
    }

    /// The descriptors to poll for reading, each with whether to poll it for writing, too. Paused
    /// clients are omitted.
    pub fn watched(&self) -> impl Iterator<Item = (Token, BorrowedFd<'_>, bool)> {
        let read = self
            .connections
            .iter()
            .filter(|(_, client)| !client.is_paused);
        read.map(|(&token, client)| (token, client.link.as_fd(), client.link.wants_write()))
    }

    /// Until the next call, pauses reading from clients that send a large message, if `is_full_for`
    /// is true for their user.
    pub fn pause(&mut self, is_full_for: impl Fn(u32) -> bool) {
        for client in self.connections.values_mut() {
            client.is_paused =
                client.link.partial() >= SMALLEST && is_full_for(client.caller.owner.uid);
            if client.is_paused {
                client.active = clock::monotonic();
            }
        }
    }

    /// Whether no client is connected.
    pub fn is_empty(&self) -> bool {
        self.connections.is_empty()
    }

    /// Reads the requests of a client. Drops a client that has disconnected, sends invalid data,
    /// has another protocol version, or exceeds the memory limit for incomplete messages.
    pub fn receive(&mut self, token: Token) -> Vec<(Caller, ClientRequest)> {
        let requests_read = self.read_requests(token);
        if self.exceeds_partial_limit(token) {
            self.connections.remove(&token);
        }
        requests_read
    }

    /// Whether the user of a client exceeds the memory limit for incomplete messages.
    fn exceeds_partial_limit(&self, token: Token) -> bool {
        let Some(client) = self
            .connections
            .get(&token)
            .filter(|client| client.link.partial() > 0)
        else {
            return false;
        };
        let own = self
            .connections
            .values()
            .filter(|other| other.caller.owner.uid == client.caller.owner.uid);
        own.map(|other| other.link.partial()).sum::<usize>() > MAX_PARTIAL
    }

    fn read_requests(&mut self, token: Token) -> Vec<(Caller, ClientRequest)> {
        let Some(client) = self.connections.get_mut(&token) else {
            return Vec::new();
        };
        let received = client
            .link
            .flush()
            .map_err(FrameError::from)
            .and_then(|()| client.link.receive_some::<ClientRequest>(MAX_REQUESTS));
        match received {
            Ok(requests) => {
                if !requests.is_empty() {
                    client.active = clock::monotonic();
                }
                requests
                    .into_iter()
                    .map(|request| (client.caller.clone(), request))
                    .collect()
            }
            Err(error) => {
                if matches!(error, FrameError::Version { .. } | FrameError::Foreign) {
                    client.link.send_version();
                }
                self.connections.remove(&token);
                Vec::new()
            }
        }
    }

    /// Clients with requests that have arrived completely but are not handled yet.
    pub fn pending_clients(&self) -> Vec<Token> {
        self.connections
            .iter()
            .filter(|(_, client)| client.link.has_more() && !client.is_paused)
            .map(|(&token, _)| token)
            .collect()
    }

    /// Sends a reply. A client that does not read its replies is dropped.
    pub fn answer(&mut self, token: Token, reply: &Reply) {
        let _ = fault::point("reply");
        let Some(client) = self.connections.get_mut(&token) else {
            return;
        };
        (client.active, client.watches) = (clock::monotonic(), false);
        if client.link.send(reply).is_err() || client.link.backlog() > MAX_BACKLOG {
            self.connections.remove(&token);
        }
    }

    /// Sends a reply with a copy of a descriptor.
    pub fn answer_with_descriptor(&mut self, token: Token, reply: &Reply, passed: BorrowedFd) {
        let Some(client) = self.connections.get_mut(&token) else {
            return;
        };
        client.active = clock::monotonic();
        if client.link.send_with(reply, passed).is_err() {
            self.connections.remove(&token);
        }
    }

    /// Marks that a client waits for a reply. Until the reply is sent, no timeout applies to the
    /// client, unless it has sent an incomplete message.
    pub fn await_change(&mut self, token: Token) {
        if let Some(client) = self.connections.get_mut(&token) {
            client.watches = true;
        }
    }

    /// Whether a client is still connected.
    pub fn is_connected(&self, token: Token) -> bool {
        self.connections.contains_key(&token)
    }

    /// Records that a client waits for the end of a job.
    pub fn await_end(&mut self, token: Token, job: JobId) {
        if let Some(client) = self.connections.get_mut(&token) {
            client.awaits = Some(job);
        }
    }

    /// Takes the clients that wait for the end of a job.
    pub fn take_awaiting(&mut self, job: JobId) -> Vec<Token> {
        let mut tokens = Vec::new();
        for (&token, client) in &mut self.connections {
            if client.awaits == Some(job) {
                client.awaits = None;
                tokens.push(token);
            }
        }
        tokens
    }

    /// Removes a connection, to pass it to a reader. None if the client is no longer connected, or
    /// if its descriptor cannot be duplicated.
    pub fn detach(&mut self, token: Token) -> Option<(UnixStream, Caller)> {
        let client = self.connections.remove(&token)?;
        let stream = client.link.stream().try_clone().ok()?;
        Some((stream, client.caller))
    }

    /// Takes a connection back from a reader, for further requests. None if the connection is
    /// broken.
    pub fn reattach(&mut self, stream: UnixStream, caller: Caller) -> Option<Token> {
        FrameSocket::new(stream)
            .ok()
            .map(|link| self.keep(link, caller))
    }

    /// Closes connections that have exceeded the idle or the message timeout.
    pub fn expire(&mut self) {
        let now = clock::monotonic();
        self.connections.retain(|_, client| {
            let bound = if client.link.partial() > 0 || client.link.wants_write() {
                MESSAGE_TIMEOUT
            } else {
                IDLE_TIMEOUT
            };
            let waits = client.awaits.is_some() || client.watches;
            (waits && client.link.partial() == 0) || now <= client.active + bound
        });
    }
}
