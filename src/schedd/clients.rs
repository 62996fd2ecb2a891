//! The connections of clients: accepted, read, answered, and bounded in number, size and time.

pub mod callers;
pub mod calls;
pub mod limits;
pub mod listen;
pub mod readers;
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

/// Connections in all, and of one user (root and ourselves excepted).
const MOST: usize = 2000;
const MOST_OF_ONE: usize = 200;
/// A message must have arrived whole after this long.
const SLOWEST: Span = Span::seconds(30);
/// A connection that asks nothing is closed after this long.
const IDLE: Span = Span::seconds(300);
/// A client that reads no answers is let go at this many bytes.
const BACKLOG: usize = 4 << 20;

/// Bytes of unfinished messages that one user's connections may hold together.
const PARTIAL: usize = 64 << 20;

/// What one client may ask in one tick; the rest waits, and so do not the others.
const AT_ONCE: usize = 16;

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
    /// The job whose end it awaits.
    awaits: Option<JobId>,
    /// Whether it awaits a change.
    watches: bool,
    /// Whether it is not read for now.
    is_paused: bool,
    /// When it last said or heard something whole.
    active: Span,
}

impl Clients {
    /// Accepts whoever knocks, within the bounds.
    pub fn accept(&mut self, listener: &UnixListener, setup: &Setup) {
        while let Ok((stream, _)) = listener.accept() {
            if let Err(error) = self.admit(stream, setup) {
                tracing::debug!("a connection was not admitted: {error}");
            }
        }
    }

    /// The configuration may grant the connected other rights than before.
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
        if self.connections.len() >= MOST || (same >= MOST_OF_ONE && !caller.privileged) {
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

    /// What to watch for reading, and whether also for writing.
    pub fn watched(&self) -> impl Iterator<Item = (Token, BorrowedFd<'_>, bool)> {
        let read = self
            .connections
            .iter()
            .filter(|(_, client)| !client.is_paused);
        read.map(|(&token, client)| (token, client.link.as_fd(), client.link.wants_write()))
    }

    /// Reads no more of large messages of these users until it is called again, and lets their
    /// senders wait.
    pub fn pause(&mut self, is_full_for: impl Fn(u32) -> bool) {
        for client in self.connections.values_mut() {
            client.is_paused =
                client.link.partial() >= SMALLEST && is_full_for(client.caller.owner.uid);
            if client.is_paused {
                client.active = clock::monotonic();
            }
        }
    }

    /// Whether anybody is connected.
    pub fn is_empty(&self) -> bool {
        self.connections.is_empty()
    }

    /// What a client has asked. One that is gone, talks nonsense or speaks another version is let
    /// go.
    pub fn receive(&mut self, token: Token) -> Vec<(Caller, ClientRequest)> {
        let heard = self.listen_to(token);
        if self.hoards(token) {
            self.connections.remove(&token);
        }
        heard
    }

    /// Whether this client has begun a message and its user more of them than memory is spared for.
    fn hoards(&self, token: Token) -> bool {
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
        own.map(|other| other.link.partial()).sum::<usize>() > PARTIAL
    }

    fn listen_to(&mut self, token: Token) -> Vec<(Caller, ClientRequest)> {
        let Some(client) = self.connections.get_mut(&token) else {
            return Vec::new();
        };
        let received = client
            .link
            .flush()
            .map_err(FrameError::from)
            .and_then(|()| client.link.receive_some::<ClientRequest>(AT_ONCE));
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

    /// Clients that have asked more than was heard.
    pub fn unheard(&self) -> Vec<Token> {
        self.connections
            .iter()
            .filter(|(_, client)| client.link.has_more() && !client.is_paused)
            .map(|(&token, _)| token)
            .collect()
    }

    /// Answers a client; one that takes no answers is let go.
    pub fn answer(&mut self, token: Token, reply: &Reply) {
        let _ = fault::point("reply");
        let Some(client) = self.connections.get_mut(&token) else {
            return;
        };
        (client.active, client.watches) = (clock::monotonic(), false);
        if client.link.send(reply).is_err() || client.link.backlog() > BACKLOG {
            self.connections.remove(&token);
        }
    }

    /// Answers a client, and gives it a copy of a descriptor with the answer.
    pub fn hand_over(&mut self, token: Token, reply: &Reply, passed: BorrowedFd) {
        let Some(client) = self.connections.get_mut(&token) else {
            return;
        };
        client.active = clock::monotonic();
        if client.link.send_with(reply, passed).is_err() {
            self.connections.remove(&token);
        }
    }

    /// This client is silent because it awaits a change.
    pub fn await_change(&mut self, token: Token) {
        if let Some(client) = self.connections.get_mut(&token) {
            client.watches = true;
        }
    }

    /// Whether this client is connected.
    pub fn is_there(&self, token: Token) -> bool {
        self.connections.contains_key(&token)
    }

    /// Answers a client when this job is over.
    pub fn await_end(&mut self, token: Token, job: JobId) {
        if let Some(client) = self.connections.get_mut(&token) {
            client.awaits = Some(job);
        }
    }

    /// The clients that await the end of this job; they no longer do.
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

    /// Hands a connection over to a reader, until it comes back.
    pub fn take(&mut self, token: Token) -> Option<(UnixStream, Caller)> {
        let client = self.connections.remove(&token)?;
        let stream = client.link.stream().try_clone().ok()?;
        Some((stream, client.caller))
    }

    /// Takes a connection back from a reader: it may ask for more. None for a broken one.
    pub fn take_back(&mut self, stream: UnixStream, caller: Caller) -> Option<Token> {
        FrameSocket::new(stream)
            .ok()
            .map(|link| self.keep(link, caller))
    }

    /// Lets go of those that have been silent too long.
    pub fn expire(&mut self) {
        let now = clock::monotonic();
        self.connections.retain(|_, client| {
            let bound = if client.link.partial() > 0 || client.link.wants_write() {
                SLOWEST
            } else {
                IDLE
            };
            let waits = client.awaits.is_some() || client.watches;
            (waits && client.link.partial() == 0) || now <= client.active + bound
        });
    }
}
