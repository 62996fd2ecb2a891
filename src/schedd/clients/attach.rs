//! Connecting `qsub -I` to the terminal of its job.
//!
//! schedd dials the noded once more and says for which attempt; when noded has accepted, the
//! client is handed that connection, and schedd is out of the way: no byte of a session passes
//! through it, and its end ends none.

use crate::model::job::Attempt;
use crate::model::job_id::JobId;
use crate::model::refusal::Refusal;
use crate::model::time::Span;
use crate::schedd::Schedd;
use crate::server::caller::Caller;
use crate::server::effects::Token;
use crate::sys::{clock, socket};
use crate::wire::frame::{FrameError, FrameSocket};
use crate::wire::message::Reply;
use crate::wire::order::{NodeReport, ScheddOrder};
use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;

/// How long a noded may take to accept, and how many may be about it at once.
const PATIENCE: Span = Span::seconds(10);
const MOST: usize = 8;

/// Connections that no noded has accepted yet, by the client each is for.
#[derive(Default)]
pub struct Calls {
    calls: BTreeMap<Token, Call>,
}

struct Call {
    link: FrameSocket,
    until: Span,
}

impl Calls {
    /// Dials.
    fn begin(
        &mut self,
        client: Token,
        noded: &Path,
        order: &ScheddOrder,
    ) -> Result<(), FrameError> {
        if self.calls.len() >= MOST {
            return Err(io::Error::other("too many terminals are asked for at once").into());
        }
        let mut link = FrameSocket::new(socket::knock(noded)?)?;
        link.send(order)?;
        self.calls.insert(
            client,
            Call {
                link,
                until: clock::monotonic() + PATIENCE,
            },
        );
        Ok(())
    }

    /// What to watch for reading.
    pub fn watched(&self) -> impl Iterator<Item = (Token, BorrowedFd<'_>)> {
        self.calls
            .iter()
            .map(|(&client, call)| (client, call.link.as_fd()))
    }

    /// What noded says to the call for this client; None for nothing yet.
    fn hear(&mut self, client: Token) -> Option<Result<UnixStream, String>> {
        let call = self.calls.get_mut(&client)?;
        let heard = call
            .link
            .flush()
            .map_err(FrameError::from)
            .and_then(|()| call.link.receive::<NodeReport>());
        let accepted = match heard {
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
        Some(stream.ok_or_else(|| "its node does not accept it".to_string()))
    }

    /// The clients whose calls were not accepted in time.
    fn expired(&mut self) -> Vec<Token> {
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

impl Schedd {
    /// Only the job's owner sits down at its terminal, whoever else may act on the job.
    pub(in crate::schedd) fn attach(&mut self, token: Token, caller: &Caller, id: JobId) {
        let begun = self.terminal_of(caller, id).and_then(|(node, attempt)| {
            let noded = self
                .nodes
                .socket_of(&node)
                .ok_or_else(|| not_now("its node does not answer"))?;
            let order = ScheddOrder::Attach {
                epoch: self.nodes.epoch(),
                job: id,
                attempt,
            };
            self.calls.begin(token, noded, &order).map_err(not_now)
        });
        if let Err(refusal) = begun {
            self.clients.answer(token, &Reply::Refused(refusal));
        }
    }

    fn terminal_of(&self, caller: &Caller, id: JobId) -> Result<(String, Attempt), Refusal> {
        let job = self.server.job(id).ok_or_else(Refusal::unknown_job)?;
        if !caller.owner.is_same_account(&job.owner) {
            return Err(Refusal::unauthorized());
        }
        let run = job
            .life
            .open_run()
            .filter(|run| run.session.is_some() && job.spec.interactive);
        let run = run.ok_or_else(Refusal::bad_state)?;
        Ok((
            job.script_node().unwrap_or_default().to_string(),
            run.attempt,
        ))
    }

    /// Hands a connection over to its client once noded has accepted it.
    pub(in crate::schedd) fn hear_call(&mut self, token: Token) {
        match self.calls.hear(token) {
            None => {}
            Some(Ok(stream)) => self
                .clients
                .hand_over(token, &Reply::Attached, stream.as_fd()),
            Some(Err(why)) => self.clients.answer(token, &Reply::Refused(not_now(why))),
        }
    }

    pub(in crate::schedd) fn end_late_calls(&mut self) {
        for token in self.calls.expired() {
            self.clients
                .answer(token, &Reply::Refused(not_now("its node does not answer")));
        }
    }
}

fn not_now(why: impl std::fmt::Display) -> Refusal {
    Refusal::no_terminal(&why.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::frame;
    use std::io::{Read, Write};

    #[test]
    fn an_accepted_call_is_a_connection_and_a_refused_one_a_reason() {
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
        assert!(calls.hear(7).is_none());
        let (mut noded, _) = listener.accept().unwrap();
        assert!(matches!(
            frame::read::<ScheddOrder>(&mut noded).unwrap(),
            ScheddOrder::Attach { attempt: 1, .. }
        ));
        frame::write(&mut noded, &NodeReport::Attached).unwrap();
        let mut connection = calls.hear(7).unwrap().unwrap();
        connection.set_nonblocking(false).unwrap();
        noded.write_all(b"x").unwrap();
        let mut byte = [0];
        connection.read_exact(&mut byte).unwrap();
        drop(listener.accept().unwrap());
        assert!(calls.hear(8).unwrap().is_err());
        assert_eq!(calls.watched().count(), 0);
    }
}
