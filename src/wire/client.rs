//! Connection of a client, such as qstat, to schedd.

use super::frame::{self, FrameError};
use super::message::{ClientAnswer, ClientRequest, Question, Reply, VERSION, WatchedJobs};
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

/// Maximum number of repetitions of a request, if each time schedd exits without answering it.
const RETRIES: usize = 5;
/// Maximum number of starts of schedd, if each time schedd exits before the client can connect.
const STARTS: usize = 3;

/// Maximum time to wait for a new schedd, after schedd exited without answering a request for a
/// change.
const PATIENCE: Span = Span::seconds(20);
/// Delay between two attempts to connect to schedd.
const PAUSE: Duration = Duration::from_millis(100);

/// A connection to schedd.
#[derive(Debug)]
pub struct Client {
    stream: UnixStream,
    home: Home,
    /// True if the client may start schedd again after the connection is lost.
    may_start: bool,
    /// Time limit of a single read or write.
    patience: Option<Duration>,
}

/// Error of a request for which the client got no usable answer.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// schedd does not run, or the connection was lost. The text contains the cause.
    #[error("{0}")]
    Unreachable(String),
    /// The process at the other end uses another protocol, is not trusted, sent a wrong reply, or
    /// refused the request.
    #[error("{0}")]
    Protocol(String),
}

impl From<FrameError> for ClientError {
    fn from(error: FrameError) -> ClientError {
        match error {
            FrameError::Closed | FrameError::Io(_) => {
                ClientError::Unreachable(unanswered(&error.to_string()))
            }
            FrameError::Version { theirs } => ClientError::Protocol(other_version(theirs)),
            error => ClientError::Protocol(format!("schedd: {error}")),
        }
    }
}

/// Returns the message for a schedd with another protocol version, with the remedy.
fn other_version(theirs: u16) -> String {
    let remedy = if theirs < VERSION {
        "schedd was started before an upgrade; run schedd --stop and repeat the command (in a \
         shared installation: systemctl restart schedd noded); jobs continue"
    } else {
        "this command is older than schedd; run the commands that were installed with schedd"
    };
    format!(
        "schedd uses protocol version {theirs}, and this command uses version {VERSION}: {remedy}"
    )
}

/// Returns the message for a request that was sent but not answered.
fn unanswered(error: &str) -> String {
    format!("no answer from schedd ({error}); check with qstat whether it accepted the request")
}

/// Returns the error for a reply that does not belong to the request.
fn unexpected_answer() -> ClientError {
    ClientError::Protocol("schedd sent an answer that does not belong to the request".to_string())
}

/// Result of reading a part of an answer: whether the reader needs further parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Continue {
    /// The reader needs further parts.
    Wanted,
    /// The reader needs no further parts.
    Enough,
}

impl Client {
    /// Connects to the schedd of the installation `home`. Starts schedd if it does not run, unless
    /// the installation is shared or another user owns the spool.
    pub fn connect(home: &Home) -> Result<Client, ClientError> {
        let mut started = None;
        for _ in 0..STARTS {
            match Client::reach(home) {
                // schedd does not run, or has exited after it was started.
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

    /// Starts schedd and waits until it accepts connections. On success, returns the error to
    /// report if the client still cannot connect.
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

    /// Connects to the running schedd of the installation `home`. The returned client never starts
    /// schedd.
    pub fn reach(home: &Home) -> Result<Client, ClientError> {
        let path = record::read(home)
            .map_or_else(|| home.runtime.join("schedd.sock"), |record| record.socket);
        let (stream, server) = connect_to(&path)
            .map_err(|error| ClientError::Unreachable(format!("{}: {error}", path.display())))?;
        // Any user who can create this path can listen on the socket, so check the listener's uid.
        if trusted_uids(home).contains(&server) {
            Ok(Client {
                stream,
                home: home.clone(),
                may_start: false,
                patience: None,
            })
        } else {
            Err(ClientError::Protocol(format!(
                "{} is served by uid {server}, which is not trusted",
                path.display()
            )))
        }
    }

    /// Sends a request and waits for its first reply. If schedd exits without answering, repeats
    /// the request on a new connection, but only if schedd has not read the request, or if a
    /// repetition has no further effect.
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

    /// Connects to a new schedd, after schedd exited without answering a request for a change. The
    /// new schedd recognizes a repeated request.
    fn connect_again(&self) -> Result<Client, ClientError> {
        let end = clock::monotonic() + PATIENCE;
        loop {
            match self.new_connection() {
                Err(ClientError::Unreachable(_)) if clock::monotonic() < end => clock::sleep(PAUSE),
                Err(ClientError::Unreachable(why)) => {
                    return Err(ClientError::Unreachable(unanswered(&why)));
                }
                other => return other,
            }
        }
    }

    /// Creates a new connection with the settings of this client.
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
            // If schedd closes the connection during the request, it can have sent the reason
            // before that.
            Err(error) if is_unread(&error) => match frame::read(&mut self.stream) {
                Err(why @ FrameError::Version { .. }) => Err(why),
                reply => reply.or(Err(error)),
            },
            Err(error) => Err(error),
            Ok(()) => frame::read(&mut self.stream),
        }
    }

    /// Sends a query and passes each part of the answer to `each`. If `each` returns
    /// [`Continue::Enough`], the caller must call [`Client::reconnect`] before the next request.
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
                _ => return Err(unexpected_answer()),
            }
            reply = frame::read(&mut self.stream)?;
        }
    }

    /// Waits for a change of these jobs after the change number `seen`. Returns the number to pass
    /// in the next call.
    pub fn watch(&mut self, of: &WatchedJobs, seen: u64) -> Result<u64, ClientError> {
        self.begin(&ClientRequest::Watch {
            of: of.clone(),
            since: seen,
        })?;
        self.changed()
    }

    /// Sends a request without waiting for the reply. [`Client::stream`] is readable when the reply
    /// has arrived.
    pub fn begin(&mut self, request: &ClientRequest) -> Result<(), ClientError> {
        Ok(frame::write(&mut self.stream, request)?)
    }

    /// Waits for the reply to a request of [`Client::begin`].
    pub fn reply(&mut self) -> Result<Reply, ClientError> {
        Ok(frame::read(&mut self.stream)?)
    }

    /// Waits for the reply to a [`ClientRequest::Watch`].
    pub fn changed(&mut self) -> Result<u64, ClientError> {
        match self.reply()? {
            Reply::Changed { seen } => Ok(seen),
            Reply::Refused(refusal) => Err(ClientError::Protocol(refusal.text)),
            _ => Err(unexpected_answer()),
        }
    }

    /// Sends a request and waits for its reply, which can come with a file descriptor.
    pub fn call_for_descriptor(
        &mut self,
        request: &ClientRequest,
    ) -> Result<(Reply, Option<OwnedFd>), ClientError> {
        frame::write(&mut self.stream, request)?;
        Ok(frame::read_with(&self.stream)?)
    }

    /// Sets the time limit of a single read or write. It also applies after a reconnect.
    pub fn set_timeout(&mut self, patience: Duration) {
        self.patience = Some(patience);
        let _ = self.stream.set_read_timeout(Some(patience));
        let _ = self.stream.set_write_timeout(Some(patience));
    }

    /// Reconnects, because an answer was not read to its end.
    pub fn reconnect(&mut self) -> Result<(), ClientError> {
        *self = self.new_connection()?;
        Ok(())
    }

    /// Returns the socket, for polling.
    pub fn stream(&self) -> &UnixStream {
        &self.stream
    }
}

/// Tests whether the kernel reports that schedd exited without reading the request. In this case,
/// schedd has not executed the request, so the client can send it to a new schedd. After a plain
/// end of the stream, it is unknown whether schedd has executed the request.
fn is_unread(error: &FrameError) -> bool {
    matches!(error, FrameError::Io(error) if matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset))
}

/// Connects to a socket. Also returns the uid of the process that listens there.
fn connect_to(path: &Path) -> io::Result<(UnixStream, u32)> {
    let stream = socket::connect(path)?;
    let server = peer::of(&stream)?.uid();
    Ok((stream, server))
}

/// Returns the uids that may run the schedd of this installation: root, this user, and the owner of
/// the installation.
fn trusted_uids(home: &Home) -> Vec<u32> {
    let owner = std::fs::metadata(&home.state).map(|metadata| metadata.uid());
    [0, nix::unistd::geteuid().as_raw()]
        .into_iter()
        .chain(owner)
        .collect()
}

/// Tests whether this user may start schedd: the installation is not shared, and no other user owns
/// the spool.
fn may_start(home: &Home) -> bool {
    let own = nix::unistd::geteuid().as_raw();
    !home.system && std::fs::metadata(home.spool()).map_or(true, |metadata| metadata.uid() == own)
}
