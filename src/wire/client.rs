//! A client's side of the conversation with schedd.

use super::message::{Reply, Request};
use crate::sys::home::Home;

/// A connection to schedd.
pub struct Client {}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// Nobody listens; the text says where and what to do.
    #[error("{0}")]
    Unreachable(String),
    /// Somebody answers, but not in our terms.
    #[error("{0}")]
    Protocol(String),
}

impl Client {
    /// Connects to the schedd of `home`; in a personal installation starts it if need be.
    pub fn connect(home: &Home) -> Result<Client, ClientError> {
        let _ = home;
        todo!()
    }

    /// Asks and waits for the one reply.
    pub fn call(&mut self, request: &Request) -> Result<Reply, ClientError> {
        let _ = request;
        todo!()
    }
}
