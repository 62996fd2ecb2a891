//! The connection of `qsub -I` to the terminal of its job.
//!
//! schedd opens a second connection to the job's noded (a call) and names the attempt. Once noded
//! has accepted the call, schedd passes this connection to the client. Session data then bypasses
//! schedd, and the session survives schedd's exit.

use crate::model::time::Span;
use crate::server::effects::Token;
use crate::sys::{clock, socket};
use crate::wire::frame::{FrameError, FrameSocket};
use crate::wire::order::{NodeReport, ScheddOrder};
use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;

/// Maximum time for noded to accept a call.
const ACCEPT_TIMEOUT: Span = Span::seconds(10);
/// Maximum number of calls that noded has not accepted yet.
const MAX_CALLS: usize = 8;

/// The calls that noded has not accepted yet, by client.
#[derive(Default)]
pub struct Calls {
    calls: BTreeMap<Token, Call>,
}

struct Call {
    link: FrameSocket,
    until: Span,
}

impl Calls {
    /// Connects to a noded for a client, and sends `order` to the noded.
    pub fn begin(
        &mut self,
        client: Token,
        noded: &Path,
        order: &ScheddOrder,
    ) -> Result<(), FrameError> {
        if self.calls.len() >= MAX_CALLS {
            let why = "too many clients are connecting to terminals of jobs; try again in a moment";
            return Err(io::Error::other(why).into());
        }
        let mut link = FrameSocket::new(socket::connect_nonblocking(noded)?)?;
        link.send(order)?;
        self.calls.insert(
            client,
            Call {
                link,
                until: clock::monotonic() + ACCEPT_TIMEOUT,
            },
        );
        Ok(())
    }

    /// The descriptors to poll for reading.
    pub fn watched(&self) -> impl Iterator<Item = (Token, BorrowedFd<'_>)> {
        self.calls
            .iter()
            .map(|(&client, call)| (client, call.link.as_fd()))
    }

    /// The accepted connection for a client, or the error. None while noded has not replied.
    pub fn poll(&mut self, client: Token) -> Option<Result<UnixStream, String>> {
        let call = self.calls.get_mut(&client)?;
        let received = call
            .link
            .flush()
            .map_err(FrameError::from)
            .and_then(|()| call.link.receive::<NodeReport>());
        let accepted = match received {
            Ok(reports) => reports
                .first()
                .map(|report| matches!(report, NodeReport::Attached))?,
            Err(_) => false,
        };
        let call = self.calls.remove(&client);
        let stream = match call {
            Some(call) if accepted => call.link.into_stream(),
            _ => None,
        };
        Some(stream.ok_or_else(|| "the job's node refused the connection".to_string()))
    }

    /// Removes the calls that were not accepted in time, and returns their clients.
    pub fn expired(&mut self) -> Vec<Token> {
        let now = clock::monotonic();
        let late: Vec<Token> = self
            .calls
            .iter()
            .filter(|(_, call)| call.until <= now)
            .map(|(&token, _)| token)
            .collect();
        self.calls.retain(|_, call| call.until > now);
        late
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::job_id::JobId;
    use crate::wire::frame;
    use std::io::{Read, Write};

    #[test]
    fn an_accepted_call_returns_a_connection_and_a_closed_call_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("noded.sock");
        let listener = socket::bind(&path, 0o600).unwrap();
        let order = ScheddOrder::Attach {
            epoch: 1,
            job: JobId::job(1),
            attempt: 1,
        };
        let mut calls = Calls::default();
        calls.begin(7, &path, &order).unwrap();
        calls.begin(8, &path, &order).unwrap();
        assert!(calls.poll(7).is_none());
        let (mut noded, _) = listener.accept().unwrap();
        assert!(matches!(
            frame::read::<ScheddOrder>(&mut noded).unwrap(),
            ScheddOrder::Attach { attempt: 1, .. }
        ));
        frame::write(&mut noded, &NodeReport::Attached).unwrap();
        let mut connection = calls.poll(7).unwrap().unwrap();
        connection.set_nonblocking(false).unwrap();
        noded.write_all(b"x").unwrap();
        let mut byte = [0];
        connection.read_exact(&mut byte).unwrap();
        drop(listener.accept().unwrap());
        assert!(calls.poll(8).unwrap().is_err());
        assert_eq!(calls.watched().count(), 0);
    }
}
