//! A client's connection to schedd.

use super::frame::{self, FrameError};
use super::message::{ClientAnswer, ClientRequest, Question, Reply, WatchedJobs};
use super::peer;
use crate::model::time::Span;
use crate::sys::home::Home;
use crate::sys::{clock, daemon, record, socket};
use std::io::{self, ErrorKind};
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// Maximum number of repetitions of a request that schedd did not read before it ended.
const RETRIES: usize = 5;
/// Maximum number of starts of schedd, if each exits before it can be reached.
const STARTS: usize = 3;

/// Maximum wait for a new schedd after one that exited without answering a change.
const PATIENCE: Span = Span::seconds(20);
/// Delay between two attempts to reach a schedd.
const PAUSE: Duration = Duration::from_millis(100);

/// A connection to schedd.
#[derive(Debug)]
pub struct Client {
    stream: UnixStream,
    home: Home,
    /// Whether a lost connection may start schedd again.
    may_start: bool,
    /// Time limit of a single read or write.
    patience: Option<Duration>,
}

/// Error of a request without an answer.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// No server listens, or the connection was lost; the text has the cause.
    #[error("{0}")]
    Unreachable(String),
    /// The peer uses another protocol or is not trusted, or it refused the request.
    #[error("{0}")]
    Protocol(String),
}

impl From<FrameError> for ClientError {
    fn from(error: FrameError) -> ClientError {
        match error {
            FrameError::Closed | FrameError::Io(_) => {
                ClientError::Unreachable(unknown(&error.to_string()))
            }
            error => ClientError::Protocol(format!("schedd: {error}")),
        }
    }
}

/// The message for a request without an answer.
fn unknown(error: &str) -> String {
    format!("no answer from schedd ({error}); check with qstat whether it accepted the request")
}

/// Whether the reader of an answer needs more of its parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Continue {
    /// Continue.
    Wanted,
    /// Stop.
    Enough,
}

impl Client {
    /// Connects to the schedd of `home`. In a personal installation starts it if needed.
    pub fn connect(home: &Home) -> Result<Client, ClientError> {
        let mut started = None;
        for _ in 0..STARTS {
            match Client::reach(home) {
                // A schedd that was running a moment ago may have exited.
                Err(ClientError::Unreachable(_)) if may_start(home) => {
                    started = Some(Client::start(home)?)
                }
                other => {
                    return Ok(Client {
                        may_start: true,
                        ..other?
                    });
                }
            }
        }
        let client = Client::reach(home).map_err(|error| started.unwrap_or(error))?;
        Ok(Client {
            may_start: true,
            ..client
        })
    }

    /// Starts schedd and waits until it serves. Returns the error to report if it cannot be reached
    /// afterwards.
    fn start(home: &Home) -> Result<ClientError, ClientError> {
        let started = daemon::start_and_wait("schedd", &["--foreground", "--ready"], home);
        started
            .map_err(|error| {
                ClientError::Unreachable(format!("schedd cannot be started: {error:#}"))
            })
            .map(drop)?;
        Ok(ClientError::Unreachable(format!(
            "schedd was started but exited; see {}",
            home.log("schedd").display()
        )))
    }

    /// Connects to the schedd of `home`, if one is running. This client never starts one.
    pub fn reach(home: &Home) -> Result<Client, ClientError> {
        let path = record::read(home)
            .map_or_else(|| home.runtime.join("schedd.sock"), |record| record.socket);
        let (stream, server) = connected(&path)
            .map_err(|error| ClientError::Unreachable(format!("{}: {error}", path.display())))?;
        // Any user who can create this path can also listen on it.
        if trusted(home).contains(&server) {
            Ok(Client {
                stream,
                home: home.clone(),
                may_start: false,
                patience: None,
            })
        } else {
            Err(ClientError::Protocol(format!(
                "{} is served by user {server}, who is not trusted",
                path.display()
            )))
        }
    }

    /// Sends a request and waits for its single reply.
    pub fn call(&mut self, request: &ClientRequest) -> Result<Reply, ClientError> {
        let mut may_be_done = false;
        for _ in 0..RETRIES {
            match self.try_call(request) {
                Err(error) if is_unread(&error) => {}
                Err(FrameError::Closed) if request.is_repeatable() => {
                    may_be_done |= request.is_change()
                }
                other => return Ok(other?),
            }
            *self = if may_be_done {
                self.connect_again()?
            } else {
                self.new_connection()?
            };
        }
        Ok(self.try_call(request)?)
    }

    /// Connects to the successor of a schedd that exited without answering a change: the successor
    /// can tell whether the change was made.
    fn connect_again(&self) -> Result<Client, ClientError> {
        let end = clock::monotonic() + PATIENCE;
        loop {
            match self.new_connection() {
                Err(ClientError::Unreachable(_)) if clock::monotonic() < end => clock::sleep(PAUSE),
                Err(ClientError::Unreachable(why)) => {
                    return Err(ClientError::Unreachable(unknown(&why)));
                }
                other => return other,
            }
        }
    }

    /// A new connection with the same settings.
    fn new_connection(&self) -> Result<Client, ClientError> {
        let mut client = if self.may_start {
            Client::connect(&self.home)?
        } else {
            Client::reach(&self.home)?
        };
        if let Some(patience) = self.patience {
            client.set_timeout(patience);
        }
        Ok(client)
    }

    fn try_call(&mut self, request: &ClientRequest) -> Result<Reply, FrameError> {
        match frame::write(&mut self.stream, request) {
            // A server that closes the connection during the request may have sent the reason.
            Err(error) if is_unread(&error) => match frame::read(&mut self.stream) {
                Err(why @ FrameError::Version { .. }) => Err(why),
                reply => reply.or(Err(error)),
            },
            Err(error) => Err(error),
            Ok(()) => frame::read(&mut self.stream),
        }
    }

    /// Sends a query and passes each part of the answer to `each`. After `each` has returned
    /// [`Continue::Enough`], call [`Client::reconnect`] before the next request.
    pub fn ask(
        &mut self,
        question: &Question,
        mut each: impl FnMut(ClientAnswer) -> Continue,
    ) -> Result<(), ClientError> {
        let mut reply = self.call(&ClientRequest::Ask(question.clone()))?;
        loop {
            match reply {
                Reply::Part(part) => match each(part) {
                    Continue::Wanted => {}
                    Continue::Enough => return Ok(()),
                },
                Reply::Done => return Ok(()),
                Reply::Refused(refusal) => return Err(ClientError::Protocol(refusal.text)),
                other => {
                    return Err(ClientError::Protocol(format!(
                        "schedd sent an unexpected answer: {other:?}"
                    )));
                }
            }
            reply = frame::read(&mut self.stream)?;
        }
    }

    /// Waits for a change of these jobs after `seen`. Returns the number to pass the next time.
    pub fn watch(&mut self, of: &WatchedJobs, seen: u64) -> Result<u64, ClientError> {
        self.begin(&ClientRequest::Watch {
            of: of.clone(),
            since: seen,
        })?;
        self.changed()
    }

    /// Sends a request without waiting: the reply has arrived when [`Client::stream`] is readable.
    pub fn begin(&mut self, request: &ClientRequest) -> Result<(), ClientError> {
        Ok(frame::write(&mut self.stream, request)?)
    }

    /// The reply to [`Client::begin`].
    pub fn reply(&mut self) -> Result<Reply, ClientError> {
        Ok(frame::read(&mut self.stream)?)
    }

    /// The reply to a [`ClientRequest::Watch`].
    pub fn changed(&mut self) -> Result<u64, ClientError> {
        match self.reply()? {
            Reply::Changed { seen } => Ok(seen),
            Reply::Refused(refusal) => Err(ClientError::Protocol(refusal.text)),
            other => Err(ClientError::Protocol(format!(
                "schedd sent an unexpected answer: {other:?}"
            ))),
        }
    }

    /// Sends a request, and receives a descriptor with the reply.
    pub fn call_for_descriptor(
        &mut self,
        request: &ClientRequest,
    ) -> Result<(Reply, Option<OwnedFd>), ClientError> {
        frame::write(&mut self.stream, request)?;
        Ok(frame::read_with(&self.stream)?)
    }

    /// Limits how long a read or a write may take, also after a reconnect.
    pub fn set_timeout(&mut self, patience: Duration) {
        self.patience = Some(patience);
        let _ = self.stream.set_read_timeout(Some(patience));
        let _ = self.stream.set_write_timeout(Some(patience));
    }

    /// Reconnects after an answer that was not read to its end.
    pub fn reconnect(&mut self) -> Result<(), ClientError> {
        *self = self.new_connection()?;
        Ok(())
    }

    /// The socket, for polling.
    pub fn stream(&self) -> &UnixStream {
        &self.stream
    }
}

/// Whether the kernel reports that schedd ended without reading the request. Then nothing was done,
/// and the request may be sent to the next schedd. (A plain end of the stream leaves that
/// open.)
fn is_unread(error: &FrameError) -> bool {
    matches!(error, FrameError::Io(error) if matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset))
}

/// A connection to this socket, and the user that listens there.
fn connected(path: &Path) -> io::Result<(UnixStream, u32)> {
    let stream = socket::connect(path)?;
    let server = peer::of(&stream)?.uid();
    Ok((stream, server))
}

/// Users that may run the schedd of this installation: this user, root, and the owner of the
/// installation.
fn trusted(home: &Home) -> Vec<u32> {
    let owner = std::fs::metadata(&home.state).map(|metadata| metadata.uid());
    [0, nix::unistd::geteuid().as_raw()]
        .into_iter()
        .chain(owner)
        .collect()
}

/// Whether this user may start a schedd here: no other user owns the spool.
fn may_start(home: &Home) -> bool {
    let own = nix::unistd::geteuid().as_raw();
    !home.system && std::fs::metadata(home.spool()).map_or(true, |metadata| metadata.uid() == own)
}
